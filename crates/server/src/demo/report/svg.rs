//! Plots as inline SVG: scales, axes and marks. Colours are CSS variables of the page, so that the
//! same drawing is read in light and dark; sizes suit a card of a page, on a desk or a phone.
//!
//! Pure text; knows nothing about the demo.

use std::fmt::Write as _;

use super::escaped;

/// The drawing's size; the page scales it.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = HEIGHT - 38.0;

/// Maps values to places on an axis.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scale {
    /// From 0 to a value.
    Linear(f64),
    /// From a positive value to a larger one, each step ten times the last.
    Log(f64, f64),
}

impl Scale {
    /// From 0 to a round value at or above `most`.
    pub(super) fn linear(most: f64) -> Scale {
        let most = most.max(1e-3);
        Scale::Linear((most / step(most)).ceil() * step(most))
    }

    /// From 0 to a value, however round: for time.
    pub(super) fn until(end: f64) -> Scale {
        Scale::Linear(end.max(1e-3))
    }

    /// Decades around the values.
    pub(super) fn log(least: f64, most: f64) -> Scale {
        let low = 10f64.powf(least.max(1e-6).log10().floor());
        let high = 10f64.powf(most.max(1e-6).log10().ceil());
        Scale::Log(low, high.max(low * 10.0))
    }

    /// The end of the axis.
    pub(super) fn end(self) -> f64 {
        match self {
            Scale::Linear(end) | Scale::Log(_, end) => end,
        }
    }

    /// Where a value lies, from 0 to 1.
    fn share(self, value: f64) -> f64 {
        let share = match self {
            Scale::Linear(end) => value / end,
            Scale::Log(low, high) => (value.max(low) / low).log10() / (high / low).log10(),
        };
        share.clamp(0.0, 1.0)
    }

    fn ticks(self) -> Vec<f64> {
        match self {
            Scale::Linear(end) => {
                let step = step(end);
                let count = (end / step + 1e-6).floor() as u32;
                (0..=count).map(|tick| f64::from(tick) * step).collect()
            }
            Scale::Log(low, high) => {
                let decades = (high / low).log10().round() as i32;
                (0..=decades)
                    .map(|decade| low * 10f64.powi(decade))
                    .collect()
            }
        }
    }
}

