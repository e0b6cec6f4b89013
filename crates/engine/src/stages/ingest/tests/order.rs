//! Order, visibility, sealing, holds, producers, limits.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, BinaryArray, FixedSizeBinaryArray, RecordBatch, StringArray};
use lazybase_model::change::StoredKind;
use lazybase_model::{Error, ErrorKind, Horizon, SchemaVersion, ScuNumber};
use proptest::prelude::*;

use super::world::{
    World, ids_of, keyed, keyless, mixed, names, no_manifest, seal_in, small, store_of, upserts,
};
use crate::change_batch::{ChangeBatch, Kinds};
use crate::env::memory::Unsynced;
use crate::env::{Env, Store};
use crate::stages::ingest::frame::FILE_HEADER_BYTES;
use crate::stages::ingest::{
    AfterHold, BatchNumber, HeldBack, IngestOptions, LogCompression, TableVersions,
};

#[test]
fn a_batch_is_visible_once_it_is_acknowledged_and_stands_by_its_commit() {
    let world = World::new(small());
    let early = world.write(vec![(keyed(1), upserts(0..200, 40))]).unwrap();
    assert_eq!(
        world.upload([1000], 5).unwrap().horizon,
        Horizon::inside(ScuNumber(1), 1)
    );
    assert_eq!(world.seal(), ScuNumber(1));
    assert_eq!(
        world.upload([1001], 5).unwrap().horizon,
        Horizon::inside(ScuNumber(2), 1)
    );
    let late = world.commit(early).unwrap();
    assert_eq!(late.horizon, Horizon::inside(ScuNumber(2), 2));
    assert_eq!(late.rows, 200);
    let expected: Vec<i64> = [1000, 1001].into_iter().chain(0..200).collect();
    assert_eq!(world.ids(), expected);
    let open = world.ingest.open_scu();
    let prefix = open.prefix(1);
    assert_eq!(prefix.len(), 1);
    let table = keyed(1);
    let read = open.read_table(&*world.env.store, &table, 1);
    assert_eq!(
        ids_of(&futures::executor::block_on(read).unwrap()),
        vec![1001]
    );
}

#[test]
fn a_dropped_batch_leaves_nothing_and_frees_its_files() {
    let world = World::new(small());
    for _ in 0..20 {
        drop(world.write(vec![(keyed(1), upserts(0..400, 40))]).unwrap());
        world.upload([7], 5).unwrap();
    }
    assert_eq!(world.ids(), vec![7; 20]);
    // They lie between batches that the manifest does not have: recovery walks over them.
    let files = || {
        futures::executor::block_on(store_of(&world).list("log/"))
            .unwrap()
            .len()
    };
    let before = files();
    let sealed = world.seal();
    world.ingest.forget_through(sealed);
    world.ingest.retire((1..=sealed.0).map(ScuNumber).collect());
    world.spawner.run();
    assert!(files() < before / 4, "{} of {before} files", files());
}

#[test]
fn batches_over_tables_keep_kinds_and_get_hidden_keys() {
    for compression in [LogCompression::None, LogCompression::Lz4] {
        for memory_bytes in [0, 1 << 20] {
            let world = World::new(IngestOptions {
                compression,
                memory_bytes,
                ..small()
            });
            let first = vec![
                (keyed(1), mixed(10)),
                (keyless(3), names(&["a", "b"])),
                (keyed(2), upserts([5], 300)),
            ];
            world.commit(world.write(first).unwrap()).unwrap();
            let second = vec![(keyless(3), names(&["c"])), (keyless(3), names(&["d"]))];
            world.commit(world.write(second).unwrap()).unwrap();
            let read = world.read(&keyed(1));
            assert_eq!(read.len(), 1);
            assert_eq!(read[0].kind(1), StoredKind::DELETE);
            assert_eq!(read[0].scu(0), 1);
            assert!(read[0].data.column(1).is_null(1));
            let rows = keys_of(&world.read(&keyless(3)));
            let expected = ["a", "b", "c", "d"].iter().enumerate();
            let expected = expected.map(|(row, name)| ((*name).to_owned(), (1, row as u64)));
            assert_eq!(rows, expected.collect::<Vec<_>>());
            assert_eq!(ids_of(&world.read(&keyed(2))), vec![5]);
        }
    }
}

