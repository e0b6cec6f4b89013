//! A record of the calls by which stores change what is below a folder, and what a power cut after
//! any of them could leave there. It shows that what must last was synced in time, which a process
//! that is killed does not: the system keeps all that it was given.

mod replay;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

pub use replay::{DiskImage, DiskReplay};

/// The calls of some stores, one after the other. Clones are the same record.
#[derive(Clone)]
pub struct DiskRecord(Arc<Shared>);

struct Shared {
    base: PathBuf,
    files: AtomicU64,
    steps: Mutex<Vec<Step>>,
    refusals: Mutex<Vec<Refusal>>,
}

/// A sync that is to fail.
struct Refusal {
    kind: io::ErrorKind,
    is_meant: Box<dyn Fn(&str) -> bool + Send>,
}

/// What a call did; a name is a path below the base of the record, and a file's number stands for
/// it while it is open.
#[derive(Clone)]
pub(super) enum Step {
    MakeFolders {
        folder: String,
    },
    Create {
        name: String,
        file: u64,
    },
    Open {
        name: String,
        file: u64,
    },
    Write {
        file: u64,
        offset: u64,
        bytes: Bytes,
    },
    SetLength {
        file: u64,
        bytes: u64,
    },
    SyncFile {
        file: u64,
    },
    Link {
        name: String,
        other: String,
    },
    Rename {
        old: String,
        new: String,
    },
    Remove {
        name: String,
    },
    SyncFolder {
        folder: String,
    },
    /// A sync that was left out.
    Nothing,
}

impl DiskRecord {
    /// An empty record of what is below `base`: a folder without anything in it that is recorded,
    /// by its path without links.
    pub fn below(base: &Path) -> DiskRecord {
        Self::of(base, 0, Vec::new())
    }

    /// How many calls were made.
    pub fn calls(&self) -> usize {
        self.0.steps.lock().len()
    }

    /// What each call did, in words.
    pub fn describe(&self) -> Vec<String> {
        let steps = self.0.steps.lock();
        let mut names = BTreeMap::new();
        let texts = steps.iter().map(|step| {
            if let Step::Create { name, file } | Step::Open { name, file } = step {
                names.insert(*file, name.as_str());
            }
            let name = step.file().and_then(|file| names.get(&file));
            step.describe(name.copied().unwrap_or_default())
        });
        texts.collect()
    }

    /// The record as it would be if some syncs, chosen by number (from 1 on) and description, were
    /// not made.
    pub fn without(&self, is_left_out: impl Fn(usize, &str) -> bool) -> DiskRecord {
        let texts = self.describe();
        let mut steps = self.0.steps.lock().clone();
        for (index, (step, text)) in steps.iter_mut().zip(&texts).enumerate() {
            let is_sync = matches!(step, Step::SyncFile { .. } | Step::SyncFolder { .. });
            if is_sync && is_left_out(index + 1, text) {
                *step = Step::Nothing;
            }
        }
        Self::of(&self.0.base, self.0.files.load(Ordering::Relaxed), steps)
    }

    /// Has the next sync fail of a file or folder, chosen by its path below the base, as the system
    /// may: what it was to keep stays unsynced.
    pub fn refuse_sync(
        &self,
        kind: io::ErrorKind,
        is_meant: impl Fn(&str) -> bool + Send + 'static,
    ) {
        let is_meant = Box::new(is_meant);
        self.0.refusals.lock().push(Refusal { kind, is_meant });
    }

    /// Whether a sync is to fail that was not made yet.
    pub fn is_refusing(&self) -> bool {
        !self.0.refusals.lock().is_empty()
    }

    /// The disk before the first call.
    pub fn replay(&self) -> DiskReplay {
        DiskReplay::of(self.0.steps.lock().clone())
    }

    fn of(base: &Path, files: u64, steps: Vec<Step>) -> DiskRecord {
        DiskRecord(Arc::new(Shared {
            base: base.to_owned(),
            files: AtomicU64::new(files),
            steps: Mutex::new(steps),
            refusals: Mutex::default(),
        }))
    }

    /// How the sync of a file or folder is to fail, if it is.
    pub(super) fn refusal(&self, path: &Path) -> Option<io::Error> {
        let name = self.name(path)?;
        let mut refusals = self.0.refusals.lock();
        let meant = refusals.iter().position(|one| (one.is_meant)(&name));
        Some(refusals.remove(meant?).kind.into())
    }

    /// The path below the base; nothing for one that is elsewhere.
    pub(super) fn name(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(&self.0.base).ok()?;
        Some(name.to_str()?.to_owned())
    }

    /// A number for a file that is opened.
    pub(super) fn next_file(&self) -> u64 {
        self.0.files.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a call while no other one is made, and notes its step if it took effect.
    pub(super) fn note<T>(
        &self,
        call: impl FnOnce() -> io::Result<T>,
        step: impl FnOnce(&DiskRecord) -> Option<Step>,
    ) -> io::Result<T> {
        let mut steps = self.0.steps.lock();
        let done = call()?;
        steps.extend(step(self));
        Ok(done)
    }
}

impl Step {
    /// The number of the file that it is about, where it has one.
    fn file(&self) -> Option<u64> {
        match self {
            Step::Create { file, .. }
            | Step::Open { file, .. }
            | Step::Write { file, .. }
            | Step::SetLength { file, .. }
            | Step::SyncFile { file } => Some(*file),
            _ => None,
        }
    }

    /// What it did, to the file of that name.
    fn describe(&self, file: &str) -> String {
        match self {
            Step::MakeFolders { folder } => format!("make folder {folder}"),
            Step::Create { .. } => format!("create {file}"),
            Step::Open { .. } => format!("open {file}"),
            Step::Write { offset, bytes, .. } => {
                format!("write {} bytes at {offset} of {file}", bytes.len())
            }
            Step::SetLength { bytes, .. } => format!("bring {file} to {bytes} bytes"),
            Step::SyncFile { .. } => format!("sync file {file}"),
            Step::Link { name, other } => format!("link {name} to {other}"),
            Step::Rename { old, new } => format!("rename {old} to {new}"),
            Step::Remove { name } => format!("remove {name}"),
            Step::SyncFolder { folder } => format!("sync folder {folder}"),
            Step::Nothing => "nothing".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
