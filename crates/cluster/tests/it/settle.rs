//! Waiting for the pipeline ends: by what was asked for, or by the error that stands in its way.

#![allow(
    clippy::disallowed_methods,
    reason = "who waits beside the one that closes is a thread of the machine's own"
)]

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use arrow::datatypes::{DataType, Fields};
use futures::executor::block_on;
use lazybase_cluster::{Instance, SettleTo, StageName, TableSpec};
use lazybase_engine::env::Store;
use lazybase_engine::env::faults::{Fault, Operation, Rule};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::manifest::RunKind;
use lazybase_model::{Column, ErrorKind, Freshness, Table};

use crate::damage::wait_for;
use crate::harness::{
    Change, close_whole, commit, create, fresh, keeping, open, pause, scan, settings,
};
use crate::heal::{create_view, files_of};
use crate::world::{World, uncached};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn row(id: i64) -> Change {
    Change::Upsert((id, Some(id), None))
}

/// The kinds of the current runs of a table's first range, oldest first.
fn kinds(instance: &Instance, table: &Table) -> Vec<RunKind> {
    let manifest = instance.manifest();
    let range = &manifest.tables[&table.id].ranges[0];
    let current = range.runs.iter().filter(|run| run.is_current());
    current.map(|run| manifest.run(run.id).kind).collect()
}

fn sleep(instance: &Instance, time: Duration) {
    block_on(instance.env().clock.sleep(time));
}

/// Sorts and authorities that fail each time tell whoever waits, and are done once they can be.
#[test]
fn what_fails_again_and_again_is_told() {
    for (ending, to) in [
        (".ext", SettleTo::Sorted),
        (".parquet", SettleTo::Authority),
    ] {
        let world = World::new();
        let instance = world.open(settings());
        let table = create(&instance, "t");
        let quiet = create(&instance, "quiet");
        commit(&instance, &[(&quiet, &[row(1)])]).unwrap();
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        world.refuse_to_make(ending);
        commit(&instance, &[(&table, &[row(1)])]).unwrap();
        for table in [None, Some(table.id)] {
            let error = block_on(instance.settle(table, to, &|_| {})).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            let stage = if to == SettleTo::Sorted {
                "sort"
            } else {
                "authority"
            };
            assert!(error.message().starts_with(stage), "{error}");
            assert!(error.hint().unwrap().contains("lazybase.troubles"));
        }
        if to == SettleTo::Authority {
            block_on(instance.settle(Some(quiet.id), to, &|_| {})).unwrap();
            block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
        }
        world.faults.clear();
        block_on(instance.settle(None, to, &|_| {})).unwrap();
        let snapshot = fresh(&instance, Freshness::ZERO);
        assert_eq!(scan(&snapshot, &table).unwrap(), [(1, Some(1), None)]);
        drop(snapshot);
        close_whole(&instance);
    }
}

fn failed_attempts(instance: &Instance) -> u64 {
    instance.status().totals.failed_attempts
}

/// What failed before somebody waits says nothing of what is to come.
#[test]
fn only_failures_since_somebody_waits_are_counted() {
    let world = World::new();
    let instance = world.open(settings());
    let table = create(&instance, "t");
    world.refuse_to_make(".ext");
    commit(&instance, &[(&table, &[row(1)])]).unwrap();
    block_on(instance.seal()).unwrap();
    wait_for(&instance, "failures", |instance| {
        failed_attempts(instance) >= 8
    });
    let before = failed_attempts(&instance);
    let (settled, ended) = mpsc::channel();
    let waiting = instance.clone();
    thread::spawn(move || {
        let ended = block_on(waiting.settle(None, SettleTo::Sorted, &|_| {}));
        settled.send(ended).unwrap();
    });
    wait_for(&instance, "more failures", |instance| {
        failed_attempts(instance) >= before + 3
    });
    world.faults.clear();
    let ended = ended.recv_timeout(PATIENCE).unwrap();
    ended.unwrap();
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, [(1, Some(1), None)]);
    close_whole(&instance);
}

/// A merge that the store refused many times meets a damaged file: it does not rest for long, and
/// not beyond the moment at which the file was made again.
#[test]
fn what_damage_fails_goes_on_once_the_file_was_made_again() {
    let world = World::new();
    let instance = world.open(uncached(keeping()));
    let table = create(&instance, "t");
    world.refuse_to_make(".parquet");
    commit(&instance, &[(&table, &[row(1)])]).unwrap();
    // It is told of after eight failures.
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap_err();
    for file in files_of(&instance, &table, RunKind::Sorted) {
        block_on(world.memory.delete(&file)).unwrap();
    }
    world.faults.clear();
    wait_for(&instance, "the authority", |instance| {
        kinds(instance, &table) == [RunKind::Base]
    });
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, [(1, Some(1), None)]);
    close_whole(&instance);
}

/// A table waits for its views: what keeps one of them back is told to whoever waits for the table.
#[test]
fn a_view_that_fails_again_and_again_is_told() {
    let world = World::new();
    let instance = world.open(settings());
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &[row(1)])]).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    // The table has its files; those of the view can't be made.
    world.refuse_to_make("segments/");
    create_view(&instance, &table);
    let error = block_on(instance.settle(Some(table.id), SettleTo::Authority, &|_| {}));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unavailable);
    let rested = kinds(&instance, &table);
    assert_eq!(rested, [RunKind::Base], "the table itself has come to rest");
    world.faults.clear();
    block_on(instance.settle(Some(table.id), SettleTo::Authority, &|_| {})).unwrap();
    close_whole(&instance);
}

