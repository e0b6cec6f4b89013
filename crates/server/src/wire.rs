//! A server as the shell's other end: statements over PostgreSQL's protocol, answers as the same
//! batches of rows that a database in this process gives.
//!
//! ```text
//!   SQL -> prepare -> rows -> decode.rs -> RecordBatch
//!                     notices: INFO with stamp and token, and others
//! ```
//!
//! Invariant WIRE-1: what the server says of an answer is shown with that answer: notices come
//! before the end of the rows that they speak of.

use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use futures::stream::{ReadyChunks, StreamExt};
use futures::{SinkExt, stream};
use lazybase_model::{Error, ErrorKind, Result, TextPlace};
use tokio_postgres::error::{DbError, ErrorPosition};
use tokio_postgres::{AsyncMessage, Client, RowStream, Statement};

use crate::failure;
use crate::figures::counted;
use crate::wall;

mod address;
mod decode;
mod secret;
mod tag;
mod tls;

use address::Address;
pub(crate) use tag::may_be_kept;
use tls::Tls;

/// The rows of a batch.
const BATCH_ROWS: usize = 1024;

/// The bytes of a COPY that are sent at a time.
const COPY_BYTES: usize = 64 << 10;

/// The SQLSTATE of what a role may not do.
pub(crate) const DENIED: &str = "42501";

/// A connection.
pub(crate) struct Wire {
    client: Client,
    place: String,
    tls: Tls,
    heard: Arc<Mutex<Vec<Notice>>>,
    in_transaction: AtomicBool,
}

/// Something that the server said beside rows.
struct Notice {
    severity: String,
    text: String,
}

/// What a statement answers.
pub(crate) struct Reply {
    schema: SchemaRef,
    statement: Option<Statement>,
    rows: Option<std::pin::Pin<Box<ReadyChunks<RowStream>>>>,
    told: Told,
    sql: String,
    heard: Arc<Mutex<Vec<Notice>>>,
    count: u64,
}

/// What is said beside the rows, once they have ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) tag: String,
    pub(crate) token: Option<String>,
    pub(crate) stamp: Option<String>,
    /// Each with its severity.
    pub(crate) notices: Vec<String>,
}

