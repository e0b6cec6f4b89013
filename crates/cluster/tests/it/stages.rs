//! The same answers at every stage, for every horizon that is kept.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use lazybase_cluster::{Instance, Settings, SettleTo, StageName};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::key::KeyCodec;
use lazybase_engine::manifest::Ddl;
use lazybase_model::{Freshness, Horizon, Stage, Table};
use proptest::prelude::*;

use crate::damage::{points, wait_for};
use crate::harness::{
    Change, Row, at, changes, close_whole, commit, commit_with, create, fresh, keeping, open,
    pause, scan, settings, spec,
};
use crate::model::Model;

/// What a random story does between batches.
#[derive(Debug, Clone)]
enum Act {
    Batch(Vec<Change>),
    /// A batch, together with a table that is made and one that is emptied.
    Transaction(Vec<Change>),
    Seal,
    Sorted,
    Authority,
    Pause(bool),
    Reopen,
}

fn key() -> impl Strategy<Value = i64> {
    0..40_i64
}

fn row() -> impl Strategy<Value = Row> {
    (
        key(),
        proptest::option::of(0..100_i64),
        proptest::option::of("[a-c]{0,3}"),
    )
}

fn change() -> impl Strategy<Value = Change> {
    let count = || proptest::option::of(0..100_i64);
    prop_oneof![
        4 => row().prop_map(Change::Upsert),
        2 => key().prop_map(Change::Delete),
        2 => (key(), count()).prop_map(|(id, count)| Change::Update(id, count)),
        1 => (key(), count()).prop_map(|(id, count)| Change::UpsertValue(id, count)),
        1 => row().prop_map(Change::InsertIfAbsent),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => proptest::collection::vec(change(), 1..12).prop_map(Act::Batch),
        2 => proptest::collection::vec(change(), 1..12).prop_map(Act::Transaction),
        3 => Just(Act::Seal),
        2 => Just(Act::Sorted),
        1 => Just(Act::Authority),
        1 => any::<bool>().prop_map(Act::Pause),
        1 => Just(Act::Reopen),
    ]
}

/// Point reads agree with the scan, for keys that are there and keys that are not.
fn check_points(instance: &Instance, table: &Arc<Table>, expected: &[Row]) {
    let snapshot = fresh(instance, Freshness::ZERO);
    let codec = KeyCodec::primary(table).unwrap();
    for id in [0, 7, 13, 21, 39, 99] {
        let asked = changes(table, &[Change::Delete(id)]);
        let keys = codec.encode(&asked.data).unwrap();
        let key = lazybase_engine::key::Key::new(keys.row(0).data());
        let found = block_on(snapshot.get(table.id, &[key], &[0, 1, 2], &[])).unwrap();
        let found = crate::harness::rows_of(&found);
        let wanted: Vec<Row> = expected.iter().filter(|row| row.0 == id).cloned().collect();
        assert_eq!(found, wanted, "key {id}");
    }
}

