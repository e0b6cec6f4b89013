//! Running statements: they end when they are cancelled, by their client or from another session,
//! when they take too long, or when the server stops.
//!
//! Invariant FLR-1: a statement whose client leaves is dropped with its call or its stream, and
//! what it wrote in a transaction fails that transaction.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use futures::future::BoxFuture;
use lazybase_model::{Error, ErrorKind, Result};
use lazybase_query::{AnswerStream, End, Prepared, Session, TransactionStatus, Value};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::calls::Told;
use crate::clock::pause;
use crate::failure::timed_out;
use crate::statements::Fetched;
use crate::words;

type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// When a session's statement must have ended.
fn deadline(session: &Session) -> Wait {
    match session.statement_timeout() {
        Some(limit) => Box::pin(pause(limit)),
        None => Box::pin(std::future::pending()),
    }
}

async fn told(mut signal: watch::Receiver<bool>) {
    if signal.wait_for(|on| *on).await.is_err() {
        // Whoever would tell has gone.
        std::future::pending::<()>().await;
    }
}

fn stopping() -> Error {
    Error::unavailable("the server stops").with_sqlstate("57P01")
}

/// Fails the transaction of a statement that is dropped in its middle.
struct Begun<'s>(Option<&'s Session>);

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.0 {
            session.fail_transaction();
        }
    }
}

/// Does a statement that is no query, unless it is given up; `reads` is one that leaves no trace.
pub(crate) async fn limited<T>(
    session: &Session,
    reads: bool,
    stop: &watch::Receiver<bool>,
    mut work: impl Future<Output = Result<T>> + Unpin,
) -> Result<T> {
    let mut begun = Begun(Some(session));
    let why = tokio::select! {
        biased;
        done = &mut work => {
            begun.0 = None;
            return done;
        }
        what = session.ended() => ended(what),
        () = deadline(session) => timed_out(),
        () = told(stop.clone()) => stopping(),
    };
    let error = given_up(session, reads, why);
    drop(work);
    Err(error)
}

/// The error of a statement that is given up before its end. Asked for before what runs of it is
/// dropped: its end is logged then, with this SQLSTATE, and a transaction of its own is still there
/// to tell that nothing is kept.
fn given_up(session: &Session, reads: bool, why: Error) -> Error {
    // A COMMIT that has begun has taken its transaction with it.
    let buffered = session.transaction_status() != TransactionStatus::None;
    let error = match reads || buffered {
        true => why,
        // It may have been on its way to the log.
        false => Error::new(ErrorKind::MaybeHappened, why.message())
            .with_detail("whether what it wrote is kept is not known")
            .with_hint("look, or write under a producer's number, which counts once"),
    };
    session.gives_up(error.sqlstate());
    error
}

/// A query whose rows are being sent.
pub(crate) struct Running {
    session: Arc<Session>,
    prepared: Arc<Prepared>,
    /// The parameters of the runs that follow.
    pending: std::vec::IntoIter<Vec<Value>>,
    answer: Option<AnswerStream>,
    /// The columns that the client was told of.
    schema: SchemaRef,
    deadline: Wait,
    cancelled: Wait,
    /// Somebody else ends it, or its session.
    ended: BoxFuture<'static, End>,
    stopping: Wait,
    told: Arc<Mutex<Told>>,
    /// Forgets the statement when this ends.
    _fetched: Fetched,
}

impl Running {
    /// Begins a query: its first answer is there when this returns.
    ///
    /// # Errors
    /// Whatever the query meets before its first row.
    pub(crate) async fn begin(
        session: Arc<Session>,
        prepared: Arc<Prepared>,
        values: Vec<Vec<Value>>,
        schema: SchemaRef,
        fetched: Fetched,
        stop: &watch::Receiver<bool>,
    ) -> Result<Running> {
        let (session, prepared) = one_snapshot(session, prepared, values.len()).await?;
        check_told(&prepared, &schema).await?;
        let mut running = Running {
            deadline: deadline(&session),
            cancelled: Box::pin(told(fetched.cancel.clone())),
            ended: session.ended(),
            stopping: Box::pin(told(stop.clone())),
            session,
            prepared,
            pending: values.into_iter(),
            answer: None,
            schema,
            told: Arc::default(),
            _fetched: fetched,
        };
        running.next_answer().await?;
        Ok(running)
    }

    /// What the answers tell, once the rows have come to their end.
    pub(crate) fn told(&self) -> Arc<Mutex<Told>> {
        Arc::clone(&self.told)
    }

