//! Few changes of a large table on their way into the authority: row groups that they leave alone
//! stay, and of the others the columns that they leave alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{RecordBatch, StringArray};
use futures::executor::block_on;
use lazybase_cluster::{Instance, Settings, SettleTo, SparseWork, TableSpec};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::env::Env;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::manifest::{RunKind, SegmentFormat};
use lazybase_engine::segment::{ReadCounters, RowLayout, Segment, WriteOptions};
use lazybase_model::{Freshness, Layout, Table};
use proptest::prelude::*;

use crate::damage::points;
use crate::harness::{Change, Row, changes, close_whole, commit, create, fresh, open, scan, spec};
use crate::model::Model;

/// Rows of about a kilobyte, so that a row group has 8,192 of them.
pub(crate) const ROWS: i64 = 20_000;

fn settings() -> Settings {
    Settings {
        seal_age: Duration::from_secs(3600),
        retention: Duration::ZERO,
        ..Settings::default()
    }
}

pub(crate) fn row(id: i64) -> Row {
    let word = format!("{:08x} ", id.wrapping_mul(0x9e37_79b9) as u32);
    (id, Some(id % 97), Some(word.repeat(110)))
}

/// A database with rows of the even keys in the authority.
pub(crate) fn settled(store: &Arc<MemoryStore>, layout: Layout) -> (Instance, Arc<Table>, Model) {
    let instance = open(Arc::clone(store) as _, settings()).unwrap();
    let spec = TableSpec {
        layout,
        ..spec("t", &["id"])
    };
    let table = block_on(instance.create_table(spec, false)).unwrap();
    let table = table.unwrap();
    let mut model = Model::default();
    let rows: Vec<Change> = (0..ROWS).map(|at| Change::Upsert(row(2 * at))).collect();
    for batch in rows.chunks(5_000) {
        commit(&instance, &[(&table, batch)]).unwrap();
        model.apply(batch);
    }
    settle(&instance);
    (instance, table, model)
}

pub(crate) fn settle(instance: &Instance) {
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
}

/// The rows of each row group in the authority.
pub(crate) fn groups(
    store: &Arc<MemoryStore>,
    instance: &Instance,
    table: &Arc<Table>,
) -> Vec<u32> {
    let env = Env::system(Arc::clone(store) as _);
    let layout = Arc::new(RowLayout::primary(table).unwrap());
    let manifest = instance.manifest();
    let bases = manifest
        .runs
        .values()
        .filter(|run| run.kind == RunKind::Base);
    let mut by_key = BTreeMap::new();
    for meta in bases.flat_map(|run| run.segments.iter()) {
        assert_eq!(meta.format, SegmentFormat::Parquet);
        let counters = ReadCounters::default();
        let opened = Segment::open(&env, &layout, Arc::clone(meta), &counters);
        let segment = block_on(opened).unwrap();
        let rows: Vec<u32> = segment.extents().iter().map(|extent| extent.rows).collect();
        by_key.insert(meta.min_key.clone(), rows);
    }
    by_key.into_values().flatten().collect()
}

/// What merges into the authority did to single row groups.
fn sparse(instance: &Instance) -> SparseWork {
    instance.status().work["authority"].sparse
}

pub(crate) fn change() -> impl Strategy<Value = Change> {
    let key = || 0..2 * ROWS + 2_000;
    let count = || proptest::option::of(0..100_i64);
    prop_oneof![
        12 => (0..ROWS, count()).prop_map(|(at, count)| Change::Update(2 * at, count)),
        2 => (0..ROWS, count()).prop_map(|(at, count)| Change::UpsertValue(2 * at, count)),
        1 => (key(), count()).prop_map(|(id, count)| Change::Update(id, count)),
        1 => key().prop_map(Change::Delete),
        1 => key().prop_map(|id| Change::InsertIfAbsent(row(id))),
        1 => key().prop_map(|id| Change::Upsert((id, None, None))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn the_rows_are_the_naive_models_after_each_merge(
        stories in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(change(), 1..20), 1..4),
            1..5,
        ),
        updates_alone in any::<bool>(),
    ) {
        let store = Arc::new(MemoryStore::without_history());
        let (instance, table, mut model) = settled(&store, Layout::Scan);
        for batches in stories {
            for batch in batches {
                let keeps = |change: &Change| matches!(change, Change::Update(..));
                let batch: Vec<Change> =
                    batch.into_iter().filter(|change| !updates_alone || keeps(change)).collect();
                commit(&instance, &[(&table, &batch)]).unwrap();
                block_on(instance.seal()).unwrap();
                model.apply(&batch);
            }
            settle(&instance);
            let rows = scan(&fresh(&instance, Freshness::BestEffort), &table).unwrap();
            prop_assert!(rows == model.rows());
        }
        close_whole(&instance);
    }
}

