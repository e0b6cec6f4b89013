//! Ingest: batches become durable, visible and numbered (sections 3.1 and 3.4 of the paper: the
//! ingest stage, extended by group commit and by reads of what is not yet sealed).
//!
//! Reads batches of changes; writes the log (`docs/formats/log.md`) and, through the coordinator,
//! one manifest edit for each sealed SCU.
//!
//! ```text
//!   writer (any thread)                    committer (one actor)
//!   append: check, cut, encode, checksum
//!   commit: wait for room in the queue --> drain what is queued: a group
//!                                          place the frames, write them, one sync
//!                                          publish the batches to the open SCU
//!           acknowledgement           <--  answer
//!                                          seal by age, size or on request --> coordinator
//! ```
//!
//! # The contract
//!
//! 1. An acknowledged batch is durable and in the open SCU before its writer hears of it. It
//!    stands in the SCU, and at the position, of its commit frame, whatever SCU its data frames
//!    were written under; sealing never waits for open batches. Positions and SCU numbers are never
//!    given twice to different acknowledged batches, and recovery keeps both.
//! 2. A batch that fails with `MaybeHappened` was never seen by a reader. After a crash it may be
//!    there, whole; once a later batch is acknowledged, it can't be.
//! 3. A batch that fails with any other kind of error is not there, and never will be.
//! 4. A producer's numbers rise strictly. The number of its mark again, with the same content, is
//!    answered as a duplicate with the original's horizon; with other content it is an error. A
//!    number below the mark is an error too: the original's content hash is gone, and so is the
//!    proof that this batch, and not another one, was accepted under the number. A session that
//!    begins by asking for its mark never sends one.
//! 5. The queue before the committer is bounded in bytes, as is what is held in memory of the
//!    unsorted SCUs; beyond that, writers wait, and the status says why.
//! 6. A batch that comes with DDL is durable first, and there, for recovery and readers alike, once
//!    the manifest names it. It is the first of the SCU after the boundary at which the DDL stands.
//! 7. A table's schema version is checked when the commit is ordered, so that no batch is
//!    acknowledged under a schema that a DDL statement has already replaced.
//!
//! Invariants: LOG-1..9 (`frame.rs`, `frame/commit.rs`, `files.rs`), ACC-1, ACC-2 (`accepted.rs`),
//! GRP-1 (`committer/group.rs`), DDL-1 (`prepared.rs`), REC-1..2 (`recover.rs`), CLK-1
//! (`clock.rs`).

mod accepted;
mod check;
mod clock;
mod committer;
mod content;
mod describe;
mod files;
mod frame;
mod fuzz;
mod gather;
mod lost;
mod prepared;
mod recover;
mod waiting;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use lazybase_model::limits;
use lazybase_model::table::Table;
use lazybase_model::{Error, Horizon, Result, SchemaVersion, ScuNumber, TableId, TableName};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

pub(crate) use frame::data::{BatchSchemas, change_schema as data_schema};

pub use accepted::{AcceptedBatch, BatchPart, TableTotals, UnsortedScu};
pub use check::{check_partitions, first_no_label, first_too_long, whole_rows_only};
pub use clock::CoordinatorClock;
pub use describe::describe_log;
pub use files::LogStart;
pub use frame::FramePlace;
pub(crate) use fuzz::{log_of_payloads, read_payload};
pub use prepared::Prepared;
pub use recover::{
    KeptFrames, NumberedBatch, Recovered, examine, keep_whole_frames, newest_table,
    numbered_batches, open_sealed, recover,
};
pub use waiting::WaitingWriter;
pub use writer::{Acknowledgement, BatchNumber, BatchWriter};

use crate::env::Env;
use crate::manifest::state::{Manifest, ProducerMark, ScuEntry, ScuTime};
use accepted::MemoryBudget;
use committer::{Closer, Committer, Event, PrepareRequest};
use waiting::{HeldCommits, Waiting, WaitsFor};

