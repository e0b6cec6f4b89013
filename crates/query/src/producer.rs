//! Writes of a session under a producer's numbers, each of which counts once.
//!
//! ```text
//!   SET lazybase.producer = 'p'     the next numbered write opens p, and fences its older sessions
//!   SET lazybase.batch_number = 7   the next write, a statement or a COMMIT, is p's batch 7
//! ```
//!
//! Reads and writes the session. Invariant PRD-1: a number is used for one write; it stays set
//! after one that failed, so that the client can send it again.

use lazybase_cluster::BatchNumber;
use lazybase_model::{Error, Result};

use crate::session::{Shared, State};

impl Shared {
    /// Opens the producer that the session names, before its first numbered write.
    ///
    /// # Errors
    /// `Invalid` for a number without a producer.
    pub(crate) async fn open_producer(&self) -> Result<()> {
        let name = {
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
                    name.clone()
                }
            }
        };
        let (epoch, _) = self.instance().open_producer(&name).await?;
        self.state.lock().producer = Some((name, epoch));
        Ok(())
    }

    /// The number that was given for the next write is used.
    pub(crate) fn number_used(&self) {
        self.state.lock().settings.batch_number = None;
    }
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
