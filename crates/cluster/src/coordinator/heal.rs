//! Healing: damaged files are read again, made again from what is left, or reported as lost.
//!
//! ```text
//!   any read, merge or verify --notes a file--> suspected --read back in full--> whole: forgotten
//!                                                   \--> damaged, an earlier stage holds its rows:
//!                                                   |      the stage runs again -> Edit::Heal
//!                                                   \--> damaged, nothing holds them: lost, said
//!                                                          once, kept in the status
//! ```
//!
//! Runs are made again oldest first: what was healed serves to heal what was made of it. Several
//! runs may name one file; each is healed. A damaged log is healed by sorting what it holds, from
//! memory. Invariant HEAL-2: while a run waits to be made again, nothing that it is to be made of
//! is retired, though the process should end meanwhile: its damaged files are marked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lazybase_engine::manifest::{Edit, HealedRun, Manifest, RetiredRun, Run, RunId, ScuEntry};
use lazybase_engine::read::DamagedFiles;
use lazybase_engine::read::paths::segments_in;
use lazybase_engine::read::remedy::{Piece, Remedy, damaged_files, made_of, outlook, remedy};
use lazybase_model::{Error, ErrorKind, Result, ScuNumber, Span, TableId, ViewId};

use super::policy::RunningTask;
use super::run::Coordinator;
use crate::condemned;
use crate::manifest_files::is_of_manifest;
use crate::parts::place_of;
use crate::shared::{DamageState, DamageStatus, is_log};
use crate::task::{Heal, HealPiece, Output, Replaced, Report, StageName, TaskId, TaskStatus, Work};

/// How often a lost file is looked at again: somebody may have restored it.
const LOST_CHECKED_EVERY: Duration = Duration::from_secs(30);

/// What the coordinator knows of damage.
#[derive(Default)]
pub(super) struct Healing {
    /// The version of the set of damaged files that was looked at last: what is retired while
    /// there is a newer one may be what something is to be made of.
    pub(super) looked_at: u64,
    /// Suspected files that are read back by themselves, and how often an attempt at them hung.
    pub(super) apart: BTreeMap<String, u32>,
    /// Runs that wait to be made again.
    pub(super) unhealed: BTreeSet<RunId>,
    /// Tables with rows that nothing holds any more.
    pub(super) lost_tables: BTreeSet<TableId>,
    /// Damaged logs, each with the SCU up to which everything must be sorted.
    logs: BTreeMap<String, ScuNumber>,
    /// When logs of lost rows were last forgotten, to be tried once more.
    retried: BTreeMap<String, i64>,
    /// Lost files that were reported.
    reported: BTreeSet<String>,
    /// Damaged files whose marks were refused by the store, which was said.
    unmarked: BTreeSet<String>,
    /// What is made again and waits for its edit.
    pub(super) made: Vec<Output>,
}

impl Coordinator {
    /// Does what can be done about damaged files now.
    pub(super) async fn heal(&mut self) -> Result<()> {
        self.adopt_healed().await?;
        let (version, damaged) = self.shared.reader.damaged.files();
        if damaged.is_empty() {
            self.keep_marks(BTreeMap::new()).await;
            self.healing = Healing {
                looked_at: version,
                ..Healing::default()
            };
            return Ok(());
        }
        self.healing.looked_at = version;
        self.heal_logs(&damaged).await?;
        let manifest = self.shared.manifests.current();
        let broken: Vec<Arc<Run>> = manifest
            .runs
            .values()
            .filter(|run| !damaged_files(run, &damaged).is_empty())
            .cloned()
            .collect();
        self.settle_states(&broken, &damaged).await;
        self.healing.unhealed = broken.iter().map(|run| run.id).collect();
        let suspects = self.check_suspects(&manifest, &broken, &damaged)?;
        // What is lost is so whether or not the suspected files are whole.
        let mut known = damaged.as_ref().clone();
        known.retain(|file, _| !suspects.contains(file));
        let lost = outlook(&manifest, &known).lost;
        let for_good = lost_for_good(&manifest, &known, &lost);
        let waiting = broken.iter().filter(|run| !for_good.contains(&run.id));
        let marked = self.to_be_marked(waiting, &damaged);
        self.keep_marks(marked).await;
        // Only now: a check that hangs makes no table one that others have to wait for.
        if suspects.is_empty() {
            self.healing.lost_tables.clear();
        }
        let mut retired = Vec::new();
        for run in &broken {
            let mut files = damaged_files(run, &damaged).into_iter();
            if files.any(|file| suspects.contains(file)) {
                continue;
            }
            let waits = || remedy(&manifest, run, &known).is_some();
            match remedy(&manifest, run, &damaged) {
                Some(remedy) => self.start_heal(&manifest, run, remedy, &damaged)?,
                None if manifest.is_view(run.view) && !waits() => self.rebuild_view(run).await?,
                None if lost.contains(&run.id) => {
                    let is_for_good = for_good.contains(&run.id);
                    retired.extend(self.lose(&manifest, run, &damaged, is_for_good));
                }
                // It waits for what it is made of, which is made again first.
                None if suspects.is_empty() => {
                    self.note_state(run, &damaged, DamageState::Healing, None);
                }
                // What it is made of may be whole, or lost as it is itself.
                None => {}
            }
        }
        self.retire_lost(retired).await
    }

