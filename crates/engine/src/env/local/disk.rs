//! The system calls by which the store changes what must last in its folder. They are made here
//! alone, so that a record can have all of them, in the order in which they took effect.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the production store of `Env`"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::record::{DiskRecord, Step};

/// Makes the calls, and has them noted where somebody asked for it.
#[derive(Clone, Default)]
pub(super) struct Disk {
    record: Option<DiskRecord>,
}

impl Disk {
    pub(super) fn recorded(record: DiskRecord) -> Disk {
        Disk {
            record: Some(record),
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
        self.call(
            || File::open(path)?.sync_all(),
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
            number,
            disk: self.clone(),
        })
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

/// An open file.
pub(super) struct DiskFile {
    file: File,
    /// What it is called in the record.
    number: u64,
    disk: Disk,
}

impl DiskFile {
    pub(super) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
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
        self.disk
            .call(|| self.file.sync_data(), |_| Some(Step::SyncFile { file }))
    }

    /// Makes the bytes durable, and all that is known of the file.
    pub(super) fn sync_all(&self) -> io::Result<()> {
        let file = self.number;
        self.disk
            .call(|| self.file.sync_all(), |_| Some(Step::SyncFile { file }))
    }

    fn written(&self, offset: u64, bytes: &[u8]) -> Step {
        Step::Write {
            file: self.number,
            offset,
            bytes: bytes.to_vec().into(),
        }
    }
}
