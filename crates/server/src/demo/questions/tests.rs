//! Tests of `demo::questions`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};

use super::{AckLog, Cut, LEVELS, Question, check_cut};

fn answer(values: &[Option<i64>]) -> RecordBatch {
    let column = |value: &Option<i64>| -> ArrayRef { Arc::new(Int64Array::from(vec![*value])) };
    let columns = values.iter().enumerate();
    RecordBatch::try_from_iter(columns.map(|(at, value)| (format!("c{at}"), column(value))))
        .unwrap()
}

#[test]
fn a_torn_cut_is_named() {
    let mut values: Vec<Option<i64>> = vec![Some(100)];
    let counts = [1, 2, 3, 4, 5, 6, 0, -8];
    values.extend(counts.map(Some));
    values.extend(counts.map(Some));
    values[15] = None;
    let whole = check_cut(&[answer(&values)]).unwrap().unwrap();
    assert_eq!(
        whole,
        Cut {
            changes: 100,
            torn: None
        }
    );
    values[10] = Some(7);
    let torn = check_cut(&[answer(&values)])
        .unwrap()
        .unwrap()
        .torn
        .unwrap();
    assert_eq!(torn, "departed: the desk says 2, the tables 7");
    assert_eq!(check_cut(&[]).unwrap(), None);
    assert!(check_cut(&[answer(&values[..4])]).is_err());
}

#[test]
fn freshness_says_what_must_be_there() {
    let mut log = AckLog::default();
    log.push(500_000, 10);
    log.push(1_500_000, 20);
    log.push(2_500_000, 30);
    let required = |at| LEVELS.map(|level| log.required(level, at));
    assert_eq!(required(400_000), [0, 0, 0, 0]);
    assert_eq!(required(2_500_000), [0, 0, 20, 30]);
    assert_eq!(required(12_000_000), [0, 20, 30, 30]);
}

#[test]
fn staleness_counts_from_the_first_batch_left_out() {
    let mut log = AckLog::default();
    log.push(500_000, 10);
    log.push(1_500_000, 20);
    let stale = |batches| log.staleness(batches, 2_000_000);
    assert_eq!([0, 1, 2, 3].map(stale), [1_500_000, 500_000, 0, 0]);
}

#[test]
fn the_clause_stands_last() {
    for (level, clause) in LEVELS.into_iter().zip(["'best effort'", "10", "1", "0"]) {
        for question in Question::ALL {
            let sql = question.sql(level, "flight = 1");
            assert!(sql.ends_with(&format!("FRESHNESS {clause}")), "{sql}");
        }
    }
}
