//! A bound on what superseded files take: the past goes from its oldest end, what may still be
//! asked is exact, and nothing goes that the newest answers need.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use lazybase_cluster::{Instance, Settings, SettleTo, StageName};
use lazybase_engine::env::Store;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::manifest::collect::files_of;
use lazybase_model::{Freshness, ScuNumber, Table};

use crate::damage::wait_for;
use crate::harness::{Change, at, close_whole, commit, create, fresh, keeping, open, pause, scan};
use crate::heal::{batch, create_view, entries, shown};
use crate::model::Model;

/// What superseded files may take: some dozen rounds of batches.
const BOUND: u64 = 64 << 10;

fn bounded(bytes_max: u64) -> Settings {
    Settings {
        superseded_bytes_max: bytes_max,
        merge_fan_in: 2,
        ..keeping()
    }
}

fn settle(instance: &Instance) {
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
}

fn is_shortened(instance: &Instance) -> bool {
    let kept = Duration::from_micros(instance.status().superseded.kept_micros);
    kept < instance.settings().retention
}

/// What the files of the folder take beyond those that the newest answers need.
fn beyond_the_newest(instance: &Instance, store: &MemoryStore) -> u64 {
    let manifest = instance.manifest();
    let current = manifest.current_runs();
    let mut newest = manifest.as_ref().clone();
    newest.runs.retain(|id, _| current.contains(id));
    let needed: Vec<&str> = files_of(&newest).collect();
    let listed = block_on(store.list("segments/")).unwrap();
    let others = listed
        .iter()
        .filter(|(file, _)| !needed.contains(&file.as_str()));
    others.map(|(_, bytes)| bytes).sum()
}

#[test]
fn the_past_goes_from_its_oldest_end_where_it_takes_too_much() {
    let store = MemoryStore::without_history();
    let instance = open(Arc::new(store.clone()), bounded(BOUND)).unwrap();
    let table = create(&instance, "t");
    let view = create_view(&instance, &table);
    let mut model = Model::default();
    let mut past: Vec<(ScuNumber, Model)> = Vec::new();
    let mut after = 0;
    for round in 0.. {
        assert!(round < 2_000, "{:?}", instance.status().superseded);
        commit(&instance, &[(&table, &batch(round))]).unwrap();
        model.apply(&batch(round));
        past.push((block_on(instance.seal()).unwrap(), model.clone()));
        if round % 4 == 3 {
            settle(&instance);
        }
        // It goes on for a while under the bound.
        after += u64::from(is_shortened(&instance));
        if after > 40 {
            break;
        }
    }
    settle(&instance);
    wait_for(&instance, "what may stay of the past", |instance| {
        instance.status().superseded.bytes <= BOUND
    });
    wait_for(&instance, "files that nobody names", |instance| {
        beyond_the_newest(instance, &store) <= BOUND
    });
    let troubles = instance.status().troubles;
    let told = troubles
        .iter()
        .filter(|told| told.message.contains("retention is shortened"));
    assert_eq!(told.map(|told| told.times).sum::<u64>(), 1, "{troubles:?}");
    let (mut exact, mut refused) = (0, 0);
    for (scu, state) in &past {
        let found = at(&instance, *scu).and_then(|snapshot| {
            let rows = scan(&snapshot, &table)?;
            Ok((rows, shown(&snapshot, &view)?))
        });
        match found {
            Ok((rows, of_view)) => {
                assert_eq!(rows, state.rows(), "SCU {scu}");
                if let Some(of_view) = of_view {
                    assert_eq!(of_view, entries(state), "the view at SCU {scu}");
                }
                exact += 1;
            }
            Err(error) => {
                assert_eq!(error.sqlstate(), "72000", "SCU {scu}: {error}");
                refused += 1;
            }
        }
    }
    assert!(exact > 0 && refused > 0, "{exact} exact, {refused} refused");
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows, model.rows());
    close_whole(&instance);
}

/// Whatever lags behind: stages that stand keep what they and best effort need.
#[test]
fn with_nothing_for_the_past_the_newest_answers_are_there() {
    let instance = open(Arc::new(MemoryStore::without_history()), bounded(0)).unwrap();
    let table = create(&instance, "t");
    let other = create(&instance, "other");
    let view = create_view(&instance, &table);
    let mut model = Model::default();
    for round in 0..60 {
        let standing = match round / 4 % 4 {
            0 => vec![StageName::Authority],
            1 => vec![StageName::Merge, StageName::Authority],
            2 => vec![StageName::Sort],
            _ => Vec::new(),
        };
        pause(&instance, &standing);
        let changes = batch(round);
        let parts: [(&Arc<Table>, &[Change]); 2] = [(&table, &changes), (&other, &changes)];
        commit(&instance, &parts[..1 + usize::from(round % 3 == 0)]).unwrap();
        model.apply(&changes);
        block_on(instance.seal()).unwrap();
        for freshness in [Freshness::ZERO, Freshness::BestEffort] {
            let snapshot = fresh(&instance, freshness);
            let rows = scan(&snapshot, &table).unwrap();
            scan(&snapshot, &other).unwrap();
            let of_view = shown(&snapshot, &view).unwrap();
            if freshness == Freshness::ZERO {
                assert_eq!(rows, model.rows(), "round {round}");
                assert_eq!(of_view, Some(entries(&model)), "the view in round {round}");
            }
        }
        if standing.is_empty() {
            settle(&instance);
        }
    }
    pause(&instance, &[]);
    settle(&instance);
    // All rounds together come to some hundred KiB.
    wait_for(&instance, "a past that is gone", |instance| {
        instance.status().superseded.bytes < 16 << 10
    });
    close_whole(&instance);
}
