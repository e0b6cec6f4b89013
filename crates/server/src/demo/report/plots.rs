//! The report's plots as inline SVG. Text and axes take the page's colour, so that they can be read
//! in light and dark; series have colours that stand out from both.

use lazybase_model::{Error, Result};
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::{
    AreaSeries, Cartesian2d, ChartBuilder, ChartContext, Circle, Color, IntoDrawingArea, IntoFont,
    IntoLogRange, LineSeries, RGBColor, Rectangle, SVGBackend,
};

use super::super::questions::LEVELS;
use super::super::stats::{PipelineSample, Sample};
use crate::figures::quantile;

/// Stages from the authority up.
pub(super) const STAGE_NAMES: [&str; 4] = ["authority", "merged", "sorted", "unsorted"];
/// Their colours.
pub(super) const STAGE_COLOURS: [(u8, u8, u8); 4] = [
    (46, 122, 190),
    (38, 160, 130),
    (222, 160, 40),
    (214, 84, 60),
];
/// The colours of the freshness levels, stalest first.
pub(super) const LEVEL_COLOURS: [(u8, u8, u8); 4] = [
    (46, 122, 190),
    (38, 160, 130),
    (222, 160, 40),
    (214, 84, 60),
];

const SIZE: (u32, u32) = (960, 300);
/// Stands for the page's text colour until the SVG is written out.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_TEXT: &str = "#010203";
/// The dots of a plot: more make the file heavy and the picture no clearer.
const DOTS_MAX: usize = 4_000;

type Area<'a> = plotters::drawing::DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws and gives the SVG, its ink replaced by the page's colour.
fn svg(draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        let drawn = draw(&area).and_then(|()| area.present().map_err(Into::into));
        drawn.map_err(|error| Error::internal(format!("plot: {error}")))?;
    }
    Ok(text.replace(INK_TEXT, "currentColor").replacen(
        "<svg ",
        &format!("<svg viewBox=\"0 0 {} {}\" ", SIZE.0, SIZE.1),
        usize::from(!text.contains("viewBox")),
    ))
}

/// Axes with their names, in ink.
fn axes<X, Y>(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
    x_name: &str,
    y_name: &str,
) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(INK.mix(0.0))
        .bold_line_style(INK.mix(0.15))
        .axis_style(INK.mix(0.6))
        .label_style(("sans-serif", 16).into_font().color(&INK))
        .axis_desc_style(("sans-serif", 16).into_font().color(&INK))
        .x_desc(x_name)
        .y_desc(y_name)
        .draw()?;
    Ok(())
}

fn colour((red, green, blue): (u8, u8, u8)) -> RGBColor {
    RGBColor(red, green, blue)
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// A little above the greatest value, so that axes are never empty.
fn above(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max).max(0.1) * 1.05
}

fn builder<'a, 'b>(area: &'a Area<'b>) -> ChartBuilder<'a, 'b, SVGBackend<'b>> {
    let mut chart = ChartBuilder::on(area);
    chart.margin(8).x_label_area_size(40).y_label_area_size(64);
    chart
}

/// SCUs in each stage, stacked, the authority at the bottom.
pub(super) fn pipeline(samples: &[PipelineSample]) -> Result<String> {
    svg(|area| {
        let end = above(samples.iter().map(|sample| seconds(sample.at_us)));
        let sums: Vec<(f64, [f64; 4])> = samples
            .iter()
            .map(|sample| (seconds(sample.at_us), stacked(sample.scus)))
            .collect();
        let top = above(sums.iter().map(|(_, sums)| sums[3]));
        let mut chart = builder(area).build_cartesian_2d(0.0..end, 0.0..top)?;
        axes(&mut chart, "seconds", "SCUs")?;
        // The whole first: each lower stage is drawn over it.
        for stage in (0..4).rev() {
            let points = sums.iter().map(|(at, sums)| (*at, sums[stage]));
            let fill = colour(STAGE_COLOURS[stage]).filled();
            chart.draw_series(AreaSeries::new(points, 0.0, fill))?;
        }
        Ok(())
    })
}

