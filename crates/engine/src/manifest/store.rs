//! The manifest's store: commits edits to the log, one at a time, and keeps checkpoints.
//!
//! ```text
//!   commit(edit)      writer's lock
//!     new = current.apply(edit); check(current, new)
//!     put-if-absent manifest/{number}.edit
//!        done .............................. call what waits for it, adopt
//!        already there or unknown: read back
//!           our nonce ...................... adopt
//!           another's ...................... fenced: stop
//!           can't be told .................. MaybeHappened; the next commit settles it first
//!     a checkpoint is due: put it, read it back, remove what it replaces
//!   tend              soon after the opening: look at the files that it had no need of
//!   close             a checkpoint of what is closed, which the edits tell too
//! ```
//!
//! Invariant MS-1: the current manifest is what loading the files would give. Invariant MS-2: a
//! file is removed only when two readable checkpoints, or one and all edits since the older, make
//! it unneeded. The names and bytes of files are in `docs/formats/manifest.md`.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures::lock::Mutex;
use lazybase_model::{DatabaseId, Error, ErrorKind, Result};

use super::check::check_commit;
use super::due::{Moment, is_due};
use super::edit::Edit;
use super::file::{self, FileKind};
use super::load::{self, Failure, Listing, Loaded};
use super::state::Manifest;
use crate::backup::RESTORE_MARK;
use crate::env::planted::{Planted, is_planted};
use crate::env::{Env, Random, Store, StoreError};

/// How often one write is tried before its fate is left to the next commit.
const TRIES_MAX: usize = 5;

/// How often opening begins again because another writer got in between.
const OPENINGS_MAX: usize = 16;

/// The current manifest, and the only way to change it.
pub struct ManifestStore {
    store: Arc<dyn Store>,
    random: Arc<dyn Random>,
    current: ArcSwap<Manifest>,
    writer: Mutex<Writer>,
}

/// What was met soon after an opening.
#[derive(Debug, Default)]
pub struct Tended {
    /// Files of the manifest that are damaged, of which others tell what they said.
    pub damaged: Vec<Error>,
    /// Why those are not replaced yet, or no checkpoint could be written that was due.
    pub refused: Option<Error>,
}

impl fmt::Debug for ManifestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManifestStore")
            .field("number", &self.current().number)
            .finish_non_exhaustive()
    }
}

/// What commits take turns for.
struct Writer {
    /// Why no commit is possible any more.
    stopped: Option<Error>,
    /// A write that was begun and whose end is not known: also one whose caller went away.
    pending: Option<Pending>,
    /// The newest checkpoint's number; 0 before the first.
    checkpoint: u64,
    /// Why the last try to write one failed.
    checkpoint_error: Option<Error>,
    /// What opening left to be done.
    untended: Untended,
    /// Damaged files that opening met, and had no need of.
    damaged: Vec<Error>,
}

/// What an opening leaves to be done after it.
enum Untended {
    /// The files are to be looked at that it had no need of: it began with this checkpoint.
    Files(u64),
    /// A checkpoint is to be written where one is due.
    Checkpoint,
    Nothing,
}

impl Writer {
    /// Nothing is written any more: whoever waits for an edit hears that it will not come.
    fn stop(&mut self, error: &Error) {
        self.stopped = Some(error.clone());
        self.pending = None;
    }
}

/// An edit on its way into the log.
struct Pending {
    next: Arc<Manifest>,
    nonce: u64,
    bytes: Bytes,
    /// Whether an earlier try may have happened.
    uncertain: bool,
    /// What waits for the edit to be in the log.
    then: Option<Then>,
    /// The edit once more, where that fault is planted.
    twice: Option<Bytes>,
}

/// Called once an edit is in the log, before anybody sees the manifest that it makes; dropped if
/// it never will be.
pub type Then = Box<dyn FnOnce() + Send>;

/// How a write to the log ended.
enum Ended {
    /// It is in the log.
    Ours,
    /// Another writer's edit stands in its place.
    Theirs,
    /// It did not happen, and won't.
    Not(Error),
    /// It may have happened.
    Unknown(Error),
    /// The file in its place can't be read.
    Damaged(Error),
}

