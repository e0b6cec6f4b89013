//! The coordinator's loop: hear, commit, adopt, decide, start.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lazybase_engine::manifest::collect::Sweep;
use lazybase_engine::manifest::{Edit, Manifest};
use lazybase_engine::stages::ingest::{HeldBack, Sealed};
use lazybase_model::error::DISK_FULL;
use lazybase_model::{Error, Result, ScuNumber, limits};
use tokio::sync::{mpsc, oneshot};

use super::ddl::PendingDdl;
use super::event::{Command, Event};
use super::failed::Rest;
use super::heal::Healing;
use super::policy::{Look, PolicySettings, Proposal, RunningTask, too_much_unsorted};
use super::silent::Watch;
use super::tasks::work_name;
use crate::adopt::seal_edit;
use crate::shared::{DamageState, Shared, is_log};
use crate::task::{Output, Pulse, Report, StageName, Task, TaskId, TaskStatus, Work};
use crate::worker::{WorkerContext, WorkerHandle};

/// What a coordinator is made of.
pub(crate) struct CoordinatorParts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
    pub(crate) sealed: mpsc::UnboundedReceiver<Sealed>,
    /// What workers work with.
    pub(crate) context: WorkerContext,
    /// Damaged files of which marks are kept.
    pub(crate) damage_marks: BTreeSet<String>,
}

/// How urgently somebody waits for the pipeline.
#[derive(Debug, Default)]
pub(super) struct Hurry {
    /// DDL can't begin before everything up to here is sorted, even where sorting is paused.
    pub(super) sort_needed_through: ScuNumber,
    /// Who waits for the authority, and up to where: as long as the other end is held. What was
    /// given up because it will never be there must not keep the pipeline in a hurry for ever.
    authority: Vec<(ScuNumber, Weak<()>)>,
}

impl Hurry {
    /// Up to where somebody waits for the authority.
    pub(super) fn authority_through(&self) -> ScuNumber {
        let waiting = self.authority.iter().filter(|(_, end)| is_held(end));
        let through = waiting.map(|(through, _)| *through).max();
        through.unwrap_or(ScuNumber::ZERO)
    }

    fn wait_for_authority(&mut self, through: ScuNumber, end: Weak<()>) {
        self.authority.retain(|(_, end)| is_held(end));
        self.authority.push((through, end));
    }
}

fn is_held(end: &Weak<()>) -> bool {
    end.strong_count() > 0
}

/// A task that runs, and where.
pub(super) struct Running {
    pub(super) worker: usize,
    pub(super) status: TaskStatus,
    pub(super) policy: RunningTask,
    pub(super) watch: Watch,
}

/// The one that decides stage work and commits edits.
pub(crate) struct Coordinator {
    pub(super) shared: Arc<Shared>,
    events: mpsc::UnboundedReceiver<Event>,
    pub(super) sealed: mpsc::UnboundedReceiver<Sealed>,
    pub(super) context: WorkerContext,
    pub(super) workers: Vec<WorkerHandle>,
    /// The number of the next worker.
    pub(super) next_worker: usize,
    pub(super) running: BTreeMap<TaskId, Running>,
    /// Attempts that were given up, and have not come back.
    pub(super) given_up: BTreeMap<TaskId, RunningTask>,
    /// When the pulse of attempts was last looked at, on the monotonic clock.
    pub(super) looked: Duration,
    /// Running tasks that may have read wrong rows: what they make is dropped.
    pub(super) outdated: HashSet<TaskId>,
    /// Files that were made again, each with the number of the first task after that: what began
    /// before may have moved them.
    pub(super) replaced: BTreeMap<String, u64>,
    /// Sealed SCUs whose edit is not committed yet, in order.
    pub(super) seals: VecDeque<Sealed>,
    /// Remapped SCUs whose edit could not be committed yet.
    pub(super) remapped: VecDeque<Output>,
    /// Sorted SCUs that wait for their predecessors.
    pub(super) sorted: BTreeMap<ScuNumber, Output>,
    /// Merged outputs whose edit could not be committed yet.
    pub(super) merged: VecDeque<Output>,
    pub(super) ddl: VecDeque<PendingDdl>,
    pub(super) hurry: Hurry,
    pub(super) policy: PolicySettings,
    /// The last look at the pipeline.
    look: Option<Look>,
    pub(super) paused: HashSet<StageName>,
    /// How many backups search their boundary.
    sealing_held: usize,
    pub(super) next_task: u64,
    /// Failed pieces of work, which are left alone for a while.
    pub(super) resting: HashMap<String, Rest>,
    /// Why the natural keys of SCUs can't be read: nothing else tells their numbers.
    pub(super) lost_mentions: Option<Error>,
    pub(super) healing: Healing,
    /// Damaged files of which marks are kept beside them.
    pub(super) damage_marks: BTreeSet<String>,
    pub(super) housekept_micros: i64,
    pub(super) sweep: Sweep,
    /// A sync that failed was told of.
    failed_sync_told: bool,
    pub(super) stopping: Option<oneshot::Sender<()>>,
}