impl Wire {
    /// Connects to `postgresql://HOST:PORT/lazybase`; asks at the terminal for a password that the
    /// server wants and nobody has given.
    ///
    /// # Errors
    /// `Invalid` for a URL that is none, `Unavailable` when nobody answers there.
    pub(crate) async fn connect(url: &str) -> Result<Wire> {
        let address = Address::read(url)?;
        let place = address.shown();
        let Address { mut config, tls } = address;
        let mut connected = config.connect(tls.clone()).await;
        if let Err(error) = &connected
            && wants_password(error)
            && let Some(password) = secret::ask(config.get_user().unwrap_or_default())?
        {
            config.password(password);
            connected = config.connect(tls.clone()).await;
        }
        let (client, mut connection) = connected.map_err(not_connected)?;
        let heard: Arc<Mutex<Vec<Notice>>> = Arc::default();
        let hears = Arc::clone(&heard);
        wall::spawn(async move {
            let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
            // An error of the connection is told to whoever waits for a statement.
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notice(notice) = message {
                    locked(&hears).push(Notice {
                        severity: notice.severity().to_lowercase(),
                        text: notice.message().to_owned(),
                    });
                }
            }
        });
        let wire = Wire {
            client,
            place,
            tls,
            heard,
            in_transaction: AtomicBool::new(false),
        };
        // The same shell: stamps after answers, and COPY as CSV.
        for setting in [
            "SET lazybase.notices = on",
            "SET lazybase.copy_format = 'csv'",
        ] {
            wire.collect(setting).await.map_err(|error| {
                error.with_detail("the server at --url is no LazyBase, or another version")
            })?;
        }
        Ok(wire)
    }

    /// Who speaks to which server, for people.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Runs one statement; its rows come as a stream.
    ///
    /// # Errors
    /// As the server's.
    pub(crate) async fn query(&self, sql: &str) -> Result<Reply> {
        locked(&self.heard).clear();
        let statement = self.client.prepare(sql).await;
        let statement = statement.map_err(|error| of_statement(error, sql))?;
        if !statement.params().is_empty() {
            let count = counted(statement.params().len() as u64, "value");
            return Err(
                Error::invalid(format!("the statement needs {count}: it has parameters"))
                    .with_hint("PREPARE name AS ..., then EXECUTE name (value) gives them"),
            );
        }
        let none: [&str; 0] = [];
        let rows = self.client.query_raw(&statement, none).await;
        let rows = rows.map_err(|error| of_statement(error, sql))?;
        self.note_transaction(sql);
        let has_rows = !statement.columns().is_empty();
        Ok(Reply {
            schema: decode::schema(statement.columns()),
            statement: has_rows.then_some(statement),
            rows: Some(Box::pin(rows.ready_chunks(BATCH_ROWS))),
            told: Told::default(),
            sql: sql.to_owned(),
            heard: Arc::clone(&self.heard),
            count: 0,
        })
    }

    /// All rows of a statement.
    pub(crate) async fn collect(&self, sql: &str) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let mut reply = self.query(sql).await?;
        let mut batches = Vec::new();
        while let Some(batch) = reply.next().await {
            batches.push(batch?);
        }
        Ok((reply.schema(), batches))
    }

    /// Runs one `COPY ... FROM STDIN` with the data up to their end.
    ///
    /// # Errors
    /// As the server's; then nothing of the data is kept.
    pub(crate) async fn copy_in(&self, sql: &str, mut data: impl BufRead) -> Result<Reply> {
        locked(&self.heard).clear();
        let sink = self.client.copy_in::<_, Bytes>(sql).await;
        let mut sink = Box::pin(sink.map_err(|error| of_statement(error, sql))?);
        let mut piece = Vec::with_capacity(COPY_BYTES);
        let mut more = true;
        while more {
            let stretch = data.fill_buf();
            let stretch = stretch.map_err(|error| failure::io("standard input", &error))?;
            more = !stretch.is_empty();
            piece.extend_from_slice(stretch);
            let taken = stretch.len();
            data.consume(taken);
            if piece.len() >= COPY_BYTES || !more {
                let full = std::mem::take(&mut piece);
                sink.send(Bytes::from(full)).await.map_err(of_server)?;
            }
        }
        let count = sink.as_mut().finish().await.map_err(of_server)?;
        Ok(self.without_rows(sql, count))
    }

    /// Runs one `COPY ... TO STDOUT`; its data go to `out`.
    ///
    /// # Errors
    /// As the server's.
    pub(crate) async fn copy_out(&self, sql: &str, out: &mut dyn std::io::Write) -> Result<Reply> {
        locked(&self.heard).clear();
        let data = self.client.copy_out(sql).await;
        let mut data = Box::pin(data.map_err(|error| of_statement(error, sql))?);
        while let Some(piece) = data.next().await {
            let piece = piece.map_err(of_server)?;
            out.write_all(&piece)
                .map_err(|error| failure::stdout(&error))?;
        }
        out.flush().map_err(|error| failure::stdout(&error))?;
        let mut reply = self.without_rows(sql, 0);
        // How many rows they were is not said.
        reply.told.tag = "COPY".to_owned();
        Ok(reply)
    }

    fn without_rows(&self, sql: &str, count: u64) -> Reply {
        let mut reply = Reply {
            schema: decode::schema(&[]),
            statement: None,
            rows: None,
            told: Told::default(),
            sql: sql.to_owned(),
            heard: Arc::clone(&self.heard),
            count,
        };
        reply.end(Some(count));
        reply
    }

    /// Ends the statement that runs.
    pub(crate) async fn cancel(&self) {
        // A server that is gone runs nothing any more.
        let token = self.client.cancel_token();
        drop(token.cancel_query(self.tls.clone()).await);
    }

    /// Whether a transaction is open, as far as the statements of this shell tell.
    pub(crate) fn in_transaction(&self) -> bool {
        self.in_transaction.load(Ordering::Relaxed)
    }

    fn note_transaction(&self, sql: &str) {
        if let Some(open) = tag::opens_transaction(sql) {
            self.in_transaction.store(open, Ordering::Relaxed);
        }
    }
}