#[cfg(test)]
mod tests;

/// The folder of files that were set aside: their numbers are never used again.
pub const SET_ASIDE: &str = "set-aside/";

/// How log frames are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogCompression {
    /// Not at all: the fastest for the writer, and reads copy nothing.
    #[default]
    None,
    /// Each frame as one LZ4 block.
    Lz4,
}

/// The settings of ingest.
#[derive(Debug, Clone)]
pub struct IngestOptions {
    /// The age at which the open SCU is sealed.
    pub seal_age: Duration,
    /// The bytes of its log at which the open SCU is sealed.
    pub seal_bytes: u64,
    /// The largest batch, in uncompressed bytes.
    pub batch_bytes_max: u64,
    /// The size of a log file.
    pub log_file_bytes: u64,
    /// The uncompressed bytes that one frame aims at.
    pub frame_bytes_max: usize,
    /// The bytes that may wait for the next group commit.
    pub queue_bytes_max: u64,
    /// The bytes of unsorted data that are kept in memory beside the log.
    pub memory_bytes: u64,
    /// How frames are compressed.
    pub compression: LogCompression,
}

impl Default for IngestOptions {
    fn default() -> Self {
        IngestOptions {
            seal_age: limits::SEAL_AGE,
            seal_bytes: limits::SEAL_BYTES,
            batch_bytes_max: limits::BATCH_BYTES_MAX,
            log_file_bytes: limits::LOG_FILE_BYTES,
            frame_bytes_max: limits::FRAME_BYTES_MAX,
            queue_bytes_max: limits::COMMIT_QUEUE_BYTES_MAX,
            memory_bytes: limits::SEAL_BYTES,
            compression: LogCompression::None,
        }
    }
}

/// Which schema version of each table batches must be written under.
#[derive(Debug, Clone, Default)]
pub struct TableVersions {
    tables: BTreeMap<TableId, (SchemaVersion, TableName)>,
}

impl TableVersions {
    /// The versions of these tables.
    pub fn new<'a>(tables: impl IntoIterator<Item = &'a Table>) -> TableVersions {
        let version = |table: &Table| (table.id, (table.version, table.name.clone()));
        TableVersions {
            tables: tables.into_iter().map(version).collect(),
        }
    }

    /// The versions of a manifest's tables.
    pub fn of(manifest: &Manifest) -> TableVersions {
        TableVersions::new(manifest.tables.values().map(|state| &*state.table))
    }

    /// Whether a batch under `version` of `table` may still be accepted.
    pub(crate) fn check(&self, table: TableId, version: SchemaVersion) -> Result<()> {
        let changed = |what: String| {
            Error::new(lazybase_model::ErrorKind::Conflict, what)
                .with_hint("prepare the batch again under the table's new definition")
                .with_sqlstate("40001")
        };
        match self.tables.get(&table) {
            Some((current, _)) if *current == version => Ok(()),
            Some((_, name)) => Err(changed(format!(
                "table {name:?} changed while the batch was being prepared"
            ))),
            None => Err(changed(format!(
                "table {table} was dropped while the batch was being prepared"
            ))),
        }
    }
}

/// An SCU that was just sealed, for the coordinator to name in the manifest.
#[derive(Debug, Clone)]
pub struct Sealed {
    /// What its log holds.
    pub entry: ScuEntry,
    /// Its times.
    pub time: ScuTime,
    /// Marks of the producers that it moved.
    pub producers: BTreeMap<String, ProducerMark>,
    /// Its batches.
    pub unsorted: Arc<UnsortedScu>,
}