fn run_story(acts: Vec<Act>) {
    let store = Arc::new(MemoryStore::without_history());
    let keep = keeping();
    let mut instance = open(Arc::clone(&store) as _, keep.clone()).unwrap();
    let table = create(&instance, "t");
    let other = create(&instance, "u");
    let mut model = Model::default();
    let mut boundaries: Vec<(lazybase_model::ScuNumber, Model)> = Vec::new();
    let (mut paused, mut made) = (false, 0);
    for act in acts {
        match act {
            Act::Batch(batch) => {
                let marker = [Change::Upsert((1, Some(batch.len() as i64), None))];
                let parts: [(&Arc<Table>, &[Change]); 2] = [(&table, &batch), (&other, &marker)];
                commit(&instance, &parts).unwrap();
                model.apply(&batch);
            }
            Act::Transaction(batch) => {
                made += 1;
                let new = instance.define_table(&spec(&format!("n{made}"), &["id"]));
                let new = new.unwrap();
                let marker = [Change::Upsert((made, None, None))];
                let ddl = vec![
                    Ddl::Create {
                        table: new.as_ref().clone(),
                    },
                    Ddl::Truncate { table: other.id },
                ];
                let parts: [(&Arc<Table>, &[Change]); 3] =
                    [(&table, &batch), (&other, &marker), (&new, &marker)];
                commit_with(&instance, ddl, &parts).unwrap();
                model.apply(&batch);
                let snapshot = fresh(&instance, Freshness::BestEffort);
                assert_eq!(scan(&snapshot, &table).unwrap(), model.rows());
                for of in [&other, &new] {
                    assert_eq!(scan(&snapshot, of).unwrap(), [(made, None, None)]);
                }
            }
            Act::Seal => {
                let sealed = block_on(instance.seal()).unwrap();
                if boundaries.last().is_none_or(|(scu, _)| *scu < sealed) {
                    boundaries.push((sealed, model.clone()));
                }
            }
            Act::Sorted if !paused => {
                block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
            }
            Act::Authority if !paused => {
                block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
                let snapshot = fresh(&instance, Freshness::BestEffort);
                assert_eq!(scan(&snapshot, &table).unwrap(), model.rows());
                assert_eq!(snapshot.stamp().batches_left_out, 0);
            }
            Act::Sorted | Act::Authority => {}
            Act::Pause(wanted) => {
                let stages = [StageName::Sort, StageName::Merge, StageName::Authority];
                pause(&instance, if wanted { &stages } else { &[] });
                paused = wanted;
            }
            Act::Reopen => {
                block_on(instance.close()).unwrap();
                instance = open(Arc::clone(&store) as _, keep.clone()).unwrap();
                paused = false;
            }
        }
        let snapshot = fresh(&instance, Freshness::ZERO);
        assert_eq!(scan(&snapshot, &table).unwrap(), model.rows());
        check_points(&instance, &table, &model.rows());
    }
    for (scu, expected) in &boundaries {
        let snapshot = at(&instance, *scu).unwrap();
        assert_eq!(snapshot.horizon(), Horizon::end_of(*scu));
        assert_eq!(
            scan(&snapshot, &table).unwrap(),
            expected.rows(),
            "as of SCU {scu}"
        );
    }
    close_whole(&instance);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_stage_and_horizon_gives_the_naive_models_rows(
        acts in proptest::collection::vec(act(), 1..30),
    ) {
        run_story(acts);
    }
}

/// How long after its last batch an idle database has everything in the authority.
fn time_to_the_authority() -> Duration {
    let store = Arc::new(MemoryStore::without_history());
    let instance = open(store, Settings::default()).unwrap();
    let table = create(&instance, "t");
    for id in 0..20 {
        commit(&instance, &[(&table, &[Change::Upsert((id, None, None))])]).unwrap();
    }
    let clock = Arc::clone(&instance.env().clock);
    let written = clock.monotonic();
    wait_for(&instance, "everything in the authority", |instance| {
        let snapshot = fresh(instance, Freshness::BestEffort);
        let rows = scan(&snapshot, &table).unwrap().len();
        let stamp = snapshot.stamp();
        let is_all = stamp.batches_left_out == 0;
        assert!(!is_all || rows == 20, "{rows} rows: {stamp}");
        is_all && stamp.sources.stages() == [Stage::Authority]
    });
    let took = clock.monotonic() - written;
    block_on(instance.close()).unwrap();
    took
}

/// Where the machine stands still for a while it takes longer, but not each time.
#[test]
fn an_idle_database_has_everything_in_the_authority_within_three_seconds() {
    let mut late = Vec::new();
    while late.len() < 5 {
        let took = time_to_the_authority();
        if took <= Duration::from_secs(3) {
            return;
        }
        late.push(took);
    }
    panic!("it took {late:?}");
}

#[test]
fn two_inserts_of_an_absent_row_in_one_batch_are_sorted_into_the_first() {
    let store = Arc::new(MemoryStore::without_history());
    let instance = open(store, settings()).unwrap();
    let table = create(&instance, "t");
    let first = Change::InsertIfAbsent((1, Some(1), None));
    let second = Change::InsertIfAbsent((1, Some(2), None));
    commit(&instance, &[(&table, &[first, second])]).unwrap();
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, [(1, Some(1), None)]);
    block_on(instance.close()).unwrap();
}

