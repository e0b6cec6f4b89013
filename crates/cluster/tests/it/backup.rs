//! Backups that are taken while writers run, restored at every boundary they reach; damage in them
//! is named; a crash in the middle of either leaves nothing that could be mistaken for a whole.

#![allow(
    clippy::disallowed_methods,
    reason = "writers beside a backup are threads of the machine's own"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use arrow::datatypes::DataType;
use futures::executor::block_on;
use lazybase_cluster::{
    AsOf, BackupReport, BatchNumber, Instance, RestoreReport, RestoreRequest, SettleTo, StageName,
    list_backups, restore, verify_backups,
};
use lazybase_engine::env::faults::{Faults, FaultyStore};
use lazybase_engine::env::memory::{MemoryStore, Unsynced};
use lazybase_engine::env::{Env, Store};
use lazybase_engine::schema::Alteration;
use lazybase_model::{Column, ErrorKind, Freshness, Horizon, Result, ScuNumber, Table};

use crate::damage::{Harm, files, harm_file};
use crate::harness::{
    Change, at, changes, close_whole, commit, create, fresh, keeping, open, pause, scan,
};
use crate::heal::{batch, create_view, entries, shown};
use crate::model::Model;

fn env(store: &MemoryStore) -> Env {
    Env::system(Arc::new(store.clone()) as Arc<dyn Store>)
}

pub(crate) fn backup(instance: &Instance, target: &MemoryStore) -> Result<BackupReport> {
    block_on(instance.backup(&env(target), &|_| {}))
}

pub(crate) fn restored(
    backups: &dyn Store,
    request: RestoreRequest,
) -> Result<(MemoryStore, RestoreReport)> {
    let target = MemoryStore::without_history();
    let report = block_on(restore(backups, &env(&target), request, &|_| {}))?;
    Ok((target, report))
}

fn as_of(scu: ScuNumber) -> RestoreRequest {
    RestoreRequest {
        at: Some(AsOf::Scu(scu)),
        ..RestoreRequest::default()
    }
}

/// Every batch with where it stands.
type Written = Vec<(Horizon, Vec<Change>)>;

/// The model at the end of an SCU.
fn model_at(written: &Written, scu: ScuNumber) -> Model {
    let mut model = Model::default();
    let end = Horizon::end_of(scu);
    let counted = written.iter().filter(|(horizon, _)| *horizon <= end);
    counted.for_each(|(_, batch)| model.apply(batch));
    model
}