/// What ingest goes on from: the manifest's SCUs whose log is kept, and what recovery found.
#[derive(Debug)]
pub struct Opening {
    /// Where the log goes on.
    pub log: LogStart,
    /// Sealed SCUs that are not sorted, oldest first.
    pub unsorted: Vec<Arc<UnsortedScu>>,
    /// The log files of every sealed SCU that is not retired.
    pub kept: BTreeMap<ScuNumber, Vec<String>>,
    /// The last sealed SCU.
    pub sealed_through: ScuNumber,
    /// The producers' marks up to there.
    pub producers: BTreeMap<String, ProducerMark>,
    /// All batches of the database up to there.
    pub batches_through: u64,
    /// The last acknowledgement up to there.
    pub last_ack_micros: i64,
    /// What was met in the logs of sealed SCUs that no longer tell what they held.
    pub lost: Vec<Error>,
    /// The number of the manifest.
    pub manifest: u64,
}

/// Recovers the log of a database: the SCUs that the coordinator must still seal in the manifest,
/// in order, and what [`Ingest::open`] goes on from once it has.
///
/// # Errors
/// `Corrupt`, naming file and offset, when acknowledged batches are damaged or missing.
pub async fn open_log(env: &Env, manifest: &Manifest) -> Result<(Vec<Sealed>, Opening)> {
    let Recovered { sealed, log } = recover(env, manifest).await?;
    let mut opening = Opening {
        log,
        unsorted: Vec::new(),
        kept: BTreeMap::new(),
        sealed_through: manifest.sealed_through,
        producers: manifest.producers.clone(),
        batches_through: 0,
        last_ack_micros: 0,
        lost: Vec::new(),
        manifest: manifest.number,
    };
    if let Some(time) = manifest.times.values().next_back() {
        opening.batches_through = time.batches_through;
        opening.last_ack_micros = time.last_ack_micros;
    }
    for (scu, entry) in &manifest.scus {
        opening.kept.insert(*scu, entry.files.clone());
        if *scu > manifest.sorted_through {
            let opened = match open_sealed(&*env.store, entry).await {
                // The tables that it changed can't be read from here on; all others can.
                Err(error) if lost::is_lost(&*env.store, entry, &error).await => {
                    let lost = lost::lost_scu(entry, manifest.times.get(scu), &error);
                    opening.lost.push(error);
                    Arc::new(lost)
                }
                opened => opened?,
            };
            opening.unsorted.push(opened);
        }
    }
    for scu in &sealed {
        let number = scu.entry.scu;
        opening.kept.insert(number, scu.entry.files.clone());
        opening.unsorted.push(Arc::clone(&scu.unsorted));
        opening.sealed_through = number;
        opening.producers.extend(scu.producers.clone());
        opening.batches_through = scu.time.batches_through;
        opening.last_ack_micros = scu.time.last_ack_micros;
    }
    Ok((sealed, opening))
}

/// What writers, readers and the committer share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: IngestOptions,
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) queue: Arc<Semaphore>,
    pub(crate) throttle: watch::Sender<Option<HeldBack>>,
    pub(in crate::stages::ingest) waiting: Arc<Waiting>,
    /// What holds all commits, if anything does.
    hold: Mutex<Option<HeldCommits>>,
    /// Whether the open SCU is sealed by age and size.
    pub(crate) sealing: AtomicBool,
    /// Sealed SCUs that are not sorted, oldest first, and the open one behind them.
    pub(crate) live: ArcSwap<Vec<Arc<UnsortedScu>>>,
    pub(crate) log_bytes_written: AtomicU64,
    pub(crate) log_bytes_kept: AtomicU64,
    pub(crate) last_failure: Mutex<Option<String>>,
    /// The last failure and its time on the monotonic clock, unless a group was durable since.
    pub(crate) failing: Mutex<Option<(Duration, String)>>,
    /// The newest manifest that is known to be durable: commit frames name it.
    pub(crate) manifest: AtomicU64,
}

impl Shared {
    /// The SCU that takes the next batch.
    pub(crate) fn open_scu(&self) -> Arc<UnsortedScu> {
        let live = self.live.load();
        Arc::clone(live.last().expect("there is always an open SCU"))
    }

