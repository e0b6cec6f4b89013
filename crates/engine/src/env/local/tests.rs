//! The local store in temporary folders: who may open it, what a killed writer leaves, and what
//! the system's errors become.
#![allow(clippy::disallowed_methods)]

use std::io;
use std::sync::Barrier;
use std::thread;

use futures::executor::block_on;
use lazybase_model::ErrorKind;
use tempfile::TempDir;

use super::*;
use crate::env::memory::Unsynced;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn names(store: &LocalStore) -> Vec<String> {
    let files = block_on(store.list("")).unwrap();
    files.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn conforms() {
    let folder = folder();
    let store = LocalStore::open(&folder.path().join("new/database")).unwrap();
    block_on(crate::env::conformance::check(&store));
}

#[test]
fn second_opener_is_told_the_owner() {
    let folder = folder();
    let root = folder.path();
    assert_eq!(LocalStore::owner(root).unwrap(), None);
    let store = LocalStore::open(root).unwrap();
    store.set_address("127.0.0.1:5432");

    let error = LocalStore::open(root).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let pid = std::process::id();
    let start = format!("folder {} is in use by process {pid} (", root.display());
    assert!(error.message().starts_with(&start), "{error}");
    let detail = error.detail().unwrap();
    assert!(detail.ends_with("which serves 127.0.0.1:5432"), "{error}");
    assert!(error.hint().unwrap().ends_with("--url 127.0.0.1:5432"));
    let owner = LocalStore::owner(root).unwrap().unwrap();
    assert_eq!(owner.pid, Some(pid));
    assert_eq!(owner.address.as_deref(), Some("127.0.0.1:5432"));

    // A writer keeps the folder; with the last of them it is free.
    let writer = block_on(store.create("a")).unwrap();
    drop(store);
    assert!(LocalStore::open(root).is_err());
    drop(writer);
    assert_eq!(LocalStore::owner(root).unwrap(), None);
    LocalStore::open(root).unwrap();
    assert!(!root.join("OWNER").exists());
}

#[test]
fn a_former_owner_s_name_keeps_nobody_out() {
    let folder = folder();
    fs::write(folder.path().join("OWNER"), "pid 1\nprogram gone\n").unwrap();
    fs::write(folder.path().join("LOCK"), "").unwrap();
    let store = LocalStore::open(folder.path()).unwrap();
    let owner = LocalStore::owner(folder.path()).unwrap().unwrap();
    assert_eq!(owner.pid, Some(std::process::id()));
    drop(store);
}

#[test]
fn reads_a_folder_in_use_without_writing() {
    let folder = folder();
    let missing = LocalStore::open_read_only(&folder.path().join("none")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);

    let store = LocalStore::open(folder.path()).unwrap();
    block_on(store.put_if_absent("a", Bytes::from_static(b"one"))).unwrap();
    let looker = LocalStore::open_read_only(folder.path()).unwrap();
    assert_eq!(block_on(looker.read("a", 0..3)).unwrap(), "one");
    assert_eq!(names(&looker), ["a"]);
    let refused = |result: StoreResult<()>| {
        assert!(matches!(
            result,
            Err(StoreError::DefinitelyNot { full: false, .. })
        ));
    };
    refused(block_on(looker.put_if_absent("b", Bytes::new())));
    refused(block_on(looker.create("b")).map(drop));
    refused(block_on(looker.create_log("b.log", 1, None)).map(drop));
    refused(block_on(looker.create_log("b.log", 1, Some("a"))).map(drop));
    refused(block_on(looker.delete("a")));
    looker.set_address("nowhere");
    drop(looker);
    assert!(folder.path().join("OWNER").exists());
}

#[test]
fn a_file_is_no_folder() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, "x").unwrap();
    assert_eq!(
        LocalStore::open(&path).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    let below = LocalStore::open(&path.join("below")).unwrap_err();
    assert_eq!(below.kind(), ErrorKind::Unavailable);
    let nameless = LocalStore::open_own(Path::new(""), &[], None).unwrap_err();
    assert_eq!(nameless.kind(), ErrorKind::Invalid, "{nameless}");
}

