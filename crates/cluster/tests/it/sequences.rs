//! Numbers of sequences: given out once, by whatever sessions, across crashes, restarts, refused
//! edits and restored backups.

#![allow(
    clippy::disallowed_methods,
    reason = "sessions that take numbers at once are threads of the machine's own"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use futures::executor::block_on;
use lazybase_cluster::{Instance, RestoreRequest};
use lazybase_engine::env::faults::{Fault, Faults, FaultyStore, Operation, Rule};
use lazybase_engine::env::memory::{MemoryStore, Unsynced};
use lazybase_engine::manifest::Ddl;
use lazybase_model::limits::{NUMBERS_RESERVED_AT_FIRST, NUMBERS_RESERVED_MAX};
use lazybase_model::sequence::{Counter, Sequence};
use lazybase_model::{ErrorKind, Result, SequenceId};

use crate::backup::{backup, restored};
use crate::harness::{close_whole, create, open, settings};

pub(crate) fn create_sequence(instance: &Instance, name: &str) -> SequenceId {
    let sequence = Sequence::new(instance.take_sequence_id(), name);
    let (id, counter) = (sequence.id, sequence.begin());
    let create = Ddl::CreateSequence { sequence, counter };
    block_on(instance.commit(vec![create], None)).unwrap();
    id
}

fn take(instance: &Instance, sequence: SequenceId, count: usize) -> Result<Vec<i64>> {
    block_on(instance.next_numbers(sequence, count))
}

fn reserved(instance: &Instance, sequence: SequenceId) -> Counter {
    instance.manifest().sequence(sequence).unwrap().counter
}

#[test]
fn numbers_come_one_after_the_other_from_blocks_that_grow() {
    let instance = open(Arc::new(MemoryStore::without_history()), settings()).unwrap();
    let s = create_sequence(&instance, "s");
    let mut ends = BTreeSet::new();
    for next in 1..=40_000 {
        assert_eq!(take(&instance, s, 1).unwrap(), [next]);
        ends.insert(reserved(&instance, s).last);
    }
    // 32 and its doubles up to 8192, then 8192 each time.
    let mut expected = 0;
    let (mut given, mut block) = (0, NUMBERS_RESERVED_AT_FIRST);
    while given < 40_000 {
        given += block;
        block = (block * 2).min(NUMBERS_RESERVED_MAX);
        expected += 1;
    }
    assert_eq!(ends.len(), expected);
    assert_eq!(reserved(&instance, s).last, given as i64);
    let many = take(&instance, s, 20_000).unwrap();
    assert_eq!(many, (40_001..=60_000).collect::<Vec<i64>>());
    close_whole(&instance);
}

#[test]
fn sessions_that_take_numbers_at_once_never_get_the_same() {
    let instance = open(Arc::new(MemoryStore::without_history()), settings()).unwrap();
    let s = create_sequence(&instance, "s");
    let taken: Vec<Vec<i64>> = thread::scope(|scope| {
        let session = |seed: usize| {
            let instance = &instance;
            move || {
                let sizes = (0..200).map(|round| 1 + (round * 7 + seed * 3) % 50);
                let taken = sizes.map(|size| take(instance, s, size).unwrap());
                taken.flatten().collect::<Vec<i64>>()
            }
        };
        let sessions: Vec<_> = (0..8).map(|seed| scope.spawn(session(seed))).collect();
        let ended = sessions.into_iter().map(|session| session.join().unwrap());
        ended.collect()
    });
    for own in &taken {
        assert!(own.is_sorted_by(|one, other| one < other), "{own:?}");
    }
    let all: Vec<i64> = taken.into_iter().flatten().collect();
    let distinct: BTreeSet<i64> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len());
    close_whole(&instance);
}

