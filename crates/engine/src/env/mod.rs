//! The world as the engine sees it: clock, random, store, spawning; each a trait that a
//! simulation replaces.
//!
//! Invariant ENV-1: nothing in the engine or cluster names a clock, a random source, a thread or a
//! file but through here (`clippy.toml` bans the rest).

mod failed_sync;
pub mod faults;
pub mod inline;
pub mod local;
pub mod manual;
pub mod memory;
mod name;
pub mod planted;
pub mod system;

#[cfg(test)]
mod conformance;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;

pub use failed_sync::FailedSync;
pub use name::{BACKUP_FOLDERS, LOCK_FILE, LOG_SUFFIX, OWNER_FILE};

/// Everything that the engine takes from the world.
#[derive(Clone)]
pub struct Env {
    /// Tells the time and sleeps.
    pub clock: Arc<dyn Clock>,
    /// Draws numbers for identities, nonces and names.
    pub random: Arc<dyn Random>,
    /// Keeps bytes.
    pub store: Arc<dyn Store>,
    /// Runs long-lived actors.
    pub spawner: Arc<dyn Spawner>,
    /// Which mistake is made on purpose: none, in all that is released.
    pub planted: planted::Chosen,
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

/// Tells the time.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Microseconds since 1970, as the machine believes. Used once, when a database opens.
    fn wall_micros(&self) -> i64;

    /// Time since some fixed moment of this process; never jumps, never stands.
    fn monotonic(&self) -> Duration;

    /// Returns after at least `duration`.
    async fn sleep(&self, duration: Duration);
}

/// Draws numbers.
pub trait Random: Send + Sync {
    /// Sixty-four unpredictable bits.
    fn next_u64(&self) -> u64;
}

/// Runs long-lived actors.
pub trait Spawner: Send + Sync {
    /// Runs `actor` beside the caller, until it ends; `name` shows in thread lists. Joining the
    /// returned handle waits for the actor.
    fn spawn(&self, name: &str, actor: BoxFuture<'static, ()>) -> Box<dyn ActorHandle>;
}

/// A running actor.
pub trait ActorHandle: Send + Sync {
    /// Blocks until the actor has ended.
    fn join(self: Box<Self>);
}

/// Why the store did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// There is no such file.
    #[error("{0}: no such file")]
    NotFound(String),
    /// Put-if-absent found a file of that name.
    #[error("{0}: already exists")]
    AlreadyExists(String),
    /// The write did not happen, and won't: disk full, read-only, refused.
    #[error("{name}: {reason}")]
    DefinitelyNot {
        /// The file.
        name: String,
        /// What the system said.
        reason: String,
        /// Whether freeing space may help.
        full: bool,
    },
    /// The write may have happened.
    #[error("{name}: {reason} (may have happened)")]
    Maybe {
        /// The file.
        name: String,
        /// What the system said.
        reason: String,
    },
    /// The file ends before what was to be read: it is not what it was.
    #[error("{name}: the file ends before byte {end}, to which it is read")]
    TooShort {
        /// The file.
        name: String,
        /// Where the range ends that was to be read.
        end: u64,
    },
    /// A read failed.
    #[error("{name}: {reason}")]
    Read {
        /// The file.
        name: String,
        /// What the system said.
        reason: String,
    },
}

impl StoreError {
    /// What happened, without the file's name: for messages that begin with it.
    pub fn reason(&self) -> String {
        match self {
            StoreError::NotFound(_) => "no such file".to_owned(),
            StoreError::AlreadyExists(_) => "already exists".to_owned(),
            StoreError::DefinitelyNot { reason, .. } | StoreError::Read { reason, .. } => {
                reason.clone()
            }
            StoreError::Maybe { reason, .. } => format!("{reason} (may have happened)"),
            StoreError::TooShort { end, .. } => {
                format!("the file ends before byte {end}, to which it is read")
            }
        }
    }
}

/// The result of a store operation.
pub type StoreResult<T> = Result<T, StoreError>;

