//! A worker whose disk does not answer: its work is given to another one, and what it brings when
//! the disk answers at last is refused. Meanwhile writers wait.

#![allow(
    clippy::disallowed_methods,
    reason = "a writer beside a worker that hangs is a thread of the machine's own"
)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array};
use async_trait::async_trait;
use bytes::Bytes;
use futures::executor::block_on;
use lazybase_cluster::{
    BoundsSpec, CutSpec, DamageState, Instance, PartitionSpec, Settings, SettleTo, StageName,
    Status, TableSpec, range_bounds,
};
use lazybase_engine::env::faults::{Faults, FaultyStore};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::env::{FileWriter, LogFile, Store, StoreResult};
use lazybase_engine::manifest::collect::files_of as named_files;
use lazybase_engine::manifest::{Ddl, RunKind};
use lazybase_model::partition::PartitionChange;
use lazybase_model::{ErrorKind, Freshness, Table, limits};
use parking_lot::{Condvar, Mutex};

use crate::damage::{Harm, harm_file};
use crate::harness::{
    Change, close_whole, commit, create, fresh, keeping, open, pause, scan, settings, spec,
};
use crate::heal::{batch, create_view, entries, files_of, shown};
use crate::model::Model;
use crate::sequences::create_sequence;
use crate::world::{World, uncached};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Blocks the threads that finish files, as a disk does that answers no more.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// How many files more hang; those that do.
    pub(crate) state: Mutex<(u32, u32)>,
    opened: Condvar,
}

impl Gate {
    pub(crate) fn pass(&self) {
        let mut state = self.state.lock();
        if state.0 > 0 {
            *state = (state.0 - 1, state.1 + 1);
            while state.1 > 0 {
                self.opened.wait(&mut state);
            }
        }
    }

    pub(crate) fn open(&self) {
        *self.state.lock() = (0, 0);
        self.opened.notify_all();
    }

    /// Lets through what hangs; whatever comes after it hangs.
    fn let_through(&self) {
        *self.state.lock() = (u32::MAX, 0);
        self.opened.notify_all();
    }
}

#[derive(Debug)]
struct Hanging {
    inner: MemoryStore,
    gate: Arc<Gate>,
    /// Of files that are put whole, as the manifest's are.
    put: Arc<Gate>,
}

struct Writer {
    inner: Box<dyn FileWriter>,
    gate: Arc<Gate>,
}

#[async_trait]
impl FileWriter for Writer {
    async fn write(&mut self, bytes: Bytes) -> StoreResult<()> {
        self.inner.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        self.inner.finish().await?;
        self.gate.pass();
        Ok(())
    }
}

#[async_trait]
impl Store for Hanging {
    async fn put_if_absent(&self, name: &str, bytes: Bytes) -> StoreResult<()> {
        self.inner.put_if_absent(name, bytes).await?;
        self.put.pass();
        Ok(())
    }

    async fn create(&self, name: &str) -> StoreResult<Box<dyn FileWriter>> {
        Ok(Box::new(Writer {
            inner: self.inner.create(name).await?,
            gate: Arc::clone(&self.gate),
        }))
    }

    async fn read(&self, name: &str, range: Range<u64>) -> StoreResult<Bytes> {
        self.inner.read(name, range).await
    }

    async fn len(&self, name: &str) -> StoreResult<u64> {
        self.inner.len(name).await
    }

    async fn list(&self, prefix: &str) -> StoreResult<Vec<(String, u64)>> {
        self.inner.list(prefix).await
    }

    async fn delete(&self, name: &str) -> StoreResult<()> {
        self.inner.delete(name).await
    }

    async fn create_log(
        &self,
        name: &str,
        bytes: u64,
        recycle: Option<&str>,
    ) -> StoreResult<Box<dyn LogFile>> {
        self.inner.create_log(name, bytes, recycle).await
    }

    fn folder(&self) -> Option<&Path> {
        self.inner.folder()
    }
}

/// Waits until the status is as it should become.
fn wait_for(instance: &Instance, what: &str, is_so: impl Fn(&Status) -> bool) {
    let clock = &instance.env().clock;
    let deadline = clock.monotonic() + PATIENCE;
    while !is_so(&instance.status()) {
        assert!(
            clock.monotonic() < deadline,
            "{what}: {:?}",
            instance.status().silent
        );
        block_on(clock.sleep(Duration::from_millis(5)));
    }
}

