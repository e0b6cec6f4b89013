//! Logs that are missing, cut off or damaged are missed when the database is opened, and set aside:
//! what stands before the damage stays, and so does what the manifest has sealed.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::executor::block_on;
use lazybase_cluster::{Instance, Settings, SettleTo, StageName, set_aside};
use lazybase_engine::env::Store;
use lazybase_engine::env::faults::{Fault, Faults, FaultyStore, Operation, Rule};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_model::{ErrorKind, Freshness, Span};

use super::{env, killed, looked_at};
use crate::damage::files;
use crate::harness::{commit, create, fresh, keeping, open, pause, scan};
use crate::heal::batch;
use crate::model::Model;

/// Puts other bytes in the place of a log file.
fn rewrite_log(store: &MemoryStore, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
    block_on(async {
        let length = store.len(file).await.unwrap();
        let mut bytes = store.read(file, 0..length).await.unwrap().to_vec();
        change(&mut bytes);
        store.delete(file).await.unwrap();
        let length = bytes.len() as u64;
        let mut log = store.create_log(file, length, None).await.unwrap();
        log.write_at(0, &bytes).await.unwrap();
        log.sync().await.unwrap();
    });
}

/// The newest file that was made ready, and the one that is being written.
fn newest_logs(instance: &Instance, store: &MemoryStore) -> (String, String) {
    let is_ready = |file: &str| {
        let first = block_on(store.read(file, 0..8));
        first.is_ok_and(|bytes| bytes.as_ref() == b"LAZYRDY\n")
    };
    crate::damage::wait_for(instance, "the next log file", |_| {
        let logs = files(store, "log/");
        logs.last().is_some_and(|file| is_ready(file))
    });
    let mut logs = files(store, "log/");
    (logs.pop().unwrap(), logs.pop().unwrap())
}

fn small_logs() -> Settings {
    Settings {
        log_file_bytes: 64 << 10,
        ..keeping()
    }
}

#[test]
fn a_log_or_an_edit_that_is_gone_as_a_whole_is_missed() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), small_logs()).unwrap();
    let t = create(&instance, "t");
    let mut model = Model::default();
    commit(&instance, &[(&t, &batch(0))]).unwrap();
    model.apply(&batch(0));
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    let before = model.clone();
    // Nothing moves but what is asked for: the newest edit is that of CREATE TABLE.
    let all = [StageName::Sort, StageName::Merge, StageName::Authority];
    pause(&instance, &all);
    let (u, edit) = (0..100)
        .find_map(|number| {
            let u = create(&instance, &format!("u{number}"));
            let edit = files(&store, "manifest/").pop().unwrap();
            commit(&instance, &[(&t, &batch(number + 1))]).unwrap();
            model.apply(&batch(number + 1));
            // Nothing else may have come after it.
            let newest = files(&store, "manifest/").pop().unwrap();
            (newest == edit).then_some((u, edit))
        })
        .unwrap();
    let (_, log) = newest_logs(&instance, &store);
    let whole = killed(&store);
    let opened = open(Arc::new(killed(&store)), small_logs()).unwrap();
    let rows = scan(&fresh(&opened, Freshness::ZERO), &t).unwrap();
    assert_eq!(rows, model.rows());
    block_on(opened.close()).unwrap();
    for harm in ["delete", "cut", "edit"] {
        let image = killed(&whole);
        let missed = match harm {
            "delete" => {
                block_on(image.delete(&log)).unwrap();
                &log
            }
            "cut" => {
                rewrite_log(&image, &log, |bytes| bytes.truncate(32 << 10));
                &log
            }
            _ => {
                block_on(image.delete(&edit)).unwrap();
                &edit
            }
        };
        let refused = open(Arc::new(image.clone()), small_logs()).err();
        let logs = files(&image, "");
        let refused = refused.unwrap_or_else(|| panic!("{harm} of {missed}: {logs:?}"));
        assert_eq!(
            refused.damaged_file(),
            Some(missed.as_str()),
            "{harm}: {refused}"
        );
        let examined = looked_at(&image);
        assert!(examined.closed.is_some(), "{harm}");
        let history = instance.database().history;
        block_on(set_aside(&env(&image))).unwrap();
        let opened = open(Arc::new(image.clone()), small_logs()).unwrap();
        assert_ne!(opened.database().history, history, "{harm}");
        let rows = scan(&fresh(&opened, Freshness::ZERO), &t).unwrap();
        // Batches that stand before the cut are there, and those that stand in the log.
        let known = match harm {
            "delete" => &before,
            _ => &model,
        };
        assert_eq!(rows, known.rows(), "{harm}");
        assert_eq!(opened.table(&u.name).is_ok(), harm != "edit", "{harm}");
        commit(&opened, &[(&t, &batch(200))]).unwrap();
        let mut known = known.clone();
        known.apply(&batch(200));
        block_on(opened.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        let rows = scan(&fresh(&opened, Freshness::ZERO), &t).unwrap();
        assert_eq!(rows, known.rows(), "{harm}");
        crate::harness::close_whole(&opened);
    }
    block_on(instance.close()).unwrap();
}