#[test]
fn a_sequence_that_is_set_goes_on_from_there_whatever_is_in_stock() {
    let instance = open(Arc::new(MemoryStore::without_history()), settings()).unwrap();
    let s = create_sequence(&instance, "s");
    assert_eq!(take(&instance, s, 3).unwrap(), [1, 2, 3]);
    let set = |last, called| {
        let counter = Counter { last, called };
        block_on(instance.set_sequence(s, counter))
    };
    set(100, true).unwrap();
    assert_eq!(take(&instance, s, 2).unwrap(), [101, 102]);
    set(7, false).unwrap();
    assert_eq!(instance.sequence_counter(s).unwrap().last, 7);
    assert_eq!(take(&instance, s, 1).unwrap(), [7]);
    assert_eq!(instance.sequence_counter(s).unwrap().last, 7);
    assert_eq!(set(0, true).unwrap_err().sqlstate(), "22003");
    let drop = vec![Ddl::DropSequence { sequence: s }];
    block_on(instance.commit(drop, None)).unwrap();
    assert_eq!(take(&instance, s, 1).unwrap_err().sqlstate(), "42P01");
    close_whole(&instance);
}

#[test]
fn no_number_comes_again_after_a_power_cut_anywhere() {
    let store = MemoryStore::new();
    let instance = open(Arc::new(store.clone()), settings()).unwrap();
    let table = create(&instance, "t");
    let s = create_sequence(&instance, "s");
    // What was given out, and how many operations there were by then.
    let mut given = vec![(store.operations(), 0)];
    for count in [1, 30, 1, 1, 64, 200, 5, 1000] {
        let last = *take(&instance, s, count).unwrap().last().unwrap();
        given.push((store.operations(), last));
    }
    block_on(instance.truncate_table(&table.name)).unwrap();
    given.push((store.operations(), given.last().unwrap().1));
    block_on(instance.close()).unwrap();
    let stride = match std::env::var("LAZYBASE_EVERY_CASE") {
        Ok(_) => 1,
        Err(_) => 3,
    };
    for cut in (given[0].0..=store.operations()).step_by(stride) {
        for unsynced in [Unsynced::Nothing, Unsynced::Prefix(cut as u64)] {
            let image = Arc::new(store.crash_image(cut, unsynced));
            let opened = open(image, settings()).unwrap();
            let sure = given.iter().filter(|(after, _)| *after <= cut);
            let last = sure.map(|(_, last)| *last).max().unwrap();
            let next = take(&opened, s, 1).unwrap()[0];
            assert!(next > last, "{next} after {last}, cut at {cut}");
            close_whole(&opened);
        }
    }
}

#[test]
fn numbers_that_may_be_reserved_are_given_out_once_or_never() {
    let refused = Fault::Refused { full: false };
    for fault in [Fault::HappensAnyway, Fault::Lost, refused] {
        let store = MemoryStore::without_history();
        let faults = Faults::none();
        let faulty = FaultyStore::over(Arc::new(store.clone()), faults.clone());
        let instance = open(Arc::new(faulty), settings()).unwrap();
        let s = create_sequence(&instance, "s");
        assert_eq!(*take(&instance, s, 32).unwrap().last().unwrap(), 32);
        let unreadable = Fault::Refused { full: false };
        faults.add(Rule::every(Operation::Put, fault).named("manifest/"));
        faults.add(Rule::every(Operation::Read, unreadable).named("manifest/"));
        let error = take(&instance, s, 1).unwrap_err();
        let kinds = [ErrorKind::MaybeHappened, ErrorKind::Unavailable];
        assert!(kinds.contains(&error.kind()), "{error}");
        faults.clear();
        let next = take(&instance, s, 1).unwrap()[0];
        assert!(next > 32, "{next}");
        block_on(instance.close()).unwrap();
        drop(instance);
        let again = open(Arc::new(store), settings()).unwrap();
        assert!(take(&again, s, 1).unwrap()[0] > next);
        close_whole(&again);
    }
}

#[test]
fn a_restored_backup_goes_on_behind_all_that_was_reserved() {
    let backups = MemoryStore::without_history();
    let instance = open(Arc::new(MemoryStore::without_history()), settings()).unwrap();
    let table = create(&instance, "t");
    let s = create_sequence(&instance, "s");
    let last = *take(&instance, s, 40).unwrap().last().unwrap();
    backup(&instance, &backups).unwrap();
    take(&instance, s, 5_000).unwrap();
    close_whole(&instance);
    let (restored, _) = restored(&backups, RestoreRequest::default()).unwrap();
    let opened = open(Arc::new(restored), settings()).unwrap();
    assert!(opened.table(&table.name).is_ok());
    assert!(take(&opened, s, 1).unwrap()[0] > last);
    close_whole(&opened);
}