/// The distance of ticks on an axis that ends at `most`: 1, 2 or 5 of a decade, some
/// four to seven ticks.
fn step(most: f64) -> f64 {
    let decade = 10f64.powf((most / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    let wanted = steps.into_iter().find(|step| most / (step * decade) <= 6.0);
    wanted.unwrap_or(10.0) * decade
}

/// A number with no more digits than it needs.
pub(super) fn tick_text(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Writes a tick with its unit.
pub(super) type TickText = fn(f64) -> String;

/// A drawing under way.
pub(super) struct Plot {
    body: String,
    x: Scale,
    y: Scale,
}

impl Plot {
    /// Axes with their names; `y_text` writes the ticks of the y axis.
    pub(super) fn new(x: Scale, y: Scale, x_name: &str, y_name: &str, y_text: TickText) -> Plot {
        let mut plot = Plot::bare(x, y, y_name, y_text);
        for tick in x.ticks() {
            let at = plot.place_x(tick);
            plot.text(at, BOTTOM + 16.0, "middle", &tick_text(tick));
        }
        plot.text(RIGHT, HEIGHT - 4.0, "end", x_name);
        plot
    }

    /// The same with names of columns in place of an x axis: column 0 lies from 0 to 1.
    pub(super) fn with_columns(
        names: &[String],
        x_name: &str,
        y: Scale,
        y_name: &str,
        y_text: TickText,
    ) -> Plot {
        let mut plot = Plot::bare(Scale::Linear(names.len() as f64), y, y_name, y_text);
        for (at, name) in names.iter().enumerate() {
            let x = plot.place_x(at as f64 + 0.5);
            plot.text(x, BOTTOM + 16.0, "middle", name);
        }
        plot.text(RIGHT, HEIGHT - 4.0, "end", x_name);
        plot
    }

    fn bare(x: Scale, y: Scale, y_name: &str, y_text: TickText) -> Plot {
        let mut plot = Plot {
            body: String::new(),
            x,
            y,
        };
        for tick in y.ticks() {
            let at = plot.place_y(tick);
            plot.put(&format!(
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>"
            ));
            plot.text(LEFT - 6.0, at + 4.0, "end", &y_text(tick));
        }
        plot.text(2.0, 12.0, "start", y_name);
        plot
    }

    fn put(&mut self, element: &str) {
        self.body.push_str(element);
        self.body.push('\n');
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let text = escaped(text);
        self.put(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    fn place_x(&self, value: f64) -> f64 {
        LEFT + self.x.share(value) * (RIGHT - LEFT)
    }

    fn place_y(&self, value: f64) -> f64 {
        BOTTOM - self.y.share(value) * (BOTTOM - TOP)
    }

    /// Dots: lines of no length with round ends, in one path.
    pub(super) fn dots(&mut self, points: impl Iterator<Item = (f64, f64)>) {
        let mut path = String::new();
        for (x, y) in points {
            let (x, y) = (self.place_x(x), self.place_y(y));
            // Writing to a string can't fail.
            let _ = write!(path, "M{x:.1} {y:.1}h0");
        }
        self.put(&format!("<path class=\"dots\" d=\"{path}\"/>"));
    }

    /// A line from point to point.
    pub(super) fn line(
        &mut self,
        points: impl Iterator<Item = (f64, f64)>,
        colour: &str,
        width: u32,
    ) {
        let mut path = String::new();
        for (x, y) in points {
            let (x, y) = (self.place_x(x), self.place_y(y));
            let step = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{step}{x:.1} {y:.1}");
        }
        self.put(&format!(
            "<path class=\"line\" style=\"stroke:rgb(var(--{colour}));stroke-width:{width}px\" \
             d=\"{path}\"/>"
        ));
    }

    /// The area between two steps of values over the same places.
    pub(super) fn area(&mut self, points: &[(f64, f64, f64)], colour: &str) {
        let mut upper = String::new();
        let mut lower = Vec::new();
        for (at, (x, low, high)) in points.iter().enumerate() {
            let until = points.get(at + 1).map_or(*x, |next| next.0);
            let (x, until) = (self.place_x(*x), self.place_x(until));
            let (low, high) = (self.place_y(*low), self.place_y(*high));
            let begin = if at == 0 { 'M' } else { 'L' };
            let _ = write!(upper, "{begin}{x:.1} {high:.1}H{until:.1}");
            lower.push(format!("L{until:.1} {low:.1}H{x:.1}"));
        }
        lower.reverse();
        self.put(&format!(
            "<path style=\"fill:rgb(var(--{colour}))\" d=\"{upper}{}Z\"/>",
            lower.concat()
        ));
    }

    /// A bar at the height of a value across a column, with the value above it.
    pub(super) fn mark(&mut self, column: usize, value: f64, label: &str) {
        let left = self.place_x(column as f64 + 0.14);
        let right = self.place_x(column as f64 + 0.86);
        let y = self.place_y(value);
        self.put(&format!(
            "<path class=\"mark\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>"
        ));
        let middle = f64::midpoint(left, right);
        self.put(&format!(
            "<text class=\"value\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y - 5.0,
            escaped(label)
        ));
    }

    /// A dashed line at a value that must not be exceeded.
    pub(super) fn limit(&mut self, value: f64, label: &str) {
        if value > self.y.end() {
            return;
        }
        let y = self.place_y(value);
        self.put(&format!(
            "<path class=\"limit\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>"
        ));
        self.text(RIGHT, y - 5.0, "end", label);
    }

    /// The drawing; `title` is for those who can't see it.
    pub(super) fn svg(self, title: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n\
             <path class=\"axis\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>\n{}</svg>\n",
            escaped(title),
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Plot, Scale, tick_text};

    #[test]
    fn axes_end_at_round_values() {
        let ticks = |most: f64| Scale::linear(most).ticks();
        assert_eq!(ticks(61.3), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(ticks(5.2), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        for most in [0.0, 0.004, 0.7, 1.0, 9.9, 123.0, 98_765.0] {
            let ticks = ticks(most);
            assert!((2..=7).contains(&ticks.len()), "{most}: {ticks:?}");
            assert!(ticks.last().is_some_and(|last| *last >= most), "{most}");
        }
        assert_eq!(Scale::until(61.3).ticks(), [0.0, 20.0, 40.0, 60.0]);
        let decades: Vec<String> = Scale::log(0.3, 99.0)
            .ticks()
            .into_iter()
            .map(tick_text)
            .collect();
        assert_eq!(decades, ["0.1", "1", "10", "100"]);
    }

    #[test]
    fn values_stay_inside_the_drawing() {
        let mut plot = Plot::new(
            Scale::linear(1.0),
            Scale::log(1.0, 10.0),
            "x",
            "y",
            tick_text,
        );
        plot.dots([(-5.0, 0.0), (7.0, 1e9)].into_iter());
        let svg = plot.svg("a < b");
        assert!(svg.contains("M52.0 212.0h0M448.0 26.0h0"), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains(">10<"));
    }
}
