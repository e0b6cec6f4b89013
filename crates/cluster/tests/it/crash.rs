//! Power cuts after any operation of the store: what was acknowledged is there, whole; what was
//! not is there whole or not at all.

use std::sync::Arc;

use futures::executor::block_on;
use lazybase_cluster::SettleTo;
use lazybase_engine::env::memory::{MemoryStore, Unsynced};
use lazybase_model::Freshness;

use crate::harness::{Change, close_whole, commit, create, fresh, open, scan, settings};
use crate::model::Model;

/// After how many store operations each prefix of the batches was acknowledged.
fn write_story(store: &MemoryStore) -> Vec<(usize, Model)> {
    let instance = open(Arc::new(store.clone()), settings()).unwrap();
    let table = create(&instance, "t");
    let mut model = Model::default();
    let mut acknowledged = vec![(store.operations(), model.clone())];
    for round in 0..12_i64 {
        let batch: Vec<Change> = (0..20)
            .map(|at| match (round + at) % 4 {
                0 => Change::Delete(at),
                1 => Change::Update(at, Some(round)),
                _ => Change::Upsert((at, Some(round), Some(format!("round {round}")))),
            })
            .collect();
        commit(&instance, &[(&table, &batch)]).unwrap();
        model.apply(&batch);
        acknowledged.push((store.operations(), model.clone()));
        if round % 4 == 3 {
            block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        } else if round % 2 == 1 {
            block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
        }
    }
    block_on(instance.close()).unwrap();
    acknowledged
}

#[test]
fn every_prefix_of_the_stores_operations_opens_to_a_correct_state() {
    let store = MemoryStore::new();
    let acknowledged = write_story(&store);
    let operations = store.operations();
    let stride = if std::env::var("LAZYBASE_EVERY_CASE").is_ok() {
        1
    } else {
        7
    };
    for cut in (acknowledged[0].0..operations).step_by(stride) {
        for unsynced in [Unsynced::Nothing, Unsynced::Prefix(cut as u64)] {
            let image = store.crash_image(cut, unsynced);
            let instance = open(Arc::new(image), settings()).unwrap();
            let table = instance.table("t").unwrap();
            let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
            let sure = acknowledged
                .iter()
                .rposition(|(after, _)| *after <= cut)
                .unwrap();
            let possible = &acknowledged[sure..acknowledged.len().min(sure + 2)];
            assert!(
                possible.iter().any(|(_, model)| model.rows() == rows),
                "after operation {cut} ({:?})",
                store.describe(cut),
            );
            close_whole(&instance);
        }
    }
}