/// Once nobody waits any more, the pipeline is in no hurry: with a batch in the open SCU it goes by
/// its policy, by which few runs stay beside the authority.
#[test]
fn nobody_is_in_a_hurry_who_does_not_wait() {
    let world = World::new();
    let instance = world.open(settings());
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &[row(1)])]).unwrap();
    world.refuse_to_make(".parquet");
    let error = block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    commit(&instance, &[(&table, &[row(2)])]).unwrap();
    // What was begun before that batch ends.
    sleep(&instance, Duration::from_millis(100));
    while !instance.status().running.is_empty() {
        sleep(&instance, Duration::from_millis(5));
    }
    world.faults.clear();
    // Work that failed rests for half a second.
    sleep(&instance, Duration::from_millis(1500));
    assert_eq!(
        kinds(&instance, &table),
        [RunKind::Base, RunKind::Sorted],
        "nothing asks for a merge"
    );
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    assert_eq!(kinds(&instance, &table), [RunKind::Base]);
    close_whole(&instance);
}

/// What comes in later and is never sorted keeps nobody from the authority of what came before.
#[test]
fn a_sort_that_is_not_waited_for_holds_up_nobody() {
    let world = World::new();
    let instance = world.open(settings());
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &[row(1)])]).unwrap();
    let refused = Fault::Refused { full: false };
    // The authority can't be made at first, each attempt half a second after the one before.
    for attempt in 1..=3 {
        let rule = Rule::nth(Operation::Create, attempt, refused);
        world.faults.add(rule.named(".parquet"));
    }
    let (settled, ended) = mpsc::channel();
    let waiting = instance.clone();
    thread::spawn(move || {
        let ended = block_on(waiting.settle(None, SettleTo::Authority, &|_| {}));
        settled.send(ended).unwrap();
    });
    wait_for(&instance, "an authority that fails", |instance| {
        let troubles = instance.status().troubles;
        let mut messages = troubles.iter().map(|trouble| &trouble.message);
        messages.any(|message| message.contains("authority"))
    });
    world.refuse_to_make(".ext");
    commit(&instance, &[(&table, &[row(2)])]).unwrap();
    let later = block_on(instance.seal()).unwrap();
    wait_for(&instance, "the seal", |instance| {
        instance.manifest().sealed_through >= later
    });
    let ended = ended.recv_timeout(PATIENCE).unwrap();
    ended.unwrap();
    assert!(instance.manifest().sorted_through < later);
    world.faults.clear();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, [(1, Some(1), None), (2, Some(2), None)]);
    close_whole(&instance);
}

/// A table whose rows the authority could not hold would never come to rest: it is not made.
#[test]
fn a_type_that_no_authority_holds_is_refused() {
    let instance = open(Arc::new(MemoryStore::new()), settings()).unwrap();
    let nothing = || DataType::Struct(Fields::empty());
    for strange in [
        nothing(),
        DataType::new_list(nothing(), true),
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
    ] {
        let id = Column::new("id", DataType::Int64);
        let columns = vec![id, Column::new("strange", strange)];
        let spec = TableSpec::new("t", columns, &["id"]);
        let error = block_on(instance.create_table(spec, false)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(error.sqlstate(), "0A000");
        assert!(error.message().contains("\"strange\""), "{error}");
    }
    block_on(instance.close()).unwrap();
}

/// Many runs are merged with each other before they go to the authority.
#[test]
fn a_paused_stage_is_told_where_it_is_needed() {
    let instance = open(Arc::new(MemoryStore::new()), settings()).unwrap();
    let table = create(&instance, "t");
    let quiet = create(&instance, "quiet");
    let to_authority = |table| block_on(instance.settle(table, SettleTo::Authority, &|_| {}));
    let sorted_only = [StageName::Merge, StageName::Authority];
    let write = |rounds: i64| {
        pause(&instance, &sorted_only);
        for round in 0..rounds {
            commit(&instance, &[(&table, &[row(round), row(1000)])]).unwrap();
            block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
        }
        pause(&instance, &[StageName::Merge]);
    };
    // A few go there at once.
    write(3);
    to_authority(None).unwrap();
    write(40);
    for waited_for in [None, Some(table.id)] {
        let error = to_authority(waited_for).unwrap_err();
        assert_eq!(error.message(), "stage merge is paused");
        assert_eq!(error.sqlstate(), "55000");
        assert_eq!(error.hint(), Some("RESUME STAGE MERGE"));
    }
    to_authority(Some(quiet.id)).unwrap();
    pause(&instance, &[]);
    to_authority(None).unwrap();
    let rows = scan(&fresh(&instance, Freshness::BestEffort), &table).unwrap();
    assert_eq!(rows.len(), 41);
    close_whole(&instance);
}

#[test]
fn whoever_waits_for_the_pipeline_hears_that_the_database_is_closed() {
    let world = World::new();
    let instance = world.open(settings());
    let table = create(&instance, "t");
    world.refuse_to_make(".ext");
    commit(&instance, &[(&table, &[row(1)])]).unwrap();
    let (settled, ended) = mpsc::channel();
    let waiting = instance.clone();
    thread::spawn(move || {
        let ended = block_on(waiting.settle(None, SettleTo::Sorted, &|_| {}));
        settled.send(ended).unwrap();
    });
    // It waits for a sort that fails, and will be tried again.
    wait_for(&instance, "a sort that fails", |_| {
        world.faults.count(Operation::Create) > 0
    });
    block_on(instance.close()).unwrap();
    let ended = ended.recv_timeout(PATIENCE).unwrap();
    let error = ended.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
}
