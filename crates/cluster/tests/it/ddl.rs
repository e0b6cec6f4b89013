//! Transactions with DDL: tables and rows together or not at all, after any crash, any error of
//! the store, and for every reader beside them.

#![allow(
    clippy::disallowed_methods,
    reason = "writers and readers beside a transaction are threads of the machine's own"
)]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use lazybase_cluster::{Acknowledgement, Instance, SettleTo};
use lazybase_engine::env::Store;
use lazybase_engine::env::faults::{Fault, Faults, FaultyStore, Operation, Rule};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::manifest::Ddl;
use lazybase_engine::read::Snapshot;
use lazybase_model::{ErrorKind, Freshness, Result, Table};

use crate::damage::wait_for;
use crate::harness::{
    Change, Row, close_whole, commit, commit_with, crash_images, create, fresh, open, scan,
    settings, spec,
};

fn row(id: i64) -> Row {
    (id, Some(id), Some(format!("row {id}")))
}

fn rows(ids: impl IntoIterator<Item = i64>) -> Vec<Change> {
    ids.into_iter().map(|id| Change::Upsert(row(id))).collect()
}

fn define(instance: &Instance, name: &str) -> Arc<Table> {
    instance.define_table(&spec(name, &["id"])).unwrap()
}

fn created(table: &Arc<Table>) -> Ddl {
    Ddl::Create {
        table: table.as_ref().clone(),
    }
}

/// What a snapshot holds of a table; `None` where there is no such table.
fn held(snapshot: &Snapshot, name: &str) -> Option<Vec<i64>> {
    let state = snapshot.manifest().table_named(name)?;
    let rows = scan(snapshot, &state.table).unwrap();
    Some(rows.into_iter().map(|row| row.0).collect())
}

/// What all three tables of [`story`] hold.
fn all(snapshot: &Snapshot) -> [Option<Vec<i64>>; 3] {
    ["made", "emptied", "other"].map(|name| held(snapshot, name))
}

fn some(ids: impl IntoIterator<Item = i64>) -> Option<Vec<i64>> {
    Some(ids.into_iter().collect())
}

/// Makes a table, empties another, drops a third and makes it again, and writes to all of them
/// and to one more: enough rows for several frames.
fn story(instance: &Instance) -> Result<Option<Acknowledgement>> {
    let emptied = instance.table("emptied").unwrap();
    let other = instance.table("other").unwrap();
    let gone = instance.table("remade").unwrap();
    let (made, remade) = (define(instance, "made"), define(instance, "remade"));
    let ddl = vec![
        created(&made),
        Ddl::Truncate { table: emptied.id },
        Ddl::Drop { table: gone.id },
        created(&remade),
    ];
    let parts: [(&Arc<Table>, &[Change]); 4] = [
        (&made, &rows(0..300)),
        (&emptied, &rows(5..8)),
        (&other, &rows([2])),
        (&remade, &rows([9])),
    ];
    commit_with(instance, ddl, &parts)
}

fn prepare(instance: &Instance) {
    for name in ["emptied", "other", "remade"] {
        let table = create(instance, name);
        commit(instance, &[(&table, &rows(0..2))]).unwrap();
    }
}

fn check_whole(snapshot: &Snapshot, committed: bool) {
    let (expected, remade) = match committed {
        false => ([None, some(0..2), some(0..2)], some(0..2)),
        true => ([some(0..300), some(5..8), some(0..3)], some([9])),
    };
    assert_eq!(all(snapshot), expected);
    assert_eq!(held(snapshot, "remade"), remade);
}