#[test]
fn backups_of_a_database_that_is_written_equal_the_model_at_every_boundary() {
    let source = MemoryStore::without_history();
    let target = MemoryStore::without_history();
    let instance = open(Arc::new(source), keeping()).unwrap();
    let (t, u) = (create(&instance, "t"), create(&instance, "u"));
    let view = create_view(&instance, &t);
    let (stop, committed) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut written, reports) = thread::scope(|scope| {
        let writer = |first: i64| {
            let (instance, t, u, stop, committed) = (&instance, &t, &u, &stop, &committed);
            move || {
                let mut written = Written::new();
                let mut round = first;
                while !stop.load(Ordering::Relaxed) {
                    let batch = batch(round);
                    let horizon = commit(instance, &[(t, &batch), (u, &batch)]).unwrap();
                    written.push((horizon, batch));
                    committed.fetch_add(1, Ordering::SeqCst);
                    round += 2;
                    thread::sleep(Duration::from_millis(2));
                }
                written
            }
        };
        let writers = [scope.spawn(writer(0)), scope.spawn(writer(1))];
        let mut reports = Vec::new();
        for round in 0..5 {
            match round {
                1 => pause(&instance, &[StageName::Merge, StageName::Authority]),
                3 => pause(&instance, &[StageName::Authority]),
                4 => {
                    pause(&instance, &[]);
                    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
                }
                _ => {}
            }
            for _ in 0..3 {
                let before = committed.load(Ordering::SeqCst);
                thread::sleep(Duration::from_millis(15));
                while committed.load(Ordering::SeqCst) == before {
                    thread::sleep(Duration::from_millis(1));
                }
                block_on(instance.seal()).unwrap();
            }
            reports.push(backup(&instance, &target).unwrap());
        }
        stop.store(true, Ordering::Relaxed);
        let mut written = Written::new();
        for writer in writers {
            written.extend(writer.join().unwrap());
        }
        (written, reports)
    });
    written.sort_by_key(|(horizon, _)| *horizon);
    assert!(
        reports
            .windows(2)
            .all(|pair| pair[0].newest < pair[1].newest)
    );
    assert!(
        reports[1..]
            .iter()
            .any(|report| report.copied_files < report.files)
    );
    block_on(instance.close()).unwrap();
    let (count, _, problems) = block_on(verify_backups(&target, None, &|_| {})).unwrap();
    assert!(count > 5 && problems.is_empty(), "{problems:?}");
    for report in &reports {
        let request = RestoreRequest {
            number: Some(report.number),
            ..RestoreRequest::default()
        };
        let (store, restored) = restored(&target, request).unwrap();
        assert_eq!(restored.horizon, report.newest);
        check_restored(&store, &written, report.newest, (&t, &u, &view));
    }
    let (oldest, newest) = (reports[0].oldest, reports[4].newest);
    for scu in oldest.0..=newest.0 {
        let scu = ScuNumber(scu);
        match restored(&target, as_of(scu)) {
            Ok((store, report)) => {
                assert_eq!(report.horizon, scu);
                check_restored(&store, &written, scu, (&t, &u, &view));
            }
            // Each backup reaches back to the first SCU, so there is no gap.
            Err(error) => panic!("SCU {scu} of {reports:?}: {error}"),
        }
    }
    let beyond = restored(&target, as_of(newest.next())).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::NotFound, "{beyond}");
}

#[test]
fn what_was_written_while_files_were_copied_is_in_no_time_of_that_backup() {
    let target = MemoryStore::without_history();
    let instance = open(Arc::new(MemoryStore::without_history()), keeping()).unwrap();
    let t = create(&instance, "t");
    commit(&instance, &[(&t, &batch(0))]).unwrap();
    let times = Mutex::new(Vec::new());
    let write = |_: f64| {
        let mut times = times.lock().unwrap();
        if times.is_empty() {
            thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    commit(&instance, &[(&t, &batch(1))]).unwrap();
                    block_on(instance.seal()).unwrap();
                    thread::sleep(Duration::from_millis(5));
                });
                writer.join().unwrap();
            });
            times.push(instance.now_micros());
        }
    };
    let first = block_on(instance.backup(&env(&target), &write)).unwrap();
    let second = backup(&instance, &target).unwrap();
    block_on(instance.close()).unwrap();
    let micros = times.lock().unwrap()[0];
    let request = RestoreRequest {
        at: Some(AsOf::Timestamp { micros }),
        ..RestoreRequest::default()
    };
    let (store, report) = restored(&target, request).unwrap();
    assert_eq!(
        report.number, second.number,
        "{first:?} {second:?} {report:?}"
    );
    let instance = open(Arc::new(store), keeping()).unwrap();
    let mut model = Model::default();
    model.apply(&batch(0));
    model.apply(&batch(1));
    let rows = scan(&fresh(&instance, Freshness::ZERO), &t).unwrap();
    assert_eq!(rows, model.rows());
    block_on(instance.close()).unwrap();
}

/// Opens what was restored, compares it with the model, writes to it, and lets it settle.
fn check_restored(
    store: &MemoryStore,
    written: &Written,
    scu: ScuNumber,
    (t, u, view): (&Arc<Table>, &Arc<Table>, &Table),
) {
    let instance = open(Arc::new(store.clone()), keeping()).unwrap();
    let mut model = model_at(written, scu);
    let check = |instance: &Instance, model: &Model, context: &str| {
        for freshness in [Freshness::ZERO, Freshness::BestEffort] {
            let snapshot = fresh(instance, freshness);
            // Best effort may stand further back.
            let older = model_at(written, snapshot.horizon().scu);
            let model = match snapshot.horizon().scu < scu {
                true => &older,
                false => model,
            };
            for table in [t, u] {
                let rows = scan(&snapshot, table).unwrap();
                assert_eq!(rows, model.rows(), "SCU {scu}, {context}");
            }
            if let Some(shown) = shown(&snapshot, view).unwrap() {
                assert_eq!(shown, entries(model), "SCU {scu}, {context}");
            }
        }
    };
    check(&instance, &model, "restored");
    commit(&instance, &[(t, &batch(77)), (u, &batch(77))]).unwrap();
    model.apply(&batch(77));
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    check(&instance, &model, "settled");
    close_whole(&instance);
}

