//! Tests of `patient_joins`.

use arrow::array::{ArrayRef, Int64Array};
use datafusion::common::NullEquality;
use datafusion::physical_expr::expressions::Column;

use super::gauge::{PAIRS_BETWEEN_PAUSES, rows_between_pauses};
use super::*;

#[test]
fn the_more_rows_on_the_left_the_fewer_between_pauses() {
    for (left_rows, between) in [
        (0, 1024),
        (1, 1024),
        (65_536, 1024),
        (65_537, 1023),
        (3_000_000, 22),
        (PAIRS_BETWEEN_PAUSES, 1),
        (usize::MAX, 1),
    ] {
        assert_eq!(rows_between_pauses(left_rows), between, "{left_rows}");
    }
}

fn keys(keys: impl IntoIterator<Item = Option<i64>>) -> RecordBatch {
    let keys: Int64Array = keys.into_iter().collect();
    RecordBatch::try_from_iter_with_nullable([("k", Arc::new(keys) as ArrayRef, true)]).unwrap()
}

fn key() -> Vec<Arc<dyn PhysicalExpr>> {
    vec![Arc::new(Column::new("k", 0))]
}

/// After a thousand rows on the left for each of these keys, and so many pairs between two pauses.
fn gauge(left: &[Option<i64>], null_equality: NullEquality, pairs_max: u64) -> EqualKeys {
    let gauge = EqualKeys::new((key(), key()), null_equality, 1, pairs_max);
    for _ in 0..1_000 {
        gauge.count(0, &keys(left.iter().copied())).unwrap();
    }
    gauge
}

#[test]
fn rows_of_a_key_with_many_rows_on_the_left_come_in_small_parts() {
    let gauge = gauge(&[Some(7), Some(8)], NullEquality::NullEqualsNothing, 4_000);
    let parts = |right: &RecordBatch| gauge.parts(1, right).unwrap();
    assert_eq!(parts(&keys([])), [0_usize; 0]);
    assert_eq!(parts(&keys([Some(7); 4])), [4]);
    assert_eq!(parts(&keys([Some(7); 9])), [4, 4, 1]);
    assert_eq!(parts(&keys([7, 8, 7, 8, 7].map(Some))), [4, 1]);
    assert_eq!(parts(&keys((100..600).map(Some))), [500]);
    gauge.begin(0);
    assert_eq!(parts(&keys([Some(7); 9])), [9]);
}

#[test]
fn unknown_keys_count_where_they_are_equal() {
    for (null_equality, parts) in [
        (NullEquality::NullEqualsNothing, vec![3]),
        (NullEquality::NullEqualsNull, vec![1, 1, 1]),
    ] {
        let gauge = gauge(&[None], null_equality, 1_000);
        assert_eq!(gauge.parts(0, &keys([None; 3])).unwrap(), parts);
    }
}

#[test]
fn parts_follow_each_other() {
    let rows = keys((0..5).map(Some));
    let parts = cut(&rows, &[2, 1, 2]);
    let wanted = [0..2, 2..3, 3..5].map(|part| keys(part.map(Some)));
    assert_eq!(parts, wanted);
}
