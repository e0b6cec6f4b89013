//! Loading: the newest checkpoint and the edits after it become the manifest.
//!
//! ```text
//!   checkpoint 256   edit 257   edit 258  ...  edit 300      => manifest 300
//!   ^ damaged? then checkpoint 0 (or nothing) and edits 1 ... 300: the two newest checkpoints
//!     and all edits since the older one are kept for this
//! ```
//!
//! What may be damaged or gone, and nothing is lost:
//!
//! - an edit, if a checkpoint of its number or of a greater one can be read: it is not needed;
//! - a checkpoint, if all edits after an older one (or from the first on), up to its number and on
//!   to the newest there is, can be read and applied: they tell what it says.
//!
//! Any other gap in the numbers or damaged file is an error that names the file: files appear whole
//! or not at all, so a crash can't have left either.
//!
//! Reads the manifest's files, writes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use lazybase_model::{Error, Result};

use super::check;
use super::edit::Edit;
use super::file::{self, Content, FileKind, Unreadable};
use super::state::{Manifest, SegmentMeta};
use crate::env::{Store, StoreError};

/// How many edits are fetched at once.
const READS_AT_ONCE: usize = 16;

/// How often a listing is made again because a file of it was gone when it was read.
const LISTINGS_MAX: usize = 8;

/// Numbers and lengths of the manifest's files.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) edits: BTreeMap<u64, u64>,
    pub(super) checkpoints: BTreeMap<u64, u64>,
}

impl Listing {
    pub(super) async fn of(store: &dyn Store) -> Result<Listing> {
        let mut listing = Listing::default();
        for (name, bytes) in store.list(file::FOLDER).await? {
            match FileKind::of_name(&name) {
                Some((FileKind::Edit, number)) => listing.edits.insert(number, bytes),
                Some((FileKind::Checkpoint, number)) => listing.checkpoints.insert(number, bytes),
                None => continue,
            };
        }
        Ok(listing)
    }

    fn newest(&self) -> Option<u64> {
        let edits = self.edits.last_key_value();
        let checkpoints = self.checkpoints.last_key_value();
        edits.max(checkpoints).map(|(number, _)| *number)
    }
}

/// What was loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) manifest: Manifest,
    /// The checkpoint that it began with; 0 when there was none.
    pub(super) checkpoint: u64,
    /// Newer checkpoints that could not be read.
    pub(super) damaged: Vec<Error>,
}

/// Loads the newest manifest; `None` when there is no file of any.
///
/// # Errors
/// `Corrupt`, naming the file, when an edit is damaged or missing, or no checkpoint that is old
/// enough can be read, or when a file was written by a newer version.
pub(super) async fn load(store: &dyn Store) -> Result<Option<Loaded>> {
    for _ in 1..LISTINGS_MAX {
        let listing = Listing::of(store).await?;
        match load_listed(store, &listing).await {
            // A writer that runs beside a reader removes what its new checkpoint replaces.
            Err(Failure::Gone(_)) => continue,
            loaded => return loaded.map_err(advised),
        }
    }
    let listing = Listing::of(store).await?;
    load_listed(store, &listing).await.map_err(advised)
}

/// The error, with what helps where a file is what keeps the database from opening.
fn advised(failure: Failure) -> Error {
    let error = Error::from(failure);
    match error.damaged_file().is_some() && error.hint().is_none() {
        true => error.with_hint("`lazybase repair --dry-run` says what is whole and what is lost"),
        false => error,
    }
}

/// Why a file can't be read.
pub(super) enum Failure {
    /// It was listed, but is gone.
    Gone(String),
    /// Its bytes are damaged, or can't be had: what replaces it may be read instead.
    Damaged(Error),
    /// Nothing may be read instead.
    Error(Error),
}

impl From<Unreadable> for Failure {
    fn from(unreadable: Unreadable) -> Failure {
        match unreadable {
            Unreadable::Damaged(error) => Failure::Damaged(error),
            Unreadable::Newer(error) => Failure::Error(error),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Gone(name) => Error::corrupt(format!("{name}: listed, but not there")),
            Failure::Damaged(error) | Failure::Error(error) => error,
        }
    }
}

async fn read(store: &dyn Store, name: &str, bytes: u64) -> Result<Content, Failure> {
    match store.read(name, 0..bytes).await {
        Ok(bytes) => Ok(file::decode(name, &bytes)?.1),
        Err(StoreError::NotFound(name)) => Err(Failure::Gone(name)),
        Err(error) => Err(Failure::Damaged(Error::from(error).with_file(name))),
    }
}

pub(super) async fn read_checkpoint(
    store: &dyn Store,
    number: u64,
    bytes: u64,
) -> Result<Manifest, Failure> {
    let name = FileKind::Checkpoint.file_name(number);
    match read(store, &name, bytes).await? {
        Content::Checkpoint(mut manifest) => {
            share_all_segments(&mut manifest);
            Ok(*manifest)
        }
        Content::Edit(_) => Err(wrong_kind(&name)),
    }
}

pub(super) async fn read_edit(
    store: &dyn Store,
    number: u64,
    bytes: u64,
) -> Result<(u64, Edit), Failure> {
    let name = FileKind::Edit.file_name(number);
    match read(store, &name, bytes).await? {
        Content::Edit(edit) => Ok((number, *edit)),
        Content::Checkpoint(_) => Err(wrong_kind(&name)),
    }
}