fn segments(store: &MemoryStore) -> BTreeSet<String> {
    let listed = block_on(store.list("segments/")).unwrap();
    listed.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn what_hangs_is_done_by_another_and_refused_when_it_comes_back() {
    let store = MemoryStore::without_history();
    let gate = Arc::new(Gate::default());
    let hanging = Hanging {
        inner: store.clone(),
        gate: Arc::clone(&gate),
        put: Arc::default(),
    };
    let settings = Settings {
        workers: 1,
        attempt_silence: Duration::from_millis(150),
        ..settings()
    };
    let instance = open(Arc::new(hanging), settings).unwrap();
    let table = create(&instance, "t");
    // The only worker hangs, and the first one in its place too.
    gate.state.lock().0 = 2;
    for round in 0..3 {
        commit(&instance, &[(&table, &batch(round))]).unwrap();
    }
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    // Where the machine stands still others are silent for too long, too, and come back by
    // themselves.
    let silent = instance.status().silent;
    let others = silent.given_up.checked_sub(2).expect("two hang");
    assert!(silent.came_back <= others, "{silent:?}");
    assert_eq!(
        scan(&fresh(&instance, Freshness::BestEffort), &table).unwrap(),
        rows
    );
    // They come back, and change nothing.
    let before = instance.manifest().runs.clone();
    gate.open();
    wait_for(&instance, "they come back", |status| {
        status.silent.came_back == status.silent.given_up
    });
    let came_first = instance.status().silent.came_first;
    assert!(came_first <= others, "{came_first} of {others}");
    wait_for(&instance, "their files are removed", |_| {
        let manifest = instance.manifest();
        let named: BTreeSet<&str> = named_files(&manifest).collect();
        let there = segments(&store);
        there.iter().all(|name| named.contains(name.as_str()))
    });
    assert_eq!(instance.manifest().runs.keys().max(), before.keys().max());
    assert_eq!(
        scan(&fresh(&instance, Freshness::BestEffort), &table).unwrap(),
        rows
    );
    close_whole(&instance);
}

#[test]
fn a_database_is_closed_though_a_worker_hangs() {
    let gate = Arc::new(Gate::default());
    let hanging = Hanging {
        inner: MemoryStore::without_history(),
        gate: Arc::clone(&gate),
        put: Arc::default(),
    };
    let settings = Settings {
        workers: 1,
        attempt_silence: Duration::from_millis(150),
        ..settings()
    };
    let instance = open(Arc::new(hanging), settings).unwrap();
    let table = create(&instance, "t");
    gate.state.lock().0 = 1;
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    block_on(instance.seal()).unwrap();
    wait_for(&instance, "it hangs", |_| gate.state.lock().1 == 1);
    block_on(instance.close()).unwrap();
    assert_eq!(instance.status().silent.came_back, 0);
    gate.open();
}

/// Once more attempts hang than are waited for, no other is begun; nor does whoever closes the
/// database wait for the last of them.
#[test]
fn a_database_is_closed_though_more_workers_hang_than_are_waited_for() {
    let gate = Arc::new(Gate::default());
    let hanging = Hanging {
        inner: MemoryStore::without_history(),
        gate: Arc::clone(&gate),
        put: Arc::default(),
    };
    let settings = Settings {
        workers: 1,
        attempt_silence: Duration::from_millis(1),
        ..settings()
    };
    let instance = open(Arc::new(hanging), settings).unwrap();
    let table = create(&instance, "t");
    gate.state.lock().0 = u32::MAX;
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    block_on(instance.seal()).unwrap();
    let most = limits::ATTEMPTS_GIVEN_UP_MAX;
    wait_for(&instance, "one more hangs than is given up", |status| {
        status.silent.given_up == most as u64 && gate.state.lock().1 == most as u32 + 1
    });
    gate.state.lock().0 = 0;
    let closing = {
        let instance = instance.clone();
        thread::spawn(move || block_on(instance.close()))
    };
    wait_for(&instance, "it is closed", |_| closing.is_finished());
    closing.join().unwrap().unwrap();
    gate.open();
}

/// A mebibyte that compresses badly.
fn large(id: i64) -> Change {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = id as u64 + 1;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005);
        state = state.wrapping_add(1_442_695_040_888_963_407);
        char::from(LETTERS[(state >> 58) as usize])
    };
    let note: String = (0..1 << 20).map(|_| letter()).collect();
    Change::Upsert((id, Some(id), Some(note)))
}

