//! ID keys beside damage: numbers are the same once files were made again, while they are, and past
//! whoever hangs; and natural keys that are lost stop what needs them alone.

#![allow(
    clippy::disallowed_methods,
    reason = "what may never come back runs in a thread of the machine's own"
)]

use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use futures::executor::block_on;
use lazybase_cluster::{DamageState, Instance, Settings, SettleTo, SnapshotRequest, StageName};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::env::Store;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::manifest::RunKind;
use lazybase_model::{Error, ErrorKind, Freshness, Horizon, Result, ScuNumber, Table};

use super::{Change, Model, Tables, batch, commit, read};
use crate::damage::{Harm, assert_names, files, harmed, wait_for};
use crate::hang_reads::HangingReads;
use crate::harness::{self, close_whole, create, fresh, keeping, open, pause, settings};
use crate::heal::files_of;
use crate::verify_table::rewrite;
use crate::world::{World, uncached};

#[test]
fn damaged_files_are_made_again_with_the_same_numbers() {
    let store = MemoryStore::new();
    let keep = keeping();
    let instance = open(Arc::new(store.clone()), keep.clone()).unwrap();
    let tables = Tables::create(&instance);
    let mut model = Model::new();
    for round in 0..7 {
        commit(&instance, &tables, &batch(round));
        model.apply(&tables, &batch(round));
        match round {
            3 => block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap(),
            6 => block_on(instance.pause(StageName::Sort)).unwrap(),
            _ => block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap(),
        }
    }
    block_on(instance.close()).unwrap();
    let segments = files(&store, "segments/");
    assert!(segments.len() > 9, "{segments:?}");
    for file in segments {
        let (harmed_store, _) = harmed(&store, &file, Harm::Flip { tenths: 3 });
        let instance = open(harmed_store, keep.clone()).unwrap();
        let tables = Tables::of(&instance);
        block_on(instance.verify(&|_| {})).unwrap();
        wait_for(&instance, &file, |instance| {
            let damage = instance.status().damage;
            let mut states = damage.values();
            states.all(|damage| damage.state == DamageState::Healed)
        });
        assert_eq!(
            read(&fresh(&instance, Freshness::ZERO), &tables),
            model.rows,
            "{file}"
        );
        let mut after = model.clone();
        commit(&instance, &tables, &batch(30));
        after.apply(&tables, &batch(30));
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        let rows = read(&fresh(&instance, Freshness::ZERO), &tables);
        assert_eq!(rows, after.rows, "{file}");
        let report = block_on(instance.verify(&|_| {})).unwrap();
        assert!(report.is_whole(), "{file}: {report:?}");
        block_on(instance.close()).unwrap();
    }
}

/// All runs of a key map are gone but for their logs, and nothing can be made again: whoever needs
/// numbers gets them all the same.
#[test]
fn a_damaged_key_map_is_read_from_its_logs() {
    let world = World::new();
    let instance = world.open(uncached(keeping()));
    let tables = Tables::create(&instance);
    let mut model = Model::new();
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    for round in 0..3 {
        commit(&instance, &tables, &batch(round));
        model.apply(&tables, &batch(round));
        block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    }
    let damaged = files_of(&instance, &tables.file_map, RunKind::Sorted);
    assert!(damaged.len() > 1, "{damaged:?}");
    world.refuse_to_make("segments/");
    for file in &damaged {
        world.harm(file, Harm::Delete);
    }
    for round in 3..6 {
        commit(&instance, &tables, &batch(round));
        model.apply(&tables, &batch(round));
        let rows = read(&fresh(&instance, Freshness::ZERO), &tables);
        assert_eq!(rows, model.rows, "round {round}");
    }
    // One that no reader has given numbers to.
    commit(&instance, &tables, &batch(6));
    model.apply(&tables, &batch(6));
    let sealed = block_on(instance.seal()).unwrap();
    wait_for(&instance, "numbers", |instance| {
        instance.manifest().remapped_through() >= sealed
    });
    world.faults.clear();
    pause(&instance, &[]);
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let rows = read(&fresh(&instance, Freshness::ZERO), &tables);
    assert_eq!(rows, model.rows);
    close_whole(&instance);
}

fn size(host: &str, n: i64) -> Change {
    Change::Size((host.to_owned(), 1), n, None)
}