    /// The horizon that contains every acknowledged batch. What a transaction has reserved is not
    /// in it: should the transaction fail, other batches come there.
    fn acknowledged(&self) -> Horizon {
        let live = self.live.load();
        let mut newest_first = live.iter().rev();
        let open = newest_first.next().expect("there is always an open SCU");
        match newest_first.next() {
            Some(reserved) if reserved.is_reserved() && open.acknowledged() == 0 => {
                reserved.horizon()
            }
            _ => open.horizon(),
        }
    }

    /// The writers that wait, with why.
    fn waiting_writers(&self, hold: Option<&str>) -> Vec<WaitingWriter> {
        let free = self.queue.available_permits() as u64;
        let queued = self.options.queue_bytes_max.saturating_sub(free);
        let stages = self.throttle.borrow().clone();
        let why = |what| match (what, &stages) {
            (WaitsFor::Stages, Some(held)) => held.why.clone(),
            (WaitsFor::Stages, None) => "the stages have caught up: it goes on".to_owned(),
            (WaitsFor::Hold, _) => hold.unwrap_or("commits go on").to_owned(),
            (WaitsFor::Log, _) => format!(
                "{} MiB wait for the log, {} MiB may",
                queued >> 20,
                self.options.queue_bytes_max >> 20
            ),
        };
        let waiting = self.waiting.list().into_iter();
        waiting
            .map(|(who, what)| WaitingWriter {
                who,
                why: why(what),
            })
            .collect()
    }

    /// The bytes that one thing may take of the queue: never more than there is.
    pub(crate) fn queue_share(&self, bytes: u64) -> u32 {
        let bytes = bytes.max(EVENT_BYTES_MIN).min(self.options.queue_bytes_max);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}

/// That writers are held back.
#[derive(Debug, Clone)]
pub struct HeldBack {
    /// What they wait for.
    pub why: String,
    /// What they are told where waiting would be for nothing.
    pub refusal: Option<Error>,
}

/// What the smallest thing in the queue counts for, so that its length is bounded too.
const EVENT_BYTES_MIN: u64 = 1024;

/// How ingest is doing.
#[derive(Debug, Clone)]
pub struct IngestStatus {
    /// The SCU that takes the next batch.
    pub open_scu: ScuNumber,
    /// Its acknowledged batches.
    pub open_batches: u32,
    /// Its uncompressed bytes.
    pub open_bytes: u64,
    /// Sealed SCUs that are not sorted.
    pub unsorted_scus: usize,
    /// Their uncompressed bytes.
    pub unsorted_bytes: u64,
    /// The bytes that wait for the next group commit.
    pub queue_bytes: u64,
    /// The bytes of unsorted data in memory.
    pub memory_bytes: u64,
    /// The bytes written to the log since the opening.
    pub log_bytes_written: u64,
    /// The bytes of all log files.
    pub log_bytes_kept: u64,
    /// Why writers wait, if they do.
    pub throttled: Option<String>,
    /// Who holds all commits, if somebody does, and for how long already.
    pub held: Option<String>,
    /// The writers that wait at this moment.
    pub waiting: Vec<WaitingWriter>,
    /// How often writers had to wait since the opening.
    pub waits: u64,
    /// What the log's store last failed with.
    pub last_failure: Option<String>,
    /// The same, if that was a short time ago and nothing was made durable since.
    pub failing: Option<String>,
}

/// How long a failure of the log counts when nobody tries again.
const FAILING: Duration = Duration::from_secs(30);

/// A producer's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerSession {
    /// The producer's name.
    pub name: String,
    /// The session's epoch: older sessions of the name are fenced.
    pub epoch: u64,
    /// How far the producer has come; `None` before its first batch.
    pub mark: Option<ProducerMark>,
}

/// The handle of ingest; clones are the same.
#[derive(Debug, Clone)]
pub struct Ingest {
    env: Env,
    shared: Arc<Shared>,
    events: mpsc::UnboundedSender<Event>,
}

