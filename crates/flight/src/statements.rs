//! What clients hold handles of: statements that wait to be fetched or run, prepared statements,
//! transactions and savepoints.
//!
//! Reads and writes memory only. Invariant FLH-1: a ticket is good for one answer: fetching it
//! takes the statement out, and nothing is run twice. Handles that nobody uses end by themselves.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use lazybase_model::{Error, Result};
use lazybase_query::{Prepared, Session};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::calls::Told;
use crate::clock::now;
use crate::sessions::Id;

/// A statement whose answer waits to be fetched.
pub(crate) struct Ready {
    pub(crate) session: Arc<Session>,
    pub(crate) prepared: Arc<Prepared>,
    /// The rows of parameters that it is to be run with.
    pub(crate) bound: Option<Bound>,
    /// The columns that the client was told of.
    pub(crate) schema: SchemaRef,
    /// What it came to, where it was run already: it gives no rows.
    pub(crate) done: Option<Told>,
}

/// Rows of parameters.
#[derive(Clone)]
pub(crate) struct Bound {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

/// A prepared statement.
pub(crate) struct Statement {
    pub(crate) sql: String,
    pub(crate) session: Arc<Session>,
    /// The transaction that it was prepared in.
    pub(crate) transaction: Option<Id>,
    pub(crate) prepared: Arc<Prepared>,
    /// What the client has bound, with the statement as it is for values of these types.
    pub(crate) bound: Mutex<Option<(Bound, Arc<Prepared>)>>,
}

enum What {
    Ready(Box<Ready>),
    /// It is being fetched; it ends when this is told.
    Running(watch::Sender<bool>),
    Prepared(Arc<Statement>),
    /// With the other end of the connection that it was begun by, for a client that names no
    /// session.
    Transaction(Arc<Session>, Option<SocketAddr>),
    Savepoint {
        transaction: Id,
        name: String,
    },
}

struct Entry {
    /// The session that it goes with.
    owner: Id,
    used: Instant,
    what: What,
}

/// All handles.
pub(crate) struct Statements {
    idle: Duration,
    handles_max: usize,
    entries: Mutex<HashMap<Id, Entry>>,
}

/// What cancelling came to.
pub(crate) enum Cancelled {
    /// It ends, or has not begun.
    Yes,
    /// There is nothing to cancel any more.
    No,
}

/// A statement that is being fetched; it is forgotten when this is dropped.
pub(crate) struct Fetched {
    statements: Arc<Statements>,
    id: Id,
    pub(crate) cancel: watch::Receiver<bool>,
}

impl Drop for Fetched {
    fn drop(&mut self) {
        self.statements.entries.lock().remove(&self.id);
    }
}

impl Statements {
    pub(crate) fn new(idle: Duration, handles_max: usize) -> Statements {
        Statements {
            idle,
            handles_max,
            entries: Mutex::default(),
        }
    }

    fn add(&self, owner: Id, what: What) -> Result<Id> {
        let id = Id::random()?;
        let mut entries = self.entries.lock();
        if entries.len() >= self.handles_max {
            return Err(Error::unavailable("too many statements and transactions")
                .with_detail(format!("the limit is {}", self.handles_max))
                .with_hint("close prepared statements, fetch answers, end transactions")
                .with_sqlstate("53000"));
        }
        entries.insert(
            id,
            Entry {
                owner,
                used: now(),
                what,
            },
        );
        Ok(id)
    }

    pub(crate) fn add_ready(&self, owner: Id, ready: Ready) -> Result<Id> {
        self.add(owner, What::Ready(Box::new(ready)))
    }

    pub(crate) fn add_prepared(&self, owner: Id, statement: Statement) -> Result<Id> {
        self.add(owner, What::Prepared(Arc::new(statement)))
    }

    pub(crate) fn add_transaction(
        &self,
        owner: Id,
        session: Arc<Session>,
        connection: Option<SocketAddr>,
    ) -> Result<Id> {
        self.add(owner, What::Transaction(session, connection))
    }

    /// The transactions that a session has begun and not ended, and those that clients which name
    /// no session have begun by a connection.
    pub(crate) fn transactions(&self, owner: Id, connection: Option<SocketAddr>) -> Vec<Id> {
        let entries = self.entries.lock();
        let open = entries.iter().filter(|(_, entry)| match &entry.what {
            What::Transaction(_, begun_by) => {
                entry.owner == owner || (begun_by.is_some() && *begun_by == connection)
            }
            _ => false,
        });
        open.map(|(id, _)| *id).collect()
    }

    pub(crate) fn add_savepoint(&self, owner: Id, transaction: Id, name: String) -> Result<Id> {
        self.add(owner, What::Savepoint { transaction, name })
    }

