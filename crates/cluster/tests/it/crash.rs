//! Power cuts after any operation of the store: what was acknowledged is there, whole; what was
//! not is there whole or not at all.

use std::sync::Arc;

use futures::executor::block_on;
use lazybase_cluster::{Settings, SettleTo};
use lazybase_engine::env::Store;
use lazybase_engine::env::memory::{MemoryStore, Unsynced};
use lazybase_model::Freshness;

use crate::harness::{Change, close_whole, commit, create, fresh, open, scan, settings};
use crate::model::Model;

/// Writes batches, and runs stages between them; what was acknowledged, with what `operations` said
/// then.
pub(crate) fn write_story(
    store: Arc<dyn Store>,
    settings: Settings,
    operations: impl Fn() -> usize,
) -> Vec<(usize, Model)> {
    let instance = open(store, settings).unwrap();
    let table = create(&instance, "t");
    let mut model = Model::default();
    let mut acknowledged = vec![(operations(), model.clone())];
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
        acknowledged.push((operations(), model.clone()));
        if round % 4 == 3 {
            block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
        } else if round % 2 == 1 {
            block_on(instance.settle(None, SettleTo::Sorted, &|_| {})).unwrap();
        }
    }
    block_on(instance.close()).unwrap();
    acknowledged
}

/// Opens what a power cut left after so many operations; what is wrong with it, if anything is.
pub(crate) fn open_image(
    image: Arc<dyn Store>,
    settings: Settings,
    acknowledged: &[(usize, Model)],
    cut: usize,
) -> Result<(), String> {
    let instance = open(image, settings).map_err(|error| error.to_string())?;
    let table = instance.table("t");
    let rows = table.and_then(|table| scan(&fresh(&instance, Freshness::ZERO), &table));
    let sure = acknowledged.iter().rposition(|(after, _)| *after <= cut);
    let sure = sure.expect("the table was acknowledged before the first cut");
    let possible = &acknowledged[sure..acknowledged.len().min(sure + 2)];
    let wrong = match rows {
        Ok(rows) if possible.iter().any(|(_, model)| model.rows() == rows) => None,
        Ok(rows) => Some(format!("of {sure} acknowledged batches it has {rows:?}")),
        Err(error) => Some(error.to_string()),
    };
    match wrong {
        None => close_whole(&instance),
        Some(_) => drop(block_on(instance.close())),
    }
    wrong.map_or(Ok(()), Err)
}

#[test]
fn every_prefix_of_the_stores_operations_opens_to_a_correct_state() {
    let store = MemoryStore::new();
    let acknowledged = write_story(Arc::new(store.clone()), settings(), || store.operations());
    let operations = store.operations();
    let stride = if std::env::var("LAZYBASE_EVERY_CASE").is_ok() {
        1
    } else {
        7
    };
    for cut in (acknowledged[0].0..operations).step_by(stride) {
        for unsynced in [Unsynced::Nothing, Unsynced::Prefix(cut as u64)] {
            let image = Arc::new(store.crash_image(cut, unsynced));
            let opened = open_image(image, settings(), &acknowledged, cut);
            assert_eq!(opened, Ok(()), "after {cut} ({:?})", store.describe(cut));
        }
    }
}