impl Running {
    /// How long the attempt has been running.
    pub(super) fn age(&self, now_micros: i64) -> Duration {
        Duration::from_micros((now_micros - self.status.started_micros).max(0) as u64)
    }
}

impl Coordinator {
    pub(crate) fn new(parts: CoordinatorParts) -> Self {
        let settings = &parts.shared.settings;
        let policy = PolicySettings::of(settings);
        let context = parts.context;
        let workers = (0..settings.workers.max(1))
            .map(|number| WorkerHandle::spawn(number, context.clone()))
            .collect::<Vec<_>>();
        Coordinator {
            policy,
            shared: parts.shared,
            events: parts.events,
            sealed: parts.sealed,
            context,
            next_worker: workers.len(),
            workers,
            running: BTreeMap::new(),
            given_up: BTreeMap::new(),
            looked: Duration::ZERO,
            outdated: HashSet::new(),
            replaced: BTreeMap::new(),
            seals: VecDeque::new(),
            remapped: VecDeque::new(),
            sorted: BTreeMap::new(),
            merged: VecDeque::new(),
            ddl: VecDeque::new(),
            hurry: Hurry::default(),
            look: None,
            paused: HashSet::new(),
            sealing_held: 0,
            next_task: 1,
            resting: HashMap::new(),
            lost_mentions: None,
            healing: Healing::default(),
            damage_marks: parts.damage_marks,
            housekept_micros: 0,
            sweep: Sweep::new(),
            failed_sync_told: false,
            stopping: None,
        }
    }

    /// Runs until told to stop, then until the running attempts have ended.
    pub(crate) async fn run(mut self) {
        loop {
            let tick = self.shared.env.clock.sleep(limits::COORDINATOR_TICK);
            tokio::select! {
                biased;
                Some(sealed) = self.sealed.recv() => self.seals.push_back(sealed),
                Some(event) = self.events.recv() => self.hear(event).await,
                () = tick => {}
            }
            while let Ok(event) = self.events.try_recv() {
                self.hear(event).await;
            }
            // After the events: what was sealed before somebody asked to stop is known by then.
            while let Ok(sealed) = self.sealed.try_recv() {
                self.seals.push_back(sealed);
            }
            self.give_up_silent();
            self.act().await;
            if self.stopping.is_some() && self.running.is_empty() {
                break;
            }
        }
        for worker in self.workers.drain(..) {
            worker.stop();
        }
        self.ddl.drain(..).for_each(PendingDdl::close);
        if let Some(reply) = self.stopping.take() {
            // Nobody waits for the answer any more when the asker is gone.
            let _ = reply.send(());
        }
    }

    async fn hear(&mut self, event: Event) {
        match event {
            Event::Reported(report) => self.take_report(report),
            Event::Asked(Command::Ddl { request, reply }) => {
                self.ddl.push_back(PendingDdl::new(request, reply));
            }
            Event::Asked(Command::OpenProducer { name, role, reply }) => {
                let opened = self.open_producer(&name, role).await;
                let _ = reply.send(opened);
            }
            Event::Asked(Command::ReserveNumbers {
                sequence,
                count,
                reply,
            }) => {
                let _ = reply.send(self.reserve_numbers(sequence, count).await);
            }
            Event::Asked(Command::SetSequence {
                sequence,
                counter,
                reply,
            }) => {
                let _ = reply.send(self.set_sequence(sequence, counter).await);
            }
            Event::Asked(Command::Hurry { through, waiting }) => {
                self.hurry.wait_for_authority(through, waiting);
            }
            Event::Asked(Command::Pause {
                stage,
                paused,
                reply,
            }) => {
                match paused {
                    true => self.paused.insert(stage),
                    false => self.paused.remove(&stage),
                };
                self.let_seal();
                self.shared.tasks.lock().paused = self.paused.iter().copied().collect();
                let _ = reply.send(());
            }
            Event::Asked(Command::HoldSealing { hold, reply }) => {
                self.sealing_held = match hold {
                    true => self.sealing_held + 1,
                    false => self.sealing_held.saturating_sub(1),
                };
                self.let_seal();
                let _ = reply.send(());
            }
            Event::Asked(Command::Condemn { errors, reply }) => {
                let made = self.condemn(&errors).await;
                let _ = reply.send(made);
            }
            Event::Asked(Command::RebuildView { view, reply }) => {
                let _ = reply.send(self.reset_view(view).await);
            }
            Event::Asked(Command::Stop { reply }) => self.stopping = Some(reply),
        }
    }

