//! What was measured, and its summary by freshness asked; no I/O.

use std::collections::BTreeMap;

use lazybase_model::{SourceCounts, Stage, Stamp};
use serde::Serialize;

use super::questions::{LEVELS, Question};
use crate::figures::{as_micros, bytes, micros, quantile, thousands};
use crate::render::print_rows;

/// One answer.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Microseconds since the replay began, at the answer.
    pub(super) at_us: u64,
    pub(super) question: Question,
    /// Which of [`LEVELS`].
    pub(super) level: usize,
    pub(super) latency_us: u64,
    pub(super) staleness_us: u64,
    pub(super) left_out: u64,
    pub(super) sources: SourceCounts,
}

impl Sample {
    /// An answer with its stamp.
    pub(super) fn new(
        at_us: u64,
        question: Question,
        level: usize,
        latency_us: u64,
        stamp: &Stamp,
    ) -> Sample {
        Sample {
            at_us,
            question,
            level,
            latency_us,
            staleness_us: as_micros(stamp.staleness),
            left_out: stamp.batches_left_out,
            sources: stamp.sources,
        }
    }
}

/// The pipeline at one moment.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct PipelineSample {
    /// Microseconds since the replay began.
    pub(super) at_us: u64,
    /// Changes acknowledged so far.
    pub(super) changes: u64,
    /// Batches of the open SCU, about.
    pub(super) open_batches: u64,
    /// SCUs ingested, sorted, merged, in the authority.
    pub(super) scus: [u64; 4],
    /// How stale answers from each stage on are: sorted, merged, authority.
    pub(super) staleness_us: [u64; 3],
}

/// Answers of one freshness.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct LevelSummary {
    pub(super) asked: String,
    pub(super) queries: u64,
    pub(super) staleness_median_us: u64,
    pub(super) staleness_max_us: u64,
    pub(super) latency_median_us: u64,
    pub(super) latency_p99_us: u64,
    /// In how many answers each stage was read.
    pub(super) stages: BTreeMap<&'static str, u64>,
    /// Acknowledged batches that an answer left out.
    pub(super) left_out_median: u64,
    /// Runs, SCUs and batches that an answer opened.
    pub(super) sources_median: u64,
    /// Bytes that an answer fetched; what memory holds costs none.
    pub(super) bytes_mean: u64,
    pub(super) bytes_total: u64,
    /// Median latency by question.
    pub(super) latency_by_question_us: BTreeMap<&'static str, u64>,
}

/// The stages that answers can read, freshest first.
pub(super) const STAGES: [Stage; 5] = [
    Stage::Open,
    Stage::Ingested,
    Stage::Sorted,
    Stage::Merged,
    Stage::Authority,
];

impl LevelSummary {
    /// How many of a hundred answers read a stage; 1 where it was fewer, but some.
    pub(super) fn percent(&self, stage: Stage) -> u64 {
        let count = self.stages.get(stage.name()).copied().unwrap_or(0);
        (count * 100).div_ceil(self.queries.max(1))
    }
}

/// Sums up each freshness, stalest first.
pub(super) fn summarise(samples: &[Sample]) -> Vec<LevelSummary> {
    let levels = LEVELS.iter().enumerate();
    levels
        .map(|(level, asked)| {
            let of_level: Vec<&Sample> = samples
                .iter()
                .filter(|sample| sample.level == level)
                .collect();
            summarise_level(asked.to_string(), &of_level)
        })
        .collect()
}

fn opened(sources: &SourceCounts) -> u64 {
    sources.open_batches
        + sources.unsorted_scus
        + sources.sorted_runs
        + sources.merged_runs
        + sources.authority_runs
}