    /// The damaged files of runs that wait to be made again. Those that are only suspected wait for
    /// being read back; those that a disk refuses may be read the next time.
    fn to_be_marked<'r>(
        &self,
        runs: impl Iterator<Item = &'r Arc<Run>>,
        damaged: &DamagedFiles,
    ) -> BTreeMap<String, Error> {
        let noted = &self.shared.reader.damaged;
        let known =
            |file: &str| noted.confirmed_at(file).is_some() || self.damage_marks.contains(file);
        let mut marked = BTreeMap::new();
        for file in runs.flat_map(|run| damaged_files(run, damaged)) {
            let error = &damaged[file];
            let is_condemned = self.shared.reader.damaged.is_condemned(file);
            if known(file) && error.kind() == ErrorKind::Corrupt && !is_condemned {
                marked.insert(file.to_owned(), error.clone());
            }
        }
        marked
    }

    /// Keeps marks of these files, and of no others. A file that is lost has none: nothing waits
    /// for it, and whoever restores it is to find its rows as soon as the database is open.
    async fn keep_marks(&mut self, wanted: BTreeMap<String, Error>) {
        let store = Arc::clone(&self.shared.env.store);
        let is_over = |file: &&String| !wanted.contains_key(*file);
        let over: Vec<String> = self.damage_marks.iter().filter(is_over).cloned().collect();
        for file in over {
            self.damage_marks.remove(&file);
            // What stays is forgotten once the database was opened again.
            if let Err(refused) = condemned::forget_damaged(&*store, &file).await {
                self.shared.report_trouble(&refused);
            }
        }
        for (file, error) in wanted {
            if self.damage_marks.contains(&file) {
                continue;
            }
            match condemned::keep_damaged(&*store, &file, &error).await {
                Ok(()) => {
                    self.damage_marks.insert(file);
                }
                // It is tried again at the next tick, and said once.
                Err(refused) if self.healing.unmarked.insert(file.clone()) => {
                    self.shared.report_trouble(&refused);
                }
                Err(_) => {}
            }
        }
    }

    pub(super) fn heal_status(&self, table: Option<TableId>, span: Span, bytes: u64) -> TaskStatus {
        TaskStatus {
            id: TaskId(0),
            stage: StageName::Heal,
            table,
            span,
            bytes,
            started_micros: self.shared.now(),
        }
    }

    /// Files hold wrong rows, though their checksums are right: they are made again as damaged ones
    /// are, with everything that was made of them. What is being made of them now is dropped.
    pub(super) async fn condemn(&mut self, errors: &[Error]) -> BTreeMap<String, Error> {
        let manifest = self.shared.manifests.current();
        let files = errors.iter().filter_map(Error::damaged_file);
        let files: BTreeSet<String> = files.map(str::to_owned).collect();
        let made = made_of(&manifest, &files);
        for error in errors.iter().chain(made.values()) {
            self.shared.reader.damaged.condemn(error);
            self.shared.report_trouble(error);
        }
        for error in errors.iter().chain(made.values()) {
            // Where it can't be kept, a restart forgets it: VERIFY TABLE finds it again.
            if let Err(refused) = condemned::keep(&*self.shared.env.store, error).await {
                self.shared.report_trouble(&refused);
            }
        }
        for view in self.drop_made_of(&manifest, &files, &made) {
            // Whoever asked may not wait for the end.
            if let Err(refused) = self.reset_view(view).await {
                self.shared.report_trouble(&refused);
            }
        }
        made
    }

    /// Drops what is being made of files that hold wrong rows; the secondary views of their tables,
    /// which may show them.
    fn drop_made_of(
        &mut self,
        manifest: &Manifest,
        files: &BTreeSet<String>,
        made: &BTreeMap<String, Error>,
    ) -> Vec<ViewId> {
        let is_wrong = |run: &&Arc<Run>| {
            let mut named = run.segments.iter().map(|segment| &segment.file);
            named.any(|file| files.contains(file) || made.contains_key(file))
        };
        let wrong: BTreeMap<RunId, ViewId> = manifest
            .runs
            .values()
            .filter(is_wrong)
            .map(|run| (run.id, run.view))
            .collect();
        let views: BTreeSet<ViewId> = wrong.values().copied().collect();
        let is_of_views = |view: ViewId| {
            let table = manifest.table_of_view(view).and_then(|of| of.table.view_of);
            let table = table.and_then(|table| manifest.tables.get(&table));
            table.is_some_and(|table| views.contains(&table.table.primary.id))
        };
        let of_tables = |id: &RunId| {
            let run = manifest.runs.get(id);
            run.is_some_and(|run| views.contains(&run.view))
        };
        self.merged.retain(|output| match output {
            Output::Merged { inputs, .. } => !inputs.iter().any(|id| wrong.contains_key(id)),
            Output::Advanced { view, .. } => !is_of_views(*view),
            _ => true,
        });
        let of_output = |output: &Output| match output {
            Output::Healed { runs } => runs.iter().any(|replaced| of_tables(&replaced.run)),
            _ => false,
        };
        self.healing.made.retain(|output| !of_output(output));
        let outdated = self.running.iter().filter(|(_, task)| match &task.policy {
            RunningTask::Merge { inputs, .. } => inputs.iter().any(|id| wrong.contains_key(id)),
            RunningTask::Advance { view, .. } => is_of_views(*view),
            RunningTask::Heal { runs } => runs.iter().any(of_tables),
            RunningTask::Remap | RunningTask::Sort { .. } | RunningTask::Check { .. } => false,
        });
        let outdated: Vec<TaskId> = outdated.map(|(id, _)| *id).collect();
        self.outdated.extend(outdated);
        let secondary = manifest.views.values();
        let secondary = secondary.map(|state| state.table.primary.id);
        secondary.filter(|view| is_of_views(*view)).collect()
    }

    fn start_heal(
        &mut self,
        manifest: &Manifest,
        run: &Arc<Run>,
        remedy: Remedy,
        damaged: &DamagedFiles,
    ) -> Result<()> {
        let Some(state) = manifest.table_of_view(run.view) else {
            return Ok(());
        };
        let layout = self.shared.layout_at(state, run.changes_through)?;
        let (runs, heal) = match remedy {
            Remedy::Sort { scu, parts } => {
                let Some(entry) = manifest.scus.get(&scu).cloned() else {
                    return Ok(());
                };
                let runs = parts.iter().filter_map(|id| manifest.runs.get(id));
                let runs: Vec<Arc<Run>> = runs.cloned().collect();
                let parts = runs.clone();
                (parts, Heal::Sort { entry, runs })
            }
            Remedy::Merge(pieces) => {
                let heal = merge_again(manifest, run, &pieces, damaged);
                (vec![Arc::clone(run)], heal)
            }
        };
        let ids = runs.iter().map(|run| run.id).collect();
        let bytes = runs.iter().map(|run| run.bytes()).sum();
        let status = self.heal_status(Some(state.table.id), run.span, bytes);
        self.note_state(run, damaged, DamageState::Healing, None);
        let task = RunningTask::Heal { runs: ids };
        let ids = self.identifier("heal");
        self.launch(Work::Heal { layout, ids, heal }, status, task);
        Ok(())
    }

    fn note_state(
        &self,
        run: &Run,
        damaged: &DamagedFiles,
        state: DamageState,
        table: Option<TableId>,
    ) {
        let mut board = self.shared.tasks.lock();
        let (_, noted) = self.shared.reader.damaged.files();
        let files = damaged_files(run, damaged).into_iter();
        for file in files.filter(|file| noted.contains_key(*file)) {
            if let Some(status) = board.damage.get_mut(file) {
                status.state = state;
                status.table = table;
            }
        }
    }

    /// Brings the states of damaged files up to date, and forgets files that nothing names.
    async fn settle_states(&mut self, broken: &[Arc<Run>], damaged: &DamagedFiles) {
        for file in self.settle_board(broken, damaged) {
            // What stays is forgotten when the database is opened again.
            if let Err(refused) = condemned::forget(&*self.shared.env.store, &file).await {
                self.shared.report_trouble(&refused);
            }
        }
    }

    /// The same; those of the files that were condemned.
    fn settle_board(&mut self, broken: &[Arc<Run>], damaged: &DamagedFiles) -> Vec<String> {
        let manifest = self.shared.manifests.current();
        let mut named: BTreeSet<&str> = BTreeSet::new();
        let mut board = self.shared.tasks.lock();
        // What was found whole since `damaged` was taken is told of no more.
        let (_, noted) = self.shared.reader.damaged.files();
        for run in broken {
            for file in damaged_files(run, damaged) {
                named.insert(file);
                if !noted.contains_key(file) {
                    continue;
                }
                let fresh = || DamageStatus {
                    place: place_of(&manifest, run),
                    what: damaged[file].message().to_owned(),
                    state: DamageState::Suspected,
                    table: None,
                };
                let status = board.damage.entry(file.to_owned()).or_insert_with(fresh);
                if status.what != damaged[file].message() {
                    status.what = damaged[file].message().to_owned();
                }
            }
        }
        let mut healed = Vec::new();
        for (file, status) in &mut board.damage {
            let waits = matches!(status.state, DamageState::Suspected | DamageState::Healing);
            let is_segment = !is_log(file) && !is_of_manifest(file);
            if waits && is_segment && !named.contains(file.as_str()) {
                status.state = DamageState::Healed;
                // Whoever runs the machine should know of its disk.
                let what = format!("made again, as it was damaged: {}", status.what);
                healed.push(Error::corrupt(what).with_detail(&status.place));
            }
        }
        drop(board);
        healed
            .iter()
            .for_each(|error| self.shared.report_trouble(error));
        let pinned = self.shared.reader.pins.manifests();
        let pinned_files: BTreeSet<&str> = pinned
            .iter()
            .flat_map(|manifest| manifest.runs.values())
            .flat_map(|run| &run.segments)
            .map(|segment| segment.file.as_str())
            .collect();
        let gone = damaged
            .keys()
            .map(String::as_str)
            .filter(|file| !named.contains(file) && !pinned_files.contains(file) && !is_log(file));
        let gone: Vec<&str> = gone.collect();
        let known = &self.shared.reader.damaged;
        let condemned = gone.iter().filter(|file| known.is_condemned(file));
        let condemned = condemned.map(|file| (*file).to_owned()).collect();
        known.forget(gone);
        condemned
    }

    /// A run that nothing is left to make again: said once. Where newer runs have replaced it,
    /// it leaves: the horizons that only it led to can't be answered any more. One that is not lost
    /// for good waits for what the disk may read again.
    fn lose(
        &mut self,
        manifest: &Manifest,
        run: &Run,
        damaged: &DamagedFiles,
        is_for_good: bool,
    ) -> Vec<RetiredRun> {
        let mut retired = Vec::new();
        let mut is_current = false;
        let Some(state) = manifest.table_of_view(run.view) else {
            return retired;
        };
        let files = damaged_files(run, damaged);
        let refused = files
            .iter()
            .any(|file| damaged[*file].kind() != ErrorKind::Corrupt);
        for range in &state.ranges {
            let Some(entry) = range.runs.iter().find(|entry| entry.id == run.id) else {
                continue;
            };
            let mut segments = segments_in(run, &range.range).iter();
            if !segments.any(|segment| damaged.contains_key(&segment.file)) {
                continue;
            }
            if entry.is_current() || refused || !is_for_good {
                is_current |= entry.is_current();
                continue;
            }
            let of_edge = |other: &RunId| {
                manifest.runs.get(other).is_some_and(|other| {
                    other.id == run.id
                        || (other.part + run.part > 0
                            && other.kind == run.kind
                            && other.span == run.span)
                })
            };
            let edge = range.runs.iter().map(|entry| entry.id).filter(of_edge);
            retired.extend(edge.map(|run| RetiredRun {
                view: state.table.primary.id,
                low: range.range.low.clone(),
                run,
            }));
        }
        if is_current {
            self.healing.lost_tables.insert(state.table.id);
        }
        if is_for_good {
            self.healing.unhealed.remove(&run.id);
        }
        let needed = is_current.then_some(state.table.id);
        self.note_state(run, damaged, DamageState::Lost, needed);
        let now = self.shared.now();
        for file in files {
            if self.healing.reported.insert(file.to_owned()) {
                let error = damaged[file].clone().with_detail(format!(
                    "{}: no earlier stage holds these rows",
                    place_of(manifest, run)
                ));
                self.shared.report_trouble(&error);
            }
            let checked = self.shared.reader.damaged.confirmed_at(file);
            if now - checked.unwrap_or(now) > LOST_CHECKED_EVERY.as_micros() as i64 {
                self.shared.reader.damaged.doubt(file);
            }
        }
        retired
    }

    async fn retire_lost(&mut self, mut runs: Vec<RetiredRun>) -> Result<()> {
        runs.sort_by(|a, b| (a.view, &a.low, a.run).cmp(&(b.view, &b.low, b.run)));
        runs.dedup();
        if runs.is_empty() {
            return Ok(());
        }
        let edit = Edit::Retire {
            runs,
            scus: Vec::new(),
            times_before: ScuNumber::ZERO,
        };
        self.commit(edit).await.map(|_| ())
    }

    /// What a damaged log holds is sorted; then nobody needs the log.
    async fn heal_logs(&mut self, damaged: &DamagedFiles) -> Result<()> {
        for (file, error) in damaged.iter().filter(|(file, _)| is_log(file)) {
            let through = match self.healing.logs.get(file) {
                Some(through) => *through,
                None => {
                    let open = self.shared.ingest.open_scu();
                    let holds = open.log_files().contains(file);
                    let sealed = match holds {
                        true => self.shared.ingest.seal().await?,
                        false => self.shared.manifests.current().sealed_through,
                    };
                    *self.healing.logs.entry(file.clone()).or_insert(sealed)
                }
            };
            let manifest = self.shared.manifests.current();
            let mut kept = manifest.scus.range(..=through).map(|(_, entry)| entry);
            let needed = manifest.sealed_through < through || kept.any(|entry| names(entry, file));
            let lost = self.healing.reported.contains(file);
            // Sorted but for the tables whose rows were lost: nothing else waits for it.
            let table = lost_in(&manifest, file).filter(|_| manifest.sorted_through >= through);
            let state = match (needed, lost || table.is_some()) {
                (false, _) => DamageState::Healed,
                (true, true) => DamageState::Lost,
                (true, false) => DamageState::Healing,
            };
            let status = DamageStatus {
                place: format!("log of SCUs up to {through}"),
                what: error.message().to_owned(),
                state,
                table,
            };
            let mut board = self.shared.tasks.lock();
            if self.shared.reader.damaged.files().1.contains_key(file) {
                board.damage.insert(file.clone(), status);
            }
            drop(board);
            let is_refused = error.kind() != ErrorKind::Corrupt;
            if (table.is_some() || is_refused) && self.is_retried(file) {
                // Somebody may have restored it, or what failed was the read.
                self.shared.reader.damaged.forget([file.as_str()]);
                if is_refused {
                    // Whoever meets it again says so.
                    self.shared.tasks.lock().damage.remove(file);
                    self.healing.logs.remove(file);
                }
            }
            if !needed {
                self.healing.logs.remove(file);
                self.shared.reader.damaged.forget([file.as_str()]);
            }
        }
        Ok(())
    }

    /// Whether it is time to look at a lost log once more.
    fn is_retried(&mut self, file: &str) -> bool {
        let now = self.shared.now();
        let since = self.healing.retried.entry(file.to_owned()).or_insert(now);
        let is_time = now - *since > LOST_CHECKED_EVERY.as_micros() as i64;
        if is_time {
            *since = now;
        }
        is_time
    }

    /// A sort could not read its log: nothing else holds what is in it.
    pub(super) fn lose_log(&mut self, error: &Error) {
        if let Some(file) = error.damaged_file().filter(|file| is_log(file)) {
            self.healing.reported.insert(file.to_owned());
        }
    }

    /// Commits what was made again, in the place of what it replaces.
    async fn adopt_healed(&mut self) -> Result<()> {
        while let Some(Output::Healed { runs }) = self.healing.made.first() {
            let manifest = self.shared.manifests.current();
            let mut files = Vec::new();
            if let Some(healed) = healed_runs(&manifest, runs) {
                let replaced = runs.iter().flat_map(|replaced| &replaced.files);
                files.extend(replaced.cloned());
                self.commit(Edit::Heal { runs: healed }).await?;
            }
            self.healing.made.remove(0);
            self.note_replaced(files);
        }
        let oldest = self.running.keys().next().map(|id| id.0);
        let oldest = oldest.unwrap_or(self.next_task);
        self.replaced.retain(|_, next| oldest < *next);
        Ok(())
    }

    /// Files were made again, and will be forgotten. A merge moves whole segments as they are: one
    /// that began before would name a damaged file again, of which nobody knows any more.
    fn note_replaced(&mut self, files: Vec<String>) {
        let names = |output: &Output| {
            let segments = output.segments();
            segments.iter().any(|segment| files.contains(&segment.file))
        };
        self.merged.retain(|output| !names(output));
        self.healing.made.retain(|output| !names(output));
        self.wake(&files);
        let next = self.next_task;
        self.replaced
            .extend(files.into_iter().map(|file| (file, next)));
    }

    /// Whether an attempt moved a file that was made again while it ran.
    pub(super) fn moved_replaced(&self, report: &Report) -> bool {
        let Ok(output) = &report.outcome else {
            return false;
        };
        let is_replaced = |file: &String| {
            let next = self.replaced.get(file);
            next.is_some_and(|next| report.task.0 < *next)
        };
        let segments = output.segments();
        segments.iter().any(|segment| is_replaced(&segment.file))
    }
}

