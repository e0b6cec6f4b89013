//! What the report draws: latency by freshness, staleness of answers and of stages, the pipeline.

use lazybase_model::Freshness;

use super::super::questions::{LEVELS, Question};
use super::super::stats::{PipelineSample, Sample};
use super::svg::{Plot, Scale, tick_text};
use crate::figures::{micros, quantile};

/// The dots of a plot: more make the file heavy and the picture no clearer.
const DOTS_MAX: usize = 1_000;
/// The looks at the pipeline that a plot shows: more than it has points across.
const LOOKS_MAX: usize = 500;

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1e3
}

fn seconds_text(seconds: f64) -> String {
    format!("{} s", tick_text(seconds))
}

fn millis_text(millis: f64) -> String {
    match millis {
        1_000.0.. => seconds_text(millis / 1e3),
        _ => format!("{} ms", tick_text(millis)),
    }
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

fn thinned<T>(samples: &[T], wanted: usize) -> impl Iterator<Item = &T> {
    let step = samples.len().div_ceil(wanted).max(1);
    samples.iter().step_by(step)
}

/// The freshness levels as the columns of a plot.
fn level_names() -> Vec<String> {
    LEVELS.iter().map(ToString::to_string).collect()
}

/// The axis that all plots of latency share, so that they can be compared.
pub(super) fn latency_scale(samples: &[Sample]) -> Scale {
    let all = || samples.iter().map(|sample| millis(sample.latency_us));
    Scale::log(all().fold(1.0, f64::min).max(0.01), most(all()).max(1.0))
}

/// How long each answer to one question took, by the freshness asked.
pub(super) fn latency(samples: &[Sample], question: Question, scale: Scale) -> String {
    let mut plot = Plot::with_columns(
        &level_names(),
        "freshness asked",
        scale,
        "latency",
        millis_text,
    );
    let of_question: Vec<&Sample> = samples
        .iter()
        .filter(|sample| sample.question == question)
        .collect();
    plot.dots(thinned(&of_question, DOTS_MAX).map(|sample| {
        // Spread by the time of the answer, so that dots do not hide each other.
        let spread = 0.14 + 0.72 * (sample.at_us % 1_009) as f64 / 1_009.0;
        (sample.level as f64 + spread, millis(sample.latency_us))
    }));
    for level in 0..LEVELS.len() {
        let of_level = of_question.iter().filter(|sample| sample.level == level);
        let mut all: Vec<u64> = of_level.map(|sample| sample.latency_us).collect();
        if !all.is_empty() {
            let median = quantile(&mut all, 0.5);
            plot.mark(level, millis(median), &micros(median));
        }
    }
    plot.svg(&format!(
        "Latency of {:?} by freshness asked",
        question.name()
    ))
}

/// The axes that all plots of the answers' staleness share.
pub(super) fn staleness_scales(samples: &[Sample]) -> (Scale, Scale) {
    let end = most(samples.iter().map(|sample| seconds(sample.at_us)));
    let top = most(samples.iter().map(|sample| seconds(sample.staleness_us)));
    // One second is the least bound that is asked: it shall be in sight.
    (Scale::until(end), Scale::linear(top.max(1.2)))
}

/// How stale each answer of one freshness was, under what it had asked for.
pub(super) fn staleness(samples: &[Sample], level: usize, (x, y): (Scale, Scale)) -> String {
    let mut plot = Plot::new(x, y, "seconds since the start", "stale by", seconds_text);
    let of_level: Vec<&Sample> = samples
        .iter()
        .filter(|sample| sample.level == level)
        .collect();
    plot.dots(
        thinned(&of_level, DOTS_MAX)
            .map(|sample| (seconds(sample.at_us), seconds(sample.staleness_us))),
    );
    if let Freshness::Within(bound) = LEVELS[level]
        && !bound.is_zero()
    {
        plot.limit(bound.as_secs_f64(), "asked: no staler");
    }
    plot.svg(&format!(
        "Staleness of answers that asked {}",
        LEVELS[level]
    ))
}

/// How stale sorted data, merged data and the authority are.
pub(super) fn stage_staleness(samples: &[PipelineSample]) -> String {
    let end = most(samples.iter().map(|sample| seconds(sample.at_us)));
    let all = samples.iter().flat_map(|sample| sample.staleness_us);
    let (x, y) = (Scale::until(end), Scale::linear(most(all.map(seconds))));
    let mut plot = Plot::new(x, y, "seconds since the start", "stale by", seconds_text);
    // The stalest first and widest: where two agree, both show.
    for (stage, name, width) in [(2, "authority", 6), (1, "merged", 3), (0, "sorted", 2)] {
        let points = thinned(samples, LOOKS_MAX)
            .map(|sample| (seconds(sample.at_us), seconds(sample.staleness_us[stage])));
        plot.line(points, name, width);
    }
    plot.svg("Staleness of each stage over time")
}

/// SCUs in each stage, stacked, the authority at the bottom and the open SCU on top.
pub(super) fn pipeline(samples: &[PipelineSample]) -> String {
    let layers: Vec<(f64, [f64; 6])> = thinned(samples, LOOKS_MAX)
        .map(|sample| (seconds(sample.at_us), stacked(sample)))
        .collect();
    let x = Scale::until(most(layers.iter().map(|(at, _)| *at)));
    let y = Scale::linear(most(layers.iter().map(|(_, sums)| sums[5])).max(1.0));
    let mut plot = Plot::new(x, y, "seconds since the start", "SCUs", tick_text);
    let names = ["authority", "merged", "sorted", "ingested", "open"];
    for (layer, name) in names.into_iter().enumerate() {
        let points: Vec<(f64, f64, f64)> = layers
            .iter()
            .map(|(at, sums)| (*at, sums[layer], sums[layer + 1]))
            .collect();
        plot.area(&points, name);
    }
    plot.svg("SCUs in each stage over time")
}

/// Sums from the authority up, beginning at nothing.
fn stacked(sample: &PipelineSample) -> [f64; 6] {
    let [ingested, sorted, merged, authority] = sample.scus;
    let open = u64::from(sample.open_batches > 0);
    let mut sums = [0.0; 6];
    for (at, count) in [authority, merged, sorted, ingested, open]
        .into_iter()
        .enumerate()
    {
        sums[at + 1] = sums[at] + count as f64;
    }
    sums
}