impl From<StoreError> for lazybase_model::Error {
    fn from(error: StoreError) -> Self {
        use lazybase_model::error::{DISK_FULL, UNREADABLE};
        use lazybase_model::{Error, ErrorKind};
        let message = error.to_string();
        match error {
            StoreError::NotFound(_) | StoreError::TooShort { .. } => Error::corrupt(message),
            StoreError::AlreadyExists(_) => Error::conflict(message),
            StoreError::DefinitelyNot { full: true, .. } => Error::unavailable(message)
                .with_hint("free some space; nothing that was acknowledged is lost")
                .with_sqlstate(DISK_FULL),
            StoreError::DefinitelyNot { .. } => Error::unavailable(message),
            StoreError::Maybe { .. } => Error::new(ErrorKind::MaybeHappened, message),
            StoreError::Read { .. } => Error::unavailable(message).with_sqlstate(UNREADABLE),
        }
    }
}

/// Keeps named, immutable files, and log files that are written in place.
///
/// Names are relative paths with `/`. A file of [`Store::put_if_absent`] and of
/// [`FileWriter::finish`] is durable when the call returns, and visible whole or not at all.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// Writes a small file durably unless one of that name is there.
    async fn put_if_absent(&self, name: &str, bytes: Bytes) -> StoreResult<()>;

    /// Begins a new file that becomes visible and durable with [`FileWriter::finish`].
    async fn create(&self, name: &str) -> StoreResult<Box<dyn FileWriter>>;

    /// Reads `range` of a file; `TooShort` if the file is.
    async fn read(&self, name: &str, range: Range<u64>) -> StoreResult<Bytes>;

    /// The length of a file in bytes.
    async fn len(&self, name: &str) -> StoreResult<u64>;

    /// Names and lengths of all files whose name starts with `prefix` (a folder with a closing
    /// slash), sorted by name.
    async fn list(&self, prefix: &str) -> StoreResult<Vec<(String, u64)>>;

    /// Removes a file; no error if there is none. After a power cut it may be back, until the next
    /// file of its folder has become durable.
    async fn delete(&self, name: &str) -> StoreResult<()>;

    /// Creates a log file of `bytes` zeros, durable, or takes `recycle` (its old name) for it, with
    /// whatever that holds, at the new length. The name ends in [`LOG_SUFFIX`].
    async fn create_log(
        &self,
        name: &str,
        bytes: u64,
        recycle: Option<&str>,
    ) -> StoreResult<Box<dyn LogFile>>;

    /// Gives a file a name that no other file has. A store that can does so without reading it: of
    /// others, a file that can't be read keeps its name.
    async fn rename(&self, old: &str, new: &str) -> StoreResult<()> {
        let length = self.len(old).await?;
        let mut writer = self.create(new).await?;
        let mut at = 0;
        while at < length {
            let end = (at + RENAME_BYTES).min(length);
            writer.write(self.read(old, at..end).await?).await?;
            at = end;
        }
        writer.finish().await?;
        self.delete(old).await
    }

    /// The folder of a file system that it keeps its files in, if it does.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// The sync that failed and after which the store believes none, of whatever file, until it is
    /// opened again; if there was one. A store whose files fail each for itself has none.
    fn failed_sync(&self) -> Option<FailedSync> {
        None
    }
}

/// What is copied at once where a name can't be changed.
const RENAME_BYTES: u64 = 4 << 20;

/// A file that is being written.
#[async_trait]
pub trait FileWriter: Send {
    /// Appends bytes.
    async fn write(&mut self, bytes: Bytes) -> StoreResult<()>;

    /// Makes the file durable and visible. A writer that is dropped leaves nothing behind.
    async fn finish(self: Box<Self>) -> StoreResult<()>;
}

/// A preallocated log file, written in place by one writer.
#[async_trait]
pub trait LogFile: Send {
    /// Writes bytes at an offset inside the file; readable at once, durable after the next sync.
    async fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()>;

    /// Makes everything written so far durable. After an error the file must not be synced again;
    /// whether another one can be, the store knows ([`Store::failed_sync`]).
    async fn sync(&mut self) -> StoreResult<()>;

    /// Ends the writing: makes the file durable, with its first `bytes` bytes alone. After an error
    /// it has its old length or the new one.
    async fn cut(self: Box<Self>, bytes: u64) -> StoreResult<()>;
}
