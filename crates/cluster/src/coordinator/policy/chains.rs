//! The chains of all ranges, and what they say together. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_engine::manifest::{Became, Manifest, TableState, Unchanged};
use lazybase_model::TableId;

use super::RunningTask;
use super::chain::Chain;

/// The chains of all ranges of tables and secondary views.
#[derive(Debug)]
pub(super) struct Chains(BTreeMap<TableId, Vec<Arc<Chain>>>);

impl Chains {
    /// Those of a manifest in which these tasks run.
    pub(super) fn of(manifest: &Manifest, running: &[RunningTask]) -> Chains {
        Chains::by_state(manifest, |state| Chain::of_table(manifest, state, running))
    }

    /// Those of another manifest, or of other tasks: a range that neither changed keeps its chain.
    pub(super) fn follow(
        &self,
        unchanged: &Unchanged<'_>,
        manifest: &Manifest,
        running: &[RunningTask],
    ) -> Chains {
        Chains::by_state(manifest, |state| {
            let (known, became) = (self.of_state(state), unchanged.ranges_of(state));
            let chain = |at: usize| {
                let known = known.get(at).filter(|_| became[at] == Became::Same);
                match known.filter(|chain| chain.is_merged_by(running)) {
                    Some(chain) => Arc::clone(chain),
                    None => Arc::new(Chain::of(manifest, state, at, running)),
                }
            };
            (0..state.ranges.len()).map(chain).collect()
        })
    }

    fn by_state(manifest: &Manifest, of: impl Fn(&TableState) -> Vec<Arc<Chain>>) -> Chains {
        let states = manifest.tables.values().chain(manifest.views.values());
        Chains(states.map(|state| (state.table.id, of(state))).collect())
    }

    /// Those of a table's, or a view's, own ranges, in the order of keys.
    pub(super) fn of_state(&self, state: &TableState) -> &[Arc<Chain>] {
        let chains = self.0.get(&state.table.id);
        chains.map(Vec::as_slice).unwrap_or_default()
    }

    /// The table of which one range has the most runs with data, without `lost` ones, and how many.
    pub(super) fn most_crowded<'m>(
        &self,
        manifest: &'m Manifest,
        lost: &BTreeSet<TableId>,
    ) -> Option<(usize, &'m str)> {
        let tables = manifest.tables.values();
        let tables = tables.filter(|state| !lost.contains(&state.table.id));
        let counts = tables.filter_map(|state| {
            let runs = self.of_state(state).iter().map(|chain| chain.runs);
            Some((runs.max()?, state.table.name.as_str()))
        });
        counts.max()
    }
}
