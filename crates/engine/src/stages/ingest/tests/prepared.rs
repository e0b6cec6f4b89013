//! Batches that come with DDL: durable first, there once the manifest names them.

use std::sync::Arc;
use std::time::Duration;

use lazybase_model::{ErrorKind, Horizon, SchemaVersion, ScuNumber};

use super::world::{World, keyed, no_manifest, seal_in, small, upserts};
use crate::env::Env;
use crate::env::faults::{Fault, Faults, FaultyStore, Operation, Rule};
use crate::env::memory::Unsynced;
use crate::manifest::state::{DdlBatch, Manifest};
use crate::read::freshness::Acks;
use crate::read::summary;
use crate::stages::ingest::{AfterHold, BatchNumber, BatchWriter, Hold, Prepared, TableVersions};

fn batch(world: &World, id: i64) -> BatchWriter {
    world.write(vec![(keyed(1), upserts([id], 5))]).unwrap()
}

fn prepared(world: &World, id: i64, number: u64) -> (Hold, Prepared) {
    let (hold, prepared) = world.prepare(world.hold(), batch(world, id), number);
    (hold, prepared.unwrap())
}

fn named(scu: u64, number: u64) -> Manifest {
    Manifest {
        ddl_batch: Some(DdlBatch {
            scu: ScuNumber(scu),
            number,
        }),
        ..no_manifest()
    }
}

#[test]
fn nobody_reads_a_batch_before_it_is_published_and_it_comes_first() {
    let world = World::new(small());
    world.upload([1], 5).unwrap();
    let (hold, prepared) = prepared(&world, 2, 77);
    assert_eq!(world.ids(), vec![1]);
    let later = batch(&world, 3);
    let ingest = world.ingest.clone();
    let committed = Arc::new(parking_lot::Mutex::new(None));
    let heard = Arc::clone(&committed);
    let commit = async move { *heard.lock() = Some(later.commit().await) };
    world.env.spawner.spawn("writer", Box::pin(commit));
    world.spawner.run();
    assert!(committed.lock().is_none(), "commits wait for the hold");
    let done = prepared.publish();
    assert_eq!(done.horizon, Horizon::inside(ScuNumber(2), 1));
    assert_eq!((done.rows, ingest.open_scu().ddl_batch()), (1, Some(77)));
    assert_eq!(world.ids(), vec![1, 2]);
    drop(hold);
    world.spawner.run();
    let later = committed.lock().take().unwrap().unwrap();
    assert_eq!(later.horizon, Horizon::inside(ScuNumber(2), 2));
    assert!(later.ack_micros >= done.ack_micros);
    assert_eq!(world.seal(), ScuNumber(2));
    assert_eq!(world.ids(), vec![1, 2, 3]);
}

/// It may have been read before the crash, and was never to change.
#[test]
fn the_time_of_an_scu_outlives_a_crash() {
    let mut world = World::new(small());
    let (hold, prepared) = prepared(&world, 1, 7);
    world.test.clock.advance(Duration::from_millis(50));
    let done = prepared.publish();
    drop(hold);
    let open = world.ingest.open_scu();
    let written = open.first_written_micros();
    assert!(written.unwrap() < done.ack_micros);
    // The boundary before it is as of the same moment, which decides about rows that end.
    let Acks::Each(times) = summary(&open).acks else {
        panic!("each batch is known");
    };
    assert_eq!(times.first().copied(), written);
    let store = &world.test.store;
    let image = store.crash_image(store.operations(), Unsynced::Everything);
    let again = World::open(Env::test_over(2, image), &named(1, 7), small()).unwrap();
    assert_eq!(Some(again.recovered[0].time.first_ack_micros), written);
    world.seal();
    let sealed = world.sealed.try_recv().unwrap();
    assert_eq!(Some(sealed.time.first_ack_micros), written);
    assert_eq!(sealed.time.last_ack_micros, done.ack_micros);
}

#[test]
fn a_batch_that_is_given_up_leaves_its_place_to_the_next() {
    let world = World::new(small());
    let (hold, given_up) = prepared(&world, 1, 7);
    drop(given_up);
    drop(hold);
    assert_eq!(
        world.upload([2], 5).unwrap().horizon,
        Horizon::inside(ScuNumber(1), 1)
    );
    let (hold, kept) = prepared(&world, 3, 8);
    kept.publish();
    drop(hold);
    assert_eq!(world.ids(), vec![2, 3]);
    // Frames that are not named stand before and between those that are.
    let store = &world.test.store;
    let image = store.crash_image(store.operations(), Unsynced::Everything);
    let mut manifest = no_manifest();
    let first = World::open(Env::test_over(2, image.clone()), &manifest, small()).unwrap();
    assert_eq!(first.ids(), vec![2]);
    seal_in(&mut manifest, &first.recovered[0]);
    manifest.ddl_batch = named(2, 8).ddl_batch;
    let both = World::open(Env::test_over(3, image), &manifest, small()).unwrap();
    assert_eq!(both.ids(), vec![2, 3]);
    assert_eq!(both.recovered[0].entry.ddl_batch, Some(8));
    // The sealed SCU's log says the same as recovery did.
    seal_in(&mut manifest, &both.recovered[0]);
    assert_eq!(both.reopen(&manifest).unwrap().ids(), vec![2, 3]);
}