#[test]
fn what_stands_before_a_log_that_is_missing_stays() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), small_logs()).unwrap();
    let t = create(&instance, "t");
    let mut model = Model::default();
    // What each file holds the last batch of, and all that came before it.
    let mut held: BTreeMap<String, Model> = BTreeMap::new();
    for round in 0.. {
        commit(&instance, &[(&t, &batch(round))]).unwrap();
        model.apply(&batch(round));
        held.insert(newest_logs(&instance, &store).1, model.clone());
        if held.len() == 5 {
            break;
        }
    }
    let whole = killed(&store);
    block_on(instance.close()).unwrap();
    let logs: Vec<&String> = held.keys().collect();
    for (missed, before) in [(logs[1], logs[0]), (logs[2], logs[1])] {
        for harm in ["delete", "cut", "no header"] {
            let image = killed(&whole);
            match harm {
                "delete" => block_on(image.delete(missed)).unwrap(),
                "cut" => rewrite_log(&image, missed, |bytes| bytes.truncate(10)),
                _ => rewrite_log(&image, missed, |bytes| bytes[..64].fill(0)),
            }
            let refused = open(Arc::new(image.clone()), small_logs()).err().unwrap();
            let file = refused.damaged_file();
            assert_eq!(file, Some(missed.as_str()), "{harm}: {refused}");
            block_on(set_aside(&env(&image))).unwrap();
            assert!(files(&image, "log/").contains(before), "{harm}");
            let opened = open(Arc::new(image.clone()), small_logs()).unwrap();
            let rows = scan(&fresh(&opened, Freshness::ZERO), &t).unwrap();
            assert_eq!(rows, held[before].rows(), "{harm} of {missed}");
            crate::harness::close_whole(&opened);
        }
    }
}

#[test]
fn a_log_is_cut_at_the_damage_and_what_the_manifest_has_sealed_stays() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), small_logs()).unwrap();
    let t = create(&instance, "t");
    let target = MemoryStore::without_history();
    let mut model = Model::default();
    let write = |model: &mut Model, round: i64| {
        model.apply(&batch(round));
        commit(&instance, &[(&t, &batch(round))]).unwrap()
    };
    write(&mut model, 0);
    block_on(instance.backup(&env(&target), &|_| {})).unwrap();
    pause(&instance, &[StageName::Sort]);
    write(&mut model, 1);
    let sealed = block_on(instance.seal()).unwrap();
    crate::damage::wait_for(&instance, "the seal", |instance| {
        instance.manifest().sealed_through >= sealed
    });
    let piece = instance.manifest().scus[&sealed].log[0].clone();
    // The first batch of the open SCU is whole, the second one damaged.
    write(&mut model, 2);
    let kept = model.clone();
    let size = |log: &str| {
        let end = block_on(store.len(log)).unwrap();
        let bytes = block_on(store.read(log, 0..end)).unwrap();
        bytes.iter().rposition(|byte| *byte != 0).unwrap()
    };
    let damage = size(&piece.file) + 200;
    let token = write(&mut model, 3);
    write(&mut model, 4);
    let image = killed(&store);
    rewrite_log(&image, &piece.file, |bytes| bytes[damage] ^= 1);
    let refused = open(Arc::new(image.clone()), small_logs()).err().unwrap();
    assert_eq!(
        refused.damaged_file(),
        Some(piece.file.as_str()),
        "{refused}"
    );
    let aside = block_on(set_aside(&env(&image))).unwrap();
    assert!(aside.files.contains(&piece.file), "{aside:?}");
    // Both batches behind the damage are told, by table and SCU.
    let [lost] = &aside.lost[..] else {
        panic!("{aside:?}");
    };
    assert_eq!(lost.table.as_deref(), Some("t"));
    assert_eq!(lost.scus, Some(Span::single(token.scu)));
    let (what, rows) = lost.what.rsplit_once(": ").unwrap();
    assert!(what.ends_with(&piece.file), "{lost:?}");
    assert!(rows.parse::<u64>().unwrap() >= 80, "{lost:?}");
    let examined = looked_at(&image);
    assert!(examined.is_whole(), "{examined:?}");
    for _ in 0..2 {
        let opened = open(Arc::new(image.clone()), small_logs()).unwrap();
        let rows = scan(&fresh(&opened, Freshness::ZERO), &t).unwrap();
        assert_eq!(rows, kept.rows());
        // The SCU of the lost batches has its number again: it is one of another history.
        assert_eq!(opened.manifest().sealed_through, token.scu);
        assert_ne!(opened.database(), instance.database());
        let refused = block_on(opened.backup(&env(&target), &|_| {})).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
        block_on(opened.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        let rows = scan(&fresh(&opened, Freshness::ZERO), &t).unwrap();
        assert_eq!(rows, kept.rows());
        crate::harness::close_whole(&opened);
    }
    block_on(instance.close()).unwrap();
}

