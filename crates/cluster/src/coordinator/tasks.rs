//! From a proposal to a task: the inputs by reference, and the words for the status.

use std::sync::Arc;
use std::time::Duration;

use lazybase_engine::env::planted::{Planted, is_planted};
use lazybase_engine::manifest::{Manifest, Run, RunId, RunKind};
use lazybase_engine::read::Identifier;
use lazybase_engine::read::paths::segments_in;
use lazybase_engine::stages::ingest::UnsortedScu;
use lazybase_engine::ttl::Expiry;
use lazybase_model::{Error, Result, ScuNumber, Span, ViewId};

use super::policy::{Load, Proposal, RunningTask};
use super::run::Coordinator;
use crate::status::authority_reaches;
use crate::task::{Output, StageName, TaskId, TaskStatus, Work};

/// How long everything has been idle, to the policy, when somebody waits for the authority.
const HURRY: Duration = Duration::from_secs(3600);

/// After damage has failed it so often in a row, a sort leaves out the tables whose log is damaged.
pub(super) const SORT_FAILURES: u32 = 2;

impl Coordinator {
    /// Tasks that were handed out and whose edits are not committed.
    pub(super) fn outstanding(&self) -> Vec<RunningTask> {
        let running = self.running.values().map(|task| task.policy.clone());
        let remapped = self.remapped.iter().map(|_| RunningTask::Remap);
        let running = running.chain(remapped);
        let sorted = self
            .sorted
            .keys()
            .map(|scu| RunningTask::Sort { scu: *scu });
        let merged = self.merged.iter().filter_map(|output| match output {
            Output::Merged {
                view,
                range,
                inputs,
                ..
            } => Some(RunningTask::Merge {
                view: *view,
                low: range.low.clone(),
                inputs: inputs.clone(),
            }),
            Output::Advanced { view, to, .. } => Some(RunningTask::Advance {
                view: *view,
                to: *to,
            }),
            _ => None,
        });
        running.chain(sorted).chain(merged).collect()
    }

    /// What the policy needs to know beside the manifest.
    pub(super) fn load<'l>(&'l self, manifest: &Manifest, running: &'l [RunningTask]) -> Load<'l> {
        let unsorted = self.shared.ingest.unsorted();
        let last_ack = unsorted.iter().rev().find_map(|scu| scu.last_ack_micros());
        let last_time = manifest.times.values().next_back();
        let last_ack = last_ack
            .or(last_time.map(|time| time.last_ack_micros))
            .unwrap_or(0);
        let awaited = self.hurry.authority_through();
        let hurried = !authority_reaches(manifest, awaited);
        let idle_for = match hurried {
            true => HURRY,
            false => Duration::from_micros((self.shared.now() - last_ack).max(0) as u64),
        };
        let open = unsorted
            .last()
            .map_or(0, |scu| u64::from(scu.acknowledged()));
        Load {
            running,
            idle_for,
            now_micros: self.shared.now(),
            open_batches: if hurried { 0 } else { open },
            unsorted_bytes: unsorted.iter().map(|scu| scu.raw_bytes()).sum(),
            awaited_through: if hurried { awaited } else { ScuNumber::ZERO },
            settings: &self.policy,
        }
    }

    /// The inputs of a proposal; nothing when the stage is paused or its inputs are gone.
    pub(super) fn task_of(
        &self,
        manifest: &Arc<Manifest>,
        proposal: &Proposal,
    ) -> Result<Option<(Work, TaskStatus)>> {
        let needed = match proposal {
            Proposal::Remap { first: scu, .. } | Proposal::Sort { scu } => {
                *scu <= self.hurry.sort_needed_through
            }
            _ => false,
        };
        if self.paused.contains(&stage_of(proposal)) && !needed {
            return Ok(None);
        }
        match proposal {
            Proposal::Remap { first, last } => Ok(self.remap_task(manifest, *first, *last)),
            Proposal::Sort { scu } => self.sort_task(manifest, *scu),
            Proposal::Merge {
                view,
                low,
                inputs,
                output,
                ..
            } => self.merge_task(manifest, *view, low, inputs, *output),
            Proposal::Advance { view, from, to } => self.advance_task(manifest, *view, *from, *to),
            Proposal::Split { .. } => Ok(None),
        }
    }

    /// What gives numbers to natural keys of the SCUs that are not sorted.
    pub(super) fn identifier(&self, owner: &str) -> Identifier {
        let reader = &self.shared.reader;
        let current = || self.shared.manifests.current();
        let pin = reader.pins.pin_for_work(owner, current);
        let sorted = pin.manifest().sorted_through;
        let unsorted = self.shared.ingest.unsorted();
        let after = unsorted.iter().filter(|scu| scu.scu() > sorted).cloned();
        Identifier::pinned(reader.clone(), pin, after.collect::<Vec<_>>())
    }

    fn remap_task(
        &self,
        manifest: &Arc<Manifest>,
        first: ScuNumber,
        last: ScuNumber,
    ) -> Option<(Work, TaskStatus)> {
        // Where that failed, one by one: those before the one that can't be read go on.
        let last = match self.failures(&RunningTask::Remap) {
            0 => last,
            _ => first,
        };
        let unsorted = self.shared.ingest.unsorted();
        let inside = |scu: &&Arc<UnsortedScu>| first <= scu.scu() && scu.scu() <= last;
        let scus: Vec<Arc<UnsortedScu>> = unsorted.iter().filter(inside).cloned().collect();
        let (first, last) = (scus.first()?.scu(), scus.last()?.scu());
        let entries = manifest.scus.range(first..=last);
        let status = TaskStatus {
            id: TaskId(0),
            stage: StageName::Remap,
            table: None,
            span: Span::new(first, last),
            bytes: entries.map(|(_, entry)| entry.raw_bytes).sum(),
            started_micros: self.shared.now(),
        };
        let ids = self.identifier("remap");
        Some((Work::Remap { ids, scus }, status))
    }