#[test]
fn a_lock_that_is_no_file_is_named() {
    let folder = folder();
    fs::create_dir(folder.path().join(name::LOCK_FILE)).unwrap();
    let error = LocalStore::open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let detail = error.detail().unwrap_or_default();
    assert!(detail.starts_with("LOCK: "), "{error}");
}

#[test]
fn one_of_many_puts_wins() {
    const WRITERS: usize = 8;
    let folder = folder();
    let store = LocalStore::open(folder.path()).unwrap();
    let start = Barrier::new(WRITERS);
    for round in 0..20 {
        let name = format!("race/{round}");
        let put = |writer: usize| {
            start.wait();
            let bytes = Bytes::from(vec![writer as u8; 10_000]);
            block_on(store.put_if_absent(&name, bytes)).is_ok()
        };
        let won: Vec<usize> = thread::scope(|scope| {
            let put = &put;
            let threads: Vec<_> = (0..WRITERS)
                .map(|writer| scope.spawn(move || put(writer)))
                .collect();
            let results = threads.into_iter().map(|thread| thread.join().unwrap());
            let winners = results.enumerate().filter(|(_, won)| *won);
            winners.map(|(writer, _)| writer).collect()
        });
        assert_eq!(won.len(), 1, "{name}");
        let found = block_on(store.read(&name, 0..10_000)).unwrap();
        assert!(
            found.iter().all(|byte| usize::from(*byte) == won[0]),
            "{name}"
        );
    }
    assert_eq!(names(&store).len(), 20);
}

#[test]
fn an_unfinished_writer_leaves_nothing() {
    let folder = folder();
    let store = LocalStore::open(folder.path()).unwrap();
    let mut writer = block_on(store.create("segments/a")).unwrap();
    block_on(writer.write(Bytes::from(vec![1; 2 << 20]))).unwrap();
    assert_eq!(
        fs::read_dir(folder.path().join("segments"))
            .unwrap()
            .count(),
        1
    );
    drop(writer);
    assert_eq!(
        fs::read_dir(folder.path().join("segments"))
            .unwrap()
            .count(),
        0
    );

    // A killed process drops nothing: the next opener does.
    let mut killed = block_on(store.create("segments/b")).unwrap();
    block_on(killed.write(Bytes::from_static(b"x"))).unwrap();
    std::mem::forget(killed);
    let root = folder.path().join("copy");
    fs::create_dir_all(root.join("segments")).unwrap();
    for entry in fs::read_dir(folder.path().join("segments")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), root.join("segments").join(entry.file_name())).unwrap();
    }
    assert_eq!(fs::read_dir(root.join("segments")).unwrap().count(), 1);
    let copy = LocalStore::open(&root).unwrap();
    assert_eq!(fs::read_dir(root.join("segments")).unwrap().count(), 0);
    assert!(names(&copy).is_empty());
}

#[test]
fn keeps_few_files_open() {
    let folder = folder();
    let store = LocalStore::open(folder.path()).unwrap();
    fs::create_dir(folder.path().join("many")).unwrap();
    for number in 0..3 * OPEN_FILES_MAX {
        let name = format!("many/{number}");
        fs::write(folder.path().join(&name), name.as_bytes()).unwrap();
        let read = block_on(store.read(&name, 0..name.len() as u64)).unwrap();
        assert_eq!(read, name.as_bytes());
    }
    assert!(store.0.handles.len() <= OPEN_FILES_MAX);
}

