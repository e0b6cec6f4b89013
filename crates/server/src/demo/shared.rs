//! What writer, readers, sampler and view of a demo share.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::questions::AckLog;
use super::stats::{PipelineSample, Sample};
use crate::wall::Stopwatch;

/// Failures that are kept: the first ones tell the story.
const FAILURES_MAX: usize = 20;

/// Counters, samples and failures.
pub(super) struct Shared {
    pub(super) start: Stopwatch,
    /// Changes of the whole replay.
    pub(super) total: u64,
    /// Changes acknowledged.
    pub(super) changes: AtomicU64,
    /// Batches acknowledged.
    pub(super) batches: AtomicU64,
    /// The simulated moment, in seconds since 1970.
    pub(super) moment: AtomicI64,
    /// Rows of the source whose flights came onto the board, about: the first so many.
    pub(super) scheduled: AtomicU64,
    /// Whether the replay is over.
    pub(super) done: AtomicBool,
    acks: Mutex<AckLog>,
    samples: Mutex<Vec<Sample>>,
    pipeline: Mutex<Vec<PipelineSample>>,
    failures: Mutex<(u64, Vec<String>)>,
}

impl Shared {
    /// For a replay of so many changes that begins now.
    pub(super) fn new(total: u64) -> Shared {
        Shared {
            start: Stopwatch::start(),
            total,
            changes: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            moment: AtomicI64::new(0),
            scheduled: AtomicU64::new(0),
            done: AtomicBool::new(false),
            acks: Mutex::default(),
            samples: Mutex::default(),
            pipeline: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    /// A batch was acknowledged; all changes so far are `changes`.
    pub(super) fn acknowledged(&self, changes: u64, moment: i64) {
        // The log first: a reader may ask for less than what is there, never for more.
        locked(&self.acks).push(self.start.micros(), changes);
        self.changes.store(changes, Ordering::Release);
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.moment.store(moment, Ordering::Relaxed);
    }

    /// Whether readers go on.
    pub(super) fn running(&self) -> bool {
        !self.done.load(Ordering::Acquire)
    }

    /// The times of all acknowledgements.
    pub(super) fn acks(&self) -> MutexGuard<'_, AckLog> {
        locked(&self.acks)
    }

    /// All answers so far.
    pub(super) fn samples(&self) -> MutexGuard<'_, Vec<Sample>> {
        locked(&self.samples)
    }

    /// All looks at the pipeline so far.
    pub(super) fn pipeline(&self) -> MutexGuard<'_, Vec<PipelineSample>> {
        locked(&self.pipeline)
    }

    /// Something that must hold did not.
    pub(super) fn fail(&self, what: String) {
        let mut failures = locked(&self.failures);
        failures.0 += 1;
        if failures.1.len() < FAILURES_MAX {
            failures.1.push(what);
        }
    }

    /// How many failures there were, and the first of them.
    pub(super) fn failures(&self) -> (u64, Vec<String>) {
        locked(&self.failures).clone()
    }
}

/// The lock's value; a panicked holder leaves whole values here, since each change is one push.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
