//! The system calls by which the store changes what must last in its folder. They are made here
//! alone, so that a record can have all of them, in the order in which they took effect.
//!
//! A sync that fails is the last one that is believed (LOCAL-4): the system may have dropped what
//! it could not write, and says of the next sync that all went well. Linux does so of a folder on
//! ext4 whose journal was given up: the names that it was to keep are gone, and the next sync of it
//! succeeds.
//!
//! Where space was missing, syncs of others are believed. Names that a folder has no room for stay
//! in memory, and the next sync of it keeps them. Of a file no later sync tells what became of its
//! bytes; nobody asks: a new one never gets its name, and a log is not used again (LOG-4).

#![expect(
    clippy::disallowed_methods,
    reason = "this is the production store of `Env`"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::record::{DiskRecord, Step};
use crate::env::system::wall_micros;

/// The unit in which the system counts a file's space, whatever its file system's blocks are.
const BLOCK_BYTES: u64 = 512;

/// Makes the calls, and has them noted where somebody asked for it.
#[derive(Clone, Default)]
pub(super) struct Disk {
    record: Option<DiskRecord>,
    /// The first sync that failed and may have lost something.
    failed: Arc<OnceLock<Failed>>,
}

/// A sync that failed.
#[derive(Debug)]
pub(super) struct Failed {
    /// When, in microseconds since 1970.
    pub(super) micros: i64,
    /// The file or folder.
    pub(super) path: PathBuf,
    /// What the system said.
    pub(super) reason: String,
}

impl Disk {
    pub(super) fn recorded(record: DiskRecord) -> Disk {
        Disk {
            record: Some(record),
            ..Disk::default()
        }
    }

    /// A new file, to be written.
    pub(super) fn create_new(&self, path: &Path) -> io::Result<DiskFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let step = |name, file| Step::Create { name, file };
        self.open(path, &options, step)
    }

    /// A file that is there, to be written.
    pub(super) fn open_to_write(&self, path: &Path) -> io::Result<DiskFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        self.open(path, &options, |name, file| Step::Open { name, file })
    }

    /// A file that is there, to be made durable and no more.
    pub(super) fn open_to_sync(&self, path: &Path) -> io::Result<DiskFile> {
        let mut options = OpenOptions::new();
        options.read(true);
        self.open(path, &options, |name, file| Step::Open { name, file })
    }

    /// Gives a file a second name, which must be free.
    pub(super) fn hard_link(&self, name: &Path, other: &Path) -> io::Result<()> {
        self.call(
            || fs::hard_link(name, other),
            |record| {
                let (name, other) = (record.name(name)?, record.name(other)?);
                Some(Step::Link { name, other })
            },
        )
    }

    pub(super) fn rename(&self, old: &Path, new: &Path) -> io::Result<()> {
        self.call(
            || fs::rename(old, new),
            |record| {
                let (old, new) = (record.name(old)?, record.name(new)?);
                Some(Step::Rename { old, new })
            },
        )
    }

    pub(super) fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.call(
            || fs::remove_file(path),
            |record| {
                let name = record.name(path)?;
                Some(Step::Remove { name })
            },
        )
    }

    pub(super) fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.call(
            || fs::create_dir_all(path),
            |record| {
                let folder = record.name(path)?;
                Some(Step::MakeFolders { folder })
            },
        )
    }

    /// Makes the entries of a folder durable.
    pub(super) fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let folder = File::open(path)?;
        self.sync(
            path,
            || folder.sync_all(),
            |record| {
                let folder = record.name(path)?;
                Some(Step::SyncFolder { folder })
            },
        )
    }

    fn open(
        &self,
        path: &Path,
        options: &OpenOptions,
        step: impl FnOnce(String, u64) -> Step,
    ) -> io::Result<DiskFile> {
        let number = self.record.as_ref().map_or(0, DiskRecord::next_file);
        let opened = self.call(
            || options.open(path),
            |record| Some(step(record.name(path)?, number)),
        );
        Ok(DiskFile {
            file: opened?,
            path: path.to_owned(),
            number,
            disk: self.clone(),
        })
    }

    /// The sync that failed and after which none is believed, if there was one.
    pub(super) fn failed(&self) -> Option<&Failed> {
        self.failed.get()
    }

    /// Syncs, unless an earlier sync failed; nor is one believed during which another one failed.
    fn sync(
        &self,
        path: &Path,
        sync: impl FnOnce() -> io::Result<()>,
        step: impl FnOnce(&DiskRecord) -> Option<Step>,
    ) -> io::Result<()> {
        self.believed()?;
        let refusal = self.record.as_ref().and_then(|record| record.refusal(path));
        let synced = match refusal {
            Some(refusal) => Err(refusal),
            None => self.call(sync, step),
        };
        if let Err(error) = &synced
            && may_have_lost(error)
        {
            // Of those that fail at a time any one tells the reason.
            let _ = self.failed.set(Failed {
                micros: wall_micros(),
                path: path.to_owned(),
                reason: error.to_string(),
            });
        }
        synced?;
        self.believed()
    }

    fn believed(&self) -> io::Result<()> {
        match self.failed() {
            None => Ok(()),
            Some(Failed { reason, .. }) => Err(io::Error::other(format!(
                "an earlier sync failed ({reason}), so that none is believed until the database \
                 is opened again"
            ))),
        }
    }

    fn call<T>(
        &self,
        call: impl FnOnce() -> io::Result<T>,
        step: impl FnOnce(&DiskRecord) -> Option<Step>,
    ) -> io::Result<T> {
        match &self.record {
            None => call(),
            Some(record) => record.note(call, step),
        }
    }
}