#[test]
fn few_changes_of_a_wide_table_leave_its_other_columns_as_they_are() {
    let store = Arc::new(MemoryStore::without_history());
    let (instance, table, mut model) = settled(&store, Layout::Scan);
    let before = groups(&store, &instance, &table);
    assert!(before.len() > 2, "{before:?}");
    let mut change = |batch: &[Change]| {
        commit(&instance, &[(&table, batch)]).unwrap();
        model.apply(batch);
        settle(&instance);
        let rows = scan(&fresh(&instance, Freshness::BestEffort), &table).unwrap();
        assert!(rows == model.rows());
        groups(&store, &instance, &table)
    };
    let updates: Vec<Change> = (0..ROWS / 20)
        .map(|at| Change::Update(40 * at, Some(-at)))
        .collect();
    assert_eq!(change(&updates), before);
    // A row less in the first row group, and one more in the second: the others end where they did.
    let second = 2 * i64::from(before[0]) + 1;
    let mut after = before.clone();
    after[0] -= 1;
    after[1] += 1;
    assert_eq!(
        change(&[Change::Delete(4), Change::Upsert(row(second + 2))]),
        after
    );
    close_whole(&instance);
}

/// Keys all over the table and past its ends, those that are not there too; patched ones and those
/// beside them.
fn asked() -> Vec<i64> {
    let anywhere = (-3..2 * ROWS + 600).step_by(241);
    let patched = (0..ROWS / 50).step_by(20);
    let around = patched.flat_map(|at| 100 * at - 2..100 * at + 4);
    anywhere.chain(around).collect()
}

#[test]
fn single_keys_of_patched_row_groups_are_read_by_their_pages() {
    for layout in [Layout::Scan, Layout::Point] {
        let store = Arc::new(MemoryStore::without_history());
        let (instance, table, mut model) = settled(&store, layout);
        let updates = |step: i64, from: i64| -> Vec<Change> {
            let ids = (from..2 * ROWS).step_by(step as usize);
            ids.map(|id| Change::Update(id, Some(-id))).collect()
        };
        // Some rows are patched again, beside one that goes and one that comes.
        let mut again = [updates(200, 2), updates(2_000, 0)].concat();
        again.extend([Change::Delete(4), Change::Upsert(row(7))]);
        for batch in [updates(100, 0), again] {
            commit(&instance, &[(&table, &batch)]).unwrap();
            model.apply(&batch);
            settle(&instance);
            for id in asked().into_iter().chain([4, 7]) {
                let found = points(&instance, &table, &[id]).unwrap();
                let wanted: Vec<Row> = model.row(id).into_iter().collect();
                assert_eq!(found, wanted, "key {id}, {layout:?}");
            }
        }
        let is_patched = sparse(&instance).patched > 2;
        assert_eq!(is_patched, layout == Layout::Scan);
        close_whole(&instance);
    }
}

#[test]
fn a_row_group_is_read_once_whatever_becomes_of_it() {
    let store = Arc::new(MemoryStore::without_history());
    let (instance, table, _) = settled(&store, Layout::Scan);
    // It makes a row, makes none, patches one, removes one.
    for change in [
        Change::UpsertValue(1, Some(1)),
        Change::Update(3, Some(1)),
        Change::Update(4, Some(1)),
        Change::Delete(6),
    ] {
        let manifest = instance.manifest();
        let runs = manifest.runs.values();
        let bases = runs.filter(|run| run.kind == RunKind::Base);
        let base = bases.max_by_key(|run| run.span.last).unwrap();
        let bytes: u64 = base.segments.iter().map(|segment| segment.bytes).sum();
        let so_far = instance.status().work["authority"].bytes_read;
        commit(&instance, &[(&table, std::slice::from_ref(&change))]).unwrap();
        settle(&instance);
        let read = instance.status().work["authority"].bytes_read - so_far;
        // Beside the authority there is a run of one change.
        assert!(read > bytes / 2, "{read} of {bytes}: {change:?}");
        assert!(read < bytes + 4_096, "{read} of {bytes}: {change:?}");
    }
    close_whole(&instance);
}

#[test]
fn rows_that_come_few_at_a_time_fill_row_groups() {
    let store = Arc::new(MemoryStore::without_history());
    let instance = open(Arc::clone(&store) as _, settings()).unwrap();
    let table = create(&instance, "t");
    let mut next = 0;
    let mut after = |rows: i64| {
        let upsert = |id| Change::Upsert((id, None, None));
        let batch: Vec<Change> = (next..next + rows).map(upsert).collect();
        next += rows;
        commit(&instance, &[(&table, &batch)]).unwrap();
        settle(&instance);
        groups(&store, &instance, &table)
    };
    assert_eq!(after(100), [100]);
    assert_eq!(after(100), [200]);
    assert_eq!(after(4_800), [5_000]);
    // That is large enough to stay.
    assert_eq!(after(100), [5_000, 100]);
    assert_eq!(after(100), [5_000, 200]);
    close_whole(&instance);
}

