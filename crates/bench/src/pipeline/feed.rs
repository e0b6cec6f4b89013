//! What comes in: the next batch of changes, from a seed and the pool alone.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use lazybase_engine::change_batch::ChangeBatch;

use crate::data::{Pool, Seeded};
use crate::scans::counter_updates;

/// Keys of new rows begin here: after any key of the table that they come to.
const FIRST_NEW_ID: i64 = 1 << 40;
/// One row of this many is a change to a row of the last minute.
const CHANGE_ONE_OF: usize = 20;
/// How far back changes reach.
const RECENT: Duration = Duration::from_secs(60);

/// The two kinds of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedKind {
    /// New rows under rising keys, and changes to some columns of rows of the last minute.
    Rising,
    /// Whole-row upserts, uniform over the keys that are there.
    Uniform,
}

impl FeedKind {
    /// What stands in the names of its figures.
    pub(crate) fn infix(self) -> &'static str {
        match self {
            FeedKind::Rising => "",
            FeedKind::Uniform => "_uniform",
        }
    }
}

/// A stream of batches.
pub(crate) struct Feed {
    kind: FeedKind,
    keys: u64,
    seeded: Seeded,
    next_batch: usize,
    next_id: i64,
    /// When batches of new rows were made, and their first ids.
    recent: VecDeque<(Duration, i64)>,
}

impl Feed {
    /// A stream onto a table of the keys from 0 to `keys`.
    pub(crate) fn new(kind: FeedKind, keys: u64) -> Feed {
        let (seeded, recent) = (Seeded::new(17), VecDeque::new());
        Feed {
            kind,
            keys,
            seeded,
            next_batch: 0,
            next_id: FIRST_NEW_ID,
            recent,
        }
    }

    /// The next batch, `elapsed` after the start: one part, or two.
    pub(crate) fn next(&mut self, pool: &Pool, elapsed: Duration) -> Vec<ChangeBatch> {
        let at = self.next_batch;
        self.next_batch += 1;
        match self.kind {
            FeedKind::Rising => self.rising(pool, at, elapsed),
            FeedKind::Uniform => {
                vec![ChangeBatch::upserts(
                    pool.batch(at, self.uniform(pool.rows())),
                    0,
                )]
            }
        }
    }

    fn rising(&mut self, pool: &Pool, at: usize, elapsed: Duration) -> Vec<ChangeBatch> {
        let rows = pool.rows() - pool.rows() / CHANGE_ONE_OF;
        let ids = (self.next_id..self.next_id + rows as i64).collect();
        let mut parts = vec![ChangeBatch::upserts(pool.batch(at, ids), 0)];
        while self
            .recent
            .front()
            .is_some_and(|(made, _)| *made + RECENT < elapsed)
        {
            self.recent.pop_front();
        }
        if let Some((_, first)) = self.recent.front() {
            let ids = self.recent_ids(*first, pool.rows() / CHANGE_ONE_OF);
            parts.push(counter_updates(pool, at, ids));
        }
        self.recent.push_back((elapsed, self.next_id));
        self.next_id += rows as i64;
        parts
    }

    /// As many ids of rows from `first` on, each once: one of each stretch of equal length.
    fn recent_ids(&mut self, first: i64, count: usize) -> Vec<i64> {
        let step = ((self.next_id - first) as u64 / count.max(1) as u64).max(1);
        let pick = |at: usize| first + (at as u64 * step + self.seeded.below(step)) as i64;
        (0..count)
            .map(pick)
            .filter(|id| *id < self.next_id)
            .collect()
    }

    /// As many keys of the table, each once, in no order.
    fn uniform(&mut self, count: usize) -> Vec<i64> {
        let count = count.min(self.keys as usize / 2).max(1);
        let mut seen = HashSet::with_capacity(count);
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let id = self.seeded.below(self.keys) as i64;
            if seen.insert(id) {
                ids.push(id);
            }
        }
        ids
    }
}

#[cfg(test)]
mod tests;