    /// The open SCU is sealed by age and size unless the operator or a backup holds it.
    fn let_seal(&self) {
        let is_held = self.sealing_held > 0 || self.paused.contains(&StageName::Ingest);
        self.shared.ingest.set_sealing(!is_held);
    }

    /// Everything that the new state allows. An error here means that the store refused an edit:
    /// what could not be committed stays queued and is tried again at the next tick.
    async fn act(&mut self) {
        let done = self.try_act().await;
        self.tell_failed_sync();
        self.hold_back(done.as_ref().err());
        if let Err(error) = done {
            self.shared.report_trouble(&error);
            // On a full disk nothing will come that changes of the catalogue may wait for.
            if error.sqlstate() == DISK_FULL {
                self.refuse_ddl(&error);
            }
            self.make_room(&error).await;
        }
    }

    /// Says once that a sync failed after which nothing becomes durable.
    fn tell_failed_sync(&mut self) {
        if !self.failed_sync_told
            && let Some(failed) = self.shared.env.store.failed_sync()
        {
            self.failed_sync_told = true;
            self.shared.report_failed_sync(&failed);
        }
    }

    async fn try_act(&mut self) -> Result<()> {
        self.end_holds();
        self.reach_ddl().await?;
        self.adopt_remapped().await?;
        self.adopt_sorted().await?;
        self.adopt_merged().await?;
        if self.stopping.is_none() {
            self.heal().await?;
            self.decide().await?;
        }
        self.housekeep().await
    }

    /// Commits what ingest has sealed, and brings changes of the catalogue on. While the store
    /// takes no edit, or can't tell of one, those of which nothing is on its way are refused, as
    /// batches are: nobody can say for how long that lasts.
    async fn reach_ddl(&mut self) -> Result<()> {
        let mut reached = self.commit_seals().await;
        if reached.is_ok() {
            reached = self.advance_ddl().await;
        }
        if let Err(error) = &reached {
            self.refuse_ddl(error);
        }
        reached
    }

    /// Commits an edit and lets everybody who waits for the pipeline look again.
    pub(super) async fn commit(&self, edit: Edit) -> Result<Arc<Manifest>> {
        let manifest = self.shared.manifests.commit(edit).await?;
        self.note_committed(&manifest);
        Ok(manifest)
    }

    /// A manifest is durable: batches tell it from now on, and whoever waits looks again.
    pub(super) fn note_committed(&self, manifest: &Manifest) {
        self.shared.ingest.note_manifest(manifest.number);
        self.shared.changed.send_replace(manifest.number);
    }

    pub(super) async fn commit_seals(&mut self) -> Result<()> {
        while let Some(sealed) = self.seals.front() {
            // An edit that ended in doubt may have been written.
            let known = self.shared.manifests.settle_pending().await?.sealed_through;
            if known < sealed.entry.scu {
                self.commit(seal_edit(sealed)).await?;
            }
            if let Some(sealed) = self.seals.pop_front() {
                self.shared.spans.sealed(&sealed);
            }
        }
        Ok(())
    }

    async fn adopt_remapped(&mut self) -> Result<()> {
        while let Some(output) = self.remapped.front() {
            if let Output::Remapped { through, next_ids } = output {
                // Where a key map was dropped meanwhile, fewer SCUs wait for it.
                let known = self.shared.manifests.current().remapped_through();
                let (through, mut next_ids) = (*through, next_ids.clone());
                let next_ids = next_ids.split_off(&known.next());
                if through > known {
                    self.commit(Edit::Remapped { through, next_ids }).await?;
                }
            }
            self.remapped.pop_front();
        }
        Ok(())
    }

