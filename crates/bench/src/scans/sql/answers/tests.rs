//! What makes two answers the same.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray};

use super::difference;

fn batch(columns: [(&str, ArrayRef); 3]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, cells)| (name, cells, true)))
        .unwrap()
}

/// Rows of a word, a count and a mean, the words as views.
fn views(rows: &[(Option<&str>, i64, Option<f64>)]) -> RecordBatch {
    let words: StringViewArray = rows.iter().map(|row| row.0).collect();
    batch([
        ("word", Arc::new(words)),
        (
            "count",
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        ),
        (
            "mean",
            Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>()),
        ),
    ])
}

/// The same, the words as texts.
fn texts(rows: &[(Option<&str>, i64, Option<f64>)]) -> RecordBatch {
    let views = views(rows);
    let words: StringArray = rows.iter().map(|row| row.0).collect();
    batch([
        ("word", Arc::new(words)),
        ("count", Arc::clone(views.column(1))),
        ("mean", Arc::clone(views.column(2))),
    ])
}

const ROWS: [(Option<&str>, i64, Option<f64>); 3] = [
    (Some("ab"), 2, Some(0.1)),
    (Some("b"), 1, None),
    (None, 7, Some(3e9)),
];

#[test]
fn rows_are_the_same_in_whatever_order_batches_and_types() {
    let [first, second, third] = ROWS;
    let turned = [texts(&[third]), texts(&[]), texts(&[second, first])];
    assert_eq!(difference(&[views(&ROWS)], &turned).unwrap(), None);
    assert_eq!(difference(&[], &[texts(&[])]).unwrap(), None);
}

#[test]
fn floats_may_differ_by_what_their_order_makes() {
    let nearly = [
        (Some("ab"), 2, Some(0.1 + 1e-12)),
        ROWS[1],
        (None, 7, Some(3e9 + 1.0)),
    ];
    assert_eq!(
        difference(&[views(&ROWS)], &[texts(&nearly)]).unwrap(),
        None
    );
}

#[test]
fn a_wrong_cell_is_told() {
    let [first, second, third] = ROWS;
    for wrong in [
        [first, second, (None, 8, Some(3e9))],
        [first, second, (None, 7, Some(3.1e9))],
        [first, (Some("b"), 1, Some(0.0)), third],
        [first, (Some("c"), 1, None), third],
        [first, first, third],
    ] {
        assert!(
            difference(&[views(&ROWS)], &[texts(&wrong)])
                .unwrap()
                .is_some(),
            "{wrong:?}"
        );
    }
    let told = difference(&[views(&ROWS)], &[texts(&[first, second])]).unwrap();
    assert_eq!(told.unwrap(), "3 rows, of plain files 2");
}
