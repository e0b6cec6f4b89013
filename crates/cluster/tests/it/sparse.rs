//! Few changes of a large table on their way into the authority: row groups that they leave alone
//! stay, and of the others the columns that they leave alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use lazybase_cluster::{Instance, Settings, SettleTo};
use lazybase_engine::env::Env;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::manifest::{RunKind, SegmentFormat};
use lazybase_engine::segment::{ReadCounters, RowLayout, Segment};
use lazybase_model::{Freshness, Table};
use proptest::prelude::*;

use crate::harness::{Change, Row, close_whole, commit, create, fresh, open, scan};
use crate::model::Model;

/// Rows of about a kilobyte, so that a row group has 8,192 of them.
const ROWS: i64 = 20_000;

fn settings() -> Settings {
    Settings {
        seal_age: Duration::from_secs(3600),
        retention: Duration::ZERO,
        ..Settings::default()
    }
}

fn row(id: i64) -> Row {
    let word = format!("{:08x} ", id.wrapping_mul(0x9e37_79b9) as u32);
    (id, Some(id % 97), Some(word.repeat(110)))
}

/// A database with rows of the even keys in the authority.
fn settled(store: &Arc<MemoryStore>) -> (Instance, Arc<Table>, Model) {
    let instance = open(Arc::clone(store) as _, settings()).unwrap();
    let table = create(&instance, "t");
    let mut model = Model::default();
    let rows: Vec<Change> = (0..ROWS).map(|at| Change::Upsert(row(2 * at))).collect();
    for batch in rows.chunks(5_000) {
        commit(&instance, &[(&table, batch)]).unwrap();
        model.apply(batch);
    }
    settle(&instance);
    (instance, table, model)
}

fn settle(instance: &Instance) {
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
}

/// The rows of each row group in the authority.
fn groups(store: &Arc<MemoryStore>, instance: &Instance, table: &Arc<Table>) -> Vec<u32> {
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

fn change() -> impl Strategy<Value = Change> {
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
        let (instance, table, mut model) = settled(&store);
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
    let (instance, table, mut model) = settled(&store);
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