impl ManifestStore {
    /// Opens the database for writing: loads its manifest, or creates the first one, and fences
    /// whoever wrote before.
    ///
    /// # Errors
    /// `Corrupt`, naming the file, when the files are damaged or of a newer version; what the
    /// store says when it can't be written.
    pub async fn open(env: &Env) -> Result<ManifestStore> {
        for _ in 0..OPENINGS_MAX {
            let Some(loaded) = load::load(&*env.store).await? else {
                create(env).await?;
                continue;
            };
            let (epoch, clock) = (loaded.manifest.epoch, loaded.manifest.clock_micros);
            let opened = ManifestStore::over(env, loaded, None);
            let barrier = Edit::Barrier {
                epoch: epoch + 1,
                clock_micros: clock.max(env.clock.wall_micros()),
            };
            match opened.commit(barrier).await {
                Ok(_) => return Ok(opened),
                // Another writer was quicker: load what it wrote, and fence it then.
                Err(error) if error.kind() == ErrorKind::Conflict => continue,
                Err(error) => return Err(error),
            }
        }
        Err(
            Error::unavailable("other writers keep changing the manifest")
                .with_hint("let one process at a time open the database"),
        )
    }

    /// Opens the database as it is, to look at it: nothing is written.
    ///
    /// # Errors
    /// `NotFound` when there is none; otherwise as [`ManifestStore::open`].
    pub async fn open_read_only(env: &Env) -> Result<ManifestStore> {
        match load::load(&*env.store).await? {
            Some(loaded) => {
                let stopped = Error::invalid("the database was opened for reading only");
                Ok(ManifestStore::over(env, loaded, Some(stopped)))
            }
            None => Err(Error::not_found("there is no database here")),
        }
    }

    fn over(env: &Env, loaded: Loaded, stopped: Option<Error>) -> ManifestStore {
        ManifestStore {
            store: Arc::clone(&env.store),
            random: Arc::clone(&env.random),
            current: ArcSwap::from_pointee(loaded.manifest),
            writer: Mutex::new(Writer {
                stopped,
                pending: None,
                checkpoint: loaded.checkpoint,
                checkpoint_error: None,
                untended: Untended::Files(loaded.checkpoint),
                damaged: loaded.damaged,
            }),
        }
    }

    /// The newest manifest.
    pub fn current(&self) -> Arc<Manifest> {
        self.current.load_full()
    }

    /// Commits an edit, and returns the manifest that it makes: durable, and current.
    ///
    /// # Errors
    /// `Conflict` and `NotFound` when the edit came too late (see [`Manifest::apply`]), `Internal`
    /// when it breaks an invariant, `Unavailable` when the store refuses: nothing was changed.
    /// `MaybeHappened` when the store can't tell. `Conflict` for good once another writer has
    /// fenced this one.
    pub async fn commit(&self, edit: Edit) -> Result<Arc<Manifest>> {
        self.commit_with(|_| Ok(edit)).await
    }

    /// Commits the edit that `build` makes of the newest manifest; no other commit comes between.
    /// This is how edits get ids that nobody else gives out.
    ///
    /// # Errors
    /// What `build` says, and as [`ManifestStore::commit`].
    pub async fn commit_with(
        &self,
        build: impl FnOnce(&Manifest) -> Result<Edit> + Send,
    ) -> Result<Arc<Manifest>> {
        self.write(build, None).await
    }

    /// Commits an edit, and calls `then` as soon as it is known to be in the log, before anybody
    /// sees the manifest that it makes. Where the store can't tell (`MaybeHappened`), `then` is
    /// kept until a later commit, or [`ManifestStore::settle_pending`], finds out: it is called
    /// if the edit is there, and dropped if not.
    ///
    /// # Errors
    /// As [`ManifestStore::commit`].
    pub async fn commit_then(&self, edit: Edit, then: Then) -> Result<Arc<Manifest>> {
        self.write(|_| Ok(edit), Some(then)).await
    }

    /// Finds out about an edit whose fate was not known; nothing else is written.
    ///
    /// # Errors
    /// `MaybeHappened` while it still can't be told; what the store says when it did not happen.
    pub async fn settle_pending(&self) -> Result<Arc<Manifest>> {
        self.settle(&mut *self.writer.lock().await).await?;
        Ok(self.current())
    }

