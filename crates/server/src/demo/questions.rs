//! What the readers ask, at which freshness, and what must hold of the answers; no I/O.

use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use lazybase_model::{Error, Freshness, Result};

use super::desk::COUNTS;
use crate::failure;

/// The freshness levels, stalest first.
pub(super) const LEVELS: [Freshness; 4] = [
    Freshness::BestEffort,
    Freshness::Within(Duration::from_secs(10)),
    Freshness::Within(Duration::from_secs(1)),
    Freshness::ZERO,
];

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// The tables against the desk's tally: one consistent cut.
    Cut,
    /// An aggregate over everything.
    Carriers,
    /// An aggregate over few.
    Late,
    /// One flight by its key.
    Flight,
}

impl Question {
    /// All of them, in the order of asking.
    pub(super) const ALL: [Question; 4] = [
        Question::Cut,
        Question::Carriers,
        Question::Flight,
        Question::Late,
    ];

    /// Its name in the figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Question::Cut => "consistency",
            Question::Carriers => "by carrier",
            Question::Late => "late now",
            Question::Flight => "one flight",
        }
    }

    /// What it asks, for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Question::Cut => "Do all tables agree with the tally?",
            Question::Carriers => "Flights and mean delay by carrier",
            Question::Late => "Who is in the air an hour late?",
            Question::Flight => "One flight by its key",
        }
    }

    /// The statement. `key` is the condition that names one flight.
    pub(super) fn sql(self, level: Freshness, key: &str) -> String {
        let select = match self {
            Question::Cut => cut_sql(),
            Question::Carriers => "SELECT carrier, count(*) AS flights, avg(arr_delay) AS late \
                 FROM flights GROUP BY carrier ORDER BY carrier"
                .to_owned(),
            Question::Late => "SELECT origin, count(*) AS late, max(dep_delay) AS worst \
                 FROM flights WHERE status = 'departed' AND dep_delay > 60 GROUP BY origin"
                .to_owned(),
            Question::Flight => {
                format!("SELECT status, tailnum, dep_delay, arr_delay FROM flights WHERE {key}")
            }
        };
        format!("{select} {}", clause(level))
    }
}

/// The clause that asks for a freshness.
pub(super) fn clause(level: Freshness) -> String {
    match level {
        Freshness::BestEffort => "FRESHNESS 'best effort'".to_owned(),
        Freshness::Within(bound) => format!("FRESHNESS {}", bound.as_secs()),
    }
}

/// The tally and what it speaks of, in one statement: first the changes, then the tally's counts,
/// then the tables'.
fn cut_sql() -> String {
    let tally: Vec<String> = COUNTS.iter().map(|name| format!("d.{name}")).collect();
    let by_status: Vec<String> = COUNTS[..5]
        .iter()
        .map(|name| format!("sum(CASE WHEN status = '{name}' THEN 1 ELSE 0 END) AS n_{name}"))
        .collect();
    let found: Vec<String> = COUNTS[..5]
        .iter()
        .map(|name| format!("f.n_{name}"))
        .collect();
    format!(
        "SELECT d.changes, {}, {}, w.n_readings, f.n_dep_delays, f.n_arr_delays FROM desk d \
         CROSS JOIN (SELECT {}, sum(dep_delay) AS n_dep_delays, sum(arr_delay) AS n_arr_delays \
         FROM flights) f CROSS JOIN (SELECT count(*) AS n_readings FROM weather) w",
        tally.join(", "),
        found.join(", "),
        by_status.join(", "),
    )
}

/// Reads the answer of [`Question::Cut`]: the changes that it contains, or what is inconsistent.
/// `None` before the first batch.
///
/// # Errors
/// `Internal` when the answer has not the shape that was asked for.
pub(super) fn check_cut(batches: &[RecordBatch]) -> Result<Option<Cut>> {
    let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else {
        return Ok(None);
    };
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let values = first_row(batch)?;
    if rows != 1 || values.len() != 1 + 2 * COUNTS.len() {
        return Err(Error::internal(format!(
            "the consistency query gave {rows} rows of {} columns",
            values.len()
        )));
    }
    let (tally, found) = values[1..].split_at(COUNTS.len());
    let torn = COUNTS
        .iter()
        .zip(tally.iter().zip(found))
        .find(|(_, (tally, found))| tally != found)
        .map(|(name, (tally, found))| format!("{name}: the desk says {tally}, the tables {found}"));
    Ok(Some(Cut {
        changes: values[0].max(0) as u64,
        torn,
    }))
}

/// An answer of [`Question::Cut`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    /// How many changes it contains.
    pub(super) changes: u64,
    /// How tables and tally differ, if they do.
    pub(super) torn: Option<String>,
}

/// The first row's numbers; sums over nothing count as 0.
fn first_row(batch: &RecordBatch) -> Result<Vec<i64>> {
    let number = |column: &arrow::array::ArrayRef| -> Result<i64> {
        let column = cast(column, &DataType::Int64)
            .map_err(|error| failure::arrow("consistency query", &error))?;
        let column = column.as_primitive::<Int64Type>();
        Ok(if column.is_null(0) {
            0
        } else {
            column.value(0)
        })
    };
    batch.columns().iter().map(number).collect()
}

/// When changes were acknowledged: what an answer of a given freshness must contain.
#[derive(Debug, Default)]
pub(super) struct AckLog {
    /// Microseconds since the start, and all changes acknowledged until then.
    entries: Vec<(u64, u64)>,
}

impl AckLog {
    /// All changes so far were acknowledged at `at`.
    pub(super) fn push(&mut self, at: u64, changes: u64) {
        self.entries.push((at, changes));
    }

    /// How stale an answer is at `now` that holds the first `batches` batches: since the next one
    /// was acknowledged; 0 if there is none.
    pub(super) fn staleness(&self, batches: u64, now: u64) -> u64 {
        let next = usize::try_from(batches).ok();
        let next = next.and_then(|next| self.entries.get(next));
        next.map_or(0, |(at, _)| now.saturating_sub(*at))
    }

    /// The changes that an answer asked at `asked` must contain.
    pub(super) fn required(&self, level: Freshness, asked: u64) -> u64 {
        let Freshness::Within(bound) = level else {
            return 0;
        };
        let bound = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
        let Some(until) = asked.checked_sub(bound) else {
            return 0;
        };
        let known = self.entries.partition_point(|(at, _)| *at <= until);
        known.checked_sub(1).map_or(0, |last| self.entries[last].1)
    }
}

#[cfg(test)]
mod tests;
