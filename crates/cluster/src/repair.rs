//! Repair of a closed database: what is whole, what can be made again, what is lost; and what is
//! set aside so that the rest opens.
//!
//! ```text
//!   examine   manifest files, segments, logs --damage--> a stage before holds it: can be healed
//!             (writes nothing)                      \--> nothing holds it: lost, by table and SCUs
//!   repair    open, heal, close; examine once more
//!   set aside a damaged file of the manifest or of the log that keeps the database from opening
//!             goes to set-aside/, with all files after it: only if the operator says so
//!               history drawn anew, in a checkpoint above all numbers that there were
//!               log: whole frames before the damage, and those of sealed SCUs, stay
//! ```
//!
//! Invariant RPR-1: nothing is deleted, and nothing is put in the place of what is lost. What the
//! database says after something was set aside is another history than what it said before: SCUs
//! have numbers again that batches had which are lost, so no token, and no folder of backups, of
//! the one is good for the other. No table gets an id that the log names: rows of one whose edit
//! was set aside would be its rows.

mod given_up;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::util::display::array_value_to_string;
use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use bytes::Bytes;
use lazybase_engine::env::{Env, FileWriter, LogFile, Store, StoreError, StoreResult};
use lazybase_engine::manifest::file::{FileKind, encode_checkpoint};
use lazybase_engine::manifest::{Manifest, ManifestStore, Run, SegmentMeta, verify_files};
use lazybase_engine::read::remedy::outlook;
use lazybase_engine::read::{DamagedFiles, read_times};
use lazybase_engine::segment::{RowLayout, verify_segment};
use lazybase_engine::stages::ingest::{
    KeptFrames, SET_ASIDE, examine as examine_log, keep_whole_frames, newest_table, open_sealed,
};
use lazybase_model::error::UNREADABLE;
use lazybase_model::{Error, Result, Span};

use crate::condemned;
use crate::parts::{SegmentPart, segments_of};
use given_up::{GivenUp, Rows};

/// The folder of the log.
const LOG: &str = "log/";
/// Where copies of cut logs are made, before they take the places of the logs.
const CUTS: &str = "set-aside/cut/";

/// What a database's files are like.
#[derive(Debug, Clone, Default)]
pub struct Examination {
    /// Files that were read back in full, and their bytes.
    pub files: u64,
    /// See `files`.
    pub bytes: u64,
    /// Why the database does not open, if it does not. Nothing else is known then.
    pub closed: Option<Error>,
    /// Logs that are not there: a setting aside that was broken off has made copies of what counts
    /// in them, which [`finish_set_aside`], and opening the database, put in their places.
    pub pending: Vec<String>,
    /// What an earlier stage, or another file, still holds: opening the database heals it.
    pub healable: Vec<Damage>,
    /// What nothing holds.
    pub lost: Vec<Damage>,
    /// What was met in files, for [`crate::Instance::open_healing`].
    pub errors: Vec<Error>,
    /// The segments that the manifest names.
    segments: BTreeSet<String>,
}

/// Damage, and what it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The table or view; none for files of the manifest, and of old times.
    pub table: Option<String>,
    /// The SCUs whose rows, or changes, it holds.
    pub scus: Option<Span>,
    /// The least and the greatest key, where known.
    pub keys: Option<(String, String)>,
    /// Whether the newest answers need it; otherwise only horizons of the past do.
    pub current: bool,
    /// What was seen.
    pub what: String,
}

impl Examination {
    /// Whether nothing is damaged.
    pub fn is_whole(&self) -> bool {
        let pending = self.closed.is_some() || !self.pending.is_empty();
        !pending && self.healable.is_empty() && self.lost.is_empty()
    }

    /// What was lost of the past alone and is named no more after the database was open: nothing
    /// could make it again, and the horizons that only it led to were given up.
    pub fn given_up_by(&self, after: &Examination) -> Vec<Damage> {
        let is_gone = |damage: &&Damage| {
            let file = &damage.file;
            !damage.current && self.segments.contains(file) && !after.segments.contains(file)
        };
        self.lost.iter().filter(is_gone).cloned().collect()
    }
}

