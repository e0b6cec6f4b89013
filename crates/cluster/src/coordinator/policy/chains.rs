//! The chains of all ranges. Those of ranges that an edit and the running tasks left alone are
//! taken over from the look before. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazybase_engine::manifest::{Manifest, SeenRanges, TableState};
use lazybase_model::TableId;

use super::RunningTask;
use super::chain::Chain;

/// The chains of all ranges of tables and secondary views.
#[derive(Debug)]
pub(super) struct Chains {
    seen: SeenRanges,
    of_states: BTreeMap<TableId, Vec<Arc<Chain>>>,
}

impl Chains {
    /// The chains of a manifest, with those of an `earlier` one where they are the same.
    pub(super) fn after(
        earlier: Option<&Chains>,
        manifest: &Manifest,
        running: &[RunningTask],
    ) -> Chains {
        let earlier = earlier.map(|chains| (chains, chains.seen.beside(manifest)));
        let of_state = |state: &TableState| -> Vec<Arc<Chain>> {
            let Some((earlier, unchanged)) = &earlier else {
                return Chain::of_table(manifest, state, running);
            };
            let unchanged = unchanged.ranges_of(state);
            let known = earlier.of_state(state);
            let chain = |at: usize| {
                let same = unchanged.get(at).is_some_and(|same| *same);
                let known = known.get(at).filter(|_| same);
                match known.filter(|chain| chain.is_merged_by(running)) {
                    Some(chain) => Arc::clone(chain),
                    None => Arc::new(Chain::of(manifest, state, at, running)),
                }
            };
            (0..state.ranges.len()).map(chain).collect()
        };
        let states = manifest.tables.values().chain(manifest.views.values());
        let of_states = states.map(|state| (state.table.id, of_state(state)));
        Chains {
            of_states: of_states.collect(),
            seen: SeenRanges::of(manifest),
        }
    }

    /// Those of a table's, or a view's, own ranges, in the order of keys.
    pub(super) fn of_state(&self, state: &TableState) -> &[Arc<Chain>] {
        let chains = self.of_states.get(&state.table.id);
        chains.map(Vec::as_slice).unwrap_or_default()
    }
}