    async fn write(
        &self,
        build: impl FnOnce(&Manifest) -> Result<Edit> + Send,
        then: Option<Then>,
    ) -> Result<Arc<Manifest>> {
        let mut writer = self.writer.lock().await;
        self.settle(&mut writer).await?;
        let current = self.current();
        let edit = build(&current)?;
        let next = current.apply(&edit)?;
        check_commit(&current, &next)
            .map_err(|error| error.within(format_args!("edit {}", edit.name())))?;
        let nonce = self.random.next_u64();
        let twice = is_planted(Planted::EditTwice)
            .then(|| file::encode_edit(next.number + 1, nonce, &edit))
            .transpose()?;
        writer.pending = Some(Pending {
            bytes: file::encode_edit(next.number, nonce, &edit)?,
            next: Arc::new(next),
            nonce,
            uncertain: false,
            then,
            twice,
        });
        self.settle(&mut writer).await?;
        // The edits hold all: it is tried again some edits later.
        let _ = self.checkpoint_if_due(&mut writer, Moment::Committed).await;
        Ok(self.current())
    }

    /// Brings a write that was begun to its end, and adopts it where it happened.
    async fn settle(&self, writer: &mut Writer) -> Result<()> {
        if let Some(error) = &writer.stopped {
            return Err(error.clone());
        }
        let Some(pending) = &mut writer.pending else {
            return Ok(());
        };
        let ended = append(&*self.store, pending).await;
        match ended {
            Ended::Ours => {
                if let Some(then) = pending.then.take() {
                    then();
                }
                self.current.store(Arc::clone(&pending.next));
                writer.pending = None;
                Ok(())
            }
            Ended::Not(error) => {
                writer.pending = None;
                Err(error)
            }
            Ended::Unknown(error) => Err(error),
            Ended::Theirs => {
                let message = "another process has taken over the database";
                let name = FileKind::Edit.file_name(pending.next.number);
                let error = Error::conflict(message)
                    .with_detail(format!("{name} is not what this one wrote"))
                    .with_hint("nothing can be written from here any more: open it again");
                writer.stop(&error);
                Err(error)
            }
            Ended::Damaged(error) => {
                writer.stop(&error);
                Err(error)
            }
        }
    }

    /// Whether the store has nothing newer than a manifest: no other writer has gone on from it.
    ///
    /// # Errors
    /// What the store says.
    pub async fn is_newest(&self, manifest: &Manifest) -> Result<bool> {
        let listed = self.store.list(file::FOLDER).await?;
        let mut files = listed
            .iter()
            .filter_map(|(name, _)| FileKind::of_name(name));
        Ok(files.all(|(_, number)| number <= manifest.number))
    }

    /// Why no commit is possible any more, if so: another writer has fenced this one, or the
    /// log's end can't be read.
    pub async fn stopped(&self) -> Option<Error> {
        self.writer.lock().await.stopped.clone()
    }
}

/// Checkpoints.
impl ManifestStore {
    /// Writes a checkpoint of the current manifest now, and removes what it replaces.
    ///
    /// # Errors
    /// What the store says; `Corrupt` when the checkpoint does not read back. The manifest is safe
    /// in its edits either way.
    pub async fn checkpoint(&self) -> Result<()> {
        let mut writer = self.writer.lock().await;
        self.settle(&mut writer).await?;
        self.write_checkpoint(&mut writer).await
    }

    async fn checkpoint_if_due(&self, writer: &mut Writer, moment: Moment) -> Result<()> {
        let edits = self.current().number - writer.checkpoint;
        if !is_due(moment, edits) {
            return Ok(());
        }
        let written = self.write_checkpoint(writer).await;
        writer.checkpoint_error = written.as_ref().err().cloned();
        written
    }

