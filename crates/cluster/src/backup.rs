//! Backup while writing, and restore (`docs/formats/backup.md`).
//!
//! ```text
//!   seal, let everything sealed be sorted     writers go on in the open SCU
//!   pin the manifest                          its horizon is the backup's; files can't go
//!   copy each segment that is not there yet   read back in full, checksum kept
//!   put backups/{number}.backup               last: from here on the backup is there
//!
//!   restore: files that one backup names, cut at an SCU; copied, read back; last a checkpoint
//! ```
//!
//! No log belongs to a backup: what is acknowledged is sorted first, by the pipeline itself.
//! Invariant BKP-1 (`crates/engine/src/backup.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_engine::backup::{Backup, CopiedFile};
use lazybase_engine::env::{Env, Store};
use lazybase_engine::manifest::file::{FileKind, encode_checkpoint};
use lazybase_engine::manifest::{Manifest, Pin, SegmentMeta, TableState};
use lazybase_engine::read::read_times;
use lazybase_engine::segment::{RowLayout, verify_segment};
use lazybase_model::{Error, ErrorKind, Result, ScuNumber};
use tokio::sync::oneshot;

use crate::coordinator::{Command, Event};
use crate::instance::{AsOf, Instance, SettleTo};
use crate::task::StageName;

/// How often everything sealed is sorted, until nothing was sealed meanwhile.
const TRIES_MAX: usize = 32;
/// What is copied at once.
const COPY_BYTES: u64 = 4 << 20;

/// What a backup came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// Its number.
    pub number: u64,
    /// It holds everything up to the end of this SCU.
    pub newest: ScuNumber,
    /// The oldest SCU that it can be restored to.
    pub oldest: ScuNumber,
    /// The files that belong to it, and their bytes.
    pub files: u64,
    /// See `files`.
    pub bytes: u64,
    /// The files that were copied for it, and their bytes: the others were there.
    pub copied_files: u64,
    /// See `copied_files`.
    pub copied_bytes: u64,
}

/// Lets the open SCU be sealed by age and size again, also where the backup is given up.
struct Unsealed<'i>(Option<&'i Instance>);

impl Drop for Unsealed<'_> {
    fn drop(&mut self) {
        if let Some(instance) = self.0 {
            let (reply, _) = oneshot::channel();
            // A closed database seals nothing more.
            let _ = instance.send(Event::Asked(Command::Pause {
                stage: StageName::Ingest,
                paused: false,
                reply,
            }));
        }
    }
}