/// Names and hidden keys.
fn keys_of(changes: &[ChangeBatch]) -> Vec<(String, (u64, u64))> {
    let mut rows = Vec::new();
    for changes in changes {
        let names = changes.data.column(0).as_string::<i32>();
        let keys = changes.data.column(1).as_fixed_size_binary();
        for row in 0..changes.rows() {
            let key = keys.value(row);
            let half = |at: usize| u64::from_be_bytes(key[at..at + 8].try_into().unwrap());
            rows.push((names.value(row).to_owned(), (half(0), half(8))));
        }
    }
    rows
}

#[test]
fn a_delete_of_a_hidden_key_keeps_the_key_that_it_names() {
    let world = World::new(small());
    let key = FixedSizeBinaryArray::try_from_iter([[9u8; 16]].into_iter()).unwrap();
    let name = StringArray::from(vec![None::<&str>]);
    let data = RecordBatch::try_from_iter_with_nullable(vec![
        ("name", Arc::new(name) as _, true),
        ("_row", Arc::new(key) as _, true),
    ]);
    let mut delete = ChangeBatch::upserts(data.unwrap(), 0);
    delete.kinds = crate::change_batch::Kinds::Uniform(StoredKind::DELETE);
    let batch = vec![(keyless(3), names(&["new"])), (keyless(3), delete)];
    world.commit(world.write(batch).unwrap()).unwrap();
    let read = world.read(&keyless(3));
    assert_eq!(read.len(), 2);
    assert_eq!(
        read[1].data.column(1).as_fixed_size_binary().value(0),
        [9u8; 16]
    );
}

#[test]
fn the_open_scu_is_sealed_by_age_and_by_size_and_never_empty() {
    let mut world = World::new(small());
    assert_eq!(world.seal(), ScuNumber::ZERO);
    world.upload([1], 5).unwrap();
    world.test.clock.advance(Duration::from_millis(900));
    world.spawner.run();
    assert!(world.sealed.try_recv().is_err());
    world.upload([2], 5).unwrap();
    world.test.clock.advance(Duration::from_millis(100));
    world.spawner.run();
    let sealed = world.sealed.try_recv().unwrap();
    assert_eq!(
        (sealed.entry.scu, sealed.entry.batches, sealed.entry.rows),
        (ScuNumber(1), 2, 2)
    );
    assert!(sealed.time.first_ack_micros < sealed.time.last_ack_micros);
    assert_eq!(sealed.time.batches_through, 2);
    assert!(sealed.unsorted.is_sealed());
    world.test.clock.advance(Duration::from_secs(10));
    world.spawner.run();
    assert!(world.sealed.try_recv().is_err());
    world.upload(0..1000, 40).unwrap();
    assert_eq!(world.sealed.try_recv().unwrap().entry.rows, 1000);
    assert_eq!(world.ingest.horizon(), Horizon::end_of(ScuNumber(2)));
}

#[test]
fn an_empty_batch_is_acknowledged_and_writes_nothing() {
    let world = World::new(small());
    let empty = world.commit(world.write(Vec::new()).unwrap()).unwrap();
    assert_eq!((empty.horizon, empty.rows), (Horizon::ZERO, 0));
    world.upload([1], 5).unwrap();
    let operations = store_of(&world).operations();
    let again = world
        .commit(world.write(vec![(keyed(1), upserts([], 0))]).unwrap())
        .unwrap();
    assert_eq!(again.horizon, Horizon::inside(ScuNumber(1), 1));
    assert_eq!(store_of(&world).operations(), operations);
}

#[test]
fn a_group_of_many_batches_needs_one_sync() {
    let world = World::new(IngestOptions::default());
    world.upload([0], 5).unwrap();
    let before = store_of(&world).operations();
    let batches = (1..50).map(|id| world.write(vec![(keyed(1), upserts([id], 5))]).unwrap());
    let answers = world.commit_all(batches.collect());
    for (index, answer) in answers.into_iter().enumerate() {
        let horizon = Horizon::inside(ScuNumber(1), index as u32 + 2);
        assert_eq!(answer.unwrap().horizon, horizon);
    }
    assert_eq!(world.ids(), (0..50).collect::<Vec<i64>>());
    assert_eq!(
        store_of(&world).operations() - before,
        2,
        "one write and one sync"
    );
}