impl Ingest {
    /// Starts ingest. Sealed SCUs go to `sealed`, in order; nothing is sealed twice.
    pub async fn open(
        env: Env,
        clock: CoordinatorClock,
        options: IngestOptions,
        tables: Arc<TableVersions>,
        opening: Opening,
        sealed: mpsc::UnboundedSender<Sealed>,
    ) -> Ingest {
        let mut live = opening.unsorted.clone();
        live.push(Arc::new(UnsortedScu::open(opening.sealed_through.next())));
        let queue_permits = usize::try_from(options.queue_bytes_max).unwrap_or(usize::MAX >> 3);
        let shared = Arc::new(Shared {
            memory: MemoryBudget::new(options.memory_bytes),
            queue: Arc::new(Semaphore::new(queue_permits.min(Semaphore::MAX_PERMITS))),
            options,
            throttle: watch::Sender::new(None),
            waiting: Arc::default(),
            hold: Mutex::new(None),
            live: ArcSwap::from_pointee(live),
            sealing: AtomicBool::new(true),
            log_bytes_written: AtomicU64::new(0),
            log_bytes_kept: AtomicU64::new(0),
            last_failure: Mutex::new(None),
            failing: Mutex::new(None),
            manifest: AtomicU64::new(opening.manifest),
        });
        let (events, queue) = mpsc::unbounded_channel();
        let committer = Committer::open(
            env.clone(),
            Arc::clone(&shared),
            clock,
            tables,
            opening,
            sealed,
        )
        .await;
        env.spawner
            .spawn("lazybase-commit", Box::pin(committer.run(queue)));
        Ingest {
            env,
            shared,
            events,
        }
    }

    /// Begins a batch; `producer` numbers it.
    pub fn begin(&self, producer: Option<BatchNumber>) -> BatchWriter {
        let id = self.env.random.next_u64();
        BatchWriter::new(Arc::clone(&self.shared), self.events.clone(), id, producer)
    }

    /// The horizon that contains every acknowledged batch.
    pub fn horizon(&self) -> Horizon {
        self.shared.acknowledged()
    }

    /// The sealed SCUs that were not forgotten, oldest first, and the open one behind them: one
    /// consistent value. A reader loads it before the manifest, and so misses nothing.
    pub fn unsorted(&self) -> Arc<Vec<Arc<UnsortedScu>>> {
        self.shared.live.load_full()
    }

    /// The SCU that takes the next batch.
    pub fn open_scu(&self) -> Arc<UnsortedScu> {
        self.shared.open_scu()
    }

    /// Seals the open SCU if it has a batch; the number of the last sealed SCU.
    ///
    /// # Errors
    /// `Cancelled` when ingest has stopped; `Unavailable` while the log's end is in doubt after a
    /// failure.
    pub async fn seal(&self) -> Result<ScuNumber> {
        self.ask(|answer| Event::Seal { answer }).await?
    }

    /// Seals the open SCU, and orders no commit until the hold is released or dropped: DDL has its
    /// place in the order there. The status shows the `holder`.
    ///
    /// # Errors
    /// As [`Ingest::seal`].
    pub async fn seal_and_hold(&self, holder: String) -> Result<Hold> {
        let events = self.events.clone();
        let sealed_through = self.ask(|answer| Event::Hold { holder, answer }).await??;
        Ok(Hold {
            sealed_through,
            events: Some(events),
        })
    }

    /// Keeps the SCU after a hold's boundary free of batches, for a transaction that takes rows
    /// away: at the boundary before they are still there. The manifest that the hold is released
    /// under decides whether the transaction has it, or the next batches.
    ///
    /// # Errors
    /// `Cancelled` when ingest has stopped; `Internal` when it is reserved already.
    pub async fn reserve(&self, _hold: &Hold) -> Result<()> {
        self.ask(|answer| Event::Reserve { answer }).await?
    }

