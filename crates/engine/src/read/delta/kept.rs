//! The deltas that were made last, so that a query at the same horizon needs no new one and one at
//! a newer horizon only what is new. Their memory is lent by the cache of segments.
//!
//! Invariant VIEW-2: what is kept is used at the horizon that it was made at and at newer ones
//! only: its rows were completed there, and whatever changed them since is in a newer layer.

use std::collections::VecDeque;
use std::sync::Arc;

use lazybase_model::{Horizon, ScuNumber, TableId};
use parking_lot::Mutex;

use super::{Delta, Layer};
use crate::manifest::RunId;
use crate::segment::{Lent, SegmentCache};

/// The end of a view that changes are told from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::read) struct Since {
    /// The view, by the id of its rows' definition.
    pub(in crate::read) view: TableId,
    /// What it is read from: a view that begins again has other runs.
    pub(in crate::read) runs: Vec<RunId>,
    /// The boundary at which these end.
    pub(in crate::read) end: ScuNumber,
}

/// All that is kept takes at most so many bytes, or a larger share of the cache.
const KEPT_BYTES_MAX: u64 = 64 << 20;
/// One part of so many of the cache.
const CACHE_SHARE: u64 = 4;

/// See the module's header.
#[derive(Debug)]
pub(in crate::read) struct KeptDeltas {
    shelf: Mutex<Shelf>,
    bytes_max: u64,
}

#[derive(Debug)]
struct Shelf {
    kept: VecDeque<Kept>,
    lent: Lent,
}

impl Shelf {
    fn bytes(&self) -> u64 {
        self.kept.iter().map(|kept| kept.bytes() as u64).sum()
    }

    /// Lets go of the oldest until the others are small enough.
    fn shrink(&mut self, bytes_max: u64) {
        let mut bytes = self.bytes();
        while bytes > bytes_max {
            self.kept.pop_front();
            bytes = self.bytes();
        }
        self.lent.set(bytes);
    }
}

/// The layers from a view's end to a boundary of sorted data.
#[derive(Debug)]
struct Kept {
    since: Since,
    sorted: ScuNumber,
    /// The horizon at which their rows were completed.
    made_at: Horizon,
    layers: Vec<Arc<Layer>>,
    /// The whole delta at the newest horizon, with what is not sorted.
    newest: Option<(Horizon, Arc<Delta>)>,
}

impl Kept {
    fn bytes(&self) -> usize {
        let newest = self.newest.iter();
        let newest = newest.flat_map(|(_, delta)| &delta.layers[self.layers.len()..]);
        let layers = self.layers.iter().chain(newest);
        layers.map(|layer| layer.bytes()).sum()
    }
}

impl KeptDeltas {
    /// Nothing yet; what is kept takes memory of the cache.
    pub(in crate::read) fn new(cache: &Arc<SegmentCache>) -> KeptDeltas {
        KeptDeltas {
            bytes_max: (cache.usage().bytes_max / CACHE_SHARE).max(KEPT_BYTES_MAX),
            shelf: Mutex::new(Shelf {
                kept: VecDeque::new(),
                lent: cache.lend(),
            }),
        }
    }

    /// The whole delta at a horizon.
    pub(super) fn at(&self, since: &Since, horizon: Horizon) -> Option<Arc<Delta>> {
        let shelf = self.shelf.lock();
        let newest = shelf.kept.iter().filter(|kept| kept.since == *since);
        let mut newest = newest.filter_map(|kept| kept.newest.as_ref());
        let found = newest.find(|(at, _)| *at == horizon);
        found.map(|(_, delta)| Arc::clone(delta))
    }

    /// The layers that reach farthest, up to a boundary and for a horizon, and their own boundary.
    pub(super) fn usable(
        &self,
        since: &Since,
        sorted: ScuNumber,
        horizon: Horizon,
    ) -> Option<(ScuNumber, Vec<Arc<Layer>>)> {
        let shelf = self.shelf.lock();
        let usable = shelf.kept.iter().filter(|kept| {
            kept.since == *since && kept.sorted <= sorted && kept.made_at <= horizon
        });
        let farthest = usable.max_by_key(|kept| kept.sorted);
        farthest.map(|kept| (kept.sorted, kept.layers.clone()))
    }

    /// Keeps layers up to a boundary, made at a horizon; in place of those up to `older`, if they
    /// go on from there.
    pub(super) fn keep(
        &self,
        since: &Since,
        older: Option<ScuNumber>,
        (sorted, made_at): (ScuNumber, Horizon),
        layers: &[Arc<Layer>],
    ) {
        let mut shelf = self.shelf.lock();
        let same = |kept: &Kept| kept.since == *since;
        shelf.kept.retain(|kept| {
            let replaced = Some(kept.sorted) == older || kept.sorted == sorted;
            !(same(kept) && replaced && kept.made_at <= made_at)
        });
        shelf.kept.push_back(Kept {
            since: since.clone(),
            sorted,
            made_at,
            layers: layers.to_vec(),
            newest: None,
        });
        shelf.shrink(self.bytes_max);
    }

    /// Keeps the whole delta at a horizon beside the layers that it begins with.
    pub(super) fn keep_at(
        &self,
        since: &Since,
        sorted: ScuNumber,
        horizon: Horizon,
        delta: &Arc<Delta>,
    ) {
        let mut shelf = self.shelf.lock();
        let mut all = shelf.kept.iter_mut().rev();
        let of = all.find(|kept| {
            let begins = begins_with(&delta.layers, &kept.layers);
            kept.since == *since && kept.sorted == sorted && begins
        });
        if let Some(of) = of {
            of.newest = Some((horizon, Arc::clone(delta)));
            shelf.shrink(self.bytes_max);
        }
    }
}

/// Whether layers begin with others, the very same ones.
fn begins_with(layers: &[Arc<Layer>], first: &[Arc<Layer>]) -> bool {
    let mut pairs = layers.iter().zip(first);
    layers.len() >= first.len() && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
}