    /// What comes soon after an opening, which does not wait for it: looks at the files that
    /// opening had no need of, and writes a checkpoint where files are damaged or many edits were
    /// applied. The checkpoint replaces what is damaged; until it is there, each call tries again.
    /// After that, nothing is done.
    pub async fn tend(&self) -> Tended {
        if let Err(refused) = self.look_at_passed_over().await {
            return Tended {
                refused: Some(refused),
                ..Tended::default()
            };
        }
        let mut writer = self.writer.lock().await;
        if !matches!(writer.untended, Untended::Checkpoint) {
            return Tended::default();
        }
        let mut damaged = writer.damaged.clone();
        damaged.retain(|error| error.damaged_file().is_some());
        let moment = Moment::Opened {
            is_damaged: !damaged.is_empty(),
        };
        let refused = match writer.stopped.clone() {
            None => self.checkpoint_if_due(&mut writer, moment).await.err(),
            // What is damaged stays so.
            Some(stopped) => Some(stopped).filter(|_| !damaged.is_empty()),
        };
        if refused.is_none() || damaged.is_empty() {
            writer.untended = Untended::Nothing;
            writer.damaged.clear();
        }
        Tended { damaged, refused }
    }

    /// Looks once at the files that opening had no need of, while commits go on.
    async fn look_at_passed_over(&self) -> Result<()> {
        let base = match *self.writer.lock().await {
            Writer {
                stopped: None,
                untended: Untended::Files(base),
                ..
            } => base,
            _ => return Ok(()),
        };
        let passed_over = load::passed_over(&*self.store, base).await?;
        let mut writer = self.writer.lock().await;
        writer.damaged.extend(passed_over);
        writer.untended = Untended::Checkpoint;
        Ok(())
    }

    /// Writes a checkpoint where edits are newer than the newest one: after it, what is closed is
    /// told twice, and no single damaged file is missed. An edit in doubt stays so.
    ///
    /// # Errors
    /// As [`ManifestStore::checkpoint`].
    pub async fn close(&self) -> Result<()> {
        let mut writer = self.writer.lock().await;
        if writer.stopped.is_some() {
            return Ok(());
        }
        self.checkpoint_if_due(&mut writer, Moment::Closing).await
    }

    /// Why the last checkpoint that was due could not be written: the database works on, but
    /// opens slower and its log of edits grows.
    pub async fn checkpoint_error(&self) -> Option<Error> {
        self.writer.lock().await.checkpoint_error.clone()
    }

    /// Makes all older files of the manifest unneeded, damaged ones too: two new checkpoints
    /// replace them.
    ///
    /// # Errors
    /// What the store says: the manifest is safe in memory and in the files that are whole.
    pub async fn replace_files(&self) -> Result<()> {
        for _ in 0..2 {
            // Checkpoints have numbers of their own: an edit that changes nothing gives them.
            let barrier = |current: &Manifest| {
                Ok(Edit::Barrier {
                    epoch: current.epoch + 1,
                    clock_micros: current.clock_micros,
                })
            };
            self.commit_with(barrier).await?;
            self.checkpoint().await?;
        }
        Ok(())
    }

