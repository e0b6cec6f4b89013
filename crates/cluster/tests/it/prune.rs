//! Old backups go from a folder with the files that no other backup needs, and nothing else does:
//! not where the power goes at any moment, not where an operation fails, and no stranger's file.

#![allow(
    clippy::disallowed_methods,
    reason = "who prunes beside a verification is a thread of the machine's own, and so are folders"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures::executor::block_on;
use lazybase_cluster::{
    Instance, ListedBackup, PruneReport, PruneRequest, RestoreRequest, list_backups, open_to_prune,
    prune_backups, verify_backups,
};
use lazybase_engine::backup::Backup;
use lazybase_engine::env::Store;
use lazybase_engine::env::faults::{Fault, Faults, FaultyStore, Operation, Rule};
use lazybase_engine::env::local::LocalStore;
use lazybase_engine::env::memory::{MemoryStore, Unsynced};
use lazybase_model::{ErrorKind, Freshness, Result};

use crate::backup::{backup, flip, restored};
use crate::damage::files;
use crate::harness::{close_whole, commit, create, fresh, keeping, open, scan};
use crate::heal::batch;
use crate::model::Model;

/// Takes so many backups of a database: each has files of a table that only it has, and of one that
/// all have, whose rows come back too.
fn filled(target: &MemoryStore, backups: i64) -> (Instance, Model) {
    let instance = open(Arc::new(MemoryStore::without_history()), keeping()).unwrap();
    let shared = create(&instance, "t");
    let mut model = Model::default();
    for round in 0..backups {
        let name = format!("own_{round}");
        let own = create(&instance, &name);
        let batch = batch(round);
        commit(&instance, &[(&shared, &batch), (&own, &batch)]).unwrap();
        model.apply(&batch);
        backup(&instance, target).unwrap();
        block_on(instance.drop_table(&name, false)).unwrap();
    }
    (instance, model)
}

fn keep(keep: u64) -> PruneRequest {
    PruneRequest {
        keep: Some(keep),
        ..PruneRequest::default()
    }
}

fn prune(store: &dyn Store, request: PruneRequest) -> Result<PruneReport> {
    block_on(prune_backups(store, request))
}

fn numbers(listed: &[ListedBackup]) -> Vec<u64> {
    listed.iter().map(|listed| listed.number).collect()
}

fn sizes(store: &dyn Store) -> BTreeMap<String, u64> {
    block_on(store.list("")).unwrap().into_iter().collect()
}

/// Each backup that is there has all its files, as they were copied; the newest is this one.
fn check_whole(store: &dyn Store, newest: u64, context: &str) {
    let listed = block_on(list_backups(store)).unwrap();
    let last = listed.last().map(|listed| listed.number);
    assert_eq!(last, Some(newest), "{context}");
    let problems = block_on(verify_backups(store, None, &|_| {})).unwrap().2;
    assert_eq!(problems, Vec::<String>::new(), "{context}");
}

#[test]
fn what_no_other_backup_needs_goes_with_the_old_ones() {
    let target = MemoryStore::without_history();
    let (instance, model) = filled(&target, 4);
    block_on(instance.close()).unwrap();
    let strangers = ["backups/3.backup", "segments/notes.ext", "segments/old/a"];
    let left_over = "segments/0123456789abcdef0123456789abcdef.ext";
    for name in strangers.into_iter().chain([left_over]) {
        block_on(target.put_if_absent(name, "text".into())).unwrap();
    }
    let listed = block_on(list_backups(&target)).unwrap();
    assert!(listed.iter().all(|listed| listed.own_bytes > 0));
    let (before, request) = (sizes(&target), keep(2));
    let dry = PruneRequest {
        dry_run: true,
        ..request
    };
    let dry = prune(&target, dry).unwrap();
    assert_eq!(sizes(&target), before);
    let report = prune(&target, request).unwrap();
    let after = sizes(&target);
    for report in [&dry, &report] {
        assert_eq!(numbers(&report.removed), [1, 2]);
        assert_eq!(report.kept, [3, 4]);
        assert_eq!(report.notes, Vec::<String>::new());
        let total = |sizes: &BTreeMap<String, u64>| -> u64 { sizes.values().sum() };
        assert_eq!(report.files as usize, before.len() - after.len());
        assert_eq!(report.bytes, total(&before) - total(&after));
        assert_eq!(report.kept_bytes, total(&after) - 3 * 4);
        assert!(report.bytes > listed[0].own_bytes + listed[1].own_bytes);
    }
    let mut expected: BTreeSet<String> = strangers.map(str::to_owned).into();
    for kept in &listed[2..] {
        expected.insert(Backup::file_name(kept.number));
        expected.extend(kept.backup.as_ref().unwrap().files.keys().cloned());
    }
    assert_eq!(after.into_keys().collect::<BTreeSet<_>>(), expected);
    check_whole(&target, 4, "pruned");
    let again = prune(&target, request).unwrap();
    assert_eq!((again.files, again.removed.len()), (0, 0));
    let (store, report) = restored(&target, RestoreRequest::default()).unwrap();
    assert_eq!(report.number, 4);
    let instance = open(Arc::new(store), keeping()).unwrap();
    let shared = instance.table("t").unwrap();
    let rows = scan(&fresh(&instance, Freshness::ZERO), &shared).unwrap();
    assert_eq!(rows, model.rows());
    close_whole(&instance);
}

