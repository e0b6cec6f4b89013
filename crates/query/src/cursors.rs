//! The cursors that a session's server keeps for it, as `pg_cursors` shows them.
//!
//! Keeps memory only. The rows of cursors are the server's business.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::pg_catalog::{Cell, Row};
use crate::session::Session;
use crate::transaction::Transaction;

/// What is told of a cursor.
#[derive(Debug)]
pub struct CursorFacts {
    /// The statement that has declared it.
    pub statement: String,
    /// Whether it outlives its transaction.
    pub held: bool,
    /// Whether its rows are sent in binary.
    pub binary: bool,
}

/// The cursors of one session by their names, and when they were declared.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Mutex<BTreeMap<String, (CursorFacts, i64)>>);

/// A cursor that is listed; no longer once this is dropped.
#[derive(Debug)]
pub struct ListedCursor {
    of: Arc<Cursors>,
    name: String,
}

impl Drop for ListedCursor {
    fn drop(&mut self) {
        self.of.0.lock().remove(&self.name);
    }
}

impl Session {
    /// The number of the last savepoint of the session's transaction, of those that it has not
    /// forgotten; 0 where there is none. One that is set later has a greater number: what was
    /// opened under a number of at least that of a savepoint is taken back by ROLLBACK TO it.
    pub fn last_savepoint(&self) -> u64 {
        let state = self.shared().state.lock();
        let transaction = state.transaction.as_ref();
        transaction.map_or(0, Transaction::last_savepoint)
    }

    /// Lists a cursor that is kept for the session, whose name no other one of it has.
    pub fn list_cursor(&self, name: &str, facts: CursorFacts) -> ListedCursor {
        let shared = self.shared();
        let now = shared.instance().env().clock.wall_micros();
        let of = Arc::clone(&shared.cursors);
        of.0.lock().insert(name.to_owned(), (facts, now));
        let name = name.to_owned();
        ListedCursor { of, name }
    }
}

impl Cursors {
    /// The rows of `pg_cursors`.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let cursors = self.0.lock();
        let rows = cursors.iter().map(|(name, (facts, declared))| {
            vec![
                ("name", name.clone().into()),
                ("statement", facts.statement.clone().into()),
                ("is_holdable", facts.held.into()),
                ("is_binary", facts.binary.into()),
                ("creation_time", Cell::Moment(*declared)),
            ]
        });
        rows.collect()
    }
}