    /// Adopts sorted SCUs in the order of their numbers (COORD-1).
    async fn adopt_sorted(&mut self) -> Result<()> {
        loop {
            let manifest = self.shared.manifests.current();
            let next = manifest.sorted_through.next();
            // One whose edit was in doubt may have been adopted since.
            let waiting = self.sorted.split_off(&next);
            for adopted in std::mem::replace(&mut self.sorted, waiting).into_keys() {
                self.shared.forget_sorted(adopted);
            }
            let Some(Output::Sorted { scu, runs }) = self.sorted.get(&next) else {
                return Ok(());
            };
            let runs = crate::adopt::sorted_runs(&manifest, *scu, runs);
            self.commit(Edit::Sorted { scu: next, runs }).await?;
        }
    }

    async fn adopt_merged(&mut self) -> Result<()> {
        while let Some(output) = self.merged.front() {
            let manifest = self.shared.manifests.current();
            let edit = match output {
                Output::Advanced { .. } => crate::adopt::advanced_edit(&manifest, output),
                _ => crate::adopt::merged_edit(&manifest, output, self.shared.now()),
            };
            if let Some(edit) = edit {
                self.commit(edit).await?;
            }
            self.merged.pop_front();
        }
        let manifest = self.shared.manifests.current();
        self.shared.spans.settled(&manifest);
        Ok(())
    }

    fn take_report(&mut self, report: Report) {
        let Some(running) = self.running.remove(&report.task) else {
            self.refuse(report);
            return;
        };
        self.workers[running.worker].busy = false;
        self.shared.note_finished(&running.status, &report);
        let name = work_name(&running.policy);
        let before = self.resting.remove(&name).unwrap_or_default();
        self.shared.tasks.lock().failing.remove(&name);
        if self.outdated.remove(&report.task) || self.moved_replaced(&report) {
            return;
        }
        match report.outcome {
            Ok(output) => self.take_output(output),
            Err(error) => self.note_failed(name, running, before, error),
        }
    }

    /// Why the SCUs up to a boundary will never be sorted, as far as is known.
    pub(super) fn never_sorted(&self, manifest: &Manifest, boundary: ScuNumber) -> Option<Error> {
        let lost = self.lost_mentions.as_ref();
        let lost = lost.filter(|_| manifest.remapped_through() < boundary)?;
        // Other files than logs are made again where anything holds their rows.
        let is_lost = |file: &str| {
            let board = self.shared.tasks.lock();
            let state = board.damage.get(file).map(|damage| damage.state);
            is_log(file) || state == Some(DamageState::Lost)
        };
        lost.damaged_file().filter(|file| is_lost(file))?;
        let next = manifest.remapped_through().next();
        let told = lost
            .clone()
            .within(format_args!("SCU {next} can't be sorted"))
            .with_detail("nothing else tells which numbers its natural keys have")
            .with_hint("restore the file, or DROP the tables that share the numbers");
        Some(told)
    }

    /// What an attempt made waits for its edit.
    pub(super) fn take_output(&mut self, output: Output) {
        match output {
            output @ Output::Remapped { .. } => {
                self.lost_mentions = None;
                self.remapped.push_back(output);
            }
            output @ Output::Sorted { scu, .. } => {
                self.sorted.insert(scu, output);
            }
            output @ (Output::Merged { .. } | Output::Advanced { .. }) => {
                self.merged.push_back(output);
            }
            output @ Output::Healed { .. } => self.healing.made.push(output),
            Output::Checked { whole, damaged } => self.take_checked(&whole, &damaged),
        }
    }