#[test]
fn tells_a_full_disk_from_a_refusal_and_from_doubt() {
    let full = io::Error::from(io::ErrorKind::StorageFull);
    let quota = io::Error::from(io::ErrorKind::QuotaExceeded);
    let denied = io::Error::from(io::ErrorKind::PermissionDenied);
    let broken = io::Error::other("the device is gone");
    let is_full = |error| matches!(error, StoreError::DefinitelyNot { full: true, .. });
    assert!(is_full(refused("a", "write", &full)));
    assert!(is_full(not_named("a", "link", &quota)));
    assert!(!is_full(refused("a", "create", &denied)));
    assert!(!is_full(not_named("a", "link", &denied)));
    let doubt = not_named("a", "link", &broken);
    assert!(matches!(doubt, StoreError::Maybe { .. }));
    assert_eq!(
        doubt.to_string(),
        "a: link: the device is gone (may have happened)"
    );
}

#[test]
fn the_system_s_own_full_disk_is_known() {
    // Where the system has such a device, its error is that of a full disk.
    if let Ok(full) = File::options().write(true).open("/dev/full") {
        let error = io::Write::write_all(&mut &full, b"x").unwrap_err();
        let error = refused("a", "write", &error);
        assert!(
            matches!(error, StoreError::DefinitelyNot { full: true, .. }),
            "{error}"
        );
    }
}

#[test]
fn few_files_are_kept_open_where_few_are_allowed() {
    let limits = "Limit   Soft Limit  Hard Limit  Units\n\
                  Max open files            64                   4096                 files     \n";
    assert_eq!(super::soft_limit(limits), Some(64));
    assert_eq!(
        super::soft_limit("Max open files   unlimited  unlimited  files"),
        None
    );
    assert_eq!(super::soft_limit(""), None);
    assert!(super::files_kept_open() >= super::OPEN_FILES_MIN);
}

#[test]
fn opening_removes_what_its_own_writers_left_and_nothing_else() {
    let (folder, elsewhere) = (folder(), folder());
    let root = folder.path();
    let write = |path: &Path| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    };
    let kept = [
        root.join("notes.tmp-1"),
        root.join("photos/a.tmp-1-2"),
        root.join("segments/report.tmp-final"),
        root.join("segments/.tmp-1-2"),
        root.join("segments/a.tmp-1-b"),
        elsewhere.path().join("b.tmp-1-2"),
    ];
    kept.iter().for_each(|path| write(path));
    std::os::unix::fs::symlink(elsewhere.path(), root.join("segments/link")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), root.join("link")).unwrap();
    let gone = [
        root.join("segments/a.tmp-77-0"),
        root.join("log/0.log.tmp-7-12"),
    ];
    gone.iter().for_each(|path| write(path));
    drop(LocalStore::open(root).unwrap());
    for path in &kept {
        assert!(path.exists(), "{}", path.display());
    }
    for path in &gone {
        assert!(!path.exists(), "{}", path.display());
    }
}

#[test]
fn a_folder_of_its_own_is_empty_or_known_and_apart_from_the_other() {
    let folder = folder();
    let database = folder.path().join("db");
    drop(LocalStore::open(&database).unwrap());
    let refuses = |root: &Path, what: &str| {
        let opened = LocalStore::open_own(root, &["backups"], Some(&database));
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.message().contains(what), "{what}: {error}");
    };
    let lies_in_it = format!(" lies in {}", database.canonicalize().unwrap().display());
    refuses(&database, " are one folder");
    refuses(folder.path(), "db lies in ");
    refuses(&database.join("segments/new/deep"), &lies_in_it);
    refuses(&database.join("../db/backups"), &lies_in_it);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&database, &link).unwrap();
    refuses(&link.join("below"), &lies_in_it);
    assert!(!database.join("segments").exists(), "nothing was made");

    let foreign = folder.path().join("foreign");
    fs::create_dir_all(foreign.join("photos")).unwrap();
    refuses(&foreign, "holds \"photos\", which does not belong there");
    assert!(!foreign.join("LOCK").exists(), "nothing was made");
    let another = folder.path().join("another");
    drop(LocalStore::open(&another).unwrap());
    fs::create_dir_all(another.join("manifest")).unwrap();
    refuses(&another.join("segments/backups"), " lies in ");
    let own = folder.path().join("own/deep");
    for _ in 0..2 {
        drop(LocalStore::open_own(&own, &["backups"], Some(&database)).unwrap());
        fs::create_dir_all(own.join("backups")).unwrap();
    }
}