#[test]
fn backups_go_by_age_and_the_newest_stays_however_old() {
    let target = MemoryStore::without_history();
    let (instance, _) = filled(&target, 3);
    let taken = |number| {
        block_on(Backup::read(&target, number))
            .unwrap()
            .taken_micros
    };
    let since = |micros| PruneRequest {
        taken_from_micros: Some(micros),
        ..PruneRequest::default()
    };
    assert_eq!(prune(&target, since(taken(1))).unwrap().kept, [1, 2, 3]);
    assert_eq!(prune(&target, since(taken(1) + 1)).unwrap().kept, [2, 3]);
    assert_eq!(prune(&target, since(i64::MAX)).unwrap().kept, [3]);
    check_whole(&target, 3, "pruned");
    // Numbers are not given again.
    assert_eq!(backup(&instance, &target).unwrap().number, 4);
    check_whole(&target, 4, "the next one");
    block_on(instance.close()).unwrap();
}

#[test]
fn a_power_cut_at_any_moment_leaves_every_backup_whole() {
    let target = MemoryStore::new();
    let (instance, _) = filled(&target, 3);
    let begin = target.operations();
    prune(&target, keep(1)).unwrap();
    let pruned = files(&target, "");
    assert!(target.operations() > begin + 4);
    for cut in begin..=target.operations() {
        let seeds = (0..8).flat_map(|seed| [Unsynced::Prefix(seed), Unsynced::Scattered(seed)]);
        for unsynced in seeds.chain([Unsynced::Nothing, Unsynced::Everything]) {
            let last = target.describe(cut);
            let context = format!("{unsynced:?} after {cut}: {last:?}");
            let image = target.crash_image(cut, unsynced);
            check_whole(&image, 3, &context);
            prune(&image, keep(1)).unwrap();
            assert_eq!(files(&image, ""), pruned, "{context}");
        }
        // Nor does the next backup mind what was left.
        let image = target.crash_image(cut, Unsynced::Scattered(cut as u64));
        assert_eq!(backup(&instance, &image).unwrap().number, 4);
        check_whole(&image, 4, "the next one");
        prune(&image, keep(1)).unwrap();
        check_whole(&image, 4, "the next one, pruned");
    }
    block_on(instance.close()).unwrap();
}

#[test]
fn an_operation_that_fails_leaves_every_backup_whole() {
    let whole = MemoryStore::without_history();
    let (instance, _) = filled(&whole, 3);
    block_on(instance.close()).unwrap();
    let copy = || whole.after_crash(Unsynced::Everything);
    let pruned = copy();
    prune(&pruned, keep(1)).unwrap();
    let pruned = files(&pruned, "");
    let faults = [
        Fault::Refused { full: false },
        Fault::HappensAnyway,
        Fault::Lost,
    ];
    for operation in [Operation::Delete, Operation::Put] {
        for fault in faults {
            for nth in 1.. {
                let context = format!("{operation:?} {nth} {fault:?}");
                let (target, rules) = (copy(), Faults::none());
                rules.add(Rule::nth(operation, nth, fault));
                let store = FaultyStore::over(Arc::new(target.clone()), rules);
                let Err(error) = prune(&store, keep(1)) else {
                    assert!(nth > 1, "{context}");
                    break;
                };
                assert!(error.hint().unwrap().contains("once more"), "{error}");
                let check_cuts = |context: &str| {
                    for seed in 0..8 {
                        let image = target.after_crash(Unsynced::Scattered(seed));
                        check_whole(&image, 3, context);
                    }
                };
                check_cuts(&context);
                prune(&store, keep(1)).unwrap();
                check_cuts(&context);
                assert_eq!(files(&target, ""), pruned, "{context}");
            }
        }
    }
}

