//! Writers that wait: who, and for what; and what holds all commits back (back pressure is seen,
//! not guessed).
//!
//! Reads and writes memory only. Invariant WAIT-1: whoever stands in the list waits at that very
//! moment: the entry goes with the guard that made it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// What a writer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// The stages behind ingest to catch up.
    Stages,
    /// Room in the queue of the log.
    Log,
    /// The end of a hold.
    Hold,
}

/// That all commits are held.
#[derive(Debug, Clone)]
pub(super) struct HeldCommits {
    /// For whom.
    pub(super) holder: String,
    /// Since when, on the monotonic clock.
    pub(super) since: Duration,
}

impl HeldCommits {
    /// Who holds commits and for how long already, for people.
    pub(super) fn told(&self, now: Duration) -> String {
        let age = now.saturating_sub(self.since).as_secs_f64();
        format!("{} has held all commits for {age:.1} s", self.holder)
    }
}

/// A writer that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingWriter {
    /// The producer's name, or the batch's number since the opening.
    pub who: String,
    /// Why it waits.
    pub why: String,
}

/// All that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    now: Mutex<BTreeMap<u64, (String, WaitsFor)>>,
    entered: AtomicU64,
}

impl Waiting {
    /// A writer waits until the guard is dropped.
    pub(super) fn enter(
        self: &Arc<Self>,
        batch: u64,
        producer: Option<&str>,
        what: WaitsFor,
    ) -> Entered {
        let who = match producer {
            Some(name) => format!("producer {name}"),
            None => format!("batch {batch}"),
        };
        self.now.lock().insert(batch, (who, what));
        self.entered.fetch_add(1, Ordering::Relaxed);
        Entered {
            all: Arc::clone(self),
            batch,
        }
    }

    /// Who waits, in the order of their batches, and for what.
    pub(super) fn list(&self) -> Vec<(String, WaitsFor)> {
        self.now.lock().values().cloned().collect()
    }

    /// How often somebody had to wait.
    pub(super) fn entered(&self) -> u64 {
        self.entered.load(Ordering::Relaxed)
    }
}

/// A writer that waits, for as long as this lives.
#[derive(Debug)]
pub(super) struct Entered {
    all: Arc<Waiting>,
    batch: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.all.now.lock().remove(&self.batch);
    }
}
