//! The committer: one actor that orders batches, makes them durable in groups and seals SCUs.
//!
//! Reads events from one queue; writes the log, the list of unsorted SCUs, and sealed SCUs to the
//! coordinator. It does no work per row. While it syncs a group, writers encode the next one.
//!
//! ```text
//!   writer A        writer B        committer            readers
//!   commit ------------------------> frames of A
//!                   commit --------> frames of B
//!                                    one write, one sync
//!                                    publish A, B ------> see A, B
//!   acknowledged <------------------ answer
//!                   acknowledged <-- answer
//! ```

mod group;
mod producers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{BoxFuture, Either, pending, select};
use lazybase_model::{Error, Result, SchemaVersion, ScuNumber, TableId};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::accepted::{HeldChanges, UnsortedScu};
use super::clock::CoordinatorClock;
use super::files::{LogFiles, Needs};
use super::frame::commit::{ProducerStamp, commit_payload_bytes};
use super::frame::{EncodedFrame, FRAME_HEADER_BYTES, FramePlace, log_number};
use super::prepared::Prepared;
use super::waiting::{Entered, HeldCommits, WaitsFor};
use super::writer::Acknowledgement;
use super::{AfterHold, Opening, ProducerSession, Sealed, Shared, TableVersions};
use crate::env::planted::{Planted, is_planted};
use crate::env::{Env, StoreError};
use group::{Answer, Group, Item, PendingCommit};
use producers::{Producers, Verdict};

/// After so long files are collected again where the store failed to remove one.
const COLLECT_AGAIN: Duration = Duration::from_secs(1);

/// How many events are taken from the queue at once.
const EVENTS_AT_ONCE: usize = 1024;

/// What a data frame holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameRows {
    pub(super) table: TableId,
    pub(super) version: SchemaVersion,
    pub(super) rows: u64,
    pub(super) raw_bytes: u64,
}

/// A data frame on its way to the log.
#[derive(Debug)]
pub(super) struct DataFrame {
    pub(super) rows: FrameRows,
    pub(super) frame: EncodedFrame,
    pub(super) held: Option<HeldChanges>,
}

/// A batch that is complete.
#[derive(Debug)]
pub(super) struct CommitRequest {
    pub(super) batch: u64,
    pub(super) frames: Vec<DataFrame>,
    pub(super) fate: Arc<OnceLock<Error>>,
    pub(super) producer: Option<ProducerStamp>,
    pub(super) permit: OwnedSemaphorePermit,
    pub(super) answer: oneshot::Sender<Result<Acknowledgement>>,
}

/// A batch that comes with DDL, all of whose data frames were handed over.
#[derive(Debug)]
pub(super) struct PrepareRequest {
    pub(super) batch: u64,
    pub(super) fate: Arc<OnceLock<Error>>,
    /// What its commit frame carries.
    pub(super) number: u64,
    /// The tables as the DDL leaves them.
    pub(super) tables: Arc<TableVersions>,
    /// For what becomes of it.
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) answer: oneshot::Sender<Result<Prepared>>,
}

/// What the committer is told.
#[derive(Debug)]
pub(super) enum Event {
    /// Full frames of a batch that goes on.
    Frames {
        batch: u64,
        frames: Vec<DataFrame>,
        fate: Arc<OnceLock<Error>>,
        permit: OwnedSemaphorePermit,
    },
    /// A batch is complete.
    Commit(Box<CommitRequest>),
    /// A batch will not be completed.
    Abort { batch: u64 },
    /// Seal the open SCU.
    Seal {
        answer: oneshot::Sender<Result<ScuNumber>>,
    },
    /// Seal the open SCU and order no commit until told to.
    Hold {
        /// For whom, to people.
        holder: String,
        answer: oneshot::Sender<Result<ScuNumber>>,
    },
    /// Make a batch durable that counts once the manifest names it; only during a hold.
    Prepare(PrepareRequest),
    /// The prepared batch was published, at this moment, or given up.
    Decided { published: Option<i64> },
    /// Leave the next SCU without batches, if the manifest says so when the hold ends; only during
    /// a hold.
    Reserve { answer: oneshot::Sender<Result<()>> },
    /// Go on after a hold.
    Release { after: Option<AfterHold> },
    /// A producer opens a session.
    OpenProducer {
        name: String,
        epoch: u64,
        answer: oneshot::Sender<Result<ProducerSession>>,
    },
    /// SCUs are in the manifest as sorted runs.
    Forget { through: ScuNumber },
    /// The log of these SCUs is not needed any more.
    Retire { scus: Vec<ScuNumber> },
    /// Seal and stop.
    Close(Closer),
}

