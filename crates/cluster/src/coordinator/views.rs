//! Secondary views: brought on in the background, and built anew where that can't be.
//!
//! ```text
//!   nothing changed since the view's end      -> an edit
//!   the changes since then can be told        -> old and new entries of the changed rows
//!   they can't, and the view holds nothing    -> all rows
//!   a file with some of them is damaged       -> the view waits
//!   they can't                                -> the view begins again from nothing
//! ```

use std::sync::Arc;

use lazybase_engine::manifest::{Edit, Manifest, Run, RunId, RunKind, TableState};
use lazybase_engine::read::remedy::damaged_files;
use lazybase_engine::read::views::leads_on;
use lazybase_engine::read::{AsOf, OwnTable, Snapshot, SnapshotAsk};
use lazybase_model::{Freshness, Horizon, OnMiss, Result, ScuNumber, Span, TableId, ViewId};

use super::policy::{Proposal, RunningTask};
use super::run::Coordinator;
use super::tasks::stage_of;
use crate::shared::DamageState;
use crate::task::{Advance, Output, StageName, TaskId, TaskStatus, Work};

impl Coordinator {
    /// Brings a view on without reading anything, where that can be; whether it could.
    pub(super) async fn advance_by_edit(
        &self,
        manifest: &Arc<Manifest>,
        view: ViewId,
        from: ScuNumber,
        to: ScuNumber,
    ) -> Result<bool> {
        let Some((state, table)) = view_and_table(manifest, view) else {
            return Ok(false);
        };
        let proposal = Proposal::Advance { view, from, to };
        if self.paused.contains(&stage_of(&proposal)) {
            return Ok(false);
        }
        let edit = if is_untouched(manifest, table, from) {
            let runs = Vec::new();
            Edit::Advanced {
                view,
                from,
                to,
                runs,
                whole: false,
            }
        } else if has_entries(manifest, state) && self.begins_again(manifest, table, from, to) {
            Edit::ResetView { view }
        } else {
            return Ok(false);
        };
        self.commit(edit).await?;
        Ok(true)
    }

    /// Whether a view has to begin again from nothing: nobody can tell what it lacks, nor will.
    /// While its table can't be read at all, nothing could be made in its place.
    fn begins_again(
        &self,
        manifest: &Arc<Manifest>,
        table: &TableState,
        from: ScuNumber,
        to: ScuNumber,
    ) -> bool {
        if !leads_on(manifest, table, from, to) {
            return true;
        }
        let Ok(new) = self.boundary(manifest, table, to) else {
            return false;
        };
        let is_told = new.tells_changes_since(table.table.id, from);
        let goes_on = is_told && self.boundary(manifest, table, from).is_ok();
        !goes_on && !self.is_being_healed(manifest, table)
    }

    /// Whether files of a table are damaged of which it is not known that nothing holds their rows.
    fn is_being_healed(&self, manifest: &Manifest, table: &TableState) -> bool {
        let (_, damaged) = self.shared.reader.damaged.files();
        let board = self.shared.tasks.lock();
        let is_lost = |file: &str| {
            let status = board.damage.get(file);
            status.is_some_and(|status| status.state == DamageState::Lost)
        };
        let runs = manifest.runs.values();
        let of_table = runs.filter(|run| run.view == table.table.primary.id);
        let mut files = of_table.flat_map(|run| damaged_files(run, &damaged));
        files.any(|file| !is_lost(file))
    }

    /// The task that brings a view on; none while its table, or what changed there, can't be read.
    pub(super) fn advance_task(
        &self,
        manifest: &Arc<Manifest>,
        view: ViewId,
        from: ScuNumber,
        to: ScuNumber,
    ) -> Result<Option<(Work, TaskStatus)>> {
        let Some((state, table)) = view_and_table(manifest, view) else {
            return Ok(None);
        };
        let id = table.table.id;
        let Ok(new) = self.boundary(manifest, table, to) else {
            return Ok(None);
        };
        let (old, empty) = match has_entries(manifest, state) {
            // What needs a damaged file waits until it is made again.
            true if !new.tells_changes_since(id, from) => return Ok(None),
            true => match self.boundary(manifest, table, from) {
                Ok(old) => (Some(old), None),
                Err(_) => return Ok(None),
            },
            false => (None, first_run(state)),
        };
        let status = TaskStatus {
            id: TaskId(0),
            stage: StageName::Authority,
            table: Some(state.table.id),
            span: Span::new(from.next(), to),
            bytes: 0,
            started_micros: self.shared.now(),
        };
        let work = Work::Advance(Advance {
            layout: self.shared.reader.layout(&state.table)?,
            table: id,
            from,
            to,
            new,
            old,
            empty,
        });
        Ok(Some((work, status)))
    }

