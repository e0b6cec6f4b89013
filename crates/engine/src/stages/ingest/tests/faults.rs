//! The store fails: nothing acknowledged is lost, nothing else is said than what is known, and
//! service goes on when the store does.

use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use lazybase_model::{ErrorKind, Horizon, ScuNumber};

use super::world::{
    World, ids_of, keyed, no_manifest, read_scu, seal_in, small, store_of, upserts,
};
use crate::env::faults::{Fault, Faults, FaultyStore, Operation, Rule};
use crate::env::memory::{MemoryStore, Unsynced};
use crate::env::{Env, Store};
use crate::manifest::state::Manifest;
use crate::stages::ingest::IngestOptions;
use crate::stages::ingest::frame::log_name;

fn faulty(options: IngestOptions) -> (World, Faults) {
    let test = Env::test(5);
    let faults = Faults::none();
    let store = FaultyStore::over(Arc::clone(&test.env.store), faults.clone());
    let env = Env {
        store: Arc::new(store),
        ..test.env.clone()
    };
    (
        World::open_env(test, env, &no_manifest(), options).unwrap(),
        faults,
    )
}

/// What is there after the power went now.
fn after_crash(store: &MemoryStore, unsynced: Unsynced) -> Vec<i64> {
    let image = store.crash_image(store.operations(), unsynced);
    let world = World::open(Env::test_over(6, image), &no_manifest(), small()).unwrap();
    world.ids()
}

const IMAGES: [Unsynced; 4] = [
    Unsynced::Nothing,
    Unsynced::Everything,
    Unsynced::Prefix(3),
    Unsynced::Scattered(3),
];

#[test]
fn a_failed_sync_moves_the_group_to_a_fresh_file() {
    for fault in [Fault::HappensAnyway, Fault::Lost] {
        let (world, faults) = faulty(small());
        world.upload([1], 5).unwrap();
        faults.add(Rule::nth(Operation::LogSync, 1, fault));
        let batches = [2, 3].map(|id| world.write(vec![(keyed(1), upserts([id], 5))]).unwrap());
        for (index, answer) in world.commit_all(batches.into()).into_iter().enumerate() {
            let horizon = Horizon::inside(ScuNumber(1), index as u32 + 2);
            assert_eq!(answer.unwrap().horizon, horizon);
        }
        assert!(world.ingest.status().last_failure.is_some());
        world.upload([4], 5).unwrap();
        assert_eq!(world.ids(), vec![1, 2, 3, 4]);
        let files: Vec<u64> = {
            let batches = world.ingest.open_scu().prefix(4);
            batches.iter().map(|batch| batch.commit.file).collect()
        };
        assert!(files[0] != files[1] && files[1] == files[3], "{files:?}");
        for unsynced in IMAGES {
            assert_eq!(after_crash(&world.test.store, unsynced), vec![1, 2, 3, 4]);
        }
    }
}

/// An idle database removes later what the store fails to remove.
#[test]
fn files_that_could_not_be_removed_go_later() {
    for operation in [Operation::Delete, Operation::CreateLog] {
        for fault in [Fault::HappensAnyway, Fault::Refused { full: false }] {
            let (world, faults) = faulty(small());
            world.upload([1], 5).unwrap();
            let dropped = world.write(vec![(keyed(1), upserts(1_000..3_000, 40))]);
            world.spawner.run();
            drop(dropped);
            world.spawner.run();
            let files = || block_on(store_of(&world).list("log/")).unwrap().len();
            let many = files();
            assert!(many > 8, "{many}");
            faults.add(Rule::nth(operation, 2, fault));
            let sealed = world.seal();
            world.ingest.forget_through(sealed);
            world.ingest.retire(vec![sealed]);
            world.spawner.run();
            world.test.clock.advance(Duration::from_secs(2));
            world.spawner.run();
            assert!(
                files() <= 6,
                "{operation:?}, {fault:?}: {} of {many}",
                files()
            );
        }
    }
}

