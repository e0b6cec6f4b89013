//! Running statements: they end when they are cancelled, by their client or from another session,
//! when they take too long, or when the server stops.
//!
//! Invariant FLR-1: a statement whose client leaves is dropped with its call or its stream, and
//! what it wrote in a transaction fails that transaction.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

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

/// Why a statement is to be given up, once there is a reason.
pub(crate) type Ends = BoxFuture<'static, Error>;

/// What ends a session's statement from now on.
fn ends(
    session: &Session,
    stop: &watch::Receiver<bool>,
    cancelled: impl Future<Output = ()> + Send + 'static,
) -> Ends {
    let (by_others, limit) = (session.ended(), session.statement_timeout());
    let stop = told(stop.clone());
    Box::pin(async move {
        tokio::select! {
            biased;
            what = by_others => ended(what),
            () = cancelled => Error::new(ErrorKind::Cancelled, CANCELLED),
            () = passed(limit) => timed_out(),
            () = stop => stopping(),
        }
    })
}

/// Waits for a time limit, if there is one.
async fn passed(limit: Option<Duration>) {
    match limit {
        Some(limit) => pause(limit).await,
        None => pending().await,
    }
}

async fn told(mut signal: watch::Receiver<bool>) {
    if signal.wait_for(|on| *on).await.is_err() {
        // Whoever would tell has gone.
        pending::<()>().await;
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
    work: impl Future<Output = Result<T>> + Unpin,
) -> Result<T> {
    let mut ends = ends(session, stop, pending());
    unless(session, reads, &mut ends, work).await
}

/// Does something of a statement, unless it is given up meanwhile.
async fn unless<T>(
    session: &Session,
    reads: bool,
    ends: &mut Ends,
    mut work: impl Future<Output = Result<T>> + Unpin,
) -> Result<T> {
    let mut begun = Begun(Some(session));
    let why = tokio::select! {
        biased;
        done = &mut work => {
            begun.0 = None;
            return done;
        }
        why = ends => why,
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

/// Gives up a query whose rows are being sent. It keeps nothing of the query.
pub(crate) struct WayOut {
    session: Weak<Session>,
    reads: Arc<AtomicBool>,
}

impl WayOut {
    /// The error that its client is told. What runs of it is dropped, and is free before that.
    pub(crate) fn give_up<H>(self, why: Error, held: H) -> Error {
        let Some(session) = self.session.upgrade() else {
            // All of its rows wait to be sent, and nothing runs any more.
            return why;
        };
        let error = given_up(&session, self.reads.load(Ordering::Relaxed), why);
        session.fail_transaction();
        drop(held);
        error
    }
}

/// A query whose rows are being sent.
pub(crate) struct Running {
    session: Arc<Session>,
    prepared: Arc<Prepared>,
    /// Whether a run of it may write: one that tells of the rows which it writes comes here, too.
    may_write: bool,
    /// Whether what runs of it now leaves no trace.
    reads: Arc<AtomicBool>,
    /// The parameters of the runs that follow.
    pending: std::vec::IntoIter<Vec<Value>>,
    answer: Option<AnswerStream>,
    /// The columns that the client was told of.
    schema: SchemaRef,
    told: Arc<Mutex<Told>>,
    /// Forgets the statement when this ends.
    _fetched: Fetched,
}

impl Running {
    /// Begins a query: its first answer is there when this returns, with what ends it from then on.
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
    ) -> Result<(Running, Ends)> {
        let (session, prepared) = one_snapshot(session, prepared, values.len()).await?;
        check_told(&prepared, &schema).await?;
        let mut ends = ends(&session, stop, told(fetched.cancel.clone()));
        let may_write = words::may_write(prepared.sql());
        let mut running = Running {
            session: Arc::clone(&session),
            prepared,
            may_write,
            reads: Arc::new(AtomicBool::new(!may_write)),
            pending: values.into_iter(),
            answer: None,
            schema,
            told: Arc::default(),
            _fetched: fetched,
        };
        let begins = Box::pin(running.next_answer());
        unless(&session, !may_write, &mut ends, begins).await?;
        Ok((running, ends))
    }

    /// What the answers tell, once the rows have come to their end.
    pub(crate) fn told(&self) -> Arc<Mutex<Told>> {
        Arc::clone(&self.told)
    }

    /// What gives it up, wherever it has come to.
    pub(crate) fn way_out(&self) -> WayOut {
        WayOut {
            session: Arc::downgrade(&self.session),
            reads: Arc::clone(&self.reads),
        }
    }

    /// Begins the next of the runs; false when there is none.
    async fn next_answer(&mut self) -> Result<bool> {
        let Some(values) = self.pending.next() else {
            return Ok(false);
        };
        self.reads.store(!self.may_write, Ordering::Relaxed);
        let mut begun = Begun(Some(&self.session));
        let answer = self.prepared.query(&values).await?;
        begun.0 = None;
        drop(begun);
        self.reads.store(!answer.has_written(), Ordering::Relaxed);
        self.answer = Some(answer);
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
            let next = answer.next().await;
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
