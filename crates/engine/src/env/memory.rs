//! A store in memory that remembers every operation, and can show what each of them would have
//! left had the power gone right after it.
//!
//! Reads and writes nothing outside itself. What a real disk may lose is told from what it may
//! not:
//! - a put, a finished file and a created log are durable when the call returns;
//! - what was written to a log is durable after its next sync, or when it has been cut;
//! - a removal is durable after the next durable operation in its folder, and until then the file
//!   may come back.

mod state;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

use super::name;
use super::{FileWriter, LogFile, Store, StoreError, StoreResult};
use state::{Operation, State};

/// What a power cut leaves of log writes and removals that were not yet durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsynced {
    /// None of them.
    Nothing,
    /// All of them.
    Everything,
    /// For each file, the first of them, and a part of the next one: drawn from the seed.
    Prefix(u64),
    /// Any of the sectors written, in no order, as a disk with a queue may: drawn from the seed.
    Scattered(u64),
}

/// A store in memory. Clones are the same store.
#[derive(Clone)]
pub struct MemoryStore(Arc<Mutex<Inner>>);

struct Inner {
    state: State,
    history: Option<History>,
}

struct History {
    base: State,
    operations: Vec<Operation>,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("files", &self.0.lock().state.count())
            .finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store that remembers its operations, and so all bytes ever written to it.
    pub fn new() -> MemoryStore {
        Self::over(State::default())
    }

    /// An empty store that remembers no operations.
    pub fn without_history() -> MemoryStore {
        MemoryStore(Arc::new(Mutex::new(Inner {
            state: State::default(),
            history: None,
        })))
    }

    /// How many operations changed the store since it was made; 0 without a history.
    pub fn operations(&self) -> usize {
        let inner = self.0.lock();
        let history = inner.history.as_ref();
        history.map_or(0, |history| history.operations.len())
    }

    /// What the operation of that number (from 1 on) did, for the messages of tests.
    pub fn describe(&self, operation: usize) -> Option<String> {
        let inner = self.0.lock();
        let operations = &inner.history.as_ref()?.operations;
        Some(operations.get(operation.checked_sub(1)?)?.to_string())
    }

    /// The store as after a power cut right after the first `operations` operations; with a
    /// history of its own, and apart from this one.
    ///
    /// # Panics
    /// If the store keeps no history, or has seen fewer operations.
    pub fn crash_image(&self, operations: usize, unsynced: Unsynced) -> MemoryStore {
        let inner = self.0.lock();
        let history = inner.history.as_ref();
        let history = history.expect("a crash image is made from a store with a history");
        let mut state = history.base.clone();
        for operation in &history.operations[..operations] {
            state.apply(operation);
        }
        state.crash(unsynced);
        Self::over(state)
    }

    /// A store with what a power cut at this moment leaves; it remembers no operations.
    pub fn after_crash(&self, unsynced: Unsynced) -> MemoryStore {
        let mut state = self.0.lock().state.clone();
        state.crash(unsynced);
        MemoryStore(Arc::new(Mutex::new(Inner {
            state,
            history: None,
        })))
    }

    /// What [`Store::read`] gives, without waiting.
    ///
    /// # Errors
    /// As that.
    pub fn read_now(&self, name: &str, range: Range<u64>) -> StoreResult<Bytes> {
        let inner = self.0.lock();
        let length = inner.state.len(name);
        let length = length.ok_or_else(|| StoreError::NotFound(name.to_owned()))?;
        if range.start > range.end || range.end > length {
            return Err(StoreError::TooShort {
                name: name.to_owned(),
                end: range.end,
            });
        }
        Ok(inner.state.read(name, range))
    }

    fn over(state: State) -> MemoryStore {
        let history = Some(History {
            base: state.clone(),
            operations: Vec::new(),
        });
        MemoryStore(Arc::new(Mutex::new(Inner { state, history })))
    }

    /// Puts a whole file, unless the name is taken.
    fn put(&self, name: &str, bytes: Bytes) -> StoreResult<()> {
        let mut inner = self.0.lock();
        if inner.state.has(name) {
            return Err(StoreError::AlreadyExists(name.to_owned()));
        }
        let name = name.to_owned();
        inner.record(Operation::Put { name, bytes });
        Ok(())
    }
}