#[test]
fn a_hold_stops_commits_and_a_changed_table_refuses_them() {
    let world = World::new(small());
    world.upload([1], 5).unwrap();
    let old = world.write(vec![(keyed(1), upserts(0..300, 40))]).unwrap();
    let other = world.write(vec![(keyed(2), upserts([3], 5))]).unwrap();
    let ingest = world.ingest.clone();
    let hold = world
        .run(async move { ingest.seal_and_hold("a test".to_owned()).await })
        .unwrap();
    assert_eq!(hold.sealed_through(), ScuNumber(1));
    let commits = futures::future::join(old.commit(), other.commit());
    let mut changed = (*keyed(1)).clone();
    changed.version = SchemaVersion(2);
    let after = AfterHold {
        tables: Arc::new(TableVersions::new([&changed, &*keyed(2)])),
        sealed_through: hold.sealed_through(),
    };
    let release = async move { hold.release(after) };
    // The commits are sent first, and wait: whoever looks sees for what.
    let looking = (world.ingest.clone(), world.test.clock.clone());
    let seen = async move {
        let (ingest, clock) = looking;
        clock.advance(Duration::from_millis(1500));
        while ingest.status().waiting.len() < 2 {
            tokio::task::yield_now().await;
        }
        let seen = ingest.status();
        release.await;
        seen
    };
    let ((old, other), seen) = world.run(futures::future::join(commits, seen));
    let why = "a test has held all commits for 1.5 s";
    assert_eq!(seen.held.as_deref(), Some(why));
    assert!(seen.waiting.iter().all(|writer| writer.why == why));
    let status = world.ingest.status();
    assert!(status.held.is_none() && status.waiting.is_empty());
    let error = old.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("changed while"), "{error}");
    assert_eq!(other.unwrap().horizon, Horizon::inside(ScuNumber(2), 1));
    let dropped = world.write(vec![(keyless(3), names(&["x"]))]).unwrap();
    assert_eq!(
        world.commit(dropped).unwrap_err().kind(),
        ErrorKind::Conflict
    );
    let ingest = world.ingest.clone();
    drop(
        world
            .run(async move { ingest.seal_and_hold("a test".to_owned()).await })
            .unwrap(),
    );
    world
        .commit(world.write(vec![(keyed(2), upserts([4], 5))]).unwrap())
        .unwrap();
}

fn numbered(epoch: u64, number: u64) -> Option<BatchNumber> {
    Some(BatchNumber {
        name: "feed".to_owned(),
        epoch,
        number,
    })
}