    fn sort_task(
        &self,
        manifest: &Arc<Manifest>,
        scu: ScuNumber,
    ) -> Result<Option<(Work, TaskStatus)>> {
        let Some(entry) = manifest.scus.get(&scu) else {
            return Ok(None);
        };
        let Some(unsorted) = self
            .shared
            .ingest
            .unsorted()
            .iter()
            .find(|unsorted| unsorted.scu() == scu)
            .cloned()
        else {
            return Err(Error::internal(format!("the log of SCU {scu} is not open")));
        };
        let mut layouts = Vec::new();
        for state in manifest.tables.values() {
            if Identifier::touches(&state.table, &unsorted) {
                layouts.push(self.shared.layout_at(state, scu)?);
            }
        }
        let status = TaskStatus {
            id: TaskId(0),
            stage: StageName::Sort,
            table: None,
            span: Span::single(scu),
            bytes: entry.raw_bytes,
            started_micros: self.shared.now(),
        };
        Ok(Some((
            Work::Sort {
                ids: self.identifier("sort"),
                scu: unsorted,
                layouts,
                give_up: self.met_damage(&RunningTask::Sort { scu }) >= SORT_FAILURES,
            },
            status,
        )))
    }

    fn merge_task(
        &self,
        manifest: &Arc<Manifest>,
        view: ViewId,
        low: &Option<lazybase_engine::key::Key>,
        inputs: &[RunId],
        output: RunKind,
    ) -> Result<Option<(Work, TaskStatus)>> {
        let Some(table) = manifest.table_of_view(view) else {
            return Ok(None);
        };
        let Some(range) = table.ranges.iter().find(|state| state.range.low == *low) else {
            return Ok(None);
        };
        let runs: Option<Vec<Arc<Run>>> = inputs
            .iter()
            .map(|id| manifest.runs.get(id).cloned())
            .collect();
        let Some(runs) = runs.filter(|runs| !runs.is_empty()) else {
            return Ok(None);
        };
        // What needs a damaged file waits until it is made again.
        let (_, damaged) = self.shared.reader.damaged.files();
        let mut segments = runs.iter().flat_map(|run| segments_in(run, &range.range));
        if segments.any(|segment| damaged.contains_key(&segment.file)) {
            return Ok(None);
        }
        let stage = match output {
            RunKind::Base => StageName::Authority,
            RunKind::Merged | RunKind::Sorted => StageName::Merge,
        };
        let status = TaskStatus {
            id: TaskId(0),
            stage,
            table: Some(table.table.id),
            span: Span::new(
                runs[0].span.first,
                runs.iter()
                    .map(|run| run.span.last)
                    .max()
                    .unwrap_or_default(),
            ),
            bytes: runs.iter().map(|run| run.bytes()).sum(),
            started_micros: self.shared.now(),
        };
        // Horizons that end with these changes ask for the columns that there were then.
        let newest = runs.iter().map(|run| run.changes_through).max();
        let layout = self.shared.layout_at(table, newest.unwrap_or_default())?;
        let work = Work::Merge {
            // The moment stands where it stood then.
            expiry: expiry(manifest, &layout.table, &runs, output),
            layout,
            range: range.range.clone(),
            inputs: runs,
            output,
        };
        Ok(Some((work, status)))
    }
}

/// Which rows of a new base have ended at every horizon that it can answer: at the as-of time of
/// its boundary, and so at all later ones.
fn expiry(
    manifest: &Manifest,
    table: &lazybase_model::Table,
    inputs: &[Arc<Run>],
    output: RunKind,
) -> Option<Expiry> {
    let boundary = inputs.last()?.span.last;
    let as_of_micros = manifest.as_of_at_least(boundary)?;
    let as_of_micros = match is_planted(Planted::ExpiredEarly) {
        true => as_of_micros + 1_000_000,
        false => as_of_micros,
    };
    Expiry::of(table, as_of_micros).filter(|_| output == RunKind::Base)
}

/// The stage whose work a proposal is.
pub(super) fn stage_of(proposal: &Proposal) -> StageName {
    match proposal {
        Proposal::Advance { .. } => StageName::Authority,
        Proposal::Remap { .. } => StageName::Remap,
        Proposal::Sort { .. } => StageName::Sort,
        Proposal::Merge {
            output: RunKind::Base,
            ..
        } => StageName::Authority,
        Proposal::Merge { .. } | Proposal::Split { .. } => StageName::Merge,
    }
}

/// What names a piece of work across its attempts.
pub(super) fn work_name(task: &RunningTask) -> String {
    match task {
        RunningTask::Remap => "remap".to_owned(),
        RunningTask::Sort { scu } => format!("sort of SCU {scu}"),
        RunningTask::Merge { inputs, .. } => format!("merge of {inputs:?}"),
        RunningTask::Advance { view, to } => format!("bringing {view} to {to}"),
        RunningTask::Heal { runs } => format!("healing of {runs:?}"),
        RunningTask::Check { files } => format!("check of {files:?}"),
    }
}
