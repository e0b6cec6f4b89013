//! Pruning: old backups leave a folder, and with them the files that no other backup names.
//!
//! ```text
//!   remove backups/{number}.backup    of those that go, oldest first
//!   put a mark beside them            from here on none of them comes back, power cut or not
//!   remove files of the database      that no backup names which stays: what was left by backups
//!                                     and prunes that were broken off goes too
//!   take the mark away
//! ```
//!
//! Wherever it is broken off, each backup that is there has all its files, and the next prune goes
//! on. Invariant BKP-2: a file of a folder of backups goes only when no backup names it that is
//! there, or may come back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use lazybase_engine::backup::{Backup, FOLDER, PRUNE_MARK, is_copied_name};
use lazybase_engine::env::local::LocalStore;
use lazybase_engine::env::{BACKUP_FOLDERS, Store, StoreResult};
use lazybase_model::{Error, ErrorKind, Result};

use super::{
    IN_USE, ListedBackup, SEGMENTS, list_backups, no_backup, refuse_database, told_to_wait,
};

#[cfg(test)]
mod tests;

/// Which backups are to go. Where both limits are given, those go that both let go; where none is,
/// no backup does, and only what broken-off work has left is removed. The newest whole backup stays
/// in any case, and so does every one that is newer than one that stays.
#[derive(Debug, Clone, Copy, Default)]
pub struct PruneRequest {
    /// How many of the newest whole backups stay; at least one does.
    pub keep: Option<u64>,
    /// Those stay that were taken then or later: microseconds since 1970.
    pub taken_from_micros: Option<i64>,
    /// Nothing is removed: the report says what would be.
    pub dry_run: bool,
}

/// What became of a folder of backups.
#[derive(Debug, Clone)]
pub struct PruneReport {
    /// The backups that went, oldest first.
    pub removed: Vec<ListedBackup>,
    /// The numbers of those that stay, oldest first.
    pub kept: Vec<u64>,
    /// The files that went, those of the backups themselves among them, and their bytes.
    pub files: u64,
    /// See `files`.
    pub bytes: u64,
    /// The bytes of the backups that stay, and of all that they name.
    pub kept_bytes: u64,
    /// Backups that stay and are not whole, a line each.
    pub notes: Vec<String>,
}

/// Names of files with their lengths.
type Sizes = BTreeMap<String, u64>;

/// Opens a folder of backups to remove some; no backup goes into it meanwhile. A folder without
/// backups is not touched.
///
/// # Errors
/// `NotFound` when there is no folder, or no backup in it; `Conflict` when a process has it, or it
/// holds anything else; `Unavailable` if the system refuses.
#[boxed]
pub async fn open_to_prune(folder: &Path, dry_run: bool) -> Result<LocalStore> {
    let look = LocalStore::open_read_only(folder)?;
    if Backup::numbers(&look).await?.is_empty() {
        return Err(no_backup());
    }
    let opened = match dry_run {
        true => LocalStore::open_to_look(folder),
        false => LocalStore::open_own(folder, &BACKUP_FOLDERS, None),
    };
    opened.map_err(|error| match (error.kind(), error.sqlstate()) {
        (_, IN_USE) => told_to_wait(error),
        (ErrorKind::Conflict, _) => error.with_hint("a folder of backups holds nothing else"),
        _ => error,
    })
}