/// The database goes on: batches, further transactions, another opening.
fn go_on(instance: Instance, store: Arc<dyn Store>, committed: bool) {
    let other = instance.table("other").unwrap();
    commit(&instance, &[(&other, &rows([50]))]).unwrap();
    let late = define(&instance, "late");
    let parts: [(&Arc<Table>, &[Change]); 2] = [(&late, &rows([1])), (&other, &rows([51]))];
    commit_with(&instance, vec![created(&late)], &parts).unwrap();
    if !committed {
        story(&instance).unwrap();
    }
    close_whole(&instance);
    drop(instance);
    let instance = open(store, settings()).unwrap();
    for settled in [false, true] {
        if settled {
            block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        }
        let snapshot = fresh(&instance, Freshness::ZERO);
        assert_eq!(
            all(&snapshot),
            [some(0..300), some(5..8), some((0..3).chain(50..52))]
        );
        assert_eq!(held(&snapshot, "late"), some([1]));
    }
    block_on(instance.close()).unwrap();
}

#[test]
fn a_transaction_with_ddl_is_there_whole_or_not_at_all_after_a_power_cut() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), settings()).unwrap();
    prepare(&instance);
    let begun = store.operations();
    story(&instance).unwrap().unwrap();
    let acknowledged = store.operations();
    check_whole(&fresh(&instance, Freshness::ZERO), true);
    check_whole(&fresh(&instance, Freshness::BestEffort), true);
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    check_whole(&fresh(&instance, Freshness::BestEffort), true);
    block_on(instance.close()).unwrap();
    let mut seen = [false, false];
    for (cut, image) in crash_images(&store, begun) {
        let instance = open(Arc::clone(&image) as _, settings()).unwrap();
        let snapshot = fresh(&instance, Freshness::ZERO);
        let committed = held(&snapshot, "made").is_some();
        assert!(committed || cut < acknowledged, "after operation {cut}");
        check_whole(&snapshot, committed);
        if committed {
            check_whole(&fresh(&instance, Freshness::BestEffort), true);
        }
        drop(snapshot);
        seen[usize::from(committed)] = true;
        go_on(instance, image, committed);
    }
    assert_eq!(seen, [true, true]);
}

#[test]
fn ids_that_are_given_out_and_not_used_are_left_out() {
    let store = Arc::new(MemoryStore::new());
    let instance = open(Arc::clone(&store) as _, settings()).unwrap();
    let (slow, quick) = (define(&instance, "slow"), define(&instance, "quick"));
    define(&instance, "never");
    commit_with(&instance, vec![created(&quick)], &[(&quick, &rows([1]))]).unwrap();
    commit_with(&instance, vec![created(&slow)], &[(&slow, &rows([2]))]).unwrap();
    let last = create(&instance, "last");
    assert!(slow.id < quick.id && quick.id.0 + 1 < last.id.0);
    block_on(instance.close()).unwrap();
    drop(instance);
    let instance = open(store, settings()).unwrap();
    let snapshot = fresh(&instance, Freshness::ZERO);
    assert_eq!(held(&snapshot, "slow"), some([2]));
    assert_eq!(held(&snapshot, "quick"), some([1]));
    assert!(last.id < create(&instance, "after").id);
    block_on(instance.close()).unwrap();
}

#[test]
fn a_conflict_drops_the_batch_whole() {
    let instance = open(Arc::new(MemoryStore::new()), settings()).unwrap();
    let other = create(&instance, "other");
    let (one, two) = (define(&instance, "taken"), define(&instance, "taken"));
    let with_other = |table, id| -> Result<_> {
        let parts: [(&Arc<Table>, &[Change]); 2] = [(table, &rows([id])), (&other, &rows([id]))];
        commit_with(&instance, vec![created(table)], &parts)
    };
    with_other(&one, 1).unwrap();
    let error = with_other(&two, 2).unwrap_err();
    assert_eq!(
        (error.kind(), error.sqlstate()),
        (ErrorKind::Conflict, "42P07")
    );
    // A table that is gone: nothing can be emptied, and nothing be written for it.
    block_on(instance.drop_table("taken", false)).unwrap();
    let parts: [(&Arc<Table>, &[Change]); 1] = [(&other, &rows([3]))];
    let truncate = vec![Ddl::Truncate { table: one.id }];
    let error = commit_with(&instance, truncate, &parts).unwrap_err();
    assert_eq!(
        (error.kind(), error.sqlstate()),
        (ErrorKind::NotFound, "42P01")
    );
    let parts: [(&Arc<Table>, &[Change]); 2] = [(&one, &rows([4])), (&other, &rows([4]))];
    let more = define(&instance, "more");
    let error = commit_with(&instance, vec![created(&more)], &parts).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(instance.table("more").is_err());
    commit(&instance, &[(&other, &rows([5]))]).unwrap();
    let snapshot = fresh(&instance, Freshness::ZERO);
    assert_eq!(held(&snapshot, "other"), some([1, 5]));
    assert_eq!(held(&snapshot, "taken"), None);
    block_on(instance.close()).unwrap();
}

