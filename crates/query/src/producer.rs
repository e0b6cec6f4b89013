//! Writes of a session under a producer's numbers, each of which counts once.
//!
//! ```text
//!   SET lazybase.producer = 'p'     the next numbered write opens p, and fences its older sessions
//!   SET lazybase.batch_number = 7   the next write, a statement or a COMMIT, is p's batch 7
//! ```
//!
//! SET, RESET and DISCARD of the producer forget that it was opened: so a session that was fenced
//! takes its producer over again.
//!
//! Reads and writes the session. Invariant PRD-1: a number is used for one write, be it one of no
//! rows; it stays set after one that failed, so that the client can send it again.

use lazybase_cluster::BatchNumber;
use lazybase_model::{Error, Result};

use crate::parse::Statement;
use crate::session::{Shared, State};

impl Shared {
    /// Opens the producer that the session names, before its first numbered write. It belongs to
    /// the role that opened it first.
    ///
    /// # Errors
    /// `Invalid` for a number without a producer, and for a producer of another role (42501).
    pub(crate) async fn open_producer(&self) -> Result<()> {
        let (name, role) = {
            let state = self.state.lock();
            match (&state.settings.producer, state.settings.batch_number) {
                (_, None) => return Ok(()),
                (None, Some(_)) => {
                    return Err(Error::invalid("a batch has a number, but no producer")
                        .with_hint("SET lazybase.producer = 'name'")
                        .with_sqlstate("55000"));
                }
                (Some(name), Some(_)) => {
                    let opened = state.producer.as_ref();
                    if opened.is_some_and(|(opened, _)| opened == name) {
                        return Ok(());
                    }
                    (name.clone(), state.identity.current)
                }
            }
        };
        let (epoch, _) = self.instance().open_producer_as(&name, role).await?;
        self.note_producer(&name, epoch);
        Ok(())
    }

    /// Refuses a statement that changes tables while a number waits for a batch of rows.
    ///
    /// # Errors
    /// `Invalid` (55000).
    pub(crate) fn check_number(&self, statement: &Statement) -> Result<()> {
        let state = self.state.lock();
        let waits = state.settings.batch_number.is_some() && state.transaction.is_none();
        match waits && statement.changes_tables() {
            true => Err(no_ddl()),
            false => Ok(()),
        }
    }

    /// The number that was given for the next write is used.
    pub(crate) fn number_used(&self) {
        self.state.lock().settings.batch_number = None;
    }
}

/// The refusal to change tables under a number.
pub(crate) fn no_ddl() -> Error {
    Error::invalid("a number is for a batch of rows, and tables can't be changed under it")
        .with_detail("a change of tables would not be done once, whatever its number")
        .with_hint("RESET lazybase.batch_number, or change tables before it is set")
        .with_sqlstate("55000")
}

impl State {
    /// The number of the next write, if the session gave one.
    pub(crate) fn batch_number(&self) -> Option<BatchNumber> {
        let number = self.settings.batch_number?;
        let (name, epoch) = self.producer.clone()?;
        Some(BatchNumber {
            name,
            epoch,
            number,
        })
    }
}
