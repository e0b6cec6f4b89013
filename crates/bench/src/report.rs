//! Figures: said at once when they are known, judged against their targets, and given together at
//! the end, as a table for people and as one line of JSON for programs.
//!
//! The unit stands at the end of a figure's name: `_rows_s`, `_mb_s` (10^6 bytes), `_mib`, `_us`,
//! `_ms`, `_s` after a count of reads (reads a second) or after a duration (seconds), `_ratio`.

use std::fmt::Write as _;
use std::sync::Mutex;

use serde_json::{Map, Value};

use crate::data::Shape;

/// A bound that a figure shall keep.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    fn is_met(self, value: f64) -> bool {
        match self {
            Target::AtLeast(least) => value >= least,
            Target::AtMost(most) => value <= most,
        }
    }
}

/// Targets of wide rows and of both shapes; those of narrow rows alone follow.
const TARGETS: [(&str, Target); 27] = [
    ("ingest_rows_s", Target::AtLeast(320_000.0)),
    ("ingest_mb_s", Target::AtLeast(350.0)),
    ("commit_one_row_fdatasync_ratio", Target::AtMost(3.0)),
    ("sort_rows_s", Target::AtLeast(180_000.0)),
    ("merge_rows_s", Target::AtLeast(180_000.0)),
    ("merge_disjoint_mb_s", Target::AtLeast(1_000.0)),
    ("pipeline_rows_s", Target::AtLeast(80_000.0)),
    ("pipeline_uniform_rows_s", Target::AtLeast(20_000.0)),
    ("write_amplification", Target::AtMost(4.0)),
    ("staleness_max_s", Target::AtMost(120.0)),
    ("staleness_uniform_max_s", Target::AtMost(300.0)),
    ("lag_growth_s_min", Target::AtMost(1.0)),
    ("lag_growth_uniform_s_min", Target::AtMost(1.0)),
    ("past_horizon_reads", Target::AtMost(0.0)),
    ("past_horizon_uniform_reads", Target::AtMost(0.0)),
    ("pipeline_disk_ratio", Target::AtMost(3.0)),
    ("point_layout_s", Target::AtLeast(15_000.0)),
    ("point_uncached_s", Target::AtLeast(5_000.0)),
    ("point_cached_s", Target::AtLeast(100_000.0)),
    ("point_fresh_ratio", Target::AtMost(2.0)),
    ("point_extents_a_run", Target::AtMost(1.0)),
    ("point_layout_extents_a_run", Target::AtMost(1.0)),
    ("range_ratio", Target::AtMost(2.0)),
    ("sql_scan_ratio", Target::AtMost(1.15)),
    ("sql_scan_updated_ratio", Target::AtMost(2.0)),
    ("rss_max_mib", Target::AtMost(1_536.0)),
    ("disk_ratio", Target::AtMost(3.0)),
];
const TARGETS_SMALL: [(&str, Target); 2] = [
    ("open_ms", Target::AtMost(200.0)),
    ("range_bytes_ratio", Target::AtMost(0.01)),
];
const TARGETS_NARROW: [(&str, Target); 3] = [
    ("ingest_rows_s", Target::AtLeast(9e6)),
    ("sort_rows_s", Target::AtLeast(7e6)),
    ("merge_rows_s", Target::AtLeast(4.4e6)),
];
/// The only targets of [`TARGETS`] that mean narrow rows too.
const BOTH: [&str; 3] = [
    "commit_one_row_fdatasync_ratio",
    "past_horizon_reads",
    "past_horizon_uniform_reads",
];

fn target(section: &str, name: &str) -> Option<Target> {
    let find = |list: &[(&str, Target)]| {
        list.iter()
            .find(|(target, _)| *target == name)
            .map(|(_, target)| *target)
    };
    match section {
        "wide" => find(&TARGETS).or_else(|| find(&TARGETS_SMALL)),
        "narrow" if BOTH.contains(&name) => find(&TARGETS),
        "narrow" => find(&TARGETS_NARROW),
        _ => None,
    }
}

#[derive(Debug)]
struct Figure {
    section: &'static str,
    name: String,
    value: f64,
}

/// All figures of a run. Any thread may add one.
#[derive(Debug, Default)]
pub(crate) struct Report {
    figures: Mutex<Vec<Figure>>,
}

impl Report {
    /// Adds a figure of one shape of rows and says it on standard error.
    pub(crate) fn figure(&self, shape: Shape, name: &str, value: f64) {
        self.add(shape.name(), name, value);
    }

    /// Adds a figure of the machine.
    pub(crate) fn limit(&self, name: &str, value: f64) {
        self.add("limits", name, value);
    }

    /// Says what is being done, on standard error.
    pub(crate) fn note(&self, text: &str) {
        eprintln!("# {text}");
    }

    fn add(&self, section: &'static str, name: &str, value: f64) {
        eprintln!("{}", line(section, name, value));
        let figure = Figure {
            section,
            name: name.to_owned(),
            value,
        };
        self.figures.lock().expect("no holder panics").push(figure);
    }

    /// Whether every figure that has a target meets it.
    pub(crate) fn all_met(&self) -> bool {
        let figures = self.figures.lock().expect("no holder panics");
        figures
            .iter()
            .all(|f| target(f.section, &f.name).is_none_or(|t| t.is_met(f.value)))
    }

    /// All figures, a line each.
    pub(crate) fn table(&self) -> String {
        let figures = self.figures.lock().expect("no holder panics");
        let mut text = String::new();
        for section in ["limits", "wide", "narrow"] {
            for figure in figures.iter().filter(|figure| figure.section == section) {
                let line = line(section, &figure.name, figure.value);
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }

    /// All figures as one line of JSON, by section.
    pub(crate) fn json(&self) -> String {
        let figures = self.figures.lock().expect("no holder panics");
        let mut sections = Map::new();
        for section in ["wide", "narrow", "limits"] {
            let of_section = figures.iter().filter(|figure| figure.section == section);
            let values = of_section.map(|f| (f.name.clone(), rounded(f.value)));
            sections.insert(section.to_owned(), Value::Object(values.collect()));
        }
        Value::Object(sections).to_string()
    }
}

/// Four significant digits are more than a second run confirms.
pub(crate) fn rounded(value: f64) -> Value {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 {
            Value::from(0)
        } else {
            Value::Null
        };
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    match digits {
        ..=0 => Value::from(value.round() as i64),
        _ => {
            let scale = 10_f64.powi(digits);
            Value::from((value * scale).round() / scale)
        }
    }
}

fn line(section: &str, name: &str, value: f64) -> String {
    let mut text = format!("{section:<7} {name:<32} {:>14}", readable(value));
    if let Some(target) = target(section, name) {
        let bound = match target {
            Target::AtLeast(least) => format!(">= {}", readable(least)),
            Target::AtMost(most) => format!("<= {}", readable(most)),
        };
        let verdict = if target.is_met(value) {
            "met"
        } else {
            "MISSED"
        };
        let _ = write!(text, "   target {bound:<12} {verdict}");
    }
    text
}

/// Digits in groups of three where there are many, three decimals where there are few.
pub(crate) fn readable(value: f64) -> String {
    if value.abs() < 1_000.0 {
        let text = format!("{value:.3}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

/// The middle of the values; they are put in order.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests;
