//! Figures of the server and what they shall reach.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard};

use serde_json::{Map, Value};

use crate::report::{readable, rounded};

/// What ratios shall be at least; others are told alone.
const AT_LEAST: [(&str, f64); 6] = [
    ("point_row_postgres_ratio", 1.0),
    ("point_value_postgres_ratio", 1.0),
    ("copy_postgres_ratio", 2.0),
    ("copy_in_process_ratio", 0.7),
    ("flight_ingest_appender_ratio", 0.7),
    ("flight_result_bare_ratio", 0.6),
];

fn goal(name: &str) -> Option<f64> {
    let found = AT_LEAST.iter().find(|(goal, _)| *goal == name);
    found.map(|(_, least)| *least)
}

/// The figures of a run, in their order.
#[derive(Default)]
pub(super) struct Goals(Mutex<Vec<(String, f64)>>);

impl Goals {
    /// Adds a figure, and says it on standard error. The unit stands at the end of its name.
    pub(super) fn figure(&self, name: &str, value: f64) {
        eprintln!("{}", line(name, value));
        self.figures().push((name.to_owned(), value));
    }

    fn figures(&self) -> MutexGuard<'_, Vec<(String, f64)>> {
        self.0.lock().expect("no holder panics")
    }

    /// Says what is being done, on standard error.
    pub(super) fn note(&self, text: &str) {
        eprintln!("# {text}");
    }

    /// Whether every figure that has a goal reaches it.
    pub(super) fn all_met(&self) -> bool {
        let figures = self.figures();
        figures
            .iter()
            .all(|(name, value)| goal(name).is_none_or(|least| *value >= least))
    }

    /// All figures, then what has a goal.
    pub(super) fn table(&self) -> String {
        let figures = self.figures();
        let mut text = String::new();
        for (name, value) in figures.iter() {
            let _ = writeln!(text, "{}", line(name, *value));
        }
        let _ = writeln!(text, "\n{:<32} {:>8} {:>8}", "ratio", "goal", "reached");
        for (name, least) in AT_LEAST {
            let reached = figures.iter().find(|(figure, _)| figure == name);
            let (value, word) = match reached {
                None => ("-".to_owned(), "not measured"),
                Some((_, value)) if *value >= least => (readable(*value), "met"),
                Some((_, value)) => (readable(*value), "MISSED"),
            };
            let _ = writeln!(text, "{name:<32} {:>8} {value:>8} {word}", readable(least));
        }
        text
    }

    /// All figures as one line of JSON.
    pub(super) fn json(&self) -> String {
        let figures = self.figures();
        let values = figures
            .iter()
            .map(|(name, value)| (name.clone(), rounded(*value)));
        Value::Object(values.collect::<Map<_, _>>()).to_string()
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
        let goals = Goals::default();
        goals.figure("copy_postgres_ratio", 2.5);
        goals.figure("copy_rows_s", 1.0);
        assert!(goals.all_met(), "a figure without a goal meets it");
        goals.figure("copy_in_process_ratio", 0.69);
        assert!(!goals.all_met());
        let table = goals.table();
        assert!(table.contains("2.5 met"), "{table}");
        assert!(table.contains("0.69 MISSED"), "{table}");
        assert!(table.contains("- not measured"), "{table}");
        assert_eq!(
            goals.json(),
            r#"{"copy_in_process_ratio":0.69,"copy_postgres_ratio":2.5,"copy_rows_s":1.0}"#
        );
    }
}
