//! Syncs that fail under a database in a folder: after one that may have lost something nothing is
//! acknowledged until it is opened again, and readers are served; where space was missing it goes
//! on. Either way a power cut takes nothing that was acknowledged.

#![allow(
    clippy::disallowed_methods,
    reason = "what the database does by itself is waited for"
)]

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use lazybase_cluster::{Instance, Settings, SettleTo};
use lazybase_engine::env::local::{DiskRecord, LocalStore};
use lazybase_engine::env::memory::Unsynced;
use lazybase_model::{ErrorKind, Freshness, Result, Table};
use tempfile::TempDir;

use crate::harness::{Change, close_whole, commit, create, fresh, open, scan, settings};

/// The database's folder below the base.
const ROOT: &str = "db";

/// Log files are soon full, and used again.
fn small(seal_age: Duration) -> Settings {
    Settings {
        seal_age,
        log_file_bytes: 8 << 10,
        ..settings()
    }
}

/// A database in a folder whose calls are recorded, and what was acknowledged in it.
struct World {
    folder: TempDir,
    record: DiskRecord,
    instance: Instance,
    table: Arc<Table>,
    seal_age: Duration,
    next: i64,
    acknowledged: BTreeSet<i64>,
}

impl World {
    fn open(seal_age: Duration) -> World {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let record = DiskRecord::below(&base);
        let store = LocalStore::open_recorded(&base.join(ROOT), &record).unwrap();
        let instance = open(Arc::new(store), small(seal_age)).unwrap();
        let table = create(&instance, "t");
        World {
            folder,
            record,
            instance,
            table,
            seal_age,
            next: 0,
            acknowledged: BTreeSet::new(),
        }
    }

    /// A batch of one row, in a key that no batch before had.
    fn write(&mut self) -> Result<()> {
        let key = self.next;
        self.next += 1;
        let row = Change::Upsert((key, Some(key), Some(format!("row {key}"))));
        commit(&self.instance, &[(&self.table, &[row])])?;
        self.acknowledged.insert(key);
        Ok(())
    }

    fn keys(&self) -> BTreeSet<i64> {
        keys(&self.instance, &self.table)
    }

    /// What is there if the power goes now, and nothing stays but what was synced.
    fn after_a_power_cut(&self) -> BTreeSet<i64> {
        let mut disk = self.record.replay();
        disk.go_to(self.record.calls());
        let left = disk.image(Unsynced::Nothing, Unsynced::Nothing);
        let folder = tempfile::tempdir().unwrap();
        left.write_to(folder.path()).unwrap();
        let store = LocalStore::open(&folder.path().join(ROOT)).unwrap();
        let instance = open(Arc::new(store), small(self.seal_age)).unwrap();
        let table = instance.table("t").unwrap();
        let found = keys(&instance, &table);
        close_whole(&instance);
        found
    }
}

/// The keys of all rows that were acknowledged.
fn keys(instance: &Instance, table: &Table) -> BTreeSet<i64> {
    let rows = scan(&fresh(instance, Freshness::ZERO), table).unwrap();
    rows.into_iter().map(|(key, ..)| key).collect()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{what}: not within a minute");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn after_a_sync_that_failed_nothing_is_acknowledged_and_readers_are_served() {
    const MEANT: [fn(&str) -> bool; 4] = [
        |name| name.starts_with("db/log/"),
        |name| name == "db/log",
        |name| name.starts_with("db/segments/"),
        |name| name == "db/manifest",
    ];
    for is_meant in MEANT {
        let mut world = World::open(Duration::from_millis(20));
        world.write().unwrap();
        assert_eq!(world.instance.status().failed_sync, None);
        let refused = io::ErrorKind::ReadOnlyFilesystem;
        world.record.refuse_sync(refused, is_meant);
        wait_until("a sync fails", || {
            let _ = world.write();
            world.instance.status().failed_sync.is_some()
        });
        let failed = world.instance.status().failed_sync.unwrap();
        assert!(is_meant(&format!("{ROOT}/{}", failed.name)), "{failed}");
        assert!(failed.reason.contains("read-only"), "{failed}");
        for _ in 0..5 {
            let error = world.write().unwrap_err();
            let kinds = [ErrorKind::Unavailable, ErrorKind::MaybeHappened];
            assert!(kinds.contains(&error.kind()), "{error}");
            assert!(error.to_string().contains("sync failed"), "{error}");
        }
        wait_until("it is told", || {
            let troubles = world.instance.status().troubles;
            let told = failed.to_string();
            troubles.iter().any(|trouble| trouble.message == told)
        });
        assert_eq!(world.keys(), world.acknowledged, "{failed}");
        // Closing may fail to write its last seal; it must end.
        let _ = block_on(world.instance.close());
        let left = world.after_a_power_cut();
        assert!(world.acknowledged.is_subset(&left), "{failed}: {left:?}");
        opens_again(world);
    }
}

/// With the next opening all goes on.
fn opens_again(world: World) {
    let World {
        folder,
        instance,
        acknowledged,
        seal_age,
        ..
    } = world;
    drop(instance);
    let mut store = None;
    wait_until("the folder is free", || {
        store = LocalStore::open(&folder.path().join(ROOT)).ok();
        store.is_some()
    });
    let store = Arc::new(store.unwrap());
    let instance = open(store, small(seal_age)).unwrap();
    assert_eq!(instance.status().failed_sync, None);
    let table = instance.table("t").unwrap();
    assert!(acknowledged.is_subset(&keys(&instance, &table)));
    let row = Change::Upsert((-1, None, None));
    commit(&instance, &[(&table, &[row])]).unwrap();
    assert!(keys(&instance, &table).contains(&-1));
    close_whole(&instance);
}

/// A log whose sync lacked space is not used again, and its group is durable in another one
/// (LOG-4), whose sync is believed.
#[test]
fn where_space_was_missing_batches_go_on_in_a_fresh_file() {
    let mut world = World::open(Duration::from_secs(3600));
    for _ in 0..12 {
        let full = io::ErrorKind::StorageFull;
        let is_log = |name: &str| name.starts_with("db/log/");
        world.record.refuse_sync(full, is_log);
        while world.record.is_refusing() {
            world.write().unwrap();
        }
    }
    let status = world.instance.status();
    assert_eq!(status.failed_sync, None);
    assert!(status.ingest.last_failure.is_some(), "a group was moved");
    assert_eq!(world.keys(), world.acknowledged);
    assert_eq!(world.after_a_power_cut(), world.acknowledged);
    block_on(world.instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    assert_eq!(world.keys(), world.acknowledged);
    assert_eq!(world.after_a_power_cut(), world.acknowledged);
    close_whole(&world.instance);
}
