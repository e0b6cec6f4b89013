//! A folder of a local file system as a store.
//!
//! Reads and writes the folder given, and nothing else. A new file is written under a temporary
//! name, made durable, linked to its name (which fails where the name is taken), and the folder is
//! made durable. Calls complete at once: they block the thread that polls them. What changes the
//! folder goes through `disk`, which has it recorded where a test asks what a power cut leaves.
//!
//! Invariants:
//! - LOCAL-1: at most one process writes in a folder (a lock on `LOCK`; `OWNER` says whose).
//! - LOCAL-2: whatever a call shows, or says exists, survives a power cut, but for what a log
//!   holds unsynced. So an "already exists" syncs the folder first, and opening a folder syncs
//!   what a killed process, or whoever made the folder, may have left in the page cache alone:
//!   folders, those above it too, and logs.
//! - LOCAL-3: a name shows a whole file or none; temporary files go when the folder is opened.
//! - LOCAL-4: after a sync that failed, for another reason than a full disk, no sync is believed
//!   until the folder is opened again. Reads go on.
//! - LOCAL-5: a log has all of its space before it is written to, so that its syncs ask nothing of
//!   the file system's journal. Whatever else is made gets its name after its sync, which asks it.

mod disk;
mod folder;
mod log;
mod record;
mod write;

use std::collections::HashSet;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use async_trait::async_trait;
use bytes::Bytes;
use lazybase_model::{Error, Result};
use parking_lot::{Mutex, RwLock};
use quick_cache::sync::Cache;

use super::name;
use super::{FailedSync, FileWriter, LogFile, Store, StoreError, StoreResult};
use disk::Disk;
use folder::FolderLock;
use write::{LocalWriter, TempFile};

pub use folder::Owner;
pub use record::{DiskImage, DiskRecord, DiskReplay};

/// Open files kept for reads; well below the 1024 that many systems allow a process.
const OPEN_FILES_MAX: usize = 512;

/// The least that are kept, and which share of the files that the system allows.
const OPEN_FILES_MIN: usize = 8;
const OPEN_FILES_SHARE: usize = 4;

/// How many files are kept open for reads: the others that the process needs must fit beside them.
fn files_kept_open() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    match soft_limit(&limits) {
        Some(allowed) => (allowed / OPEN_FILES_SHARE).clamp(OPEN_FILES_MIN, OPEN_FILES_MAX),
        None => OPEN_FILES_MAX,
    }
}

/// The open files that a process may have, in the words of Linux.
fn soft_limit(limits: &str) -> Option<usize> {
    let mut lines = limits.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A read longer than this looks at the file's length before it asks for memory, because the
/// range may come from damaged bytes.
const UNCHECKED_READ_BYTES_MAX: u64 = 1 << 20;

/// A folder as a store. Clones share the folder; the last one gives it free.
#[derive(Clone)]
pub struct LocalStore(Arc<Shared>);

struct Shared {
    root: PathBuf,
    disk: Disk,
    /// None where the folder is only inspected.
    lock: Option<FolderLock>,
    /// Keeps writers away while the folder is inspected, where that matters.
    _looks: Option<File>,
    handles: Cache<String, Arc<File>>,
    /// Held for reading while a handle is opened and kept, for writing while a name goes away, so
    /// that no handle of a gone name stays in the cache.
    names: RwLock<()>,
    /// Folders whose entries in their parents are known to be durable.
    durable_folders: Mutex<HashSet<PathBuf>>,
    temp_count: AtomicU64,
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalStore")
            .field("root", &self.0.root)
            .field("read_only", &self.0.lock.is_none())
            .finish_non_exhaustive()
    }
}

impl LocalStore {
    /// Opens the folder for reading and writing, and creates it where it is absent.
    ///
    /// # Errors
    /// `Conflict`, naming the owner, if a process uses the folder; `Invalid` if `root` is no
    /// folder; `Unavailable` if the system refuses.
    pub fn open(root: &Path) -> Result<LocalStore> {
        Self::open_on(Disk::default(), root)
    }

