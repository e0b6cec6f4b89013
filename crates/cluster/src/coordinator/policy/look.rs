//! One look of the policy, kept: where nothing changed that it sees, it would say the same again.
//! Pure.

use std::sync::Arc;

use lazybase_engine::manifest::Manifest;
use lazybase_model::ScuNumber;

use super::chains::Chains;
use super::targets::Late;
use super::{IDLE_FACTOR, Load, Proposal, RunningTask, propose_of};

/// What the policy said of a manifest and a load.
#[derive(Debug)]
pub struct Look {
    manifest: Arc<Manifest>,
    running: Vec<RunningTask>,
    chains: Arc<Chains>,
    sight: Sight,
    /// What should be done, most urgent first.
    pub proposals: Vec<Proposal>,
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
    /// Looks, unless `last` saw the same.
    pub fn again(last: Option<&Arc<Look>>, manifest: &Arc<Manifest>, load: &Load<'_>) -> Arc<Look> {
        let is_same = |last: &&Arc<Look>| {
            Arc::ptr_eq(&last.manifest, manifest) && last.running == load.running
        };
        let chains = match last.filter(is_same) {
            Some(last) => Arc::clone(&last.chains),
            None => {
                let earlier = last.map(|last| &*last.chains);
                Arc::new(Chains::after(earlier, manifest, load.running))
            }
        };
        let sight = Sight::of(load, Late::of(manifest, load, &chains));
        if let Some(last) = last.filter(is_same).filter(|last| last.sight == sight) {
            return Arc::clone(last);
        }
        Arc::new(Look {
            manifest: Arc::clone(manifest),
            running: load.running.to_vec(),
            proposals: propose_of(manifest, load, &chains, sight.late.clone()),
            chains,
            sight,
        })
    }
}

#[cfg(test)]
mod tests;
