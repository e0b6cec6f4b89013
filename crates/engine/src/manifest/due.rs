//! When a checkpoint of the manifest is due: a plain function of the moment and of how many edits
//! are newer than the newest one.
//!
//! A checkpoint makes opening quick, and with the edits that led to it, which are kept, it tells
//! the same manifest a second time: of a closed database no single damaged file of the manifest
//! is missed.

use lazybase_model::limits::{EDITS_PER_CHECKPOINT, EDITS_PER_OPENING};

/// How many commits pass between tries to write a checkpoint that could not be written.
const RETRY_EDITS: u64 = 16;

/// When it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// An edit was committed.
    Committed,
    /// The database was opened a moment ago.
    Opened {
        /// Whether files of the manifest are damaged, of which others tell what they said.
        is_damaged: bool,
    },
    /// The database is being closed: no edit comes any more.
    Closing,
}

/// Whether a checkpoint is due where so many edits are newer than the newest one.
pub(super) fn is_due(moment: Moment, edits: u64) -> bool {
    match moment {
        Moment::Committed => edits
            .checked_sub(EDITS_PER_CHECKPOINT)
            .is_some_and(|late| late.is_multiple_of(RETRY_EDITS)),
        Moment::Opened { is_damaged } => is_damaged || edits >= EDITS_PER_OPENING,
        Moment::Closing => edits > 0,
    }
}

#[cfg(test)]
mod tests;