/// Sums from the authority up, of counts given from the log down.
fn stacked(scus: [u64; 4]) -> [f64; 4] {
    let [ingested, sorted, merged, authority] = scus.map(|count| count as f64);
    [
        authority,
        authority + merged,
        authority + merged + sorted,
        authority + merged + sorted + ingested,
    ]
}

/// How stale the authority, merged and sorted data are.
pub(super) fn stage_staleness(samples: &[PipelineSample]) -> Result<String> {
    svg(|area| {
        let end = above(samples.iter().map(|sample| seconds(sample.at_us)));
        let all = samples.iter().flat_map(|sample| sample.staleness_us);
        let top = above(all.map(seconds));
        let mut chart = builder(area).build_cartesian_2d(0.0..end, 0.0..top)?;
        axes(&mut chart, "seconds", "stale by, seconds")?;
        for (stage, stage_colour) in STAGE_COLOURS.into_iter().enumerate().take(3) {
            let points = samples.iter().map(|sample| {
                // Samples count from sorted to authority, colours from the authority up.
                (
                    seconds(sample.at_us),
                    seconds(sample.staleness_us[2 - stage]),
                )
            });
            let style = colour(stage_colour).stroke_width(2);
            chart.draw_series(LineSeries::new(points, style))?;
        }
        Ok(())
    })
}

/// How stale each answer was.
pub(super) fn answer_staleness(samples: &[Sample]) -> Result<String> {
    svg(|area| {
        let end = above(samples.iter().map(|sample| seconds(sample.at_us)));
        let top = above(samples.iter().map(|sample| seconds(sample.staleness_us)));
        let mut chart = builder(area).build_cartesian_2d(0.0..end, 0.0..top)?;
        axes(&mut chart, "seconds", "stale by, seconds")?;
        chart.draw_series(thinned(samples).map(|sample| {
            let at = (seconds(sample.at_us), seconds(sample.staleness_us));
            Circle::new(at, 2, colour(LEVEL_COLOURS[sample.level]).mix(0.7).filled())
        }))?;
        Ok(())
    })
}

/// How long each answer took, by the freshness asked.
pub(super) fn latency(samples: &[Sample]) -> Result<String> {
    let millis = |micros: u64| (micros as f64 / 1e3).max(0.01);
    svg(|area| {
        let latencies = || samples.iter().map(|sample| millis(sample.latency_us));
        let top = above(latencies()) * 1.5;
        let bottom = latencies().fold(top / 10.0, f64::min) * 0.7;
        let columns = LEVELS.len() as f64;
        let range = (bottom..top).log_scale();
        let mut chart = builder(area).build_cartesian_2d(0.0..columns, range)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .light_line_style(INK.mix(0.0))
            .bold_line_style(INK.mix(0.15))
            .axis_style(INK.mix(0.6))
            .label_style(("sans-serif", 16).into_font().color(&INK))
            .axis_desc_style(("sans-serif", 16).into_font().color(&INK))
            .x_desc("freshness asked: best effort, 10 s, 1 s, 0")
            .y_desc("latency, ms")
            .draw()?;
        chart.draw_series(thinned(samples).map(|sample| {
            // Spread by the time of the answer, so that dots do not hide each other.
            let spread = 0.15 + 0.7 * (sample.at_us % 1_009) as f64 / 1_009.0;
            let at = (sample.level as f64 + spread, millis(sample.latency_us));
            Circle::new(at, 2, colour(LEVEL_COLOURS[sample.level]).mix(0.6).filled())
        }))?;
        for level in 0..LEVELS.len() {
            let of_level = samples.iter().filter(|sample| sample.level == level);
            let mut all: Vec<u64> = of_level.map(|sample| sample.latency_us).collect();
            let median = millis(quantile(&mut all, 0.5));
            let left = level as f64 + 0.1;
            let bar = [(left, median * 0.97), (left + 0.8, median * 1.03)];
            chart.draw_series([Rectangle::new(bar, INK.filled())])?;
        }
        Ok(())
    })
}

fn thinned(samples: &[Sample]) -> impl Iterator<Item = &Sample> {
    samples
        .iter()
        .step_by(samples.len().div_ceil(DOTS_MAX).max(1))
}
