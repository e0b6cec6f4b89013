//! A session: one user's settings, transaction, and the horizon that it never goes back behind
//! (monotonic reads, own writes).
//!
//! ```text
//!   execute -> split -> run -> parse -> may it run here? -> query | dml | ddl | settings
//!                                                        -> an error fails the transaction
//! ```
//!
//! Invariant SES-1: the floor only rises: with each horizon that an answer had, and each token
//! that a write got. Unless `lazybase.monotonic` is off, every snapshot is at or after it.

use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use futures::future::BoxFuture;
use futures::stream::StreamExt;
use lazybase_cluster::Instance;
use lazybase_model::access::RoleId;
use lazybase_model::{Column, Error, Horizon, Result, Stamp, Table, TextPlace, Token};
use parking_lot::Mutex;
use tracing::Instrument;

use crate::access::{Gate, Identity, of_session, statements};
use crate::activity::{Activity, Attended};
use crate::advisory::SessionLocks;
use crate::answer::{Answer, AnswerStream};
use crate::clauses::Clauses;
use crate::copy::CopyPlan;
use crate::cursors::Cursors;
use crate::database::Database;
use crate::error::from_datafusion;
use crate::id_keys::lookup;
use crate::named_statements::NamedStatements;
use crate::observe::{self, Watch};
use crate::parse::{self, Parsed, Statement};
use crate::prepared::{Prepared, refuse_parameters};
use crate::sequences::{self, LastNumbers};
use crate::settings::{Asked, Settings};
use crate::split::{one_statement, split_script};
use crate::temporary::Temporary;
use crate::text_places::locate;
use crate::transaction::Transaction;
use crate::value::Value;
use crate::visible::Visible;
use crate::{
    alter, copy, ddl, dml, explain, named_statements, plain_views, read, show, upkeep, views,
};

mod acting;
mod branch;
mod commit;
mod planning;
mod rebinds;
mod snapshots;

pub(crate) use planning::Target;
pub(crate) use rebinds::Rebinds;

/// One user's session. Statements run one after the other.
pub struct Session {
    shared: Arc<Shared>,
}

/// How a session's transaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// There is none: each statement stands for itself.
    None,
    /// It is open.
    Open,
    /// A statement of it failed: it can only be rolled back.
    Failed,
}

impl TransactionStatus {
    pub(crate) fn of(state: &State) -> TransactionStatus {
        match &state.transaction {
            None => TransactionStatus::None,
            Some(transaction) if transaction.failed => TransactionStatus::Failed,
            Some(_) => TransactionStatus::Open,
        }
    }
}

/// Hears how far a statement has come, from 0 to 1.
type Progress = Arc<dyn Fn(f64) + Send + Sync>;

/// What a session's answers and writes share with it.
pub(crate) struct Shared {
    pub(crate) database: Database,
    /// The session that this one is a branch of: it never goes back behind its branches.
    parent: Option<Arc<Shared>>,
    pub(crate) state: Mutex<State>,
    /// Held while a statement is started, so that two never mix.
    pub(crate) gate: tokio::sync::Mutex<()>,
    progress: Mutex<Option<Progress>>,
    /// How others see it, where a server serves it.
    pub(crate) activity: Mutex<Option<Arc<Activity>>>,
    /// It is listed until it ends, where its server does not say until when.
    pub(crate) attended: Mutex<Option<Attended>>,
    /// Those that are kept for it.
    pub(crate) cursors: Arc<Cursors>,
    /// The statements that it keeps, together with its branches.
    pub(crate) named: Arc<NamedStatements>,
    /// What it has locked, together with its branches.
    pub(crate) locks: Arc<SessionLocks>,
    /// The numbers that it took last, together with its branches.
    pub(crate) last_numbers: Arc<LastNumbers>,
}

