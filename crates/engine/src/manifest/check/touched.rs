//! What a commit touched: tables, views and runs that are not the same value (`Arc::ptr_eq`) as in
//! the manifest before. The rest was checked with that one, and what its invariants compare it
//! with only grows. Of a range of a table that was touched, those first runs are left out that it
//! listed before: most often all of them, or all but a new one. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_model::ViewId;

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
        /// Those of them that were there before.
        changed: BTreeSet<RunId>,
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
        let mut definitions = old.plain_views != new.plain_views;
        for (before, after) in [(&old.tables, &new.tables), (&old.views, &new.views)] {
            each_difference(before, after, |_, state| {
                views.insert(state.table.primary.id);
                let id = state.table.id;
                definitions |= !is_defined_alike(before.get(&id), after.get(&id));
            });
        }
        let changed = runs.iter().filter(|id| old.runs.contains_key(*id));
        let changed = changed.copied().collect();
        Touched::Since {
            old,
            definitions,
            boundary: old.sorted_through != new.sorted_through,
            views,
            changed,
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

    /// A table or view as it was.
    pub(super) fn before(&self, state: &TableState) -> Option<&'a TableState> {
        self.old()?.state_of(state.table.id)
    }

    /// How many of its first runs the range at a place of a table or view listed before, in the
    /// same order, and each of them is the same value.
    pub(super) fn kept(&self, before: &TableState, now: &TableState, at: usize) -> usize {
        let Touched::Since { changed, .. } = self else {
            return 0;
        };
        let is_other_view = before.table.primary.id != now.table.primary.id;
        if is_other_view || before.ranges.len() != now.ranges.len() {
            return 0;
        }
        let (before, now) = (&before.ranges[at], &now.ranges[at]);
        if changed.is_empty() && Arc::ptr_eq(before, now) {
            return now.runs.len();
        }
        let pairs = before.runs.iter().zip(&now.runs);
        pairs
            .take_while(|(before, now)| before == now && !changed.contains(&now.id))
            .count()
    }

    /// The runs that may be named by no range of a touched view: those that were touched, and what
    /// ranges listed and may list no more.
    pub(super) fn maybe_unnamed(&self, new: &Manifest) -> BTreeSet<RunId> {
        let Touched::Since { old, runs, .. } = self else {
            return new.runs.keys().copied().collect();
        };
        let states = old.tables.values().chain(old.views.values());
        let touched = states.filter(|state| self.has_view(state.table.primary.id));
        let listed = touched.flat_map(|before| {
            let now = new.state_of(before.table.id);
            let ranges = before.ranges.iter().enumerate();
            ranges.flat_map(move |(at, range)| {
                let kept = now.map_or(0, |now| self.kept(before, now, at));
                range.runs[kept..].iter().map(|entry| entry.id)
            })
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