/// A closed database whose key map of files has one file, which lacks the last key; and that file.
fn with_short_map(memory: &MemoryStore, kind: RunKind, settings: Settings) -> (Model, String) {
    let instance = open(Arc::new(memory.clone()), settings).unwrap();
    let tables = Tables::create(&instance);
    let mut model = Model::new();
    let sizes = ["a", "b", "c"].map(|host| size(host, 0));
    if kind == RunKind::Sorted {
        pause(&instance, &[StageName::Merge, StageName::Authority]);
    }
    commit(&instance, &tables, &sizes);
    model.apply(&tables, &sizes);
    if kind == RunKind::Sorted {
        block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    } else {
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        wait_for(&instance, "earlier forms to be retired", |instance| {
            let manifest = instance.manifest();
            let mut runs = manifest.runs.values();
            manifest.scus.is_empty() && runs.all(|run| run.kind == kind)
        });
    }
    let of_map = files_of(&instance, &tables.file_map, kind);
    block_on(instance.close()).unwrap();
    assert_eq!(of_map.len(), 1, "{of_map:?}");
    let short = |rows: &ChangeBatch| rows.slice(0, rows.rows() - 1);
    let file = rewrite(memory, &tables.file_map, &of_map[0], &short);
    (model, file)
}

/// A key that lies outside of what its run holds has its number from the log, while nothing can be
/// made again.
#[test]
fn a_key_that_a_wrong_run_lacks_keeps_its_number() {
    let memory = MemoryStore::without_history();
    let (mut model, _) = with_short_map(&memory, RunKind::Sorted, keeping());
    let world = World::over(memory);
    world.refuse_to_make("segments/");
    let instance = world.open(keeping());
    let tables = Tables::of(&instance);
    world.verify_until_marked(&instance, "files");
    let later = [size("c", 1), size("d", 1)];
    commit(&instance, &tables, &later);
    model.apply(&tables, &later);
    let rows = read(&fresh(&instance, Freshness::ZERO), &tables);
    assert_eq!(rows, model.rows);
    world.faults.clear();
    world.wait_until_unmarked(&instance);
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let rows = read(&fresh(&instance, Freshness::ZERO), &tables);
    assert_eq!(rows, model.rows);
    close_whole(&instance);
}

/// Whether a key has a number is not known where nothing tells it but what is wrong.
#[test]
fn a_wrong_run_without_a_log_gives_no_key_a_second_number() {
    let memory = MemoryStore::without_history();
    let (_, file) = with_short_map(&memory, RunKind::Base, settings());
    let mark = format!("condemned/{}", file.replace('/', "+"));
    let why = Bytes::from(format!("{file} holds other rows"));
    block_on(memory.put_if_absent(&mark, why)).unwrap();
    let instance = open(Arc::new(memory), settings()).unwrap();
    let tables = Tables::of(&instance);
    commit(&instance, &tables, &[size("c", 1)]);
    let request = SnapshotRequest {
        freshness: Freshness::ZERO,
        tables: Some(vec![tables.sizes.id]),
        ..SnapshotRequest::default()
    };
    let found = block_on(instance.snapshot(request))
        .and_then(|snapshot| harness::batches(&snapshot, tables.sizes.id, vec![0, 1, 2]));
    assert_names(&found.unwrap_err(), &file, "a key of the map");
}

/// A remap hangs while it reads the map: others give out the numbers, and it comes too late.
#[test]
fn a_remap_that_hangs_holds_up_neither_readers_nor_the_next_one() {
    let store = HangingReads::over(Arc::new(MemoryStore::without_history()));
    let store = Arc::new(store);
    let one_worker = Settings {
        workers: 1,
        attempt_silence: Duration::from_millis(150),
        ..uncached(keeping())
    };
    let instance = open(Arc::clone(&store) as _, one_worker).unwrap();
    let tables = Tables::create(&instance);
    let mut model = Model::new();
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    commit(&instance, &tables, &batch(0));
    model.apply(&tables, &batch(0));
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    let of_map = files_of(&instance, &tables.file_map, RunKind::Sorted);
    store.hang(&of_map[0], 1);
    commit(&instance, &tables, &batch(1));
    model.apply(&tables, &batch(1));
    let sealed = block_on(instance.seal()).unwrap();
    wait_for(&instance, "the remap to hang", |_| store.hanging() == 1);
    let reader = instance.clone();
    let rows = in_time("a reader", move || {
        let tables = Tables::of(&reader);
        read(&fresh(&reader, Freshness::ZERO), &tables)
    });
    assert_eq!(rows, model.rows);
    wait_for(&instance, "the SCU to be sorted", |instance| {
        instance.manifest().sorted_through >= sealed
    });
    assert!(instance.status().silent.given_up > 0);
    store.let_go();
    wait_for(&instance, "those that hung", |instance| {
        let silent = instance.status().silent;
        silent.came_back == silent.given_up
    });
    commit(&instance, &tables, &batch(2));
    model.apply(&tables, &batch(2));
    pause(&instance, &[]);
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let rows = read(&fresh(&instance, Freshness::ZERO), &tables);
    assert_eq!(rows, model.rows);
    close_whole(&instance);
}

/// How many SCUs with natural keys come before the one that is damaged.
const READABLE_SCUS: u64 = 3;

