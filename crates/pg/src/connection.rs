//! One connection: its session, its prepared statements and portals, and the order of messages.
//!
//! ```text
//!   turn: message -> Query                          simple.rs
//!                 -> Parse Bind Describe Execute    extended.rs; an error skips all up to Sync
//!                 -> Sync                           a transaction that a pipeline opened ends
//! ```
//!
//! Invariant CON-1: while a statement runs, a cancel request, the statement's time limit and a
//! client that leaves end it; nothing else of the connection goes on meanwhile.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BufMut;
use futures::StreamExt;
use futures::future::BoxFuture;
use lazybase_model::{Error, ErrorKind, Result};
use lazybase_query::{AnswerStream, Notice, Session, TransactionStatus, observe};
use pgwire::messages::response::ReadyForQuery;
use pgwire::messages::startup::{Authentication, BackendKeyData, ParameterStatus, SecretKey};
use tokio::time::Sleep;

use crate::cells::{Rows, with_length};
use crate::cursors::{Cursor, is_commit};
use crate::extended::{Portal, Statement};
use crate::failure::{self, Severity};
use crate::input::{Gone, SEND_BYTES, Wire};
use crate::messages::{Message, not_utf8};
use crate::server::{PROTOCOL, Place, Stop, within};
use crate::startup::Told;
use crate::words::Kind;

/// How long a client may leave unread what it was sent, once its statement must end.
const UNREAD_MAX: Duration = Duration::from_secs(3);

/// Why a connection ends that did nothing wrong.
const STOPS: &str = "the server stops";

/// What a statement came to: its error is told to the client, and the connection goes on.
pub(crate) type Outcome<T> = Result<Result<T>, Gone>;

/// One client's connection.
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    pub(crate) session: Arc<Session>,
    place: Place,
    user: String,
    pub(crate) statements: HashMap<String, Arc<Statement>>,
    pub(crate) portals: HashMap<String, Portal>,
    pub(crate) cursors: HashMap<String, Cursor>,
    /// After an error, messages are left out until the next Sync.
    skipping: bool,
    /// What the client was told of settings.
    reported: Option<Told>,
    /// When the statement must have ended.
    deadline: Option<Pin<Box<Sleep>>>,
    /// When the next message must have come, where the client has left a transaction open.
    idle: Option<Pin<Box<Sleep>>>,
}

impl Connection {
    pub(crate) fn new(wire: Wire, session: Session, place: Place, user: String) -> Connection {
        Connection {
            wire,
            session: Arc::new(session),
            place,
            user,
            statements: HashMap::new(),
            portals: HashMap::new(),
            cursors: HashMap::new(),
            skipping: false,
            reported: None,
            deadline: None,
            idle: None,
        }
    }

    /// Serves the client until it leaves, or the server stops. It is told what of its wishes, and
    /// of its role's settings, is not followed.
    pub(crate) async fn run(mut self, unfollowed: Vec<Notice>) {
        self.wire.put(Authentication::Ok);
        for notice in &unfollowed {
            if self.session.is_told(notice.severity) {
                self.wire.put(failure::notice(notice));
            }
        }
        self.report();
        let key = SecretKey::I32(self.place.key as i32);
        self.wire.put(BackendKeyData::new(self.place.pid, key));
        self.ready();
        while self.turn().await.is_ok() {}
        self.wire.close().await;
    }

    /// Takes the next message and does what it asks.
    async fn turn(&mut self) -> Result<(), Gone> {
        let message = loop {
            match self.wire.take() {
                Ok(Some(message)) => break message,
                Ok(None) => self.wait().await?,
                Err(error) => return Err(self.end(&error)),
            }
        };
        self.idle = None;
        match message {
            Message::Terminate => return Err(Gone),
            Message::Sync => return self.sync().await,
            _ if self.skipping => return Ok(()),
            Message::Query(sql) => return self.simple(&sql).await,
            Message::Unreadable { query } => {
                self.fail(&not_utf8(), "");
                self.skipping = !query;
                if query {
                    self.ready();
                }
                return Ok(());
            }
            // What is left of a COPY that failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => return Ok(()),
            Message::Flush => return self.send().await,
            _ => {}
        }
        if let Err((error, text)) = self.extended(message).await? {
            self.fail(&error, &text);
            self.skipping = true;
        }
        Ok(())
    }

