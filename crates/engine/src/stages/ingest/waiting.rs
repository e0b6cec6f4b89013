//! Writers that wait: who, and for what (back pressure is seen, not guessed).
//!
//! Reads and writes memory only. Invariant WAIT-1: whoever stands in the list waits at that very
//! moment: the entry goes with the guard that made it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// What a writer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// The stages behind ingest to catch up.
    Stages,
    /// Room in the queue of the log.
    Log,
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
pub(super) struct Waiting(Mutex<BTreeMap<u64, (String, WaitsFor)>>);

impl Waiting {
    /// A writer waits until the guard is dropped.
    pub(super) fn enter(self: &Arc<Self>, batch: u64, who: String, what: WaitsFor) -> Entered {
        self.0.lock().insert(batch, (who, what));
        Entered {
            all: Arc::clone(self),
            batch,
        }
    }

    /// Who waits, in the order of their batches, and for what.
    pub(super) fn list(&self) -> Vec<(String, WaitsFor)> {
        self.0.lock().values().cloned().collect()
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
        self.all.0.lock().remove(&self.batch);
    }
}
