//! What a commit touched: tables, views and runs that are not the same value (`Arc::ptr_eq`) as in
//! the manifest before. The rest was checked with that one, and what its invariants compare it
//! with only grows. Of a table that was touched, ranges that list the same runs as before are kept.
//! Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_model::{TableId, ViewId};

use crate::manifest::state::{Manifest, RangeState, RunId, TableState};

/// What is to be looked at.
pub(super) enum Touched<'a> {
    /// Everything: nothing was checked before.
    All,
    /// What differs from a manifest that keeps all invariants.
    Since {
        /// That manifest.
        old: &'a Manifest,
        /// Whether a table or view came, went, or has another definition.
        definitions: bool,
        /// Whether everything sorted now ends elsewhere.
        boundary: bool,
        /// Views of which a run came, went or is another value, or whose ranges did.
        views: BTreeSet<ViewId>,
        /// Runs that came, went or are another value.
        runs: BTreeSet<RunId>,
    },
}

impl<'a> Touched<'a> {
    /// What differs from `old`; everything if there is none.
    pub(super) fn since(old: Option<&'a Manifest>, new: &Manifest) -> Touched<'a> {
        let Some(old) = old else {
            return Touched::All;
        };
        let (mut views, mut runs) = (BTreeSet::new(), BTreeSet::new());
        each_difference(&old.runs, &new.runs, |id, run| {
            views.insert(run.view);
            runs.insert(*id);
        });
        let mut definitions = false;
        for (before, after) in [(&old.tables, &new.tables), (&old.views, &new.views)] {
            each_difference(before, after, |_, state| {
                views.insert(state.table.primary.id);
                let id = state.table.id;
                definitions |= !is_defined_alike(before.get(&id), after.get(&id));
            });
        }
        Touched::Since {
            old,
            definitions,
            boundary: old.sorted_through != new.sorted_through,
            views,
            runs,
        }
    }

    /// The manifest before.
    pub(super) fn old(&self) -> Option<&'a Manifest> {
        match self {
            Touched::All => None,
            Touched::Since { old, .. } => Some(old),
        }
    }

    /// Whether tables, views or their definitions have to be looked at together.
    pub(super) fn definitions(&self) -> bool {
        match self {
            Touched::All => true,
            Touched::Since { definitions, .. } => *definitions,
        }
    }

    /// Whether the runs of a view have to be looked at.
    pub(super) fn has_view(&self, view: ViewId) -> bool {
        match self {
            Touched::All => true,
            Touched::Since { views, .. } => views.contains(&view),
        }
    }

    /// Whether a table or view has to be looked at: it, its runs, the boundary that they end at, or
    /// the table whose rows a view shows.
    pub(super) fn has(&self, state: &TableState) -> bool {
        self.has_view(state.table.primary.id)
            || match (self, state.table.view_of) {
                (Touched::All, _) => true,
                (Touched::Since { boundary, .. }, None) => *boundary,
                (Touched::Since { definitions, .. }, Some(_)) => *definitions,
            }
    }

    /// A table or view as it was, and the manifest before.
    pub(super) fn before(&self, state: &TableState) -> Option<(&'a Manifest, &'a TableState)> {
        let old = self.old()?;
        Some((old, state_of(old, state.table.id)?))
    }

    /// Whether the range at a place of a table or view lists the runs that it listed, and each of
    /// them is the same value.
    pub(super) fn keeps(&self, before: &TableState, now: &TableState, at: usize) -> bool {
        let Touched::Since { runs, .. } = self else {
            return false;
        };
        let is_touched = |range: &RangeState| {
            let mut entries = range.runs.iter();
            entries.any(|entry| runs.contains(&entry.id))
        };
        before.table.primary.id == now.table.primary.id
            && before.ranges.len() == now.ranges.len()
            && before.ranges[at].runs == now.ranges[at].runs
            && !is_touched(&now.ranges[at])
    }

    /// The runs that may be named by no range of a touched view: those that were touched, and what
    /// ranges listed that are not kept.
    pub(super) fn maybe_unnamed(&self, new: &Manifest) -> BTreeSet<RunId> {
        let Touched::Since { old, runs, .. } = self else {
            return new.runs.keys().copied().collect();
        };
        let states = old.tables.values().chain(old.views.values());
        let touched = states.filter(|state| self.has_view(state.table.primary.id));
        let listed = touched.flat_map(|before| {
            let now = state_of(new, before.table.id);
            let ranges = before.ranges.iter().enumerate();
            let others =
                ranges.filter(move |(at, _)| !now.is_some_and(|now| self.keeps(before, now, *at)));
            others.flat_map(|(_, range)| range.runs.iter().map(|entry| entry.id))
        });
        listed.chain(runs.iter().copied()).collect()
    }

    /// The ranges of primary views whose oldest run has to be compared with the first SCU whose
    /// times are known: all of them where that is another one.
    pub(super) fn primary_ranges<'m>(
        &'m self,
        new: &'m Manifest,
    ) -> impl Iterator<Item = &'m RangeState> {
        let first = |manifest: &Manifest| manifest.times.first_key_value().map(|(scu, _)| *scu);
        let same_first = self.old().is_some_and(|old| first(old) == first(new));
        let states = new.tables.values();
        let states = states.filter(move |state| !same_first || self.has(state));
        states.flat_map(|state| state.ranges.iter().map(|range| &**range))
    }
}

fn state_of(manifest: &Manifest, id: TableId) -> Option<&TableState> {
    let state = manifest.tables.get(&id).or_else(|| manifest.views.get(&id));
    state.map(|state| &**state)
}

fn is_defined_alike(before: Option<&Arc<TableState>>, after: Option<&Arc<TableState>>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => Arc::ptr_eq(&before.table, &after.table),
        _ => false,
    }
}

/// Tells every value that is not the same one in both, as it was and as it is.
fn each_difference<K: Ord, V>(
    before: &BTreeMap<K, Arc<V>>,
    after: &BTreeMap<K, Arc<V>>,
    mut tell: impl FnMut(&K, &V),
) {
    let (mut left, mut right) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some((left, _)), Some((right, _))) => left.cmp(right),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return,
        };
        let was = if order.is_le() { left.next() } else { None };
        let is = if order.is_ge() { right.next() } else { None };
        match (was, is) {
            (Some((_, was)), Some((_, is))) if Arc::ptr_eq(was, is) => {}
            (was, is) => was
                .into_iter()
                .chain(is)
                .for_each(|(key, value)| tell(key, value)),
        }
    }
}