/// Looks at every file of a closed database; writes nothing.
///
/// # Errors
/// `NotFound` when there is no database; the store's errors. What is damaged is in the result.
#[boxed(?Send)]
pub async fn examine(env: &Env) -> Result<Examination> {
    let store = &*env.store;
    let mut found = Examination::default();
    if store.list("manifest/").await?.is_empty() {
        return Err(Error::not_found("there is no database here"));
    }
    found.pending = pending_cuts(store).await?;
    let manifest = match ManifestStore::open_read_only(env).await {
        Ok(manifests) => manifests.current(),
        Err(error) => {
            found.closed = Some(error);
            return Ok(found);
        }
    };
    let of_manifest = verify_files(store, manifest.number).await?;
    found
        .healable
        .extend(of_manifest.iter().map(|error| Damage {
            file: error.file().unwrap_or("manifest/").to_owned(),
            table: None,
            scus: None,
            keys: None,
            current: false,
            what: format!("{}; other files of the manifest stand for it", error.fact()),
        }));
    for (_, bytes) in store.list("manifest/").await? {
        found.files += 1;
        found.bytes += bytes;
    }
    for times in &manifest.history.files {
        found.files += 1;
        found.bytes += times.bytes;
        if let Err(error) = read_times(store, times).await {
            found.lost.push(Damage {
                file: times.file.clone(),
                table: None,
                scus: Some(Span::new(times.first, times.last)),
                keys: None,
                current: false,
                what: format!("{}: when these SCUs came to be", error.fact()),
            });
        }
    }
    let mut damaged = DamagedFiles::new();
    look_at_logs(store, &manifest, &mut found, &mut damaged).await?;
    look_at_segments(env, &manifest, &mut found, &mut damaged).await?;
    found.errors = damaged.into_values().collect();
    Ok(found)
}