/// Somebody who closes ingest.
#[derive(Debug)]
pub(super) struct Closer {
    /// For the last SCU that is sealed.
    pub(super) sealed: oneshot::Sender<ScuNumber>,
    /// Whether the manifest has it.
    pub(super) in_manifest: oneshot::Receiver<bool>,
    /// For when nothing writes to the log's folder any more.
    pub(super) ended: oneshot::Sender<()>,
}

/// A data frame of a batch that is not committed, once it has its place.
#[derive(Debug)]
struct OpenPart {
    rows: FrameRows,
    place: Option<FramePlace>,
    held: Option<HeldChanges>,
}

/// A batch that is not committed.
#[derive(Debug)]
struct OpenBatch {
    parts: Vec<OpenPart>,
    fate: Arc<OnceLock<Error>>,
}

/// The actor.
pub(super) struct Committer {
    shared: Arc<Shared>,
    clock: CoordinatorClock,
    env: Env,
    files: LogFiles,
    tables: Arc<TableVersions>,
    batches: BTreeMap<u64, OpenBatch>,
    group: Group,
    buffer: Vec<u8>,
    producers: Producers,
    sealed: mpsc::UnboundedSender<Sealed>,
    sealed_through: ScuNumber,
    /// The SCU that a transaction may keep for itself.
    reserved: Option<ScuNumber>,
    seal_due: Option<BoxFuture<'static, ()>>,
    /// When files are collected again that the store failed to remove.
    collect_due: Option<BoxFuture<'static, ()>>,
    held: bool,
    /// The log files of a batch that waits for the manifest's word.
    prepared: Option<BTreeSet<u64>>,
    /// Commits and holds that came during a hold, in order.
    deferred: VecDeque<(Event, Option<Entered>)>,
    batches_through: u64,
    last_ack_micros: i64,
    /// The log files of every sealed SCU that is not retired.
    kept: BTreeMap<ScuNumber, BTreeSet<u64>>,
    closing: Vec<Closer>,
}

impl Committer {
    pub(super) async fn open(
        env: Env,
        shared: Arc<Shared>,
        clock: CoordinatorClock,
        tables: Arc<TableVersions>,
        opening: Opening,
        sealed: mpsc::UnboundedSender<Sealed>,
    ) -> Committer {
        let numbers =
            |files: &Vec<String>| files.iter().filter_map(|name| log_number(name)).collect();
        let kept: BTreeMap<ScuNumber, BTreeSet<u64>> = opening
            .kept
            .iter()
            .map(|(scu, files)| (*scu, numbers(files)))
            .collect();
        let needs = Needs {
            files: kept.values().flatten().copied().collect(),
            chain_from: chain_from(&opening.unsorted),
            open_scu: opening.sealed_through.next(),
        };
        let bytes = shared.options.log_file_bytes;
        let files = LogFiles::open(&env, bytes, opening.log, &needs).await;
        shared
            .log_bytes_kept
            .store(files.bytes(), Ordering::Relaxed);
        let collect_due = files.was_refused.then(|| collect_later(&env));
        Committer {
            shared,
            clock,
            env,
            files,
            tables,
            batches: BTreeMap::new(),
            group: Group::default(),
            buffer: Vec::new(),
            producers: Producers::new(opening.producers),
            sealed,
            sealed_through: opening.sealed_through,
            reserved: None,
            seal_due: None,
            collect_due,
            held: false,
            prepared: None,
            deferred: VecDeque::new(),
            batches_through: opening.batches_through,
            last_ack_micros: opening.last_ack_micros,
            kept,
            closing: Vec::new(),
        }
    }