/// A merge moves a large file as it is, and hangs; meanwhile the file is lost and made again. What
/// the merge brings would name the lost file once more, when nobody knows of it any more.
#[test]
fn a_merge_that_moved_what_was_made_again_meanwhile_counts_for_nothing() {
    let store = MemoryStore::without_history();
    let gate = Arc::new(Gate::default());
    let hanging = Hanging {
        inner: store.clone(),
        gate: Arc::clone(&gate),
        put: Arc::default(),
    };
    let settings = Settings {
        workers: 2,
        ..uncached(keeping())
    };
    let instance = open(Arc::new(hanging), settings).unwrap();
    let table = create(&instance, "t");
    let rows: Vec<Change> = (0..28).map(large).collect();
    commit(&instance, &[(&table, &rows)]).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let before = files_of(&instance, &table, RunKind::Base);
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    let newer = Change::Upsert((1000, None, None));
    commit(&instance, &[(&table, &[newer])]).unwrap();
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    gate.state.lock().0 = 1;
    pause(&instance, &[]);
    wait_for(&instance, "the merge hangs", |_| gate.state.lock().1 == 1);
    block_on(store.delete(&before[0])).unwrap();
    let read = || scan(&fresh(&instance, Freshness::ZERO), &table).map(|rows| rows.len());
    assert_eq!(read().unwrap(), 29);
    wait_for(&instance, "the file is made again", |status| {
        let mut files = status.damage.values();
        !status.damage.is_empty() && files.all(|file| file.state == DamageState::Healed)
    });
    let healed = files_of(&instance, &table, RunKind::Base);
    let made = healed.iter().find(|file| !before.contains(file)).unwrap();
    gate.open();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let after = files_of(&instance, &table, RunKind::Base);
    // What was made again was moved in its turn.
    assert!(after.contains(made), "{made} in {after:?}");
    assert!(!after.contains(&before[0]), "{before:?} in {after:?}");
    assert_eq!(read().unwrap(), 29);
    close_whole(&instance);
}

/// While every worker is busy the stages fall behind most of all.
#[test]
fn writers_wait_while_the_only_worker_hangs() {
    let gate = Arc::new(Gate::default());
    let hanging = Hanging {
        inner: MemoryStore::without_history(),
        gate: Arc::clone(&gate),
        put: Arc::default(),
    };
    let settings = Settings {
        workers: 1,
        seal_age: Duration::from_millis(20),
        unsorted_bytes_max: 16 << 10,
        ..settings()
    };
    let instance = open(Arc::new(hanging), settings).unwrap();
    let table = create(&instance, "t");
    gate.state.lock().0 = 1;
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    wait_for(&instance, "it hangs", |_| gate.state.lock().1 == 1);
    let writer = {
        let (instance, table) = (instance.clone(), Arc::clone(&table));
        thread::spawn(move || {
            for round in 1..100 {
                commit(&instance, &[(&table, &batch(round))]).unwrap();
            }
        })
    };
    wait_for(&instance, "they are held back", |status| {
        let why = status.throttle.as_deref().unwrap_or_default();
        why.contains("not sorted yet")
    });
    let later = {
        let (instance, table) = (instance.clone(), Arc::clone(&table));
        thread::spawn(move || commit(&instance, &[(&table, &batch(100))]))
    };
    wait_for(&instance, "a writer waits", |status| {
        !status.waiting.is_empty()
    });
    gate.open();
    writer.join().unwrap();
    later.join().unwrap().unwrap();
    wait_for(&instance, "nobody is held back", |status| {
        status.throttle.is_none()
    });
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    close_whole(&instance);
}