/// A database whose log is damaged where it holds natural keys, and a table beside them.
fn with_lost_mentions(settings: Settings) -> (Instance, Arc<Table>, String) {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), keeping()).unwrap();
    let tables = Tables::create(&instance);
    let plain = create(&instance, "plain");
    pause(&instance, &[StageName::Remap, StageName::Sort]);
    for at in 0..READABLE_SCUS {
        let key = (format!("key {at}"), 7);
        commit(&instance, &tables, &[Change::Size(key, 0, None)]);
        block_on(instance.seal()).unwrap();
    }
    let lost = ("a lost key".to_owned(), 7);
    commit(&instance, &tables, &[Change::Size(lost, 0, None)]);
    block_on(instance.close()).unwrap();
    let is_hit = |file: &&String| place_of(&store, file, b"a lost key").is_some();
    let logs = files(&store, "log/");
    let file = logs.iter().find(is_hit).expect("the key is in the log");
    let byte = place_of(&store, file, b"a lost key").unwrap();
    let (harmed_store, _) = harmed(&store, file, Harm::FlipByte { byte });
    let instance = open(harmed_store, settings).unwrap();
    (instance, plain, file.clone())
}

fn place_of(store: &MemoryStore, file: &str, text: &[u8]) -> Option<u64> {
    let length = block_on(store.len(file)).unwrap();
    let bytes = block_on(store.read(file, 0..length)).unwrap();
    let mut windows = bytes.windows(text.len());
    windows
        .position(|window| window == text)
        .map(|at| at as u64)
}

/// What a thread gives that may never come back.
fn in_time<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = mpsc::channel();
    thread::spawn(move || sender.send(run()));
    let answer = done.recv_timeout(Duration::from_secs(60));
    answer.unwrap_or_else(|_| panic!("{what} did not come back"))
}

fn assert_told(error: &Error, file: &str) {
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert!(error.message().contains(file), "{error:?}");
    assert!(
        error.hint().unwrap_or_default().contains("DROP"),
        "{error:?}"
    );
}

fn write_plain(instance: &Instance, table: &Arc<Table>, ids: Range<i64>) -> Result<Horizon> {
    let (instance, table) = (instance.clone(), Arc::clone(table));
    in_time("a writer", move || {
        let row = |id| harness::Change::Upsert((id, Some(id), Some("x".repeat(1000))));
        let rows: Vec<harness::Change> = ids.map(row).collect();
        harness::commit(&instance, &[(&table, &rows)])
    })
}

fn truncate_plain(instance: &Instance) -> Result<()> {
    let instance = instance.clone();
    in_time("TRUNCATE", move || {
        block_on(instance.truncate_table("plain"))
    })
}

#[test]
fn lost_natural_keys_stop_what_needs_them_and_nothing_else() {
    let (instance, plain, file) = with_lost_mentions(keeping());
    wait_for(&instance, "SCUs that can be read", |instance| {
        instance.manifest().sorted_through >= ScuNumber(READABLE_SCUS)
    });
    write_plain(&instance, &plain, 0..3).unwrap();
    assert_told(&truncate_plain(&instance).unwrap_err(), &file);
    write_plain(&instance, &plain, 3..5).unwrap();
    let snapshot = fresh(&instance, Freshness::ZERO);
    assert_eq!(harness::scan(&snapshot, &plain).unwrap().len(), 5);
    drop(snapshot);
    // Without those who share the numbers nobody waits for them.
    block_on(instance.drop_table("sizes", false)).unwrap();
    block_on(instance.drop_table("files", false)).unwrap();
    block_on(instance.drop_table("users", false)).unwrap();
    truncate_plain(&instance).unwrap();
    write_plain(&instance, &plain, 5..6).unwrap();
    let snapshot = fresh(&instance, Freshness::ZERO);
    assert_eq!(harness::scan(&snapshot, &plain).unwrap().len(), 1);
}

#[test]
fn writers_are_refused_where_lost_natural_keys_let_nothing_be_sorted() {
    let (instance, plain, file) = with_lost_mentions(Settings {
        unsorted_bytes_max: 256 << 10,
        ..keeping()
    });
    // The coordinator looks now and then, however quick the writers are.
    let clock = &instance.env().clock;
    let until = clock.monotonic() + Duration::from_secs(30);
    let mut rounds = (0..).take_while(|_| clock.monotonic() < until);
    let refused = rounds.find_map(|at| write_plain(&instance, &plain, at..at + 5).err());
    assert_told(&refused.expect("what is not sorted is bounded"), &file);
    for table in ["sizes", "files", "users"] {
        block_on(instance.drop_table(table, false)).unwrap();
    }
    wait_for(&instance, "writers that go on", |instance| {
        instance.status().throttle.is_none()
    });
    write_plain(&instance, &plain, 5000..5001).unwrap();
}