fn faulty() -> (Instance, MemoryStore, Faults) {
    let store = MemoryStore::new();
    let faults = Faults::none();
    let faulty = FaultyStore::over(Arc::new(store.clone()), faults.clone());
    let instance = open(Arc::new(faulty), settings()).unwrap();
    prepare(&instance);
    // Nothing is left to be sorted, so that the transaction's edit is the next put.
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    (instance, store, faults)
}

#[test]
fn an_edit_that_is_refused_gives_the_transaction_up() {
    let (instance, store, faults) = faulty();
    let refused = Fault::Refused { full: false };
    faults.add(Rule::every(Operation::Put, refused).named("manifest/"));
    let error = story(&instance).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    check_whole(&fresh(&instance, Freshness::ZERO), false);
    faults.clear();
    block_on(instance.close()).unwrap();
    drop(instance);
    let store = Arc::new(store);
    let instance = open(Arc::clone(&store) as _, settings()).unwrap();
    check_whole(&fresh(&instance, Freshness::ZERO), false);
    go_on(instance, store, false);
}

/// While nobody can tell whether the edit happened, nothing is read and nothing is acknowledged.
#[test]
fn an_edit_whose_fate_is_unknown_holds_everything_until_it_is_known() {
    for fault in [Fault::HappensAnyway, Fault::Lost] {
        let (instance, store, faults) = faulty();
        let unreadable = Fault::Refused { full: false };
        faults.add(Rule::every(Operation::Put, fault).named("manifest/"));
        faults.add(Rule::every(Operation::Read, unreadable).named("manifest/"));
        let transaction = {
            let instance = instance.clone();
            thread::spawn(move || story(&instance))
        };
        // Housekeeping has edits in doubt too, which hold nobody.
        wait_for(&instance, "an edit in doubt", |instance| {
            let status = instance.status();
            status.throttle.is_some() && !status.troubles.is_empty()
        });
        let writer = {
            let instance = instance.clone();
            let other = instance.table("other").unwrap();
            thread::spawn(move || commit(&instance, &[(&other, &rows([40]))]))
        };
        wait_for(&instance, "a writer that waits", |instance| {
            instance.status().waiting.len() == 1
        });
        thread::sleep(Duration::from_millis(150));
        assert!(!transaction.is_finished() && !writer.is_finished());
        let status = instance.status();
        let why = status.throttle.unwrap();
        assert!(why.starts_with("TRUNCATE of table \"emptied\""), "{why}");
        assert_eq!(status.waiting.len(), 1);
        assert!(status.waiting[0].why.starts_with("TRUNCATE"));
        let manifest = instance.manifest();
        assert!(manifest.table_named("made").is_none());
        faults.clear();
        transaction.join().unwrap().unwrap();
        writer.join().unwrap().unwrap();
        let snapshot = fresh(&instance, Freshness::ZERO);
        assert_eq!(held(&snapshot, "made"), some(0..300));
        assert_eq!(held(&snapshot, "other"), some((0..3).chain([40])));
        drop(snapshot);
        block_on(instance.close()).unwrap();
        drop(instance);
        let instance = open(Arc::new(store), settings()).unwrap();
        let snapshot = fresh(&instance, Freshness::ZERO);
        assert_eq!(held(&snapshot, "emptied"), some(5..8));
        block_on(instance.close()).unwrap();
    }
}