    /// The same, and has every call noted that changes what must last: for tests.
    ///
    /// # Errors
    /// As [`LocalStore::open`].
    pub fn open_recorded(root: &Path, record: &DiskRecord) -> Result<LocalStore> {
        Self::open_on(Disk::recorded(record.clone()), root)
    }

    /// Opens a folder that is empty but for these entries, and that neither is `other`, nor lies in
    /// it or in another store's folder, nor holds it: a folder of another kind than a database's,
    /// or one that is to be made. Nothing is touched before that is known.
    ///
    /// # Errors
    /// `Conflict`, naming what is there; as [`LocalStore::open`].
    pub fn open_own(root: &Path, known: &[&str], other: Option<&Path>) -> Result<LocalStore> {
        let true_path = |path: &Path| {
            let found = folder::true_path(path);
            found.map_err(|error| folder::cannot_open(path, &error))
        };
        if let Some(other) = other {
            let (root, other) = (true_path(root)?, true_path(other)?);
            if let Some(how) = how_they_meet(&root, &other) {
                return Err(Error::conflict(how)
                    .with_detail("a database and its backups lie apart: each owns what it finds")
                    .with_hint("name a folder of its own"));
            }
        }
        if let Some(store) = folder::store_around(&true_path(root)?) {
            let message = format!("{} lies in {}", root.display(), store.display());
            return Err(Error::conflict(message)
                .with_detail(
                    "which holds a database or backups, and takes what it finds for its own",
                )
                .with_hint("name a folder of its own"));
        }
        if let Some(first) = LocalStore::strangers(root, known)?.first() {
            let root = root.display();
            let message = format!("{root} holds {first:?}, which does not belong there");
            return Err(Error::conflict(message)
                .with_hint("name an empty folder, or one that is to be made"));
        }
        LocalStore::open(root)
    }

    /// Names of what lies in a folder that is neither among `known` nor what every store keeps for
    /// itself, sorted; none where there is no folder.
    ///
    /// # Errors
    /// `Unavailable` if the system refuses to tell.
    pub fn strangers(root: &Path, known: &[&str]) -> Result<Vec<String>> {
        let strangers = folder::strangers(root, known);
        strangers.map_err(|error| folder::cannot_open(root, &error))
    }

    /// Opens the folder to look at it while nobody uses it, and keeps everybody out meanwhile;
    /// nothing is written.
    ///
    /// # Errors
    /// `Conflict`, naming the owner, if a process uses the folder; `NotFound` if there is none.
    pub fn open_to_look(root: &Path) -> Result<LocalStore> {
        folder::check_root(root)?;
        let looks = folder::lock_to_look(root)?;
        Ok(Self::over(Disk::default(), root, None, looks))
    }

    /// Opens the folder to look at it, whoever uses it; every write is refused. What it shows may
    /// change and vanish under the reader while an owner works.
    ///
    /// # Errors
    /// `NotFound` if there is no such folder; `Invalid` if `root` is no folder.
    pub fn open_read_only(root: &Path) -> Result<LocalStore> {
        folder::check_root(root)?;
        Ok(Self::over(Disk::default(), root, None, None))
    }

    /// Who uses the folder, as far as is known; None if nobody does.
    ///
    /// # Errors
    /// `Unavailable` if the system refuses to tell.
    pub fn owner(root: &Path) -> Result<Option<Owner>> {
        folder::owner_if_locked(root)
    }