/// Whoever waits for the authority waits for what was there: what others write meanwhile is merged
/// later, and while they go on there is always more of it.
#[test]
fn settling_does_not_wait_for_what_is_written_meanwhile() {
    let gate = Arc::new(Gate::default());
    let hanging = Hanging {
        inner: MemoryStore::without_history(),
        gate: Arc::clone(&gate),
        put: Arc::default(),
    };
    let settings = Settings {
        workers: 2,
        ..settings()
    };
    let instance = open(Arc::new(hanging), settings).unwrap();
    let table = create(&instance, "t");
    pause(&instance, &[StageName::Authority]);
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    gate.state.lock().0 = 1;
    pause(&instance, &[]);
    let begun = Arc::new(AtomicBool::new(false));
    let waiter = {
        let (instance, begun) = (instance.clone(), Arc::clone(&begun));
        thread::spawn(move || {
            let progress = |_: f64| begun.store(true, Ordering::SeqCst);
            block_on(instance.settle(None, SettleTo::Authority, &progress))
        })
    };
    wait_for(&instance, "somebody waits, and the authority hangs", |_| {
        begun.load(Ordering::SeqCst) && gate.state.lock().1 == 1
    });
    // Sorted beside the authority, before that is there.
    commit(&instance, &[(&table, &batch(1))]).unwrap();
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    gate.let_through();
    wait_for(&instance, "what was there is settled", |_| {
        waiter.is_finished()
    });
    waiter.join().unwrap().unwrap();
    let manifest = instance.manifest();
    let range = &manifest.tables[&table.id].ranges[0];
    let current = range.runs.iter().filter(|run| run.is_current());
    let kinds: Vec<RunKind> = current.map(|run| manifest.run(run.id).kind).collect();
    assert_eq!(kinds, [RunKind::Base, RunKind::Sorted]);
    drop(manifest);
    gate.open();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    close_whole(&instance);
}

/// Nothing goes on in a closed database: whoever still waits for it is told.
#[test]
fn whoever_waits_while_the_database_is_closed_is_told() {
    let world = World::new();
    let instance = world.open(settings());
    let table = create(&instance, "t");
    world.refuse_to_make(".ext");
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    let begun = Arc::new(AtomicBool::new(false));
    let waiter = {
        let (instance, begun) = (instance.clone(), Arc::clone(&begun));
        thread::spawn(move || {
            let progress = |_: f64| begun.store(true, Ordering::SeqCst);
            block_on(instance.settle(None, SettleTo::Sorted, &progress))
        })
    };
    wait_for(&instance, "somebody waits", |_| {
        begun.load(Ordering::SeqCst)
    });
    block_on(instance.close()).unwrap();
    wait_for(&instance, "the waiting ends", |_| waiter.is_finished());
    let error = waiter.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
}

pub(crate) fn partition(low: i64, high: i64) -> BoundsSpec {
    let cut = |value: i64| {
        let value: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        Some(CutSpec {
            values: vec![value],
            after: false,
        })
    };
    BoundsSpec {
        low: cut(low),
        high: cut(high),
    }
}

pub(crate) fn repartition(instance: &Instance, table: &Table, change: PartitionChange) {
    let ddl = Ddl::Partition {
        table: table.id,
        change,
        versions: None,
    };
    block_on(instance.commit(vec![ddl], None)).unwrap();
}

/// The stored rows of a table, in all its runs.
fn stored_rows(instance: &Instance, table: &Table) -> u64 {
    let manifest = instance.manifest();
    let runs = manifest.runs.values();
    let of_table = runs.filter(|run| run.view == table.primary.id);
    of_table.map(|run| run.rows()).sum()
}

/// A view is built from all rows while a partition is dropped and forgotten: the view has begun
/// again from nothing, and what was built holds rows that nothing tells it to leave out.
#[test]
fn what_a_view_was_built_from_before_it_began_again_does_not_count() {
    let gate = Arc::new(Gate::default());
    let hanging = Hanging {
        inner: MemoryStore::without_history(),
        gate: Arc::clone(&gate),
        put: Arc::default(),
    };
    let settings = Settings {
        workers: 2,
        ..settings()
    };
    let instance = open(Arc::new(hanging), settings).unwrap();
    let partitions = vec![partition(0, 10), partition(10, 20)];
    let by_id = PartitionSpec {
        hash: Vec::new(),
        range: Some((vec!["id".to_owned()], partitions)),
    };
    let of_two = TableSpec {
        partitioning: Some(by_id),
        ..spec("t", &["id"])
    };
    let table = block_on(instance.create_table(of_two, false));
    let table = table.unwrap().unwrap();
    let row = |id: i64| Change::Upsert((id, Some(id), None));
    commit(&instance, &[(&table, &[row(1), row(11)])]).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    wait_for(&instance, "the sorted run is retired", |_| {
        stored_rows(&instance, &table) == 2
    });
    gate.state.lock().0 = 1;
    let view = create_view(&instance, &table);
    wait_for(&instance, "the build of the view hangs", |_| {
        gate.state.lock().1 == 1
    });
    let bounds = |low, high| range_bounds(&table, &partition(low, high)).unwrap();
    repartition(&instance, &table, PartitionChange::Drop(bounds(10, 20)));
    wait_for(&instance, "the rows of the partition are retired", |_| {
        stored_rows(&instance, &table) == 1
    });
    // With this the dropped partition is forgotten.
    repartition(&instance, &table, PartitionChange::Add(bounds(20, 30)));
    gate.open();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let snapshot = fresh(&instance, Freshness::ZERO);
    assert_eq!(shown(&snapshot, &view).unwrap(), Some(vec![(Some(1), 1)]));
    drop(snapshot);
    close_whole(&instance);
}