#[test]
fn producers_count_once() {
    let mut world = World::new(small());
    let send = |world: &World, epoch, number, ids: Vec<i64>| {
        let changes = vec![(keyed(1), upserts(ids, 5))];
        world.commit(world.write_as(numbered(epoch, number), changes).unwrap())
    };
    assert_eq!(
        send(&world, 1, 1, vec![1]).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    let open = |world: &World, epoch| {
        let ingest = world.ingest.clone();
        world.run(async move { ingest.open_producer("feed", epoch).await })
    };
    assert_eq!(open(&world, 1).unwrap().mark, None);
    let first = send(&world, 1, 5, vec![1]).unwrap();
    assert!(!first.duplicate);
    let again = send(&world, 1, 5, vec![1]).unwrap();
    assert_eq!((again.duplicate, again.horizon), (true, first.horizon));
    assert_eq!(
        send(&world, 1, 5, vec![2]).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(
        send(&world, 1, 4, vec![1]).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    // An empty batch takes its number too.
    let empty = world
        .commit(world.write_as(numbered(1, 6), Vec::new()).unwrap())
        .unwrap();
    assert_eq!(empty.horizon, Horizon::inside(ScuNumber(1), 2));
    world.seal();
    let sealed = world.sealed.try_recv().unwrap();
    assert_eq!(sealed.producers["feed"].number, 6);
    let session = open(&world, 2).unwrap();
    assert_eq!(session.mark.unwrap().number, 6);
    assert_eq!(
        send(&world, 1, 7, vec![3]).unwrap_err().kind(),
        ErrorKind::Conflict
    );
    assert_eq!(open(&world, 2).unwrap_err().kind(), ErrorKind::Conflict);
    let two = |ids| {
        world
            .write_as(numbered(2, 7), vec![(keyed(1), upserts(ids, 5))])
            .unwrap()
    };
    let answers = world.commit_all(vec![two(vec![3]), two(vec![3]), two(vec![4])]);
    let [Ok(new), Ok(same), Err(other)] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert!(!new.duplicate && same.duplicate && same.horizon == new.horizon);
    assert_eq!(other.kind(), ErrorKind::Invalid);
    assert_eq!(world.ids(), vec![1, 3]);
    let recovered = world.reopen(&super::world::no_manifest()).unwrap();
    let mark = &recovered.recovered[1].producers["feed"];
    assert_eq!(
        (mark.number, mark.epoch, mark.scu, mark.batches),
        (7, 2, ScuNumber(2), 1)
    );
}

#[test]
fn limits_and_bad_rows_refuse_the_batch_and_nothing_else() {
    let world = World::new(IngestOptions {
        batch_bytes_max: 10_000,
        ..small()
    });
    let error = world
        .write(vec![(keyed(1), upserts(0..1000, 40))])
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.sqlstate()),
        (ErrorKind::Invalid, "54000")
    );
    let mut pieces = vec![(keyed(1), upserts(0..100, 40)); 2];
    pieces.push((keyed(1), upserts(0..100, 40)));
    assert!(world.write(pieces).is_err());
    let names = StringArray::from(vec![Some("x"), None]);
    let ids = arrow::array::Int64Array::from(vec![Some(1), None]);
    let data = RecordBatch::try_from_iter(vec![
        ("id", Arc::new(ids) as _),
        ("name", Arc::new(names) as _),
    ]);
    let null_key = ChangeBatch::upserts(data.unwrap(), 0);
    let error = world.write(vec![(keyed(1), null_key)]).unwrap_err();
    assert_eq!(error.sqlstate(), "23502");
    let message = error.message();
    assert!(message.contains("keyed1") && message.contains("\"id\"") && message.contains("row 1"));
    world.upload([1], 5).unwrap();
    assert_eq!(world.ids(), vec![1]);
}

#[test]
fn a_text_longer_than_its_column_takes_refuses_the_batch() {
    let world = World::new(small());
    let mut limited = keyed(1).as_ref().clone();
    limited.columns[1].characters_max = Some(3);
    let limited = Arc::new(limited);
    let rows = |names: Vec<Option<&str>>, kind: StoredKind, masks: Option<BinaryArray>| {
        let ids = arrow::array::Int64Array::from_iter_values(0..names.len() as i64);
        let data = RecordBatch::try_from_iter(vec![
            ("id", Arc::new(ids) as _),
            ("name", Arc::new(StringArray::from(names)) as _),
        ]);
        ChangeBatch {
            kinds: Kinds::Uniform(kind),
            masks,
            ..ChangeBatch::upserts(data.unwrap(), 0)
        }
    };
    let write = |rows| world.write(vec![(Arc::clone(&limited), rows)]);
    let long = vec![None, Some("äöü"), Some("long")];
    let error = write(rows(long.clone(), StoredKind::UPSERT, None)).unwrap_err();
    assert_eq!(error.sqlstate(), "22001");
    let message = error.message();
    assert!(
        message.contains("keyed1") && message.contains("\"name\"") && message.contains("row 2"),
        "{message}"
    );
    // What a change does not set is no value.
    let masks = |mask: &[u8]| Some(BinaryArray::from_iter_values(vec![mask; 3]));
    assert!(write(rows(long.clone(), StoredKind::UPDATE, masks(&[0b10]))).is_err());
    write(rows(long.clone(), StoredKind::UPDATE, masks(&[0]))).unwrap();
    write(rows(long, StoredKind::DELETE, None)).unwrap();
    write(rows(vec![None, Some("日本語")], StoredKind::UPSERT, None)).unwrap();
}

#[test]
fn writers_wait_for_room_in_the_queue_and_while_they_are_throttled() {
    let world = World::new(IngestOptions {
        queue_bytes_max: 4 << 10,
        ..small()
    });
    // Far more than the queue holds passes through it.
    assert_eq!(world.upload(0..2000, 40).unwrap().rows, 2000);
    assert_eq!(world.ids().len(), 2000);
    assert_eq!(world.ingest.status().queue_bytes, 0);
    let held = |refusal| {
        let why = "the sort stage is behind".to_owned();
        Some(HeldBack { why, refusal })
    };
    world.ingest.set_throttle(held(None));
    let waiting = world.write(vec![(keyed(1), upserts([1], 5))]).unwrap();
    let reason = world.ingest.status().throttled.unwrap();
    assert!(reason.contains("behind"));
    let ingest = world.ingest.clone();
    let commit = waiting.commit();
    let (first, ()) = world.run(futures::future::join(commit, async move {
        assert_eq!(ingest.open_scu().acknowledged(), 0);
        let waiting = ingest.status().waiting;
        assert_eq!(waiting.len(), 1, "{waiting:?}");
        assert!(waiting[0].why.contains("behind"), "{waiting:?}");
        ingest.set_throttle(None);
    }));
    first.unwrap();
    assert!(world.ingest.status().waiting.is_empty());
    // Where waiting is for nothing, those that wait are told, and whoever comes.
    world.ingest.set_throttle(held(None));
    let waiting = world.write(vec![(keyed(1), upserts([5000], 5))]).unwrap();
    let ingest = world.ingest.clone();
    let (refused, ()) = world.run(futures::future::join(waiting.commit(), async move {
        let damaged = Error::corrupt("the log is damaged");
        ingest.set_throttle(held(Some(damaged)));
    }));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(world.upload(3000..3001, 1).is_err());
    world.ingest.set_throttle(None);
    assert_eq!(world.upload(3000..3001, 1).unwrap().rows, 1);
    assert!(!world.ids().contains(&5000));
}

#[test]
fn memory_is_bounded_and_the_log_answers_for_the_rest() {
    let world = World::new(IngestOptions {
        memory_bytes: 6000,
        seal_bytes: 1 << 20,
        ..small()
    });
    world.upload(0..1000, 40).unwrap();
    let status = world.ingest.status();
    assert!(
        status.memory_bytes > 0 && status.memory_bytes <= 6000,
        "{status:?}"
    );
    let batch = world.ingest.open_scu().batch(1).unwrap();
    let in_memory = batch.parts.iter().filter(|part| part.in_memory()).count();
    assert!(in_memory > 0 && in_memory < batch.parts.len());
    drop(batch);
    assert_eq!(world.ids(), (0..1000).collect::<Vec<i64>>());
    world.seal();
    world.ingest.forget_through(ScuNumber(1));
    world.spawner.run();
    assert_eq!(world.ingest.unsorted().len(), 1);
    drop(world.sealed);
    assert_eq!(world.ingest.status().memory_bytes, 0);
}

#[test]
fn files_that_nothing_needs_are_written_again() {
    let mut world = World::new(small());
    let mut files = 0;
    for round in 0..20 {
        world.upload(0..200, 40).unwrap();
        world.seal();
        let scu = world.sealed.try_recv().unwrap().entry.scu;
        world.ingest.forget_through(scu);
        world.ingest.retire(vec![scu]);
        world.spawner.run();
        let listed = futures::executor::block_on(store_of(&world).list("log/")).unwrap();
        if round > 5 {
            files = files.max(listed.len());
        }
    }
    assert!(files <= 12, "{files} files");
    // What is left of earlier lives never counts.
    world.upload([42], 5).unwrap();
    let mut manifest = super::world::no_manifest();
    manifest.sealed_through = ScuNumber(20);
    let world = world.reopen(&manifest).unwrap();
    assert_eq!(world.recovered.len(), 1);
    assert_eq!(world.recovered[0].entry.scu, ScuNumber(21));
    assert_eq!(world.ids(), vec![42]);
}

#[test]
fn closing_seals_and_later_calls_fail() {
    let mut world = World::new(small());
    world.upload([1], 5).unwrap();
    let ingest = world.ingest.clone();
    let closing = world.run(async move { ingest.close().await }).unwrap();
    assert_eq!(closing.sealed_through(), ScuNumber(1));
    assert_eq!(world.sealed.try_recv().unwrap().entry.scu, ScuNumber(1));
    let late = world.upload([2], 5).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Cancelled);
    world.run(closing.finish(true));
    assert!(world.spawner.actors().is_empty());
    let late = world.upload([3], 5).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Cancelled);
}