impl Reply {
    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Whether the statement is one that returns rows, be there any or not.
    pub(crate) fn returns_rows(&self) -> bool {
        self.statement.is_some()
    }

    /// The next rows.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch>> {
        let rows = self.rows.as_mut()?;
        let Some(chunk) = rows.next().await else {
            let affected = rows.get_ref().rows_affected();
            self.rows = None;
            self.end(affected);
            return None;
        };
        let chunk: Result<Vec<_>, _> = chunk.into_iter().collect();
        Some(chunk.map_err(of_server).and_then(|chunk| {
            self.count += chunk.len() as u64;
            let columns = self.statement.as_ref().map_or(&[][..], Statement::columns);
            decode::batch(&self.schema, columns, &chunk)
        }))
    }

    /// What is said beside the rows.
    pub(crate) fn told(&self) -> &Told {
        &self.told
    }

    fn end(&mut self, affected: Option<u64>) {
        let count = affected.unwrap_or(self.count);
        self.told.tag = tag::of(&self.sql, count);
        for Notice { severity, text } in locked(&self.heard).drain(..) {
            match (severity.as_str(), text.strip_prefix("token ")) {
                ("info", Some(token)) => self.told.token = Some(token.to_owned()),
                ("info", None) => self.told.stamp = Some(text),
                _ => self.told.notices.push(format!("{severity}: {text}")),
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the server has asked for a password that nobody has given.
fn wants_password(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_none() && chain(error).contains("password missing")
}

fn not_connected(error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(_) => of_server(error),
        None if wants_password(&error) => Error::invalid("the server asks for a password")
            .with_hint("set PGPASSWORD, or answer at a terminal")
            .with_sqlstate("28P01"),
        None if chain(&error).contains("TLS handshake") => {
            Error::unavailable(format!("no encrypted connection: {}", chain(&error)))
                .with_hint("sslmode says what must be, sslrootcert names a file of those to trust")
        }
        None => Error::unavailable(format!("no server answers: {}", chain(&error)))
            .with_hint("lazybase serve says where it listens"),
    }
}

/// An error with what caused it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text += &format!(": {next}");
        cause = next.source();
    }
    text
}

/// An error that the server told of a statement, with the place in it.
fn of_statement(error: tokio_postgres::Error, sql: &str) -> Error {
    let character = match error.as_db_error().and_then(DbError::position) {
        Some(ErrorPosition::Original(character)) => usize::try_from(*character).ok(),
        _ => None,
    };
    let place = character.and_then(|character| TextPlace::of_character(sql, character));
    match place {
        Some(place) => of_server(error).with_place(place),
        None => of_server(error),
    }
}

/// An error that the server told, or that kept it from telling one.
fn of_server(error: tokio_postgres::Error) -> Error {
    let Some(told) = error.as_db_error() else {
        let what = match error.is_closed() {
            true => "the server has closed the connection".to_owned(),
            false => chain(&error),
        };
        return Error::unavailable(what);
    };
    let kind = match told.code().code() {
        "57014" => ErrorKind::Cancelled,
        "40003" => ErrorKind::MaybeHappened,
        "42P01" | "42704" => ErrorKind::NotFound,
        code if code.starts_with("53") || code.starts_with("57") => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    };
    let mut error = Error::new(kind, told.message());
    if told.code().code() == DENIED {
        error = error.with_sqlstate(DENIED);
    }
    if let Some(detail) = told.detail() {
        error = error.with_detail(detail);
    }
    match told.hint() {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
