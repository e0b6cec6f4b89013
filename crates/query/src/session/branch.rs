//! Branches of a session, for calls that want settings of their own, and what is written past the
//! parser.
//!
//! Keeps SES-1 for both: what a branch sees and writes raises the floor of its parent.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use lazybase_model::{Horizon, Result, Stamp, Token};
use parking_lot::Mutex;
use tracing::Instrument;

use super::{Session, Shared, State, watched};
use crate::advisory::SessionLocks;
use crate::answer::AnswerStream;
use crate::database::Database;
use crate::definition::identifier;
use crate::ingest::{self, Ingest};
use crate::observe::Watch;
use crate::prepared::Prepared;

impl Session {
    pub(super) fn of_state(
        database: Database,
        parent: Option<Arc<Shared>>,
        state: State,
    ) -> Session {
        let locks = match &parent {
            Some(parent) => Arc::clone(&parent.locks),
            None => SessionLocks::new(Arc::clone(database.locks())),
        };
        let named = parent.as_ref().map(|parent| Arc::clone(&parent.named));
        let numbers = parent
            .as_ref()
            .map(|parent| Arc::clone(&parent.last_numbers));
        Session {
            shared: Arc::new(Shared {
                database,
                parent,
                state: Mutex::new(state),
                gate: tokio::sync::Mutex::new(()),
                progress: Mutex::new(None),
                activity: Mutex::new(None),
                attended: Mutex::new(None),
                cursors: Arc::default(),
                named: named.unwrap_or_default(),
                locks,
                last_numbers: numbers.unwrap_or_default(),
            }),
        }
    }

    /// A session that begins with this one's settings and floor, and goes its own way: with
    /// settings and a transaction of its own. What it sees and writes raises the floor of both.
    pub fn branch(&self) -> Session {
        let state = self.shared.state.lock();
        // What the open transaction made, a role too, is none of the branch's.
        let transaction = state.transaction.as_ref();
        let own = State {
            identity: transaction.map_or(state.identity, |open| open.acted_as),
            settings: state.settings.clone(),
            defaults: state.defaults.clone(),
            unfollowed: Vec::new(),
            floor: state.floor,
            last_stamp: state.last_stamp.clone(),
            last_token: state.last_token,
            transaction: None,
            producer: state.producer.clone(),
            temporary: state.temporary,
            gate: None,
        };
        drop(state);
        let (database, parent) = (self.shared.database.clone(), Arc::clone(&self.shared));
        Session::of_state(database, Some(parent), own)
    }

    /// The horizon that the session never goes back behind.
    pub fn floor(&self) -> Token {
        Token {
            database: self.shared.instance().database(),
            horizon: self.shared.state.lock().floor,
        }
    }

    /// The session reads at or after a token from here on.
    ///
    /// # Errors
    /// `Invalid` for a token of another database or history.
    pub fn raise_floor(&self, token: Token) -> Result<()> {
        let horizon = token.horizon_in(self.shared.instance().database())?;
        self.shared.rise(horizon);
        Ok(())
    }

    /// A statement that another session has prepared, to be run by this one.
    pub fn adopt(&self, prepared: &Prepared) -> Prepared {
        prepared.within(Arc::clone(&self.shared))
    }

    /// Writes Arrow batches into a table, which is made first where that is asked for, as one
    /// atomic batch of any size; in a transaction, as a part of it.
    ///
    /// ```no_run
    /// # async fn example(session: lazybase_query::Session, rows: arrow::array::RecordBatch)
    /// # -> lazybase_model::Result<()> {
    /// use futures::StreamExt;
    /// use lazybase_query::Ingest;
    ///
    /// let into = Ingest::create_append("flights").with_key(["id"]);
    /// let batches = futures::stream::iter([Ok(rows.clone())]).boxed();
    /// let answer = session.ingest(&into, rows.schema(), batches).await?;
    /// println!("{} rows, token {:?}", answer.row_count(), answer.token());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound` and `Conflict` when the table is missing or there, against what was asked;
    /// `Invalid` for rows that don't fit, naming column and row; then nothing of it is kept.
    pub fn ingest<'a>(
        &'a self,
        into: &'a Ingest,
        schema: SchemaRef,
        rows: BoxStream<'static, Result<RecordBatch>>,
    ) -> BoxFuture<'a, Result<AnswerStream>> {
        Box::pin(async move {
            let _running = self.shared.gate.lock().await;
            let text = format!("INGEST INTO {}", identifier(&into.table));
            let watch = Watch::begin(&self.shared, text);
            let writing = Box::pin(ingest::ingest(&self.shared, into, &schema, rows));
            let answer = writing.instrument(watch.span()).await;
            if answer.is_err() {
                self.shared.fail_transaction();
            }
            watched(&self.shared, answer, watch)
        })
    }
}

impl Shared {
    /// The session reads at or after this horizon.
    pub(super) fn rise(&self, horizon: Horizon) {
        if let Some(parent) = &self.parent {
            parent.rise(horizon);
        }
        let mut state = self.state.lock();
        state.floor = state.floor.max(horizon);
    }

    /// Whether a transaction is open, failed or not.
    pub(crate) fn has_transaction(&self) -> bool {
        self.state.lock().transaction.is_some()
    }

    /// The session has opened a producer.
    pub(crate) fn note_producer(&self, name: &str, epoch: u64) {
        if let Some(parent) = &self.parent {
            parent.note_producer(name, epoch);
        }
        self.state.lock().producer = Some((name.to_owned(), epoch));
    }

    pub(crate) fn note_stamp(&self, stamp: Stamp) {
        if let Some(parent) = &self.parent {
            parent.note_stamp(stamp.clone());
        }
        self.state.lock().last_stamp = Some(stamp);
    }

    /// The session reads at or after what it wrote.
    pub(crate) fn note_token(&self, token: Token) {
        if let Some(parent) = &self.parent {
            parent.note_token(token);
        }
        let mut state = self.state.lock();
        state.floor = state.floor.max(token.horizon);
        state.last_token = Some(token);
    }

    /// The session reads at or after a change to the tables.
    pub(crate) fn note_ddl(&self) {
        let boundary = Horizon::end_of(self.instance().manifest().sealed_through);
        self.rise(boundary);
    }
}