/// What a session remembers.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) identity: Identity,
    pub(crate) settings: Settings,
    /// What RESET goes back to.
    pub(crate) defaults: Settings,
    /// What is to be said of settings that it should have begun with, and did not.
    unfollowed: Vec<String>,
    pub(crate) floor: Horizon,
    pub(crate) last_stamp: Option<Stamp>,
    pub(crate) last_token: Option<Token>,
    pub(crate) transaction: Option<Transaction>,
    /// The producer that was opened, and the epoch of that.
    pub(crate) producer: Option<(String, u64)>,
    /// Once it has made a temporary table.
    pub(crate) temporary: Option<Temporary>,
    /// What it may do, as it was found last.
    pub(crate) gate: Option<Gate>,
}

impl Session {
    /// A session of a role; of whoever owns the folder, without one.
    pub(crate) fn new(database: Database, role: Option<RoleId>) -> Session {
        let mut settings = Settings::with(database.session_defaults());
        let begun = of_session::begun(&database.instance().manifest().access, role);
        let unfollowed = settings.begin(&begun);
        let state = State {
            identity: Identity::of(role),
            defaults: settings.clone(),
            settings,
            unfollowed,
            ..State::default()
        };
        Session::of_state(database, None, state)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Runs every statement of a script; stops at the first error.
    ///
    /// # Errors
    /// The first error; what earlier statements did stays.
    pub fn execute<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Vec<Answer>>> {
        Box::pin(async move {
            let mut answers = Vec::new();
            for statement in split_script(sql, 1)? {
                let begun = self.query(&statement.text).await;
                let begun = begun.map_err(|error| error.behind(statement.start()))?;
                answers.push(begun.collect().await?);
            }
            Ok(answers)
        })
    }

    /// Runs one statement; its rows come as a stream.
    ///
    /// # Errors
    /// `Invalid` when the text is not one statement, and whatever the statement meets before its
    /// first row.
    pub fn query<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<AnswerStream>> {
        Box::pin(async move { self.start(sql, None).await })
    }

    /// As [`Session::query`], for what gives rows and changes nothing.
    ///
    /// # Errors
    /// `Invalid` (25006) for every other statement, before it does anything.
    pub fn read<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<AnswerStream>> {
        Box::pin(async move {
            let statement = one_statement(sql)?;
            let parsed = parse::parse(&statement.text);
            let parsed = parsed.map_err(|error| statement.locate(error))?;
            match parsed.statement {
                Statement::Query(_) | Statement::Explain(_) => self.start(sql, None).await,
                _ => Err(Error::invalid("this is no query")
                    .with_hint("SELECT, VALUES, WITH and EXPLAIN give rows and change nothing")
                    .with_sqlstate("25006")),
            }
        })
    }

    /// Runs one `COPY ... FROM STDIN`, whose data are `input` up to its end.
    ///
    /// # Errors
    /// As [`Session::query`]; then nothing of the data is kept.
    pub async fn copy_from(
        &self,
        sql: &str,
        input: impl BufRead + Send + 'static,
    ) -> Result<AnswerStream> {
        self.start(sql, Some(Box::new(input))).await
    }

    /// What a COPY statement needs of the client that asks for it.
    ///
    /// # Errors
    /// `Invalid` for what is no COPY, `NotFound` for names that mean nothing.
    pub fn copy_plan(&self, sql: &str) -> Result<CopyPlan> {
        copy::plan(&self.shared, sql).map_err(|error| locate(error, sql, TextPlace::START))
    }

    /// Runs one `COPY ... TO STDOUT`: its rows, for the caller to write.
    ///
    /// # Errors
    /// As [`Session::query`].
    pub fn copy_to<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<AnswerStream>> {
        Box::pin(async move {
            let statement = one_statement(sql)?;
            let _running = self.shared.gate.lock().await;
            let watch = Watch::begin(&self.shared, statement.text.as_str());
            let copied = Box::pin(copy::copy_to_client(&self.shared, &statement.text));
            let answer = copied.instrument(watch.span()).await;
            if answer.is_err() {
                self.shared.fail_transaction();
            }
            watched(
                &self.shared,
                answer.map_err(|error| statement.locate(error)),
                watch,
            )
        })
    }

    /// Reads one statement with parameters `$1`, `$2`, ..., to be run any number of times.
    ///
    /// A read by full keys, such as `SELECT * FROM t WHERE k = $1`, is then neither parsed nor
    /// planned again. Other statements are planned each time, for each time they read another
    /// snapshot.
    ///
    /// ```no_run
    /// # async fn example(session: lazybase_query::Session) -> lazybase_model::Result<()> {
    /// let find = session.prepare("SELECT name FROM users WHERE id = $1").await?;
    /// for id in [1_i64, 2, 3] {
    ///     println!("{} rows", find.execute(&[id.into()]).await?.rows);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Invalid` when the text is not one statement, `NotFound` for names that mean nothing.
    pub fn prepare<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Prepared>> {
        Box::pin(async move { self.prepare_typed(sql, &[]).await })
    }

    /// As [`Session::prepare`], where the types of some parameters are known beforehand.
    ///
    /// # Errors
    /// As [`Session::prepare`].
    pub fn prepare_typed<'a>(
        &'a self,
        sql: &'a str,
        types: &'a [Option<DataType>],
    ) -> BoxFuture<'a, Result<Prepared>> {
        Box::pin(async move {
            let statement = one_statement(sql)?;
            let text = &statement.text;
            let prepared = Box::pin(Prepared::new(Arc::clone(&self.shared), text, types));
            let prepared = prepared.instrument(observe::preparing(text)).await;
            let prepared = prepared.map_err(|error| statement.locate(error))?;
            Ok(prepared.begun_at(statement.start()))
        })
    }

    /// Runs one statement with values for `$1`, `$2`, ..., to its end.
    ///
    /// # Errors
    /// As [`Session::prepare`] and [`Prepared::execute`].
    pub fn execute_with<'a>(
        &'a self,
        sql: &'a str,
        values: &'a [Value],
    ) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move { self.prepare(sql).await?.execute(values).await })
    }

    /// Tells `listener` how far a statement that takes long (SETTLE) has come, from 0 to 1.
    pub fn on_progress(&self, listener: impl Fn(f64) + Send + Sync + 'static) {
        *self.shared.progress.lock() = Some(Arc::new(listener));
    }

    fn start<'a>(
        &'a self,
        sql: &'a str,
        input: Option<copy::Input>,
    ) -> BoxFuture<'a, Result<AnswerStream>> {
        Box::pin(async move {
            let statement = one_statement(sql)?;
            let _running = self.shared.gate.lock().await;
            let watch = Watch::begin(&self.shared, statement.text.as_str());
            // In a box, so that whoever holds many statements' futures holds little for each.
            let run = Box::pin(run(&self.shared, &statement.text, input));
            let answer = run.instrument(watch.span()).await;
            if answer.is_err() {
                self.shared.fail_transaction();
            }
            watched(
                &self.shared,
                answer.map_err(|error| statement.locate(error)),
                watch,
            )
        })
    }

    /// The stamp of the last answer.
    pub fn last_stamp(&self) -> Option<Stamp> {
        self.shared.state.lock().last_stamp.clone()
    }

    /// Whether a transaction is open, failed or not.
    pub fn in_transaction(&self) -> bool {
        self.shared.state.lock().transaction.is_some()
    }

    /// How the session's transaction stands.
    pub fn transaction_status(&self) -> TransactionStatus {
        TransactionStatus::of(&self.shared.state.lock())
    }

    /// The open transaction, if there is one, can only be rolled back from here on: for callers
    /// that give up a statement before its end.
    pub fn fail_transaction(&self) {
        self.shared.fail_transaction();
    }

    /// Whether the session's transaction can go on: for callers that give more of what an earlier
    /// statement has begun.
    ///
    /// # Errors
    /// `Invalid` (25P02) in a transaction that has failed.
    pub fn check_not_failed(&self) -> Result<()> {
        match self.transaction_status() {
            TransactionStatus::Failed => Err(failed_transaction()),
            _ => Ok(()),
        }
    }

    /// The tables that the session sees, those of its transaction included, by id.
    pub fn tables(&self) -> Vec<Arc<Table>> {
        self.shared.visible().tables()
    }

    /// The table of a name, as the session sees it.
    ///
    /// # Errors
    /// `NotFound` (42P01) when there is none.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        self.shared.table(name)
    }

    /// The view of a name, be it materialized or not, as the session sees it.
    pub fn view(&self, name: &str) -> Option<Arc<Table>> {
        let found = self.shared.visible().relation(name);
        found.filter(|found| found.view_of.is_some() || found.query.is_some())
    }

    /// What a column of a table gets where a row gives it no value, as DESCRIBE shows it.
    pub fn default_of(&self, column: &Column) -> Option<String> {
        show::default_text(&self.shared.visible(), column)
    }

    /// Reads rows by their full keys, past the parser and the planner: the quickest way to a row.
    ///
    /// `keys` holds the key's columns by name, a row a key; `columns` names the columns wanted,
    /// all where there are none. Absent keys are left out.
    ///
    /// # Errors
    /// `NotFound` for an unknown table or column, `Invalid` for keys of another type.
    pub fn get<'a>(
        &'a self,
        table: &'a str,
        keys: &'a RecordBatch,
        columns: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move {
            let mut watch = Watch::begin(&self.shared, "SELECT");
            watch.is_point();
            let get = Box::pin(read::get(&self.shared, table, keys, columns));
            let answer = get.instrument(watch.span()).await;
            match &answer {
                Ok(answer) => {
                    watch.more(usize::try_from(answer.rows).unwrap_or(usize::MAX));
                    watch.end(answer.stamp.as_ref());
                }
                Err(error) => watch.fail(error),
            }
            answer
        })
    }
}