/// After an opening a file leaves under another name, for others wait until it is gone for good:
/// where that is in doubt they go all the same, also while nobody writes.
#[test]
fn files_that_left_in_doubt_hold_up_no_others() {
    for fault in [
        Fault::HappensAnyway,
        Fault::Lost,
        Fault::Refused { full: false },
    ] {
        let mut world = World::new(small());
        world.upload([1], 5).unwrap();
        let dropped = world.write(vec![(keyed(1), upserts(1_000..3_000, 40))]);
        world.spawner.run();
        drop(dropped);
        world.seal();
        let mut manifest = no_manifest();
        seal_in(&mut manifest, &world.sealed.try_recv().unwrap());
        manifest.sorted_through = manifest.sealed_through;
        manifest.scus.clear();
        let image = store_of(&world).crash_image(store_of(&world).operations(), IMAGES[1]);
        let test = Env::test_over(6, image);
        let faults = Faults::none();
        let leaves = |n| Rule::nth(Operation::CreateLog, n, fault).named("0000000000000000.log");
        faults.add(leaves(2));
        let env = Env {
            store: Arc::new(FaultyStore::over(Arc::clone(&test.env.store), faults)),
            ..test.env.clone()
        };
        let world = World::open_env(test, env, &manifest, small()).unwrap();
        world.spawner.run();
        let files = || block_on(store_of(&world).list("log/")).unwrap().len();
        assert!(
            files() > 8,
            "nothing was in doubt: {} files are left",
            files()
        );
        world.test.clock.advance(Duration::from_secs(2));
        world.spawner.run();
        assert!(files() <= 6, "{fault:?}: {}", files());
    }
}

/// Opens what a power cut leaves after this operation of a store, and after each one since.
fn opens_everywhere(store: &MemoryStore, since: usize, manifest: &Manifest) {
    for moment in since..=store.operations() {
        for unsynced in IMAGES {
            let image = store.crash_image(moment, unsynced);
            let opened = World::open(Env::test_over(7, image), manifest, small());
            if let Err(error) = opened {
                let operation = store.describe(moment);
                panic!("after operation {moment}, {operation:?}, {unsynced:?}: {error}");
            }
        }
    }
}

/// Of two files that were made ready the first was taken and never begun: the second names it, and
/// it stays as long as that one says so, whoever removes them (LOG-7).
#[test]
fn a_file_that_was_taken_and_not_begun_goes_after_the_one_that_names_it() {
    let (mut world, faults) = faulty(small());
    world.upload([1], 5).unwrap();
    let sealed = world.seal();
    let mut manifest = no_manifest();
    seal_in(&mut manifest, &world.sealed.try_recv().unwrap());
    manifest.sorted_through = sealed;
    manifest.scus.clear();
    world.ingest.forget_through(sealed);
    world.ingest.retire(vec![sealed]);
    world.spawner.run();
    for number in [1, 2] {
        faults.add(Rule::every(Operation::LogSync, Fault::Lost).named(&log_name(number)));
    }
    let error = world.upload([2], 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MaybeHappened);
    world.spawner.run();
    faults.clear();
    let store = store_of(&world).clone();
    let failed = store.operations();
    let listed = block_on(store.list("log/")).unwrap();
    let names: Vec<String> = listed.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [1, 2, 3].map(log_name));
    // This life takes the third, and needs neither of the others any more.
    world.upload([3], 5).unwrap();
    world.spawner.run();
    opens_everywhere(&store, failed, &manifest);
    // The next one needs none of them.
    let image = store.crash_image(failed, Unsynced::Nothing);
    let next = World::open(Env::test_over(6, image), &manifest, small()).unwrap();
    next.spawner.run();
    opens_everywhere(store_of(&next), 0, &manifest);
    let files = block_on(store_of(&next).list("log/")).unwrap();
    assert_eq!(files.len(), 1, "{files:?}");
}

#[test]
fn a_write_that_may_have_happened_moves_the_group_too() {
    for fault in [Fault::HappensAnyway, Fault::Lost, Fault::Torn] {
        let (world, faults) = faulty(small());
        world.upload([1], 5).unwrap();
        faults.add(Rule::nth(Operation::LogWrite, 1, fault));
        world.upload([2], 5).unwrap();
        world.upload([3], 5).unwrap();
        for unsynced in IMAGES {
            assert_eq!(after_crash(&world.test.store, unsynced), vec![1, 2, 3]);
        }
    }
}