#[test]
fn restored_to_an_earlier_scu_tables_are_as_they_were() {
    let source = MemoryStore::without_history();
    let target = MemoryStore::without_history();
    let instance = open(Arc::new(source), keeping()).unwrap();
    let t = create(&instance, "t");
    let settle = || block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    commit(&instance, &[(&t, &batch(0))]).unwrap();
    settle();
    let before = instance.manifest().sealed_through;
    let added = Alteration::AddColumn(Column::new("more", DataType::Int64));
    block_on(instance.alter_table("t", &[added])).unwrap();
    let late = create(&instance, "late");
    commit(&instance, &[(&late, &batch(1))]).unwrap();
    block_on(instance.truncate_table("t")).unwrap();
    settle();
    commit(&instance, &[(&late, &batch(2))]).unwrap();
    settle();
    let report = backup(&instance, &target).unwrap();
    block_on(instance.close()).unwrap();
    assert!(report.oldest <= before, "{report:?}");
    let (store, _) = restored(&target, as_of(before)).unwrap();
    let instance = open(Arc::new(store), keeping()).unwrap();
    let mut model = Model::default();
    model.apply(&batch(0));
    assert_eq!(instance.table("t").unwrap().columns.len(), 3);
    assert!(instance.table("late").is_err());
    let rows = scan(&fresh(&instance, Freshness::ZERO), &t).unwrap();
    assert_eq!(rows, model.rows());
    // A name that came later is free again, and so is everything else.
    let late = create(&instance, "late");
    commit(&instance, &[(&late, &batch(3)), (&t, &batch(3))]).unwrap();
    model.apply(&batch(3));
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let rows = scan(&fresh(&instance, Freshness::ZERO), &t).unwrap();
    assert_eq!(rows, model.rows());
    close_whole(&instance);
    // The newest state is as it was left.
    let (store, _) = restored(&target, RestoreRequest::default()).unwrap();
    let instance = open(Arc::new(store), keeping()).unwrap();
    let t = instance.table("t").unwrap();
    assert_eq!(t.columns.len(), 4);
    assert!(
        scan(&fresh(&instance, Freshness::ZERO), &t)
            .unwrap()
            .is_empty()
    );
    // And what is kept of the past can still be asked for.
    let past = at(&instance, before).unwrap();
    let mut model = Model::default();
    model.apply(&batch(0));
    assert_eq!(scan(&past, &t).unwrap(), model.rows());
    close_whole(&instance);
}

fn upload(instance: &Instance, table: &Arc<Table>, epoch: u64, number: u64) -> Result<bool> {
    block_on(async {
        let number = BatchNumber {
            name: "p".to_owned(),
            epoch,
            number,
        };
        let mut writer = instance.begin(Some(number.clone()));
        let batch = batch(number.number as i64);
        writer.append(table, changes(table, &batch)).await?;
        writer.commit().await.map(|done| done.duplicate)
    })
}