/// The answer as the session's client hears it, which the watch sees to its end.
pub(crate) fn watched(
    session: &Shared,
    answer: Result<AnswerStream>,
    watch: Watch,
) -> Result<AnswerStream> {
    match answer {
        Ok(answer) => Ok(answer.with_watch(watch).heard_by(session)),
        Err(error) => {
            watch.fail(&error);
            Err(error)
        }
    }
}

/// Does one statement, which has no parameters.
async fn run(session: &Arc<Shared>, sql: &str, input: Option<copy::Input>) -> Result<AnswerStream> {
    let mut input = input;
    let mut rebinds = Rebinds::of(session, input.is_some());
    session.statement_begins()?;
    loop {
        let parse = tracing::info_span!("parse");
        let unbound = parse.in_scope(|| session.read(sql))?;
        refuse_parameters(&unbound, sql)?;
        let done = dispatch(session, unbound.finish()?, sql, input.take()).await;
        match done {
            Err(error) if rebinds.again(&error) => {}
            done => return done,
        }
    }
}

/// Does one statement; `sql` is its text, for messages.
pub(crate) async fn dispatch(
    session: &Arc<Shared>,
    parsed: Parsed,
    sql: &str,
    input: Option<copy::Input>,
) -> Result<AnswerStream> {
    let Parsed {
        mut statement,
        mut clauses,
    } = parsed;
    session.check_allowed(&statement)?;
    session.check_may(&statement)?;
    session.check_number(&statement)?;
    let mut is_of_prepared = false;
    if let Statement::Explain(explained) = &mut statement {
        is_of_prepared = named_statements::spell_out(session, explained, &mut clauses)?;
    }
    if statement.may_write() {
        session.open_producer().await?;
    }
    let done = perform(session, statement, &clauses, sql, input).await;
    match is_of_prepared {
        true => done.map_err(Error::elsewhere),
        false => done,
    }
}

