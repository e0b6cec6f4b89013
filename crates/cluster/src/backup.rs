//! Backup while writing (`docs/formats/backup.md`); `restore.rs` is the way back, and `prune.rs`
//! removes old ones.
//!
//! ```text
//!   read the clock                            what was acknowledged by then is in the backup
//!   seal, let everything sealed be sorted     writers go on in the open SCU
//!   pin the manifest                          its horizon is the backup's; files can't go
//!   copy each segment that is not there yet   read back in full, checksum kept; those that are
//!                                             there are compared with their checksum
//!   put backups/{number}.backup               last: from here on the backup is there
//!   read what only earlier ones need          what rotted of it is told
//! ```
//!
//! No log belongs to a backup: what is acknowledged is sorted first, by the pipeline itself.
//! Invariant BKP-1 (`crates/engine/src/backup.rs`).

mod prune;
mod restore;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use lazybase_engine::backup::{Backup, CopiedFile};
use lazybase_engine::env::local::LocalStore;
use lazybase_engine::env::{BACKUP_FOLDERS, Env, Store};
use lazybase_engine::manifest::check::check_loaded;
use lazybase_engine::manifest::{Edit, Manifest, Pin, RunId};
use lazybase_engine::read::remedy::outlook;
use lazybase_model::{Error, ErrorKind, Result, ScuNumber, TableId};
use tokio::sync::oneshot;

use crate::coordinator::{Command, Event};
use crate::instance::{Instance, SettleTo};
use crate::parts::{Part, Pieces, parts_of};
use crate::shared::is_log;
use crate::verify::{HEALING_MAX, LOOK_EVERY, is_named};

pub use prune::{PruneReport, PruneRequest, open_to_prune, prune_backups};
pub use restore::{RestoreReport, RestoreRequest, open_to_restore, restore};

/// The SQLSTATE of a folder that a process has.
const IN_USE: &str = "55006";
/// Where the files lie that backups share.
const SEGMENTS: &str = "segments/";
/// How often everything sealed is sorted, until nothing was sealed meanwhile.
const TRIES_MAX: usize = 32;

/// What a backup came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// Its number.
    pub number: u64,
    /// It holds everything up to the end of this SCU.
    pub newest: ScuNumber,
    /// The oldest SCU that it can be restored to; every one from there on, too.
    pub oldest: ScuNumber,
    /// The files that belong to it, and their bytes.
    pub files: u64,
    /// See `files`.
    pub bytes: u64,
    /// The files that were copied for it, and their bytes: the others were there, and whole.
    pub copied_files: u64,
    /// See `copied_files`.
    pub copied_bytes: u64,
    /// What is not in it, and what of earlier backups was met damaged, a line each.
    pub notes: Vec<String>,
}

/// Lets the open SCU be sealed by age and size again, also where the backup is given up; unless
/// somebody else wants it so.
struct Unsealed<'i>(&'i Instance);

impl Drop for Unsealed<'_> {
    fn drop(&mut self) {
        let (reply, _) = oneshot::channel();
        // A closed database seals nothing more.
        let _ = self
            .0
            .send(Event::Asked(Command::HoldSealing { hold: false, reply }));
    }
}

/// Opens a folder of backups to write one, after a look at what is there: nothing but backups, and
/// apart from the database's folder.
///
/// # Errors
/// `Conflict`, naming what is there; as `LocalStore::open`.
pub(crate) fn open_folder(instance: &Instance, folder: &Path) -> Result<Env> {
    let database = instance.env().store.folder();
    let opened = LocalStore::open_own(folder, &BACKUP_FOLDERS, database);
    Ok(Env::system(Arc::new(opened.map_err(told_to_wait)?)))
}

/// Who has a folder of backups may be this process: nobody is to end it.
fn told_to_wait(error: Error) -> Error {
    match error.sqlstate() == IN_USE {
        true => error.with_hint(
            "another backup goes into it, or old ones are being removed: try again once that is \
             done",
        ),
        false => error,
    }
}

/// A database's folder is none of backups.
async fn refuse_database(store: &dyn Store) -> Result<()> {
    match store.list("manifest/").await?.first() {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!("the folder of backups holds a database: {name} is there");
            Err(Error::conflict(message).with_hint("name a folder of its own"))
        }
    }
}

