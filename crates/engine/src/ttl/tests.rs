//! Which rows have ended, by every type of moment.

use std::sync::Arc;

use arrow::array::{Date32Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::array::{TimestampNanosecondArray, TimestampSecondArray};
use lazybase_model::{Column, TableId, TimeToLive, ViewId};

use super::*;

/// A table of ids and moments whose rows live for two days.
fn table(data_type: DataType) -> Table {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("at", data_type),
    ];
    let mut table = Table::new(TableId(1), ViewId(1), "t", columns, &[0]);
    table.ttl = Some(TimeToLive {
        column: table.columns[1].id,
        micros: 2 * DAY_MICROS as u64,
    });
    table
}

fn alive(moments: ArrayRef, as_of_micros: i64) -> Vec<bool> {
    let expiry = Expiry::of(&table(moments.data_type().clone()), as_of_micros).unwrap();
    match expiry.alive(&moments) {
        None => vec![true; moments.len()],
        Some(alive) => alive.iter().map(Option::unwrap).collect(),
    }
}

#[test]
fn a_row_ends_when_its_time_is_at_or_before_the_moment() {
    let moments = TimestampMicrosecondArray::from(vec![Some(0), Some(1), Some(-1), None]);
    let at = |micros| alive(Arc::new(moments.clone()), micros);
    assert_eq!(at(2 * DAY_MICROS), [false, true, false, true]);
    assert_eq!(at(2 * DAY_MICROS - 1), [true, true, false, true]);
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![-1, 0, 1]));
    assert_eq!(
        alive(Arc::clone(&seconds), 2 * DAY_MICROS),
        [false, false, true]
    );
    assert_eq!(alive(seconds, 2 * DAY_MICROS - 1), [false, true, true]);
    let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![-1, 0, 1]));
    assert_eq!(alive(nanos, 2 * DAY_MICROS), [false, false, true]);
    let days: ArrayRef = Arc::new(Date32Array::from(vec![-1, 0, 1]));
    assert_eq!(
        alive(Arc::clone(&days), 2 * DAY_MICROS),
        [false, false, true]
    );
    assert_eq!(alive(days, 3 * DAY_MICROS - 1), [false, false, true]);
}

#[test]
fn the_newest_moment_is_no_earlier_than_any() {
    let micros = |moments: ArrayRef| newest_moment(&moments);
    assert_eq!(
        micros(Arc::new(TimestampMicrosecondArray::from(vec![3, 9, 5]))),
        Some(9)
    );
    assert_eq!(
        micros(Arc::new(TimestampNanosecondArray::from(vec![3, 9_001]))),
        Some(10)
    );
    assert_eq!(
        micros(Arc::new(Date32Array::from(vec![1, 0]))),
        Some(DAY_MICROS)
    );
    assert_eq!(
        micros(Arc::new(Date32Array::from(vec![Some(1), None]))),
        None
    );
    assert_eq!(micros(Arc::new(Int64Array::from(vec![1]))), None);
}

#[test]
fn rows_that_have_ended_are_dropped_and_the_others_stay_as_they_are() {
    let table = table(DataType::Date32);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2, 3])),
        Arc::new(Date32Array::from(vec![Some(0), Some(10), None])),
    ];
    let rows = RecordBatch::try_new(table.arrow_schema(), columns).unwrap();
    let expiry = Expiry::of(&table, 5 * DAY_MICROS).unwrap();
    let kept = expiry.keep_alive(ChangeBatch::upserts(rows, 7)).unwrap();
    assert_eq!(kept.data.column(0).as_ref(), &Int64Array::from(vec![2, 3]));
    assert!(kept.all_upserts() && kept.scu(1) == 7);
}