/// Removes backups from a folder that nobody else writes in, and the files that no other backup
/// names. Files under names that a database gives to none are left alone.
///
/// # Errors
/// The store's: backups that are there are whole then, and another prune goes on. `NotFound` when
/// there is no backup; `Conflict` when a database is there; that of a backup which stays and can't
/// be read, before anything is removed: which files it needs is not known.
#[boxed]
pub async fn prune_backups(store: &dyn Store, request: PruneRequest) -> Result<PruneReport> {
    refuse_database(store).await?;
    let listed = list_backups(store).await?;
    if listed.is_empty() {
        return Err(no_backup());
    }
    let sizes: Sizes = store.list(FOLDER).await?.into_iter().collect();
    let own_size = |number| {
        let size = sizes.get(&Backup::file_name(number));
        size.copied().unwrap_or_default()
    };
    let there: Sizes = store.list(SEGMENTS).await?.into_iter().collect();
    let found: Vec<Found> = listed
        .iter()
        .map(|listed| Found::of(listed, &there))
        .collect();
    let oldest = oldest_kept(&found, &request);
    let stay = found.iter().filter(|found| found.number >= oldest);
    let notes = stay.filter_map(Found::note).collect();
    let (removed, kept): (Vec<_>, Vec<_>) = listed
        .into_iter()
        .partition(|listed| listed.number < oldest);
    let named = named_by(&kept)?;
    let (needed, mut loose): (Sizes, Sizes) = there
        .into_iter()
        .partition(|(file, _)| named.contains(file.as_str()));
    loose.retain(|file, _| is_copied_name(file));
    let numbers = |listed: &[ListedBackup]| -> Vec<u64> {
        listed.iter().map(|listed| listed.number).collect()
    };
    let (gone, kept) = (numbers(&removed), numbers(&kept));
    if !request.dry_run {
        remove(store, &gone, &loose).await.map_err(|error| {
            Error::from(error).with_hint("the backups that are left are whole: prune once more")
        })?;
    }
    let own_sizes = |numbers: &[u64]| -> u64 { numbers.iter().copied().map(own_size).sum() };
    Ok(PruneReport {
        files: (gone.len() + loose.len()) as u64,
        bytes: own_sizes(&gone) + loose.values().sum::<u64>(),
        kept_bytes: own_sizes(&kept) + needed.values().sum::<u64>(),
        removed,
        kept,
        notes,
    })
}

/// What decides whether a backup stays.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    number: u64,
    /// None where it can't be read.
    taken_micros: Option<i64>,
    /// Why it can't be restored, as far as that shows without reading its files.
    lack: Option<String>,
}

impl Found {
    fn of(listed: &ListedBackup, there: &Sizes) -> Found {
        let lack = match &listed.backup {
            Err(error) => Some(error.to_string()),
            Ok(backup) => {
                let mut files = backup.files.iter();
                let lack = files.find(|(file, copied)| there.get(*file) != Some(&copied.bytes));
                lack.map(|(file, _)| format!("{file} is missing, or has another length"))
            }
        };
        Found {
            number: listed.number,
            taken_micros: listed
                .backup
                .as_ref()
                .ok()
                .map(|backup| backup.taken_micros),
            lack,
        }
    }

    fn note(&self) -> Option<String> {
        let lack = self.lack.as_ref()?;
        Some(format!("backup {} is not counted: {lack}", self.number))
    }
}

/// The number of the oldest backup that stays, of backups from the oldest on.
fn oldest_kept(found: &[Found], request: &PruneRequest) -> u64 {
    let oldest = found.first().map_or(0, |found| found.number);
    if request.keep.is_none() && request.taken_from_micros.is_none() {
        return oldest;
    }
    let newer = request.keep.unwrap_or(1).saturating_sub(1);
    let newer = usize::try_from(newer).unwrap_or(usize::MAX);
    let mut whole = found.iter().rev().filter(|found| found.lack.is_none());
    let counted = whole.nth(newer).map_or(oldest, |found| found.number);
    let is_young = |found: &&Found| match (request.taken_from_micros, found.taken_micros) {
        (Some(from), Some(taken)) => taken >= from,
        _ => false,
    };
    let young = found.iter().find(is_young);
    young.map_or(counted, |young| counted.min(young.number))
}

/// The files that these backups name.
fn named_by(backups: &[ListedBackup]) -> Result<BTreeSet<&str>> {
    let mut named = BTreeSet::new();
    for listed in backups {
        match &listed.backup {
            Ok(backup) => named.extend(backup.files.keys().map(String::as_str)),
            Err(error) => return Err(not_known(listed.number, error)),
        }
    }
    Ok(named)
}

/// A backup that stays can't be read.
fn not_known(number: u64, error: &Error) -> Error {
    let file = Backup::file_name(number);
    error
        .clone()
        .within(format_args!(
            "nothing was removed: what backup {number} needs is not known"
        ))
        .with_hint(format!(
            "a newer LazyBase may read it; whoever gives that backup up removes {file}"
        ))
}

/// Removes backups, then files.
async fn remove(store: &dyn Store, backups: &[u64], files: &Sizes) -> StoreResult<()> {
    for number in backups {
        store.delete(&Backup::file_name(*number)).await?;
    }
    store.delete(PRUNE_MARK).await?;
    if backups.is_empty() && files.is_empty() {
        return Ok(());
    }
    // What goes next must not be missed by a backup that comes back: also one that an earlier prune
    // removed. The mark is empty, for the disk may be full.
    store.put_if_absent(PRUNE_MARK, Bytes::new()).await?;
    for file in files.keys() {
        store.delete(file).await?;
    }
    store.delete(PRUNE_MARK).await
}
