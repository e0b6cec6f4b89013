//! Files of earlier versions stay readable: `tests/golden/` holds one of each format, beside what
//! the manifest said about it. `LAZYBASE_REWRITE_GOLDEN=1` writes them anew, for a new version.
#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;
use std::sync::Arc;

use futures::executor::block_on;

use super::super::*;
use super::round_trip::{assert_same, read_all, write, write_as};
use super::sample::{every_kind, every_type, every_type_data};
use super::store::MemoryStore;
use crate::change_batch::{ChangeBatch, Scus};
use crate::manifest::{SegmentFormat, SegmentMeta};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden")
        .join(name)
}

fn check(name: &str, rows: &ChangeBatch, layout: &Arc<RowLayout>, write: impl Fn(&MemoryStore)) {
    let store = MemoryStore::default();
    if std::env::var_os("LAZYBASE_REWRITE_GOLDEN").is_some() {
        write(&store);
        return;
    }
    read(name, rows, layout);
}

fn read(name: &str, rows: &ChangeBatch, layout: &Arc<RowLayout>) {
    let store = MemoryStore::default();
    let (file, meta) = (golden(name), golden(&format!("{name}.json")));
    let meta: SegmentMeta = serde_json::from_slice(&std::fs::read(meta).unwrap()).unwrap();
    store.set(&meta.file, std::fs::read(file).unwrap());
    let meta = Arc::new(meta);
    block_on(verify_segment(&store.env(), layout, &meta)).unwrap();
    assert_same(&read_all(&store.env(), layout, &meta).unwrap(), rows);
}

fn rewrite(name: &str, store: &MemoryStore, metas: &[Arc<SegmentMeta>]) {
    std::fs::create_dir_all(golden("")).unwrap();
    std::fs::write(golden(name), store.bytes(&metas[0].file)).unwrap();
    let meta = serde_json::to_vec_pretty(&*metas[0]).unwrap();
    std::fs::write(golden(&format!("{name}.json")), meta).unwrap();
}

#[test]
fn the_first_extent_file_is_still_read() {
    let layout = every_type();
    read("segment-v1.ext", &every_kind(&layout), &layout);
}

#[test]
fn an_extent_file_of_version_2_is_still_read() {
    let layout = every_type();
    read("segment-v2.ext", &every_kind(&layout), &layout);
}

#[test]
fn an_extent_file_of_version_3_is_read() {
    let layout = every_type();
    let mut rows = every_kind(&layout);
    // SCUs that change from row to row, then runs of some rows of one SCU.
    let scu = |row: u64| match row {
        0..20 => 100 + row % 3,
        _ => 100 + row / 5 * 300,
    };
    rows.scus = Scus::Each((0..rows.rows() as u64).map(scu).collect());
    check("segment-v3.ext", &rows, &layout, |store| {
        let options = WriteOptions {
            extent_bytes: 3000,
            ..WriteOptions::default()
        };
        let metas = write(&store.env(), &layout, options, vec![rows.clone()]);
        rewrite("segment-v3.ext", store, &metas);
    });
}

#[test]
fn the_first_parquet_file_is_still_read() {
    let layout = every_type();
    let mut rows = ChangeBatch::upserts(every_type_data(&layout, 0..40), 9);
    rows.column_scus = every_kind(&layout)
        .column_scus
        .map(|column| column.slice(0, 40));
    check("segment-v1.parquet", &rows, &layout, |store| {
        let options = WriteOptions {
            group_rows: 16,
            group_bytes: 1,
            ..WriteOptions::default()
        };
        let format = SegmentFormat::Parquet;
        let metas = write_as(format, &store.env(), &layout, options, vec![rows.clone()]);
        rewrite("segment-v1.parquet", store, &metas);
    });
}
