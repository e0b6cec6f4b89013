//! Tests of `changes`.

use arrow::array::{AsArray, Int32Array, StringArray};
use arrow::datatypes::{DataType, Int32Type};
use lazybase_model::{Column, TableId, ViewId};

use super::*;

/// k INT, v INT, w TEXT, sorted by k.
fn table() -> Table {
    let columns = vec![
        Column::new("k", DataType::Int32),
        Column::new("v", DataType::Int32),
        Column::new("w", DataType::Utf8),
    ];
    Table::new(TableId(1), ViewId(1), "t", columns, &[0])
}

fn ints(values: Vec<i32>) -> ArrayRef {
    Arc::new(Int32Array::from(values))
}

fn rows() -> Vec<ArrayRef> {
    vec![
        ints(vec![1, 2]),
        ints(vec![10, 20]),
        Arc::new(StringArray::from(vec!["a", "b"])),
    ]
}

fn kinds(batch: &ChangeBatch) -> Vec<u8> {
    (0..batch.rows())
        .map(|row| batch.kind(row).bits())
        .collect()
}

#[test]
fn masks_are_bits_of_columns() {
    assert_eq!(mask(3, &[0, 2]), [0b101]);
    assert_eq!(mask(9, &[8]), [0, 1]);
    assert!(mask(3, &[]).iter().all(|byte| *byte == 0));
}

#[test]
fn each_statement_has_its_kind() {
    let table = table();
    assert_eq!(kinds(&upserts(&table, rows()).unwrap()), [2, 2]);
    let absent = insert_or_set(&table, rows(), &[]).unwrap();
    assert_eq!(kinds(&absent), [3, 3]);
    assert_eq!(absent.masks.unwrap().value(0), [0]);
    let some = insert_or_set(&table, rows(), &[2]).unwrap();
    assert_eq!(some.masks.unwrap().value(1), [0b100]);
    assert_eq!(
        kinds(&insert_or_set(&table, rows(), &[1, 2]).unwrap()),
        [2, 2]
    );
    assert_eq!(kinds(&deletes(&table, &[ints(vec![1])]).unwrap()), [0]);
}

#[test]
fn updates_carry_the_key_and_what_they_set() {
    let batch = updates(&table(), &[ints(vec![1, 2])], &[(1, ints(vec![5, 5]))]).unwrap();
    assert_eq!(kinds(&batch), [1, 1]);
    assert_eq!(batch.masks.unwrap().value(0), [0b010]);
    assert_eq!(batch.data.column(2).null_count(), 2);
}

#[test]
fn halves_that_disagree_are_pairs_of_one_key() {
    let batch = insert_or_set_other(&table(), &rows(), &[(1, ints(vec![7, 7]))]).unwrap();
    assert_eq!(kinds(&batch), [7, 1, 7, 1]);
    assert_eq!(
        batch.data.column(0).as_primitive::<Int32Type>().values(),
        &[1, 1, 2, 2]
    );
    assert_eq!(
        batch.data.column(1).as_primitive::<Int32Type>().values(),
        &[10, 7, 20, 7]
    );
    let masks = batch.masks.unwrap();
    assert!(masks.is_null(0) && masks.value(1) == [0b010]);
    assert!(batch.data.column(2).is_null(1));
}
