//! Reads of changes that lie over the authority: what they have reconciled is kept for those that
//! come back to the same files, and is what the naive model says at whatever mix of stages.

use std::sync::Arc;

use futures::TryStreamExt;
use futures::executor::block_on;
use lazybase_cluster::{Instance, SettleTo, StageName};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::read::{HiddenColumn, ScanPlan, ScanRequest, Snapshot};
use lazybase_model::{Freshness, Layout, Table};
use proptest::prelude::*;

use crate::harness::{
    Change, Row, close_whole, commit, create, fresh, open, pause, rows_of, settings,
};
use crate::sparse::{ROWS, change, groups, row, settle, settled};

/// A scan of a table in so many parts.
fn plan(snapshot: &Snapshot, table: &Table, parts: usize) -> ScanPlan {
    plan_of(snapshot, table, parts, vec![0, 1, 2])
}

fn plan_of(snapshot: &Snapshot, table: &Table, parts: usize, projection: Vec<usize>) -> ScanPlan {
    let planned = snapshot.plan_scan(ScanRequest {
        table: table.id,
        projection,
        range: Default::default(),
        buffered: Vec::new(),
        batch_rows: 8192,
        parts,
    });
    block_on(planned).unwrap()
}

/// All rows of a table, scanned in so many parts.
fn scan(snapshot: &Snapshot, table: &Table, parts: usize) -> Vec<Row> {
    rows_of_plan(plan(snapshot, table, parts))
}

/// The same, of which nothing is kept: versions are read with the rows.
fn scan_anew(snapshot: &Snapshot, table: &Table) -> Vec<Row> {
    let projection = vec![0, 1, 2, HiddenColumn::Scu.position(table)];
    rows_of_plan(plan_of(snapshot, table, 1, projection))
}

fn rows_of_plan(planned: ScanPlan) -> Vec<Row> {
    block_on(async {
        let mut rows = Vec::new();
        for part in planned.parts {
            let batches: Vec<_> = part.stream().try_collect().await.unwrap();
            rows.extend(batches.iter().flat_map(rows_of));
        }
        rows
    })
}

/// The changes as a run of their own, which no merge takes.
fn sort(instance: &Instance, table: &Arc<Table>, changes: &[Change]) {
    commit(instance, &[(table, changes)]).unwrap();
    block_on(instance.seal()).unwrap();
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
}

fn updates(step: usize, count: i64) -> Vec<Change> {
    let ids = (0..2 * ROWS).step_by(step);
    ids.map(|id| Change::Update(id, Some(count))).collect()
}

#[test]
fn reads_of_the_same_files_find_what_was_reconciled() {
    let store = Arc::new(MemoryStore::without_history());
    let (instance, table, mut model) = settled(&store, Layout::Scan);
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    let groups = groups(&store, &instance, &table).len() as u64;
    assert!(groups > 1, "{groups}");
    let first = [
        updates(40, -1),
        vec![Change::Delete(80), Change::Upsert(row(81))],
    ]
    .concat();
    sort(&instance, &table, &first);
    model.apply(&first);
    // What was found in memory, and what was read and decoded.
    let taken = |snapshot: &Snapshot| {
        let sources = snapshot.stamp().sources;
        (sources.cache_hits, sources.extents_read)
    };
    for turn in 0..4 {
        let snapshot = fresh(&instance, Freshness::ZERO);
        assert!(scan(&snapshot, &table, 1) == model.rows(), "turn {turn}");
        let is_kept = taken(&snapshot) == (groups, 0);
        assert_eq!(is_kept, turn >= 2, "{turn}: {:?}", taken(&snapshot));
    }
    // Over it lies what is not sorted.
    let open = [
        Change::Update(40, Some(7)),
        Change::Upsert(row(43)),
        Change::Delete(120),
    ];
    commit(&instance, &[(&table, &open)]).unwrap();
    model.apply(&open);
    let snapshot = fresh(&instance, Freshness::ZERO);
    assert!(scan(&snapshot, &table, 1) == model.rows());
    assert_eq!(taken(&snapshot), (groups, 0));
    // And then other runs, each read for the first time: what they come to is kept at once.
    for count in 8..11 {
        sort(&instance, &table, &updates(1_000, count));
        model.apply(&updates(1_000, count));
        for turn in 0..3 {
            let snapshot = fresh(&instance, Freshness::ZERO);
            assert!(scan(&snapshot, &table, 1) == model.rows(), "turn {turn}");
            let is_kept = taken(&snapshot) == (groups, 0);
            assert_eq!(is_kept, turn >= 1, "{turn}: {:?}", taken(&snapshot));
        }
    }
    pause(&instance, &[]);
    settle(&instance);
    for _ in 0..3 {
        let rows = scan(&fresh(&instance, Freshness::ZERO), &table, 1);
        assert!(rows == model.rows());
    }
    close_whole(&instance);
}