/// The lost runs for which nothing is kept. A disk that refuses a read may read the file later: a
/// run whose own files are damaged waits for what it is made of.
fn lost_for_good(manifest: &Manifest, damaged: &DamagedFiles, lost: &[RunId]) -> BTreeSet<RunId> {
    let mut corrupt = damaged.clone();
    corrupt.retain(|_, error| error.kind() == ErrorKind::Corrupt);
    if corrupt.len() == damaged.len() {
        return lost.iter().copied().collect();
    }
    let without_them = outlook(manifest, &corrupt).lost;
    let waits = |id: &RunId| {
        let run = manifest.runs.get(id);
        let is_broken = run.is_some_and(|run| !damaged_files(run, &corrupt).is_empty());
        is_broken && !without_them.contains(id)
    };
    lost.iter().copied().filter(|id| !waits(id)).collect()
}

/// The new segments of runs; nothing when one of them is gone or was healed meanwhile.
fn healed_runs(manifest: &Manifest, replaced: &[Replaced]) -> Option<Vec<HealedRun>> {
    let of_run = |replaced: &Replaced| {
        let run = manifest.runs.get(&replaced.run)?;
        let is_replaced = |file: &String| replaced.files.contains(file);
        let kept = run.segments.iter().filter(|s| !is_replaced(&s.file));
        let mut segments: Vec<_> = kept.chain(&replaced.segments).cloned().collect();
        segments.sort_by(|a, b| a.min_key.cmp(&b.min_key));
        let known = replaced.files.iter().all(|file| {
            let mut segments = run.segments.iter();
            segments.any(|segment| segment.file == *file)
        });
        known.then_some(HealedRun {
            run: run.id,
            segments,
        })
    };
    replaced.iter().map(of_run).collect()
}