#[test]
fn a_row_group_that_lost_nearly_all_rows_joins_its_neighbour() {
    let store = Arc::new(MemoryStore::without_history());
    let (instance, table, _) = settled(&store, Layout::Scan);
    let before = groups(&store, &instance, &table);
    assert_eq!(before.len(), 3, "{before:?}");
    let second = i64::from(before[0]);
    let after = |batch: &[Change]| {
        commit(&instance, &[(&table, batch)]).unwrap();
        settle(&instance);
        groups(&store, &instance, &table)
    };
    let deletes: Vec<Change> = (10..second).map(|at| Change::Delete(2 * at)).collect();
    assert_eq!(after(&deletes), [10, before[1], before[2]]);
    let update = Change::Update(2 * second, None);
    assert_eq!(after(&[update]), [10 + before[1], before[2]]);
    close_whole(&instance);
}

/// Updates of the last column alone.
fn notes(table: &Table, rows: &[Row]) -> ChangeBatch {
    let updates: Vec<Change> = rows.iter().map(|row| Change::Update(row.0, None)).collect();
    let batch = changes(table, &updates);
    let notes: StringArray = rows.iter().map(|row| row.2.as_deref()).collect();
    let mut columns = batch.data.columns().to_vec();
    columns[2] = Arc::new(notes);
    let data = RecordBatch::try_new(batch.data.schema(), columns).unwrap();
    let sets_note = rows.iter().map(|_| Some([0b100_u8]));
    ChangeBatch {
        data,
        masks: Some(sets_note.collect()),
        ..batch
    }
}

#[test]
fn row_groups_whose_rows_grow_as_they_are_patched_are_cut() {
    let store = Arc::new(MemoryStore::without_history());
    let instance = open(Arc::clone(&store) as _, settings()).unwrap();
    let table = create(&instance, "t");
    let mut rows: Vec<Row> = (0..ROWS).map(|id| (id, Some(id % 97), None)).collect();
    let upserts: Vec<Change> = rows.iter().cloned().map(Change::Upsert).collect();
    for batch in upserts.chunks(5_000) {
        commit(&instance, &[(&table, batch)]).unwrap();
    }
    settle(&instance);
    assert_eq!(groups(&store, &instance, &table), [ROWS as u32]);
    for round in 0..6 {
        let of_round = rows.iter_mut().filter(|row| row.0 % 10 == round);
        of_round.for_each(|row| row.2 = Some(format!("{:08} ", row.0).repeat(220)));
        let changed = rows.iter().filter(|row| row.0 % 10 == round);
        let changed: Vec<Row> = changed.cloned().collect();
        block_on(async {
            let mut writer = instance.begin(None);
            let updates = notes(&table, &changed);
            writer.append(&table, updates).await.unwrap();
            writer.commit().await.unwrap();
        });
        settle(&instance);
    }
    let after = groups(&store, &instance, &table);
    assert_eq!(after.iter().sum::<u32>(), ROWS as u32);
    assert!(after.iter().all(|rows| *rows <= 12_288), "{after:?}");
    assert!(sparse(&instance).patched > 0);
    let found = scan(&fresh(&instance, Freshness::BestEffort), &table).unwrap();
    assert!(found == rows);
    close_whole(&instance);
}

/// The files of the authority, by their least keys.
fn files(instance: &Instance) -> Vec<String> {
    let manifest = instance.manifest();
    let current = manifest.tables.values().flat_map(|table| &table.ranges);
    let current = current.flat_map(|range| range.runs.iter().filter(|run| run.is_current()));
    let runs = current.map(|entry| manifest.run(entry.id));
    let segments = runs.flat_map(|run| run.segments.iter());
    let by_key: BTreeMap<_, _> = segments
        .map(|segment| (segment.min_key.clone(), segment.file.clone()))
        .collect();
    by_key.into_values().collect()
}

#[test]
fn files_of_small_ranges_stay_where_nothing_in_them_changes() {
    let settings = Settings {
        range_split_bytes: 4 << 20,
        write_options: WriteOptions {
            group_rows: 64,
            group_bytes: 128 << 10,
            ..WriteOptions::default()
        },
        ..settings()
    };
    let instance = open(Arc::new(MemoryStore::without_history()), settings).unwrap();
    let table = create(&instance, "t");
    // About a kilobyte that hardly compresses: files are full at a mebibyte.
    let word = |at: u64| format!("{:016x}", (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let note = |id: i64| -> String { (0..60).map(|at| word(id as u64 * 60 + at)).collect() };
    let rows: Vec<Change> = (0..3_400)
        .map(|id| Change::Upsert((id, None, Some(note(id)))))
        .collect();
    commit(&instance, &[(&table, &rows)]).unwrap();
    settle(&instance);
    let before = files(&instance);
    assert!(before.len() > 1, "{before:?}");
    commit(&instance, &[(&table, &[Change::Update(0, Some(1))])]).unwrap();
    settle(&instance);
    let after = files(&instance);
    assert_ne!(after[0], before[0]);
    assert_eq!(after[1], before[1]);
    close_whole(&instance);
}
