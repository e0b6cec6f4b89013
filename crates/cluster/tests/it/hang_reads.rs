//! A disk that does not answer when a worker reads some of its files: what does not need these
//! goes on, and what needs them goes on as soon as it can.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::executor::block_on;
use lazybase_cluster::{DamageState, Instance, Settings, SettleTo, StageName};
use lazybase_engine::env::faults::{Faults, FaultyStore};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::env::{FileWriter, LogFile, Store, StoreResult};
use lazybase_engine::manifest::RunKind;
use lazybase_model::{Freshness, Span, Table, limits};
use parking_lot::Mutex;

use crate::damage::{Harm, harm_file, wait_for};
use crate::hang::Gate;
use crate::harness::{close_whole, commit, create, fresh, keeping, open, pause, scan};
use crate::heal::{batch, files_of};
use crate::model::Model;
use crate::world::uncached;

/// A store whose reads of some files hang, where it is a worker that reads them.
#[derive(Debug)]
pub(crate) struct HangingReads {
    inner: Arc<dyn Store>,
    gate: Gate,
    /// Part of the files' names.
    named: Mutex<String>,
}

impl HangingReads {
    pub(crate) fn over(inner: Arc<dyn Store>) -> HangingReads {
        HangingReads {
            inner,
            gate: Gate::default(),
            named: Mutex::default(),
        }
    }

    /// So many reads by workers, of files with this part in their names, hang from now on.
    pub(crate) fn hang(&self, part: &str, reads: u32) {
        part.clone_into(&mut self.named.lock());
        self.gate.state.lock().0 = reads;
    }

    /// How many hang.
    pub(crate) fn hanging(&self) -> u32 {
        self.gate.state.lock().1
    }

    /// Lets through what hangs, and what comes after it.
    pub(crate) fn let_go(&self) {
        self.gate.open();
    }
}

#[async_trait]
impl Store for HangingReads {
    async fn put_if_absent(&self, name: &str, bytes: Bytes) -> StoreResult<()> {
        self.inner.put_if_absent(name, bytes).await
    }

    async fn create(&self, name: &str) -> StoreResult<Box<dyn FileWriter>> {
        self.inner.create(name).await
    }

    async fn read(&self, name: &str, range: Range<u64>) -> StoreResult<Bytes> {
        let reader = thread::current();
        let by_worker = reader.name().is_some_and(|of| of.starts_with("worker-"));
        let is_named = name.contains(self.named.lock().as_str());
        drop(reader);
        if by_worker && is_named {
            self.gate.pass();
        }
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

fn state_of(instance: &Instance, file: &str) -> Option<DamageState> {
    let damage = instance.status().damage;
    damage.get(file).map(|damage| damage.state)
}

/// A database over a store whose reads hang, of one worker that is soon given up; it keeps nothing
/// of what it reads.
fn reading_back(memory: &MemoryStore, faults: &Faults) -> (Arc<HangingReads>, Instance) {
    let faulty = FaultyStore::over(Arc::new(memory.clone()), faults.clone());
    let store = Arc::new(HangingReads::over(Arc::new(faulty)));
    let settings = Settings {
        workers: 1,
        attempt_silence: Duration::from_millis(150),
        ..uncached(keeping())
    };
    let instance = open(Arc::clone(&store) as _, settings).unwrap();
    (store, instance)
}

/// Two files are damaged, and one of them can't even be read back: the other is made again.
#[test]
fn a_suspected_file_that_hangs_when_it_is_read_back_holds_up_no_other() {
    let faults = Faults::none();
    let memory = MemoryStore::without_history();
    let (store, instance) = reading_back(&memory, &faults);
    let (stuck, other) = (create(&instance, "t"), create(&instance, "u"));
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    let mut model = Model::default();
    commit(&instance, &[(&stuck, &batch(0)), (&other, &batch(0))]).unwrap();
    model.apply(&batch(0));
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    let file_of = |table: &Table| files_of(&instance, table, RunKind::Sorted)[0].clone();
    let (stuck_file, other_file) = (file_of(&stuck), file_of(&other));
    store.hang(&stuck_file, u32::MAX);
    for (table, file) in [(&stuck, &stuck_file), (&other, &other_file)] {
        harm_file(&memory, &faults, file, Harm::Flip { tenths: 4 });
        let rows = scan(&fresh(&instance, Freshness::ZERO), table).unwrap();
        assert_eq!(rows, model.rows());
    }
    wait_for(&instance, "the check to hang", |_| store.hanging() > 0);
    wait_for(&instance, "the other file to be made again", |instance| {
        state_of(instance, &other_file) == Some(DamageState::Healed)
    });
    let suspected = Some(DamageState::Suspected);
    assert_eq!(state_of(&instance, &stuck_file), suspected);
    store.let_go();
    wait_for(&instance, "the file to be made again", |instance| {
        state_of(instance, &stuck_file) == Some(DamageState::Healed)
    });
    pause(&instance, &[]);
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    for table in [&stuck, &other] {
        let rows = scan(&fresh(&instance, Freshness::ZERO), table).unwrap();
        assert_eq!(rows, model.rows());
    }
    close_whole(&instance);
}

/// More suspected files hang than attempts are waited for: what else hangs is given up all the
/// same.
#[test]
fn suspected_files_that_hang_leave_room_for_what_else_hangs() {
    let faults = Faults::none();
    let memory = MemoryStore::without_history();
    let (store, instance) = reading_back(&memory, &faults);
    let numbers = 0..limits::ATTEMPTS_GIVEN_UP_MAX;
    let tables: Vec<_> = numbers
        .map(|number| create(&instance, &format!("t{number}")))
        .collect();
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    let mut model = Model::default();
    let write = |round: i64, model: &mut Model| {
        let changes = batch(round);
        let parts: Vec<_> = tables.iter().map(|table| (table, &changes[..])).collect();
        commit(&instance, &parts).unwrap();
        model.apply(&changes);
    };
    write(0, &mut model);
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    store.hang("segments/", u32::MAX);
    for table in &tables {
        let file = &files_of(&instance, table, RunKind::Sorted)[0];
        harm_file(&memory, &faults, file, Harm::Flip { tenths: 4 });
        let rows = scan(&fresh(&instance, Freshness::ZERO), table).unwrap();
        assert_eq!(rows, model.rows());
    }
    wait_for(&instance, "a check to hang", |_| store.hanging() > 0);
    // A sort reads back what it has written: it hangs too.
    write(1, &mut model);
    let sealed = block_on(instance.seal()).unwrap();
    let told = format!("sort of SCUs {}", Span::single(sealed));
    wait_for(&instance, "the sort to be given up", |instance| {
        let troubles = instance.status().troubles;
        let mut messages = troubles.iter().map(|trouble| &trouble.message);
        messages.any(|message| message.starts_with(&told) && message.contains("hangs"))
    });
    store.let_go();
    wait_for(&instance, "the files to be made again", |instance| {
        let damage = instance.status().damage;
        let mut states = damage.values().map(|damage| damage.state);
        damage.len() >= tables.len() && states.all(|state| state == DamageState::Healed)
    });
    pause(&instance, &[]);
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    for table in &tables {
        let rows = scan(&fresh(&instance, Freshness::ZERO), table).unwrap();
        assert_eq!(rows, model.rows());
    }
    close_whole(&instance);
}