    /// Waits for the client to send something.
    async fn wait(&mut self) -> Result<(), Gone> {
        self.send().await?;
        let error = tokio::select! {
            filled = self.wire.fill() => return filled,
            error = must_end(&mut self.place, &mut self.idle) => error,
        };
        Err(self.end(&error))
    }

    /// Sends what was put, while no statement runs. A client that does not take it ends with its
    /// connection, a while after that must.
    async fn send(&mut self) -> Result<(), Gone> {
        let flush = self.wire.flush();
        tokio::pin!(flush);
        tokio::select! {
            biased;
            sent = &mut flush => return sent,
            _ = must_end(&mut self.place, &mut self.idle) => {}
        }
        within(UNREAD_MAX, flush).await.unwrap_or(Err(Gone))
    }

    /// Ends the connection with an error.
    fn end(&mut self, error: &Error) -> Gone {
        observe::failed(PROTOCOL, error);
        self.wire.put(failure::error(error, Severity::Fatal, ""));
        Gone
    }

    /// Tells an error of what the client sent, and fails the transaction that it stands in.
    pub(crate) fn fail(&mut self, error: &Error, text: &str) {
        self.session.fail_transaction();
        observe::failed(PROTOCOL, error);
        self.wire.put(failure::error(error, Severity::Error, text));
    }

    async fn sync(&mut self) -> Result<(), Gone> {
        self.skipping = false;
        self.begin_statement();
        if let Err(error) = self.end_implicit().await? {
            self.fail(&error, "");
        }
        if self.session.transaction_status() == TransactionStatus::None {
            self.portals.clear();
            self.end_cursors(false);
        }
        self.ready();
        Ok(())
    }

    /// Ends the transaction that was opened for what the client sent together.
    pub(crate) async fn end_implicit(&mut self) -> Outcome<()> {
        if !self.session.is_implicit() {
            return Ok(Ok(()));
        }
        let session = Arc::clone(&self.session);
        let sql = match session.transaction_status() {
            TransactionStatus::Failed => "ROLLBACK",
            _ => "COMMIT",
        };
        let ended = self.watched(Kind::End, session.query(sql)).await?;
        if ended.is_err() && session.is_implicit() {
            // It failed before it began. The client knows of no transaction that it could end.
            drop(session.query("ROLLBACK").await);
        }
        self.portals.clear();
        self.end_cursors(ended.as_ref().is_ok_and(is_commit));
        Ok(ended.map(|answer| self.note(&answer)))
    }

    /// Says that the next statement may come.
    pub(crate) fn ready(&mut self) {
        use pgwire::messages::response::TransactionStatus as Status;
        let status = self.session.transaction_status();
        self.deadline = None;
        self.idle = match status {
            TransactionStatus::None => None,
            _ => timer(self.session.idle_in_transaction_timeout()),
        };
        let status = match status {
            TransactionStatus::None => Status::Idle,
            TransactionStatus::Open => Status::Transaction,
            TransactionStatus::Failed => Status::Error,
        };
        self.wire.put(ReadyForQuery::new(status));
    }

    /// Tells the settings that clients want to know of, where they have changed.
    pub(crate) fn report(&mut self) {
        let told = self.reported.as_ref();
        if told.is_some_and(|told| told.is_so(&self.session)) {
            return;
        }
        let now = Told::of(&self.session, &self.user);
        for pair in &now.settings {
            if told.is_none_or(|told| !told.settings.contains(pair)) {
                let (name, value) = pair.clone();
                self.wire.put(ParameterStatus::new(name.to_owned(), value));
            }
        }
        self.reported = Some(now);
    }

