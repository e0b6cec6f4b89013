//! What the report draws: latency by freshness, staleness of answers and of stages, the pipeline.
//!
//! Each drawing is inline SVG with the fixed colours of the light page. The style sheet finds each
//! colour by its value and sets the page's variable in its place, so that the same drawing is read
//! in the dark.

use std::ops::Range;

use lazybase_model::{Error, Freshness, Result};
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, EmptyElement, PathElement, Text};
use plotters::prelude::{BindKeyPoints, IntoLogRange, SVGBackend};
use plotters::series::{AreaSeries, DashedLineSeries, LineSeries};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, TRANSPARENT, TextStyle};

use super::super::questions::{LEVELS, Question};
use super::super::stats::{PipelineSample, Sample};
use super::escaped;
use crate::figures::{micros, quantile};

const TEXT: RGBColor = RGBColor(28, 36, 48);
const SOFT: RGBColor = RGBColor(91, 102, 117);
const EDGE: RGBColor = RGBColor(227, 228, 224);
const DOT: RGBColor = RGBColor(66, 84, 150);
const OPEN: RGBColor = RGBColor(200, 62, 90);
const INGESTED: RGBColor = RGBColor(226, 116, 52);
const SORTED: RGBColor = RGBColor(222, 168, 44);
const MERGED: RGBColor = RGBColor(62, 160, 140);
const AUTHORITY: RGBColor = RGBColor(52, 106, 176);

/// Twice the size of a card on a desk: the library places things at whole pixels.
const SIZE: (u32, u32) = (920, 520);
/// The dots of a plot: more make the file heavy and the picture no clearer.
const DOTS_MAX: usize = 600;
/// The looks at the pipeline that a plot shows: more than it has points across.
const LOOKS_MAX: usize = 500;

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Y>>;
type Drawn<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// One axis of a plot.
struct Axis<R> {
    name: &'static str,
    ends: R,
    tick: fn(f64) -> String,
}

/// The drawing; `title` is for those who can't see it.
fn svg(title: &str, draw: impl FnOnce(&Canvas<'_>) -> Drawn<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let drawn = draw(&canvas).and_then(|()| canvas.present().map_err(Into::into));
        drawn.map_err(|error| Error::internal(format!("drawing {title:?}: {error}")))?;
    }
    let title = escaped(title);
    Ok(format!(
        "<div role=\"img\" aria-label=\"{title}\">{svg}</div>\n"
    ))
}

/// Draws axes and grid, and gives the chart to draw on.
fn chart<'a, 'b, Y>(
    canvas: &'a Canvas<'b>,
    x: Axis<Range<f64>>,
    y: Axis<Y>,
) -> Drawn<Chart<'a, 'b, Y::CoordDescType>>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(canvas)
        .margin(12)
        .margin_top(36)
        .x_label_area_size(78)
        .y_label_area_size(150)
        .build_cartesian_2d(x.ends, y.ends)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|value| (x.tick)(*value))
        .y_label_formatter(&|value| (y.tick)(*value))
        .x_desc(x.name)
        .y_desc(y.name)
        .label_style(text(SOFT))
        .axis_style(SOFT.stroke_width(2))
        .bold_line_style(EDGE.stroke_width(2))
        .light_line_style(TRANSPARENT)
        .set_all_tick_mark_size(6)
        .draw()?;
    Ok(chart)
}

fn text(colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", 32).into_font().color(&colour)
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1e3
}