    /// Runs until every handle is gone or one of them closes it.
    pub(super) async fn run(mut self, mut queue: mpsc::UnboundedReceiver<Event>) {
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        while self.closing.is_empty() {
            if !self.next_events(&mut queue, &mut events).await {
                break;
            }
            for event in events.drain(..) {
                self.handle(event).await;
            }
            self.settle().await;
        }
        let closers = mem::take(&mut self.closing);
        // What can't be sealed the next opening seals, as the log turns out to hold it.
        let mut in_manifest = !closers.is_empty() && self.seal().await.is_ok();
        // Those who still wait hear that the database is closed.
        drop(queue);
        self.deferred.clear();
        self.shared.throttle.send_replace(None);
        // Nothing is sealed any more: whoever waits for an SCU hears it.
        self.sealed = mpsc::unbounded_channel().0;
        let mut ended = Vec::with_capacity(closers.len());
        for closer in closers {
            // Whoever closes may have stopped waiting: then nobody says what the manifest has.
            let _ = closer.sealed.send(self.sealed_through);
            in_manifest &= closer.in_manifest.await.unwrap_or(false);
            ended.push(closer.ended);
        }
        self.files.close(in_manifest).await;
        for ended in ended {
            let _ = ended.send(());
        }
    }

    /// Waits for events, seals when the open SCU is old enough, or tries again to remove files.
    /// False when there is nobody left.
    async fn next_events(
        &mut self,
        queue: &mut mpsc::UnboundedReceiver<Event>,
        events: &mut Vec<Event>,
    ) -> bool {
        let received = {
            let due = due(&mut self.seal_due, &mut self.collect_due);
            let next = queue.recv_many(events, EVENTS_AT_ONCE);
            futures::pin_mut!(due, next);
            match select(due, next).await {
                Either::Left((due, _)) => Err(due),
                Either::Right((count, _)) => Ok(count),
            }
        };
        match received {
            Ok(count) => count > 0,
            Err(Due::Collect) => {
                self.collect().await;
                true
            }
            Err(Due::Seal) => {
                let sealing = self.shared.sealing.load(Ordering::Relaxed);
                if !sealing || self.seal().await.is_err() {
                    self.start_age();
                }
                true
            }
        }
    }

    async fn handle(&mut self, event: Event) {
        match event {
            Event::Frames {
                batch,
                frames,
                fate,
                permit,
            } => {
                self.group.permits.push(permit);
                self.take_frames(batch, frames, fate).await;
            }
            Event::Commit(request) if self.held => {
                let producer = request.producer.as_ref().map(|stamp| stamp.name.as_str());
                let waiting = &self.shared.waiting;
                let waits = waiting.enter(request.batch, producer, WaitsFor::Hold);
                self.deferred
                    .push_back((Event::Commit(request), Some(waits)));
            }
            Event::Commit(request) => self.take_commit(*request).await,
            Event::Abort { batch } => self.abort(batch).await,
            Event::Hold { .. } if self.held => self.deferred.push_back((event, None)),
            Event::Hold { holder, answer } => self.hold(holder, answer).await,
            Event::Prepare(request) => self.prepare(request).await,
            Event::Decided { published } => self.take_decision(published).await,
            Event::Reserve { answer } => {
                self.settle().await;
                let _ = answer.send(self.reserve());
            }
            Event::Release { after } => self.release(after).await,
            Event::Seal { answer } => {
                self.settle().await;
                let sealed = self.seal().await.map(|()| self.sealed_through);
                // Whoever asked may have stopped waiting.
                let _ = answer.send(sealed);
            }
            Event::OpenProducer {
                name,
                epoch,
                answer,
            } => {
                self.settle().await;
                let _ = answer.send(self.producers.open(name, epoch));
            }
            Event::Forget { through } => self.forget(through),
            Event::Retire { scus } => {
                scus.iter().for_each(|scu| drop(self.kept.remove(scu)));
                self.collect().await;
            }
            Event::Close(closer) => self.closing.push(closer),
        }
    }

    async fn hold(&mut self, holder: String, answer: oneshot::Sender<Result<ScuNumber>>) {
        self.settle().await;
        // A batch in doubt would come back behind what happens during the hold.
        let sealed = match self.settle_end().await {
            Ok(()) => self.seal().await.map(|()| self.sealed_through),
            Err(error) => Err(error),
        };
        let held = sealed.is_ok();
        // Nobody releases a hold that nobody waits for.
        self.held = answer.send(sealed).is_ok() && held;
        let since = self.env.clock.monotonic();
        let hold = self.held.then_some(HeldCommits { holder, since });
        *self.shared.hold.lock() = hold;
    }