    /// A statement begins: earlier cancel requests did not mean it, and its time starts.
    pub(crate) fn begin_statement(&mut self) {
        self.place.cancel.mark_unchanged();
        self.deadline = timer(self.session.statement_timeout());
    }

    /// Does a part of a statement's work, unless it is given up meanwhile. It is boxed, so that
    /// connections that wait for their clients stay small.
    pub(crate) async fn watched<T>(
        &mut self,
        kind: Kind,
        mut work: BoxFuture<'_, Result<T>>,
    ) -> Outcome<T> {
        let given_up = tokio::select! {
            biased;
            done = &mut work => return Ok(done),
            why = over(&mut self.place, &mut self.deadline) => why,
            gone = self.wire.left() => return Err(gone),
        };
        self.give_up(kind, given_up).map(Err)
    }

    /// The error of a statement that is given up, or the end of the connection with it.
    fn give_up(&mut self, kind: Kind, why: &str) -> Result<Error, Gone> {
        let error = self.given_up(kind, why);
        if *self.place.stop.borrow() != Stop::All {
            self.session.gives_up(error.sqlstate());
            return Ok(error);
        }
        let error = error.with_sqlstate("57P01");
        self.session.gives_up(error.sqlstate());
        Err(self.end(&error))
    }

    /// The error of a statement that was given up.
    fn given_up(&self, kind: Kind, why: &str) -> Error {
        let error = Error::new(ErrorKind::Cancelled, why);
        let buffered = self.session.transaction_status() != TransactionStatus::None;
        match kind {
            // A COMMIT that has begun has taken its transaction with it.
            Kind::End | Kind::Other | Kind::Copy if buffered => error,
            // It may have been on its way to the log.
            Kind::End | Kind::Other | Kind::Copy => Error::new(ErrorKind::MaybeHappened, why)
                .with_detail("whether what it wrote is kept is not known")
                .with_hint("look, or write under a producer's number, which counts once"),
            _ => error,
        }
    }

    /// The next rows of an answer, if there are more.
    pub(crate) async fn next_rows(&mut self, answer: &mut AnswerStream) -> Outcome<Option<Rows>> {
        self.next_rows_as(answer, None, &[]).await
    }

    /// The same as columns that the client was told of, in the formats that it wants.
    pub(crate) async fn next_rows_as(
        &mut self,
        answer: &mut AnswerStream,
        told: Option<&arrow::datatypes::Schema>,
        formats: &[i16],
    ) -> Outcome<Option<Rows>> {
        let next = Box::pin(async { answer.next().await.transpose() });
        let batch = match self.watched(Kind::Read, next).await? {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(Ok(None)),
            Err(error) => return Ok(Err(error)),
        };
        let schema = answer.schema();
        let style = self.session.interval_style();
        let rows = Rows::new(&batch, told.unwrap_or(&schema), formats);
        let rows = rows.map_err(|error| self.unsent(answer, error));
        Ok(rows.map(|rows| Some(rows.spelling(style))))
    }

    /// The error of rows that can't be sent: those of a write may be kept already.
    pub(crate) fn unsent(&self, answer: &AnswerStream, error: Error) -> Error {
        let ended = self.session.transaction_status() == TransactionStatus::None;
        match answer.has_written() && ended {
            true => Error::new(ErrorKind::MaybeHappened, error.message())
                .with_detail("what the statement wrote is kept")
                .with_hint("SELECT it"),
            false => error,
        }
    }

    /// Waits for more of what a statement needs from its client, unless that is given up.
    pub(crate) async fn more(&mut self) -> Outcome<()> {
        let why = tokio::select! {
            filled = self.wire.fill() => return filled.map(Ok),
            why = over(&mut self.place, &mut self.deadline) => why,
        };
        // Nothing was written yet: what was sent is a batch only at its end.
        self.give_up(Kind::Read, why).map(Err)
    }