#[test]
fn who_looks_is_told_the_owner_and_keeps_writers_out() {
    let folder = folder();
    let root = folder.path();
    let missing = LocalStore::open_to_look(&root.join("none")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let looker = LocalStore::open_to_look(root).unwrap();
    assert_eq!(fs::read_dir(root).unwrap().count(), 0, "nothing is written");
    drop(looker);
    let store = LocalStore::open(root).unwrap();
    let refused = LocalStore::open_to_look(root).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    let process = format!("process {}", std::process::id());
    assert!(refused.message().contains(&process), "{refused}");
    drop(store);
    let looker = LocalStore::open_to_look(root).unwrap();
    assert!(LocalStore::open(root).is_err());
    assert!(block_on(looker.put_if_absent("a", Bytes::new())).is_err());
    drop(looker);
    LocalStore::open(root).unwrap();
}

#[test]
fn a_log_that_the_system_refuses_to_open_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let store = LocalStore::open(folder.path()).unwrap();
    block_on(store.put_if_absent("log/a.log", Bytes::from_static(b"one"))).unwrap();
    drop(store);
    let path = folder.path().join("log/a.log");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    match LocalStore::open(folder.path()) {
        // Whoever may read everything is refused nothing.
        Ok(_) => assert!(fs::read(&path).is_ok()),
        Err(error) => {
            let detail = error.detail().unwrap_or_default();
            assert!(detail.starts_with("log/a.log: "), "{error}");
        }
    }
}

#[test]
fn a_file_that_can_t_be_read_gets_another_name() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let store = LocalStore::open(folder.path()).unwrap();
    block_on(store.put_if_absent("log/a.log", Bytes::from_static(b"one"))).unwrap();
    block_on(store.put_if_absent("log/b.log", Bytes::from_static(b"two"))).unwrap();
    let path = folder.path().join("log/a.log");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    block_on(store.rename("log/a.log", "set-aside/log/a.log.kept")).unwrap();
    let missing = block_on(store.rename("log/a.log", "set-aside/log/c.kept"));
    assert!(matches!(missing, Err(StoreError::NotFound(_))));
    let taken = block_on(store.rename("log/b.log", "set-aside/log/a.log.kept"));
    assert!(matches!(taken, Err(StoreError::AlreadyExists(_))));
    assert_eq!(names(&store), ["log/b.log", "set-aside/log/a.log.kept"]);
}

/// A store in a folder whose calls are recorded.
fn recorded(folder: &TempDir) -> (LocalStore, DiskRecord) {
    let base = folder.path().canonicalize().unwrap();
    let record = DiskRecord::below(&base);
    let store = LocalStore::open_recorded(&base.join("db"), &record).unwrap();
    (store, record)
}

/// Whoever is told that a name is taken goes on from what is there: so it lasts.
#[test]
fn a_name_that_is_taken_lasts_before_it_is_said_to_be() {
    const AGAIN: [fn(&LocalStore) -> StoreResult<()>; 2] = [
        |store| block_on(store.put_if_absent("set-aside/a", Bytes::new())),
        |store| block_on(store.rename("log/b.log", "set-aside/a")),
    ];
    for (kind, lasts) in [
        (io::ErrorKind::StorageFull, true),
        (io::ErrorKind::ReadOnlyFilesystem, false),
    ] {
        for again in AGAIN {
            let folder = folder();
            let (store, record) = recorded(&folder);
            let put = |name| block_on(store.put_if_absent(name, Bytes::from_static(b"one")));
            put("log/b.log").unwrap();
            record.refuse_sync(kind, |name| name == "db/set-aside");
            let first = put("set-aside/a");
            assert!(matches!(first, Err(StoreError::Maybe { .. })), "{first:?}");
            let second = again(&store);
            let is_told = matches!(second, Err(StoreError::AlreadyExists(_)));
            assert!(second.is_err() && is_told == lasts, "{kind:?}: {second:?}");
            let read = block_on(store.read("set-aside/a", 0..3));
            assert_eq!(read.unwrap(), "one", "readers are served");
            assert_eq!(store.failed_sync().is_none(), lasts);
            let mut disk = record.replay();
            disk.go_to(record.calls());
            let left = disk.image(Unsynced::Nothing, Unsynced::Nothing);
            assert_eq!(left.files().contains_key("db/set-aside/a"), lasts);
        }
    }
}

