//! What is kept from one look at the pipeline to the next: the chains of all ranges, and what the
//! policy said of them.
//!
//! ```text
//!   manifest, running tasks -> chains      again where an edit or a task changed the range
//!   chains, load            -> proposals   again where anything changed that the policy sees
//! ```
//!
//! Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_engine::manifest::{Manifest, Unchanged};
use lazybase_model::{ScuNumber, TableId};

use super::chains::Chains;
use super::targets::Late;
use super::{IDLE_FACTOR, Load, PolicySettings, Proposal, RunningTask, propose_of};

/// A manifest in which tasks run, as the policy sees it.
#[derive(Debug)]
pub(crate) struct Look {
    manifest: Arc<Manifest>,
    running: Vec<RunningTask>,
    chains: Chains,
    /// What should be done, and under which load.
    said: Option<(Sight, Arc<[Proposal]>)>,
}

/// What the policy sees of a load beside its tasks: how long it has been idle, how much is
/// unsorted, who waits, and which tables are late, as far as that makes a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sight {
    is_open: bool,
    idle_steps: u8,
    pressure: u64,
    awaited_through: ScuNumber,
    late: Late,
}

impl Sight {
    fn of(load: &Load<'_>, late: Late) -> Sight {
        let settings = load.settings;
        let steps = [settings.idle_after, settings.idle_after * IDLE_FACTOR];
        let passed = steps.iter().filter(|step| load.idle_for >= **step);
        Sight {
            is_open: load.open_batches > 0,
            idle_steps: passed.count() as u8,
            pressure: load.pressure(),
            awaited_through: load.awaited_through,
            late,
        }
    }
}

impl Look {
    /// Looks at a manifest in which these tasks run. What the `last` look saw and neither changed,
    /// it takes over.
    pub(crate) fn at(
        manifest: &Arc<Manifest>,
        running: &[RunningTask],
        last: Option<Look>,
    ) -> Look {
        let chains = match last {
            None => Chains::of(manifest, running),
            Some(last) if Arc::ptr_eq(&last.manifest, manifest) && last.running == running => {
                return last;
            }
            Some(last) => {
                let unchanged = Unchanged::between(&last.manifest, manifest);
                last.chains.follow(&unchanged, manifest, running)
            }
        };
        Look {
            manifest: Arc::clone(manifest),
            running: running.to_vec(),
            chains,
            said: None,
        }
    }

    /// What should be done, most urgent first. The load is of the tasks that were looked at.
    pub(crate) fn proposals(&mut self, load: &Load<'_>) -> Arc<[Proposal]> {
        let late = Late::of(&self.manifest, load, &self.chains);
        let sight = Sight::of(load, late.clone());
        match &self.said {
            Some((seen, proposals)) if *seen == sight => Arc::clone(proposals),
            _ => {
                let proposals = propose_of(&self.manifest, load, &self.chains, late);
                let proposals: Arc<[Proposal]> = proposals.into();
                self.said = Some((sight, Arc::clone(&proposals)));
                proposals
            }
        }
    }

    /// Why writers have to wait for merges, if they have to. Nobody waits for those of `lost`
    /// tables, which can't be merged any more.
    pub(crate) fn too_many_runs(
        &self,
        settings: &PolicySettings,
        lost: &BTreeSet<TableId>,
    ) -> Option<String> {
        let most = settings.runs_per_range_max;
        let (runs, name) = self.chains.most_crowded(&self.manifest, lost)?;
        (runs > most).then(|| {
            format!("a key range of table {name:?} has {runs} runs to be merged, {most} may wait")
        })
    }
}

#[cfg(test)]
mod tests;