/// Each transaction makes a table with a row and writes the table's number to another table, so
/// that every snapshot tells by itself whether it has one without the other.
#[test]
fn every_reader_sees_tables_and_rows_together() {
    const TRANSACTIONS: i64 = 40;
    let instance = open(Arc::new(MemoryStore::without_history()), settings()).unwrap();
    let log = create(&instance, "log");
    let noise = create(&instance, "noise");
    let stop = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for freshness in [Freshness::ZERO, Freshness::BestEffort, Freshness::ZERO] {
        let (instance, stop) = (instance.clone(), Arc::clone(&stop));
        threads.push(thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                let snapshot = fresh(&instance, freshness);
                let logged = held(&snapshot, "log").unwrap();
                let tables = snapshot.manifest().tables.len() - 2;
                assert_eq!(logged.len(), tables, "{:?}", snapshot.horizon());
                if let Some(last) = logged.last() {
                    assert_eq!(held(&snapshot, &format!("n{last}")), some([*last]));
                }
            }
        }));
    }
    for id in 0..2 {
        let (instance, stop, noise) = (instance.clone(), Arc::clone(&stop), Arc::clone(&noise));
        threads.push(thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                commit(&instance, &[(&noise, &rows([id]))]).unwrap();
            }
        }));
    }
    for id in 0..TRANSACTIONS {
        let table = define(&instance, &format!("n{id}"));
        let parts: [(&Arc<Table>, &[Change]); 2] = [(&table, &rows([id])), (&log, &rows([id]))];
        let done = commit_with(&instance, vec![created(&table)], &parts)
            .unwrap()
            .unwrap();
        let snapshot = fresh(&instance, Freshness::ZERO);
        assert!(snapshot.horizon() >= done.token.horizon);
        assert_eq!(held(&snapshot, "log"), some(0..=id));
        if id % 10 == 9 {
            block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
        }
    }
    stop.store(true, Ordering::SeqCst);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    block_on(instance.close()).unwrap();
}

/// What takes rows away waits until everything before is sorted: nobody else waits for that.
#[test]
fn writers_go_on_while_a_table_waits_to_be_emptied() {
    let (instance, _, faults) = faulty();
    let unsortable = || {
        let refused = Fault::Refused { full: false };
        faults.add(Rule::every(Operation::Create, refused).named("segments/"));
    };
    let other = instance.table("other").unwrap();
    unsortable();
    commit(&instance, &[(&other, &rows([40]))]).unwrap();
    let emptying = {
        let instance = instance.clone();
        thread::spawn(move || block_on(instance.truncate_table("other")))
    };
    wait_for(&instance, "a sort that fails", |instance| {
        !instance.status().troubles.is_empty()
    });
    let writer = {
        let (instance, other) = (instance.clone(), Arc::clone(&other));
        thread::spawn(move || commit(&instance, &[(&other, &rows([41]))]))
    };
    wait_for(&instance, "a writer", |_| writer.is_finished());
    assert!(!emptying.is_finished());
    faults.clear();
    // Its place is behind all that came before it ended.
    emptying.join().unwrap().unwrap();
    assert_eq!(held(&fresh(&instance, Freshness::ZERO), "other"), some([]));
    // What nobody waits for any more does not happen.
    unsortable();
    commit(&instance, &[(&other, &rows([42]))]).unwrap();
    block_on(async {
        let mut asked = pin!(instance.truncate_table("other"));
        assert!(futures::poll!(&mut asked).is_pending());
        instance.env().clock.sleep(Duration::from_millis(100)).await;
    });
    faults.clear();
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    assert_eq!(
        held(&fresh(&instance, Freshness::ZERO), "other"),
        some([42])
    );
    close_whole(&instance);
}

