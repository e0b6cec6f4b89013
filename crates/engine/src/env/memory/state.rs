//! What a store in memory holds, the operations that change it, and what a power cut leaves.
//!
//! Applying the same operations to the same state gives the same state.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use super::Unsynced;
use crate::env::Random;
use crate::env::manual::SeededRandom;

/// The least that a disk writes whole.
const SECTOR_BYTES: usize = 512;

/// A change of the store.
pub(super) enum Operation {
    Put {
        name: String,
        bytes: Bytes,
    },
    CreateLog {
        name: String,
        bytes: u64,
        recycle: Option<String>,
    },
    WriteLog {
        log: u64,
        offset: u64,
        bytes: Bytes,
    },
    SyncLog {
        log: u64,
    },
    CutLog {
        log: u64,
        bytes: u64,
    },
    Delete {
        name: String,
    },
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Put { name, bytes } => write!(f, "put {name}: {} bytes", bytes.len()),
            Operation::CreateLog {
                name,
                bytes,
                recycle: None,
            } => {
                write!(f, "create log {name}: {bytes} bytes")
            }
            Operation::CreateLog {
                name,
                bytes,
                recycle: Some(old),
            } => {
                write!(f, "create log {name}: {bytes} bytes, from {old}")
            }
            Operation::WriteLog { log, offset, bytes } => {
                write!(f, "write log #{log}: {} bytes at {offset}", bytes.len())
            }
            Operation::SyncLog { log } => write!(f, "sync log #{log}"),
            Operation::CutLog { log, bytes } => write!(f, "cut log #{log} to {bytes} bytes"),
            Operation::Delete { name } => write!(f, "delete {name}"),
        }
    }
}

#[derive(Clone)]
enum File {
    Whole(Bytes),
    /// The number of a log.
    Log(u64),
}

/// A log's bytes as they are read, and how to take back what was not synced.
#[derive(Clone, Default)]
struct Log {
    /// Up to where anything was ever written. Behind that are zeros, of which no copy is made with
    /// each image of the store: a log file is mostly those.
    bytes: Vec<u8>,
    len: usize,
    unsynced: Vec<Write>,
}

#[derive(Clone)]
struct Write {
    offset: usize,
    old: Bytes,
    new: Bytes,
}

/// All files.
#[derive(Clone, Default)]
pub(super) struct State {
    files: BTreeMap<String, File>,
    logs: BTreeMap<u64, Log>,
    logs_created: u64,
    /// Removals that are not yet durable, in order.
    removed: Vec<(String, File)>,
}