/// Whether the system may have dropped what others count on. What can't be synced at all, or was
/// interrupted, loses nothing by it.
fn may_have_lost(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::Unsupported
            | io::ErrorKind::Interrupted
    )
}

/// An open file.
pub(super) struct DiskFile {
    file: File,
    /// Where it is.
    path: PathBuf,
    /// What it is called in the record.
    number: u64,
    disk: Disk,
}

impl DiskFile {
    pub(super) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Whether some of its bytes have no space of their own yet.
    pub(super) fn has_holes(&self) -> io::Result<bool> {
        let metadata = self.file.metadata()?;
        Ok(metadata.blocks() * BLOCK_BYTES < metadata.len())
    }

    /// It has another name now.
    pub(super) fn set_path(&mut self, path: &Path) {
        path.clone_into(&mut self.path);
    }

    /// Appends to what was written before.
    pub(super) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        self.disk.call(
            || (&self.file).write_all(bytes),
            |_| {
                let end = (&self.file).stream_position().ok()?;
                Some(self.written(end - bytes.len() as u64, bytes))
            },
        )
    }

    pub(super) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.call(
            || self.file.write_all_at(bytes, offset),
            |_| Some(self.written(offset, bytes)),
        )
    }

    pub(super) fn set_len(&self, bytes: u64) -> io::Result<()> {
        let file = self.number;
        self.disk.call(
            || self.file.set_len(bytes),
            |_| Some(Step::SetLength { file, bytes }),
        )
    }

    /// Makes the bytes durable, and what is needed to find them.
    pub(super) fn sync_data(&self) -> io::Result<()> {
        let file = self.number;
        self.disk.sync(
            &self.path,
            || self.file.sync_data(),
            |_| Some(Step::SyncFile { file }),
        )
    }

    /// Makes the bytes durable, and all that is known of the file.
    pub(super) fn sync_all(&self) -> io::Result<()> {
        let file = self.number;
        self.disk.sync(
            &self.path,
            || self.file.sync_all(),
            |_| Some(Step::SyncFile { file }),
        )
    }

    fn written(&self, offset: u64, bytes: &[u8]) -> Step {
        Step::Write {
            file: self.number,
            offset,
            bytes: bytes.to_vec().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Syncs that end so, one after the other; whether each was believed.
    fn believed(ends: &[Option<io::ErrorKind>]) -> Vec<bool> {
        let disk = Disk::default();
        let one = |end: &Option<io::ErrorKind>| {
            let synced = || end.map_or(Ok(()), |kind| Err(kind.into()));
            disk.clone().sync(Path::new("a"), synced, |_| None).is_ok()
        };
        ends.iter().map(one).collect()
    }

    #[test]
    fn no_sync_is_believed_after_one_that_failed() {
        let refused = Some(io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(
            believed(&[None, refused, None, None]),
            [true, false, false, false]
        );
    }

    #[test]
    fn syncs_go_on_once_there_is_room_again() {
        let full = Some(io::ErrorKind::StorageFull);
        assert_eq!(believed(&[full, None]), [false, true]);
    }

    /// One that ends well while another one fails may have been told so wrongly.
    #[test]
    fn a_sync_during_which_another_one_fails_is_not_believed() {
        let disk = Disk::default();
        let other = || {
            let gone = || Err(io::Error::other("gone"));
            assert!(disk.sync(Path::new("b"), gone, |_| None).is_err());
            Ok(())
        };
        assert!(disk.sync(Path::new("a"), other, |_| None).is_err());
        let failed = disk.failed().unwrap();
        assert_eq!((&*failed.path, &*failed.reason), (Path::new("b"), "gone"));
    }
}