/// Copies the database into a folder: only what earlier backups have not. Tables named in `without`
/// stay away. A damaged file of the database is waited for, where that helps: who opens a database
/// for its backup alone would meet the same one each time.
pub(crate) async fn take(
    instance: &Instance,
    target: &Env,
    without: &[String],
    progress: &(dyn Fn(f64) + Sync),
) -> Result<BackupReport> {
    let mut met = BTreeSet::new();
    loop {
        let error = match take_now(instance, target, without, progress).await {
            Ok(report) => return Ok(report),
            Err(error) => error,
        };
        let is_mended = match error.damaged_file() {
            Some(file) if met.insert(file.to_owned()) => is_mended_in_time(instance, file).await,
            _ => false,
        };
        if !is_mended {
            return Err(error);
        }
    }
}

/// Waits until a damaged segment of the database is in nobody's way any more: it was made again; or
/// nothing holds its rows, and horizons of the past that alone needed it were given up. Whether
/// that came about.
async fn is_mended_in_time(instance: &Instance, file: &str) -> bool {
    let clock = &instance.env().clock;
    let begin = clock.monotonic();
    let is_damaged = || instance.damaged().contains_key(file);
    if is_log(file) || !is_damaged() {
        return false;
    }
    // What replaced it is read by whoever comes now, though others still hold it.
    while is_damaged() && is_named(&instance.manifest(), file) {
        let is_late = clock.monotonic().saturating_sub(begin) > HEALING_MAX;
        if is_late || lost_now(instance, file).is_some() {
            return false;
        }
        clock.sleep(LOOK_EVERY).await;
    }
    true
}

/// The table whose newest answers need a damaged file that nothing makes again.
fn lost_now(instance: &Instance, file: &str) -> Option<String> {
    let (manifest, damaged) = (instance.manifest(), instance.damaged());
    let current = manifest.current_runs();
    let names = |run: &&RunId| {
        let mut segments = manifest.run(**run).segments.iter();
        current.contains(*run) && segments.any(|named| named.file == file)
    };
    let lost = outlook(&manifest, &damaged).lost;
    let run = lost.iter().find(names)?;
    let state = manifest.table_of_view(manifest.run(*run).view)?;
    Some(state.table.name.clone())
}

async fn take_now(
    instance: &Instance,
    target: &Env,
    without: &[String],
    progress: &(dyn Fn(f64) + Sync),
) -> Result<BackupReport> {
    refuse_database(&*target.store).await?;
    let mut notes = Vec::new();
    let known = known_files(&*target.store, instance, &mut notes).await?;
    // Before anything is sealed: nothing later is known to be in it.
    let taken_micros = instance.now_micros();
    let pin = pin_sorted(instance).await?;
    let mut manifest = pin.manifest().as_ref().clone();
    manifest.scus.clear();
    let mut manifest = leave_out(manifest, without, &mut notes)?;
    refuse_lost(&manifest)?;
    let present: BTreeMap<String, u64> = target.store.list(SEGMENTS).await?.into_iter().collect();
    let copying = Copying {
        instance,
        target,
        pin: &pin,
        known: &known,
        present: &present,
    };
    let parts = parts_of(&manifest)?;
    let all: u64 = parts.iter().map(Part::bytes).sum();
    let (mut files, mut absent) = (BTreeMap::new(), Vec::new());
    let (mut done, mut copied) = (0, (0, 0));
    for part in &parts {
        pin.check()?;
        match copying.part(part, &mut notes).await? {
            Copied::There(file) => drop(files.insert(part.file().to_owned(), file)),
            Copied::Now(file) => {
                copied = (copied.0 + 1, copied.1 + part.bytes());
                files.insert(part.file().to_owned(), file);
            }
            Copied::Absent => absent.push(part.file().to_owned()),
        }
        done += part.bytes();
        progress(done as f64 / all.max(1) as f64);
    }
    pin.check()?;
    let numbers = Backup::numbers(&*target.store).await?;
    manifest.scus.clear();
    let backup = Backup {
        number: numbers.last().map_or(1, |newest| newest + 1),
        taken_micros,
        oldest: manifest.oldest_readable(),
        files,
        absent,
        manifest,
    };
    let name = Backup::file_name(backup.number);
    target.store.put_if_absent(&name, backup.encode()?).await?;
    // What only earlier backups need is in no snapshot.
    drop(pin);
    look_at_older(&*target.store, &known, &backup, &mut notes).await;
    Ok(BackupReport {
        number: backup.number,
        newest: backup.newest(),
        oldest: backup.oldest,
        files: backup.files.len() as u64,
        bytes: backup.files.values().map(|file| file.bytes).sum(),
        copied_files: copied.0,
        copied_bytes: copied.1,
        notes,
    })
}

