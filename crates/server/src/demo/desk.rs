//! The desk's own tally: one row, written in every batch, of what the tables must hold there.
//!
//! Invariant DEMO-2: at any horizon the tables agree with the tally, or the answer is no
//! consistent cut. Readers ask for both in one query.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
use lazybase_model::Result;

use super::timeline::Kind;
use crate::failure;

/// The tally's counts, in the order of [`Desk::values`].
pub(super) const COUNTS: [&str; 8] = [
    "scheduled",
    "departed",
    "arrived",
    "diverted",
    "cancelled",
    "readings",
    "dep_delays",
    "arr_delays",
];

/// What the tables hold after the batches so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Desk {
    /// Changes so far, the tally's own left out.
    pub(super) changes: i64,
    /// Flights by status.
    scheduled: i64,
    departed: i64,
    arrived: i64,
    diverted: i64,
    cancelled: i64,
    /// Weather readings.
    readings: i64,
    /// Minutes.
    dep_delays: i64,
    /// Minutes.
    arr_delays: i64,
}

impl Desk {
    /// Counts observations of one kind; `minutes` is the sum of the delays that they tell.
    pub(super) fn count(&mut self, kind: Kind, rows: i64, minutes: i64) {
        self.changes += rows;
        match kind {
            Kind::Weather => self.readings += rows,
            Kind::Scheduled => self.scheduled += rows,
            Kind::Departed => {
                self.scheduled -= rows;
                self.departed += rows;
                self.dep_delays += minutes;
            }
            Kind::Arrived => {
                self.departed -= rows;
                self.arrived += rows;
                self.arr_delays += minutes;
            }
            Kind::Diverted => {
                self.departed -= rows;
                self.diverted += rows;
            }
            Kind::Cancelled => {
                self.scheduled -= rows;
                self.cancelled += rows;
            }
            Kind::Removed => self.scheduled -= rows,
        }
    }

    /// The counts, in the order of [`COUNTS`].
    pub(super) fn values(&self) -> [i64; 8] {
        [
            self.scheduled,
            self.departed,
            self.arrived,
            self.diverted,
            self.cancelled,
            self.readings,
            self.dep_delays,
            self.arr_delays,
        ]
    }

    /// The tally's row, at a moment in seconds since 1970.
    pub(super) fn row(&self, second: i64) -> Result<RecordBatch> {
        let number = |value: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![value])) };
        let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![second * 1_000_000]));
        let mut columns = vec![
            ("id", number(1)),
            ("at", at),
            ("changes", number(self.changes)),
        ];
        let counts = COUNTS.into_iter().zip(self.values());
        columns.extend(counts.map(|(name, value)| (name, number(value))));
        RecordBatch::try_from_iter(columns).map_err(|error| failure::arrow("desk", &error))
    }
}

#[cfg(test)]
mod tests {
    use super::{Desk, Kind};

    #[test]
    fn flights_move_between_statuses() {
        let mut desk = Desk::default();
        desk.count(Kind::Scheduled, 10, 0);
        desk.count(Kind::Departed, 6, 30);
        desk.count(Kind::Arrived, 4, -7);
        desk.count(Kind::Diverted, 1, 0);
        desk.count(Kind::Cancelled, 2, 0);
        desk.count(Kind::Removed, 1, 0);
        desk.count(Kind::Weather, 3, 0);
        assert_eq!(desk.values(), [1, 1, 4, 1, 2, 3, 30, -7]);
        assert_eq!(desk.changes, 27);
        assert_eq!(desk.row(0).unwrap().num_columns(), 11);
    }
}
