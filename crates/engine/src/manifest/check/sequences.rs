//! MAN-19: what holds of sequences. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::touched::Touched;
use super::{Checked, require};
use crate::manifest::state::{Manifest, SequenceState};

/// Checks the sequences of a manifest: where a commit touched neither them nor definitions of
/// tables, all is as it was.
pub(super) fn check(new: &Manifest, touched: &Touched<'_>) -> Checked {
    let old = touched.old();
    let is_same = old.is_some_and(|old| old.sequences == new.sequences);
    if is_same && !touched.definitions() {
        return Ok(());
    }
    let others = new.tables.values().chain(new.views.values());
    let others = others.map(|state| &state.table);
    let others = others.chain(new.plain_views.values());
    let mut names: BTreeSet<&str> = others.map(|table| table.name.as_str()).collect();
    for state in new.sequences.values() {
        let name = state.sequence.name.as_str();
        require(names.insert(name), "MAN-19", || {
            format!("{name:?} is there twice")
        })?;
        check_one(new, state)?;
    }
    for state in new.tables.values() {
        let defaults = state.table.columns.iter().map(|column| &column.default);
        let mut taken = defaults.filter_map(|default| default.sequence());
        let gone = taken.find(|id| !new.sequences.contains_key(id));
        require(gone.is_none(), "MAN-19", || {
            format!("table {:?} takes numbers of {gone:?}", state.table.name)
        })?;
    }
    Ok(())
}

fn check_one(new: &Manifest, state: &SequenceState) -> Checked {
    let sequence = &state.sequence;
    let counter = sequence.counter(state.counter.last, state.counter.called);
    let is_sound = sequence.check().is_ok() && counter.is_ok() && sequence.id.0 < new.next_table;
    require(is_sound && state.set_in <= new.number, "MAN-19", || {
        format!("sequence {:?} stands at {:?}", sequence.name, state.counter)
    })?;
    let owner = sequence.owner;
    let is_there = owner.is_none_or(|of| new.has(of.table, Some(of.column)));
    require(is_there, "MAN-19", || {
        format!("sequence {:?} is of {owner:?}", sequence.name)
    })
}

/// What may only grow from one manifest to the next.
pub(super) fn check_growth(old: &Manifest, new: &Manifest) -> Checked {
    for (id, after) in &new.sequences {
        let before = old.sequences.get(id);
        let Some(before) = before.filter(|before| !Arc::ptr_eq(before, after)) else {
            continue;
        };
        let goes_on = after.sequence.goes_on(before.counter, after.counter);
        let was_set = before.set_in < after.set_in;
        let holds = was_set || (goes_on && before.set_in == after.set_in);
        require(holds, "MAN-19", || {
            let (name, before, after) = (&after.sequence.name, before.counter, after.counter);
            format!("sequence {name:?} falls from {before:?} to {after:?}")
        })?;
    }
    Ok(())
}
