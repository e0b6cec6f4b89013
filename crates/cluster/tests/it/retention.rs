//! The retention while everything moves: each horizon inside it is answered exactly, however much
//! was merged and retired since; outside it an answer is exact or an error that says what is kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::executor::block_on;
use lazybase_cluster::{AsOf, Instance, Settings, SettleTo, SnapshotRequest, StageName};
use lazybase_engine::env::Store;
use lazybase_engine::env::faults::{Fault, Faults, FaultyStore, Operation, Rule};
use lazybase_engine::env::memory::MemoryStore;
use lazybase_model::{Freshness, Result, ScuNumber, Table};

use crate::damage::{files, wait_for};
use crate::harness::{Row, close_whole, commit, create, fresh, open, pause, scan, settings};
use crate::heal::{batch, create_view, entries, shown};
use crate::model::Model;

/// A state of the database, and until when it was the newest.
struct Past {
    model: Model,
    until: Option<Duration>,
    /// A moment at which it was the newest, on the database's clock.
    moment_micros: i64,
}

fn rows_at(instance: &Instance, at: AsOf, table: &Table, view: &Table) -> Result<Vec<Row>> {
    let request = SnapshotRequest {
        at: Some(at),
        ..SnapshotRequest::default()
    };
    let snapshot = block_on(instance.snapshot(request))?;
    let rows = scan(&snapshot, table)?;
    if let Some(shown) = shown(&snapshot, view)? {
        let mut held: Vec<_> = rows.iter().map(|row| (row.1, row.0)).collect();
        held.sort();
        assert_eq!(shown, held, "the view at {at:?}");
    }
    Ok(rows)
}

#[test]
fn each_horizon_inside_the_retention_is_exact_while_the_rest_goes() {
    let retention = Duration::from_millis(700);
    let settings = Settings {
        retention,
        merge_fan_in: 2,
        ..settings()
    };
    let instance = open(Arc::new(MemoryStore::without_history()), settings).unwrap();
    let table = create(&instance, "t");
    let view = create_view(&instance, &table);
    let clock = Arc::clone(&instance.env().clock);
    let mut model = Model::default();
    let mut past: BTreeMap<ScuNumber, Past> = BTreeMap::new();
    let (mut inside, mut refused) = (0, 0);
    // A quick machine asks for much inside of the retention, a slow one outside: enough of both.
    for round in 0.. {
        if round >= 160 && inside > 300 && refused > 100 {
            break;
        }
        assert!(round < 1600, "{inside} inside, {refused} refused");
        let before = clock.monotonic();
        commit(&instance, &[(&table, &batch(round))]).unwrap();
        if let Some((_, newest)) = past.iter_mut().next_back() {
            newest.until = Some(before);
        }
        model.apply(&batch(round));
        let scu = block_on(instance.seal()).unwrap();
        past.insert(
            scu,
            Past {
                model: model.clone(),
                until: None,
                moment_micros: instance.now_micros(),
            },
        );
        if round % 40 == 39 {
            block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        }
        block_on(clock.sleep(Duration::from_millis(8)));
        for (number, (scu, state)) in past.iter().enumerate() {
            // All of the newest ones, and some of the others.
            if !(number + round as usize).is_multiple_of(5) && number + 3 < past.len() {
                continue;
            }
            let at = match number % 2 {
                0 => AsOf::Scu(*scu),
                _ => AsOf::Timestamp {
                    micros: state.moment_micros,
                },
            };
            let found = rows_at(&instance, at, &table, &view);
            let now = clock.monotonic();
            let is_inside = state.until.is_none_or(|until| now < until + retention);
            match found {
                Ok(rows) => assert_eq!(rows, state.model.rows(), "round {round}, {at:?}"),
                Err(error) => {
                    assert!(!is_inside, "round {round}, {at:?}: {error}");
                    assert_eq!(error.sqlstate(), "72000", "{error}");
                    refused += 1;
                }
            }
            inside += usize::from(is_inside);
        }
    }
    let last = past.values().next_back().unwrap();
    assert_eq!(entries(&last.model).len(), last.model.rows().len());
    block_on(instance.close()).unwrap();
}

/// No edit can be written before there is room, and files of attempts that failed take it.
#[test]
fn what_nobody_names_goes_from_a_full_disk() {
    let store = MemoryStore::new();
    let faults = Faults::none();
    let full = FaultyStore::over(Arc::new(store.clone()), faults.clone());
    let instance = open(Arc::new(full), settings()).unwrap();
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    faults.add(Rule::every(Operation::Put, Fault::Refused { full: true }).named("manifest/"));
    let sealed = block_on(instance.seal()).unwrap();
    let left = "segments/00112233445566778899aabbccddeeff.ext";
    block_on(store.put_if_absent(left, Bytes::from_static(b"left"))).unwrap();
    wait_for(&instance, "a file that nobody names", |_| {
        block_on(store.len(left)).is_err()
    });
    assert!(instance.manifest().sealed_through < sealed);
    faults.clear();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    close_whole(&instance);
}

#[test]
fn logs_go_that_an_edit_in_doubt_gave_up() {
    let memory = MemoryStore::without_history();
    let faults = Faults::none();
    let store = FaultyStore::over(Arc::new(memory.clone()), faults.clone());
    let small = Settings {
        log_file_bytes: 8 << 10,
        ..settings()
    };
    let instance = open(Arc::new(store), small).unwrap();
    let table = create(&instance, "t");
    pause(&instance, &[StageName::Merge, StageName::Authority]);
    let mut model = Model::default();
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    model.apply(&batch(0));
    // A snapshot of what is not sorted yet keeps its log.
    let snapshot = fresh(&instance, Freshness::ZERO);
    let logs = || files(&memory, "log/").len();
    for round in 1.. {
        commit(&instance, &[(&table, &batch(round))]).unwrap();
        model.apply(&batch(round));
        if logs() >= 16 {
            break;
        }
    }
    block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
    let puts = faults.count(Operation::Put);
    faults.add(Rule::every(Operation::Put, Fault::Lost).named("manifest/"));
    drop(snapshot);
    wait_for(&instance, "an edit in doubt", |_| {
        faults.count(Operation::Put) >= puts + 5
    });
    faults.clear();
    // The one that is written, the next one, and a few to be written again.
    wait_for(&instance, "logs that go", |instance| {
        logs() <= 8 && instance.manifest().scus.is_empty()
    });
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    close_whole(&instance);
}

/// Who lost the database, and has not heard of it, takes nothing of its successor for garbage.
#[test]
fn who_was_fenced_deletes_nothing() {
    let store = MemoryStore::new();
    let fenced = open(Arc::new(store.clone()), settings()).unwrap();
    let instance = open(Arc::new(store.clone()), settings()).unwrap();
    let table = create(&instance, "t");
    commit(&instance, &[(&table, &batch(0))]).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    // Longer than a file stays that nobody names.
    block_on(instance.env().clock.sleep(Duration::from_secs(4)));
    let kept = files(&store, "segments/");
    let newest = instance.manifest();
    let segments = newest.runs.values().flat_map(|run| &run.segments);
    let named: Vec<&String> = segments.map(|segment| &segment.file).collect();
    assert!(!named.is_empty() && named.iter().all(|file| kept.contains(file)));
    close_whole(&instance);
    block_on(fenced.close()).unwrap();
}