#[test]
fn a_failed_sync_is_told_by_the_name_of_its_file() {
    type Work = fn(&LocalStore) -> StoreResult<()>;
    let put: Work = |store| block_on(store.put_if_absent("segments/a", Bytes::new()));
    let sync: Work = |store| {
        block_on(async {
            drop(store.create_log("log/1.log", 100, None).await?);
            let recycled = store.create_log("log/2.log", 100, Some("log/1.log"));
            recycled.await?.sync().await
        })
    };
    for (work, refused, told) in [
        (put, "db/segments/a.tmp-", "segments/a"),
        (put, "db/segments", "segments"),
        (put, "db", "the folder itself"),
        (sync, "db/log/1.log.tmp-", "log/1.log"),
        (sync, "db/log/2.log", "log/2.log"),
    ] {
        let folder = folder();
        let (store, record) = recorded(&folder);
        // What is unfinished has a number behind it.
        let is_meant = move |name: &str| match refused.ends_with('-') {
            true => name.starts_with(refused),
            false => name == refused,
        };
        record.refuse_sync(io::ErrorKind::ReadOnlyFilesystem, is_meant);
        assert_eq!(store.failed_sync(), None);
        assert!(work(&store).is_err(), "{refused}");
        assert!(!record.is_refusing(), "{refused}");
        let failed = store.failed_sync().unwrap();
        assert_eq!(failed.name, told);
        assert!(failed.reason.contains("read-only"), "{failed}");
        assert!(failed.micros > 1_500_000_000_000_000, "{failed}");
        assert!(block_on(store.put_if_absent("other/b", Bytes::new())).is_err());
        assert_eq!(store.failed_sync(), Some(failed), "the first one is told");
        drop(store);
        let again = LocalStore::open(&folder.path().join("db")).unwrap();
        assert_eq!(again.failed_sync(), None);
        block_on(again.put_if_absent("other/b", Bytes::new())).unwrap();
    }
}

/// A copy of a folder may have left out what was zero. Space that is not there yet is the file
/// system's journal's to keep, which has said of syncs that all went well when nothing did.
#[test]
fn a_log_with_holes_is_given_its_space_before_it_is_used_again() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    const BYTES: u64 = 1 << 20;
    let folder = folder();
    let store = LocalStore::open(folder.path()).unwrap();
    let path = |name: &str| folder.path().join(name);
    let space = |name: &str| fs::metadata(path(name)).unwrap().blocks() * 512;
    drop(block_on(store.create_log("log/1.log", BYTES, None)).unwrap());
    if space("log/1.log") < BYTES {
        eprintln!("SKIPPED: holes: this file system does not tell of them");
        return;
    }
    let sparse = fs::File::create(path("log/2.log")).unwrap();
    sparse.set_len(BYTES / 2).unwrap();
    sparse.write_all_at(b"frames", 70_000).unwrap();
    assert!(space("log/2.log") < BYTES / 4);
    drop(block_on(store.create_log("log/3.log", BYTES, Some("log/2.log"))).unwrap());
    assert!(space("log/3.log") >= BYTES);
    let bytes = fs::read(path("log/3.log")).unwrap();
    assert_eq!(bytes.len() as u64, BYTES);
    assert_eq!(&bytes[70_000..70_006], b"frames");
    assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 6);
}