#[test]
fn producers_marks_are_those_of_the_backup_and_never_guessed() {
    let target = MemoryStore::without_history();
    let instance = open(Arc::new(MemoryStore::without_history()), keeping()).unwrap();
    let t = create(&instance, "t");
    let (epoch, _) = block_on(instance.open_producer("p")).unwrap();
    for number in 1..4 {
        upload(&instance, &t, epoch, number).unwrap();
        block_on(instance.seal()).unwrap();
    }
    let first = backup(&instance, &target).unwrap();
    upload(&instance, &t, epoch, 4).unwrap();
    let second = backup(&instance, &target).unwrap();
    block_on(instance.close()).unwrap();
    let mark = |store: MemoryStore| {
        let instance = open(Arc::new(store), keeping()).unwrap();
        let (epoch, mark) = block_on(instance.open_producer("p")).unwrap();
        let mark = mark.map(|mark| mark.number);
        if mark == Some(4) {
            assert!(
                upload(&instance, &t, epoch, 4).unwrap(),
                "it is a duplicate"
            );
        }
        block_on(instance.close()).unwrap();
        mark
    };
    let newest = restored(&target, RestoreRequest::default()).unwrap().0;
    assert_eq!(mark(newest), Some(4));
    // At the end of the first backup its own mark is known.
    let (store, report) = restored(&target, as_of(first.newest)).unwrap();
    assert_eq!((mark(store), report.number), (Some(3), first.number));
    let between = ScuNumber(first.newest.0 - 1);
    let refused = restored(&target, as_of(between)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.message().contains("\"p\""), "{refused}");
    let forget = RestoreRequest {
        forget_producers: true,
        ..as_of(between)
    };
    let (store, report) = restored(&target, forget).unwrap();
    assert_eq!(report.forgotten, ["p"]);
    assert_eq!(mark(store), None);
    assert!(second.newest > first.newest);
}

#[test]
fn a_damaged_backup_is_refused_by_name() {
    let memory = MemoryStore::without_history();
    let instance = open(Arc::new(MemoryStore::without_history()), keeping()).unwrap();
    let t = create(&instance, "t");
    for round in 0..3 {
        commit(&instance, &[(&t, &batch(round))]).unwrap();
        backup(&instance, &memory).unwrap();
    }
    let other = open(Arc::new(MemoryStore::without_history()), keeping()).unwrap();
    let foreign = backup(&other, &memory).unwrap_err();
    assert_eq!(foreign.kind(), ErrorKind::Conflict, "{foreign}");
    block_on(other.close()).unwrap();
    block_on(instance.close()).unwrap();
    let listed = block_on(list_backups(&memory)).unwrap();
    let newest = listed.last().unwrap().backup.clone().unwrap();
    let harms = [
        Harm::Flip { tenths: 1 },
        Harm::Flip { tenths: 9 },
        Harm::Truncate,
        Harm::Delete,
    ];
    let mut refused = 0;
    for file in files(&memory, "") {
        for harm in harms {
            let copy = MemoryStore::new();
            let names = files(&memory, "");
            block_on(async {
                for name in names {
                    let length = memory.len(&name).await.unwrap();
                    let bytes = memory.read(&name, 0..length).await.unwrap();
                    copy.put_if_absent(&name, bytes).await.unwrap();
                }
            });
            let faults = Faults::none();
            harm_file(&copy, &faults, &file, harm);
            let store = FaultyStore::over(Arc::new(copy), faults);
            let needed = newest.files.contains_key(&file);
            let own = file == lazybase_engine::backup::Backup::file_name(newest.number);
            let restored = restored(
                &store,
                RestoreRequest {
                    number: Some(newest.number),
                    ..RestoreRequest::default()
                },
            );
            if needed || own {
                let error = restored.unwrap_err();
                let gone = own && matches!(harm, Harm::Delete);
                let said = error.to_string();
                assert!(
                    gone || said.contains(&file) && (own || said.contains("backup 3")),
                    "{file} {harm:?}: {error}"
                );
                refused += 1;
            } else {
                restored.unwrap();
            }
            let (_, _, problems) = block_on(verify_backups(&store, None, &|_| {})).unwrap();
            let gone = file.starts_with("backups/") && matches!(harm, Harm::Delete);
            assert!(
                gone || problems.iter().any(|problem| problem.contains(&file)),
                "{file} {harm:?}: {problems:?}"
            );
        }
    }
    assert!(refused > 4);
}

