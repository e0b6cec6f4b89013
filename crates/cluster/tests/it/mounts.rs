//! Real file systems that are full, read-only or broken: a clear error, nothing lost, and service
//! again once there is space.
//!
//! Each test mounts a small file system of its own; where the system does not let it, it says so on
//! standard error and passes.

#![allow(
    clippy::disallowed_methods,
    reason = "mounts, files beside the database and threads are what is tested here"
)]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use lazybase_cluster::{Instance, Settings, SettleTo};
use lazybase_engine::env::Env;
use lazybase_engine::env::local::LocalStore;
use lazybase_engine::manifest::ManifestStore;
use lazybase_model::{Error, ErrorKind, Freshness, Table};
use tempfile::TempDir;

use crate::harness::{Change, Row, close_whole, commit, create, fresh, open, scan, settings, spec};
use crate::skips::skip;

/// A file system of the test's own, until it is dropped.
struct Mount {
    folder: TempDir,
}

impl Mount {
    /// Memory as a file system.
    fn tmpfs(megabytes: u64) -> Option<Mount> {
        let size = format!("size={megabytes}m");
        Mount::new(|at| run("mount", &["-t", "tmpfs", "-o", &size, "lazybase", at]))
    }

    /// A file as a disk with ext4 on it.
    fn ext4(megabytes: u64) -> Option<Mount> {
        Mount::new(|at| {
            let image = format!("{at}.image");
            let disk = std::fs::File::create(&image).map_err(|error| error.to_string())?;
            disk.set_len(megabytes << 20)
                .map_err(|error| error.to_string())?;
            run("mkfs.ext4", &["-q", "-m", "0", &image])?;
            run("mount", &["-o", "loop", &image, at])
        })
    }

    fn new(mount: impl FnOnce(&str) -> Result<(), String>) -> Option<Mount> {
        let folder = tempfile::tempdir().unwrap();
        let made = Mount { folder };
        std::fs::create_dir(made.root()).unwrap();
        match mount(made.root().to_str().unwrap()) {
            Ok(()) => Some(made),
            Err(problem) => {
                skip(&format!("this system mounts nothing for tests: {problem}"));
                None
            }
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn database(&self) -> PathBuf {
        self.root().join("db")
    }

    fn ballast(&self) -> PathBuf {
        self.root().join("ballast")
    }

    fn remount(&self, how: &str) {
        let (option, root) = (format!("remount,{how}"), self.root());
        let with = ["-o", &option, root.to_str().unwrap()];
        // As below.
        wait_until("nobody writes its files", || run("mount", &with).is_ok());
    }

    /// Takes the file system away and mounts it again.
    fn again(&self) {
        let (root, image) = (self.root(), self.folder.path().join("root.image"));
        let (root, image) = (root.to_str().unwrap(), image.to_str().unwrap());
        // A process that another test begins has our files for a moment.
        wait_until("nobody has its files", || run("umount", &[root]).is_ok());
        run("mount", &["-o", "loop", image, root]).unwrap();
    }

    /// Writes until there is no byte left.
    fn fill(&self) {
        let mut options = std::fs::OpenOptions::new();
        let mut ballast = options
            .create(true)
            .append(true)
            .open(self.ballast())
            .unwrap();
        for bytes in [1 << 20, 64 << 10, 4 << 10, 512] {
            let part = vec![7_u8; bytes];
            while ballast.write_all(&part).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let root = self.root();
        // What still holds a file keeps a lazily unmounted file system until it ends.
        let _ = run("umount", &["-l", root.to_str().unwrap()]);
    }
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let said = Command::new(program)
        .args(args)
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    match said.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&said.stderr).trim().to_owned()),
    }
}

/// Small files, so that a small disk holds many.
fn small() -> Settings {
    Settings {
        seal_age: Duration::from_millis(50),
        retention: Duration::from_millis(100),
        sort_memory: 64 << 10,
        unsorted_memory: 64 << 10,
        merge_fan_in: 3,
        log_file_bytes: 1 << 20,
        ..settings()
    }
}

fn start(folder: &Path) -> Instance {
    open(Arc::new(LocalStore::open(folder).unwrap()), small()).unwrap()
}

/// Writers that go on whatever they are told, until stopped; but slowly: the disk is small, and a
/// merge of what they wrote must have room beside it.
struct Load {
    stop: AtomicBool,
    next: AtomicI64,
    acknowledged: Mutex<BTreeMap<i64, Row>>,
    refused: Mutex<Vec<Error>>,
}

