//! The first half of committing a batch that comes with DDL: its commit frame is durable, and
//! nobody sees it yet. The manifest edit decides.
//!
//! ```text
//!   coordinator                       committer                    recovery, if the power goes
//!   hold, seal -----------------> orders no commit
//!   prepare --------------------> commit frame with a number ---> not named: dropped
//!   edit names the number ......................................> counts
//!   publish (readers see it) ---> notes it
//!   release --------------------> orders commits
//! ```
//!
//! Reads nothing; writes the open SCU. Invariant DDL-1: the batch is in the open SCU before anybody
//! sees the manifest that names it; a snapshot of an older manifest leaves it out. A frame whose
//! number the manifest never names stays in the log and never counts, so giving up writes nothing.

use std::sync::Arc;

use lazybase_model::Horizon;
use tokio::sync::mpsc;

use super::accepted::{AcceptedBatch, UnsortedScu};
use super::clock::CoordinatorClock;
use super::committer::Event;
use super::writer::Acknowledgement;

/// A batch whose commit frame waits for the manifest's word. Dropped, it never was.
#[derive(Debug)]
pub struct Prepared {
    open: Arc<UnsortedScu>,
    batch: Option<AcceptedBatch>,
    clock: CoordinatorClock,
    events: mpsc::UnboundedSender<Event>,
}

impl Prepared {
    pub(super) fn new(
        open: Arc<UnsortedScu>,
        batch: AcceptedBatch,
        clock: CoordinatorClock,
        events: mpsc::UnboundedSender<Event>,
    ) -> Prepared {
        Prepared {
            open,
            batch: Some(batch),
            clock,
            events,
        }
    }

    /// The manifest names the batch: readers see it from here on.
    pub fn publish(mut self) -> Acknowledgement {
        let mut acknowledgement = Acknowledgement {
            horizon: self.open.horizon(),
            ack_micros: 0,
            duplicate: false,
            rows: 0,
        };
        if let Some(mut batch) = self.batch.take() {
            batch.ack_micros = batch.ack_micros.max(self.clock.now_micros());
            acknowledgement.horizon = Horizon::inside(self.open.scu(), batch.position);
            acknowledgement.ack_micros = batch.ack_micros;
            acknowledgement.rows = batch.rows;
            self.open.publish(vec![batch]);
            let published = Some(acknowledgement.ack_micros);
            // When the committer is gone, recovery finds the batch.
            let _ = self.events.send(Event::Decided { published });
        }
        acknowledgement
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if self.batch.is_some() {
            // When the committer is gone its frame counts for nothing anyway.
            let _ = self.events.send(Event::Decided { published: None });
        }
    }
}
