//! What looks after the stored files: verification and backups.

use std::path::Path;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use lazybase_engine::env::Env;
use lazybase_engine::manifest::Pin;
use lazybase_engine::read::DamagedFiles;
use lazybase_model::{Error, ErrorKind, Result};

use super::Instance;
use crate::backup::{self, BackupReport};
use crate::coordinator::{Command, Event};
use crate::verify::{self, VerifyReport};
use crate::verify_table::{self, TableReport};

impl Instance {
    /// Re-reads every file that the newest manifest names.
    ///
    /// # Errors
    /// Only when the store can't be read at all: what is damaged is in the report.
    #[boxed]
    pub async fn verify(&self, progress: &(dyn Fn(f64) + Sync)) -> Result<VerifyReport> {
        verify::verify(&self.shared, progress).await
    }

    /// Compares what each later stage of a table holds with what the stage before it makes, for a
    /// share of the rows from 0 to 1, view by view as well. What differs is made again from the
    /// earlier stage.
    ///
    /// # Errors
    /// `NotFound` when there is no such table; `SnapshotTooOld` when it was held up for too long.
    /// What differs or can't be read is in the report.
    #[boxed]
    pub async fn verify_table(
        &self,
        name: &str,
        share: f64,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<TableReport> {
        let asked = (name, share);
        verify_table::verify_table(&self.shared, &self.events, asked, progress).await
    }

    /// Copies the database into the store of `target`, beside earlier backups there: consistent at
    /// the end of one SCU, while writers go on. Only files that are not there yet are copied.
    ///
    /// # Errors
    /// `Corrupt`, naming the file, when one is damaged and not made again within a minute, which is
    /// waited for; `Conflict` when the store holds backups of another database; `Unavailable` when
    /// a stage is paused or the target can't be written. No backup was made then.
    #[boxed]
    pub async fn backup(
        &self,
        target: &Env,
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<BackupReport> {
        self.backup_without(target, &[], progress).await
    }

    /// The same without some tables, their views and key maps: where their rows are lost, the
    /// others can still be backed up.
    ///
    /// # Errors
    /// As [`Instance::backup`]; `NotFound` when there is no such table; `Conflict` when another
    /// table needs it.
    #[boxed]
    pub async fn backup_without(
        &self,
        target: &Env,
        without: &[String],
        progress: &(dyn Fn(f64) + Sync),
    ) -> Result<BackupReport> {
        backup::take(self, target, without, progress).await
    }

    /// Opens a folder to back up into: it is empty or holds backups, and lies apart from the
    /// database's own.
    ///
    /// # Errors
    /// `Conflict`, naming what is there; `Unavailable` if the system refuses.
    pub fn open_backups(&self, folder: &Path) -> Result<Env> {
        backup::open_folder(self, folder)
    }

    /// Has the status show what somebody should know who was not told otherwise.
    pub fn note_trouble(&self, what: &str) {
        self.shared.report_trouble(&Error::unavailable(what));
    }

    /// The open SCU is sealed on request only, until the same is said with `hold` false.
    pub(crate) async fn hold_sealing(&self) -> Result<()> {
        self.ask(|reply| Command::HoldSealing { hold: true, reply })
            .await
    }

    /// Why a file holds wrong rows under right checksums, if it is known to.
    pub(crate) fn condemned(&self, file: &str) -> Option<Error> {
        let damaged = &self.shared.reader.damaged;
        let is_condemned = damaged.is_condemned(file);
        is_condemned.then(|| damaged.files().1.get(file).cloned())?
    }

    /// The files that are not to be trusted.
    pub(crate) fn damaged(&self) -> Arc<DamagedFiles> {
        self.shared.reader.damaged.files().1
    }

    pub(crate) fn send(&self, event: Event) -> Result<()> {
        let closed = |_| Error::new(ErrorKind::Cancelled, "the database is closed");
        self.events.send(event).map_err(closed)
    }

    /// Holds the newest manifest, and all files that it names.
    pub(crate) fn pin(&self, owner: &str) -> Pin {
        let pins = &self.shared.reader.pins;
        pins.pin(owner, || self.shared.manifests.current())
    }

    /// Remembers a file that was met damaged: it is read around, and made again.
    pub(crate) fn note_damage(&self, error: &Error) {
        self.shared.reader.damaged.note(error);
    }
}
