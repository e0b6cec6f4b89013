//! New files: written under a temporary name, synced, linked to their own name.
//!
//! Until the link nothing shows, so that every failure before it means "did not happen".

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;

use super::disk::DiskFile;
use super::{Shared, doubtful, not_named, refuse, refused};
use crate::env::name::TEMP_MARK;
use crate::env::{FileWriter, StoreError, StoreResult};

/// Small writes are gathered up to this.
const BUFFER_BYTES: usize = 1 << 20;

/// So much is written before it is sent to the device, so that a large segment does not leave one
/// long burst for the end, with the log's syncs waiting behind it.
const WRITE_BACK_BYTES: usize = 16 << 20;

/// A file under a temporary name, which goes when this is dropped.
pub(super) struct TempFile {
    shared: Arc<Shared>,
    name: String,
    target: PathBuf,
    path: PathBuf,
    /// None once published.
    file: Option<DiskFile>,
}

impl TempFile {
    pub(super) fn create(shared: &Arc<Shared>, name: &str) -> StoreResult<TempFile> {
        let target = shared.path_to_write(name)?;
        shared
            .ensure_folder(folder_of(&target))
            .map_err(|error| refused(name, "make folder", &error))?;
        let number = shared.temp_count.fetch_add(1, Ordering::Relaxed);
        let path = format!("{name}{TEMP_MARK}{}-{number}", std::process::id());
        let path = shared.root.join(path);
        let file = shared.disk.create_new(&path);
        let file = file.map_err(|error| refused(name, "create", &error))?;
        Ok(TempFile {
            shared: Arc::clone(shared),
            name: name.to_owned(),
            target,
            path,
            file: Some(file),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> StoreResult<()> {
        let written = self.file().write_all(bytes);
        written.map_err(|error| refused(&self.name, "write", &error))
    }

    /// Sends what was written to the device.
    pub(super) fn sync(&self) -> StoreResult<()> {
        let synced = self.file().sync_data();
        synced.map_err(|error| refused(&self.name, "sync", &error))
    }

    /// Gives the file its name, durably, unless the name is taken.
    pub(super) fn publish(mut self) -> StoreResult<DiskFile> {
        self.sync()?;
        let linked = self.shared.disk.hard_link(&self.path, &self.target);
        let file = self.file.take().expect("a file is published once");
        let (shared, name) = (Arc::clone(&self.shared), self.name.clone());
        let target = self.target.clone();
        // The temporary name goes first: one sync of the folder serves both.
        drop(self);
        let found = match linked {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => true,
            Err(error) => return Err(not_named(&name, "link", &error)),
        };
        // Where the name was taken too: the caller goes on from what it finds there. That may be
        // a link that another writer is about to sync, or one for which the folder had no room. If
        // its sync failed otherwise, none is believed, and nothing is said to be there (LOCAL-4).
        let synced = shared.disk.sync_folder(folder_of(&target));
        synced.map_err(|error| doubtful(&name, "sync folder", &error))?;
        if found {
            return Err(StoreError::AlreadyExists(name));
        }
        // Nobody can have read the new file; an older one of its name may have been.
        shared.handles.remove(&name);
        Ok(file)
    }

    fn file(&self) -> &DiskFile {
        self.file.as_ref().expect("publishing consumes the file")
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // What stays goes when the folder is opened.
        let _ = self.shared.disk.remove_file(&self.path);
    }
}

/// The folder that holds a file of the store.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().expect("a path below the root has a parent")
}

impl Shared {
    /// Makes a folder below the root, and its entry in each folder above it durable.
    pub(super) fn ensure_folder(&self, folder: &Path) -> io::Result<()> {
        let mut known = self.durable_folders.lock();
        if known.contains(folder) {
            return Ok(());
        }
        self.disk.create_dir_all(folder)?;
        for above in folder.ancestors().skip(1) {
            if !above.starts_with(&self.root) {
                break;
            }
            self.disk.sync_folder(above)?;
        }
        known.insert(folder.to_owned());
        Ok(())
    }
}

/// A segment that is being written.
pub(super) struct LocalWriter {
    temp: TempFile,
    buffer: Vec<u8>,
    unsynced_bytes: usize,
    failed: bool,
}

impl LocalWriter {
    pub(super) fn over(temp: TempFile) -> LocalWriter {
        LocalWriter {
            temp,
            buffer: Vec::new(),
            unsynced_bytes: 0,
            failed: false,
        }
    }

    fn append(&mut self, bytes: &[u8]) -> StoreResult<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            self.send(bytes)
        } else {
            self.buffer.extend_from_slice(bytes);
            Ok(())
        }
    }

    fn flush(&mut self) -> StoreResult<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let sent = self.send(&buffer);
        self.buffer = buffer;
        self.buffer.clear();
        sent
    }

    fn send(&mut self, bytes: &[u8]) -> StoreResult<()> {
        for part in bytes.chunks(WRITE_BACK_BYTES) {
            self.temp.write(part)?;
            self.unsynced_bytes += part.len();
            if self.unsynced_bytes >= WRITE_BACK_BYTES {
                self.temp.sync()?;
                self.unsynced_bytes = 0;
            }
        }
        Ok(())
    }

    /// After an error the file has a hole: it must never get its name.
    fn check_whole(&self) -> StoreResult<()> {
        if self.failed {
            return Err(refuse(&self.temp.name, "an earlier write of it failed"));
        }
        Ok(())
    }
}

#[async_trait]
impl FileWriter for LocalWriter {
    async fn write(&mut self, bytes: Bytes) -> StoreResult<()> {
        self.check_whole()?;
        let appended = self.append(&bytes);
        self.failed = appended.is_err();
        appended
    }

    async fn finish(mut self: Box<Self>) -> StoreResult<()> {
        self.check_whole()?;
        self.flush()?;
        self.temp.publish().map(drop)
    }
}
