//! Figures of the server and what they shall reach.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;

use crate::report::{readable, rounded};

/// What a figure shall be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

use Goal::{AtLeast, AtMost};

impl Goal {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            AtLeast(least) => value >= least,
            AtMost(most) => value <= most,
        }
    }

    fn readable(self) -> String {
        match self {
            AtLeast(least) => format!(">= {}", readable(least)),
            AtMost(most) => format!("<= {}", readable(most)),
        }
    }
}

/// The goals of a benchmark; figures without one are told alone.
pub(super) type GoalList = &'static [(&'static str, Goal)];

/// Those of the server as its clients meet it.
pub(super) const OF_SERVER: GoalList = &[
    ("point_row_postgres_ratio", AtLeast(1.0)),
    ("point_value_postgres_ratio", AtLeast(1.0)),
    ("point_layout_row_postgres_ratio", AtLeast(1.0)),
    ("point_layout_value_postgres_ratio", AtLeast(1.0)),
    ("copy_postgres_ratio", AtLeast(2.0)),
    ("copy_parse_log_ratio", AtLeast(0.7)),
    ("flight_ingest_engine_ratio", AtLeast(0.7)),
    ("flight_result_bare_ratio", AtLeast(0.6)),
    ("result_postgres_ratio", AtLeast(1.0)),
    ("share_ingest_ratio", AtLeast(0.1)),
    ("share_stages_ratio", AtLeast(0.1)),
    ("share_heavy_ratio", AtLeast(0.25)),
    ("share_point_ratio", AtLeast(0.25)),
    ("mixed_offered_ratio", AtLeast(0.98)),
    ("mixed_point_best_effort_ratio", AtMost(1.5)),
    ("mixed_range_best_effort_ratio", AtMost(1.5)),
    ("mixed_scan_best_effort_ratio", AtMost(3.0)),
    ("mixed_point_fresh_ratio", AtMost(3.0)),
    ("mixed_range_fresh_ratio", AtMost(3.0)),
    ("mixed_scan_fresh_ratio", AtMost(5.0)),
    ("mixed_staleness_max_s", AtMost(120.0)),
    // 100 MiB for 500 of them.
    ("idle_connection_kib", AtMost(204.8)),
    ("busy_point_p99_median_ratio", AtMost(5.0)),
];

/// Those of opening again after a crash.
pub(super) const OF_REOPEN: GoalList = &[
    ("reopen_ready_max_ms", AtMost(1000.0)),
    ("reopen_answer_max_ms", AtMost(1000.0)),
];

/// The figures of a run, in their order.
pub(super) struct Goals {
    list: GoalList,
    figures: Mutex<Vec<(String, f64)>>,
}

impl Goals {
    /// No figures yet.
    pub(super) fn new(list: GoalList) -> Goals {
        Goals {
            list,
            figures: Mutex::default(),
        }
    }

    /// Adds a figure, and says it on standard error. The unit stands at the end of its name.
    pub(super) fn figure(&self, name: &str, value: f64) {
        eprintln!("{}", line(name, value));
        self.figures().push((name.to_owned(), value));
    }

    fn figures(&self) -> MutexGuard<'_, Vec<(String, f64)>> {
        self.figures.lock().expect("no holder panics")
    }

    /// Says what is being done, on standard error.
    pub(super) fn note(&self, text: &str) {
        eprintln!("# {text}");
    }

    /// Whether every figure that has a goal reaches it.
    pub(super) fn all_met(&self) -> bool {
        let figures = self.figures();
        let goal = |name: &str| self.list.iter().find(|(goal, _)| *goal == name);
        figures
            .iter()
            .all(|(name, value)| goal(name).is_none_or(|(_, goal)| goal.is_met_by(*value)))
    }

    /// The table on standard output; with `json` on standard error, and one line of JSON.
    pub(super) fn tell(&self, json: bool) {
        match json {
            true => {
                eprintln!("\n{}", self.table());
                println!("{}", self.json());
            }
            false => println!("\n{}", self.table()),
        }
    }

    /// All figures, then what has a goal.
    fn table(&self) -> String {
        let figures = self.figures();
        let mut text = String::new();
        for (name, value) in figures.iter() {
            let _ = writeln!(text, "{}", line(name, *value));
        }
        let _ = writeln!(text, "\n{:<32} {:>9} {:>9}", "figure", "goal", "reached");
        for (name, goal) in self.list {
            let reached = figures.iter().find(|(figure, _)| figure == name);
            let (value, word) = match reached {
                None => ("-".to_owned(), "not measured"),
                Some((_, value)) if goal.is_met_by(*value) => (readable(*value), "met"),
                Some((_, value)) => (readable(*value), "MISSED"),
            };
            let _ = writeln!(text, "{name:<32} {:>9} {value:>9} {word}", goal.readable());
        }
        text
    }

    /// All figures as one line of JSON.
    fn json(&self) -> String {
        let figures = self.figures();
        let values = figures
            .iter()
            .map(|(name, value)| (name.clone(), rounded(*value)));
        let sorted: BTreeMap<String, Value> = values.collect();
        serde_json::to_string(&sorted).unwrap_or_default()
    }
}

fn line(name: &str, value: f64) -> String {
    format!("{name:<36} {:>14}", readable(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_that_is_missed_shows() {
        let goals = Goals::new(OF_SERVER);
        goals.figure("copy_postgres_ratio", 2.5);
        goals.figure("copy_rows_s", 1.0);
        goals.figure("mixed_staleness_max_s", 119.0);
        assert!(goals.all_met(), "a figure without a goal meets it");
        goals.figure("copy_parse_log_ratio", 0.69);
        assert!(!goals.all_met());
        let table = goals.table();
        assert!(table.contains("2.5 met"), "{table}");
        assert!(table.contains("0.69 MISSED"), "{table}");
        assert!(table.contains("119 met"), "{table}");
        assert!(table.contains("- not measured"), "{table}");
        assert_eq!(
            goals.json(),
            "{\"copy_parse_log_ratio\":0.69,\"copy_postgres_ratio\":2.5,\"copy_rows_s\":1.0,\
             \"mixed_staleness_max_s\":119.0}"
        );
        let other = Goals::new(OF_REOPEN);
        other.figure("reopen_ready_max_ms", 1001.0);
        assert!(!other.all_met(), "more than it may be");
    }
}