#[test]
fn a_snapshot_of_unsorted_data_keeps_its_log() {
    let store = Arc::new(MemoryStore::without_history());
    let keep = Settings {
        unsorted_memory: 0,
        log_file_bytes: 8 << 10,
        ..settings()
    };
    let instance = open(store, keep).unwrap();
    let table = create(&instance, "t");
    let batch = |from: i64| -> Vec<Change> {
        let row = |id| Change::Upsert((id, Some(from), Some("log".repeat(9))));
        (from..from + 20).map(row).collect()
    };
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    let snapshot = fresh(&instance, Freshness::ZERO);
    let clock = Arc::clone(&instance.env().clock);
    // What is written meanwhile would take the place of a log that nobody needs.
    for round in 1..40 {
        commit(&instance, &[(&table, &batch(round))]).unwrap();
        if round % 10 == 0 {
            block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
            block_on(clock.sleep(Duration::from_millis(600)));
        }
    }
    assert_eq!(scan(&snapshot, &table).unwrap().len(), 20);
    drop(snapshot);
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    wait_for(&instance, "logs that nobody needs to go", |instance| {
        instance.manifest().scus.is_empty()
    });
    block_on(instance.close()).unwrap();
}

/// The same change of one of three keys.
fn hot(change: Change) -> Change {
    let of_row = |(id, count, note): Row| (id % 3, count, note);
    match change {
        Change::Upsert(row) => Change::Upsert(of_row(row)),
        Change::Delete(id) => Change::Delete(id % 3),
        Change::Update(id, count) => Change::Update(id % 3, count),
        Change::UpsertValue(id, count) => Change::UpsertValue(id % 3, count),
        Change::InsertIfAbsent(row) => Change::InsertIfAbsent(of_row(row)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A point read joins the many changes of a key that no stage has reached as a scan does.
    #[test]
    fn keys_with_many_unsorted_changes_are_read_as_the_model_says(
        batches in proptest::collection::vec(
            (proptest::collection::vec(change().prop_map(hot), 1..60), any::<bool>()),
            1..6,
        ),
    ) {
        let store = Arc::new(MemoryStore::without_history());
        let instance = open(store, keeping()).unwrap();
        let table = create(&instance, "t");
        pause(&instance, &[StageName::Sort]);
        let mut model = Model::default();
        for (batch, seals) in batches {
            commit(&instance, &[(&table, &batch)]).unwrap();
            model.apply(&batch);
            prop_assert_eq!(points(&instance, &table, &[0, 1, 2]).unwrap(), model.rows());
            if seals {
                block_on(instance.seal()).unwrap();
            }
        }
        prop_assert_eq!(points(&instance, &table, &[0, 1, 2]).unwrap(), model.rows());
        block_on(instance.close()).unwrap();
    }
}

/// What point reads keep of rows that are not sorted is memory of the cache, as long as they need
/// it.
#[test]
fn the_index_of_unsorted_keys_counts_as_cache() {
    const ROWS: i64 = 20_000;
    let instance = open(Arc::new(MemoryStore::without_history()), settings()).unwrap();
    let table = create(&instance, "t");
    pause(&instance, &[StageName::Sort]);
    let row = |id| Change::Upsert((id, Some(id), None));
    let rows: Vec<Change> = (0..ROWS).map(row).collect();
    commit(&instance, &[(&table, &rows)]).unwrap();
    let before = instance.status().cache.bytes;
    assert_eq!(points(&instance, &table, &[7]).unwrap().len(), 1);
    let cache = instance.status().cache;
    let taken = cache.bytes - before;
    assert!(
        (16 * ROWS as u64..17 * ROWS as u64).contains(&taken),
        "{taken}"
    );
    pause(&instance, &[]);
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    wait_for(&instance, "memory that is given back", |instance| {
        instance.status().cache.bytes < before + taken
    });
    block_on(instance.close()).unwrap();
}