    /// Begins the next of the runs; false when there is none.
    async fn next_answer(&mut self) -> Result<bool> {
        let Some(values) = self.pending.next() else {
            return Ok(false);
        };
        let mut begun = Begun(Some(&self.session));
        let mut asked = self.prepared.query(&values);
        let answer = tokio::select! {
            biased;
            answer = &mut asked => Ok(answer),
            what = &mut self.ended => Err(ended(what)),
            () = &mut self.cancelled => Err(Error::new(ErrorKind::Cancelled, CANCELLED)),
            () = &mut self.deadline => Err(timed_out()),
            () = &mut self.stopping => Err(stopping()),
        };
        // One that tells of the rows which it writes comes here, too.
        let reads = !words::may_write(self.prepared.sql());
        let answer = answer.unwrap_or_else(|why| Err(given_up(&self.session, reads, why)));
        drop(asked);
        if answer.is_ok() {
            begun.0 = None;
        }
        drop(begun);
        self.answer = Some(answer?);
        Ok(true)
    }

    /// The next rows.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            let Some(answer) = &mut self.answer else {
                match self.next_answer().await {
                    Ok(true) => continue,
                    Ok(false) => return None,
                    Err(error) => return Some(Err(error)),
                }
            };
            let next = tokio::select! {
                biased;
                what = &mut self.ended => Some(Err(ended(what))),
                () = &mut self.cancelled => Some(Err(Error::new(ErrorKind::Cancelled, CANCELLED))),
                () = &mut self.deadline => Some(Err(timed_out())),
                () = &mut self.stopping => Some(Err(stopping())),
                next = answer.next() => next,
            };
            match next.map(|rows| conform(rows?, &self.schema)) {
                Some(Ok(rows)) if rows.num_rows() == 0 => {}
                Some(Ok(rows)) => return Some(Ok(rows)),
                Some(Err(error)) => {
                    // What it tells of may be kept already.
                    let error = given_up(&self.session, !answer.has_written(), error);
                    self.session.fail_transaction();
                    // It is over, and free, before the client hears of that.
                    self.answer = None;
                    return Some(Err(error));
                }
                None => {
                    let rows = self.told.lock().rows;
                    let mut told = Told::of(answer, &self.session);
                    told.rows += rows;
                    *self.told.lock() = told;
                    self.answer = None;
                }
            }
        }
    }
}

const CANCELLED: &str = "the statement was cancelled";

/// The error of a statement that somebody else has ended.
fn ended(what: End) -> Error {
    match what {
        End::Statement => Error::new(ErrorKind::Cancelled, CANCELLED),
        End::Connection => Error::new(ErrorKind::Cancelled, "another session has ended this one")
            .with_detail("by pg_terminate_backend; an open transaction is rolled back")
            .with_sqlstate("57P01"),
    }
}

/// A session in which several runs of a query see the same snapshot.
async fn one_snapshot(
    session: Arc<Session>,
    prepared: Arc<Prepared>,
    runs: usize,
) -> Result<(Arc<Session>, Arc<Prepared>)> {
    if runs < 2 || session.in_transaction() {
        return Ok((session, prepared));
    }
    if words::may_write(prepared.sql()) {
        return Err(
            Error::invalid("a statement that writes gives rows for one row of parameters")
                .with_hint("begin a transaction, or run it as an update, which gives none")
                .with_sqlstate("0A000"),
        );
    }
    let own = Arc::new(session.branch());
    own.query("BEGIN TRANSACTION READ ONLY")
        .await?
        .collect()
        .await?;
    let prepared = Arc::new(own.adopt(&prepared));
    Ok((own, prepared))
}

/// Refuses a statement that writes where its rows are not what the client was told: once they are
/// kept, it is too late.
async fn check_told(prepared: &Prepared, told: &SchemaRef) -> Result<()> {
    if !words::may_write(prepared.sql()) {
        return Ok(());
    }
    match prepared.schema().await? {
        Some(now) => conform(RecordBatch::new_empty(now), told).map(drop),
        None => Ok(()),
    }
}

/// Rows as the columns that the client was told of.
fn conform(rows: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if rows.schema_ref() == schema {
        return Ok(rows);
    }
    let wrong = |what: String| {
        Error::conflict("the columns have changed since the statement was described")
            .with_detail(what)
            .with_hint("run it again")
            .with_sqlstate("0A000")
    };
    if rows.num_columns() != schema.fields().len() {
        return Err(wrong("there are more or fewer of them".to_owned()));
    }
    let columns = rows.columns().iter().zip(schema.fields());
    let columns = columns.map(
        |(column, field)| match column.data_type() == field.data_type() {
            true => Ok(Arc::clone(column)),
            false => cast(column, field.data_type()),
        },
    );
    let columns: Result<Vec<_>, _> = columns.collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let columns = columns.map_err(|error| wrong(error.to_string()))?;
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| wrong(error.to_string()))
}