    /// Puts an empty SCU of the transaction's own before the open one.
    fn reserve(&mut self) -> Result<()> {
        if !self.held || self.reserved.is_some() || self.prepared.is_some() {
            return Err(Error::internal("an SCU is reserved outside of its hold"));
        }
        let scu = self.shared.open_scu().scu();
        self.reserved = Some(scu);
        self.replace_live(
            1,
            [UnsortedScu::reserved(scu), UnsortedScu::open(scu.next())],
        );
        Ok(())
    }

    /// What became of the SCU that was reserved: it is sealed, or the next to take batches.
    fn take_reserved(&mut self, sealed_through: ScuNumber) {
        match self.reserved.take() {
            // One after it may have been sealed while it was held.
            Some(scu) if scu <= sealed_through => {
                self.sealed_through = self.sealed_through.max(scu);
            }
            Some(scu) => self.replace_live(2, [UnsortedScu::open(scu)]),
            None => {}
        }
    }

    /// Puts SCUs in the place of the last few that are not sorted.
    fn replace_live<const N: usize>(&self, last: usize, scus: [UnsortedScu; N]) {
        let mut live = self.shared.live.load().as_ref().clone();
        live.truncate(live.len().saturating_sub(last));
        live.extend(scus.map(Arc::new));
        self.shared.live.store(Arc::new(live));
    }

    async fn release(&mut self, after: Option<AfterHold>) {
        self.held = false;
        *self.shared.hold.lock() = None;
        let sealed_through = after.as_ref().map(|after| after.sealed_through);
        self.take_reserved(sealed_through.unwrap_or(ScuNumber::ZERO));
        if let Some(after) = after {
            self.tables = after.tables;
        }
        while !self.held
            && let Some((event, waited)) = self.deferred.pop_front()
        {
            drop(waited);
            match event {
                Event::Commit(request) => self.take_commit(*request).await,
                Event::Hold { holder, answer } => self.hold(holder, answer).await,
                _ => {}
            }
        }
    }

    /// Makes the commit frame of a batch durable that counts once the manifest names it.
    async fn prepare(&mut self, request: PrepareRequest) {
        self.settle().await;
        let PrepareRequest {
            batch,
            fate,
            number,
            tables,
            events,
            answer,
        } = request;
        if let Err(error) = self.may_prepare(batch, &fate, &tables).await {
            // Whoever asked may have stopped waiting.
            let _ = answer.send(Err(error));
            return;
        }
        let answer = Answer::Prepared {
            number,
            events,
            answer,
        };
        self.push_commit(PendingCommit::new(batch, None, answer));
        self.settle().await;
    }

    async fn may_prepare(
        &mut self,
        id: u64,
        fate: &OnceLock<Error>,
        tables: &TableVersions,
    ) -> Result<()> {
        if let Some(error) = fate.get() {
            return Err(error.clone());
        }
        if !self.held || self.prepared.is_some() {
            return Err(Error::internal("a batch is prepared outside of its hold"));
        }
        for part in self.batches.get(&id).iter().flat_map(|batch| &batch.parts) {
            tables.check(part.rows.table, part.rows.version)?;
        }
        let bytes = self.commit_bytes(id, None);
        self.make_room(bytes).await
    }

    /// What became of the batch that was prepared.
    async fn take_decision(&mut self, published: Option<i64>) {
        self.prepared = None;
        if let Some(ack_micros) = published {
            self.last_ack_micros = self.last_ack_micros.max(ack_micros);
            self.after_publishing(0).await;
        }
    }

    /// Adds frames to the group; a batch that was lost stays so.
    async fn take_frames(&mut self, id: u64, frames: Vec<DataFrame>, fate: Arc<OnceLock<Error>>) {
        for data in frames {
            if fate.get().is_some() {
                return;
            }
            let bytes = data.frame.frame_length();
            let batch = self.batches.entry(id).or_insert_with(|| OpenBatch {
                parts: Vec::new(),
                fate: Arc::clone(&fate),
            });
            let part = batch.parts.len();
            batch.parts.push(OpenPart {
                rows: data.rows,
                place: None,
                held: data.held,
            });
            if let Err(error) = self.make_room(bytes).await {
                self.lose(id, error);
                // Its files may be all that others lack.
                self.collect().await;
                return;
            }
            if fate.get().is_none() {
                self.group.push(
                    Item::Data {
                        batch: id,
                        part,
                        frame: data.frame,
                    },
                    bytes,
                );
            }
        }
    }