    /// Says in the folder where its owner listens, for those who find the folder in use. Does
    /// nothing if the folder is only inspected.
    pub fn set_address(&self, address: &str) {
        if self.0.lock.is_some() {
            folder::write_owner(&self.0.root, Some(address));
        }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    fn open_on(disk: Disk, root: &Path) -> Result<LocalStore> {
        folder::create_root(&disk, root)?;
        let lock = FolderLock::take(root)?;
        folder::settle(&disk, root).map_err(|error| folder::cannot_open(root, &error))?;
        Ok(Self::over(disk, root, Some(lock), None))
    }

    fn over(disk: Disk, root: &Path, lock: Option<FolderLock>, looks: Option<File>) -> LocalStore {
        LocalStore(Arc::new(Shared {
            root: root.to_owned(),
            disk,
            lock,
            _looks: looks,
            handles: Cache::new(files_kept_open()),
            names: RwLock::new(()),
            durable_folders: Mutex::new(HashSet::new()),
            temp_count: AtomicU64::new(0),
        }))
    }
}

impl Shared {
    /// The path of a file that is to be read.
    fn path_to_read(&self, name: &str) -> StoreResult<PathBuf> {
        name::check(name).map_err(|reason| StoreError::Read {
            name: name.to_owned(),
            reason: reason.to_owned(),
        })?;
        Ok(self.root.join(name))
    }

    /// The path of a file that is to be written or removed.
    fn path_to_write(&self, name: &str) -> StoreResult<PathBuf> {
        if self.lock.is_none() {
            return Err(refuse(name, "the folder was opened for reading only"));
        }
        name::check(name).map_err(|reason| refuse(name, reason))?;
        Ok(self.root.join(name))
    }

    /// What a path is called in the store; an unfinished file as it is to be called.
    fn name_of(&self, path: &Path) -> String {
        let name = path.strip_prefix(&self.root).unwrap_or(path);
        let name = name.display().to_string();
        match name.split_once(name::TEMP_MARK) {
            Some((finished, _)) => finished.to_owned(),
            None if name.is_empty() => "the folder itself".to_owned(),
            None => name,
        }
    }

    fn handle(&self, name: &str) -> StoreResult<Arc<File>> {
        if let Some(file) = self.handles.get(name) {
            return Ok(file);
        }
        let path = self.path_to_read(name)?;
        let _names = self.names.read();
        let file = File::open(path).map_err(|error| read_failed(name, "open", &error))?;
        let file = Arc::new(file);
        self.handles.insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }

    fn read(&self, name: &str, range: Range<u64>) -> StoreResult<Bytes> {
        let file = self.handle(name)?;
        let too_short = || StoreError::TooShort {
            name: name.to_owned(),
            end: range.end,
        };
        let bytes = range.end.checked_sub(range.start).ok_or_else(too_short)?;
        if bytes == 0 || bytes > UNCHECKED_READ_BYTES_MAX {
            let metadata = file.metadata();
            let metadata = metadata.map_err(|error| read_failed(name, "stat", &error))?;
            if metadata.len() < range.end {
                return Err(too_short());
            }
        }
        let bytes = usize::try_from(bytes).map_err(|_| too_short())?;
        let mut buffer = vec![0; bytes];
        file.read_exact_at(&mut buffer, range.start)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => too_short(),
                _ => read_failed(name, "read", &error),
            })?;
        Ok(buffer.into())
    }

    fn delete(&self, name: &str) -> StoreResult<()> {
        let path = self.path_to_write(name)?;
        let _names = self.names.write();
        self.handles.remove(name);
        match self.disk.remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(refused(name, "delete", &error))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Store for LocalStore {
    async fn put_if_absent(&self, name: &str, bytes: Bytes) -> StoreResult<()> {
        let mut temp = TempFile::create(&self.0, name)?;
        temp.write(&bytes)?;
        temp.publish().map(drop)
    }

    async fn create(&self, name: &str) -> StoreResult<Box<dyn FileWriter>> {
        let temp = TempFile::create(&self.0, name)?;
        Ok(Box::new(LocalWriter::over(temp)))
    }

    async fn read(&self, name: &str, range: Range<u64>) -> StoreResult<Bytes> {
        self.0.read(name, range)
    }

    async fn len(&self, name: &str) -> StoreResult<u64> {
        let metadata = fs::metadata(self.0.path_to_read(name)?);
        let metadata = metadata.map_err(|error| read_failed(name, "stat", &error))?;
        Ok(metadata.len())
    }

    async fn list(&self, prefix: &str) -> StoreResult<Vec<(String, u64)>> {
        folder::list(&self.0.root, prefix).map_err(|error| read_failed(prefix, "list", &error))
    }

    async fn delete(&self, name: &str) -> StoreResult<()> {
        self.0.delete(name)
    }

    async fn create_log(
        &self,
        name: &str,
        bytes: u64,
        recycle: Option<&str>,
    ) -> StoreResult<Box<dyn LogFile>> {
        let log = match recycle {
            None => log::create(&self.0, name, bytes)?,
            Some(old) => log::recycle(&self.0, name, bytes, old)?,
        };
        Ok(Box::new(log))
    }

    async fn rename(&self, old: &str, new: &str) -> StoreResult<()> {
        let (source, target) = (self.0.path_to_write(old)?, self.0.path_to_write(new)?);
        let made = self.0.ensure_folder(write::folder_of(&target));
        made.map_err(|error| refused(new, "make folder", &error))?;
        match fs::symlink_metadata(&source) {
            Ok(_) => log::rename(&self.0, (old, &source), (new, &target)),
            Err(error) => Err(read_failed(old, "stat", &error)),
        }
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.0.root)
    }

    fn failed_sync(&self) -> Option<FailedSync> {
        let failed = self.0.disk.failed()?;
        Some(FailedSync {
            micros: failed.micros,
            name: self.0.name_of(&failed.path),
            reason: failed.reason.clone(),
        })
    }
}

/// That two folders are one, or the one lies in the other, if so.
fn how_they_meet(one: &Path, other: &Path) -> Option<String> {
    let (inner, outer) = match (one.starts_with(other), other.starts_with(one)) {
        (true, true) => {
            let (one, other) = (one.display(), other.display());
            return Some(format!("{one} and {other} are one folder"));
        }
        (true, false) => (one, other),
        (false, true) => (other, one),
        (false, false) => return None,
    };
    Some(format!("{} lies in {}", inner.display(), outer.display()))
}

fn refuse(name: &str, reason: &str) -> StoreError {
    StoreError::DefinitelyNot {
        name: name.to_owned(),
        reason: reason.to_owned(),
        full: false,
    }
}

/// The error of a step whose failure leaves nothing behind.
fn refused(name: &str, step: &str, error: &io::Error) -> StoreError {
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind());
    StoreError::DefinitelyNot {
        name: name.to_owned(),
        reason: format!("{step}: {error}"),
        full,
    }
}

/// The error of a step that may have taken effect.
fn doubtful(name: &str, step: &str, error: &io::Error) -> StoreError {
    StoreError::Maybe {
        name: name.to_owned(),
        reason: format!("{step}: {error}"),
    }
}

/// The error of a link or rename. Most say that nothing happened.
fn not_named(name: &str, step: &str, error: &io::Error) -> StoreError {
    use io::ErrorKind::{
        CrossesDevices, NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
        TooManyLinks, Unsupported,
    };
    match error.kind() {
        CrossesDevices | NotFound | PermissionDenied | QuotaExceeded | ReadOnlyFilesystem
        | StorageFull | TooManyLinks | Unsupported => refused(name, step, error),
        _ => doubtful(name, step, error),
    }
}

fn read_failed(name: &str, step: &str, error: &io::Error) -> StoreError {
    if error.kind() == io::ErrorKind::NotFound {
        return StoreError::NotFound(name.to_owned());
    }
    StoreError::Read {
        name: name.to_owned(),
        reason: format!("{step}: {error}"),
    }
}

#[cfg(test)]
mod tests;