impl Load {
    fn new() -> Arc<Load> {
        Arc::new(Load {
            stop: AtomicBool::new(false),
            next: AtomicI64::new(0),
            acknowledged: Mutex::default(),
            refused: Mutex::default(),
        })
    }

    /// Batches of two rows each, in keys that no batch before had.
    fn write(&self, instance: &Instance, table: &Arc<Table>) {
        while !self.stop.load(Ordering::SeqCst) {
            let key = self.next.fetch_add(2, Ordering::SeqCst);
            let rows = [row(key), row(key + 1)];
            let batch = rows.clone().map(Change::Upsert);
            match commit(instance, &[(table, &batch)]) {
                Ok(_) => {
                    let mut acknowledged = self.acknowledged.lock().unwrap();
                    acknowledged.extend(rows.map(|row| (row.0, row)));
                    drop(acknowledged);
                    thread::sleep(Duration::from_millis(2));
                }
                Err(error) => {
                    self.refused.lock().unwrap().push(error);
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }

    fn rows(&self) -> Vec<Row> {
        self.acknowledged
            .lock()
            .unwrap()
            .values()
            .cloned()
            .collect()
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    fn refusals(&self) -> usize {
        self.refused.lock().unwrap().len()
    }
}

/// A row of some kilobytes that no codec makes much smaller.
fn row(key: i64) -> Row {
    let mut bits = key as u64 + 1;
    let word = |_| {
        bits = bits.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        format!("{:016x}", bits ^ (bits >> 29))
    };
    (key, Some(key), Some((0..256).map(word).collect()))
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "{what}: not within a minute");
        thread::sleep(Duration::from_millis(10));
    }
}

fn all_rows(instance: &Instance, table: &Table) -> Vec<Row> {
    scan(&fresh(instance, Freshness::ZERO), table).unwrap()
}

/// Fills the disk under writers three times, and frees it again.
fn fill_and_free(mount: &Mount) {
    let instance = start(&mount.database());
    let table = create(&instance, "t");
    let load = Load::new();
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let (load, instance, table) = (load.clone(), instance.clone(), table.clone());
            thread::spawn(move || load.write(&instance, &table))
        })
        .collect();
    for cycle in 0..3 {
        let before = load.count();
        wait_until("writers begin", || load.count() > before + 20);
        let refused = load.refusals();
        wait_until("a full disk shows", || {
            mount.fill();
            load.refusals() > refused + 20
        });
        let sure = load.rows();
        let there: BTreeMap<i64, Row> = all_rows(&instance, &table)
            .into_iter()
            .map(|row| (row.0, row))
            .collect();
        assert!(sure.iter().all(|row| there.get(&row.0) == Some(row)));
        let definition = (cycle == 1).then(|| {
            let instance = instance.clone();
            thread::spawn(move || block_on(instance.create_table(spec("later", &["id"]), true)))
        });
        thread::sleep(Duration::from_millis(500));
        let before = load.count();
        mount.free();
        wait_until("service again", || load.count() > before + 20);
        if let Some(definition) = definition {
            // It waited, or it was refused: it does not hang, and is not done in part.
            let made = definition.join().unwrap();
            assert_eq!(made.is_ok(), instance.table("later").is_ok(), "{made:?}");
        }
    }
    load.stop.store(true, Ordering::SeqCst);
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    for error in load.refused.lock().unwrap().iter() {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.sqlstate(), "53100", "{error}");
        assert!(error.hint().is_some(), "{error}");
    }
    assert_eq!(all_rows(&instance, &table).len(), load.count());
    assert!(all_rows(&instance, &table) == load.rows());
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    close_whole(&instance);
    drop(instance);
    let instance = start(&mount.database());
    assert!(all_rows(&instance, &table) == load.rows());
    block_on(instance.close()).unwrap();
}

#[test]
fn a_full_memory_disk_refuses_and_serves_again() {
    if let Some(mount) = Mount::tmpfs(64) {
        fill_and_free(&mount);
    }
}

#[test]
fn a_full_ext4_disk_refuses_and_serves_again() {
    if let Some(mount) = Mount::ext4(96) {
        fill_and_free(&mount);
    }
}