fn summarise_level(asked: String, samples: &[&Sample]) -> LevelSummary {
    let collect = |value: fn(&Sample) -> u64| -> Vec<u64> {
        samples.iter().map(|sample| value(sample)).collect()
    };
    let mut staleness = collect(|sample| sample.staleness_us);
    let mut latency = collect(|sample| sample.latency_us);
    let mut left_out = collect(|sample| sample.left_out);
    let mut sources = collect(|sample| opened(&sample.sources));
    let bytes = collect(|sample| sample.sources.bytes_read);
    let mut stages = BTreeMap::new();
    for stage in samples.iter().flat_map(|sample| sample.sources.stages()) {
        *stages.entry(stage.name()).or_default() += 1;
    }
    let mut by_question = BTreeMap::new();
    for question in Question::ALL {
        let of_question = samples.iter().filter(|sample| sample.question == question);
        let mut latencies: Vec<u64> = of_question.map(|sample| sample.latency_us).collect();
        by_question.insert(question.name(), quantile(&mut latencies, 0.5));
    }
    LevelSummary {
        asked,
        queries: samples.len() as u64,
        staleness_median_us: quantile(&mut staleness, 0.5),
        staleness_max_us: quantile(&mut staleness, 1.0),
        latency_median_us: quantile(&mut latency, 0.5),
        latency_p99_us: quantile(&mut latency, 0.99),
        stages,
        left_out_median: quantile(&mut left_out, 0.5),
        sources_median: quantile(&mut sources, 0.5),
        bytes_mean: bytes.iter().sum::<u64>() / bytes.len().max(1) as u64,
        bytes_total: bytes.iter().sum(),
        latency_by_question_us: by_question,
    }
}

/// What it cost, as an aligned table.
pub(super) fn cost_table(levels: &[LevelSummary]) -> String {
    let row = |level: &LevelSummary| {
        vec![
            level.asked.clone(),
            thousands(level.queries),
            micros(level.staleness_median_us),
            micros(level.staleness_max_us),
            micros(level.latency_median_us),
            micros(level.latency_p99_us),
        ]
    };
    let headers = [
        "asked",
        "answers",
        "stale by",
        "at most",
        "latency",
        "99 of 100",
    ];
    let right = [false, true, true, true, true, true];
    print_rows(
        &headers,
        &right,
        &levels.iter().map(row).collect::<Vec<_>>(),
    )
}

/// What was read, as an aligned table: the share of answers that read each stage.
pub(super) fn read_table(levels: &[LevelSummary]) -> String {
    let row = |level: &LevelSummary| {
        let mut cells = vec![level.asked.clone()];
        cells.extend(STAGES.iter().map(|stage| match level.percent(*stage) {
            0 => "-".to_owned(),
            percent => format!("{percent} %"),
        }));
        cells.push(thousands(level.sources_median));
        cells.push(bytes(level.bytes_mean));
        cells
    };
    let mut headers = vec!["asked"];
    headers.extend(STAGES.iter().map(|stage| stage.name()));
    headers.extend(["sources", "bytes"]);
    let right: Vec<bool> = (0..headers.len()).map(|at| at > 0).collect();
    print_rows(
        &headers,
        &right,
        &levels.iter().map(row).collect::<Vec<_>>(),
    )
}

/// The price of freshness in one sentence; nothing where there is nothing to compare.
pub(super) fn price(levels: &[LevelSummary]) -> Option<String> {
    let (stale, fresh) = (levels.first()?, levels.last()?);
    if stale.latency_median_us == 0 || fresh.queries == 0 {
        return None;
    }
    let ratio = fresh.latency_median_us as f64 / stale.latency_median_us as f64;
    let compared = match ratio {
        ..0.9 => "less than",
        ..1.1 => "about as long as",
        _ => &format!("{ratio:.1} times as long as"),
    };
    Some(format!(
        "An answer with everything acknowledged took {},\n{compared} one at best effort ({}), \
         which was {} old.",
        micros(fresh.latency_median_us),
        micros(stale.latency_median_us),
        micros(stale.staleness_median_us),
    ))
}

#[cfg(test)]
mod tests;