    /// Makes a batch durable at the boundary of a hold, as the first of the next SCU that is not
    /// reserved: readers see it, and recovery finds it, once the manifest names it by `number`,
    /// which is not 0. `tables` are those that the manifest will have then. The batch was written
    /// ahead.
    ///
    /// # Errors
    /// `Conflict` when a table is not the one that the batch was made for; `Unavailable` when the
    /// log can't take it; `Invalid` for a batch that a producer numbers. In any case it is not
    /// there, and never will be.
    pub async fn prepare(
        &self,
        _hold: &Hold,
        batch: BatchWriter,
        number: u64,
        tables: Arc<TableVersions>,
    ) -> Result<Prepared> {
        if batch.is_numbered() {
            return Err(Error::invalid("a producer's batch can't come with DDL"));
        }
        let (id, fate) = batch.identity();
        let events = self.events.clone();
        self.ask(|answer| {
            Event::Prepare(PrepareRequest {
                batch: id,
                fate,
                number,
                tables,
                events,
                answer,
            })
        })
        .await?
    }

    /// Opens a producer's session under an epoch that the manifest already names, and fences all
    /// older ones; the answer covers every batch that was ordered before.
    ///
    /// # Errors
    /// `Conflict` when a session of this or a later epoch is open.
    pub async fn open_producer(&self, name: &str, epoch: u64) -> Result<ProducerSession> {
        let name = name.to_owned();
        self.ask(|answer| Event::OpenProducer {
            name,
            epoch,
            answer,
        })
        .await?
    }

    /// Forgets SCUs up to `scu`, which the manifest now has as sorted runs.
    pub fn forget_through(&self, scu: ScuNumber) {
        // When the committer is gone nobody reads the list any more.
        let _ = self.events.send(Event::Forget { through: scu });
    }

    /// Gives up the log of SCUs that the manifest no longer names; files that nothing needs are
    /// used again or deleted.
    pub fn retire(&self, scus: Vec<ScuNumber>) {
        // When the committer is gone the next opening collects the files.
        let _ = self.events.send(Event::Retire { scus });
    }

    /// A manifest is durable: batches that are written from now on tell it, so that a later loss of
    /// its file shows.
    pub fn note_manifest(&self, number: u64) {
        self.shared.manifest.fetch_max(number, Ordering::Relaxed);
    }

    /// Makes writers wait, or refuses them, and says why; `None` lets them go on. Does nothing once
    /// ingest is closed: nobody would let them go on, to hear that it is.
    pub fn set_throttle(&self, held: Option<HeldBack>) {
        self.shared.throttle.send_if_modified(|current| {
            // Looked at under the lock under which closing lets all go on.
            let held = held.filter(|_| !self.events.is_closed());
            let told = |held: &Option<HeldBack>| {
                let held = held.as_ref();
                held.map(|held| (held.why.clone(), held.refusal.is_some()))
            };
            let changed = told(current) != told(&held);
            *current = held;
            changed
        });
    }

    /// Whether the open SCU is sealed by age and size; requests and DDL seal it all the same.
    pub fn set_sealing(&self, by_age_and_size: bool) {
        self.shared
            .sealing
            .store(by_age_and_size, Ordering::Relaxed);
    }

    /// How ingest is doing.
    pub fn status(&self) -> IngestStatus {
        let shared = &self.shared;
        let live = shared.live.load();
        let (open, unsorted) = live.split_last().expect("there is always an open SCU");
        let free = shared.queue.available_permits() as u64;
        let now = self.env.clock.monotonic();
        let held = shared.hold.lock().as_ref().map(|hold| hold.told(now));
        IngestStatus {
            open_scu: open.scu(),
            open_batches: open.acknowledged(),
            open_bytes: open.raw_bytes(),
            unsorted_scus: unsorted.len(),
            unsorted_bytes: unsorted.iter().map(|scu| scu.raw_bytes()).sum(),
            queue_bytes: shared.options.queue_bytes_max.saturating_sub(free),
            memory_bytes: shared.memory.used(),
            log_bytes_written: shared.log_bytes_written.load(Ordering::Relaxed),
            log_bytes_kept: shared.log_bytes_kept.load(Ordering::Relaxed),
            throttled: shared
                .throttle
                .borrow()
                .as_ref()
                .map(|held| held.why.clone()),
            waiting: shared.waiting_writers(held.as_deref()),
            held,
            waits: shared.waiting.entered(),
            last_failure: shared.last_failure.lock().clone(),
            failing: self.failing(),
        }
    }

