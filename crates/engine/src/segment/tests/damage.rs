//! A flipped bit, a shortened or lengthened file: found, named, never wrong rows, never a panic.

use std::sync::Arc;

use futures::executor::block_on;
use lazybase_model::ErrorKind;

use super::super::*;
use super::round_trip::{assert_same, read_all, write_as};
use super::sample::{narrow, narrow_rows};
use super::store::MemoryStore;
use crate::change_batch::ChangeBatch;
use crate::manifest::{SegmentFormat, SegmentMeta};

fn small_file(
    format: SegmentFormat,
) -> (MemoryStore, Arc<RowLayout>, Arc<SegmentMeta>, ChangeBatch) {
    let layout = narrow();
    let store = MemoryStore::default();
    let rows = narrow_rows(&layout, &[1, 2, 3, 5, 8, 13, 21, 34], 6);
    let options = WriteOptions {
        extent_bytes: 150,
        group_rows: 4,
        group_bytes: 1,
        ..WriteOptions::default()
    };
    let metas = write_as(format, &store.env(), &layout, options, vec![rows.clone()]);
    (store, layout, Arc::clone(&metas[0]), rows)
}

#[test]
fn every_flipped_bit_is_found_and_named_in_extents() {
    every_flipped_bit_is_found_and_named(SegmentFormat::Extent);
}

#[test]
fn every_flipped_bit_is_found_and_named_in_parquet() {
    every_flipped_bit_is_found_and_named(SegmentFormat::Parquet);
}

fn every_flipped_bit_is_found_and_named(format: SegmentFormat) {
    let (store, layout, meta, rows) = small_file(format);
    let good = store.bytes(&meta.file);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        store.set(&meta.file, bad);
        let error = block_on(verify_segment(&store.env(), &layout, &meta)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}: {error}");
        assert!(error.message().contains(&meta.file), "byte {at}: {error}");
        assert!(error.message().contains("flights"), "byte {at}: {error}");
        match read_all(&store.env(), &layout, &meta) {
            Ok(read) => assert_same(&read, &rows),
            Err(error) => assert!(error.message().contains(&meta.file), "byte {at}: {error}"),
        }
    }
}

#[test]
fn every_other_length_is_found_in_extents() {
    every_other_length_is_found(SegmentFormat::Extent);
}

#[test]
fn every_other_length_is_found_in_parquet() {
    every_other_length_is_found(SegmentFormat::Parquet);
}

fn every_other_length_is_found(format: SegmentFormat) {
    let (store, layout, meta, _) = small_file(format);
    let good = store.bytes(&meta.file);
    for length in (0..good.len()).chain([good.len() + 1, good.len() + 4096]) {
        let mut bad = good.clone();
        bad.resize(length, 0);
        store.set(&meta.file, bad);
        let error = read_all(&store.env(), &layout, &meta).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "length {length}: {error}");
        assert!(
            error.message().contains(&meta.file),
            "length {length}: {error}"
        );
    }
}

#[test]
fn a_missing_file_is_named() {
    let (store, layout, meta, _) = small_file(SegmentFormat::Extent);
    store.files.lock().clear();
    let error = read_all(&store.env(), &layout, &meta).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains(&meta.file), "{error}");
}

#[test]
fn rows_of_another_table_are_refused() {
    let (store, _, meta, _) = small_file(SegmentFormat::Extent);
    let columns = [
        ("id", arrow::datatypes::DataType::Int64),
        ("text", arrow::datatypes::DataType::Binary),
    ];
    let other = super::sample::layout(&columns, &[0]);
    let error = read_all(&store.env(), &other, &meta).unwrap_err();
    assert!(error.message().contains("columns"), "{error}");
}
