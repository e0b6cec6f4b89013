//! A few seeds in full: the same seed is the same run, and none is violated.

use super::run_seed;
use crate::marks::{Mark, Marks};
use crate::schema::{Allowed, Shape};
use crate::story::{Story, Trim};

#[test]
fn a_seed_is_one_run_byte_for_byte() {
    let once = run_seed(3, Trim::NOTHING, false);
    let again = run_seed(3, Trim::NOTHING, true);
    assert_eq!(once.violation, None);
    assert_eq!((once.hash, once.steps), (again.hash, again.steps));
    assert_ne!(once.hash, run_seed(4, Trim::NOTHING, false).hash);
    assert!(!again.lines.is_empty());
}

/// Nothing is left of a run that the next one in its process could meet.
#[test]
fn a_seed_is_the_same_run_after_others() {
    let run = |seed| {
        let outcome = run_seed(seed, Trim::NOTHING, false);
        (seed, outcome.hash, outcome.steps)
    };
    let once: Vec<_> = (1500..1530).map(run).collect();
    let again: Vec<_> = (1500..1530).rev().map(run).collect();
    assert!(once.iter().eq(again.iter().rev()));
}

/// Seeds that showed mistakes of the database when they first ran: a log that went though a
/// snapshot read it, rows that had ended by a clock that went back, a view that missed a damaged
/// part, an index that a failed read left half-made, a seal, a sort and a session whose edits
/// were in doubt, a horizon whose time was forgotten.
#[test]
fn seeds_that_once_failed_do_not() {
    for seed in [
        12, 23, 184, 508, 605, 1922, 10356, 11016, 11588, 21044, 21484, 22644,
    ] {
        let outcome = run_seed(seed, FIRST, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

/// The same, since more is drawn: rows that references make of owners that have sums, and logs of
/// many batches on a disk whose reads fail.
#[test]
fn seeds_that_failed_later_do_not() {
    for seed in [11, 17, 20, 22, 26, 214] {
        let trim = Trim {
            shape: Some(Shape::Rich),
            hangs: false,
            stands: false,
            replaces: false,
            ..WITHOUT_LATER
        };
        let outcome = run_seed(seed, trim, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

/// A page of a hidden column that is damaged after the last time that anybody reads it.
#[test]
fn damage_that_no_answer_meets_is_named_when_all_is_looked_at() {
    let outcome = run_seed(31_001_597, WITHOUT_REPLACED, false);
    assert_eq!(outcome.violation, None);
}

/// A batch is in doubt until another one is written behind it: one that is told to be a duplicate
/// is not.
#[test]
fn a_duplicate_says_nothing_of_a_batch_in_doubt() {
    let outcome = run_seed(1_006_628, WITHOUT_REPLACED, false);
    assert_eq!(outcome.violation, None);
}

/// What stories held before range partitions were replaced in them, and clocks stood still.
const WITHOUT_REPLACED: Trim = Trim {
    replaces: false,
    stands: false,
    ..WITHOUT_LATER
};

/// What they held before the log and the manifest were damaged in them, views and tables made over
/// rows, batches of several frames written, numbers of sequences taken, and superseded files
/// bounded.
const WITHOUT_LATER: Trim = Trim {
    schema: Allowed {
        later: false,
        ..Trim::NOTHING.schema
    },
    remakes: false,
    frames: false,
    sequences: false,
    bound: false,
    records: false,
    ..Trim::NOTHING
};

/// What stories held when the first of those seeds failed.
const FIRST: Trim = Trim {
    shape: Some(Shape::Rich),
    schema: Allowed {
        ids: false,
        alters: false,
        ..WITHOUT_LATER.schema
    },
    strikes: false,
    hangs: false,
    stands: false,
    replaces: false,
    ..WITHOUT_LATER
};

#[test]
fn some_seeds_are_not_violated_and_count() {
    for seed in 0..8 {
        let outcome = run_seed(seed, Trim::NOTHING, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        let done = (outcome.writers, outcome.tally);
        assert!(outcome.counts(), "seed {seed}: {done:?}");
    }
}

#[test]
fn a_run_of_two_writers_does_not_count() {
    let two = Trim {
        writers: 2,
        ..Trim::NOTHING
    };
    let outcome = run_seed(0, two, false);
    assert!(outcome.writers <= 2, "{}", outcome.writers);
    assert!(!outcome.counts());
}

/// Of the past and of snapshots.
#[test]
fn where_superseded_files_may_take_little_some_go_before_their_time() {
    let is_bounded = |seed: &u64| Story::of(*seed, Trim::NOTHING).is_bounded();
    let wanted = [Mark::AsOfTooMuch, Mark::SnapshotEnded];
    let mut met = Marks::default();
    for seed in (0..3_000).filter(is_bounded) {
        let outcome = run_seed(seed, Trim::NOTHING, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        met.add(&outcome.marks);
        if wanted.iter().all(|mark| met.has(*mark)) {
            return;
        }
    }
    let missed = wanted.map(|mark| (mark, met.has(mark)));
    panic!("not all of these were met: {missed:?}");
}
