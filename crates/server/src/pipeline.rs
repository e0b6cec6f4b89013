//! How far each stage has come, computed from a manifest; no I/O.
//!
//! An SCU is as far as the slowest key range of the slowest view. Reads runs that are not
//! superseded only: they are what the newest answers use. A range that one run serves and that
//! newer SCUs did not change holds nothing up: nothing is left to be joined there, so it stays
//! as it is, whatever stage wrote it.

use lazybase_cluster::lag::is_at_rest;
use lazybase_engine::manifest::{Manifest, RangeState, RunKind};
use lazybase_model::ScuNumber;
use serde::Serialize;

/// The newest SCU boundary that each stage has reached everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Boundaries {
    /// SCUs up to here are sealed.
    pub(crate) ingested: u64,
    /// SCUs up to here are sorted.
    pub(crate) sorted: u64,
    /// SCUs up to here are merged with their neighbours, or in the authority.
    pub(crate) merged: u64,
    /// SCUs up to here are in the authority.
    pub(crate) authority: u64,
}

impl Boundaries {
    /// Reads them off a manifest.
    pub(crate) fn of(manifest: &Manifest) -> Boundaries {
        let sorted = manifest.sorted_through.0;
        let mut reached = Boundaries {
            ingested: manifest.sealed_through.0,
            sorted,
            merged: sorted,
            authority: sorted,
        };
        for state in manifest.tables.values() {
            for range in &state.ranges {
                if is_at_rest(manifest, range) {
                    continue;
                }
                let (authority, merged) = range_boundaries(manifest, range);
                let floor = state.created_after.0;
                reached.authority = reached.authority.min(authority.max(floor));
                reached.merged = reached.merged.min(merged.max(floor));
            }
        }
        reached.merged = reached.merged.max(reached.authority);
        reached
    }

    /// SCUs that lie in each stage: ingested, sorted, merged, authority.
    pub(crate) fn scus(self) -> [u64; 4] {
        [
            self.ingested.saturating_sub(self.sorted),
            self.sorted.saturating_sub(self.merged),
            self.merged.saturating_sub(self.authority),
            self.authority,
        ]
    }
}

/// Where the base of a range ends, and where the merged runs that follow it end.
fn range_boundaries(manifest: &Manifest, range: &RangeState) -> (u64, u64) {
    let current = || {
        range
            .runs
            .iter()
            .filter(|run| run.is_current())
            .filter_map(|run| manifest.runs.get(&run.id))
    };
    let base = current()
        .filter(|run| run.kind == RunKind::Base)
        .map(|run| run.span.last.0)
        .max()
        .unwrap_or(0);
    let mut merged = base;
    while let Some(next) = current()
        .filter(|run| run.kind == RunKind::Merged && run.span.first.0 == merged + 1)
        .map(|run| run.span.last.0)
        .max()
    {
        merged = next;
    }
    (base, merged)
}

/// How stale an answer at the end of SCU `boundary` is at `now_micros`, in microseconds: since
/// the first batch after it was acknowledged; 0 if no later SCU is sealed.
pub(crate) fn staleness_micros(manifest: &Manifest, boundary: u64, now_micros: i64) -> u64 {
    let after = manifest.times.get(&ScuNumber(boundary + 1));
    after.map_or(0, |time| {
        u64::try_from(now_micros - time.first_ack_micros).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests;