/// Does a statement that may be done.
async fn perform(
    session: &Arc<Shared>,
    mut statement: Statement,
    clauses: &Clauses,
    sql: &str,
    input: Option<copy::Input>,
) -> Result<AnswerStream> {
    Box::pin(lookup::resolve(session, &mut statement, clauses)).await?;
    match statement {
        Statement::Query(query) => read::query(session, query, clauses, sql).await,
        Statement::Explain(statement) => explain::explain(session, *statement, clauses, sql).await,
        Statement::CreateTable(create) => ddl::create(session, *create, clauses, sql).await,
        Statement::AlterTable(change) => alter::alter(session, *change).await,
        Statement::AlterPartition(alter) => ddl::partitions::alter(session, *alter).await,
        Statement::DropTable {
            names,
            if_exists,
            cascade,
        } => ddl::drop(session, &names, if_exists, cascade).await,
        Statement::CreateView(view) => views::create(session, *view).await,
        Statement::DropView {
            names,
            if_exists,
            cascade,
        } => views::drop(session, &names, if_exists, cascade).await,
        Statement::PlainView(statement) => plain_views::run(session, *statement).await,
        Statement::Truncate {
            names,
            if_exists,
            restart,
        } => ddl::truncate(session, &names, if_exists, restart).await,
        Statement::Sequence(statement) => sequences::statements::run(session, *statement).await,
        Statement::Insert(insert) => dml::insert::insert(session, *insert, clauses, sql).await,
        Statement::Update(update) => dml::change::update(session, *update, sql).await,
        Statement::Delete(delete) => dml::change::delete(session, *delete, sql).await,
        Statement::CopyTo { source, file } => {
            copy::copy_to(session, source, &file, clauses, sql).await
        }
        Statement::CopyFrom {
            table,
            columns,
            file,
            condition,
        } => {
            let kept = condition.as_deref();
            copy::copy_from(session, &table, &columns, &file, kept, input).await
        }
        Statement::Settle { table, to } => upkeep::settle(session, table, to).await,
        Statement::VerifyTable { table, share } => upkeep::verify(session, &table, share).await,
        Statement::Backup { folder } => upkeep::backup(session, &folder).await,
        Statement::Vacuum { tag, tables } => {
            let visible = session.visible();
            for table in &tables {
                if visible.relation(table).is_none() {
                    visible.require(table)?;
                }
            }
            Ok(AnswerStream::done(tag, 0))
        }
        Statement::Taken(taken) => ddl::taken::run(session, taken),
        Statement::RefreshView(name) => views::refresh(session, &name),
        Statement::Pause(stage) => {
            session.instance().pause(stage).await?;
            Ok(AnswerStream::done("PAUSE STAGE", 0))
        }
        Statement::Resume(stage) => {
            session.instance().resume(stage).await?;
            Ok(AnswerStream::done("RESUME STAGE", 0))
        }
        Statement::Access(statement) => statements::run(session, &statement).await,
        Statement::Named(statement) => named_statements::run(session, *statement, sql).await,
        Statement::Commit { chain } => session.commit(chain).await,
        other => show::local(session, other),
    }
}

