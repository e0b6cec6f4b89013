//! SETTLE: waiting until the pipeline has come as far as was asked for, or is known not to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use lazybase_engine::manifest::{Manifest, RangeState, RunKind, TableState};
use lazybase_model::{Error, ErrorKind, Result, ScuNumber, TableId, ViewId};

use super::Instance;
use crate::coordinator::policy::{Load, PolicySettings, Proposal, propose};
use crate::coordinator::{Command, Event};
use crate::shared::{DamageState, DamageStatus, FailingWork, is_log};
use crate::status::bases_of;
use crate::task::StageName;

/// How often work may fail in a row before whoever waits for it is told.
const FAILURES_MAX: u32 = 8;

/// How far everything shall have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleTo {
    /// No unsorted data is left.
    Sorted,
    /// Everything is in the authority.
    Authority,
}

impl Instance {
    /// Waits until everything acknowledged so far, of one table or of all, has come that far;
    /// `progress` hears the share that has, from 0 to 1.
    ///
    /// # Errors
    /// `Unavailable` when a stage that is needed is paused; `Cancelled` when the database closes;
    /// what the attempts say where a piece of work fails again and again.
    #[boxed]
    pub async fn settle(
        &self,
        table: Option<TableId>,
        to: SettleTo,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<()> {
        self.refuse_paused(to)?;
        let before = self.failures_by_now();
        let through = self.shared.ingest.seal().await?;
        let closed = || Error::new(ErrorKind::Cancelled, "the database is closed");
        // Held while this waits: whoever goes away, or is told why, is in no hurry any more.
        let held = Arc::new(());
        if to == SettleTo::Authority {
            let waiting = Arc::downgrade(&held);
            let hurry = Event::Asked(Command::Hurry { through, waiting });
            self.events.send(hurry).map_err(|_| closed())?;
        }
        let mut changed = self.shared.changed.subscribe();
        loop {
            let (done, wanted) =
                settled_share(&self.shared.manifests.current(), table, to, through);
            progress(if wanted == 0 {
                1.0
            } else {
                done as f64 / wanted as f64
            });
            if done == wanted {
                return Ok(());
            }
            // What was not done when the coordinator ended nobody does any more.
            if self.events.is_closed() {
                return Err(closed());
            }
            self.refuse_paused(to)?;
            self.refuse_paused_merges(table, to)?;
            self.refuse_lost(table, to)?;
            self.refuse_failing(table, to, &before)?;
            tokio::select! {
                biased;
                changed = changed.changed() => changed.map_err(|_| closed())?,
                () = self.shared.env.clock.sleep(Duration::from_millis(250)) => {}
            }
        }
    }

    /// What is lost never comes to rest.
    fn refuse_lost(&self, table: Option<TableId>, to: SettleTo) -> Result<()> {
        let manifest = self.shared.manifests.current();
        // Nobody waits for a table that was dropped.
        let is_there = |of: TableId| manifest.tables.contains_key(&of);
        let board = self.shared.tasks.lock();
        let waited_for = |(file, lost): &(&String, &DamageStatus)| {
            lost.state == DamageState::Lost
                && match lost.table {
                    None => is_log(file),
                    Some(of) if is_there(of) => {
                        to == SettleTo::Authority && table.is_none_or(|table| table == of)
                    }
                    Some(_) => false,
                }
        };
        match board.damage.iter().find(waited_for) {
            None => Ok(()),
            Some((_, lost)) => Err(Error::corrupt(&lost.what)
                .with_detail(&lost.place)
                .with_hint("run `lazybase verify` to see what is damaged")),
        }
    }

    /// How often each piece of work that fails has failed in a row.
    fn failures_by_now(&self) -> BTreeMap<String, u32> {
        let board = self.shared.tasks.lock();
        let failing = board.failing.iter();
        failing
            .map(|(name, work)| (name.clone(), work.failures))
            .collect()
    }

    /// What has failed so often since `before` was counted will not be done by waiting; the work
    /// goes on, and may be asked for again.
    fn refuse_failing(
        &self,
        table: Option<TableId>,
        to: SettleTo,
        before: &BTreeMap<String, u32>,
    ) -> Result<()> {
        let manifest = self.shared.manifests.current();
        // A table has come to rest once its views have.
        let owner = |id: TableId| {
            let view = manifest.views.get(&id);
            view.and_then(|view| view.table.view_of).unwrap_or(id)
        };
        let since = |name: &String, work: &FailingWork| match before.get(name) {
            Some(before) if *before <= work.failures => work.failures - before,
            // It was done in between, and fails anew.
            _ => work.failures,
        };
        let board = self.shared.tasks.lock();
        let waited_for = |(name, work): &(&String, &FailingWork)| {
            let early = matches!(work.status.stage, StageName::Remap | StageName::Sort);
            let of_table = table.is_none() || work.status.table.map(owner) == table;
            // Damaged files are healed, or found lost.
            since(name, work) >= FAILURES_MAX
                && work.error.damaged_file().is_none()
                && (early || (to == SettleTo::Authority && of_table))
        };
        match board.failing.iter().find(waited_for) {
            None => Ok(()),
            Some((_, work)) => Err(work
                .error
                .clone()
                .with_hint("it is tried again and again: SELECT * FROM lazybase.troubles")),
        }
    }

    fn refuse_paused(&self, to: SettleTo) -> Result<()> {
        let board = self.shared.tasks.lock();
        let needed: &[StageName] = match to {
            SettleTo::Sorted => &[StageName::Remap, StageName::Sort],
            SettleTo::Authority => &[StageName::Remap, StageName::Sort, StageName::Authority],
        };
        match needed.iter().find(|stage| board.paused.contains(stage)) {
            None => Ok(()),
            Some(stage) => Err(paused(*stage)),
        }
    }

    /// Few runs go to the authority at once. Of many, some are merged with each other before: by a
    /// stage that may be paused.
    fn refuse_paused_merges(&self, table: Option<TableId>, to: SettleTo) -> Result<()> {
        let manifest = self.shared.manifests.current();
        let is_paused = self.shared.tasks.lock().paused.contains(&StageName::Merge);
        // What is merged how is decided once all is sorted.
        let is_sorted = manifest.sorted_through == manifest.sealed_through;
        if to != SettleTo::Authority || !is_paused || !is_sorted {
            return Ok(());
        }
        let load = Load {
            running: &[],
            idle_for: Duration::MAX,
            now_micros: self.shared.now(),
            open_batches: 0,
            unsorted_bytes: 0,
            awaited_through: ScuNumber::ZERO,
            settings: &PolicySettings::of(&self.shared.settings),
        };
        let waited_for: Vec<ViewId> = states_of(&manifest, table)
            .map(|state| state.table.primary.id)
            .collect();
        let comes_before = |proposal: &Proposal| match proposal {
            Proposal::Merge { view, output, .. } => {
                *output != RunKind::Base && waited_for.contains(view)
            }
            _ => false,
        };
        match propose(&manifest, &load).iter().any(comes_before) {
            true => Err(paused(StageName::Merge)),
            false => Ok(()),
        }
    }
}

/// What waits for a stage that is paused is told.
fn paused(stage: StageName) -> Error {
    Error::unavailable(format!("stage {} is paused", stage.name()))
        .with_detail("what waits for the pipeline would wait for ever")
        .with_hint(format!(
            "RESUME STAGE {}",
            stage.name().to_ascii_uppercase()
        ))
        .with_sqlstate("55000")
}

/// How many ranges (or SCUs) are settled, and how many there are.
fn settled_share(
    manifest: &Manifest,
    table: Option<TableId>,
    to: SettleTo,
    through: ScuNumber,
) -> (u64, u64) {
    let sorted = manifest.sorted_through.min(through).0;
    if to == SettleTo::Sorted || sorted < through.0 {
        let extra = u64::from(to == SettleTo::Authority);
        return (sorted, through.0 + extra);
    }
    let states = states_of(manifest, table);
    let ranges: Vec<_> = states.flat_map(|state| &state.ranges).collect();
    let done = ranges
        .iter()
        .filter(|range| is_settled(manifest, range, through))
        .count();
    (done as u64, ranges.len() as u64)
}

/// A table with its views, or all tables and views.
fn states_of(
    manifest: &Manifest,
    table: Option<TableId>,
) -> impl Iterator<Item = &Arc<TableState>> {
    let wanted = move |id| table.is_none_or(|table| table == id);
    let states = manifest.tables.values().chain(manifest.views.values());
    states.filter(move |state| wanted(state.table.view_of.unwrap_or(state.table.id)))
}

/// Whether the authority of a range holds everything up to a boundary. What came later may lie
/// beside it: whoever goes on writing must not keep others waiting for ever.
fn is_settled(manifest: &Manifest, range: &RangeState, through: ScuNumber) -> bool {
    let current = range.runs.iter().filter(|run| run.is_current());
    let mut bases = bases_of(manifest, current);
    bases.any(|base| base.span.last >= through)
}