    async fn take_commit(&mut self, request: CommitRequest) {
        let CommitRequest {
            batch: id,
            frames,
            fate,
            producer,
            permit,
            answer,
        } = request;
        if let Some(verdict) = self.judge(id, &frames, producer.as_ref()).await {
            self.batches.remove(&id);
            // Whoever asked may have stopped waiting.
            let _ = answer.send(verdict);
            return;
        }
        self.group.permits.push(permit);
        self.take_frames(id, frames, Arc::clone(&fate)).await;
        let bytes = self.commit_bytes(id, producer.as_ref());
        if fate.get().is_none()
            && let Err(error) = self.make_room(bytes).await
        {
            self.lose(id, error);
        }
        if let Some(error) = fate.get() {
            self.batches.remove(&id);
            let _ = answer.send(Err(error.clone()));
            return;
        }
        self.batches.entry(id).or_insert_with(|| OpenBatch {
            parts: Vec::new(),
            fate,
        });
        self.push_commit(PendingCommit::new(id, producer, Answer::Published(answer)));
    }

    /// The bytes of a batch's commit frame.
    fn commit_bytes(&self, id: u64, producer: Option<&ProducerStamp>) -> u64 {
        let parts = self.batches.get(&id).map_or(0, |batch| batch.parts.len());
        (FRAME_HEADER_BYTES + commit_payload_bytes(parts, producer)) as u64
    }

    fn push_commit(&mut self, commit: PendingCommit) {
        let bytes = self.commit_bytes(commit.batch, commit.producer.as_ref());
        self.group.push(Item::Commit(Box::new(commit)), bytes);
    }

    /// What to answer at once, if the batch is not to be committed.
    async fn judge(
        &mut self,
        id: u64,
        frames: &[DataFrame],
        producer: Option<&ProducerStamp>,
    ) -> Option<Result<Acknowledgement>> {
        let handed = self.batches.get(&id);
        if let Some(error) = handed.and_then(|batch| batch.fate.get()) {
            return Some(Err(error.clone()));
        }
        let handed = handed.iter().flat_map(|batch| &batch.parts);
        let rows = handed.map(|part| part.rows);
        for rows in rows.chain(frames.iter().map(|data| data.rows)) {
            if let Err(error) = self.tables.check(rows.table, rows.version) {
                return Some(Err(error));
            }
        }
        let stamp = producer?;
        let waits = !is_planted(Planted::DuplicateEarly);
        if waits && self.group.names_producer(&stamp.name) {
            self.settle().await;
        }
        match self.producers.judge(stamp) {
            Verdict::New => None,
            Verdict::Refused(error) => Some(Err(error)),
            Verdict::Duplicate(horizon) => Some(Ok(Acknowledgement {
                horizon,
                ack_micros: 0,
                duplicate: true,
                rows: 0,
            })),
        }
    }

    async fn abort(&mut self, id: u64) {
        let removed = self.batches.remove(&id);
        self.group.forget(id);
        if removed.is_some_and(|batch| !batch.parts.is_empty()) {
            self.collect().await;
        }
    }

    /// A batch can't be completed any more: its writer hears of it, and nothing of it counts.
    fn lose(&mut self, id: u64, error: Error) {
        if let Some(batch) = self.batches.remove(&id) {
            // The first error is the one that matters.
            let _ = batch.fate.set(error);
        }
    }

    /// Makes sure that `bytes` more fit into the current file behind the group.
    async fn make_room(&mut self, bytes: u64) -> Result<()> {
        if self.files.has_room(self.group.bytes, bytes) {
            return Ok(());
        }
        self.settle().await;
        if self.files.has_room(0, bytes) {
            return Ok(());
        }
        let before = self.newest_acknowledged();
        let mut rotated = self.files.rotate(bytes, before).await;
        if let Err(StoreError::DefinitelyNot { full: true, .. }) = rotated {
            // What nothing needs any more may be all that is lacking.
            self.collect().await;
            rotated = self.files.rotate(bytes, before).await;
        }
        if let Err(error) = &rotated {
            self.note_failure(&error.to_string());
        }
        // Nothing of the batch that waits for room was written to a file that counts.
        rotated.map_err(|error| {
            let error = Error::from(error);
            match error.kind() {
                lazybase_model::ErrorKind::Unavailable => error,
                _ => Error::unavailable(error.message()),
            }
        })?;
        self.collect().await;
        Ok(())
    }