/// On a full disk changes of the catalogue are refused as batches are: DROP TABLE, which makes
/// room, waits for nothing that needs some.
#[test]
fn a_full_disk_refuses_changes_of_the_catalogue() {
    let full = Fault::Refused { full: true };
    for (operation, folder) in [
        (Operation::Put, "manifest/"),
        (Operation::Create, "segments/"),
    ] {
        let (instance, _, faults) = faulty();
        let other = instance.table("other").unwrap();
        commit(&instance, &[(&other, &rows([40]))]).unwrap();
        faults.add(Rule::every(operation, full).named(folder));
        let refused = match folder {
            "manifest/" => block_on(instance.drop_table("remade", false)).unwrap_err(),
            _ => block_on(instance.truncate_table("remade")).unwrap_err(),
        };
        assert_eq!(refused.sqlstate(), "53100", "{folder}: {refused}");
        faults.clear();
        block_on(instance.drop_table("remade", false)).unwrap();
        let snapshot = fresh(&instance, Freshness::ZERO);
        assert_eq!(held(&snapshot, "other"), some([0, 1, 40]), "{folder}");
        assert!(held(&snapshot, "remade").is_none());
        drop(snapshot);
        close_whole(&instance);
    }
}

/// So does a store that takes no edit for another reason, or can't tell of one: what is sealed does
/// not reach the manifest, and a change of the catalogue does not wait for that.
#[test]
fn a_store_that_takes_no_edit_refuses_changes_of_the_catalogue() {
    let refused = Fault::Refused { full: false };
    for fault in [None, Some(refused), Some(Fault::Lost)] {
        let (instance, _, faults) = faulty();
        let other = instance.table("other").unwrap();
        commit(&instance, &[(&other, &rows([40]))]).unwrap();
        match fault {
            None => faults.set_read_only(true),
            Some(fault) => faults.add(Rule::every(Operation::Put, fault).named("manifest/")),
        }
        // The first seals the open SCU, and the others find it sealed.
        let made = block_on(instance.create_table(spec("more", &["id"]), false)).map(drop);
        let dropped = block_on(instance.drop_table("remade", false)).map(drop);
        let emptied = block_on(instance.truncate_table("remade"));
        for error in [made, dropped, emptied].map(Result::unwrap_err) {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert_eq!(error.sqlstate(), "53000", "{error}");
        }
        assert!(instance.table("more").is_err());
        wait_for(&instance, "commits that are held for nothing", |instance| {
            instance.status().throttle.is_none()
        });
        faults.set_read_only(false);
        faults.clear();
        commit(&instance, &[(&other, &rows([41]))]).unwrap();
        block_on(instance.drop_table("remade", false)).unwrap();
        let snapshot = fresh(&instance, Freshness::ZERO);
        assert_eq!(held(&snapshot, "other"), some([0, 1, 40, 41]));
        assert!(held(&snapshot, "remade").is_none());
        drop(snapshot);
        close_whole(&instance);
    }
}

/// Nobody waits for a change of the catalogue whose client has left, and it does not happen.
#[test]
fn a_change_of_the_catalogue_ends_with_whoever_asked_for_it() {
    let (instance, _, faults) = faulty();
    let other = instance.table("other").unwrap();
    commit(&instance, &[(&other, &rows([40]))]).unwrap();
    // What is to be emptied waits until all is sorted.
    let refused = Fault::Refused { full: false };
    faults.add(Rule::every(Operation::Create, refused).named("segments/"));
    let sealed = instance.manifest().sealed_through;
    block_on(async {
        let mut asked = pin!(instance.truncate_table("remade"));
        while instance.manifest().sealed_through == sealed {
            assert!(futures::poll!(&mut asked).is_pending());
            instance.env().clock.sleep(Duration::from_millis(5)).await;
        }
    });
    faults.clear();
    commit(&instance, &[(&other, &rows([41]))]).unwrap();
    // Whatever was asked before has come to its end when this is there.
    block_on(instance.create_table(spec("more", &["id"]), false)).unwrap();
    wait_for(&instance, "commits that are held for nothing", |instance| {
        instance.status().throttle.is_none()
    });
    let snapshot = fresh(&instance, Freshness::ZERO);
    assert_eq!(held(&snapshot, "other"), some([0, 1, 40, 41]));
    assert_eq!(held(&snapshot, "remade"), some(0..2));
    drop(snapshot);
    close_whole(&instance);
}
