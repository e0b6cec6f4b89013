//! What the versions of rows that were written whole cost on disk: `_scu` alone.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::super::*;
use super::round_trip::{assert_same, read_all, write_as};
use super::sample::{narrow, narrow_rows};
use super::store::MemoryStore;
use crate::change_batch::{ChangeBatch, Scus};
use crate::manifest::{SegmentFormat, SegmentMeta};

/// A number without any likeness to those of neighbours.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Rows of the same columns as `narrow_rows`, each with 640 bytes that can't be compressed well.
fn wide_rows(layout: &RowLayout, keys: &[i64]) -> ChangeBatch {
    let text = |key: &i64| -> String {
        let numbers = (0..40).map(|at| mixed(*key as u64 * 40 + at));
        numbers.map(|number| format!("{number:016x}")).collect()
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(keys.to_vec())),
        Arc::new(StringArray::from_iter_values(keys.iter().map(text))),
    ];
    let data = RecordBatch::try_new(Arc::clone(&layout.schema), columns).unwrap();
    ChangeBatch::upserts(data, 1)
}

fn written(
    format: SegmentFormat,
    layout: &Arc<RowLayout>,
    rows: &ChangeBatch,
) -> (MemoryStore, Arc<SegmentMeta>) {
    let store = MemoryStore::default();
    let pushes = vec![rows.clone()];
    let metas = write_as(
        format,
        &store.env(),
        layout,
        WriteOptions::default(),
        pushes,
    );
    let [meta] = &metas[..] else {
        panic!("one file: {metas:?}")
    };
    (store, Arc::clone(meta))
}

/// The bytes of the column `_scu` of a Parquet file, the headers of its pages included.
fn column_bytes(store: &MemoryStore, meta: &SegmentMeta) -> u64 {
    let file = Bytes::from(store.bytes(&meta.file));
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let groups = reader.metadata().row_groups().iter();
    let chunks = groups.flat_map(|group| group.columns());
    let scus = chunks.filter(|chunk| chunk.column_path().string() == "_scu");
    scus.map(|chunk| chunk.compressed_size() as u64).sum()
}

/// The bytes a row that SCU numbers take: in Parquet those of their column, in extents those by
/// which the file is longer than one of a single SCU, which has none.
fn cost(
    format: SegmentFormat,
    layout: &Arc<RowLayout>,
    plain: &ChangeBatch,
    scu: fn(u64) -> u64,
) -> f64 {
    let count = plain.rows() as u64;
    let rows = ChangeBatch {
        scus: Scus::Each((0..count).map(scu).collect()),
        ..plain.clone()
    };
    let (store, meta) = written(format, layout, &rows);
    assert_same(&read_all(&store.env(), layout, &meta).unwrap(), &rows);
    let bytes = match format {
        SegmentFormat::Parquet => column_bytes(&store, &meta),
        SegmentFormat::Extent => {
            let (_, without) = written(format, layout, plain);
            meta.bytes.saturating_sub(without.bytes)
        }
    };
    bytes as f64 / count as f64
}

/// SCUs of neighbours, with the most bytes a row that they may take in extents and in Parquet.
/// Where they lie scattered a row takes the bits of their count, and in Parquet one more: its
/// numbers are differences.
type Case = (&'static str, fn(u64) -> u64, f64, f64);
const CASES: [Case; 6] = [
    ("rising", |row| row / 1000 + 1, 0.2, 0.2),
    (
        "10,000 in runs of ten rows",
        |row| mixed(row / 10) % 10_000 + 1,
        0.6,
        2.0,
    ),
    ("200 scattered", |row| mixed(row) % 200 + 1, 1.2, 1.3),
    ("10,000 scattered", |row| mixed(row) % 10_000 + 1, 1.9, 2.0),
    ("16,000 scattered", |row| mixed(row) % 16_000 + 1, 1.9, 2.0),
    ("32,000 scattered", |row| mixed(row) % 32_000 + 1, 2.0, 2.2),
];

#[test]
fn versions_of_whole_rows_cost_less_than_two_bytes_a_row() {
    let layout = narrow();
    let keys: Vec<i64> = (0..100_000).collect();
    let rows = [
        ("narrow", narrow_rows(&layout, &keys, 1)),
        ("wide", wide_rows(&layout, &keys[..10_000])),
    ];
    for (width, rows) in &rows {
        for (scus, scu, in_extents, in_parquet) in CASES {
            for (format, most) in [
                (SegmentFormat::Extent, in_extents),
                (SegmentFormat::Parquet, in_parquet),
            ] {
                let cost = cost(format, &layout, rows, scu);
                let what = format!("{format:?}, {width} rows, {scus}: {cost:.3} bytes a row");
                println!("{what}");
                assert!(cost < most, "{what}");
            }
        }
    }
}