    /// Takes a statement to fetch its answer.
    ///
    /// # Errors
    /// `NotFound` for a ticket that was used, or has expired.
    pub(crate) fn fetch(self: &Arc<Self>, handle: &[u8]) -> Result<(Ready, Fetched)> {
        let id = Id::read(handle).ok_or_else(|| unknown("ticket"))?;
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(&id) else {
            return Err(used_up());
        };
        let sender = watch::Sender::new(false);
        let cancel = sender.subscribe();
        match std::mem::replace(&mut entry.what, What::Running(sender)) {
            What::Ready(ready) => {
                let statements = Arc::clone(self);
                Ok((
                    *ready,
                    Fetched {
                        statements,
                        id,
                        cancel,
                    },
                ))
            }
            other => {
                entry.what = other;
                Err(used_up())
            }
        }
    }

    pub(crate) fn prepared(&self, handle: &[u8]) -> Result<Arc<Statement>> {
        self.find(handle, "prepared statement", |what| match what {
            What::Prepared(statement) => Some(Arc::clone(statement)),
            _ => None,
        })
    }

    /// The session of a transaction, with its id.
    pub(crate) fn transaction(&self, handle: &[u8]) -> Result<(Id, Arc<Session>)> {
        let session = self.find(handle, "transaction", |what| match what {
            What::Transaction(session, _) => Some(Arc::clone(session)),
            _ => None,
        })?;
        let id = Id::read(handle).ok_or_else(|| unknown("transaction"))?;
        Ok((id, session))
    }

    /// The transaction of a savepoint, and the savepoint's name.
    pub(crate) fn savepoint(&self, handle: &[u8]) -> Result<(Id, String)> {
        self.find(handle, "savepoint", |what| match what {
            What::Savepoint { transaction, name } => Some((*transaction, name.clone())),
            _ => None,
        })
    }

    fn find<T>(&self, handle: &[u8], word: &str, of: impl Fn(&What) -> Option<T>) -> Result<T> {
        let id = Id::read(handle).ok_or_else(|| unknown(word))?;
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(&id).ok_or_else(|| unknown(word))?;
        entry.used = now();
        of(&entry.what).ok_or_else(|| unknown(word))
    }

    /// Keeps a statement that waits for as long again.
    ///
    /// # Errors
    /// `NotFound` for a ticket that was used, or has expired.
    pub(crate) fn renew(&self, handle: &[u8]) -> Result<()> {
        let waits = |what: &What| matches!(what, What::Ready(_)).then_some(());
        self.find(handle, "ticket", waits)
    }

    /// Forgets a handle; what runs, runs on.
    pub(crate) fn close(&self, handle: &[u8]) {
        if let Some(id) = Id::read(handle) {
            let removed = self.entries.lock().remove(&id);
            drop(removed);
        }
    }

    /// Ends a statement that waits or runs.
    pub(crate) fn cancel(&self, handle: &[u8]) -> Cancelled {
        let Some(id) = Id::read(handle) else {
            return Cancelled::No;
        };
        let mut entries = self.entries.lock();
        match entries.get(&id).map(|entry| &entry.what) {
            Some(What::Ready(ready)) if ready.done.is_none() => {
                let removed = entries.remove(&id);
                drop(entries);
                drop(removed);
                Cancelled::Yes
            }
            Some(What::Running(running)) => {
                running.send_replace(true);
                Cancelled::Yes
            }
            _ => Cancelled::No,
        }
    }

    /// Forgets what goes with a session.
    pub(crate) fn close_of(&self, owner: Id) {
        let mut ended = Vec::new();
        self.entries.lock().retain(|_, entry| {
            let stays = entry.owner != owner;
            if let (false, What::Running(running)) = (stays, &entry.what) {
                running.send_replace(true);
            }
            if !stays {
                ended.push(std::mem::replace(
                    &mut entry.what,
                    What::Running(watch::Sender::new(true)),
                ));
            }
            stays
        });
    }

    /// Forgets what nobody has used for long; a transaction's changes go with it. Gives the
    /// sessions that something is being done for.
    pub(crate) fn sweep(&self) -> HashSet<Id> {
        let now = now();
        let (mut ended, mut owners) = (Vec::new(), HashSet::new());
        self.entries.lock().retain(|_, entry| {
            let in_use = match &entry.what {
                What::Running(_) => true,
                What::Prepared(statement) => Arc::strong_count(statement) > 1,
                What::Transaction(session, _) => Arc::strong_count(session) > 1,
                What::Ready(_) | What::Savepoint { .. } => false,
            };
            if in_use {
                // It is idle from the end of what runs on, however long that takes.
                entry.used = now;
                owners.insert(entry.owner);
            }
            let stays = now.duration_since(entry.used) <= self.idle;
            if !stays {
                ended.push(std::mem::replace(
                    &mut entry.what,
                    What::Running(watch::Sender::new(true)),
                ));
            }
            stays
        });
        owners
    }
}

fn unknown(word: &str) -> Error {
    let sqlstate = match word {
        "transaction" => "25P01",
        "savepoint" => "3B001",
        _ => "26000",
    };
    Error::not_found(format!("there is no such {word}"))
        .with_detail("it was closed, or not used for too long")
        .with_sqlstate(sqlstate)
}

fn used_up() -> Error {
    Error::not_found("the ticket is used up")
        .with_detail("an answer is fetched once, and soon")
        .with_hint("run the statement again")
        .with_sqlstate("26000")
}
