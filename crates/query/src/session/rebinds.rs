//! Statements that are bound anew, because a table that they name was altered meanwhile; no I/O.

use lazybase_model::Error;

use super::Shared;
use crate::alter;

/// How often a statement is bound anew to tables that others change meanwhile. What was prepared
/// under a definition that has ended was refused, and left nothing.
pub(crate) struct Rebinds(usize);

impl Rebinds {
    /// What a transaction has buffered, or a client has sent, can't be made again.
    pub(crate) fn of(session: &Shared, has_input: bool) -> Rebinds {
        let once = has_input || session.state.lock().transaction.is_some();
        Rebinds(if once { 0 } else { 16 })
    }

    /// Whether the statement shall be tried once more after this error.
    pub(crate) fn again(&mut self, error: &Error) -> bool {
        let again = self.0 > 0 && alter::is_stale(error);
        self.0 = self.0.saturating_sub(1);
        again
    }
}