/// The merges that make the damaged files of a run again.
fn merge_again(
    manifest: &Manifest,
    run: &Arc<Run>,
    pieces: &[Piece],
    damaged: &DamagedFiles,
) -> Heal {
    let inputs = |piece: &Piece| {
        let runs = piece.inputs.iter().filter_map(|id| manifest.runs.get(id));
        HealPiece {
            range: piece.range.clone(),
            inputs: runs.cloned().collect(),
        }
    };
    let files = damaged_files(run, damaged);
    Heal::Merge {
        run: Arc::clone(run),
        files: files.into_iter().map(str::to_owned).collect(),
        pieces: pieces.iter().map(inputs).collect(),
    }
}

/// A table whose rows were lost with a log file.
fn lost_in(manifest: &Manifest, file: &str) -> Option<TableId> {
    let mut lost = manifest.lost_runs().filter(|(scu, _)| {
        let entry = manifest.scus.get(scu);
        entry.is_some_and(|entry| names(entry, file))
    });
    lost.next().map(|(_, table)| table)
}

fn names(entry: &ScuEntry, file: &str) -> bool {
    let pieces = entry.log.iter().map(|piece| piece.file.as_str());
    pieces
        .chain(entry.files.iter().map(String::as_str))
        .any(|named| named == file)
}