#[test]
fn writers_that_are_held_back_hear_that_ingest_is_closed() {
    let world = World::new(small());
    world.upload([1], 5).unwrap();
    let hold_back = || {
        let why = "the sort stage is behind".to_owned();
        let refusal = None;
        world.ingest.set_throttle(Some(HeldBack { why, refusal }));
    };
    hold_back();
    let waiting = world.write(vec![(keyed(1), upserts([2], 5))]).unwrap();
    let ingest = world.ingest.clone();
    let (refused, closing) = world.run(futures::future::join(waiting.commit(), async move {
        assert_eq!(ingest.status().waiting.len(), 1);
        ingest.close().await
    }));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Cancelled);
    // The coordinator goes on for a while, and the stages are still behind.
    hold_back();
    let late = world.upload([3], 5).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Cancelled);
    world.run(closing.unwrap().finish(true));
}

/// A file that goes while it alone holds an SCU is missed, also when ingest was closed.
#[test]
fn closing_leaves_the_log_as_after_a_crash_until_the_manifest_has_it() {
    for finished in [false, true] {
        let world = World::new(small());
        world.upload([1, 2], 5).unwrap();
        let ingest = world.ingest.clone();
        let closing = world.run(async move { ingest.close().await }).unwrap();
        if finished {
            world.run(closing.finish(false));
        }
        let image = || {
            let store = store_of(&world);
            store.crash_image(store.operations(), Unsynced::Everything)
        };
        let again = |image| World::open(Env::test_over(2, image), &no_manifest(), small());
        assert_eq!(again(image()).unwrap().ids(), vec![1, 2]);
        let harmed = image();
        let listed = futures::executor::block_on(harmed.list("log/")).unwrap();
        let written = &listed[0].0;
        futures::executor::block_on(harmed.delete(written)).unwrap();
        let missed = again(harmed).err().unwrap();
        assert_eq!(missed.damaged_file(), Some(written.as_str()), "{missed}");
    }
}

