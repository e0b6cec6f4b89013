//! Files that could not be read as they were written: what every later choice of sources avoids.
//!
//! ```text
//!   any read that meets damage --note--> Damaged --files--> sources (freshness, paths)
//!                                                \-------> coordinator: verify again, heal
//! ```
//!
//! No I/O. Invariant DMG-1: a file that is noted is read by no snapshot taken, and no retry begun,
//! after it, until it was read back in full and found whole, or was made again. A file that is
//! condemned holds wrong rows under right checksums: reading it back proves nothing. A file that is
//! noted again after it was found whole is a new suspicion: nothing known of it before counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lazybase_model::{Error, ErrorKind};
use parking_lot::RwLock;

/// Files by name, each with what was seen of the damage.
pub type DamagedFiles = BTreeMap<String, Error>;

/// The files of one process that are not to be trusted. Clones are the same set.
#[derive(Debug, Clone, Default)]
pub struct Damaged(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Rises with every change of the set; 0 while nothing was ever noted.
    version: AtomicU64,
    files: RwLock<Arc<DamagedFiles>>,
    /// Those of the files that are whole and wrong. Changed under the lock of `files`.
    condemned: RwLock<BTreeSet<String>>,
    /// Those that were read back in full and are damaged, and when that was, in microseconds of the
    /// database's clock. Changed under the lock of `files`.
    confirmed: RwLock<BTreeMap<String, i64>>,
}

impl Damaged {
    /// Rises with every change of the set.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// The set and its version, as they belong together.
    pub fn files(&self) -> (u64, Arc<DamagedFiles>) {
        let files = self.0.files.read();
        (self.version(), Arc::clone(&files))
    }

    /// Remembers the file that an error names as damaged, if it names one. The first error stays,
    /// but for one by which the disk refused a read: that the bytes are wrong says more.
    pub fn note(&self, error: &Error) {
        if let Some(file) = error.damaged_file() {
            self.change(|files| note_in(files, file, error));
        }
    }

    /// Remembers the file that an error names as one that holds wrong rows, whatever its
    /// checksums say.
    pub fn condemn(&self, error: &Error) {
        if let Some(file) = error.damaged_file() {
            self.change(|files| {
                self.0.condemned.write().insert(file.to_owned());
                files.insert(file.to_owned(), error.clone());
                true
            });
        }
    }

    /// Remembers the file that an error names as one that was read back in full at this time, in
    /// microseconds of the database's clock, and is damaged. Of one that was found whole meanwhile,
    /// by whoever read it later, this is a new suspicion.
    pub fn confirm(&self, error: &Error, at_micros: i64) {
        if let Some(file) = error.damaged_file() {
            self.change(|files| {
                if files.contains_key(file) {
                    let mut confirmed = self.0.confirmed.write();
                    confirmed.insert(file.to_owned(), at_micros);
                }
                note_in(files, file, error)
            });
        }
    }

    /// When a file was read back in full and found damaged, in microseconds of the database's
    /// clock, if that was since it was last noted.
    pub fn confirmed_at(&self, file: &str) -> Option<i64> {
        self.0.confirmed.read().get(file).copied()
    }

    /// A file that was found damaged long ago is a suspicion again: somebody may have restored it.
    pub fn doubt(&self, file: &str) {
        let _files = self.0.files.write();
        self.0.confirmed.write().remove(file);
    }

    /// Whether a file holds wrong rows under right checksums.
    pub fn is_condemned(&self, file: &str) -> bool {
        self.0.condemned.read().contains(file)
    }

    /// Forgets files that were read back in full and are whole after all. Those that are condemned
    /// stay: their bytes were never in doubt.
    pub fn found_whole<'f>(&self, names: impl IntoIterator<Item = &'f str>) {
        self.change(|files| {
            let condemned = self.0.condemned.read();
            let mut confirmed = self.0.confirmed.write();
            let mut known = 0;
            for name in names.into_iter().filter(|name| !condemned.contains(*name)) {
                confirmed.remove(name);
                known += usize::from(files.remove(name).is_some());
            }
            known > 0
        });
    }

    /// Forgets files that nothing names any more.
    pub fn forget<'f>(&self, names: impl IntoIterator<Item = &'f str>) {
        self.change(|files| {
            let mut condemned = self.0.condemned.write();
            let mut confirmed = self.0.confirmed.write();
            let mut known = 0;
            for name in names {
                condemned.remove(name);
                confirmed.remove(name);
                known += usize::from(files.remove(name).is_some());
            }
            known > 0
        });
    }

    fn change(&self, change: impl FnOnce(&mut DamagedFiles) -> bool) {
        let mut files = self.0.files.write();
        let mut next = files.as_ref().clone();
        if change(&mut next) {
            *files = Arc::new(next);
            self.0.version.fetch_add(1, Ordering::Release);
        }
    }
}