/// The damaged ones of the files that an opening has no need of, which began with checkpoint `base`
/// (or with none: 0): edits up to it, and older checkpoints. What they say it says too.
///
/// # Errors
/// When the files can't be listed.
pub(super) async fn passed_over(store: &dyn Store, base: u64) -> Result<Vec<Error>> {
    let listing = Listing::of(store).await?;
    let mut damaged = Vec::new();
    for (number, bytes) in listing.edits.range(..=base) {
        let name = FileKind::Edit.file_name(*number);
        damaged.extend(damage_of(store, &name, *bytes).await);
    }
    for (number, bytes) in listing.checkpoints.range(..base) {
        let name = FileKind::Checkpoint.file_name(*number);
        damaged.extend(damage_of(store, &name, *bytes).await);
    }
    Ok(damaged)
}

/// Why the bytes of a file are not those that were written, if they are not.
async fn damage_of(store: &dyn Store, name: &str, bytes: u64) -> Option<Error> {
    let read = match store.read(name, 0..bytes).await {
        Ok(read) => file::decode_header(name, &read).map(drop),
        // It was replaced meanwhile.
        Err(StoreError::NotFound(_)) => return None,
        Err(error) => Err(Unreadable::Damaged(Error::from(error).with_file(name))),
    };
    match read {
        Err(Unreadable::Damaged(error)) => Some(error),
        // Of a newer version nothing is said.
        Err(Unreadable::Newer(_)) | Ok(()) => None,
    }
}

fn wrong_kind(name: &str) -> Failure {
    let error = Error::corrupt(format!("{name}: the file stands under a wrong name"));
    Failure::Damaged(error.with_file(name))
}

async fn load_listed(store: &dyn Store, listing: &Listing) -> Result<Option<Loaded>, Failure> {
    let Some(newest) = listing.newest() else {
        return Ok(None);
    };
    let mut damaged = Vec::new();
    let mut base = None;
    for (number, bytes) in listing.checkpoints.iter().rev() {
        match read_checkpoint(store, *number, *bytes).await {
            Ok(manifest) => {
                base = Some(manifest);
                break;
            }
            Err(Failure::Damaged(error)) => damaged.push(error),
            Err(failure) => return Err(failure),
        }
    }
    let checkpoint = base.as_ref().map_or(0, |base| base.number);
    if let Some(error) = cannot_bridge(listing, checkpoint, newest, &damaged) {
        return Err(error.into());
    }
    let edits: Vec<(u64, Edit)> = stream::iter(listing.edits.range(checkpoint + 1..))
        .map(|(number, bytes)| read_edit(store, *number, *bytes))
        .buffered(READS_AT_ONCE)
        .try_collect()
        .await?;
    let manifest = replay(base, &edits)?;
    check::check_loaded(&manifest)?;
    Ok(Some(Loaded {
        manifest,
        checkpoint,
        damaged,
    }))
}

/// Why the edits that are there do not lead from `checkpoint` to `newest`, if they do not.
fn cannot_bridge(
    listing: &Listing,
    checkpoint: u64,
    newest: u64,
    damaged: &[Error],
) -> Option<Error> {
    let missing = (checkpoint + 1..=newest).find(|number| !listing.edits.contains_key(number))?;
    let missing = FileKind::Edit.file_name(missing);
    Some(match damaged.first() {
        Some(error) => {
            let detail = format!("{missing}, which could replace it, is gone");
            error.clone().with_detail(detail)
        }
        None => Error::corrupt(format!("{missing}: the file is missing"))
            .with_file(&missing)
            .with_detail(format!("the manifest's files go on to number {newest}")),
    })
}

fn replay(base: Option<Manifest>, edits: &[(u64, Edit)]) -> Result<Manifest> {
    let place = |number: u64| FileKind::Edit.file_name(number);
    let (mut manifest, edits) = match (base, edits) {
        (Some(manifest), edits) => (manifest, edits),
        (None, [(number, edit), rest @ ..]) => {
            let first = Manifest::first(edit).map_err(|error| damaged(error, place(*number)))?;
            (first, rest)
        }
        (None, []) => return Err(Error::internal("a manifest of no file was asked for")),
    };
    for (number, edit) in edits {
        manifest = manifest
            .into_next(edit)
            .map_err(|error| damaged(error, place(*number)))?;
    }
    Ok(manifest)
}

/// An edit that was committed can be applied: if it can't, the files are not what was written.
pub(super) fn damaged(error: Error, name: String) -> Error {
    Error::corrupt(format!("{name}: the edit does not fit what is before it"))
        .with_file(&name)
        .with_detail(error.message().to_owned())
}

/// Runs that name one segment share one value of it.
fn share_all_segments(manifest: &mut Manifest) {
    let mut known: BTreeMap<String, Arc<SegmentMeta>> = BTreeMap::new();
    for run in manifest.runs.values_mut() {
        for segment in &mut Arc::make_mut(run).segments {
            match known.get(&segment.file) {
                Some(same) if same == segment => *segment = Arc::clone(same),
                _ => drop(known.insert(segment.file.clone(), Arc::clone(segment))),
            }
        }
    }
}