/// What a damaged file holds is asked for once it was made again: until then nothing is tried in
/// vain, and whoever waits for the authority goes on waiting.
#[test]
fn a_view_waits_while_the_changes_that_it_lacks_are_made_again() {
    let gate = Arc::new(Gate::default());
    let hanging = Hanging {
        inner: MemoryStore::without_history(),
        gate: Arc::clone(&gate),
        put: Arc::default(),
    };
    let faults = Faults::none();
    let store = Arc::new(FaultyStore::over(Arc::new(hanging), faults.clone()));
    let settings = Settings {
        workers: 3,
        ..uncached(keeping())
    };
    let instance = open(Arc::clone(&store) as _, settings).unwrap();
    let table = create(&instance, "t");
    let view = create_view(&instance, &table);
    let mut model = Model::default();
    let write = |round: i64, model: &mut Model| {
        commit(&instance, &[(&table, &batch(round))]).unwrap();
        model.apply(&batch(round));
    };
    write(0, &mut model);
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    write(1, &mut model);
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    let sorted = files_of(&instance, &table, RunKind::Sorted);
    gate.state.lock().0 = 1;
    harm_file(&*store, &faults, &sorted[0], Harm::Flip { tenths: 4 });
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    wait_for(&instance, "what makes it again hangs", |_| {
        gate.state.lock().1 == 1
    });
    pause(&instance, &[]);
    let begun = Arc::new(AtomicBool::new(false));
    let waiter = {
        let (instance, begun) = (instance.clone(), Arc::clone(&begun));
        thread::spawn(move || {
            let progress = |_: f64| begun.store(true, Ordering::SeqCst);
            block_on(instance.settle(None, SettleTo::Authority, &progress))
        })
    };
    wait_for(&instance, "somebody waits", |_| {
        begun.load(Ordering::SeqCst)
    });
    for round in 2..6 {
        write(round, &mut model);
        block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    }
    gate.open();
    waiter.join().unwrap().unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let snapshot = fresh(&instance, Freshness::ZERO);
    assert_eq!(shown(&snapshot, &view).unwrap(), Some(entries(&model)));
    drop(snapshot);
    let in_vain: Vec<_> = instance
        .status()
        .troubles
        .into_iter()
        .filter(|trouble| trouble.message.contains("can't be told"))
        .collect();
    assert!(in_vain.is_empty(), "{in_vain:?}");
    close_whole(&instance);
}

/// Whatever the coordinator is at when a database is closed, the last seal is in the manifest: a
/// closed database needs no frame of its log to be opened.
#[test]
fn the_last_seal_is_in_the_manifest_whatever_closing_finds_at_work() {
    let put = Arc::new(Gate::default());
    let hanging = Hanging {
        inner: MemoryStore::without_history(),
        gate: Arc::default(),
        put: Arc::clone(&put),
    };
    let instance = open(Arc::new(hanging), settings()).unwrap();
    let table = create(&instance, "t");
    let sequence = create_sequence(&instance, "s");
    pause(&instance, &[StageName::Sort]);
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    let open = instance.status().open_scu;
    put.state.lock().0 = 1;
    thread::scope(|scope| {
        scope.spawn(|| block_on(instance.next_numbers(sequence, 1)).unwrap());
        wait_for(&instance, "an edit hangs", |_| put.state.lock().1 == 1);
        scope.spawn(|| block_on(instance.close()).unwrap());
        wait_for(&instance, "the SCU is sealed", |status| {
            status.open_batches == 0
        });
        // That the coordinator was told to stop can't be seen: it is what comes next.
        thread::sleep(Duration::from_millis(50));
        put.open();
    });
    assert_eq!(instance.manifest().sealed_through, open);
}