/// What a read sorts of unsorted rows is there for the next one, in memory that the cache gives.
#[test]
fn rows_that_reads_have_sorted_count_as_the_caches() {
    let instance = open(Arc::new(MemoryStore::without_history()), settings()).unwrap();
    let table = create(&instance, "readings");
    pause(&instance, &[StageName::Sort]);
    let changes: Vec<_> = (0..ROWS).map(|id| Change::Upsert(row(id))).collect();
    commit(&instance, &[(&table, &changes)]).unwrap();
    let bytes = || instance.status().cache.bytes;
    assert_eq!(bytes(), 0);
    let read = || scan(&fresh(&instance, Freshness::ZERO), &table, 1).len();
    assert_eq!(read(), changes.len());
    let sorted = bytes();
    assert!(sorted >= 8 * changes.len() as u64, "{sorted}");
    assert_eq!(read(), changes.len());
    assert_eq!(bytes(), sorted);
    pause(&instance, &[]);
    settle(&instance);
    assert!(bytes() < sorted / 2, "{} {sorted}", bytes());
    close_whole(&instance);
}

/// What is in memory is another with each read: what the files below it come to is kept, and what
/// is kept up to date with them serves best effort too.
#[test]
fn fresh_reads_find_what_the_files_below_memory_came_to() {
    let store = Arc::new(MemoryStore::without_history());
    let (instance, table, mut model) = settled(&store, Layout::Scan);
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    let groups = groups(&store, &instance, &table).len() as u64;
    let taken = |snapshot: &Snapshot| {
        let sources = snapshot.stamp().sources;
        (sources.cache_hits, sources.extents_read)
    };
    for (run, kept_from) in [(0, 2), (1, 1), (2, 1)] {
        let changes = [
            updates(40, -run),
            vec![Change::Delete(80 + 2 * run), Change::Upsert(row(81))],
        ]
        .concat();
        sort(&instance, &table, &changes);
        model.apply(&changes);
        let sorted = model.rows();
        for turn in 0..4 {
            let id = 120 + 2 * turn;
            let open = [
                // The run has deleted it.
                Change::Update(80 + 2 * run, Some(turn)),
                Change::UpsertValue(80 + 2 * run, Some(run)),
                Change::Upsert(row(43 + 2 * turn)),
                Change::InsertIfAbsent(row(id)),
                Change::Delete(id),
                Change::UpsertValue(id, None),
            ];
            let open = [updates(1_000, turn), open.to_vec()].concat();
            commit(&instance, &[(&table, &open)]).unwrap();
            model.apply(&open);
            let snapshot = fresh(&instance, Freshness::ZERO);
            assert!(scan(&snapshot, &table, 1) == model.rows(), "{run} {turn}");
            let is_kept = taken(&snapshot) == (groups, 0);
            assert_eq!(
                is_kept,
                turn >= kept_from,
                "{run} {turn}: {:?}",
                taken(&snapshot)
            );
        }
        let snapshot = fresh(&instance, Freshness::BestEffort);
        assert!(scan(&snapshot, &table, 1) == sorted, "{run}");
        assert_eq!(taken(&snapshot), (groups, 0), "{run}");
    }
    pause(&instance, &[]);
    close_whole(&instance);
}

/// Two steps of a scan read the same files, on both sides of a row group that nothing lies over.
#[test]
fn rows_around_a_row_group_that_is_left_alone_are_told_apart() {
    let store = Arc::new(MemoryStore::without_history());
    let (instance, table, mut model) = settled(&store, Layout::Scan);
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    let groups = groups(&store, &instance, &table).len();
    assert!(groups > 2, "{groups}");
    // Rows of one size, of which a run has two extents: the first keys and the last ones.
    let ends = (0..64).chain(ROWS - 64..ROWS);
    let changed = ends.map(|at| {
        let (id, _, note) = row(2 * at);
        Change::Upsert((id, Some(-3), note))
    });
    let changed: Vec<Change> = changed.collect();
    sort(&instance, &table, &changed);
    model.apply(&changed);
    let planned = plan(&fresh(&instance, Freshness::ZERO), &table, 1);
    assert_eq!(planned.reconciled, 2);
    assert!(planned.alone > 0);
    for turn in 0..4 {
        let rows = scan(&fresh(&instance, Freshness::ZERO), &table, 1);
        assert!(rows == model.rows(), "turn {turn}");
    }
    pause(&instance, &[]);
    close_whole(&instance);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn the_rows_are_the_naive_models_however_often_they_are_read(
        stories in prop::collection::vec(
            (prop::collection::vec(change(), 1..40), 0_u8..8, 1_usize..4),
            1..12,
        ),
    ) {
        let store = Arc::new(MemoryStore::without_history());
        let (instance, table, mut model) = settled(&store, Layout::Scan);
        let held = [StageName::Merge, StageName::Authority];
        pause(&instance, &held);
        for (batch, stage, times) in stories {
            model.apply(&batch);
            match stage {
                0 => {
                    commit(&instance, &[(&table, &batch)]).unwrap();
                    pause(&instance, &[]);
                    settle(&instance);
                    pause(&instance, &held);
                }
                1..4 => {
                    commit(&instance, &[(&table, &batch)]).unwrap();
                }
                _ => sort(&instance, &table, &batch),
            }
            for parts in 1..=times {
                let rows = scan(&fresh(&instance, Freshness::ZERO), &table, parts);
                prop_assert!(rows == model.rows());
            }
            // With what is kept and without it, fresh and not.
            for freshness in [Freshness::ZERO, Freshness::BestEffort] {
                let snapshot = fresh(&instance, freshness);
                let rows = scan(&snapshot, &table, 1);
                prop_assert!(rows == scan_anew(&snapshot, &table));
            }
        }
        pause(&instance, &[]);
        close_whole(&instance);
    }
}
