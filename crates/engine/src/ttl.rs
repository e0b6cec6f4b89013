//! Time to live: which rows have ended at a moment (section 3 of the design).
//!
//! A row has ended at a horizon when the moment in its column, plus the table's time to live, is at
//! or before the horizon's as-of time, by no other clock. Readers leave such rows out after they
//! have reconciled; merges drop them from the authority where every horizon that the new base can
//! answer is at or after that time. Invariant TTL-1: an answer at a horizon is the same whatever
//! has been merged. Rows without a moment never end.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, UInt32Array};
use arrow::compute::max;
use arrow::datatypes::{
    DataType, Date32Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use lazybase_model::{Result, Table};

use crate::change_batch::ChangeBatch;
use crate::manifest::SegmentMeta;

#[cfg(test)]
mod tests;

const DAY_MICROS: i64 = 86_400_000_000;

/// Which rows of a table have ended at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiry {
    column: usize,
    /// Rows end whose moment is at or before this one, in microseconds since 1970.
    through_micros: i64,
}

impl Expiry {
    /// Whether rows can end by a column of this type.
    pub fn takes(data_type: &DataType) -> bool {
        matches!(data_type, DataType::Timestamp(..) | DataType::Date32)
    }

    /// The rows of a table that have ended at `as_of_micros`; `None` where they never do.
    pub fn of(table: &Table, as_of_micros: i64) -> Option<Expiry> {
        let (ttl, column) = (table.ttl?, table.ttl_index()?);
        let micros = i64::try_from(ttl.micros).unwrap_or(i64::MAX);
        Some(Expiry {
            column,
            through_micros: as_of_micros.saturating_sub(micros),
        })
    }

    /// The position of the column among the table's.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Which rows have not ended, by their moments; `None` where none has.
    pub fn alive(&self, moments: &ArrayRef) -> Option<BooleanArray> {
        let through = self.through_micros;
        let alive = match moments.data_type() {
            DataType::Date32 => after::<Date32Type>(moments, through.div_euclid(DAY_MICROS)),
            DataType::Timestamp(TimeUnit::Second, _) => {
                after::<TimestampSecondType>(moments, through.div_euclid(1_000_000))
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                after::<TimestampMillisecondType>(moments, through.div_euclid(1_000))
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                after::<TimestampMicrosecondType>(moments, through)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                after::<TimestampNanosecondType>(moments, through.saturating_mul(1_000))
            }
            _ => return None,
        };
        (alive.true_count() < alive.len()).then_some(alive)
    }

    /// The plain rows of a new base that have not ended.
    ///
    /// # Errors
    /// `Internal` when the rows can't be gathered.
    pub fn keep_alive(&self, rows: ChangeBatch) -> Result<ChangeBatch> {
        match self.alive(rows.data.column(self.column)) {
            None => Ok(rows),
            Some(alive) => {
                let kept = (0..rows.rows() as u32).filter(|row| alive.value(*row as usize));
                rows.take(&UInt32Array::from_iter_values(kept))
            }
        }
    }

    /// Whether all rows of a segment have ended, as far as its bounds tell.
    pub fn ends_all(&self, segment: &SegmentMeta) -> bool {
        let through = segment.moments_through;
        through.is_some_and(|through| through <= self.through_micros)
    }
}

/// Which rows hold a value after `last`, or none.
fn after<T: ArrowPrimitiveType>(moments: &ArrayRef, last: i64) -> BooleanArray
where
    T::Native: Into<i64>,
{
    let values = moments.as_primitive::<T>();
    let alive = |row: usize| {
        let moment: i64 = values.value(row).into();
        values.is_null(row) || moment > last
    };
    (0..values.len()).map(|row| Some(alive(row))).collect()
}

/// The newest moment of rows, in microseconds since 1970, none earlier than it is; `None` where a
/// row has none.
pub(crate) fn newest_moment(moments: &ArrayRef) -> Option<i64> {
    if moments.null_count() > 0 || moments.is_empty() {
        return None;
    }
    let newest = |value: Option<i64>, micros: i64| value.map(|v| v.saturating_mul(micros));
    match moments.data_type() {
        DataType::Date32 => {
            let days = max(moments.as_primitive::<Date32Type>());
            newest(days.map(i64::from), DAY_MICROS)
        }
        DataType::Timestamp(TimeUnit::Second, _) => newest(
            max(moments.as_primitive::<TimestampSecondType>()),
            1_000_000,
        ),
        DataType::Timestamp(TimeUnit::Millisecond, _) => newest(
            max(moments.as_primitive::<TimestampMillisecondType>()),
            1_000,
        ),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            max(moments.as_primitive::<TimestampMicrosecondType>())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let nanos = max(moments.as_primitive::<TimestampNanosecondType>());
            nanos.map(|nanos| nanos.div_euclid(1_000) + 1)
        }
        _ => None,
    }
}