#[test]
fn a_crash_in_a_backup_or_a_restore_leaves_nothing_half() {
    let instance = open(Arc::new(MemoryStore::without_history()), keeping()).unwrap();
    let t = create(&instance, "t");
    let target = MemoryStore::new();
    let mut models = Vec::new();
    let mut model = Model::default();
    for round in 0..3 {
        commit(&instance, &[(&t, &batch(round))]).unwrap();
        model.apply(&batch(round));
        let report = backup(&instance, &target).unwrap();
        models.push((report.number, model.clone()));
    }
    for cut in 0..=target.operations() {
        for unsynced in [Unsynced::Nothing, Unsynced::Everything] {
            let image = target.crash_image(cut, unsynced);
            for listed in block_on(list_backups(&image)).unwrap() {
                let backup = listed.backup.unwrap();
                let (files, _, problems) =
                    block_on(verify_backups(&image, Some(backup.number), &|_| {})).unwrap();
                assert!(files > 0 && problems.is_empty(), "{cut}: {problems:?}");
            }
            // The next one makes use of what is there.
            if cut % 3 == 0 {
                let image = image.after_crash(Unsynced::Everything);
                let report = backup(&instance, &image).unwrap();
                let problems = block_on(verify_backups(&image, None, &|_| {})).unwrap().2;
                assert!(problems.is_empty(), "{cut}: {problems:?}");
                assert!(report.number <= 4);
            }
        }
    }
    block_on(instance.close()).unwrap();
    let made = MemoryStore::new();
    let request = RestoreRequest::default();
    block_on(restore(&target, &env(&made), request, &|_| {})).unwrap();
    for cut in 0..=made.operations() {
        let image = made.crash_image(cut, Unsynced::Everything);
        let has_files = !files(&image, "segments/").is_empty();
        let again = block_on(restore(&target, &env(&image), request, &|_| {}));
        assert_eq!(again.is_err(), has_files, "after operation {cut}");
        let image = made.crash_image(cut, Unsynced::Everything);
        match open(Arc::new(image), keeping()) {
            Ok(instance) => {
                let has_table = instance.table("t").is_ok();
                assert!(has_table || !has_files, "after operation {cut}");
                if has_table {
                    let rows = scan(&fresh(&instance, Freshness::ZERO), &t).unwrap();
                    assert_eq!(rows, model.rows());
                }
                block_on(instance.close()).unwrap();
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{cut}: {error}");
                assert!(error.message().contains("broke off"), "{cut}: {error}");
            }
        }
    }
    assert!(!files(&made, "segments/").contains(&lazybase_engine::backup::RESTORE_MARK.to_owned()));
}

/// Flips a bit in the middle of a file.
pub(crate) fn flip(store: &MemoryStore, file: &str) {
    let length = block_on(store.len(file)).unwrap();
    flip_at(store, file, length as usize / 2);
}

fn flip_at(store: &MemoryStore, file: &str, byte: usize) {
    block_on(async {
        let length = store.len(file).await.unwrap();
        let mut bytes = store.read(file, 0..length).await.unwrap().to_vec();
        bytes[byte] ^= 4;
        store.delete(file).await.unwrap();
        store.put_if_absent(file, bytes.into()).await.unwrap();
    });
}