    async fn write_checkpoint(&self, writer: &mut Writer) -> Result<()> {
        let manifest = self.current();
        let bytes = file::encode_checkpoint(self.random.next_u64(), &manifest)?;
        let name = FileKind::Checkpoint.file_name(manifest.number);
        match self.store.put_if_absent(&name, bytes).await {
            // An earlier try may have left it: reading back decides.
            Ok(()) | Err(StoreError::AlreadyExists(_) | StoreError::Maybe { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let length = self.store.len(&name).await?;
        let read = load::read_checkpoint(&*self.store, manifest.number, length).await?;
        if read != *manifest {
            return Err(Error::corrupt(format!(
                "{name}: reads back as another manifest"
            )));
        }
        writer.checkpoint = manifest.number;
        self.remove_replaced().await
    }

    /// Keeps the two newest checkpoints that can be read, and the edits since the older of them:
    /// whichever of the files is damaged, the others tell what it said.
    async fn remove_replaced(&self) -> Result<()> {
        let listing = Listing::of(&*self.store).await?;
        let mut readable = Vec::new();
        let mut gone = Vec::new();
        for (number, bytes) in listing.checkpoints.iter().rev() {
            if readable.len() == 2 {
                gone.push(FileKind::Checkpoint.file_name(*number));
                continue;
            }
            match load::read_checkpoint(&*self.store, *number, *bytes).await {
                Ok(_) => readable.push(*number),
                Err(Failure::Damaged(error)) if error.kind() == ErrorKind::Corrupt => {
                    gone.push(FileKind::Checkpoint.file_name(*number));
                }
                // What the disk refuses now it may read when it is needed.
                Err(_) => {}
            }
        }
        if let [_, older] = readable[..] {
            let edits = listing.edits.range(..=older);
            gone.extend(edits.map(|(number, _)| FileKind::Edit.file_name(*number)));
        }
        for name in gone {
            self.store.delete(&name).await?;
        }
        Ok(())
    }
}

/// Writes the first edit of a new database.
async fn create(env: &Env) -> Result<()> {
    for folder in ["segments/", "log/"] {
        let listed = env.store.list(folder).await?;
        if listed.iter().any(|(name, _)| name == RESTORE_MARK) {
            return Err(Error::corrupt("a restore into this folder broke off")
                .with_hint("remove the folder, and restore once more"));
        }
        if let Some((name, _)) = listed.first() {
            return Err(Error::corrupt(format!("{name} is there, but no manifest"))
                .with_hint("restore the folder `manifest`, or choose an empty folder"));
        }
    }
    let database = DatabaseId {
        database: env.random.next_u64(),
        // Any 32 of the 64 bits are as good.
        history: env.random.next_u64() as u32,
    };
    let edit = Edit::Create {
        database,
        clock_micros: env.clock.wall_micros(),
    };
    let nonce = env.random.next_u64();
    let first = Manifest::first(&edit)?;
    let mut pending = Pending {
        bytes: file::encode_edit(first.number, nonce, &edit)?,
        next: Arc::new(first),
        nonce,
        uncertain: false,
        then: None,
        twice: None,
    };
    match append(&*env.store, &mut pending).await {
        // Whoever wrote it: it is loaded next.
        Ended::Ours | Ended::Theirs => Ok(()),
        Ended::Not(error) | Ended::Unknown(error) | Ended::Damaged(error) => Err(error),
    }
}

/// Puts an edit into the log, and finds out what became of it. A store that says "already exists"
/// has made sure of that, so a write whose fate is unknown is simply tried again.
async fn append(store: &dyn Store, pending: &mut Pending) -> Ended {
    let number = pending.next.number;
    let name = FileKind::Edit.file_name(number);
    // Were this call dropped half way, the write may have happened.
    let mut uncertain = std::mem::replace(&mut pending.uncertain, true);
    let mut last = None;
    for _ in 0..TRIES_MAX {
        let error = match store.put_if_absent(&name, pending.bytes.clone()).await {
            Ok(()) => return Ended::Ours,
            Err(StoreError::AlreadyExists(_)) => match read_nonce(store, &name).await {
                Ok(Ok(nonce)) if nonce == file::spell_nonce(pending.nonce) => {
                    if let Some(twice) = pending.twice.take() {
                        let name = FileKind::Edit.file_name(number + 1);
                        let _ = store.put_if_absent(&name, twice).await;
                    }
                    return Ended::Ours;
                }
                Ok(Ok(_)) => return Ended::Theirs,
                Ok(Err(damage)) => return Ended::Damaged(damage),
                Err(error) => {
                    uncertain = true;
                    error
                }
            },
            Err(error @ StoreError::Maybe { .. }) => {
                uncertain = true;
                error
            }
            Err(error) if !uncertain => return Ended::Not(error.into()),
            Err(error) => error,
        };
        last = Some(error);
    }
    let reason = last.map_or_else(String::new, |error| error.to_string());
    let message = format!("whether manifest edit {number} was written is not known");
    let error = Error::new(ErrorKind::MaybeHappened, message).with_detail(reason);
    Ended::Unknown(error)
}

/// The nonce of a file that is there; the inner error when its bytes are damaged.
async fn read_nonce(store: &dyn Store, name: &str) -> Result<Result<String>, StoreError> {
    let length = store.len(name).await?;
    let bytes = store.read(name, 0..length).await?;
    let header = file::decode_header(name, &bytes);
    Ok(header.map(|(header, _)| header.nonce).map_err(Error::from))
}

#[cfg(test)]
mod tests;