/// Copies the database into a folder: only what earlier backups have not.
pub(crate) async fn take(
    instance: &Instance,
    target: &Env,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<BackupReport> {
    if let Some((name, _)) = target.store.list("manifest/").await?.first() {
        let message = format!("the folder of backups holds a database: {name} is there");
        return Err(Error::conflict(message).with_hint("name a folder of its own"));
    }
    let known = known_files(&*target.store, instance).await?;
    let pin = pin_sorted(instance).await?;
    let mut manifest = pin.manifest().as_ref().clone();
    manifest.scus.clear();
    refuse_lost(&manifest)?;
    let present: BTreeMap<String, u64> =
        target.store.list("segments/").await?.into_iter().collect();
    let parts = parts_of(&manifest)?;
    let all: u64 = parts.iter().map(|part| part.bytes).sum();
    let (mut files, mut done, mut copied) = (BTreeMap::new(), 0, (0, 0));
    for part in &parts {
        pin.check()?;
        let there = present.get(&part.file) == Some(&part.bytes);
        let file = match known.get(&part.file).filter(|_| there) {
            Some(file) => *file,
            None => {
                if present.contains_key(&part.file) {
                    // Of a backup that was broken off.
                    target.store.delete(&part.file).await?;
                }
                copied = (copied.0 + 1, copied.1 + part.bytes);
                copy_for_backup(instance, target, part, &pin).await?
            }
        };
        files.insert(part.file.clone(), file);
        done += part.bytes;
        progress(done as f64 / all.max(1) as f64);
    }
    pin.check()?;
    let numbers = Backup::numbers(&*target.store).await?;
    let backup = Backup {
        number: numbers.last().map_or(1, |newest| newest + 1),
        taken_micros: instance.now_micros(),
        oldest: manifest.oldest_readable(),
        files,
        manifest,
    };
    let name = Backup::file_name(backup.number);
    target.store.put_if_absent(&name, backup.encode()?).await?;
    Ok(BackupReport {
        number: backup.number,
        newest: backup.newest(),
        oldest: backup.oldest,
        files: backup.files.len() as u64,
        bytes: all,
        copied_files: copied.0,
        copied_bytes: copied.1,
    })
}

/// The files that backups of this database have in the folder.
async fn known_files(
    store: &dyn Store,
    instance: &Instance,
) -> Result<BTreeMap<String, CopiedFile>> {
    let mut known = BTreeMap::new();
    for number in Backup::numbers(store).await? {
        let backup = Backup::read(store, number).await?;
        if backup.manifest.database != instance.database() {
            return Err(Error::conflict(
                "the folder holds backups of another database, or of another history of this one",
            )
            .with_hint("name a folder of its own"));
        }
        known.extend(backup.files);
    }
    Ok(known)
}

/// Pins a manifest in which everything that is sealed is sorted, and everything that was
/// acknowledged before the call is sealed.
async fn pin_sorted(instance: &Instance) -> Result<Pin> {
    let was_paused = instance.status().paused.contains(&StageName::Ingest);
    let _unsealed = Unsealed((!was_paused).then_some(instance));
    instance.pause(StageName::Ingest).await?;
    for _ in 0..TRIES_MAX {
        instance.settle(None, SettleTo::Sorted, &|_| {}).await?;
        let pin = instance.pin("backup");
        let manifest = pin.manifest();
        let newest = manifest.sealed_through;
        let of_later = manifest.ddl_batch.is_some_and(|batch| batch.scu > newest);
        if manifest.sorted_through == newest && !of_later {
            return Ok(pin);
        }
    }
    Err(
        Error::unavailable("tables are being changed all the time: there is no quiet boundary")
            .with_hint("try again when there is less CREATE, ALTER and DROP"),
    )
}

fn refuse_lost(manifest: &Manifest) -> Result<()> {
    match manifest.lost_runs().next() {
        None => Ok(()),
        Some((scu, table)) => Err(Error::corrupt(format!(
            "rows of table {:?}, SCU {scu}, are lost",
            manifest.table_name(table)
        ))
        .with_hint("restore the log that held them, or empty or drop the table, then back up")),
    }
}

/// A file of a manifest.
struct Part {
    file: String,
    bytes: u64,
    what: What,
}

enum What {
    Segment(Arc<RowLayout>, Arc<SegmentMeta>),
    Times(lazybase_engine::manifest::history::TimesFile),
}

/// The files that a manifest without logs names, each once.
fn parts_of(manifest: &Manifest) -> Result<Vec<Part>> {
    let mut seen = BTreeSet::new();
    let mut parts = Vec::new();
    for run in manifest.runs.values() {
        let state = manifest.table_of_view(run.view);
        let state: &TableState = state.ok_or_else(|| Error::internal("a run has no table"))?;
        let layout = Arc::new(RowLayout::primary(&state.table)?);
        for meta in &run.segments {
            if seen.insert(&meta.file) {
                parts.push(Part {
                    file: meta.file.clone(),
                    bytes: meta.bytes,
                    what: What::Segment(Arc::clone(&layout), Arc::clone(meta)),
                });
            }
        }
    }
    for times in &manifest.history.files {
        parts.push(Part {
            file: times.file.clone(),
            bytes: times.bytes,
            what: What::Times(times.clone()),
        });
    }
    Ok(parts)
}

impl Part {
    /// Reads the file back in full and checks everything that a reader may rely on.
    async fn check(&self, env: &Env) -> Result<()> {
        match &self.what {
            What::Segment(layout, meta) => verify_segment(env, layout, meta).await,
            What::Times(times) => read_times(&*env.store, times).await.map(drop),
        }
    }
}

async fn copy_for_backup(
    instance: &Instance,
    target: &Env,
    part: &Part,
    pin: &Pin,
) -> Result<CopiedFile> {
    let source = &instance.env().store;
    let copied = copy(&**source, &*target.store, part, &|| pin.check()).await;
    let copied = match copied {
        Ok(copied) => part.check(target).await.map(|()| copied),
        Err(error) => Err(error),
    };
    match copied {
        Ok(copied) => Ok(copied),
        Err(error) => {
            // A copy that is not right is no copy.
            target.store.delete(&part.file).await?;
            if part.check(instance.env()).await.is_err() {
                instance.note_damage(&error);
                return Err(error
                    .within("the database")
                    .with_hint("it is made again where an earlier stage holds it: try again"));
            }
            Err(error)
        }
    }
}

/// Copies a file whole, and tells the checksum of what was read.
async fn copy(
    source: &dyn Store,
    target: &dyn Store,
    part: &Part,
    go_on: &(dyn Fn() -> Result<()> + Sync),
) -> Result<CopiedFile> {
    let named = |error: lazybase_engine::env::StoreError| Error::from(error).with_file(&part.file);
    let mut writer = target.create(&part.file).await?;
    let (mut at, mut crc) = (0, 0);
    while at < part.bytes {
        go_on()?;
        let end = (at + COPY_BYTES).min(part.bytes);
        let bytes = source.read(&part.file, at..end).await.map_err(named)?;
        crc = crc32c::crc32c_append(crc, &bytes);
        writer.write(bytes).await?;
        at = end;
    }
    writer.finish().await?;
    Ok(CopiedFile {
        bytes: part.bytes,
        crc32c: crc,
    })
}

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
    /// Secondary views that did not fit their tables as they were then.
    pub dropped_views: Vec<String>,
}