impl Shared {
    pub(crate) fn instance(&self) -> &Instance {
        self.database.instance()
    }

    /// What tells the session's listener how far a statement has come.
    pub(crate) fn teller(&self) -> impl Fn(f64) + Sync + use<> {
        let progress = self.progress.lock().clone();
        move |share| {
            if let Some(progress) = &progress {
                progress(share);
            }
        }
    }

    /// The tables that the session sees.
    pub(crate) fn visible(&self) -> Visible {
        let state = self.state.lock();
        let transaction = state.transaction.as_ref();
        let changes = transaction.map(|transaction| transaction.buffer.tables.clone());
        Visible {
            manifest: self.instance().manifest(),
            changes: changes.unwrap_or_default(),
            temporary: state.temporary,
        }
    }

    pub(crate) fn parent(&self) -> Option<&Arc<Shared>> {
        self.parent.as_ref()
    }

    /// The table of a name.
    ///
    /// # Errors
    /// `NotFound` (42P01) when the session sees none of that name; `Invalid` for that of a view, of
    /// a plain one with 55000: it is not written to.
    pub(crate) fn table(&self, name: &str) -> Result<Arc<Table>> {
        let visible = self.visible();
        let found = visible.require(name);
        found.map_err(|error| match visible.plain_view(name) {
            Some(_) => error.with_sqlstate("55000"),
            None => error,
        })
    }