#[test]
fn a_log_that_was_set_aside_keeps_its_number() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), small_logs()).unwrap();
    let t = create(&instance, "t");
    commit(&instance, &[(&t, &batch(0))]).unwrap();
    commit(&instance, &[(&t, &batch(1))]).unwrap();
    let (_, log) = newest_logs(&instance, &store);
    let mut image = killed(&store);
    block_on(instance.close()).unwrap();
    let mut taken = Vec::new();
    let mut log = log;
    for round in 0..2 {
        rewrite_log(&image, &log, |bytes| bytes[20] ^= 1);
        let aside = block_on(set_aside(&env(&image))).unwrap();
        assert!(aside.files.contains(&log), "{round}: {aside:?}");
        assert_eq!(files(&image, "log/"), Vec::<String>::new(), "{round}");
        taken.extend(aside.files);
        let opened = open(Arc::new(image.clone()), small_logs()).unwrap();
        commit(&opened, &[(&t, &batch(2))]).unwrap();
        commit(&opened, &[(&t, &batch(3))]).unwrap();
        log = newest_logs(&opened, &image).1;
        let rows = scan(&fresh(&opened, Freshness::ZERO), &t).unwrap();
        let mut model = Model::default();
        model.apply(&batch(2));
        model.apply(&batch(3));
        assert_eq!(rows, model.rows(), "{round}");
        let names = files(&image, "log/");
        assert!(
            names.iter().all(|name| !taken.contains(name)),
            "{names:?} {taken:?}"
        );
        // Nothing is sealed where the process is killed.
        let next = killed(&image);
        block_on(opened.close()).unwrap();
        image = next;
    }
}

/// A full disk keeps the last seal out of the manifest: then the log alone holds its batches.
#[test]
fn a_log_is_missed_that_goes_after_a_close_which_could_not_seal() {
    let memory = MemoryStore::new();
    let faults = Faults::none();
    let store = FaultyStore::over(Arc::new(memory.clone()), faults.clone());
    let instance = open(Arc::new(store), small_logs()).unwrap();
    let t = create(&instance, "t");
    let mut model = Model::default();
    commit(&instance, &[(&t, &batch(0))]).unwrap();
    model.apply(&batch(0));
    let (_, log) = newest_logs(&instance, &memory);
    let full = Fault::Refused { full: true };
    faults.add(Rule::every(Operation::Put, full).named("manifest/"));
    block_on(instance.close()).unwrap();
    let opened = open(Arc::new(killed(&memory)), small_logs()).unwrap();
    let rows = scan(&fresh(&opened, Freshness::ZERO), &t).unwrap();
    assert_eq!(rows, model.rows());
    crate::harness::close_whole(&opened);
    let image = killed(&memory);
    block_on(image.delete(&log)).unwrap();
    let missed = open(Arc::new(image), small_logs()).err().unwrap();
    assert_eq!(missed.damaged_file(), Some(log.as_str()), "{missed}");
}

#[test]
fn a_setting_aside_that_broke_off_is_finished_when_the_database_is_opened() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), small_logs()).unwrap();
    let t = create(&instance, "t");
    let mut model = Model::default();
    commit(&instance, &[(&t, &batch(0))]).unwrap();
    model.apply(&batch(0));
    let (ready, log) = newest_logs(&instance, &store);
    let image = killed(&store);
    block_on(instance.close()).unwrap();
    // The newest file went first; of this one the copy did not get to its place.
    let copy = log.replace("log/", "set-aside/cut/");
    block_on(async {
        image.delete(&ready).await.unwrap();
        let bytes = image.len(&log).await.unwrap();
        drop(image.create_log(&copy, bytes, Some(&log)).await.unwrap());
    });
    assert_eq!(files(&image, "set-aside/"), [copy]);
    // Whoever only looks is told of the copy, and it stays where it is.
    for _ in 0..2 {
        let found = looked_at(&image);
        assert_eq!(found.pending, [log.as_str()]);
        assert!(!found.is_whole(), "{found:?}");
    }
    let opened = open(Arc::new(image.clone()), small_logs()).unwrap();
    let rows = scan(&fresh(&opened, Freshness::ZERO), &t).unwrap();
    assert_eq!(rows, model.rows());
    assert_eq!(files(&image, "set-aside/"), Vec::<String>::new());
    crate::harness::close_whole(&opened);
}