impl State {
    pub(super) fn count(&self) -> usize {
        self.files.len()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// The number of the log of that name.
    pub(super) fn log(&self, name: &str) -> Option<u64> {
        match self.files.get(name)? {
            File::Log(log) => Some(*log),
            File::Whole(_) => None,
        }
    }

    pub(super) fn len(&self, name: &str) -> Option<u64> {
        self.files.get(name).map(|file| self.file_len(file))
    }

    pub(super) fn list(&self, prefix: &str) -> Vec<(String, u64)> {
        let from = self.files.range(prefix.to_owned()..);
        from.take_while(|(name, _)| name.starts_with(prefix))
            .map(|(name, file)| (name.clone(), self.file_len(file)))
            .collect()
    }

    /// Reads a range that is inside the file.
    pub(super) fn read(&self, name: &str, range: Range<u64>) -> Bytes {
        let range = range.start as usize..range.end as usize;
        match &self.files[name] {
            File::Whole(bytes) => bytes.slice(range),
            File::Log(log) => self.logs[log].read(range),
        }
    }

    pub(super) fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Put { name, bytes } => {
                self.files.insert(name.clone(), File::Whole(bytes.clone()));
                self.sync_folder(name);
            }
            Operation::CreateLog {
                name,
                bytes,
                recycle,
            } => {
                self.create_log(name, *bytes as usize, recycle.as_deref());
            }
            Operation::WriteLog { log, offset, bytes } => {
                // A log that was removed for good swallows what its writer still sends.
                if let Some(log) = self.logs.get_mut(log) {
                    log.write(*offset as usize, bytes);
                }
            }
            Operation::SyncLog { log } => {
                if let Some(log) = self.logs.get_mut(log) {
                    log.unsynced.clear();
                }
            }
            Operation::CutLog { log, bytes } => {
                if let Some(log) = self.logs.get_mut(log) {
                    log.unsynced.clear();
                    log.fit(log.len.min(*bytes as usize));
                }
            }
            Operation::Delete { name } => {
                if let Some(file) = self.files.remove(name) {
                    self.removed.push((name.clone(), file));
                }
            }
        }
    }

    /// What is left after a power cut.
    pub(super) fn crash(&mut self, unsynced: Unsynced) {
        let random = SeededRandom::new(match unsynced {
            Unsynced::Prefix(seed) | Unsynced::Scattered(seed) => seed,
            Unsynced::Nothing | Unsynced::Everything => 0,
        });
        let removed = std::mem::take(&mut self.removed);
        let gone_first = below(&random, removed.len() + 1);
        for (index, (name, file)) in removed.into_iter().enumerate() {
            let gone = match unsynced {
                Unsynced::Nothing => false,
                Unsynced::Everything => true,
                Unsynced::Prefix(_) => index < gone_first,
                Unsynced::Scattered(_) => below(&random, 2) == 0,
            };
            if !gone {
                self.files.insert(name, file);
            }
        }
        for log in self.logs.values_mut() {
            log.crash(unsynced, &random);
        }
        self.forget_nameless_logs();
    }

    fn file_len(&self, file: &File) -> u64 {
        match file {
            File::Whole(bytes) => bytes.len() as u64,
            File::Log(log) => self.logs[log].len as u64,
        }
    }

    fn create_log(&mut self, name: &str, bytes: usize, recycle: Option<&str>) {
        let log = match recycle.and_then(|old| self.log(old)) {
            Some(log) => log,
            None => {
                self.logs_created += 1;
                self.logs.insert(self.logs_created, Log::default());
                self.logs_created
            }
        };
        if let Some(contents) = self.logs.get_mut(&log)
            && contents.len != bytes
        {
            // A file whose length is changed is synced before it is renamed.
            contents.unsynced.clear();
            contents.fit(bytes);
        }
        // The log keeps a name throughout, else making a removal durable would forget it.
        self.files.insert(name.to_owned(), File::Log(log));
        if let Some(old) = recycle {
            self.files.remove(old);
            self.sync_folder(old);
        }
        self.sync_folder(name);
    }

    /// Makes the removals in the folder of `name` durable.
    fn sync_folder(&mut self, name: &str) {
        let folder = folder_of(name);
        let before = self.removed.len();
        self.removed.retain(|(name, _)| folder_of(name) != folder);
        if self.removed.len() < before {
            self.forget_nameless_logs();
        }
    }

    fn forget_nameless_logs(&mut self) {
        let named = self
            .files
            .values()
            .chain(self.removed.iter().map(|(_, file)| file));
        let named: Vec<u64> = named
            .filter_map(|file| match file {
                File::Log(log) => Some(*log),
                File::Whole(_) => None,
            })
            .collect();
        self.logs.retain(|log, _| named.contains(log));
    }
}

impl Log {
    /// Reads a range that is inside the log.
    fn read(&self, range: Range<usize>) -> Bytes {
        let written = range.start.min(self.bytes.len())..range.end.min(self.bytes.len());
        let mut bytes = self.bytes[written].to_vec();
        bytes.resize(range.len(), 0);
        bytes.into()
    }

    /// Brings the log to a length, with zeros where it grows.
    fn fit(&mut self, len: usize) {
        self.bytes.truncate(len);
        self.len = len;
    }

    fn write(&mut self, offset: usize, new: &Bytes) {
        let end = offset + new.len();
        // A recycled log may be shorter than its former writer believes.
        if end > self.len {
            return;
        }
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        let old = Bytes::copy_from_slice(&self.bytes[offset..end]);
        self.set(offset, new);
        let new = new.clone();
        self.unsynced.push(Write { offset, old, new });
    }

    fn crash(&mut self, unsynced: Unsynced, random: &SeededRandom) {
        let writes = std::mem::take(&mut self.unsynced);
        if unsynced == Unsynced::Everything {
            return;
        }
        for write in writes.iter().rev() {
            self.set(write.offset, &write.old);
        }
        match unsynced {
            Unsynced::Nothing | Unsynced::Everything => {}
            Unsynced::Prefix(_) => {
                let whole = below(random, writes.len() + 1);
                for write in &writes[..whole] {
                    self.set(write.offset, &write.new);
                }
                if let Some(torn) = writes.get(whole) {
                    let bytes = below(random, torn.new.len() + 1);
                    self.set(torn.offset, &torn.new[..bytes]);
                }
            }
            Unsynced::Scattered(_) => {
                for write in &writes {
                    self.set_some_sectors(write, random);
                }
            }
        }
    }

    fn set(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn set_some_sectors(&mut self, write: &Write, random: &SeededRandom) {
        let mut from = 0;
        while from < write.new.len() {
            let into_sector = (write.offset + from) % SECTOR_BYTES;
            let to = (from + SECTOR_BYTES - into_sector).min(write.new.len());
            if below(random, 2) == 0 {
                self.set(write.offset + from, &write.new[from..to]);
            }
            from = to;
        }
    }
}

fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A number in `0..limit`.
fn below(random: &SeededRandom, limit: usize) -> usize {
    (random.next_u64() % limit as u64) as usize
}