#[test]
fn what_rotted_in_the_folder_is_copied_again_by_the_next_backup() {
    let target = MemoryStore::without_history();
    let instance = open(Arc::new(MemoryStore::without_history()), keeping()).unwrap();
    let t = create(&instance, "t");
    let mut model = Model::default();
    for round in 0..3 {
        commit(&instance, &[(&t, &batch(round))]).unwrap();
        model.apply(&batch(round));
        let report = backup(&instance, &target).unwrap();
        assert_eq!(report.notes, Vec::<String>::new());
    }
    let segments = files(&target, "segments/");
    flip(&target, &segments[0]);
    block_on(target.delete(&segments[1])).unwrap();
    flip(&target, "backups/00000002.backup");
    commit(&instance, &[(&t, &batch(5))]).unwrap();
    model.apply(&batch(5));
    let report = backup(&instance, &target).unwrap();
    assert_eq!(report.number, 4, "the others are worth keeping");
    for what in [segments[0].as_str(), segments[1].as_str(), "backup 2"] {
        let is_told = report.notes.iter().any(|note| note.contains(what));
        assert!(is_told, "{what}: {report:?}");
    }
    block_on(instance.close()).unwrap();
    for number in [1, 3, 4] {
        let problems = block_on(verify_backups(&target, Some(number), &|_| {}))
            .unwrap()
            .2;
        assert!(problems.is_empty(), "{number}: {problems:?}");
    }
    // What cannot be read is passed over where another one reaches the point.
    let (store, restored_as) = restored(&target, as_of(report.newest)).unwrap();
    assert_eq!(restored_as.number, 4);
    let instance = open(Arc::new(store), keeping()).unwrap();
    let rows = scan(&fresh(&instance, Freshness::ZERO), &t).unwrap();
    assert_eq!(rows, model.rows());
    close_whole(&instance);
    let asked = RestoreRequest {
        number: Some(2),
        ..RestoreRequest::default()
    };
    let refused = restored(&target, asked).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
}

#[test]
fn what_earlier_backups_alone_need_is_read_and_told_where_it_rotted() {
    let target = MemoryStore::without_history();
    let nothing = block_on(verify_backups(&target, None, &|_| {})).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::NotFound, "{nothing}");
    let store = Arc::new(MemoryStore::without_history());
    let instance = open(store, crate::harness::settings()).unwrap();
    let t = create(&instance, "t");
    for round in 0..2 {
        commit(&instance, &[(&t, &batch(round))]).unwrap();
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        crate::damage::wait_for(&instance, "everything to be retired", |instance| {
            let manifest = instance.manifest();
            manifest.runs.len() == 1 && manifest.scus.is_empty()
        });
        let report = backup(&instance, &target).unwrap();
        assert_eq!(report.notes, Vec::<String>::new());
    }
    let manifest = instance.manifest();
    let segments = manifest.runs.values().flat_map(|run| &run.segments);
    let named: Vec<&str> = segments.map(|segment| segment.file.as_str()).collect();
    let mut old = files(&target, "segments/");
    old.retain(|file| !named.contains(&file.as_str()));
    let rotten = old.first().expect("the first backup has files of its own");
    flip(&target, rotten);
    let report = backup(&instance, &target).unwrap();
    let told = |note: &String| note.contains(rotten) && note.contains("earlier backups");
    assert!(report.notes.iter().any(told), "{report:?}");
    block_on(instance.close()).unwrap();
    for (number, is_whole) in [(1, false), (2, true), (3, true)] {
        let verified = block_on(verify_backups(&target, Some(number), &|_| {}));
        let problems = verified.unwrap().2;
        assert_eq!(problems.is_empty(), is_whole, "{number}: {problems:?}");
    }
    let first = RestoreRequest {
        number: Some(1),
        ..RestoreRequest::default()
    };
    let refused = restored(&target, first).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    let message = refused.message();
    assert!(
        message.contains("backup 1") && message.contains(rotten),
        "{refused}"
    );
}