impl Inner {
    fn record(&mut self, operation: Operation) {
        self.state.apply(&operation);
        if let Some(history) = &mut self.history {
            history.operations.push(operation);
        }
    }
}

fn refuse(name: &str, reason: &str) -> StoreError {
    StoreError::DefinitelyNot {
        name: name.to_owned(),
        reason: reason.to_owned(),
        full: false,
    }
}

fn check(name: &str) -> StoreResult<()> {
    name::check(name).map_err(|reason| refuse(name, reason))
}

#[async_trait]
impl Store for MemoryStore {
    async fn put_if_absent(&self, name: &str, bytes: Bytes) -> StoreResult<()> {
        check(name)?;
        self.put(name, bytes)
    }

    async fn create(&self, name: &str) -> StoreResult<Box<dyn FileWriter>> {
        check(name)?;
        Ok(Box::new(MemoryWriter {
            store: self.clone(),
            name: name.to_owned(),
            bytes: BytesMut::new(),
        }))
    }

    async fn read(&self, name: &str, range: Range<u64>) -> StoreResult<Bytes> {
        self.read_now(name, range)
    }

    async fn len(&self, name: &str) -> StoreResult<u64> {
        let length = self.0.lock().state.len(name);
        length.ok_or_else(|| StoreError::NotFound(name.to_owned()))
    }

    async fn list(&self, prefix: &str) -> StoreResult<Vec<(String, u64)>> {
        Ok(self.0.lock().state.list(prefix))
    }

    async fn delete(&self, name: &str) -> StoreResult<()> {
        check(name)?;
        let mut inner = self.0.lock();
        if inner.state.has(name) {
            let name = name.to_owned();
            inner.record(Operation::Delete { name });
        }
        Ok(())
    }

    async fn create_log(
        &self,
        name: &str,
        bytes: u64,
        recycle: Option<&str>,
    ) -> StoreResult<Box<dyn LogFile>> {
        name::check_log(name).map_err(|reason| refuse(name, reason))?;
        let mut inner = self.0.lock();
        if let Some(old) = recycle
            && inner.state.log(old).is_none()
        {
            return Err(StoreError::NotFound(old.to_owned()));
        }
        if inner.state.has(name) {
            return Err(StoreError::AlreadyExists(name.to_owned()));
        }
        inner.record(Operation::CreateLog {
            name: name.to_owned(),
            bytes,
            recycle: recycle.map(str::to_owned),
        });
        let log = inner.state.log(name).expect("it was created just now");
        Ok(Box::new(MemoryLog {
            store: self.clone(),
            name: name.to_owned(),
            log,
            bytes,
        }))
    }
}

/// A file that is being written: it shows when it is finished.
struct MemoryWriter {
    store: MemoryStore,
    name: String,
    bytes: BytesMut,
}

#[async_trait]
impl FileWriter for MemoryWriter {
    async fn write(&mut self, bytes: Bytes) -> StoreResult<()> {
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        self.store.put(&self.name, self.bytes.freeze())
    }
}

/// The writer of a log file.
struct MemoryLog {
    store: MemoryStore,
    name: String,
    /// Its number in the state, which a new name does not change.
    log: u64,
    bytes: u64,
}

#[async_trait]
impl LogFile for MemoryLog {
    async fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()> {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(refuse(&self.name, "write beyond the end of the log file"));
        }
        self.store.0.lock().record(Operation::WriteLog {
            log: self.log,
            offset,
            bytes: Bytes::copy_from_slice(bytes),
        });
        Ok(())
    }

    async fn sync(&mut self) -> StoreResult<()> {
        let log = self.log;
        self.store.0.lock().record(Operation::SyncLog { log });
        Ok(())
    }

    async fn cut(self: Box<Self>, bytes: u64) -> StoreResult<()> {
        if bytes > self.bytes {
            return Err(refuse(&self.name, "cut beyond the end of the log file"));
        }
        let log = self.log;
        self.store.0.lock().record(Operation::CutLog { log, bytes });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