    /// A table at a boundary of sorted data, under its newest definition: the view's.
    fn boundary(
        &self,
        manifest: &Arc<Manifest>,
        table: &TableState,
        boundary: ScuNumber,
    ) -> Result<Snapshot> {
        let unsorted = self.shared.ingest.unsorted();
        let unsorted = unsorted
            .iter()
            .filter(|scu| scu.scu() > manifest.sorted_through);
        let pins = &self.shared.reader.pins;
        let snapshot = self.shared.reader.snapshot(SnapshotAsk {
            pin: pins.pin_for_work("a view", || Arc::clone(manifest)),
            unsorted: unsorted.cloned().collect(),
            // Of rows that end by themselves none may be left out that a later answer shows, also
            // where the clock goes back at a restart: only what is written tells the time.
            now_micros: manifest.as_of_at_least(boundary).unwrap_or_default(),
            freshness: Freshness::BestEffort,
            floor: Horizon::ZERO,
            on_miss: OnMiss::Dig,
            at: Some(AsOf::Scu(boundary)),
            tables: Some(vec![table.table.id]),
        })?;
        Ok(snapshot.with_own([OwnTable {
            table: Arc::clone(&table.table),
            is_emptied: false,
            emptied: Vec::new(),
        }]))
    }

    /// A view with a damaged file that nothing of its own can make again is built anew.
    pub(super) async fn rebuild_view(&mut self, run: &Run) -> Result<()> {
        self.healing.unhealed.remove(&run.id);
        let manifest = self.shared.manifests.current();
        if manifest.runs.contains_key(&run.id) {
            self.commit(Edit::ResetView { view: run.view }).await?;
        }
        Ok(())
    }

    /// A view that showed wrong rows begins again from nothing; what is being made of it, or for
    /// it, is dropped. The number of the manifest in which it is empty.
    pub(super) async fn reset_view(&mut self, view: ViewId) -> Result<Option<u64>> {
        if !self.shared.manifests.current().is_view(view) {
            return Ok(None);
        }
        let of_view = |output: &Output| match output {
            Output::Advanced { view: of, .. } | Output::Merged { view: of, .. } => *of == view,
            _ => false,
        };
        self.merged.retain(|output| !of_view(output));
        let advances = self.running.iter().filter(
            |(_, task)| matches!(task.policy, RunningTask::Advance { view: of, .. } if of == view),
        );
        let advances: Vec<TaskId> = advances.map(|(id, _)| *id).collect();
        self.outdated.extend(advances);
        let manifest = self.commit(Edit::ResetView { view }).await?;
        Ok(Some(manifest.number))
    }

    /// The boundaries that views of tables are being brought to: what leads on from there stays.
    pub(super) fn views_on_their_way(&self) -> Vec<(TableId, ScuNumber)> {
        let manifest = self.shared.manifests.current();
        let table = |view: ViewId| manifest.table_of_view(view)?.table.view_of;
        let running = self.running.values().filter_map(|task| match task.policy {
            RunningTask::Advance { view, to } => Some((table(view)?, to)),
            _ => None,
        });
        let made = self.merged.iter().filter_map(|output| match output {
            Output::Advanced { view, to, .. } => Some((table(*view)?, *to)),
            _ => None,
        });
        running.chain(made).collect()
    }
}

fn view_and_table(
    manifest: &Manifest,
    view: ViewId,
) -> Option<(&Arc<TableState>, &Arc<TableState>)> {
    let state = manifest.table_of_view(view)?;
    let table = manifest.tables.get(&state.table.view_of?)?;
    Some((state, table))
}

/// Whether nothing changed in a table after a boundary.
fn is_untouched(manifest: &Manifest, table: &TableState, from: ScuNumber) -> bool {
    let runs = manifest.runs.values();
    let mut of_table = runs.filter(|run| run.view == table.table.primary.id);
    of_table.all(|run| {
        let changes = run.kind == RunKind::Base || !run.segments.is_empty();
        !changes || run.changes_through <= from
    })
}

/// Whether a view has any run with entries, or deletes of them.
fn has_entries(manifest: &Manifest, view: &TableState) -> bool {
    let runs = manifest.runs.values();
    let mut of_view = runs.filter(|run| run.view == view.table.primary.id);
    of_view.any(|run| !run.segments.is_empty())
}

/// The current run that a view begins with.
fn first_run(view: &TableState) -> Option<RunId> {
    let mut runs = view.ranges.first()?.runs.iter();
    runs.find(|entry| entry.is_current()).map(|entry| entry.id)
}
