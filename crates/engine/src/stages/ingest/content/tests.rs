//! What the hash of a batch's content depends on.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, ListArray, RecordBatch, StringArray, StringViewArray,
};
use arrow::datatypes::Int32Type;
use lazybase_model::{SchemaVersion, TableId};

use super::ContentHasher;
use crate::change_batch::ChangeBatch;

fn batch(rows: usize, seed: i32) -> ChangeBatch {
    let some = |row: usize| !row.is_multiple_of(3);
    let ints: Int32Array = (0..rows)
        .map(|row| some(row).then_some(row as i32 + seed))
        .collect();
    let bools: BooleanArray = (0..rows)
        .map(|row| some(row + 1).then_some(row.is_multiple_of(2)))
        .collect();
    let text = |row: usize| some(row + 2).then(|| "x".repeat(row % 20));
    let texts: StringArray = (0..rows).map(text).collect();
    let views: StringViewArray = (0..rows).map(text).collect();
    let list = |row: usize| some(row).then(|| vec![Some(row as i32), None]);
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>((0..rows).map(list));
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("a", Arc::new(ints), true),
        ("b", Arc::new(bools), true),
        ("c", Arc::new(texts), true),
        ("d", Arc::new(views), true),
        ("e", Arc::new(lists), true),
    ];
    ChangeBatch::upserts(
        RecordBatch::try_from_iter_with_nullable(columns).unwrap(),
        0,
    )
}

fn hash(pieces: &[ChangeBatch]) -> u64 {
    let mut hasher = ContentHasher::default();
    for piece in pieces {
        hasher.add(TableId(1), SchemaVersion(1), piece).unwrap();
    }
    hasher.finish()
}

#[test]
fn it_depends_on_the_values_and_not_on_the_pieces() {
    let whole = batch(100, 0);
    let expected = hash(std::slice::from_ref(&whole));
    for cut in [1, 7, 50, 99] {
        let pieces = [whole.slice(0, cut), whole.slice(cut, 100 - cut)];
        assert_eq!(hash(&pieces), expected, "cut at {cut}");
    }
    assert_ne!(hash(&[batch(100, 1)]), expected);
    assert_ne!(hash(&[whole.slice(0, 99)]), expected);
    let swapped = [whole.slice(50, 50), whole.slice(0, 50)];
    assert_ne!(hash(&swapped), expected);
}

#[test]
fn its_definition_does_not_change() {
    assert_eq!(hash(&[batch(10, 0)]), 0x36f7_87ea_0167_c304);
    assert_eq!(hash(&[]), 0x2d06_8005_38d3_94c2);
}