    fn failing(&self) -> Option<String> {
        let failing = self.shared.failing.lock();
        let (since, what) = failing.as_ref()?;
        let age = self.env.clock.monotonic().saturating_sub(*since);
        (age < FAILING).then(|| what.clone())
    }

    /// Commits what is queued, seals the open SCU, and stops; later calls fail. The log stays as
    /// after a crash until the manifest is known to have what was sealed.
    ///
    /// # Errors
    /// `Cancelled` when ingest has stopped already.
    pub async fn close(&self) -> Result<Closing> {
        let (told, in_manifest) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        let closer = |sealed| Closer {
            sealed,
            in_manifest,
            ended,
        };
        let sealed_through = self.ask(|answer| Event::Close(closer(answer))).await?;
        Ok(Closing {
            sealed_through,
            told,
            has_ended,
        })
    }

    async fn ask<T>(&self, event: impl FnOnce(oneshot::Sender<T>) -> Event) -> Result<T> {
        let (answer, receiver) = oneshot::channel();
        self.events.send(event(answer)).map_err(|_| stopped())?;
        receiver.await.map_err(|_| stopped())
    }
}

/// Ingest that was closed, while the manifest may not have all that was sealed. Dropping it leaves
/// the log as after a crash.
#[derive(Debug)]
pub struct Closing {
    sealed_through: ScuNumber,
    told: oneshot::Sender<bool>,
    has_ended: oneshot::Receiver<()>,
}

impl Closing {
    /// The last SCU that is sealed.
    pub fn sealed_through(&self) -> ScuNumber {
        self.sealed_through
    }

    /// Says whether the manifest has what was sealed, and waits until nothing writes to the log's
    /// folder any more. Only if it has are the log's files cut to what they hold.
    pub async fn finish(self, in_manifest: bool) {
        // A committer that is gone writes nothing.
        let _ = self.told.send(in_manifest);
        let _ = self.has_ended.await;
    }
}

/// What the manifest has when a hold ends.
#[derive(Debug)]
pub struct AfterHold {
    /// Its tables.
    pub tables: Arc<TableVersions>,
    /// Its last sealed SCU.
    pub sealed_through: ScuNumber,
}

impl AfterHold {
    /// As a manifest has it.
    pub fn of(manifest: &Manifest) -> AfterHold {
        AfterHold {
            tables: Arc::new(TableVersions::of(manifest)),
            sealed_through: manifest.sealed_through,
        }
    }
}

/// No commit is ordered while this lives.
#[derive(Debug)]
pub struct Hold {
    sealed_through: ScuNumber,
    events: Option<mpsc::UnboundedSender<Event>>,
}

impl Hold {
    /// The boundary at which the order stands.
    pub fn sealed_through(&self) -> ScuNumber {
        self.sealed_through
    }

    /// Lets commits go on, under what the manifest has now.
    pub fn release(mut self, after: AfterHold) {
        self.send(Some(after));
    }

    fn send(&mut self, after: Option<AfterHold>) {
        if let Some(events) = self.events.take() {
            // When the committer is gone nothing waits for the hold.
            let _ = events.send(Event::Release { after });
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.send(None);
    }
}

/// The error of calls after the end.
pub(crate) fn stopped() -> Error {
    Error::new(
        lazybase_model::ErrorKind::Cancelled,
        "the database is closed",
    )
    .with_sqlstate("57P01")
}