#[test]
fn a_table_whose_rows_are_lost_is_left_out_when_that_is_said_and_blocks_no_other() {
    let (source, target) = (
        MemoryStore::without_history(),
        MemoryStore::without_history(),
    );
    let forgetful = crate::harness::settings();
    let instance = open(Arc::new(source.clone()), forgetful.clone()).unwrap();
    let (t, u) = (create(&instance, "t"), create(&instance, "u"));
    create_view(&instance, &t);
    commit(&instance, &[(&t, &batch(0)), (&u, &batch(0))]).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    crate::damage::wait_for(&instance, "everything to be retired", |instance| {
        let manifest = instance.manifest();
        manifest.runs.len() == 3 && manifest.scus.is_empty()
    });
    let lost = crate::heal::files_of(&instance, &t, lazybase_engine::manifest::RunKind::Base);
    block_on(instance.close()).unwrap();
    flip(&source, &lost[0]);
    let instance = open(Arc::new(source.clone()), forgetful).unwrap();
    for _ in 0..2 {
        let refused = backup(&instance, &target).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        let hint = refused.hint().unwrap_or_default();
        assert!(hint.contains("--without \"t\""), "{refused}: {hint}");
    }
    let without = ["t".to_owned()];
    let taken = block_on(instance.backup_without(&env(&target), &without, &|_| {})).unwrap();
    assert!(
        taken.notes.iter().any(|note| note.contains("\"t\"")),
        "{taken:?}"
    );
    let unknown = block_on(instance.backup_without(&env(&target), &["x".to_owned()], &|_| {}));
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::NotFound);
    block_on(instance.close()).unwrap();
    let (store, _) = restored(&target, RestoreRequest::default()).unwrap();
    let instance = open(Arc::new(store), keeping()).unwrap();
    assert!(instance.table("t").is_err() && instance.manifest().views.is_empty());
    let mut model = Model::default();
    model.apply(&batch(0));
    let rows = scan(&fresh(&instance, Freshness::ZERO), &u).unwrap();
    assert_eq!(rows, model.rows());
    close_whole(&instance);
}

#[test]
fn a_folder_that_another_backup_goes_into_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let instance = open(Arc::new(MemoryStore::without_history()), keeping()).unwrap();
    let first = instance.open_backups(folder.path()).unwrap();
    let refused = instance.open_backups(folder.path()).err().unwrap();
    assert_eq!(refused.sqlstate(), "55006", "{refused}");
    let hint = refused.hint().unwrap_or_default();
    assert!(hint.contains("another backup goes into it"), "{hint}");
    drop(first);
    instance.open_backups(folder.path()).unwrap();
    block_on(instance.close()).unwrap();
}

/// Two SCUs in the authority, both readable; closed. With them the segments that the newest answers
/// need, and the log of the first.
fn two_scus(source: &MemoryStore) -> (Arc<Table>, Model, Vec<String>, String) {
    let instance = open(Arc::new(source.clone()), keeping()).unwrap();
    let t = create(&instance, "t");
    let mut model = Model::default();
    for round in 0..2 {
        commit(&instance, &[(&t, &batch(round))]).unwrap();
        model.apply(&batch(round));
        block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    }
    let manifest = instance.manifest();
    assert_eq!(manifest.oldest_readable(), ScuNumber(1));
    let base = crate::heal::files_of(&instance, &t, lazybase_engine::manifest::RunKind::Base);
    let log = manifest.scus[&ScuNumber(1)].files[0].clone();
    block_on(instance.close()).unwrap();
    (t, model, base, log)
}

#[test]
fn damage_that_can_be_mended_is_waited_for_and_fails_no_backup() {
    for only_the_past in [false, true] {
        let (source, target) = (
            MemoryStore::without_history(),
            MemoryStore::without_history(),
        );
        let (t, model, base, log) = two_scus(&source);
        if only_the_past {
            // Nothing else holds what SCU 1 alone is read from.
            flip_at(&source, &log, 200);
        }
        for file in files(&source, "segments/") {
            if !only_the_past || !base.contains(&file) {
                flip(&source, &file);
            }
        }
        let instance = open(Arc::new(source.clone()), keeping()).unwrap();
        let report = backup(&instance, &target).unwrap();
        let oldest = if only_the_past { 2 } else { 1 };
        assert_eq!(report.oldest, ScuNumber(oldest), "{report:?}");
        block_on(instance.close()).unwrap();
        let problems = block_on(verify_backups(&target, None, &|_| {})).unwrap().2;
        assert_eq!(problems, Vec::<String>::new());
        let (store, _) = restored(&target, RestoreRequest::default()).unwrap();
        let instance = open(Arc::new(store), keeping()).unwrap();
        let rows = scan(&fresh(&instance, Freshness::ZERO), &t).unwrap();
        assert_eq!(rows, model.rows());
        close_whole(&instance);
    }
}