    /// The newest SCU that has an acknowledged batch, or that was sealed without one.
    fn newest_acknowledged(&self) -> ScuNumber {
        let open = self.shared.open_scu();
        match open.acknowledged() {
            0 => self.sealed_through,
            _ => open.scu(),
        }
    }

    fn note_failure(&self, what: &str) {
        *self.shared.last_failure.lock() = Some(what.to_owned());
        let now = self.env.clock.monotonic();
        *self.shared.failing.lock() = Some((now, what.to_owned()));
    }

    /// Seals the open SCU if it has a batch.
    ///
    /// # Errors
    /// When the log's end is in doubt: a batch that failed may turn out to be in the SCU.
    async fn seal(&mut self) -> Result<()> {
        self.seal_due = None;
        let open = self.shared.open_scu();
        if open.acknowledged() == 0 {
            return Ok(());
        }
        self.settle_end().await?;
        open.seal();
        let time = open.time(self.batches_through);
        self.batches_through = time.batches_through;
        self.sealed_through = open.scu();
        self.kept.insert(open.scu(), open.files());
        let mut live = self.shared.live.load().as_ref().clone();
        live.push(Arc::new(UnsortedScu::open(open.scu().next())));
        self.shared.live.store(Arc::new(live));
        // Without a coordinator nobody seals in the manifest; recovery will.
        let _ = self.sealed.send(Sealed {
            entry: open.entry(),
            time,
            producers: self.producers.take_moved(),
            unsorted: open,
        });
        if self.files.are_held_back() {
            self.collect().await;
        }
        Ok(())
    }

    fn forget(&mut self, through: ScuNumber) {
        let mut live = self.shared.live.load().as_ref().clone();
        live.retain(|scu| scu.scu() > through || !scu.is_sealed());
        self.shared.live.store(Arc::new(live));
    }

    /// Lets go of the files that nothing needs: no SCU, no open batch, and not the chain of
    /// headers that leads recovery to batches that may not be in the manifest.
    async fn collect(&mut self) {
        let open = self.shared.open_scu();
        let mut needed: BTreeSet<u64> = self.kept.values().flatten().copied().collect();
        needed.extend(open.files());
        let parts = self.batches.values().flat_map(|batch| &batch.parts);
        needed.extend(parts.filter_map(|part| part.place.map(|place| place.file)));
        needed.extend(self.prepared.iter().flatten());
        let oldest = self.prepared.iter().flatten().next().copied();
        let needs = Needs {
            files: needed,
            chain_from: chain_from(&self.shared.live.load()).or(oldest),
            // One that is reserved takes batches if its transaction is given up.
            open_scu: self.reserved.unwrap_or_else(|| open.scu()),
        };
        self.files.collect(&needs).await;
        self.collect_due = self.files.was_refused.then(|| collect_later(&self.env));
        self.shared
            .log_bytes_kept
            .store(self.files.bytes(), Ordering::Relaxed);
    }

    /// Has the open SCU sealed when it is old enough.
    fn start_age(&mut self) {
        let clock = Arc::clone(&self.env.clock);
        let age = self.shared.options.seal_age;
        self.seal_due = Some(Box::pin(async move { clock.sleep(age).await }));
    }
}

/// What the committer does because it is time.
enum Due {
    Seal,
    Collect,
}

/// Ends when one of them is due.
async fn due(
    seal: &mut Option<BoxFuture<'static, ()>>,
    collect: &mut Option<BoxFuture<'static, ()>>,
) -> Due {
    let mut ends = [seal, collect].map(|due| match due {
        Some(due) => Either::Left(due.as_mut()),
        None => Either::Right(pending()),
    });
    let [seal, collect] = &mut ends;
    match select(seal, collect).await {
        Either::Left(_) => Due::Seal,
        Either::Right(_) => Due::Collect,
    }
}

/// Ends when the store may be asked once more to remove what it failed to.
fn collect_later(env: &Env) -> BoxFuture<'static, ()> {
    let clock = Arc::clone(&env.clock);
    Box::pin(async move { clock.sleep(COLLECT_AGAIN).await })
}

/// The log file from which on recovery may have to walk, for the first of these SCUs; those that
/// are sorted are in the manifest.
fn chain_from(unsorted: &[Arc<UnsortedScu>]) -> Option<u64> {
    unsorted.iter().find_map(|scu| scu.first_commit_file())
}