    /// Whether there is a transaction that has pinned its snapshot.
    pub(crate) fn has_snapshot(&self) -> bool {
        let state = self.state.lock();
        let transaction = state.transaction.as_ref();
        transaction.is_some_and(|transaction| transaction.snapshot.is_some())
    }

    /// Whether the transaction, if there is one, lets a query run.
    pub(crate) fn check_may_read(&self) -> Result<()> {
        match &self.state.lock().transaction {
            Some(transaction) if transaction.failed => Err(failed_transaction()),
            _ => Ok(()),
        }
    }

    /// Whether the transaction, if there is one, lets rows be written.
    pub(crate) fn check_may_write(&self) -> Result<()> {
        self.check_may_read()?;
        let state = self.state.lock();
        match state.is_read_only() {
            true => Err(read_only(&state)),
            false => Ok(()),
        }
    }

    /// Whether the transaction, if there is one, lets the statement run.
    fn check_allowed(&self, statement: &Statement) -> Result<()> {
        let state = self.state.lock();
        let transaction = state.transaction.as_ref();
        let ends = matches!(
            statement,
            Statement::Commit { .. } | Statement::Rollback { .. } | Statement::RollbackTo(_)
        );
        if transaction.is_some_and(|transaction| transaction.failed) && !ends {
            return Err(failed_transaction());
        }
        match statement {
            Statement::Settle { .. } | Statement::Backup { .. } if transaction.is_some() => {
                let message = "SETTLE and BACKUP can't run inside a transaction";
                Err(Error::invalid(message).with_sqlstate("25001"))
            }
            _ if state.is_read_only() && statement.changes_anything() => Err(read_only(&state)),
            _ => Ok(()),
        }
    }

    /// A statement begins: what an earlier query has asked to be set holds for it, and what an
    /// earlier one has pinned stands, whatever this one asks for.
    ///
    /// # Errors
    /// Those of SET.
    pub(crate) fn statement_begins(&self) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(transaction) = &mut state.transaction {
            transaction.pinned_by = None;
        }
        for Asked { name, value, local } in state.settings.take_asked() {
            // Of a query whose rows came after its transaction nothing is left.
            if !local || state.transaction.is_some() {
                state.set(&name, value.as_deref(), local)?;
            }
        }
        Ok(())
    }

    /// How others see the session, or the one that it is a branch of.
    pub(crate) fn activity(&self) -> Option<Arc<Activity>> {
        match &self.parent {
            Some(parent) => parent.activity(),
            None => self.activity.lock().clone(),
        }
    }

    /// Statements that take longer are logged.
    pub(crate) fn slow_query(&self) -> Option<Duration> {
        self.state.lock().settings.slow_query
    }

    /// The transaction can't go on.
    pub(crate) fn fail_transaction(&self) {
        if let Some(transaction) = &mut self.state.lock().transaction {
            transaction.failed = true;
        }
    }
}

fn read_only(state: &State) -> Error {
    let error = match state.transaction {
        Some(_) => Error::invalid("the transaction is read only"),
        None => Error::invalid("the session is read only"),
    };
    let error = match state.settings.read_only {
        true => error.with_hint("BEGIN READ WRITE, or SET default_transaction_read_only = off"),
        false => error,
    };
    error.with_sqlstate("25006")
}

fn failed_transaction() -> Error {
    Error::invalid("the transaction has failed: nothing of it is kept")
        .with_hint("ROLLBACK ends it, ROLLBACK TO a savepoint goes on from there")
        .with_sqlstate("25P02")
}

/// A stream of DataFusion's as one of ours. What its rows meet has no place in the statement.
pub(crate) fn ours(
    rows: datafusion::execution::SendableRecordBatchStream,
    sql: &str,
) -> futures::stream::BoxStream<'static, Result<arrow::array::RecordBatch>> {
    let sql = sql.to_owned();
    rows.map(move |batch| batch.map_err(|error| from_datafusion(&error, &sql).elsewhere()))
        .boxed()
}
