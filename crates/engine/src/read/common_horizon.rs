//! The common horizon: the newest boundary at which every table, view and key range can end with
//! no unsorted source and few runs (section 3.7 of the paper: what a best-effort query reads).
//!
//! Reads the paths of a manifest; no I/O, no clock.

use lazybase_model::ScuNumber;
use lazybase_model::limits::BEST_EFFORT_RUNS_MAX;

use super::paths::{RangePaths, ReadIndex};
use crate::manifest::{Manifest, RunId};

#[cfg(test)]
mod tests;

/// The common horizon of a manifest: see [`ReadIndex::common_horizon`].
pub fn common_horizon(manifest: &Manifest) -> ScuNumber {
    ReadIndex::new(manifest).common_horizon()
}

/// The newest boundary at which every range ends with at most [`BEST_EFFORT_RUNS_MAX`] runs. Where
/// merging is so far behind that there is none, the one with the fewest runs in its worst range.
pub(super) fn newest_common(index: &ReadIndex) -> ScuNumber {
    let newest = index.sorted_through.0;
    // What damage keeps from the newest boundary says so to whoever reads it, and holds up no
    // other range.
    let lost = |range: &&RangePaths| range.damage_at(index.sorted_through).is_some();
    let ranges: Vec<&RangePaths> = index
        .tables
        .values()
        .flat_map(|table| table.ranges.iter().map(|range| &**range))
        .filter(|range| !lost(range))
        .collect();
    // Before the oldest table there is nothing to answer from: true, and of no use.
    let created = index
        .tables
        .values()
        .map(|table| table.created_after.0)
        .min();
    let oldest = created.map_or(newest, |created| created + 1).min(newest);
    let mut best: Option<(u32, ScuNumber)> = None;
    // From the newest boundary back to each at which some range is reached otherwise.
    let mut candidate = Some(newest);
    while let Some(boundary) = candidate.filter(|boundary| *boundary >= oldest) {
        let (mut worst, mut before) = (Some(0), None);
        for range in &ranges {
            let (runs, end) = range.fewest_and_before(boundary);
            worst = worst.zip(runs).map(|(worst, runs)| runs.max(worst));
            before = before.max(end);
        }
        let at = ScuNumber(boundary);
        match worst {
            Some(worst) if worst as usize <= BEST_EFFORT_RUNS_MAX => return at,
            Some(worst) if best.is_none_or(|(least, _)| worst < least) => {
                best = Some((worst, at));
            }
            _ => {}
        }
        candidate = before;
    }
    best.map_or(index.sorted_through, |(_, boundary)| boundary)
}

/// The cheapest runs at a boundary, or the fewest if the cheapest are more than best effort allows.
pub(super) fn few_runs(range: &RangePaths, boundary: ScuNumber) -> Option<Vec<RunId>> {
    let cheapest = range.cheapest(boundary)?;
    match cheapest.len() <= BEST_EFFORT_RUNS_MAX {
        true => Some(cheapest),
        false => range.fewest(boundary),
    }
}