/// Logs: those of sorted SCUs hold what runs hold too, all others hold it alone.
async fn look_at_logs(
    store: &dyn Store,
    manifest: &Manifest,
    found: &mut Examination,
    damaged: &mut DamagedFiles,
) -> Result<()> {
    let mut files = BTreeSet::new();
    for (scu, entry) in &manifest.scus {
        files.extend(entry.files.iter().cloned());
        let (checked, tables) = match open_sealed(store, entry).await {
            Err(error) => (Err(error), entry.tables.keys().copied().collect()),
            Ok(opened) => {
                let mut lost = Vec::new();
                for table in entry.tables.keys() {
                    let Some(state) = manifest.tables.get(table) else {
                        continue;
                    };
                    let read = opened.read_table(store, state.at(*scu), u32::MAX).await;
                    if read.is_err_and(|error| error.damaged_file().is_some()) {
                        lost.push(*table);
                    }
                }
                (opened.check_log(store).await, lost)
            }
        };
        let Err(error) = checked else {
            continue;
        };
        let file = error.damaged_file().unwrap_or("log/").to_owned();
        damaged.insert(file.clone(), error.clone());
        let damage = |table: Option<String>| Damage {
            file: file.clone(),
            table,
            scus: Some(Span::single(*scu)),
            keys: None,
            current: *scu > manifest.sorted_through,
            what: error.fact(),
        };
        if *scu <= manifest.sorted_through {
            // Unless a run was lost with it, which is told with the runs.
            found.healable.push(damage(None));
            continue;
        }
        for table in tables {
            found.lost.push(damage(Some(manifest.table_name(table))));
        }
    }
    found.files += files.len() as u64;
    match examine_log(store, manifest).await {
        Ok(_) => Ok(()),
        Err(error) if error.damaged_file().is_some() || error.file().is_none() => {
            found.closed = Some(error);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

async fn look_at_segments(
    env: &Env,
    manifest: &Manifest,
    found: &mut Examination,
    damaged: &mut DamagedFiles,
) -> Result<()> {
    for SegmentPart { layout, meta, .. } in segments_of(manifest)? {
        found.files += 1;
        found.bytes += meta.bytes;
        found.segments.insert(meta.file.clone());
        if let Err(error) = verify_segment(env, &layout, &meta).await {
            if error.damaged_file().is_none() {
                return Err(error);
            }
            damaged.insert(meta.file.clone(), error);
        }
    }
    for error in condemned::load(&*env.store).await?.condemned {
        let file = error.file().unwrap_or_default().to_owned();
        damaged.entry(file).or_insert(error);
    }
    // What is made again serves to make others again.
    let outlook = outlook(manifest, damaged);
    for (runs, list) in [
        (&outlook.healable, &mut found.healable),
        (&outlook.lost, &mut found.lost),
    ] {
        for run in runs {
            list.extend(damages(manifest, manifest.run(*run), damaged)?);
        }
    }
    Ok(())
}

/// What is damaged of a run.
fn damages(manifest: &Manifest, run: &Run, damaged: &DamagedFiles) -> Result<Vec<Damage>> {
    let current = manifest.current_runs().contains(&run.id);
    let state = manifest.table_of_view(run.view);
    let state = state.ok_or_else(|| Error::internal("a run has no table"))?;
    let layout = RowLayout::primary(state.at(run.changes_through))?;
    let mut damages = Vec::new();
    for meta in &run.segments {
        let Some(error) = damaged.get(&meta.file) else {
            continue;
        };
        damages.push(Damage {
            file: meta.file.clone(),
            table: Some(state.table.name.clone()),
            scus: Some(run.span),
            keys: keys_of(&layout, meta),
            current,
            what: error.fact(),
        });
    }
    Ok(damages)
}

/// The least and the greatest key of a segment in words.
fn keys_of(layout: &RowLayout, meta: &SegmentMeta) -> Option<(String, String)> {
    if meta.is_lost() {
        return None;
    }
    let columns = layout.codec.decode([&meta.min_key, &meta.max_key]).ok()?;
    let row = |row: usize| {
        let cell = |column: &ArrayRef| array_value_to_string(column, row);
        let cells: Result<Vec<String>, _> = columns.iter().map(cell).collect();
        cells.ok().map(|cells| format!("({})", cells.join(", ")))
    };
    Some((row(0)?, row(1)?))
}

/// What was set aside so that the database opens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetAside {
    /// The files, as they were named; they are below `set-aside/` now.
    pub files: Vec<String>,
    /// Why, a line for each step: also where the file that kept the database from opening is gone,
    /// and none was moved.
    pub why: Vec<String>,
    /// What is lost, as far as what is left tells: the rows of batches that were acknowledged, most
    /// likely, and stand behind the damage of a log; the definitions in files of the manifest, and
    /// the rows that nothing else leads to.
    pub lost: Vec<Damage>,
    /// The newest checkpoint of the history that began.
    begun: Option<u64>,
    given_up: GivenUp,
    /// The rows behind the damage of logs.
    cut: Rows,
}

impl SetAside {
    /// Whether something was given up, moved or not.
    pub fn is_something(&self) -> bool {
        !self.why.is_empty()
    }

    /// Whether damage is of a file of the manifest below the history that began: what it said was
    /// given up, or is in the checkpoint. Nothing makes it again.
    pub fn is_given_up(&self, damage: &Damage) -> bool {
        let number = FileKind::of_name(&damage.file).map(|(_, number)| number);
        number.is_some_and(|number| self.begun.is_some_and(|begun| number <= begun))
    }
}

/// Moves files of the manifest's and the log's end aside until the rest opens: the damaged one,
/// and all that came after it. What they said is lost to the database, but for whole frames of the
/// log before the damage, and those of sealed SCUs; the files are kept.
///
/// # Errors
/// The store's; `Corrupt` when what is left does not open either.
#[boxed(?Send)]
pub async fn set_aside(env: &Env) -> Result<SetAside> {
    let mut done = SetAside::default();
    finish_cuts(&*env.store).await?;
    let mut history = None;
    let mut met = BTreeSet::new();
    loop {
        let found = examine(env).await?;
        let Some(error) = found.closed else {
            let manifest = manifest_without(env, &[]).await?;
            let held = examine_log(&*env.store, &manifest).await?;
            let lost = done.given_up.lost(&manifest, &held, &done.cut);
            done.lost.extend(lost);
            return Ok(done);
        };
        let Some(file) = error.file().map(str::to_owned) else {
            return Err(error);
        };
        // What was cut there already does not open for being cut again.
        if !met.insert((file.clone(), error.offset())) {
            return Err(error);
        }
        done.why.push(error.fact());
        match FileKind::of_name(&file) {
            Some((_, number)) => {
                let (manifest, files) = manifest_before(env, number, &error, &mut done.why).await?;
                let gone = (file.as_str(), &files[..]);
                done.given_up.note(&*env.store, &manifest, gone).await;
                done.begun = Some(begin_history(env, manifest, &mut history, number).await?);
                for file in files {
                    move_aside(&*env.store, &file).await?;
                    done.files.push(file);
                }
            }
            None if file.starts_with(LOG) => {
                let manifest = manifest_without(env, &[]).await?;
                // A batch that came with DDL and is gone: where it stood is not known.
                let no_batch = error.offset().is_none() && manifest.ddl_batch.is_some();
                let manifest = Manifest {
                    ddl_batch: manifest.ddl_batch.filter(|_| !no_batch),
                    ..manifest
                };
                if no_batch || history.is_none() {
                    let begun = begin_history(env, manifest.clone(), &mut history, 0).await?;
                    done.begun = Some(begun);
                }
                if !no_batch {
                    cut_logs(&*env.store, &manifest, (&file, error.offset()), &mut done).await?;
                }
            }
            None => return Err(error),
        }
    }
}

/// The files of the manifest from a number on, the newest first.
async fn manifest_files_from(store: &dyn Store, from: u64) -> Result<Vec<String>> {
    let mut files = BTreeMap::new();
    for (name, _) in store.list("manifest/").await? {
        if let Some((kind, number)) = FileKind::of_name(&name).filter(|(_, of)| *of >= from) {
            files.insert((number, kind), name);
        }
    }
    Ok(files.into_values().rev().collect())
}

/// The newest manifest that can be read before a number, and the files that come after it: what is
/// left of the one damaged file may not open for an older one.
async fn manifest_before(
    env: &Env,
    number: u64,
    error: &Error,
    why: &mut Vec<String>,
) -> Result<(Manifest, Vec<String>)> {
    let mut from = number;
    loop {
        let files = manifest_files_from(&*env.store, from).await?;
        let met = match manifest_without(env, &files).await {
            Ok(manifest) => return Ok((manifest, files)),
            Err(met) => met,
        };
        match met.file().and_then(FileKind::of_name) {
            Some((_, older)) if older < from => from = older,
            _ => {
                let hint = "nothing of the manifest can be read without it: restore a backup";
                return Err(error.clone().with_hint(hint));
            }
        }
        why.push(met.fact());
    }
}

/// The manifest that is left without some files.
async fn manifest_without(env: &Env, files: &[String]) -> Result<Manifest> {
    let without = Env {
        store: Arc::new(Without {
            inner: Arc::clone(&env.store),
            hidden: files.iter().cloned().collect(),
        }),
        ..env.clone()
    };
    let manifests = ManifestStore::open_read_only(&without).await?;
    Ok(manifests.current().as_ref().clone())
}

/// Writes a checkpoint of another history above all numbers that there are, and above `number`:
/// from then on the database is what it says, whatever becomes of the files below. Returns its
/// number.
async fn begin_history(
    env: &Env,
    manifest: Manifest,
    history: &mut Option<u32>,
    number: u64,
) -> Result<u64> {
    let old = manifest.database.history;
    let history = *history.get_or_insert_with(|| other_history(env, old));
    let listed = env.store.list("manifest/").await?;
    let numbers = listed
        .iter()
        .filter_map(|(name, _)| FileKind::of_name(name));
    let newest = numbers.map(|(_, number)| number).max();
    let mut manifest = manifest;
    manifest.database.history = history;
    manifest.epoch += 1;
    if let Some(named) = newest_table(&*env.store).await? {
        manifest.next_table = manifest.next_table.max(named.0 + 1);
    }
    manifest.number = newest.unwrap_or(0).max(number).max(manifest.number) + 1;
    let name = FileKind::Checkpoint.file_name(manifest.number);
    let bytes = encode_checkpoint(env.random.next_u64(), &manifest)?;
    env.store.put_if_absent(&name, bytes).await?;
    Ok(manifest.number)
}

/// The number of a history that no token of the old one fits.
pub(crate) fn other_history(env: &Env, old: u32) -> u32 {
    loop {
        let drawn = env.random.next_u64() as u32;
        if drawn != old {
            return drawn;
        }
    }
}

/// Moves a damaged log file aside, and all after it, the newest first; what of them still counts is
/// put in their places.
async fn cut_logs(
    store: &dyn Store,
    manifest: &Manifest,
    (first, cut): (&str, Option<u64>),
    done: &mut SetAside,
) -> Result<()> {
    let listed = store.list(LOG).await?;
    let files = listed
        .iter()
        .rev()
        .filter(|(name, _)| name.as_str() >= first);
    for (file, bytes) in files {
        let copy = format!("{CUTS}{}", file.trim_start_matches(LOG));
        let cut = cut.filter(|_| file == first);
        let kept = match keep_whole_frames(store, manifest, (file, cut), &copy).await {
            Ok(kept) => kept,
            Err(error) if error.damaged_file().is_some() || error.sqlstate() == UNREADABLE => {
                done.why
                    .push(format!("{}: nothing of it can be kept", error.fact()));
                store.delete(&copy).await?;
                KeptFrames::default()
            }
            Err(error) => return Err(error),
        };
        move_aside(store, file).await?;
        if kept.is_copied {
            store.create_log(file, *bytes, Some(&copy)).await?;
        }
        done.files.push(file.clone());
        for ((scu, table), rows) in kept.given_up {
            *done.cut.entry((scu, table)).or_default() += rows;
            let state = manifest.tables.get(&table);
            let name = state.map(|state| state.table.name.clone());
            done.lost.push(Damage {
                file: file.clone(),
                table: Some(name.unwrap_or_else(|| done.given_up.name(table))),
                scus: Some(Span::single(scu)),
                keys: None,
                current: true,
                what: format!("stored rows that were set aside with {file}: {rows}"),
            });
        }
    }
    Ok(())
}

/// Finishes a setting aside that was broken off, as opening the database does.
///
/// # Errors
/// The store's.
#[boxed(?Send)]
pub async fn finish_set_aside(env: &Env) -> Result<()> {
    finish_cuts(&*env.store).await
}

/// The logs whose copies wait to take their places.
async fn pending_cuts(store: &dyn Store) -> Result<Vec<String>> {
    let mut pending = Vec::new();
    for (copy, _) in store.list(CUTS).await? {
        let file = format!("{LOG}{}", copy.trim_start_matches(CUTS));
        if store.list(&file).await?.is_empty() {
            pending.push(file);
        }
    }
    Ok(pending)
}

/// Puts copies in their places that a setting aside which was broken off had made: also when the
/// database is opened, for until then batches are missing that count, and nothing else may tell.
pub(crate) async fn finish_cuts(store: &dyn Store) -> Result<()> {
    for (copy, bytes) in store.list(CUTS).await? {
        let file = format!("{LOG}{}", copy.trim_start_matches(CUTS));
        let listed = store.list(&file).await?;
        match listed.is_empty() {
            true => drop(store.create_log(&file, bytes, Some(&copy)).await?),
            false => store.delete(&copy).await?,
        }
    }
    Ok(())
}

async fn move_aside(store: &dyn Store, file: &str) -> Result<()> {
    let mut name = format!("{SET_ASIDE}{file}.kept");
    let there = store.list(SET_ASIDE).await?;
    while there.iter().any(|(known, _)| *known == name) {
        name += ".kept";
    }
    store.rename(file, &name).await?;
    Ok(())
}

/// A store as if some files were gone; it can't be written.
#[derive(Debug)]
struct Without {
    inner: Arc<dyn Store>,
    hidden: BTreeSet<String>,
}

impl Without {
    fn check(&self, name: &str) -> StoreResult<()> {
        match self.hidden.contains(name) {
            true => Err(StoreError::NotFound(name.to_owned())),
            false => Ok(()),
        }
    }
}

fn refused<T>(name: &str) -> StoreResult<T> {
    Err(StoreError::DefinitelyNot {
        name: name.to_owned(),
        reason: "the database is only looked at".to_owned(),
        full: false,
    })
}

#[async_trait]
impl Store for Without {
    async fn put_if_absent(&self, name: &str, _: Bytes) -> StoreResult<()> {
        refused(name)
    }

    async fn create(&self, name: &str) -> StoreResult<Box<dyn FileWriter>> {
        refused(name)
    }

    async fn read(&self, name: &str, range: Range<u64>) -> StoreResult<Bytes> {
        self.check(name)?;
        self.inner.read(name, range).await
    }

    async fn len(&self, name: &str) -> StoreResult<u64> {
        self.check(name)?;
        self.inner.len(name).await
    }

    async fn list(&self, prefix: &str) -> StoreResult<Vec<(String, u64)>> {
        let mut listed = self.inner.list(prefix).await?;
        listed.retain(|(name, _)| !self.hidden.contains(name));
        Ok(listed)
    }

    async fn delete(&self, name: &str) -> StoreResult<()> {
        refused(name)
    }

    async fn create_log(
        &self,
        name: &str,
        _: u64,
        _: Option<&str>,
    ) -> StoreResult<Box<dyn LogFile>> {
        refused(name)
    }
}
