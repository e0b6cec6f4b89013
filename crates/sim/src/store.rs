//! The simulated store: what a disk does to those who trust it. Bytes are kept by the engine's
//! store in memory, which knows what a power cut may take; here operations take time, fail before
//! or after they happen, and crashes fall into the middle of them.
//!
//! ```text
//!   called -> waits -> [crash?] -> refused | lost | torn | happens -> [crash?] -> reported
//! ```

use std::fmt;
use std::future::pending;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use lazybase_engine::env::faults::Operation;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::env::{FileWriter, LogFile, Store, StoreError, StoreResult};
use parking_lot::Mutex;

use crate::dice::Dice;
use crate::marks::Mark;
use crate::world::World;

pub(crate) mod frames;
mod wounds;
mod written;

use written::Written;

pub use wounds::{Harm, Of, Wounds};

/// What an operation is called in the log of events.
fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Put => "put",
        Operation::Create => "create",
        Operation::Write => "write",
        Operation::Finish => "finish",
        Operation::Read | Operation::Len | Operation::List => "read",
        Operation::CreateLog => "create log",
        Operation::LogWrite => "write log",
        Operation::LogSync => "sync log",
        Operation::Delete => "delete",
    }
}

/// The mark of a crash in the middle of an operation.
fn crash_mark(operation: Operation) -> Option<Mark> {
    match operation {
        Operation::Put => Some(Mark::CrashInManifest),
        Operation::Finish => Some(Mark::CrashInSegment),
        Operation::CreateLog => Some(Mark::CrashInCreateLog),
        Operation::LogWrite => Some(Mark::CrashInLogWrite),
        Operation::LogSync => Some(Mark::CrashInLogSync),
        Operation::Delete => Some(Mark::CrashInDelete),
        Operation::Create | Operation::Write => None,
        Operation::Read | Operation::Len | Operation::List => None,
    }
}

/// How often what goes wrong, in thousandths of all operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rates {
    /// Refused.
    pub refused: u64,
    /// Happened, but reported in doubt.
    pub happened: u64,
    /// Did not happen, and reported in doubt.
    pub lost: u64,
    /// A write to the log of which a part happened.
    pub torn: u64,
    /// A sync that failed, after which nothing of the file becomes durable any more.
    pub sync_failed: u64,
    /// A read that failed.
    pub read_failed: u64,
    /// A read that gave a flipped bit, of a segment.
    pub flipped: u64,
    /// A while in which the disk is full.
    pub full: u64,
    /// An operation that takes much longer.
    pub slow: u64,
    /// An operation that takes very long.
    pub hung: u64,
    /// An attempt that hangs, before an operation or after it, for so many milliseconds at most.
    pub attempt_hung: u64,
    /// See `attempt_hung`.
    pub attempt_hung_ms: u64,
}

/// When the processes crash in the middle of an operation: the so-many-th of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPoint {
    /// Which kind.
    pub operation: Operation,
    /// How many of the kind come before.
    pub after: u64,
    /// Whether it happens first.
    pub happens: bool,
}

/// What went wrong in the stores of all lives.
#[derive(Debug, Default)]
pub struct Past {
    log_faults: AtomicUsize,
    flipped: Mutex<Option<Duration>>,
}

impl Past {
    /// How often a log file was not made or written, or that ended in doubt.
    pub fn log_faults(&self) -> usize {
        self.log_faults.load(Ordering::Relaxed)
    }

    /// Whether a read gave a flipped bit at or after this moment.
    pub fn flipped_since(&self, moment: Duration) -> bool {
        self.flipped.lock().is_some_and(|last| last >= moment)
    }
}

/// A store that does what it is told, and what the dice tell it.
#[derive(Clone)]
pub struct SimStore {
    world: World,
    disk: MemoryStore,
    wounds: Wounds,
    past: Arc<Past>,
    state: Arc<Mutex<State>>,
}