/// A number with no more digits than it needs.
fn number_text(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn seconds_text(seconds: f64) -> String {
    format!("{} s", number_text(seconds))
}

fn millis_text(millis: f64) -> String {
    match millis {
        1_000.0.. => seconds_text(millis / 1e3),
        _ => format!("{} ms", number_text(millis)),
    }
}

fn level_text(level: f64) -> String {
    LEVELS[level as usize].to_string()
}

/// From 0 to a little above the values, and at least to `least`.
fn from_zero(values: impl Iterator<Item = f64>, least: f64) -> Range<f64> {
    0.0..values.fold(least, f64::max) * 1.05
}

/// The time from the start to a last moment.
fn time(moments: impl Iterator<Item = u64>) -> Axis<Range<f64>> {
    Axis {
        name: "seconds since the start",
        ends: 0.0..moments.map(seconds).fold(1.0, f64::max),
        tick: number_text,
    }
}

fn thinned<T>(samples: &[T], wanted: usize) -> impl Iterator<Item = &T> {
    let step = samples.len().div_ceil(wanted).max(1);
    samples.iter().step_by(step)
}

/// The powers of ten around all latencies, in milliseconds: all plots of latency have these ticks,
/// so that they can be compared.
pub(super) fn latency_decades(samples: &[Sample]) -> Vec<f64> {
    let all = || samples.iter().map(|sample| millis(sample.latency_us));
    let low = all().fold(1.0, f64::min).max(0.01).log10().floor() as i32;
    let high = all().fold(1.0, f64::max).log10().ceil() as i32;
    let decades = low..=high.max(low + 1);
    decades.map(|decade| 10f64.powi(decade)).collect()
}

/// How long each answer to one question took, by the freshness asked.
pub(super) fn latency(samples: &[Sample], question: Question, decades: &[f64]) -> Result<String> {
    let of_question: Vec<&Sample> = samples
        .iter()
        .filter(|sample| sample.question == question)
        .collect();
    let x = Axis {
        name: "freshness asked",
        ends: -0.5..LEVELS.len() as f64 - 0.5,
        tick: level_text,
    };
    let (low, high) = (decades[0], decades[decades.len() - 1]);
    let y = Axis {
        name: "latency",
        ends: (low..high).log_scale().with_key_points(decades.to_vec()),
        tick: millis_text,
    };
    let title = format!("Latency of {:?} by freshness asked", question.name());
    svg(&title, |canvas| {
        let mut chart = chart(canvas, x, y)?;
        chart.draw_series(thinned(&of_question, DOTS_MAX).map(|sample| {
            // Spread by the time of the answer, so that dots do not hide each other.
            let spread = 0.72 * (sample.at_us % 1_009) as f64 / 1_009.0 - 0.36;
            let at = sample.level as f64 + spread;
            dot((at, millis(sample.latency_us).max(low)))
        }))?;
        let label = text(TEXT).pos(Pos::new(HPos::Center, VPos::Bottom));
        for level in 0..LEVELS.len() {
            let of_level = of_question.iter().filter(|sample| sample.level == level);
            let mut all: Vec<u64> = of_level.map(|sample| sample.latency_us).collect();
            if all.is_empty() {
                continue;
            }
            let median = quantile(&mut all, 0.5);
            let (at, height) = (level as f64, millis(median).max(low));
            let bar = [(at - 0.36, height), (at + 0.36, height)];
            chart.draw_series([PathElement::new(bar, TEXT.stroke_width(5))])?;
            let label = Text::new(micros(median), (0, -6), label.clone());
            chart.draw_series([EmptyElement::at((at, height)) + label])?;
        }
        Ok(())
    })
}

fn dot(at: (f64, f64)) -> Circle<(f64, f64), i32> {
    Circle::new(at, 4, DOT.mix(0.6).filled())
}

/// How stale each answer of one freshness was, under what it had asked for.
pub(super) fn staleness(samples: &[Sample], level: usize) -> Result<String> {
    let of_level: Vec<&Sample> = samples
        .iter()
        .filter(|sample| sample.level == level)
        .collect();
    let x = time(samples.iter().map(|sample| sample.at_us));
    let end = x.ends.end;
    // One second is the least bound that is asked: it shall be in sight.
    let all = samples.iter().map(|sample| seconds(sample.staleness_us));
    let y = stale_by(all, 1.2);
    let top = y.ends.end;
    let title = format!("Staleness of answers that asked {}", LEVELS[level]);
    svg(&title, |canvas| {
        let mut chart = chart(canvas, x, y)?;
        chart.draw_series(
            thinned(&of_level, DOTS_MAX)
                .map(|sample| dot((seconds(sample.at_us), seconds(sample.staleness_us)))),
        )?;
        if let Freshness::Within(bound) = LEVELS[level]
            && (f64::EPSILON..top).contains(&bound.as_secs_f64())
        {
            let bound = bound.as_secs_f64();
            let limit = [(0.0, bound), (end, bound)];
            chart.draw_series(DashedLineSeries::new(limit, 10, 8, TEXT.stroke_width(2)))?;
            let label = text(TEXT).pos(Pos::new(HPos::Right, VPos::Bottom));
            chart.draw_series([Text::new("asked: no staler", (end, bound), label)])?;
        }
        Ok(())
    })
}

fn stale_by(seconds: impl Iterator<Item = f64>, least: f64) -> Axis<Range<f64>> {
    Axis {
        name: "stale by",
        ends: from_zero(seconds, least),
        tick: seconds_text,
    }
}

/// How stale sorted data, merged data and the authority are.
pub(super) fn stage_staleness(samples: &[PipelineSample]) -> Result<String> {
    let x = time(samples.iter().map(|sample| sample.at_us));
    let all = samples.iter().flat_map(|sample| sample.staleness_us);
    let y = stale_by(all.map(seconds), 0.01);
    svg("Staleness of each stage over time", |canvas| {
        let mut chart = chart(canvas, x, y)?;
        // The stalest first and widest: where two agree, both show.
        for (stage, colour, width) in [(2, AUTHORITY, 12), (1, MERGED, 6), (0, SORTED, 3)] {
            let points = thinned(samples, LOOKS_MAX)
                .map(|sample| (seconds(sample.at_us), seconds(sample.staleness_us[stage])));
            chart.draw_series(LineSeries::new(points, colour.stroke_width(width)))?;
        }
        Ok(())
    })
}

/// SCUs in each stage, stacked, the authority at the bottom and the open SCU on top.
pub(super) fn pipeline(samples: &[PipelineSample]) -> Result<String> {
    let layers: Vec<(f64, [f64; 5])> = thinned(samples, LOOKS_MAX)
        .map(|sample| (seconds(sample.at_us), stacked(sample)))
        .collect();
    let x = time(samples.iter().map(|sample| sample.at_us));
    let y = Axis {
        name: "SCUs",
        // Never so few that ticks would stand between whole numbers.
        ends: from_zero(layers.iter().map(|(_, sums)| sums[0]), 5.0),
        tick: number_text,
    };
    svg("SCUs in each stage over time", |canvas| {
        let mut chart = chart(canvas, x, y)?;
        // The whole first: each earlier sum is painted over by what lies below it.
        let colours = [OPEN, INGESTED, SORTED, MERGED, AUTHORITY];
        for (layer, colour) in colours.into_iter().enumerate() {
            // Counts stand until the next look.
            let next = layers.iter().skip(1).chain(layers.last());
            let points = layers.iter().zip(next).flat_map(|(now, next)| {
                let sum = now.1[layer];
                [(now.0, sum), (next.0, sum)]
            });
            chart.draw_series(AreaSeries::new(points, 0.0, colour.filled()))?;
        }
        Ok(())
    })
}

/// Sums of SCUs from each stage to the authority, the open SCU first.
fn stacked(sample: &PipelineSample) -> [f64; 5] {
    let [ingested, sorted, merged, authority] = sample.scus;
    let open = u64::from(sample.open_batches > 0);
    let mut sum = 0.0;
    let mut sums = [authority, merged, sorted, ingested, open].map(|count| {
        sum += count as f64;
        sum
    });
    sums.reverse();
    sums
}

#[cfg(test)]
mod tests;