#[test]
fn a_backup_that_is_not_whole_counts_for_none() {
    let whole = MemoryStore::without_history();
    let (instance, _) = filled(&whole, 4);
    block_on(instance.close()).unwrap();
    let copy = || whole.after_crash(Unsynced::Everything);
    // What an unreadable backup needs is not known: while it stays, so does everything.
    let target = copy();
    flip(&target, &Backup::file_name(3));
    let before = sizes(&target);
    let refused = prune(&target, keep(2)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    assert!(refused.message().contains("backup 3"), "{refused}");
    assert_eq!(sizes(&target), before);
    let report = prune(&target, keep(1)).unwrap();
    assert_eq!((report.removed.len(), report.kept), (3, vec![4]));
    check_whole(&target, 4, "the unreadable one went with older ones");
    // The last one that can be restored is not given up for a newer one that can't.
    let target = copy();
    let listed = block_on(list_backups(&target)).unwrap();
    let named = |at: usize| listed[at].backup.as_ref().unwrap().files.keys();
    let own = named(3).find(|file| !named(2).any(|other| other == *file));
    let own = own.expect("the newest has a file of its own");
    block_on(target.delete(own)).unwrap();
    let report = prune(&target, keep(1)).unwrap();
    assert_eq!(report.kept, [3, 4]);
    let note = &report.notes[0];
    assert!(note.contains("backup 4") && note.contains(own), "{note}");
    let problems = block_on(verify_backups(&target, Some(3), &|_| {})).unwrap();
    assert_eq!(problems.2, Vec::<String>::new());
}

#[test]
fn who_verifies_misses_nothing_of_backups_that_go_meanwhile() {
    let target = MemoryStore::without_history();
    let (instance, _) = filled(&target, 3);
    block_on(instance.close()).unwrap();
    let is_pruned = AtomicBool::new(false);
    let prune_once = |_: f64| {
        if !is_pruned.swap(true, Ordering::Relaxed) {
            thread::scope(|scope| {
                let pruning = scope.spawn(|| prune(&target, keep(1)).unwrap());
                assert!(pruning.join().unwrap().files > 3);
            });
        }
    };
    let (_, _, problems) = block_on(verify_backups(&target, None, &prune_once)).unwrap();
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn only_a_folder_of_backups_that_nobody_has_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let opened = |folder: &Path, dry_run: bool| block_on(open_to_prune(folder, dry_run));
    for dry_run in [true, false] {
        assert_eq!(
            opened(&missing, dry_run).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(
            opened(folder.path(), dry_run).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }
    assert!(!missing.exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let store = LocalStore::open(folder.path()).unwrap();
    block_on(store.put_if_absent(&Backup::file_name(1), "text".into())).unwrap();
    for dry_run in [true, false] {
        let refused = opened(folder.path(), dry_run).unwrap_err();
        assert_eq!(refused.sqlstate(), "55006", "{refused}");
        assert!(refused.hint().unwrap().contains("another backup"));
    }
    drop(store);
    drop(opened(folder.path(), true).unwrap());
    drop(opened(folder.path(), false).unwrap());
    std::fs::create_dir(folder.path().join("manifest")).unwrap();
    let refused = opened(folder.path(), false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
}

#[test]
fn nothing_goes_of_a_folder_without_backups_or_of_a_database() {
    let empty = MemoryStore::without_history();
    let left_over = "segments/0123456789abcdef0123456789abcdef.ext";
    block_on(empty.put_if_absent(left_over, "text".into())).unwrap();
    let refused = prune(&empty, keep(1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    let database = MemoryStore::without_history();
    let (instance, _) = filled(&database, 1);
    block_on(instance.close()).unwrap();
    block_on(database.put_if_absent("manifest/1", "text".into())).unwrap();
    let before = sizes(&database);
    let refused = prune(&database, keep(1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!(sizes(&database), before);
    assert_eq!(files(&empty, ""), [left_over]);
}
