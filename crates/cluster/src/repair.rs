//! Repair of a closed database: what is whole, what can be made again, what is lost; and what is
//! set aside so that the rest opens.
//!
//! ```text
//!   examine   manifest files, segments, logs --damage--> a stage before holds it: can be healed
//!             (writes nothing)                      \--> nothing holds it: lost, by table and SCUs
//!   repair    open, heal, close; examine once more
//!   set aside a damaged file of the manifest or of the log that keeps the database from opening
//!             goes to set-aside/, with all files after it: only if the operator says so
//! ```
//!
//! Invariant RPR-1: nothing is deleted that was not copied before, and nothing is put in the place
//! of what is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::util::display::array_value_to_string;
use async_trait::async_trait;
use bytes::Bytes;
use lazybase_engine::env::{Env, FileWriter, LogFile, Store, StoreError, StoreResult};
use lazybase_engine::manifest::file::FileKind;
use lazybase_engine::manifest::{Manifest, ManifestStore, Run, SegmentMeta, verify_files};
use lazybase_engine::read::remedy::{damaged_files, remedy};
use lazybase_engine::read::{DamagedFiles, read_times};
use lazybase_engine::segment::{RowLayout, verify_segment};
use lazybase_engine::stages::ingest::{examine as examine_log, open_sealed};
use lazybase_model::{Error, Result, Span};

/// The folder of what was set aside.
const SET_ASIDE: &str = "set-aside/";
/// How many times something is set aside before the database opens, at most.
const SET_ASIDE_MAX: usize = 1 << 16;

/// What a database's files are like.
#[derive(Debug, Clone, Default)]
pub struct Examination {
    /// Files that were read back in full, and their bytes.
    pub files: u64,
    /// See `files`.
    pub bytes: u64,
    /// Why the database does not open, if it does not. Nothing else is known then.
    pub closed: Option<Error>,
    /// What an earlier stage, or another file, still holds: opening the database heals it.
    pub healable: Vec<Damage>,
    /// What nothing holds.
    pub lost: Vec<Damage>,
    /// What was met in files, for [`crate::Instance::open_healing`].
    pub errors: Vec<Error>,
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
        self.closed.is_none() && self.healable.is_empty() && self.lost.is_empty()
    }
}

/// Looks at every file of a closed database; writes nothing.
///
/// # Errors
/// `NotFound` when there is no database; the store's errors. What is damaged is in the result.
pub async fn examine(env: &Env) -> Result<Examination> {
    let store = &*env.store;
    let mut found = Examination::default();
    if store.list("manifest/").await?.is_empty() {
        return Err(Error::not_found("there is no database here"));
    }
    let manifest = match ManifestStore::open_read_only(env).await {
        Ok(manifests) => manifests.current(),
        Err(error) => {
            found.closed = Some(error);
            return Ok(found);
        }
    };
    let of_manifest = verify_files(store).await?;
    found
        .healable
        .extend(of_manifest.iter().map(|error| Damage {
            file: error.file().unwrap_or("manifest/").to_owned(),
            table: None,
            scus: None,
            keys: None,
            current: false,
            what: format!("{error}; newer files of the manifest hold what it says"),
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
                what: format!("{error}: when these SCUs came to be"),
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
            what: error.to_string(),
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
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for run in manifest.runs.values() {
        let state = manifest.table_of_view(run.view);
        let state = state.ok_or_else(|| Error::internal("a run has no table"))?;
        let layout = Arc::new(RowLayout::primary(&state.table)?);
        for meta in run.segments.iter().filter(|meta| seen.insert(&meta.file)) {
            found.files += 1;
            found.bytes += meta.bytes;
            if let Err(error) = verify_segment(env, &layout, meta).await {
                if error.damaged_file().is_none() {
                    return Err(error);
                }
                damaged.insert(meta.file.clone(), error);
            }
        }
    }
    // What is made again serves to make others again, oldest first.
    let mut left = damaged.clone();
    loop {
        let is_broken = |run: &&Arc<Run>| !damaged_files(run, &left).is_empty();
        let broken: Vec<&Arc<Run>> = manifest.runs.values().filter(is_broken).collect();
        let heals =
            |run: &&&Arc<Run>| manifest.is_view(run.view) || remedy(manifest, run, &left).is_some();
        let Some(run) = broken.iter().find(heals) else {
            for run in broken {
                let lost = damages(manifest, run, &left)?;
                found.lost.extend(lost);
            }
            return Ok(());
        };
        found.healable.extend(damages(manifest, run, &left)?);
        for meta in &run.segments {
            left.remove(&meta.file);
        }
    }
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
            what: error.to_string(),
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
    /// Why, a line for each step.
    pub why: Vec<String>,
}

/// Moves files of the manifest's and the log's end aside until the rest opens: the damaged one,
/// and all that came after it. What they said is lost to the database; the files are kept.
///
/// # Errors
/// The store's; `Corrupt` when what is left does not open either.
pub async fn set_aside(env: &Env) -> Result<SetAside> {
    let mut done = SetAside::default();
    for _ in 0..SET_ASIDE_MAX {
        let found = examine(env).await?;
        let Some(error) = found.closed else {
            return Ok(done);
        };
        let files = files_from(&*env.store, &error).await?;
        if files.is_empty() {
            return Err(error);
        }
        if files.iter().any(|file| file.starts_with("manifest/")) {
            // There must be an older state to go back to.
            let without = Env {
                store: Arc::new(Without {
                    inner: Arc::clone(&env.store),
                    hidden: files.iter().cloned().collect(),
                }),
                ..env.clone()
            };
            if ManifestStore::open_read_only(&without).await.is_err() {
                return Err(error);
            }
        }
        done.why.push(error.to_string());
        for file in files {
            move_aside(&*env.store, &file).await?;
            done.files.push(file);
        }
    }
    Err(Error::internal("setting files aside does not end"))
}

/// The file that an error names, if it is there, and all of its kind after it, the newest first.
async fn files_from(store: &dyn Store, error: &Error) -> Result<Vec<String>> {
    let Some(first) = error.file() else {
        return Ok(Vec::new());
    };
    let number = FileKind::of_name(first).map(|(_, number)| number);
    let mut files = BTreeMap::new();
    match number {
        Some(number) => {
            for (name, _) in store.list("manifest/").await? {
                if let Some((kind, of)) = FileKind::of_name(&name).filter(|(_, of)| *of >= number) {
                    files.insert((of, kind), name);
                }
            }
        }
        None if first.starts_with("log/") => {
            for (at, (name, _)) in store.list("log/").await?.into_iter().enumerate() {
                if name.as_str() >= first {
                    files.insert((at as u64, FileKind::Edit), name);
                }
            }
        }
        None => {}
    }
    Ok(files.into_values().rev().collect())
}

async fn move_aside(store: &dyn Store, file: &str) -> Result<()> {
    let length = store.len(file).await?;
    let mut name = format!("{SET_ASIDE}{file}.kept");
    let there = store.list(SET_ASIDE).await?;
    while there.iter().any(|(known, _)| *known == name) {
        name += ".kept";
    }
    let mut writer = store.create(&name).await?;
    let mut at = 0;
    while at < length {
        let end = (at + (4 << 20)).min(length);
        writer.write(store.read(file, at..end).await?).await?;
        at = end;
    }
    writer.finish().await?;
    store.delete(file).await?;
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