/// A disk that is too full to open a database says so, and opens once there is space.
#[test]
fn a_full_disk_is_refused_at_opening_and_opens_later() {
    let Some(mount) = Mount::tmpfs(32) else {
        return;
    };
    let instance = start(&mount.database());
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &[Change::Upsert(row(1))])]).unwrap();
    block_on(instance.close()).unwrap();
    drop(instance);
    mount.fill();
    let store = Arc::new(LocalStore::open(&mount.database()).unwrap());
    // What it can do in the room of its own old files it does; the rest is an error that says why.
    let mut expected = vec![row(1)];
    match open(store, small()) {
        Ok(instance) => {
            assert_eq!(all_rows(&instance, &table), expected);
            match commit(&instance, &[(&table, &[Change::Upsert(row(2))])]) {
                Ok(_) => expected.push(row(2)),
                Err(error) => assert_eq!(error.sqlstate(), "53100", "{error}"),
            }
            block_on(instance.close()).unwrap();
        }
        Err(error) => assert_eq!(error.sqlstate(), "53100", "{error}"),
    }
    mount.free();
    let instance = start(&mount.database());
    assert_eq!(all_rows(&instance, &table), expected);
    commit(&instance, &[(&table, &[Change::Upsert(row(3))])]).unwrap();
    block_on(instance.close()).unwrap();
}

#[test]
fn a_file_system_that_turns_read_only_refuses_writers_and_serves_readers() {
    let Some(mount) = Mount::ext4(64) else {
        return;
    };
    let instance = start(&mount.database());
    let table = create(&instance, "t");
    let load = Load::new();
    let writer = {
        let (load, instance, table) = (load.clone(), instance.clone(), table.clone());
        thread::spawn(move || load.write(&instance, &table))
    };
    wait_until("writers begin", || load.count() > 50);
    // What the kernel does itself when a disk fails.
    mount.remount("abort");
    wait_until("writers are refused", || load.refusals() > 5);
    load.stop.store(true, Ordering::SeqCst);
    writer.join().unwrap();
    // A change of the catalogue does not wait for a disk that nobody may mend.
    let made = block_on(instance.create_table(spec("later", &["id"]), false));
    let error = made.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.sqlstate(), "53000", "{error}");
    let errors = load.refused.lock().unwrap();
    // Of the batch on its way it can't be told; all others are refused and the reason is named.
    let (doubtful, refused): (Vec<_>, Vec<_>) = errors
        .iter()
        .partition(|error| error.kind() == ErrorKind::MaybeHappened);
    assert!(doubtful.len() <= 1, "{doubtful:?}");
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(error.sqlstate(), "53000", "{error}");
        assert!(error.message().contains("Read-only"), "{error}");
    }
    assert!(all_rows(&instance, &table) == load.rows());
    // Closing may fail to write its last seal; it must end.
    let _ = block_on(instance.close());
    drop(instance);
    mount.again();
    let instance = start(&mount.database());
    let found = all_rows(&instance, &table);
    let there: BTreeMap<i64, Row> = found.iter().map(|row| (row.0, row.clone())).collect();
    assert!(load.rows().iter().all(|row| there.get(&row.0) == Some(row)));
    // The batch in doubt may be there, whole: nothing was acknowledged after it.
    let more = found.len() - load.count();
    assert!(more == 0 || (more == 2 && doubtful.len() == 1), "{more}");
    block_on(instance.close()).unwrap();
}

#[test]
fn a_read_only_file_system_is_refused_at_opening_and_can_be_inspected() {
    let Some(mount) = Mount::ext4(32) else {
        return;
    };
    let instance = start(&mount.database());
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &[Change::Upsert(row(1))])]).unwrap();
    block_on(instance.close()).unwrap();
    drop(instance);
    mount.remount("ro");
    let error = LocalStore::open(&mount.database()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let detail = error.detail().unwrap();
    assert!(detail.contains("Read-only"), "{error}: {detail}");
    let looker = LocalStore::open_read_only(&mount.database()).unwrap();
    let seen = block_on(ManifestStore::open_read_only(&Env::system(Arc::new(
        looker,
    ))))
    .unwrap();
    assert!(seen.current().table_named("t").is_some());
    mount.remount("rw");
    let instance = start(&mount.database());
    assert_eq!(all_rows(&instance, &table), [row(1)]);
    block_on(instance.close()).unwrap();
}