/// Notes what an error says of a file; whether that says more than what was known.
fn note_in(files: &mut DamagedFiles, file: &str, error: &Error) -> bool {
    let is_corrupt = |error: &Error| error.kind() == ErrorKind::Corrupt;
    let known = files.get(file);
    let says_more = known.is_none_or(|known| is_corrupt(error) && !is_corrupt(known));
    if says_more {
        files.insert(file.to_owned(), error.clone());
    }
    says_more
}

#[cfg(test)]
mod tests {
    use lazybase_model::error::UNREADABLE;

    use super::*;

    fn damage(file: &str) -> Error {
        Error::corrupt("checksum mismatch").with_file(file)
    }

    #[test]
    fn only_damage_of_a_named_file_is_noted_and_once() {
        let damaged = Damaged::default();
        damaged.note(&Error::corrupt("of no file"));
        damaged.note(&Error::internal("a bug").with_file("segments/a"));
        assert_eq!(damaged.version(), 0);
        damaged.note(&damage("segments/a"));
        damaged.note(&damage("segments/a"));
        let (version, files) = damaged.files();
        assert_eq!((version, files.len()), (1, 1));
        damaged.forget(["segments/a", "segments/b"]);
        assert_eq!(damaged.version(), 2);
        assert!(damaged.files().1.is_empty());
    }

    #[test]
    fn a_file_that_was_refused_and_is_found_corrupt_is_corrupt() {
        let refused = Error::unavailable("the disk").with_sqlstate(UNREADABLE);
        let refused = refused.with_file("segments/a");
        let damaged = Damaged::default();
        damaged.note(&refused);
        damaged.note(&damage("segments/a"));
        let kind = || damaged.files().1["segments/a"].kind();
        assert_eq!((damaged.version(), kind()), (2, ErrorKind::Corrupt));
        damaged.note(&refused);
        assert_eq!((damaged.version(), kind()), (2, ErrorKind::Corrupt));
    }

    #[test]
    fn a_file_that_was_whole_in_between_is_a_new_suspicion() {
        let damaged = Damaged::default();
        damaged.confirm(&damage("segments/a"), 6);
        assert_eq!(damaged.confirmed_at("segments/a"), None);
        damaged.confirm(&damage("segments/a"), 7);
        assert_eq!(damaged.confirmed_at("segments/a"), Some(7));
        damaged.note(&damage("segments/a"));
        assert_eq!(damaged.confirmed_at("segments/a"), Some(7));
        damaged.found_whole(["segments/a"]);
        damaged.note(&damage("segments/a"));
        assert_eq!(damaged.confirmed_at("segments/a"), None);
        damaged.confirm(&damage("segments/a"), 8);
        assert_eq!(damaged.confirmed_at("segments/a"), Some(8));
        damaged.forget(["segments/a"]);
        assert_eq!(damaged.confirmed_at("segments/a"), None);
        damaged.note(&damage("segments/a"));
        damaged.confirm(&damage("segments/a"), 9);
        damaged.doubt("segments/a");
        assert_eq!(damaged.confirmed_at("segments/a"), None);
        assert!(damaged.files().1.contains_key("segments/a"));
    }

    #[test]
    fn what_is_condemned_stays_though_it_is_whole() {
        let damaged = Damaged::default();
        damaged.note(&damage("segments/a"));
        damaged.condemn(&damage("segments/b"));
        damaged.found_whole(["segments/a", "segments/b"]);
        let (_, files) = damaged.files();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["segments/b"]);
        assert!(damaged.is_condemned("segments/b"));
        damaged.forget(["segments/b"]);
        assert!(damaged.files().1.is_empty() && !damaged.is_condemned("segments/b"));
    }
}