#[test]
fn when_the_fresh_file_fails_too_the_batch_may_have_happened_and_later_ones_go_on() {
    let (world, faults) = faulty(small());
    world.upload([1], 5).unwrap();
    faults.add(Rule::every(Operation::LogSync, Fault::HappensAnyway));
    let error = world.upload([2], 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MaybeHappened);
    assert_eq!(world.ids(), vec![1], "nobody reads what is not durable");
    for unsynced in IMAGES {
        let found = after_crash(&world.test.store, unsynced);
        assert!(found == vec![1] || found == vec![1, 2], "{found:?}");
    }
    faults.clear();
    let answer = world.upload([3], 5).unwrap();
    assert_eq!(answer.horizon, Horizon::inside(ScuNumber(1), 2));
    for unsynced in IMAGES {
        assert_eq!(
            after_crash(&world.test.store, unsynced),
            vec![1, 3],
            "it can't be any more"
        );
    }
}

/// A boundary is seen by readers: a batch that may come back must not come back before it.
#[test]
fn nothing_is_sealed_while_the_end_of_the_log_is_in_doubt() {
    let (world, faults) = faulty(small());
    world.upload([1], 5).unwrap();
    faults.add(Rule::every(Operation::LogSync, Fault::HappensAnyway));
    let error = world.upload([2], 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MaybeHappened);
    let (sealing, holding) = (world.ingest.clone(), world.ingest.clone());
    let sealed = world.run(async move { sealing.seal().await });
    assert_eq!(sealed.unwrap_err().kind(), ErrorKind::Unavailable);
    let held = world.run(async move { holding.seal_and_hold("a test".to_owned()).await });
    assert_eq!(held.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(!world.ingest.open_scu().is_sealed());
    faults.clear();
    assert_eq!(world.seal(), ScuNumber(1));
    for unsynced in IMAGES {
        let found = after_crash(&world.test.store, unsynced);
        assert_eq!(found, vec![1], "the SCU is sealed without it");
    }
    world.upload([3], 5).unwrap();
    assert_eq!(
        after_crash(&world.test.store, Unsynced::Nothing),
        vec![1, 3]
    );
}

#[test]
fn a_full_disk_refuses_batches_until_there_is_space() {
    let (world, faults) = faulty(small());
    world.upload([1], 5).unwrap();
    let open = world
        .write(vec![(keyed(1), upserts(1000..1010, 40))])
        .unwrap();
    faults.limit_space(0);
    let mut refused = 0;
    for id in 2..40 {
        match world.upload([id * 100], 1000) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(
                    (error.kind(), error.sqlstate()),
                    (ErrorKind::Unavailable, "53100")
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 10, "{refused}");
    let before = world.ids();
    faults.lift_space_limit();
    world.upload([7], 5).unwrap();
    world.commit(open).unwrap();
    let expected: Vec<i64> = before.into_iter().chain([7]).chain(1000..1010).collect();
    assert_eq!(world.ids(), expected);
    for unsynced in IMAGES {
        assert_eq!(after_crash(&world.test.store, unsynced), expected);
    }
}

#[test]
fn a_refused_write_fails_its_batch_and_no_other() {
    let (world, faults) = faulty(small());
    world.upload([1], 5).unwrap();
    for full in [true, false] {
        faults.add(Rule::nth(Operation::LogWrite, 1, Fault::Refused { full }));
        let error = world.upload([2], 5).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        faults.clear();
    }
    assert_eq!(
        world.upload([3], 5).unwrap().horizon,
        Horizon::inside(ScuNumber(1), 2)
    );
    for unsynced in IMAGES {
        assert_eq!(after_crash(&world.test.store, unsynced), vec![1, 3]);
    }
}

#[test]
fn a_large_batch_hears_at_once_that_a_frame_was_lost() {
    let (world, faults) = faulty(small());
    world.upload([1], 5).unwrap();
    let mut batch = world.write(vec![(keyed(1), upserts(0..200, 40))]).unwrap();
    faults.add(Rule::every(Operation::LogSync, Fault::Lost));
    let (error, batch) = world.run(async move {
        let mut error = None;
        for _ in 0..50 {
            if let Err(found) = batch.append(&keyed(1), upserts(0..200, 40)).await {
                error = Some(found);
                break;
            }
            futures::pending!();
        }
        (error, batch)
    });
    assert_eq!(
        error.expect("an append fails").kind(),
        ErrorKind::Unavailable
    );
    faults.clear();
    assert_eq!(
        world.commit(batch).unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    world.upload([2], 5).unwrap();
    assert_eq!(world.ids(), vec![1, 2]);
}

#[test]
fn a_log_file_that_is_gone_is_named() {
    let mut world = World::new(small());
    world.upload(0..400, 40).unwrap();
    world.upload(0..400, 40).unwrap();
    world.seal();
    let mut manifest = no_manifest();
    while let Ok(sealed) = world.sealed.try_recv() {
        seal_in(&mut manifest, &sealed);
    }
    for manifest in [no_manifest(), manifest] {
        let store = world.test.store.clone();
        let image = store.crash_image(store.operations(), Unsynced::Everything);
        let listed = futures::executor::block_on(crate::env::Store::list(&image, "log/")).unwrap();
        let mut silent = 0;
        let files = listed.len();
        for (name, _) in listed {
            let image = store.crash_image(store.operations(), Unsynced::Everything);
            futures::executor::block_on(crate::env::Store::delete(&image, &name)).unwrap();
            let opened = World::open(Env::test_over(6, image), &manifest, small());
            let found = opened.and_then(|world| {
                let scus = world.ingest.unsorted().to_vec();
                let read = |scu| read_scu(&world.env, scu, &keyed(1));
                let ids = scus
                    .iter()
                    .map(|scu| read(scu).map(|changes| ids_of(&changes)));
                ids.collect::<Result<Vec<_>, _>>()
            });
            match found {
                // The newest file is missed only where the manifest names what it held.
                Ok(found) => {
                    let (found, all) = (found.concat(), world.ids());
                    let lost = manifest.scus.is_empty() && all.starts_with(&found);
                    assert!(found == all || lost, "{name}: {} rows", found.len());
                    silent += 1;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
            }
        }
        assert!(silent <= 2 && files > 5, "{silent} of {files} files");
    }
}

/// A file that could not be made keeps no other one: neither the file that it would have followed,
/// nor the one that it would have been made of, nor itself where it is there after all.
#[test]
fn a_log_file_that_could_not_be_made_leaves_nothing_behind() {
    const ROUNDS: i64 = 12;
    for fault in [
        Fault::Refused { full: true },
        Fault::HappensAnyway,
        Fault::Lost,
    ] {
        let (world, faults) = faulty(small());
        for round in 0..ROUNDS {
            faults.add(Rule::every(Operation::CreateLog, fault));
            // The first fills the file that is there, the next ones find none.
            for id in 0..8 {
                let _ = world.upload([round * 100 + id], 3000);
            }
            faults.clear();
            world.upload([round * 100 + 99], 3000).unwrap();
            let sealed = world.seal();
            world.ingest.forget_through(sealed);
            world.ingest.retire((1..=sealed.0).map(ScuNumber).collect());
            world.spawner.run();
        }
        // Some more files, so that all that happened is behind.
        for id in 0..20 {
            world.upload([10_000 + id], 3000).unwrap();
        }
        let sealed = world.seal();
        world.ingest.forget_through(sealed);
        world.ingest.retire((1..=sealed.0).map(ScuNumber).collect());
        world.upload([20_000], 6000).unwrap();
        world.spawner.run();
        let files = futures::executor::block_on(world.test.store.list("log/")).unwrap();
        // Those that are kept to be written again, the current and the next one.
        assert!(files.len() <= 4 + 2 + 1, "{fault:?}: {files:?}");
        let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        let known = world.ingest.status().log_bytes_kept;
        assert!(bytes <= known + small().log_file_bytes, "{bytes}, {known}");
    }
}