#[test]
fn a_manifest_that_names_a_batch_which_is_not_there_is_damage() {
    let world = World::new(small());
    let (_hold, _prepared) = prepared(&world, 1, 7);
    let store = &world.test.store;
    let image = store.crash_image(store.operations(), Unsynced::Everything);
    for (number, there) in [(7, true), (8, false)] {
        let test = Env::test_over(2, image.clone());
        match World::open(test, &named(1, number), small()) {
            Ok(world) => assert!(there && world.ids() == [1]),
            Err(error) => assert!(!there && error.kind() == ErrorKind::Corrupt, "{error}"),
        }
    }
}

#[test]
fn a_batch_for_another_version_of_a_table_is_not_prepared() {
    let world = World::new(small());
    let mut table = keyed(2).as_ref().clone();
    table.version = SchemaVersion(9);
    let other = world.write(vec![(Arc::new(table), upserts([1], 5))]);
    let (hold, prepared) = world.prepare(world.hold(), other.unwrap(), 7);
    assert_eq!(prepared.unwrap_err().kind(), ErrorKind::Conflict);
    let number = BatchNumber {
        name: "loader".to_owned(),
        epoch: 0,
        number: 1,
    };
    let numbered = world.write_as(Some(number), vec![(keyed(1), upserts([1], 5))]);
    let (hold, prepared) = world.prepare(hold, numbered.unwrap(), 7);
    assert_eq!(prepared.unwrap_err().kind(), ErrorKind::Invalid);
    hold.release(AfterHold {
        tables: Arc::new(TableVersions::new([&*keyed(1)])),
        sealed_through: ScuNumber::ZERO,
    });
    assert_eq!(world.upload([1], 5).unwrap().rows, 1);
    assert_eq!(world.ids(), vec![1]);
}

/// Whatever becomes of the write: nothing names the frame, so the batch certainly is not there.
#[test]
fn a_log_that_fails_refuses_the_batch_for_certain() {
    for operation in [Operation::LogWrite, Operation::LogSync] {
        let test = Env::test(5);
        let faults = Faults::none();
        let store = FaultyStore::over(Arc::clone(&test.env.store), faults.clone());
        let env = Env {
            store: Arc::new(store),
            ..test.env.clone()
        };
        let world = World::open_env(test, env, &no_manifest(), small()).unwrap();
        world.upload([1], 5).unwrap();
        let (hold, batch) = (world.hold(), batch(&world, 2));
        faults.add(Rule::every(operation, Fault::HappensAnyway));
        let (hold, refused) = world.prepare(hold, batch, 7);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
        faults.clear();
        drop(hold);
        world.upload([3], 5).unwrap();
        assert_eq!(world.ids(), vec![1, 3]);
        let store = &world.test.store;
        for unsynced in [Unsynced::Nothing, Unsynced::Everything] {
            let image = store.crash_image(store.operations(), unsynced);
            let again = World::open(Env::test_over(2, image), &no_manifest(), small()).unwrap();
            assert_eq!(again.ids(), vec![1, 3]);
        }
    }
}

/// A session that wrote nothing meanwhile must not wait for batches that may never come.
#[test]
fn an_empty_batch_stands_before_an_scu_that_is_reserved() {
    let world = World::new(small());
    world.upload([1], 5).unwrap();
    let (ingest, hold) = (world.ingest.clone(), world.hold());
    let (hold, reserved) = world.run(async move {
        let reserved = ingest.reserve(&hold).await;
        (hold, reserved)
    });
    reserved.unwrap();
    let nothing = world.write(Vec::new()).unwrap();
    let nothing = world.commit(nothing).unwrap().horizon;
    assert_eq!(nothing, Horizon::end_of(ScuNumber(1)));
    assert_eq!(world.ingest.horizon(), nothing);
    // The transaction is given up: the SCU takes the next batch, which the token does not have.
    drop(hold);
    let next = world.upload([2], 5).unwrap().horizon;
    assert_eq!(next, Horizon::inside(ScuNumber(2), 1));
    assert!(nothing < next);
}