#[test]
fn closing_cuts_the_log_behind_its_last_frame() {
    let mut world = World::new(small());
    world.upload([1, 2], 5).unwrap();
    let before = store_of(&world).operations();
    let ingest = world.ingest.clone();
    let closing = world.run(async move { ingest.close().await }).unwrap();
    world.run(closing.finish(true));
    let listed = futures::executor::block_on(store_of(&world).list("log/")).unwrap();
    let lengths: Vec<u64> = listed.iter().map(|(_, bytes)| *bytes).collect();
    let [written, ready] = lengths[..] else {
        panic!("{lengths:?}")
    };
    assert!((FILE_HEADER_BYTES..2048).contains(&written), "{written}");
    assert_eq!(ready, small().log_file_bytes);
    // Whether or not the edit was written that tells of what was sealed.
    let (before_the_edit, mut manifest) = (no_manifest(), no_manifest());
    seal_in(&mut manifest, &world.sealed.try_recv().unwrap());
    for operations in before..=store_of(&world).operations() {
        for unsynced in [Unsynced::Nothing, Unsynced::Everything] {
            let again = |manifest| {
                let image = store_of(&world).crash_image(operations, unsynced);
                World::open(Env::test_over(2, image), manifest, small())
            };
            assert_eq!(again(&before_the_edit).unwrap().ids(), vec![1, 2]);
            assert!(again(&manifest).unwrap().recovered.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn random_batches_read_back_in_commit_order(
        batches in prop::collection::vec((0..400i64, 0..60usize, any::<bool>()), 1..12),
        memory_bytes in prop::sample::select(vec![0u64, 5_000, 1 << 20]),
        lz4 in any::<bool>(),
    ) {
        let compression = if lz4 { LogCompression::Lz4 } else { LogCompression::None };
        let world = World::new(IngestOptions { memory_bytes, compression, ..small() });
        let mut expected = Vec::new();
        let mut next = 0;
        for (rows, bytes, seal) in batches {
            world.upload(next..next + rows, bytes).unwrap();
            expected.extend(next..next + rows);
            next += rows;
            if seal {
                world.seal();
            }
            prop_assert_eq!(&world.ids(), &expected);
        }
        let reopened = world.reopen(&super::world::no_manifest()).unwrap();
        prop_assert_eq!(reopened.ids(), expected);
    }
}
