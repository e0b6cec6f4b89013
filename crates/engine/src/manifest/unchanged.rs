//! Which key ranges are as an earlier manifest had them: most edits change a single range, and
//! what was computed of the others still holds.
//!
//! What a range's runs hold for it depends on where its table's ranges are cut, so that none of a
//! table's ranges is the same once one of them was cut.
//!
//! Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_model::TableId;

use super::state::{Manifest, RangeState, Run, RunId, RunRef, TableState};

/// The ranges of a manifest, of tables and secondary views, as they were.
#[derive(Debug)]
pub struct SeenRanges {
    states: BTreeMap<TableId, Arc<TableState>>,
    runs: BTreeMap<RunId, Arc<Run>>,
}

impl SeenRanges {
    /// Those of `manifest`.
    pub fn of(manifest: &Manifest) -> SeenRanges {
        let states = manifest.tables.iter().chain(&manifest.views);
        SeenRanges {
            states: states.map(|(id, state)| (*id, Arc::clone(state))).collect(),
            runs: manifest.runs.clone(),
        }
    }

    /// Beside a later manifest.
    pub fn beside(&self, later: &Manifest) -> Unchanged<'_> {
        let changed = later.runs.iter().filter(|(id, run)| {
            let before = self.runs.get(*id);
            before.is_some_and(|before| !Arc::ptr_eq(before, run))
        });
        Unchanged {
            seen: self,
            changed: changed.map(|(id, _)| *id).collect(),
        }
    }
}

/// Ranges as they were, beside a later manifest.
#[derive(Debug)]
pub struct Unchanged<'s> {
    seen: &'s SeenRanges,
    /// Runs that are there in both, and not the same: they were extended, cut or healed. (A run
    /// that is in one of them alone stands in no range of the other: MAN-9.)
    changed: BTreeSet<RunId>,
}

impl Unchanged<'_> {
    /// Whether each range of a table or view of the later manifest, by its place, is the same with
    /// all its runs; empty where that is true of none.
    pub fn ranges_of(&self, state: &TableState) -> Vec<bool> {
        let before = self.seen.states.get(&state.table.id);
        let Some(before) = before.filter(|before| is_cut_alike(before, state)) else {
            return Vec::new();
        };
        let ranges = before.ranges.iter().zip(&state.ranges);
        ranges
            .map(|(before, now)| self.is_same(before, now))
            .collect()
    }

    fn is_same(&self, before: &RangeState, now: &RangeState) -> bool {
        let is_changed = |entry: &RunRef| self.changed.contains(&entry.id);
        let any_changed = || !self.changed.is_empty() && now.runs.iter().any(is_changed);
        before.runs == now.runs && !any_changed()
    }
}

/// Whether a table is defined as it was, and its ranges lie where they lay.
fn is_cut_alike(before: &TableState, now: &TableState) -> bool {
    let mut ranges = before.ranges.iter().zip(&now.ranges);
    before.table == now.table
        && before.created_after == now.created_after
        && before.ranges.len() == now.ranges.len()
        && ranges.all(|(before, now)| before.range == now.range)
}