/// Makes a database of a backup in an empty store.
///
/// # Errors
/// `Conflict` when the store is not empty, or producers' marks are not known; `NotFound` when no
/// backup reaches the boundary; `Corrupt`, naming the file, when the backup is damaged.
pub async fn restore(
    source: &dyn Store,
    target: &Env,
    request: RestoreRequest,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<RestoreReport> {
    for folder in ["manifest/", "segments/", "log/"] {
        if let Some((name, _)) = target.store.list(folder).await?.first() {
            return Err(Error::conflict(format!("{name} is there already"))
                .with_hint("restore into an empty folder"));
        }
    }
    let (backup, boundary) = choose(source, &request).await?;
    let (mut manifest, forgotten) = producers_at(&backup, boundary, request.forget_producers)?;
    let dropped_views = backup.manifest.views.iter();
    let dropped_views = dropped_views
        .filter(|(id, _)| !manifest.views.contains_key(id))
        .map(|(_, view)| view.table.name.clone());
    let dropped_views = dropped_views.collect();
    // A token of the old history is none of the new one.
    let history = backup.manifest.database.history;
    while manifest.database.history == history {
        manifest.database.history = target.random.next_u64() as u32;
    }
    manifest.number += 1;
    manifest.epoch += 1;
    let parts = parts_of(&manifest)?;
    let all: u64 = parts.iter().map(|part| part.bytes).sum();
    let mut done = 0;
    for part in &parts {
        let known = backup.files.get(&part.file).ok_or_else(|| {
            Error::corrupt(format!(
                "backup {} does not list {}",
                backup.number, part.file
            ))
        })?;
        let copied = copy(source, &*target.store, part, &|| Ok(())).await?;
        if copied != *known {
            return Err(not_as_backed_up(&part.file, &backup));
        }
        part.check(target).await?;
        done += part.bytes;
        progress(done as f64 / all.max(1) as f64);
    }
    let name = FileKind::Checkpoint.file_name(manifest.number);
    let bytes = encode_checkpoint(target.random.next_u64(), &manifest)?;
    target.store.put_if_absent(&name, bytes).await?;
    Ok(RestoreReport {
        number: backup.number,
        horizon: boundary,
        files: parts.len() as u64,
        bytes: all,
        forgotten,
        dropped_views,
    })
}

fn not_as_backed_up(file: &str, backup: &Backup) -> Error {
    let message = format!("{file}: not what backup {} copied", backup.number);
    Error::corrupt(message)
        .with_file(file)
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
        return Err(Error::not_found("there is no backup in the folder")
            .with_hint("name the folder that `lazybase backup --to` or BACKUP TO wrote"));
    };
    let Some(at) = request.at else {
        let backup = Backup::read(source, *newest).await?;
        let boundary = backup.newest();
        return Ok((backup, boundary));
    };
    let mut kept = Vec::new();
    for number in &numbers {
        let backup = Backup::read(source, *number).await?;
        let (oldest, newest) = (backup.oldest, backup.newest());
        let boundary = match at {
            AsOf::Scu(scu) => Some(scu).filter(|scu| oldest <= *scu && *scu <= newest),
            AsOf::Timestamp { micros } => boundary_at(&backup, micros),
        };
        if let Some(boundary) = boundary {
            return Ok((backup, boundary));
        }
        kept.push(format!("{number}: SCUs {oldest} to {newest}"));
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

/// What a folder of backups holds.
#[derive(Debug, Clone)]
pub struct ListedBackup {
    /// The number in its name.
    pub number: u64,
    /// What it says; or why it can't be read.
    pub backup: Result<Backup>,
}

/// The backups of a folder, oldest first.
///
/// # Errors
/// The store's; a damaged backup is in the list.
pub async fn list_backups(store: &dyn Store) -> Result<Vec<ListedBackup>> {
    let mut listed = Vec::new();
    for number in Backup::numbers(store).await? {
        let backup = Backup::read(store, number).await;
        listed.push(ListedBackup { number, backup });
    }
    Ok(listed)
}

/// Reads all files of all backups, or of one, and compares them with what was copied: a line for
/// each problem, and how many files and bytes were read.
///
/// # Errors
/// The store's; `NotFound` when there is no such backup.
pub async fn verify_backups(
    store: &dyn Store,
    number: Option<u64>,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<(u64, u64, Vec<String>)> {
    let mut problems = Vec::new();
    let mut files: BTreeMap<String, (CopiedFile, Vec<u64>)> = BTreeMap::new();
    let numbers = match number {
        Some(number) => vec![number],
        None => Backup::numbers(store).await?,
    };
    for number in numbers {
        match Backup::read(store, number).await {
            Ok(backup) => {
                for (name, file) in backup.files {
                    let of = files.entry(name).or_insert((file, Vec::new()));
                    of.1.push(number);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(error),
            Err(error) => problems.push(error.to_string()),
        }
    }
    let all: u64 = files.values().map(|(file, _)| file.bytes).sum();
    let mut read = 0;
    for (name, (file, of)) in &files {
        let found = checksum_of(store, name, *file).await;
        let of: Vec<String> = of.iter().map(u64::to_string).collect();
        let of = of.join(", ");
        match found {
            Ok(crc) if crc == file.crc32c => {}
            Ok(_) => problems.push(format!("{name}: not what was copied (backups {of})")),
            Err(error) => problems.push(format!("{error} (backups {of})")),
        }
        read += file.bytes;
        progress(read as f64 / all.max(1) as f64);
    }
    Ok((files.len() as u64, read, problems))
}

async fn checksum_of(store: &dyn Store, name: &str, file: CopiedFile) -> Result<u32> {
    let length = store.len(name).await?;
    if length != file.bytes {
        let message = format!("{name}: {length} bytes where {} were copied", file.bytes);
        return Err(Error::corrupt(message).with_file(name));
    }
    let (mut at, mut crc) = (0, 0);
    while at < length {
        let end = (at + COPY_BYTES).min(length);
        crc = crc32c::crc32c_append(crc, &store.read(name, at..end).await?);
        at = end;
    }
    Ok(crc)
}