/// The files that backups of this database have in the folder. Backups that can't be read are
/// passed over: what only they name is copied again.
async fn known_files(
    store: &dyn Store,
    instance: &Instance,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<String, CopiedFile>> {
    let mut known = BTreeMap::new();
    for number in Backup::numbers(store).await? {
        let backup = match Backup::read(store, number).await {
            Ok(backup) => backup,
            Err(error) if error.damaged_file().is_some() => {
                notes.push(format!("backup {number} can't be restored: {error}"));
                continue;
            }
            Err(error) => return Err(error),
        };
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

/// Says what is damaged in the folder of what earlier backups alone need: the database may hold it
/// no more, so it is not copied again.
async fn look_at_older(
    store: &dyn Store,
    known: &BTreeMap<String, CopiedFile>,
    backup: &Backup,
    notes: &mut Vec<String>,
) {
    for (file, copied) in known {
        if backup.files.contains_key(file) {
            continue;
        }
        let what = match checksum_of(store, file, *copied).await {
            Ok(crc) if crc == copied.crc32c => continue,
            Ok(_) => format!("{file}: not what was copied"),
            Err(error) => error.to_string(),
        };
        notes.push(format!(
            "{what}; earlier backups need it, as `lazybase backup verify` says"
        ));
    }
}

/// Pins a manifest in which everything that is sealed is sorted, and everything that was
/// acknowledged before the call is sealed.
async fn pin_sorted(instance: &Instance) -> Result<Pin> {
    let _unsealed = Unsealed(instance);
    instance.hold_sealing().await?;
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

/// The manifest as if these tables had been dropped.
fn leave_out(
    mut manifest: Manifest,
    without: &[String],
    notes: &mut Vec<String>,
) -> Result<Manifest> {
    for name in without {
        let unknown = || Error::not_found(format!("there is no table {name:?}"));
        let state = manifest.table_named(name).ok_or_else(unknown)?;
        let (table, map) = (state.table.id, state.table.owned_id().map(|(_, map)| map));
        let number = manifest.number;
        for table in map.into_iter().chain([table]) {
            manifest = manifest.into_next(&Edit::DropTable { table })?;
        }
        manifest.number = number;
        manifest.prune_plain_views();
        for column in manifest.prune_sequences() {
            notes.push(format!(
                "column {column} numbers itself no more: its sequence goes"
            ));
        }
        check_loaded(&manifest)?;
        notes.push(format!("table {name:?} was left out, with its views"));
    }
    if !without.is_empty() {
        refuse_orphans(&manifest)?;
    }
    Ok(manifest)
}

/// A table that holds IDs goes with the one that they are of: without it nothing tells their keys,
/// and no table can be made or altered.
fn refuse_orphans(manifest: &Manifest) -> Result<()> {
    let is_there = |table: &TableId| manifest.tables.contains_key(table);
    for state in manifest.tables.values() {
        let table = &state.table;
        let mut id_keys = table.id_keys();
        let orphan = id_keys.find(|(_, key)| !is_there(&key.owner) || !is_there(&key.map));
        if let Some((at, _)) = orphan {
            return Err(Error::conflict(format!(
                "column {:?} of table {:?} holds IDs of a table that is left out",
                table.columns[at].name, table.name
            ))
            .with_hint(format!(
                "leave it out too: --without {:?}; `lazybase export` writes its rows",
                table.name
            ))
            .with_sqlstate("2BP01"));
        }
    }
    Ok(())
}

fn refuse_lost(manifest: &Manifest) -> Result<()> {
    match manifest.lost_runs().next() {
        None => Ok(()),
        Some((scu, table)) => {
            let name = manifest.table_name(table);
            let message = format!("rows of table {name:?}, SCU {scu}, are lost");
            Err(Error::corrupt(message).with_hint(lost_hint("the log that held them", &name)))
        }
    }
}

fn lost_hint(what: &str, table: &str) -> String {
    format!("restore {what}, or back up without the table: `lazybase backup --without {table:?}`")
}

/// What became of a file.
enum Copied {
    /// It was there already, and is what was copied then.
    There(CopiedFile),
    Now(CopiedFile),
    /// Nothing holds it, and the database does without.
    Absent,
}

struct Copying<'c> {
    instance: &'c Instance,
    target: &'c Env,
    pin: &'c Pin,
    known: &'c BTreeMap<String, CopiedFile>,
    present: &'c BTreeMap<String, u64>,
}

impl Copying<'_> {
    async fn part(&self, part: &Part, notes: &mut Vec<String>) -> Result<Copied> {
        let store = &*self.target.store;
        let file = part.file();
        if let Some(error) = self.instance.condemned(file) {
            return Err(self.damaged(part, error));
        }
        let known = self.known.get(file);
        if let Some(length) = self.present.get(file) {
            if let Some(known) = known {
                match checksum_of(store, file, *known).await {
                    Ok(crc) if crc == known.crc32c && *length == part.bytes() => {
                        return Ok(Copied::There(*known));
                    }
                    Err(error) if error.damaged_file().is_none() => return Err(error),
                    _ => notes.push(format!("{file}: damaged in the folder, and copied again")),
                }
            }
            // Damaged there, or of a backup that was broken off.
            store.delete(file).await?;
        } else if known.is_some() {
            notes.push(format!("{file}: missing in the folder, and copied again"));
        }
        match (self.copy(part).await, part) {
            (Ok(copied), _) => Ok(Copied::Now(copied)),
            (Err(error), Part::Times(times)) if error.damaged_file().is_some() => {
                let (first, last) = (times.first, times.last);
                notes.push(format!(
                    "times of SCUs {first} to {last} are not in it: {error}"
                ));
                Ok(Copied::Absent)
            }
            (Err(error), _) => Err(error),
        }
    }

    async fn copy(&self, part: &Part) -> Result<CopiedFile> {
        let source = &self.instance.env().store;
        let go_on = || self.pin.check();
        let copied = copy(&**source, &*self.target.store, part, &go_on).await;
        let copied = match copied {
            Ok(copied) => part.check(self.target).await.map(|()| copied),
            Err(error) => Err(error),
        };
        let Err(error) = copied else {
            return copied;
        };
        // A copy that is not right is no copy.
        self.target.store.delete(part.file()).await?;
        let own = part.check(self.instance.env()).await;
        // Without the pin the file may be gone by right.
        self.pin.check()?;
        match own {
            Ok(()) => Err(error),
            Err(own) if own.damaged_file().is_none() => Err(own),
            Err(own) => Err(self.damaged(part, own)),
        }
    }

    /// The database's own file is damaged.
    fn damaged(&self, part: &Part, error: Error) -> Error {
        self.instance.note_damage(&error);
        let Part::Segment(segment) = part else {
            return error;
        };
        let error = error.within("the database").within(&segment.place);
        match lost_now(self.instance, &segment.meta.file) {
            Some(table) => error.with_hint(lost_hint("the file", &table)),
            None => error.with_hint("it is made again where an earlier stage holds it: try again"),
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
    let (file, bytes) = (part.file(), part.bytes());
    let named = |error: lazybase_engine::env::StoreError| Error::from(error).with_file(file);
    let mut writer = target.create(file).await?;
    let mut pieces = Pieces::of(source, file, bytes);
    while let Some(piece) = pieces.next().await.map_err(named)? {
        go_on()?;
        writer.write(piece).await?;
    }
    writer.finish().await?;
    let crc32c = pieces.crc32c();
    Ok(CopiedFile { bytes, crc32c })
}

/// There is nothing to read or to restore.
fn no_backup() -> Error {
    Error::not_found("there is no backup in the folder")
        .with_hint("name the folder that `lazybase backup --to` or BACKUP TO wrote")
}

/// What a folder of backups holds.
#[derive(Debug, Clone)]
pub struct ListedBackup {
    /// The number in its name.
    pub number: u64,
    /// What it says; or why it can't be read.
    pub backup: Result<Backup>,
    /// The bytes of those of its files that no other backup names: what would go with it.
    pub own_bytes: u64,
}

/// The backups of a folder, oldest first.
///
/// # Errors
/// The store's; a damaged backup is in the list.
#[boxed]
pub async fn list_backups(store: &dyn Store) -> Result<Vec<ListedBackup>> {
    let mut listed = Vec::new();
    for number in Backup::numbers(store).await? {
        match Backup::read(store, number).await {
            // It was removed since the folder was read.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            backup => listed.push(ListedBackup {
                number,
                backup,
                own_bytes: 0,
            }),
        }
    }
    let own = own_bytes(&listed);
    for (listed, own_bytes) in listed.iter_mut().zip(own) {
        listed.own_bytes = own_bytes;
    }
    Ok(listed)
}

/// For each backup the bytes of the files that it alone names.
fn own_bytes(listed: &[ListedBackup]) -> Vec<u64> {
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    let readable = listed
        .iter()
        .filter_map(|listed| listed.backup.as_ref().ok());
    for file in readable.flat_map(|backup| backup.files.keys()) {
        *named.entry(file.as_str()).or_default() += 1;
    }
    let own = |backup: &Backup| -> u64 {
        let files = backup.files.iter();
        let own = files.filter(|(file, _)| named.get(file.as_str()) == Some(&1));
        own.map(|(_, copied)| copied.bytes).sum()
    };
    let all = listed
        .iter()
        .map(|listed| listed.backup.as_ref().map_or(0, own));
    all.collect()
}

/// Reads all files of all backups, or of one, and compares them with what was copied: a line for
/// each problem, and how many files and bytes were read.
///
/// # Errors
/// The store's; `NotFound` when there is no such backup, or none at all.
#[boxed]
pub async fn verify_backups(
    store: &dyn Store,
    number: Option<u64>,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<(u64, u64, Vec<String>)> {
    let mut problems = Vec::new();
    let mut files: BTreeMap<String, (CopiedFile, Vec<u64>)> = BTreeMap::new();
    let is_asked = number.is_some();
    let numbers = match number {
        Some(number) => vec![number],
        None => Backup::numbers(store).await?,
    };
    if numbers.is_empty() {
        return Err(no_backup());
    }
    for number in numbers {
        match Backup::read(store, number).await {
            Ok(backup) => {
                for (name, file) in backup.files {
                    let of = files.entry(name).or_insert((file, Vec::new()));
                    of.1.push(number);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound && is_asked => return Err(error),
            // It was removed since the folder was read.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => problems.push(error.to_string()),
        }
    }
    let all: u64 = files.values().map(|(file, _)| file.bytes).sum();
    let mut read = 0;
    for (name, (file, of)) in &files {
        let problem = match checksum_of(store, name, *file).await {
            Ok(crc) if crc == file.crc32c => None,
            Ok(_) => Some(format!("{name}: not what was copied")),
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = problem {
            // Nobody misses a file whose backups were removed since the folder was read.
            let there = Backup::numbers(store).await?;
            let of = of.iter().filter(|number| there.contains(number));
            let of: Vec<String> = of.map(u64::to_string).collect();
            if !of.is_empty() {
                problems.push(format!("{problem} (backups {})", of.join(", ")));
            }
        }
        read += file.bytes;
        progress(read as f64 / all.max(1) as f64);
    }
    Ok((files.len() as u64, read, problems))
}

async fn checksum_of(store: &dyn Store, name: &str, file: CopiedFile) -> Result<u32> {
    let named = |error: lazybase_engine::env::StoreError| Error::from(error).with_file(name);
    let length = store.len(name).await.map_err(named)?;
    if length != file.bytes {
        let message = format!("{name}: {length} bytes where {} were copied", file.bytes);
        return Err(Error::corrupt(message).with_file(name));
    }
    let mut pieces = Pieces::of(store, name, length);
    while pieces.next().await.map_err(named)?.is_some() {}
    Ok(pieces.crc32c())
}