#[test]
fn a_view_that_has_a_name_which_a_table_had_then_is_left_out() {
    let target = MemoryStore::without_history();
    let instance = open(Arc::new(MemoryStore::without_history()), keeping()).unwrap();
    let (t, x) = (create(&instance, "t"), create(&instance, "by_count"));
    commit(&instance, &[(&t, &batch(0)), (&x, &batch(1))]).unwrap();
    let before = block_on(instance.seal()).unwrap();
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    let renamed = [Alteration::Rename("y".to_owned())];
    block_on(instance.alter_table("by_count", &renamed)).unwrap();
    create_view(&instance, &t);
    commit(&instance, &[(&t, &batch(2))]).unwrap();
    let report = backup(&instance, &target).unwrap();
    block_on(instance.close()).unwrap();
    assert!(report.oldest <= before, "{report:?}");
    let (store, report) = restored(&target, as_of(before)).unwrap();
    assert_eq!(report.dropped_views, ["by_count"]);
    let instance = open(Arc::new(store), keeping()).unwrap();
    let mut model = Model::default();
    model.apply(&batch(1));
    let x = instance.table("by_count").unwrap();
    let rows = scan(&fresh(&instance, Freshness::ZERO), &x).unwrap();
    assert_eq!(rows, model.rows());
    close_whole(&instance);
}

#[test]
fn a_view_of_a_column_that_had_another_name_then_is_left_out() {
    let target = MemoryStore::without_history();
    let instance = open(Arc::new(MemoryStore::without_history()), keeping()).unwrap();
    create(&instance, "t");
    let rename = |from: &str, to: &str| Alteration::RenameColumn {
        from: from.to_owned(),
        to: to.to_owned(),
    };
    block_on(instance.alter_table("t", &[rename("count", "tally")])).unwrap();
    let t = instance.table("t").unwrap();
    commit(&instance, &[(&t, &batch(0))]).unwrap();
    let before = block_on(instance.seal()).unwrap();
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    block_on(instance.alter_table("t", &[rename("tally", "count")])).unwrap();
    let t = instance.table("t").unwrap();
    create_view(&instance, &t);
    commit(&instance, &[(&t, &batch(1))]).unwrap();
    let report = backup(&instance, &target).unwrap();
    block_on(instance.close()).unwrap();
    assert!(report.oldest <= before, "{report:?}");
    let (store, report) = restored(&target, as_of(before)).unwrap();
    assert_eq!(report.dropped_views, ["by_count"]);
    let instance = open(Arc::new(store), keeping()).unwrap();
    let mut model = Model::default();
    model.apply(&batch(0));
    let t = instance.table("t").unwrap();
    assert!(t.column_index("tally").is_some());
    let rows = scan(&fresh(&instance, Freshness::ZERO), &t).unwrap();
    assert_eq!(rows, model.rows());
    close_whole(&instance);
}

#[test]
fn sealing_that_the_operator_paused_stays_paused_after_a_backup() {
    let target = MemoryStore::without_history();
    let quick = lazybase_cluster::Settings {
        seal_age: Duration::from_millis(20),
        ..keeping()
    };
    let instance = open(Arc::new(MemoryStore::without_history()), quick).unwrap();
    let t = create(&instance, "t");
    let write = |_: f64| {
        // Said while the backup is at work.
        thread::scope(|scope| {
            let paused = scope.spawn(|| block_on(instance.pause(StageName::Ingest)));
            paused.join().unwrap().unwrap();
        });
    };
    commit(&instance, &[(&t, &batch(0))]).unwrap();
    block_on(instance.backup(&env(&target), &write)).unwrap();
    backup(&instance, &target).unwrap();
    assert!(instance.status().paused.contains(&StageName::Ingest));
    let before = instance.manifest().sealed_through;
    commit(&instance, &[(&t, &batch(1))]).unwrap();
    thread::sleep(Duration::from_millis(200));
    assert_eq!(instance.manifest().sealed_through, before);
    block_on(instance.resume(StageName::Ingest)).unwrap();
    crate::damage::wait_for(&instance, "the open SCU to be sealed", |instance| {
        instance.manifest().sealed_through > before
    });
    block_on(instance.close()).unwrap();
}
