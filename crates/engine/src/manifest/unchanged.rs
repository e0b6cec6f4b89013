//! Which key ranges are as an earlier manifest had them: most edits change a single range, and
//! what was computed of the others still holds.
//!
//! What a range's runs hold for it depends on where its table's ranges are cut, so that none of a
//! table's ranges is the same once one of them was cut.
//!
//! Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::state::{Manifest, RangeState, RunId, RunRef, TableState};

/// What a later manifest has of an earlier one.
#[derive(Debug)]
pub struct Unchanged<'m> {
    before: &'m Manifest,
    /// Runs that are there in both, and not the same: they were extended, cut or healed. (A run
    /// that is in one of them alone stands in no range of the other: MAN-9.)
    changed: BTreeSet<RunId>,
}

impl<'m> Unchanged<'m> {
    /// What `now` has of `before`.
    pub fn between(before: &'m Manifest, now: &Manifest) -> Unchanged<'m> {
        let changed = now.runs.iter().filter(|(id, run)| {
            let before = before.runs.get(*id);
            before.is_some_and(|before| !Arc::ptr_eq(before, run))
        });
        Unchanged {
            before,
            changed: changed.map(|(id, _)| *id).collect(),
        }
    }

    /// Whether each range of a table or view of the later manifest, by its place, is the same with
    /// all its runs.
    pub fn ranges_of(&self, now: &TableState) -> Vec<bool> {
        let before = self.before.state_of(now.table.id);
        let Some(before) = before.filter(|before| is_cut_alike(before, now)) else {
            return vec![false; now.ranges.len()];
        };
        // Those that the two manifests share are equal at once.
        let ranges = before.ranges.iter().zip(&now.ranges);
        ranges
            .map(|(before, now)| before == now && !self.lists_changed(now))
            .collect()
    }

    fn lists_changed(&self, range: &RangeState) -> bool {
        let is_changed = |entry: &RunRef| self.changed.contains(&entry.id);
        !self.changed.is_empty() && range.runs.iter().any(is_changed)
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
