//! Restore: files that one backup names, cut at an SCU, become a database.
//!
//! ```text
//!   put a mark                       a folder that has it and no checkpoint does not open
//!   choose a backup and a boundary   the manifest as of there (engine, `cut_at`)
//!   copy each file                   compared with what was copied, read back in full
//!   put the checkpoint, take the mark away
//! ```

use std::path::Path;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use lazybase_engine::backup::{Backup, RESTORE_MARK};
use lazybase_engine::env::local::LocalStore;
use lazybase_engine::env::{Env, Store};
use lazybase_engine::manifest::Manifest;
use lazybase_engine::manifest::file::{FileKind, encode_checkpoint};
use lazybase_model::{Error, Result, ScuNumber};

use super::{copy, no_backup};
use crate::instance::AsOf;
use crate::parts::{Part, parts_of};
use crate::repair::other_history;

/// The folders of a database.
const FOLDERS: [&str; 3] = ["manifest/", "segments/", "log/"];

/// What is to be restored.
#[derive(Debug, Clone, Copy, Default)]
pub struct RestoreRequest {
    /// Which backup; the newest one that fits where nothing is said.
    pub number: Option<u64>,
    /// The boundary; the backup's newest where nothing is said.
    pub at: Option<AsOf>,
    /// Producers whose mark at the boundary is not known are forgotten, and may upload anew.
    pub forget_producers: bool,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReport {
    /// From which backup.
    pub number: u64,
    /// Everything up to the end of this SCU is there, and nothing after it.
    pub horizon: ScuNumber,
    /// Files, and their bytes.
    pub files: u64,
    /// See `files`.
    pub bytes: u64,
    /// Producers that were forgotten.
    pub forgotten: Vec<String>,
    /// Views that did not fit their tables as they were then, or whose name a table had.
    pub dropped_views: Vec<String>,
    /// Columns that took numbers of a sequence which has ended since, with their tables: they have
    /// no default.
    pub unnumbered: Vec<String>,
    /// Files that the backup is without: times of old SCUs.
    pub absent: Vec<String>,
}

/// Opens an empty folder to restore into; it lies apart from the folder of backups. Empty folders
/// that a restore left which failed don't matter.
///
/// # Errors
/// `Conflict`, naming what is there; as `LocalStore::open`.
pub fn open_to_restore(folder: &Path, from: &Path) -> Result<Env> {
    let known = FOLDERS.map(|folder| folder.trim_end_matches('/'));
    let store = LocalStore::open_own(folder, &known, Some(from))?;
    Ok(Env::system(Arc::new(store)))
}

/// Makes a database of a backup in an empty store.
///
/// # Errors
/// `Conflict` when the store is not empty, or producers' marks are not known; `NotFound` when no
/// backup reaches the boundary; `Corrupt`, naming the file, when the backup is damaged.
#[boxed]
pub async fn restore(
    source: &dyn Store,
    target: &Env,
    request: RestoreRequest,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<RestoreReport> {
    for folder in FOLDERS {
        if let Some((name, _)) = target.store.list(folder).await?.first() {
            return Err(Error::conflict(format!("{name} is there already"))
                .with_hint("restore into an empty folder; one that broke off leaves such files"));
        }
    }
    let store = &*target.store;
    store
        .put_if_absent(RESTORE_MARK, Bytes::from_static(b"\n"))
        .await?;
    let restored = restore_chosen(source, target, request, progress).await;
    match &restored {
        // With a manifest beside it the mark says nothing: it may stay.
        Ok(_) => drop(store.delete(RESTORE_MARK).await),
        Err(_) => clear(store).await,
    }
    restored
}

async fn restore_chosen(
    source: &dyn Store,
    target: &Env,
    request: RestoreRequest,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<RestoreReport> {
    let (backup, boundary) = choose(source, &request).await?;
    let (mut manifest, forgotten) = producers_at(&backup, boundary, request.forget_producers)?;
    let dropped_views = backup.manifest.views.iter();
    let dropped_views = dropped_views
        .filter(|(id, _)| !manifest.views.contains_key(id))
        .map(|(_, view)| view.table.name.clone());
    let plain = backup.manifest.plain_views.iter();
    let plain = plain
        .filter(|(id, _)| !manifest.plain_views.contains_key(id))
        .map(|(_, view)| view.name.clone());
    let dropped_views = dropped_views.chain(plain).collect();
    let unnumbered = match boundary == backup.newest() {
        true => Vec::new(),
        false => unnumbered(&backup.manifest, &manifest, boundary),
    };
    // A token of the old history is none of the new one.
    manifest.database.history = other_history(target, backup.manifest.database.history);
    manifest.number += 1;
    manifest.epoch += 1;
    let mut parts = parts_of(&manifest)?;
    let mut absent = Vec::new();
    parts.retain(|part| {
        let is_absent = backup.absent.iter().any(|file| file == part.file());
        if is_absent {
            absent.push(part.file().to_owned());
        }
        !is_absent
    });
    write(source, target, &backup, &manifest, &parts, progress).await?;
    Ok(RestoreReport {
        number: backup.number,
        horizon: boundary,
        files: parts.len() as u64,
        bytes: parts.iter().map(Part::bytes).sum(),
        forgotten,
        dropped_views,
        unnumbered,
        absent,
    })
}

/// The columns that took numbers of a sequence then, which is not there.
fn unnumbered(backup: &Manifest, restored: &Manifest, boundary: ScuNumber) -> Vec<String> {
    let mut unnumbered = Vec::new();
    for (id, state) in &restored.tables {
        let Some(before) = backup.tables.get(id) else {
            continue;
        };
        let pairs = before.at(boundary).columns.iter().zip(&state.table.columns);
        let lost = pairs.filter(|(then, now)| then.default.sequence() != now.default.sequence());
        let table = &state.table.name;
        unnumbered.extend(lost.map(|(_, column)| format!("{table}.{}", column.name)));
    }
    unnumbered
}

/// Copies the parts, reads each back, and puts the checkpoint behind them.
async fn write(
    source: &dyn Store,
    target: &Env,
    backup: &Backup,
    manifest: &Manifest,
    parts: &[Part],
    progress: &(dyn Fn(f64) + Sync),
) -> Result<()> {
    let all: u64 = parts.iter().map(Part::bytes).sum();
    let mut done = 0;
    for part in parts {
        let file = part.file();
        let known = backup.files.get(file).ok_or_else(|| {
            Error::corrupt(format!("backup {} does not list {file}", backup.number))
        })?;
        let copied = copy(source, &*target.store, part, &|| Ok(())).await;
        let copied = copied.map_err(|error| match error.damaged_file() {
            Some(_) => of_backup(error, backup),
            None => error,
        })?;
        if copied != *known {
            return Err(not_as_backed_up(file, backup));
        }
        part.check(target).await?;
        done += part.bytes();
        progress(done as f64 / all.max(1) as f64);
    }
    let name = FileKind::Checkpoint.file_name(manifest.number);
    let bytes = encode_checkpoint(target.random.next_u64(), manifest)?;
    target.store.put_if_absent(&name, bytes).await?;
    Ok(())
}

/// Takes away what a restore that failed has written, so that the next one finds the folder empty.
/// What can't be taken away is named when that one is tried.
async fn clear(target: &dyn Store) {
    for folder in FOLDERS {
        for (name, _) in target.list(folder).await.unwrap_or_default() {
            let _ = target.delete(&name).await;
        }
    }
}

fn not_as_backed_up(file: &str, backup: &Backup) -> Error {
    let message = format!("{file}: not what was copied");
    of_backup(Error::corrupt(message).with_file(file), backup)
}

/// A file of a backup can't be restored.
fn of_backup(error: Error, backup: &Backup) -> Error {
    error
        .within(format_args!("backup {}", backup.number))
        .with_hint("restore another backup, or to another SCU: it may not need the file")
}

/// The backup and the boundary that a request means: of several backups that reach back to it the
/// oldest, for it is the nearest.
async fn choose(source: &dyn Store, request: &RestoreRequest) -> Result<(Backup, ScuNumber)> {
    let numbers = match request.number {
        Some(number) => vec![number],
        None => Backup::numbers(source).await?,
    };
    let Some(newest) = numbers.last() else {
        return Err(no_backup());
    };
    let Some(at) = request.at else {
        let backup = Backup::read(source, *newest).await?;
        let boundary = backup.newest();
        return Ok((backup, boundary));
    };
    let mut kept = Vec::new();
    for number in &numbers {
        let backup = match Backup::read(source, *number).await {
            Ok(backup) => backup,
            // Another one may reach the point; one that is asked for by its number must be whole.
            Err(error) if request.number.is_none() && error.damaged_file().is_some() => {
                kept.push(format!("{number}: {error}"));
                continue;
            }
            Err(error) => return Err(error),
        };
        let reach = backup.oldest..=backup.newest();
        let boundary = match at {
            AsOf::Scu(scu) => Some(scu).filter(|scu| reach.contains(scu)),
            AsOf::Timestamp { micros } => boundary_at(&backup, micros),
        };
        // Written by an older version, `oldest` may stand before a gap.
        match boundary.filter(|boundary| backup.manifest.is_readable_at(*boundary)) {
            Some(boundary) => return Ok((backup, boundary)),
            None => kept.push(format!("{number}: {}", backup.reach())),
        }
    }
    Err(Error::not_found("no backup reaches that point")
        .with_detail(kept.join("; "))
        .with_sqlstate("72000"))
}

/// The newest boundary that was complete at a moment, if the backup tells what came next.
fn boundary_at(backup: &Backup, micros: i64) -> Option<ScuNumber> {
    let times = &backup.manifest.times;
    let complete = times
        .iter()
        .rev()
        .find(|(_, time)| time.last_ack_micros <= micros);
    let (scu, _) = complete?;
    let tells = *scu < backup.newest() || micros <= backup.taken_micros;
    (tells && *scu >= backup.oldest).then_some(*scu)
}

/// The manifest at the boundary, without producers whose mark there is not known: their names.
fn producers_at(
    backup: &Backup,
    boundary: ScuNumber,
    forget: bool,
) -> Result<(Manifest, Vec<String>)> {
    if boundary == backup.newest() {
        return Ok((backup.manifest.clone(), Vec::new()));
    }
    let mut manifest = backup.manifest.cut_at(boundary)?;
    let later = manifest.producers.iter();
    let later = later.filter(|(_, mark)| mark.scu > boundary);
    let unknown: Vec<String> = later.map(|(name, _)| name.clone()).collect();
    if !unknown.is_empty() && !forget {
        return Err(Error::conflict(format!(
            "the marks of producers {unknown:?} at SCU {boundary} are not known"
        ))
        .with_detail("they have uploaded since then; which batches count at that point is not kept")
        .with_hint("with --forget-producers they begin anew, and may send batches a second time"));
    }
    manifest.producers.retain(|_, mark| mark.scu <= boundary);
    Ok((manifest, unknown))
}
