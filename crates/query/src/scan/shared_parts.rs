//! Parts of a scan that its partitions share: each takes the next one that nobody has taken, so
//! that one that gets less of the processor holds up nobody.
//!
//! ```text
//!   parts, by key    0  1  2  3  4  5  6  7
//!   partition 0      |-----0-----|---------2---------|
//!   partition 1      |--1--|--3--|--4--|--5--|--6--|--7--|
//! ```
//!
//! Keeps numbers only. Invariant SCAN-3: of one execution of a plan, each part goes to one
//! partition and no other; the next execution deals all of them out anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::internal_err;
use datafusion::error::Result;
use lazybase_engine::read::ScanPart;
use parking_lot::Mutex;

use super::{LazyScanExec, Source};

#[cfg(test)]
mod tests;

/// Where partitions share their parts, there are about so many for each of them: the last one is a
/// small part of the work.
const PARTS_A_PARTITION: usize = 4;

/// Parts, and who has begun to take them. A copy is one of another plan: it deals them out itself.
#[derive(Debug)]
pub(super) struct SharedParts<T> {
    parts: Arc<[T]>,
    partitions: usize,
    round: Mutex<Round>,
}

/// One execution.
#[derive(Debug, Default)]
struct Round {
    /// Which part is next.
    next: Arc<AtomicUsize>,
    /// The partitions that take parts.
    begun: Vec<usize>,
}

impl<T> SharedParts<T> {
    pub(super) fn new(parts: Vec<T>, partitions: usize) -> SharedParts<T> {
        SharedParts {
            parts: parts.into(),
            partitions,
            round: Mutex::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// The parts that a partition takes, each once it is asked for.
    ///
    /// # Errors
    /// `Internal` where a partition is asked for again before all others have been: what it would
    /// take belongs to one of two executions, and nobody knows to which.
    pub(super) fn take(&self, partition: usize) -> Result<Taken<T>> {
        let mut round = self.round.lock();
        if round.begun.len() >= self.partitions {
            *round = Round::default();
        }
        if round.begun.contains(&partition) {
            return internal_err!("partition {partition} of a scan is read twice at once");
        }
        round.begun.push(partition);
        Ok(Taken {
            parts: Arc::clone(&self.parts),
            next: Arc::clone(&round.next),
        })
    }
}

impl<T> Clone for SharedParts<T> {
    fn clone(&self) -> SharedParts<T> {
        SharedParts {
            parts: Arc::clone(&self.parts),
            partitions: self.partitions,
            round: Mutex::default(),
        }
    }
}

/// The parts that one partition takes.
#[derive(Debug)]
pub(super) struct Taken<T> {
    parts: Arc<[T]>,
    next: Arc<AtomicUsize>,
}

impl<T: Clone> Iterator for Taken<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        self.parts.get(at).cloned()
    }
}

impl LazyScanExec {
    /// The same rows, of which each partition gives those of the next part that no other has begun:
    /// which rows are whose, and in which order they come, is told by the machine. `None` where
    /// nothing is gained, and where something may be hidden: how partitions share the work tells
    /// how much there is.
    pub(crate) fn with_shared_parts(&self) -> Option<LazyScanExec> {
        let Source::Parts { partitions, .. } = &self.source else {
            return None;
        };
        let hides = self.shape.limited || self.shape.hiding.is_some();
        if hides || self.fetch.is_some() || self.shared.is_some() || partitions.len() < 2 {
            return None;
        }
        let parts = partitions.iter().flatten();
        let parts: Vec<ScanPart> = parts
            .flat_map(|part| part.split(PARTS_A_PARTITION))
            .collect();
        if parts.len() <= partitions.len() {
            return None;
        }
        let shared = SharedParts::new(parts, partitions.len());
        let (shape, source) = (self.shape.clone(), self.source.clone());
        let scan = LazyScanExec::new(shape, source, false, self.rows, None);
        Some(LazyScanExec {
            shared: Some(shared),
            ..scan
        })
    }

    /// The same rows, each partition with parts of its own again, in no order that could be told.
    pub(crate) fn with_own_parts(&self) -> Option<LazyScanExec> {
        self.shared.as_ref()?;
        let (shape, source) = (self.shape.clone(), self.source.clone());
        Some(LazyScanExec::new(
            shape, source, false, self.rows, self.fetch,
        ))
    }
}