    /// Sends what was put, once it is worth it.
    pub(crate) async fn flush_full(&mut self) -> Result<(), Gone> {
        match self.wire.out.len() < SEND_BYTES {
            true => Ok(()),
            false => self.flush_in_time().await,
        }
    }

    /// Sends what a statement has put. A client that does not take it ends with its statement's
    /// time, or a cancel request, a while later: half a message can't be followed by anything.
    pub(crate) async fn flush_in_time(&mut self) -> Result<(), Gone> {
        let flush = self.wire.flush();
        tokio::pin!(flush);
        tokio::select! {
            biased;
            sent = &mut flush => return sent,
            _ = over(&mut self.place, &mut self.deadline) => {}
        }
        // The statement ends once this is sent: its time stays over, and a request is heard again.
        let late = self.deadline.as_ref().is_some_and(|at| at.is_elapsed());
        if !late {
            self.place.cancel.mark_changed();
        }
        within(UNREAD_MAX, flush).await.unwrap_or(Err(Gone))
    }

    /// Says that a statement is done.
    pub(crate) fn complete(&mut self, tag: &str) {
        // These have no counts in PostgreSQL.
        let plain = ["SHOW", "EXPLAIN", "DESCRIBE"];
        let word = plain.into_iter().find(|word| tag.starts_with(word));
        let out = &mut self.wire.out;
        out.put_u8(b'C');
        with_length(out, true, |out| {
            out.put_slice(word.unwrap_or(tag).as_bytes());
            out.put_u8(0);
        });
    }

    /// Tells what an answer says beside its rows; stamp and token on demand, and then always.
    pub(crate) fn note(&mut self, answer: &AnswerStream) {
        for notice in answer.notices() {
            self.wire.put(failure::notice(notice));
        }
        if self.session.wants_notices() {
            let stamp = answer.stamp().map(ToString::to_string);
            let token = answer.token().map(|token| format!("token {token}"));
            for told in stamp.into_iter().chain(token) {
                self.wire.put(failure::notice(&Notice::info(told)));
            }
        }
        self.report();
    }
}

/// What ends when so much time is over, counted from now.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a client lets others wait is no part of what is simulated"
)]
fn timer(limit: Option<Duration>) -> Option<Pin<Box<Sleep>>> {
    limit.map(|limit| Box::pin(tokio::time::sleep(limit)))
}

/// Ends, with the reason, when a cancel request comes or the statement has had its time.
async fn over(place: &mut Place, deadline: &mut Option<Pin<Box<Sleep>>>) -> &'static str {
    tokio::select! {
        _ = place.cancel.changed() => "the statement was cancelled",
        _ = place.stop.wait_for(|stop| *stop == Stop::All) => STOPS,
        _ = place.end.wait_for(|end| *end) => "another connection has ended this one",
        () = passed(deadline) => "the statement took longer than statement_timeout",
    }
}

/// Ends, with what its client is told, when a connection that waits for it must end.
async fn must_end(place: &mut Place, idle: &mut Option<Pin<Box<Sleep>>>) -> Error {
    tokio::select! {
        _ = place.stop.wait_for(|stop| *stop != Stop::NotYet) => {
            Error::unavailable(STOPS).with_sqlstate("57P01")
        }
        _ = place.end.wait_for(|end| *end) => ended(),
        () = passed(idle) => idle_for_too_long(),
    }
}

/// Ends when a time is over; never where there is none.
async fn passed(time: &mut Option<Pin<Box<Sleep>>>) {
    match time {
        Some(time) => time.await,
        None => std::future::pending().await,
    }
}

fn ended() -> Error {
    Error::new(
        ErrorKind::Cancelled,
        "another connection has ended this one",
    )
    .with_detail("by pg_terminate_backend; an open transaction is rolled back")
    .with_sqlstate("57P01")
}

fn idle_for_too_long() -> Error {
    Error::new(
        ErrorKind::Cancelled,
        "the transaction was idle for longer than idle_in_transaction_session_timeout",
    )
    .with_detail("it is rolled back, and the connection ends")
    .with_sqlstate("25P03")
}
