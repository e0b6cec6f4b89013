//! What the hash of a batch's content depends on.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, ListArray, RecordBatch, StringArray, StringViewArray,
};
use arrow::datatypes::Int32Type;
use lazybase_model::{SchemaVersion, TableId};
use twox_hash::XxHash3_64;

use super::{BytesHasher, ContentHasher, FEW_BYTES};
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
    let none: &[usize] = &[];
    let given: Vec<_> = pieces.iter().map(|piece| (piece, none)).collect();
    hash_without(&given)
}

/// The hash of pieces, each without the values of some columns.
fn hash_without(pieces: &[(&ChangeBatch, &[usize])]) -> u64 {
    let mut hasher = ContentHasher::default();
    for (piece, generated) in pieces {
        hasher
            .add(TableId(1), SchemaVersion(1), piece, generated)
            .unwrap();
    }
    hasher.finish()
}

/// The batch with the columns at some places of another.
fn with_columns(batch: &ChangeBatch, places: &[usize], other: &ChangeBatch) -> ChangeBatch {
    let mut columns = batch.data.columns().to_vec();
    for at in places {
        columns[*at] = Arc::clone(other.data.column(*at));
    }
    let data = RecordBatch::try_new(batch.data.schema(), columns).unwrap();
    ChangeBatch::upserts(data, 0)
}

#[test]
fn few_bytes_and_many_are_hashed_alike() {
    let bytes: Vec<u8> = (0..4 * FEW_BYTES)
        .map(|at| ((at * at) >> 3) as u8)
        .collect();
    for length in [0, 1, 240, 241, FEW_BYTES, FEW_BYTES + 1, bytes.len()] {
        for piece in [1, 100, FEW_BYTES, FEW_BYTES + 1] {
            let mut hasher = BytesHasher::default();
            let pieces = bytes[..length].chunks(piece);
            pieces.for_each(|piece| hasher.write(piece));
            assert_eq!(hasher.finish(), XxHash3_64::oneshot(&bytes[..length]));
        }
    }
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
fn generated_values_do_not_count_but_where_they_are_does() {
    let first = batch(100, 0);
    // Other values, lengths and NULLs in every column.
    let second = batch(101, 7).slice(1, 100);
    for at in 0..5 {
        let again = with_columns(&first, &[at], &second);
        let expected = hash_without(&[(&first, &[at])]);
        assert_eq!(hash_without(&[(&again, &[at])]), expected, "column {at}");
        assert_ne!(
            hash(std::slice::from_ref(&again)),
            hash(std::slice::from_ref(&first))
        );
        // What was given counts as before.
        let other = with_columns(&first, &[(at + 1) % 5], &second);
        assert_ne!(
            hash_without(&[(&other, &[at])]),
            expected,
            "beside column {at}"
        );
        // So does which column was generated, and that one was.
        assert_ne!(hash_without(&[(&first, &[(at + 1) % 5])]), expected);
        assert_ne!(hash(std::slice::from_ref(&first)), expected);
        assert_ne!(hash_without(&[(&first.slice(0, 99), &[at])]), expected);
    }
}

#[test]
fn generated_rows_do_not_depend_on_the_pieces() {
    let whole = batch(100, 0);
    let (a, b, c) = (whole.slice(0, 30), whole.slice(30, 40), whole.slice(70, 30));
    let expected = hash_without(&[(&whole, &[0, 2])]);
    let cut = hash_without(&[(&a, &[0, 2]), (&b, &[0, 2]), (&c, &[0, 2])]);
    assert_eq!(cut, expected);
    let (start, rest) = (b.slice(0, 15), b.slice(15, 25));
    let middle = hash_without(&[(&a, &[]), (&b, &[2]), (&c, &[])]);
    let in_two = hash_without(&[(&a, &[]), (&start, &[2]), (&rest, &[2]), (&c, &[])]);
    assert_eq!(in_two, middle);
    // Rows that were generated elsewhere are another batch.
    assert_ne!(hash_without(&[(&a, &[2]), (&b, &[]), (&c, &[])]), middle);
    assert_ne!(hash_without(&[(&a, &[2]), (&b, &[]), (&c, &[2])]), middle);
    assert_ne!(
        hash_without(&[(&a, &[]), (&start, &[2]), (&rest, &[]), (&c, &[])]),
        middle
    );
}

#[test]
fn its_definition_does_not_change() {
    assert_eq!(hash(&[batch(10, 0)]), 0x36f7_87ea_0167_c304);
    assert_eq!(hash(&[]), 0x2d06_8005_38d3_94c2);
}
