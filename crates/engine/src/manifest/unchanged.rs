//! What became of the key ranges of an earlier manifest: most edits change a single range, or give
//! ranges a run more, and what was computed of the others, or of the runs before, still holds.
//!
//! What a range's runs hold for it depends on where its table's ranges are cut, so that none of a
//! table's ranges is the same once one of them was cut.
//!
//! Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::state::{Manifest, RangeState, RunId, RunRef, TableState};

/// What became of a key range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It is the same with all its runs.
    Same,
    /// The runs that it had are its first ones, so many, and the same; others stand behind them.
    Longer(usize),
    /// Something else.
    Other,
}

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

    /// What became of each range of a table or view of the later manifest, by its place.
    pub fn ranges_of(&self, now: &TableState) -> Vec<Became> {
        let before = self.before.state_of(now.table.id);
        let Some(before) = before.filter(|before| is_cut_alike(before, now)) else {
            return vec![Became::Other; now.ranges.len()];
        };
        let ranges = before.ranges.iter().zip(&now.ranges);
        ranges
            .map(|(before, now)| self.became(before, now))
            .collect()
    }

    /// What became of a range that lies where it lay.
    fn became(&self, before: &Arc<RangeState>, now: &Arc<RangeState>) -> Became {
        let is_changed = |entry: &RunRef| self.changed.contains(&entry.id);
        if !self.changed.is_empty() && before.runs.iter().any(is_changed) {
            Became::Other
        } else if before == now {
            // Those that the two manifests share are equal at once.
            Became::Same
        } else if now.runs.starts_with(&before.runs) {
            Became::Longer(before.runs.len())
        } else {
            Became::Other
        }
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