    /// Has writers wait where too much is there already, whatever can be done about it now: most
    /// of all while every worker is busy, or the store takes no edit. On a full disk nobody can say
    /// for how long, and after a sync that failed it is for ever: they are refused, as batches are
    /// that the log has no room for, or can't make durable.
    fn hold_back(&mut self, met: Option<&Error>) {
        let manifest = self.shared.manifests.current();
        let unsorted = too_much_unsorted(&self.load(&manifest, &[]));
        let why = unsorted.or_else(|| self.crowded(&manifest));
        let refusal = self.never_sorted(&manifest, manifest.sealed_through);
        let refusal = refusal.filter(|_| self.is_full_of_lost(&manifest));
        let full = met.filter(|error| error.sqlstate() == DISK_FULL);
        let refusal = refusal.or_else(|| full.cloned());
        let failed_sync = self.shared.env.store.failed_sync();
        let failed_sync = failed_sync.map(|failed| Error::unavailable(failed.to_string()));
        let refusal = refusal.or(failed_sync);
        self.shared
            .ingest
            .set_throttle(why.map(|why| HeldBack { why, refusal }));
    }

    /// Why writers have to wait for merges.
    fn crowded(&mut self, manifest: &Arc<Manifest>) -> Option<String> {
        let look = Look::at(manifest, &self.outstanding(), self.look.take());
        let look = self.look.insert(look);
        // A table that can't be merged any more must not hold up the writers of all others.
        look.too_many_runs(&self.policy, &self.healing.lost_tables)
    }

    /// Turns proposals into tasks while workers are free.
    async fn decide(&mut self) -> Result<()> {
        if self.workers.iter().all(|worker| worker.busy) {
            return Ok(());
        }
        let manifest = self.shared.manifests.current();
        let outstanding = self.outstanding();
        let mut look = Look::at(&manifest, &outstanding, self.look.take());
        let proposals = look.proposals(&self.load(&manifest, &outstanding));
        self.look = Some(look);
        for proposal in proposals.iter() {
            if let Proposal::Split { view, low, at } = proposal.clone() {
                self.commit(Edit::SplitRange { view, low, at }).await?;
                return Ok(());
            }
            if self.workers.iter().all(|worker| worker.busy) {
                break;
            }
            if let Proposal::Advance { view, from, to } = proposal
                && self.advance_by_edit(&manifest, *view, *from, *to).await?
            {
                return Ok(());
            }
            self.start(&manifest, proposal)?;
        }
        self.publish_tasks();
        Ok(())
    }

    /// Whether what waits for numbers is by itself more than may wait: no sort or merge makes room.
    fn is_full_of_lost(&self, manifest: &Manifest) -> bool {
        let remapped = manifest.remapped_through();
        let unsorted = self.shared.ingest.unsorted();
        let stuck = unsorted.iter().filter(|scu| scu.scu() > remapped);
        stuck.map(|scu| scu.raw_bytes()).sum::<u64>() > self.policy.unsorted_bytes_max
    }

    fn start(&mut self, manifest: &Arc<Manifest>, proposal: &Proposal) -> Result<()> {
        let Some((work, status)) = self.task_of(manifest, proposal)? else {
            return Ok(());
        };
        let policy = match proposal.clone() {
            Proposal::Remap { .. } => RunningTask::Remap,
            Proposal::Sort { scu } => RunningTask::Sort { scu },
            Proposal::Merge {
                view, low, inputs, ..
            } => RunningTask::Merge { view, low, inputs },
            Proposal::Advance { view, to, .. } => RunningTask::Advance { view, to },
            Proposal::Split { .. } => return Ok(()),
        };
        self.launch(work, status, policy);
        Ok(())
    }

    /// Gives work to a free worker, unless it is being done or rests after a failure.
    pub(super) fn launch(&mut self, work: Work, status: TaskStatus, policy: RunningTask) {
        let Some(worker) = self.workers.iter().position(|worker| !worker.busy) else {
            return;
        };
        let runs = self
            .running
            .values()
            .any(|running| running.policy == policy);
        if runs || self.rests(&policy) {
            return;
        }
        let id = TaskId(self.next_task);
        self.next_task += 1;
        let status = TaskStatus { id, ..status };
        let span = self.shared.spans.attempt(&status);
        let pulse = Pulse::default();
        let silence = self.shared.settings.attempt_silence;
        let watch = Watch::new(pulse.clone(), silence, self.times_given_up(&policy));
        self.workers[worker].start(Task {
            id,
            work,
            span,
            pulse,
        });
        let running = Running {
            worker,
            status,
            policy,
            watch,
        };
        self.running.insert(id, running);
    }

    fn publish_tasks(&self) {
        let mut board = self.shared.tasks.lock();
        board.running = self
            .running
            .values()
            .map(|running| running.status.clone())
            .collect();
    }
}
