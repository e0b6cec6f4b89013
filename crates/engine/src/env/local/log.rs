//! Log files: their space is written with zeros and synced before the first frame, because a sync
//! that extends a file waits for the file system's journal, and one that overwrites does not. Nor
//! can it be lied to by the journal: ext4 whose journal was given up a moment ago has said that a
//! sync of bytes in new space went well, and they were gone (LOCAL-5).

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::disk::DiskFile;
use super::write::{TempFile, folder_of};
use super::{Shared, doubtful, not_named, refuse, refused};
use crate::env::name;
use crate::env::{LogFile, StoreError, StoreResult};

/// Zeros are written in pieces of this size.
const ZEROS_BYTES: usize = 1 << 20;

/// A log file and its one writer.
pub(super) struct LocalLog {
    name: String,
    file: DiskFile,
    bytes: u64,
    /// A sync of it failed: the system may have dropped what it could not write, and a second sync
    /// would not say so. Where space was missing no other file suffers from that (LOCAL-4).
    broken: bool,
    /// Keeps the folder's lock.
    _shared: Arc<Shared>,
}

impl LocalLog {
    fn over(shared: &Arc<Shared>, name: &str, file: DiskFile, bytes: u64) -> LocalLog {
        LocalLog {
            name: name.to_owned(),
            file,
            bytes,
            broken: false,
            _shared: Arc::clone(shared),
        }
    }
}

/// A new log file of zeros.
pub(super) fn create(shared: &Arc<Shared>, name: &str, bytes: u64) -> StoreResult<LocalLog> {
    name::check_log(name).map_err(|reason| refuse(name, reason))?;
    let mut temp = TempFile::create(shared, name)?;
    let zeros = zeros(bytes);
    let mut left = bytes;
    while left > 0 {
        let part = left.min(zeros.len() as u64);
        temp.write(&zeros[..part as usize])?;
        left -= part;
    }
    let file = temp.publish()?;
    Ok(LocalLog::over(shared, name, file, bytes))
}

/// The log file `old` under a new name. It keeps its bytes; frames tell by the identity in them
/// whether they belong.
pub(super) fn recycle(
    shared: &Arc<Shared>,
    name: &str,
    bytes: u64,
    old: &str,
) -> StoreResult<LocalLog> {
    name::check_log(name).map_err(|reason| refuse(name, reason))?;
    let source = shared.path_to_write(old)?;
    let target = shared.path_to_write(name)?;
    shared
        .ensure_folder(folder_of(&target))
        .map_err(|error| refused(name, "make folder", &error))?;
    let file = shared.disk.open_to_write(&source);
    let mut file = file.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StoreError::NotFound(old.to_owned()),
        _ => refused(old, "open", &error),
    })?;
    fit(&file, &source, bytes).map_err(|error| refused(name, "set length", &error))?;
    rename(shared, (old, &source), (name, &target))?;
    file.set_path(&target);
    Ok(LocalLog::over(shared, name, file, bytes))
}

/// Brings a file to a length, with real zeros where it grows, and where it has holes: a copy of a
/// folder may leave out what is zero.
fn fit(file: &DiskFile, source: &Path, bytes: u64) -> io::Result<()> {
    let mut length = file.length()?;
    let has_holes = file.has_holes()?;
    if length == bytes && !has_holes {
        return Ok(());
    }
    if length > bytes {
        file.set_len(bytes)?;
        length = bytes;
    }
    if has_holes {
        write_again(file, source, length)?;
    }
    let zeros = zeros(bytes - length);
    while length < bytes {
        let part = (bytes - length).min(zeros.len() as u64);
        file.write_all_at(&zeros[..part as usize], length)?;
        length += part;
    }
    file.sync_all()
}

/// Writes the bytes that a file has over themselves: then all of them have space.
fn write_again(file: &DiskFile, source: &Path, bytes: u64) -> io::Result<()> {
    let old = fs::File::open(source)?;
    let mut piece = zeros(bytes);
    let mut at = 0;
    while at < bytes {
        let part = (bytes - at).min(piece.len() as u64) as usize;
        old.read_exact_at(&mut piece[..part], at)?;
        file.write_all_at(&piece[..part], at)?;
        at += part as u64;
    }
    Ok(())
}

fn zeros(bytes: u64) -> Vec<u8> {
    vec![0; bytes.min(ZEROS_BYTES as u64) as usize]
}

/// Gives a file a name that no other file has, durably.
pub(super) fn rename(
    shared: &Shared,
    (old, source): (&str, &Path),
    (name, target): (&str, &Path),
) -> StoreResult<()> {
    let _names = shared.names.write();
    // Renaming replaces what is there. Looking first is enough: nobody else writes in this
    // folder (LOCAL-1), and no name is given to two logs at a time.
    if fs::symlink_metadata(target).is_ok() {
        // The caller goes on from what it finds there, and the folder may have had no room for that
        // name. If its sync failed otherwise, none is believed, and nothing is said to be there
        // (LOCAL-4).
        let synced = shared.disk.sync_folder(folder_of(target));
        synced.map_err(|error| doubtful(name, "sync folder", &error))?;
        return Err(StoreError::AlreadyExists(name.to_owned()));
    }
    let renamed = shared.disk.rename(source, target);
    renamed.map_err(|error| not_named(name, "rename", &error))?;
    shared.handles.remove(old);
    shared.handles.remove(name);
    let mut synced = shared.disk.sync_folder(folder_of(target));
    if folder_of(source) != folder_of(target) {
        synced = synced.and_then(|()| shared.disk.sync_folder(folder_of(source)));
    }
    synced.map_err(|error| doubtful(name, "sync folder", &error))
}

#[async_trait]
impl LogFile for LocalLog {
    async fn write_at(&mut self, offset: u64, bytes: &[u8]) -> StoreResult<()> {
        if self.broken {
            return Err(refuse(&self.name, "an earlier sync of it failed"));
        }
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(refuse(&self.name, "write beyond the end of the log file"));
        }
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|error| doubtful(&self.name, "write", &error))
    }

    async fn sync(&mut self) -> StoreResult<()> {
        if self.broken {
            return Err(StoreError::Maybe {
                name: self.name.clone(),
                reason: "an earlier sync of it failed".to_owned(),
            });
        }
        let synced = self.file.sync_data();
        self.broken = synced.is_err();
        synced.map_err(|error| doubtful(&self.name, "sync", &error))
    }

    async fn cut(self: Box<Self>, bytes: u64) -> StoreResult<()> {
        if self.broken {
            return Err(refuse(&self.name, "an earlier sync of it failed"));
        }
        if bytes > self.bytes {
            return Err(refuse(&self.name, "cut beyond the end of the log file"));
        }
        let cut = self.file.set_len(bytes);
        let cut = cut.and_then(|()| self.file.sync_all());
        cut.map_err(|error| doubtful(&self.name, "cut", &error))
    }
}
