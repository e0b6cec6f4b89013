//! The deltas that were made last, so that a query at the same horizon needs no new one and one at
//! a newer horizon only what is new.
//!
//! Invariant VIEW-2: what is kept is used at the horizon that it was made at and at newer ones
//! only: its rows were completed there, and whatever changed them since is in a newer layer.

use std::collections::VecDeque;
use std::sync::Arc;

use lazybase_model::{Horizon, ScuNumber, TableId};
use parking_lot::Mutex;

use super::{Delta, Layer};
use crate::manifest::RunId;

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

/// All that is kept takes at most so many bytes.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// See the module's header.
#[derive(Debug, Default)]
pub(in crate::read) struct KeptDeltas(Mutex<VecDeque<Kept>>);

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
    /// The whole delta at a horizon.
    pub(super) fn at(&self, since: &Since, horizon: Horizon) -> Option<Arc<Delta>> {
        let kept = self.0.lock();
        let newest = kept.iter().filter(|kept| kept.since == *since);
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
        let kept = self.0.lock();
        let usable = kept.iter().filter(|kept| {
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
        let mut kept = self.0.lock();
        let same = |kept: &Kept| kept.since == *since;
        kept.retain(|kept| {
            let replaced = Some(kept.sorted) == older || kept.sorted == sorted;
            !(same(kept) && replaced && kept.made_at <= made_at)
        });
        kept.push_back(Kept {
            since: since.clone(),
            sorted,
            made_at,
            layers: layers.to_vec(),
            newest: None,
        });
        let mut bytes: usize = kept.iter().map(Kept::bytes).sum();
        while bytes > KEPT_BYTES_MAX {
            bytes -= kept.pop_front().map_or(bytes, |kept| kept.bytes());
        }
    }

    /// Keeps the whole delta at a horizon beside the layers that it begins with.
    pub(super) fn keep_at(
        &self,
        since: &Since,
        sorted: ScuNumber,
        horizon: Horizon,
        delta: &Arc<Delta>,
    ) {
        let mut kept = self.0.lock();
        let mut all = kept.iter_mut().rev();
        let of = all.find(|kept| {
            let begins = begins_with(&delta.layers, &kept.layers);
            kept.since == *since && kept.sorted == sorted && begins
        });
        if let Some(of) = of {
            of.newest = Some((horizon, Arc::clone(delta)));
        }
    }
}

/// Whether layers begin with others, the very same ones.
fn begins_with(layers: &[Arc<Layer>], first: &[Arc<Layer>]) -> bool {
    let mut pairs = layers.iter().zip(first);
    layers.len() >= first.len() && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
}
