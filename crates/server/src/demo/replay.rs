//! The writer: the year's observations, step by step, each step one atomic batch over all tables.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::Int16Type;
use lazybase_model::{Error, Result};
use lazybase_query::{Database, Op};

use super::data::numbers;
use super::desk::Desk;
use super::shared::Shared;
use super::tables::{Observations, target};
use super::timeline::{Event, Kind, Step, Timeline};
use crate::figures::thousands;
use crate::wall;

/// Changes a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rate {
    /// As fast as the database takes them.
    Max,
    /// So many.
    Limited(f64),
}

impl std::str::FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Rate> {
        if text.eq_ignore_ascii_case("max") {
            return Ok(Rate::Max);
        }
        match text.replace(['_', ','], "").parse::<f64>() {
            Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(Rate::Limited(rate)),
            _ => Err(Error::invalid(format!("--rate {text:?} is not a rate"))
                .with_hint("give changes a second, or max")),
        }
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rate::Max => f.write_str("as fast as the database takes it"),
            Rate::Limited(rate) => write!(f, "{} changes a second", thousands(*rate as u64)),
        }
    }
}

impl Rate {
    /// The simulated minutes of one batch: at full speed, larger ones.
    pub(super) fn step_minutes(self) -> i64 {
        match self {
            Rate::Max => 240,
            Rate::Limited(_) => 30,
        }
    }

    /// The age at which SCUs are sealed unless the user says: at full speed a year would otherwise
    /// be one or two SCUs. At a rate to watch, some seconds keep unsorted data in sight.
    pub(super) fn scu_age(self) -> Duration {
        match self {
            Rate::Max => Duration::from_secs(1),
            Rate::Limited(_) => Duration::from_secs(3),
        }
    }

    /// When the change after `changes` others is due, since the start.
    fn due(self, changes: u64) -> Duration {
        match self {
            Rate::Max => Duration::ZERO,
            Rate::Limited(rate) => Duration::from_secs_f64(changes as f64 / rate),
        }
    }
}

/// All that the writer needs.
pub(super) struct Replay {
    pub(super) database: Database,
    pub(super) observations: Arc<Observations>,
    pub(super) timeline: Arc<Timeline>,
    pub(super) shared: Arc<Shared>,
    pub(super) rate: Rate,
}

impl Replay {
    /// The changes of the whole replay.
    pub(super) fn total(observations: &Observations, timeline: &Timeline) -> u64 {
        let reference = observations.reference.iter();
        let reference: usize = reference.map(|(_, _, rows)| rows.num_rows()).sum();
        (reference + timeline.events.len()) as u64
    }

    /// Replays everything; gives the tally at the end.
    pub(super) async fn run(self) -> Result<Desk> {
        let mut desk = self.load_reference().await?;
        for step in &self.timeline.steps {
            if !self.shared.running() {
                break;
            }
            let done = desk.changes as u64;
            let early = self.rate.due(done).checked_sub(self.shared.start.elapsed());
            if let Some(early) = early.filter(|early| *early > Duration::from_millis(1)) {
                wall::sleep(early).await;
            }
            self.step(step, &mut desk).await?;
        }
        Ok(desk)
    }

    /// Airlines, airports and planes, and the first tally.
    async fn load_reference(&self) -> Result<Desk> {
        let mut desk = Desk::default();
        let mut appender = self.database.appender();
        for (name, _, rows) in &self.observations.reference {
            appender.append(name, rows, Op::Upsert).await?;
            desk.changes += rows.num_rows() as i64;
        }
        let first = self.timeline.events.first().map_or(0, |event| event.second);
        appender
            .append("desk", &desk.row(first)?, Op::Upsert)
            .await?;
        appender.commit().await?;
        self.shared.acknowledged(desk.changes as u64, first);
        Ok(desk)
    }

    async fn step(&self, step: &Step, desk: &mut Desk) -> Result<()> {
        let events = &self.timeline.events[step.events.clone()];
        let mut appender = self.database.appender();
        for (kind, rows) in by_kind(events) {
            let count = rows.len() as i64;
            if kind == Kind::Scheduled {
                let newest = rows.iter().max().copied().unwrap_or(0);
                self.shared
                    .scheduled
                    .fetch_max(u64::from(newest), Ordering::Relaxed);
            }
            let batch = self.observations.rows(kind, rows)?;
            desk.count(kind, count, delay_minutes(kind, &batch)?);
            let (table, op) = target(kind);
            appender.append(table, &batch, op).await?;
        }
        appender
            .append("desk", &desk.row(step.until)?, Op::Upsert)
            .await?;
        appender.commit().await?;
        self.shared.acknowledged(desk.changes as u64, step.until);
        Ok(())
    }
}

/// The rows of each kind that occurs, in the order of kinds.
fn by_kind(events: &[Event]) -> Vec<(Kind, Vec<u32>)> {
    Kind::ALL
        .into_iter()
        .map(|kind| {
            let of_kind = events.iter().filter(|event| event.kind == kind);
            (kind, of_kind.map(|event| event.row).collect::<Vec<u32>>())
        })
        .filter(|(_, rows)| !rows.is_empty())
        .collect()
}

/// The sum of the delays that observations tell.
fn delay_minutes(kind: Kind, rows: &RecordBatch) -> Result<i64> {
    let name = match kind {
        Kind::Departed => "dep_delay",
        Kind::Arrived => "arr_delay",
        _ => return Ok(0),
    };
    let delays = numbers::<Int16Type>(rows, name)?;
    debug_assert_eq!(delays.null_count(), 0, "who left or came has a delay");
    Ok(delays.iter().flatten().map(i64::from).sum())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Event, Kind, Rate, by_kind};

    #[test]
    fn rates_are_read() {
        assert_eq!("max".parse::<Rate>().unwrap(), Rate::Max);
        let rate: Rate = "17_000".parse().unwrap();
        assert_eq!(rate.due(34_000), Duration::from_secs(2));
        for text in ["0", "-1", "fast", "inf", ""] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_step_is_appended_kind_by_kind() {
        let event = |kind, row| Event {
            second: 0,
            kind,
            row,
        };
        let events = [
            event(Kind::Removed, 1),
            event(Kind::Scheduled, 2),
            event(Kind::Removed, 3),
        ];
        let expected = [(Kind::Scheduled, vec![2]), (Kind::Removed, vec![1, 3])];
        assert_eq!(by_kind(&events), expected);
    }
}