struct State {
    dice: Dice,
    /// Those that say which attempts hang.
    hanging: Dice,
    rates: Rates,
    is_on: bool,
    crash: Option<CrashPoint>,
    full_until: Option<Duration>,
    /// When a fault last happened.
    last_fault: Option<Duration>,
    deletes: u64,
    log_failures: u64,
    /// Segments that could not be read, or were read with a flipped bit.
    suspects: Vec<(String, bool)>,
    /// What was written to the log, where somebody looks at its frames.
    written: Option<Written>,
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimStore").finish_non_exhaustive()
    }
}

/// What an operation is to do, and to say.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Happen,
    Refuse { full: bool },
    HappenInDoubt,
    Lose,
    Tear,
}

impl SimStore {
    /// A store over these bytes.
    pub fn new(
        world: World,
        disk: MemoryStore,
        wounds: Wounds,
        past: Arc<Past>,
        dice: Dice,
        rates: Rates,
    ) -> SimStore {
        let state = State {
            hanging: Dice::of(dice.clone().bits(), 1),
            dice,
            rates,
            is_on: true,
            crash: None,
            full_until: None,
            last_fault: None,
            deletes: 0,
            log_failures: 0,
            suspects: Vec::new(),
            written: None,
        };
        SimStore {
            world,
            disk,
            wounds,
            past,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The bytes.
    pub fn disk(&self) -> &MemoryStore {
        &self.disk
    }

    /// Looks at the frames that are written to the log from now on.
    pub fn watch_frames(&self) {
        self.state.lock().written = Some(Written::default());
    }

    /// Whether frames were written of a batch that was not committed, as far as somebody looked.
    pub fn has_open_batches(&self) -> bool {
        let state = self.state.lock();
        let written = state.written.as_ref();
        written.is_some_and(Written::has_open_batches)
    }

    /// Notes what batches are examples of whose frames were written.
    fn note_frames(&self, name: &str, bytes: &[u8]) {
        let met = {
            let mut state = self.state.lock();
            let written = state.written.as_mut();
            written.map(|written| written.note(name, bytes))
        };
        let met = met.into_iter().flatten();
        met.for_each(|mark| self.world.meet(mark));
    }

    /// Lets faults happen, or none.
    pub fn set_faults(&self, is_on: bool) {
        let mut state = self.state.lock();
        state.is_on = is_on;
        if !is_on {
            state.full_until = None;
        }
    }

    /// Lets the processes crash in the middle of an operation.
    pub fn crash_at(&self, point: Option<CrashPoint>) {
        self.state.lock().crash = point;
    }

    /// Whether a fault happened at or after this moment.
    pub fn failed_since(&self, moment: Duration) -> bool {
        let state = self.state.lock();
        state.full_until.is_some() || state.last_fault.is_some_and(|last| last >= moment)
    }

    /// How many files were removed.
    pub fn deletes(&self) -> u64 {
        self.state.lock().deletes
    }

    /// How many writes and syncs of the log failed or ended in doubt.
    pub fn log_failures(&self) -> u64 {
        self.state.lock().log_failures
    }

    /// The segments that were not read as they are since the last look, and whether with a flipped
    /// bit.
    pub fn take_suspects(&self) -> Vec<(String, bool)> {
        std::mem::take(&mut self.state.lock().suspects)
    }

    /// Now and then an attempt hangs, as if the thread or the machine that it runs on did.
    async fn hang(&self) {
        if !self.world.in_worker() {
            return;
        }
        let hang = {
            let mut state = self.state.lock();
            let (chance, most) = (state.rates.attempt_hung, state.rates.attempt_hung_ms);
            if !state.is_on || !state.hanging.permille(chance) {
                return;
            }
            Duration::from_millis(state.hanging.between(most / 20, most))
        };
        self.world.meet(Mark::AttemptHung);
        self.world
            .note("an attempt hangs", hang.as_millis() as u64, 0, || {
                format!("for {hang:?}")
            });
        self.world.sleep(hang).await;
    }

    /// Waits as long as the disk takes.
    async fn wait(&self, operation: Operation) {
        let wait = {
            let mut state = self.state.lock();
            let Rates { slow, hung, .. } = state.rates;
            let (slow, hung) = match state.is_on {
                true => (slow, hung),
                false => (0, 0),
            };
            let base = match operation {
                Operation::LogSync | Operation::Finish | Operation::Put => 300,
                Operation::Read | Operation::Len | Operation::List => 40,
                Operation::LogWrite | Operation::Write => 40,
                Operation::Create | Operation::CreateLog | Operation::Delete => 100,
            };
            if state.dice.permille(hung) {
                self.world.meet(Mark::StoreHung);
                Duration::from_millis(state.dice.between(300, 2500))
            } else if state.dice.permille(slow) {
                self.world.meet(Mark::StoreSlow);
                Duration::from_micros(state.dice.between(2_000, 40_000))
            } else if state.dice.percent(50) {
                Duration::from_micros(state.dice.between(1, 2 * base))
            } else {
                Duration::ZERO
            }
        };
        match wait.is_zero() {
            true => self.world.pause().await,
            false => self.world.sleep(wait).await,
        }
    }

    /// Waits, and draws what is to become of a change.
    async fn begin(&self, operation: Operation, name: &str, bytes: u64) -> (Fate, bool) {
        self.hang().await;
        self.wait(operation).await;
        let crash = self.reaches_crash(operation);
        if let Some(CrashPoint { happens: false, .. }) = crash {
            self.stop(operation).await;
        }
        let fate = self.draw(operation);
        let fine = u64::from(fate == Fate::Happen);
        self.world.note(word(operation), bytes, fine, || {
            let how = match fate {
                Fate::Happen => "",
                Fate::Refuse { .. } => ": refused",
                Fate::HappenInDoubt => ": happens, reported in doubt",
                Fate::Lose => ": lost",
                Fate::Tear => ": torn",
            };
            format!("{name} {bytes}{how}")
        });
        (fate, crash.is_some())
    }

    fn reaches_crash(&self, operation: Operation) -> Option<CrashPoint> {
        let mut state = self.state.lock();
        let point = state.crash.as_mut()?;
        if point.operation != operation {
            return None;
        }
        match point.after.checked_sub(1) {
            Some(left) => {
                point.after = left;
                None
            }
            None => state.crash.take(),
        }
    }

    /// The processes crash here.
    async fn stop(&self, operation: Operation) {
        if let Some(mark) = crash_mark(operation) {
            self.world.meet(mark);
        }
        self.world.note("crash in", operation as u64, 0, || {
            word(operation).to_owned()
        });
        self.world.crash_now();
        pending::<()>().await;
    }

    fn draw(&self, operation: Operation) -> Fate {
        let mut state = self.state.lock();
        if !state.is_on {
            return Fate::Happen;
        }
        let now = self.world.now();
        if state.full_until.is_some_and(|until| until <= now) {
            state.full_until = None;
        }
        let rates = state.rates;
        let grows = matches!(
            operation,
            Operation::Put | Operation::Write | Operation::Finish | Operation::CreateLog
        );
        if grows && state.full_until.is_none() && state.dice.permille(rates.full) {
            let until = now + Duration::from_micros(state.dice.between(2_000, 200_000));
            state.full_until = Some(until);
        }
        let fate = if grows && state.full_until.is_some() {
            self.world.meet(Mark::DiskFull);
            Fate::Refuse { full: true }
        } else if operation == Operation::LogSync && state.dice.permille(rates.sync_failed) {
            self.world.meet(Mark::SyncFailed);
            Fate::Lose
        } else if operation == Operation::LogWrite && state.dice.permille(rates.torn) {
            self.world.meet(Mark::LogTorn);
            Fate::Tear
        } else if state.dice.permille(rates.refused) {
            self.world.meet(Mark::StoreRefused);
            Fate::Refuse { full: false }
        } else if state.dice.permille(rates.happened) {
            self.world.meet(Mark::StoreHappened);
            Fate::HappenInDoubt
        } else if state.dice.permille(rates.lost) {
            self.world.meet(Mark::StoreLost);
            Fate::Lose
        } else {
            return Fate::Happen;
        };
        if matches!(operation, Operation::LogWrite | Operation::LogSync) {
            state.log_failures += 1;
        }
        let of_log = matches!(
            operation,
            Operation::CreateLog | Operation::LogWrite | Operation::LogSync
        );
        if of_log {
            self.past.log_faults.fetch_add(1, Ordering::Relaxed);
        }
        state.last_fault = Some(now);
        fate
    }

    /// Waits, and tells whether a read fails.
    async fn begin_read(&self, name: &str, bytes: u64) -> StoreResult<()> {
        self.wait(Operation::Read).await;
        if self.reaches_crash(Operation::Read).is_some() {
            self.stop(Operation::Read).await;
        }
        let fails = {
            let mut state = self.state.lock();
            let fails = state.is_on && {
                let chance = state.rates.read_failed;
                state.dice.permille(chance)
            };
            if fails {
                state.last_fault = Some(self.world.now());
                state.suspects.push((name.to_owned(), false));
            }
            fails
        };
        self.world.note("read", bytes, u64::from(fails), || {
            format!("{name} {bytes}{}", if fails { ": fails" } else { "" })
        });
        match fails {
            false => Ok(()),
            true => {
                self.world.meet(Mark::ReadFailed);
                Err(StoreError::Read {
                    name: name.to_owned(),
                    reason: "the simulated disk could not read".to_owned(),
                })
            }
        }
    }

    /// What was read, with a flipped bit now and then. Only where a segment says what it holds:
    /// there a reader can be told wrong from right.
    fn flip(&self, name: &str, bytes: Bytes) -> Bytes {
        let mut state = self.state.lock();
        let chance = state.rates.flipped;
        let flips = state.is_on && name.starts_with("segments/") && !bytes.is_empty();
        if !flips || !state.dice.permille(chance) {
            return bytes;
        }
        state.last_fault = Some(self.world.now());
        *self.past.flipped.lock() = state.last_fault;
        state.suspects.push((name.to_owned(), true));
        self.world.meet(Mark::ReadFlipped);
        let mut flipped = BytesMut::from(&bytes[..]);
        let at = state.dice.index(flipped.len());
        flipped[at] ^= 1 << state.dice.below(8);
        self.world.note("flip", at as u64, 0, || {
            format!("{name}: byte {at} of what was read")
        });
        flipped.freeze()
    }

    /// Reports a change that happened.
    async fn end(
        &self,
        operation: Operation,
        name: &str,
        fate: Fate,
        crash: bool,
    ) -> StoreResult<()> {
        if crash {
            self.stop(operation).await;
        }
        self.hang().await;
        match fate {
            Fate::Happen => Ok(()),
            _ => Err(in_doubt(name)),
        }
    }
}

impl SimStore {
    /// A file that somebody took away is in nobody's way: another one has its name, or none.
    async fn make_way(&self, name: &str) -> StoreResult<()> {
        if self.wounds.is_gone(name) {
            self.disk.delete(name).await?;
            self.wounds.restore(name, self.world.now());
        }
        Ok(())
    }

    /// Notes what becomes of a commit of the remap stage, or of one that reserves numbers.
    fn note_edit(&self, fate: Fate, crash: bool, edit: &[u8]) {
        let is = |needle: &[u8]| edit.windows(needle.len()).any(|part| part == needle);
        if crash && is(br#""reserve_numbers""#) {
            self.world.meet(Mark::CrashInReserve);
        }
        if !is(br#""remapped""#) {
            return;
        }
        if crash {
            self.world.meet(Mark::CrashInRemap);
        }
        match fate {
            Fate::Happen => {}
            Fate::Refuse { .. } => self.world.meet(Mark::RemapRefused),
            Fate::HappenInDoubt => self.world.meet(Mark::RemapHappened),
            Fate::Lose | Fate::Tear => self.world.meet(Mark::RemapLost),
        }
    }
}

fn in_doubt(name: &str) -> StoreError {
    StoreError::Maybe {
        name: name.to_owned(),
        reason: "the simulated disk can't tell".to_owned(),
    }
}

fn refused(name: &str, full: bool) -> StoreError {
    StoreError::DefinitelyNot {
        name: name.to_owned(),
        reason: "the simulated disk refused".to_owned(),
        full,
    }
}

#[async_trait]
impl Store for SimStore {
    async fn put_if_absent(&self, name: &str, bytes: Bytes) -> StoreResult<()> {
        let (fate, crash) = self.begin(Operation::Put, name, bytes.len() as u64).await;
        if fate != Fate::Happen || crash {
            self.note_edit(fate, crash, &bytes);
        }
        // What is put is the manifest's, and text.
        self.world.note("content", 0, 0, || {
            String::from_utf8_lossy(&bytes).into_owned()
        });
        match fate {
            Fate::Refuse { full } => return Err(refused(name, full)),
            Fate::Lose | Fate::Tear => return Err(in_doubt(name)),
            Fate::Happen | Fate::HappenInDoubt => {
                self.make_way(name).await?;
                self.disk.put_if_absent(name, bytes).await?;
            }
        }
        self.end(Operation::Put, name, fate, crash).await
    }

    async fn create(&self, name: &str) -> StoreResult<Box<dyn FileWriter>> {
        let (fate, _) = self.begin(Operation::Create, name, 0).await;
        match fate {
            Fate::Refuse { full } => Err(refused(name, full)),
            Fate::Happen => Ok(Box::new(SimWriter {
                inner: self.disk.create(name).await?,
                store: self.clone(),
                name: name.to_owned(),
            })),
            _ => Err(in_doubt(name)),
        }
    }

    async fn read(&self, name: &str, range: Range<u64>) -> StoreResult<Bytes> {
        self.begin_read(name, range.end.saturating_sub(range.start))
            .await?;
        let bytes = self.disk.read_now(name, range.clone())?;
        let bytes = self.wounds.read(name, &range, bytes)?;
        let bytes = self.flip(name, bytes);
        self.hang().await;
        Ok(bytes)
    }

    async fn len(&self, name: &str) -> StoreResult<u64> {
        self.begin_read(name, 0).await?;
        self.wounds.length(name, self.disk.len(name).await?)
    }

    async fn list(&self, prefix: &str) -> StoreResult<Vec<(String, u64)>> {
        self.begin_read(prefix, 0).await?;
        let mut listed = self.disk.list(prefix).await?;
        self.wounds.hide(&mut listed);
        Ok(listed)
    }

    async fn delete(&self, name: &str) -> StoreResult<()> {
        let (fate, crash) = self.begin(Operation::Delete, name, 0).await;
        match fate {
            Fate::Refuse { full } => return Err(refused(name, full)),
            Fate::Lose | Fate::Tear => return Err(in_doubt(name)),
            Fate::Happen | Fate::HappenInDoubt => {
                self.disk.delete(name).await?;
                self.state.lock().deletes += 1;
            }
        }
        self.end(Operation::Delete, name, fate, crash).await
    }

    async fn create_log(
        &self,
        name: &str,
        bytes: u64,
        recycle: Option<&str>,
    ) -> StoreResult<Box<dyn LogFile>> {
        let (fate, crash) = self.begin(Operation::CreateLog, name, bytes).await;
        let inner = match fate {
            Fate::Refuse { full } => return Err(refused(name, full)),
            Fate::Lose | Fate::Tear => return Err(in_doubt(name)),
            Fate::Happen | Fate::HappenInDoubt => {
                if let Some(old) = recycle.filter(|old| self.wounds.is_gone(old)) {
                    // Nobody needs it any more: it does not come back.
                    self.make_way(old).await?;
                    self.end(Operation::CreateLog, name, fate, crash).await?;
                    return Err(StoreError::NotFound(old.to_owned()));
                }
                self.make_way(name).await?;
                let made = self.disk.create_log(name, bytes, recycle).await?;
                // It may have the name of one that was damaged, and is gone.
                self.wounds.restore(name, self.world.now());
                made
            }
        };
        self.end(Operation::CreateLog, name, fate, crash).await?;
        Ok(Box::new(SimLog {
            inner,
            store: self.clone(),
            name: name.to_owned(),
            sync_failed: false,
        }))
    }
}

struct SimWriter {
    inner: Box<dyn FileWriter>,
    store: SimStore,
    name: String,
}

#[async_trait]
impl FileWriter for SimWriter {
    async fn write(&mut self, bytes: Bytes) -> StoreResult<()> {
        let length = bytes.len() as u64;
        let (fate, _) = self.store.begin(Operation::Write, &self.name, length).await;
        match fate {
            Fate::Refuse { full } => return Err(refused(&self.name, full)),
            Fate::Lose | Fate::Tear => return Err(in_doubt(&self.name)),
            Fate::Happen | Fate::HappenInDoubt => self.inner.write(bytes).await?,
        }
        self.store
            .end(Operation::Write, &self.name, fate, false)
            .await
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        let SimWriter { inner, store, name } = *self;
        let (fate, crash) = store.begin(Operation::Finish, &name, 0).await;
        match fate {
            Fate::Refuse { full } => return Err(refused(&name, full)),
            Fate::Lose | Fate::Tear => return Err(in_doubt(&name)),
            Fate::Happen | Fate::HappenInDoubt => inner.finish().await?,
        }
        store.end(Operation::Finish, &name, fate, crash).await
    }
}

struct SimLog {
    inner: Box<dyn LogFile>,
    store: SimStore,
    name: String,
    /// A disk that failed a sync has forgotten which bytes of the file it owes: later syncs change
    /// nothing, and say that all is well. Other files fail each for itself: groups go on in them
    /// (LOG-4).
    sync_failed: bool,
}

#[async_trait]
impl LogFile for SimLog {
    async fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()> {
        let length = bytes.len() as u64;
        let (fate, crash) = self
            .store
            .begin(Operation::LogWrite, &self.name, length)
            .await;
        match fate {
            Fate::Refuse { full } => return Err(refused(&self.name, full)),
            Fate::Lose => return Err(in_doubt(&self.name)),
            Fate::Tear => {
                let part = self.store.state.lock().dice.index(bytes.len() + 1);
                self.inner.write_at(offset, &bytes[..part]).await?;
            }
            Fate::Happen | Fate::HappenInDoubt => {
                self.inner.write_at(offset, bytes).await?;
                self.store.note_frames(&self.name, bytes);
            }
        }
        self.store
            .end(Operation::LogWrite, &self.name, fate, crash)
            .await
    }

    async fn sync(&mut self) -> StoreResult<()> {
        let (fate, crash) = self.store.begin(Operation::LogSync, &self.name, 0).await;
        match fate {
            Fate::Refuse { .. } | Fate::Lose | Fate::Tear => {
                self.sync_failed = true;
                return Err(in_doubt(&self.name));
            }
            _ if self.sync_failed => {}
            Fate::Happen | Fate::HappenInDoubt => self.inner.sync().await?,
        }
        self.store
            .end(Operation::LogSync, &self.name, fate, crash)
            .await
    }

    async fn cut(self: Box<Self>, bytes: u64) -> StoreResult<()> {
        let SimLog {
            inner, store, name, ..
        } = *self;
        let (fate, crash) = store.begin(Operation::LogSync, &name, 0).await;
        match fate {
            Fate::Refuse { full } => return Err(refused(&name, full)),
            Fate::Lose | Fate::Tear => return Err(in_doubt(&name)),
            Fate::Happen | Fate::HappenInDoubt => inner.cut(bytes).await?,
        }
        store.end(Operation::LogSync, &name, fate, crash).await
    }
}
