//! Ctrl-C while the data of a COPY are read: reading blocks whoever waits for the statement.
//!
//! ```text
//!   a thread of its own   Ctrl-C --> "is set", and a word to whoever types
//!   the statement         reads a line, or the end --> "is set"? --> an error: nothing is kept
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lazybase_model::{Error, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use crate::failure;
use crate::wall;

/// Whether the user has pressed Ctrl-C. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Interrupt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    heard: AtomicBool,
    /// Whether somebody waits for data at the moment.
    waits: AtomicBool,
}

/// Listens for Ctrl-C until it is dropped.
pub(super) struct Listening(JoinHandle<()>);

impl Interrupt {
    pub(super) fn is_set(&self) -> bool {
        self.0.heard.load(Ordering::SeqCst)
    }

    #[cfg(test)]
    pub(super) fn set(&self) {
        self.0.heard.store(true, Ordering::SeqCst);
    }

    /// Somebody begins to wait for data, or has them.
    pub(super) fn waits(&self, waits: bool) {
        self.0.waits.store(waits, Ordering::SeqCst);
    }

    /// Listens from now on. Somebody who `types` is told how the line that is waited for ends.
    ///
    /// # Errors
    /// `Unavailable` where no signal can be waited for.
    pub(super) fn listen(&self, types: bool) -> Result<Listening> {
        let failed = |error| Error::unavailable(format!("can't wait for signals: {error}"));
        let mut interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
        let interrupt = self.clone();
        Ok(Listening(wall::spawn(async move {
            while interrupts.recv().await.is_some() {
                interrupt.0.heard.store(true, Ordering::SeqCst);
                if types && interrupt.0.waits.load(Ordering::SeqCst) {
                    failure::note("\nnothing of it is kept: Enter goes back\n");
                }
            }
        })))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}
