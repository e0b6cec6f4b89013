//! Tables that say how stale a cheap answer may be, and are about to be staler.
//!
//! ```text
//!   newest boundary at which all ranges of a table and its views have few runs
//!     -> age of the first change after it          half of the target: the table is late
//! ```
//!
//! Reads [`Manifest`] and [`Load`]; pure. The other half of a target is for the work.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazybase_engine::manifest::{Manifest, TableState};
use lazybase_model::limits::BEST_EFFORT_RUNS_MAX;
use lazybase_model::{ScuNumber, TableId, ViewId};

use super::chain::Chain;
use super::chains::Chains;
use super::{Load, unfinished};
use crate::lag;

/// The tables that are late.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Late {
    /// Where the round of each of their views ends.
    rounds: BTreeMap<ViewId, ScuNumber>,
    /// The last unsorted SCU that changes one of them: those before are adopted first.
    sorts_through: ScuNumber,
}

impl Late {
    pub(super) fn of(manifest: &Manifest, load: &Load<'_>, chains: &Chains) -> Late {
        let mut late = Late::default();
        for state in manifest.tables.values() {
            let Some(target) = state.table.freshness_target_micros else {
                continue;
            };
            let chains: Vec<Arc<Chain>> = with_views(manifest, state)
                .flat_map(|state| chains.of_state(state).iter().cloned())
                .collect();
            let reached = cheap_through(manifest, state, &chains, load.settings.runs_best);
            if lag::micros_behind(manifest, load.now_micros, reached) > target / 2 {
                let round = unfinished(&chains, load.settings);
                let round = round.unwrap_or(manifest.sorted_through);
                let rounds = chains.iter().map(|chain| (chain.view, round));
                late.rounds.extend(rounds);
                let unsorted = last_unsorted(manifest, state.table.id);
                late.sorts_through = late.sorts_through.max(unsorted);
            }
        }
        late
    }

    /// Where the merges of a view end, if its table is late.
    pub(super) fn round_of(&self, view: ViewId) -> Option<ScuNumber> {
        self.rounds.get(&view).copied()
    }

    /// Whether a table that is late waits for this SCU to be sorted.
    pub(super) fn wants(&self, scu: ScuNumber) -> bool {
        scu <= self.sorts_through
    }
}

/// How stale an answer from a table is that meets as few runs as one at best effort, in
/// microseconds: what its freshness target is held against.
pub fn cheap_behind_micros(manifest: &Manifest, state: &TableState, now_micros: i64) -> u64 {
    let chains: Vec<Arc<Chain>> = with_views(manifest, state)
        .flat_map(|state| Chain::of_table(manifest, state, &[]))
        .collect();
    let reached = cheap_through(manifest, state, &chains, BEST_EFFORT_RUNS_MAX);
    lag::micros_behind(manifest, now_micros, reached)
}

/// A table and its secondary views.
fn with_views<'m>(
    manifest: &'m Manifest,
    state: &'m TableState,
) -> impl Iterator<Item = &'m TableState> {
    let table = state.table.id;
    let views = manifest.views.values().map(|view| &**view);
    let views = views.filter(move |view| view.table.view_of == Some(table));
    std::iter::once(state).chain(views)
}

/// The newest boundary at which none of a table's ranges has more runs than that.
fn cheap_through(
    manifest: &Manifest,
    state: &TableState,
    chains: &[Arc<Chain>],
    runs_max: usize,
) -> ScuNumber {
    let sorted = lag::sorted_of(manifest, state);
    let reached = chains
        .iter()
        .map(|chain| chain.boundary_with(runs_max, sorted));
    reached.fold(sorted, ScuNumber::min)
}

/// The last unsorted SCU that changes a table.
fn last_unsorted(manifest: &Manifest, table: TableId) -> ScuNumber {
    let unsorted = manifest.scus.range(manifest.sorted_through.next()..);
    let mut newest_first = unsorted.rev();
    let last = newest_first.find(|(_, entry)| entry.tables.contains_key(&table));
    last.map_or(ScuNumber::ZERO, |(scu, _)| *scu)
}
