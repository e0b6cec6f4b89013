//! Tells a story to a database and to the model, and compares every answer.
//!
//! ```text
//!   step -> LazyBase: a session's execute ----> answer with its stamp ---+
//!       \                                                                +-> compare
//!        -> model: the version that the stamp's horizon names -> plain --+
//! ```
//!
//! A *version* is what all tables held after a batch; the acknowledgement's token says at which
//! horizon. An answer is held to the newest version at or before its own horizon.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lazybase_cluster::Settings;
use lazybase_engine::env::Env;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_model::{Error, ErrorKind, Horizon};
use lazybase_query::plain::PlainTables;
use lazybase_query::{Answer, Database, Op, Prepared, Session, Value};

use crate::change::{Change, Given};
use crate::compare::{Class, Table};
use crate::excuse::{Excuse, excuse};
use crate::plain::{self, Known, Plain};
use crate::plant::Plant;
use crate::query::Query;
use crate::rows::{Asked, Mark, State};
use crate::story::{Ask, Step, Story};

mod answers;
mod backup;
mod known;
mod pipeline;
mod slow;
mod tables;
mod times;
mod transaction;

use slow::Slow;
use transaction::Transaction;

/// A statement that takes longer hangs.
const STATEMENT_TIME_MAX: Duration = Duration::from_secs(300);
/// How many queries are asked again.
const KEPT_MAX: usize = 12;

/// What a story did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Queries whose answers were compared.
    pub(crate) compared: u64,
    /// Of these, those with a mistake that the planner is known to make over plain tables too.
    pub(crate) planner: u64,
    /// Of these, those of a query that had been asked before.
    pub(crate) again: u64,
    /// Changes.
    pub(crate) changes: u64,
    /// Changes of tables, beside those that are made when a story begins.
    pub(crate) defined: u64,
    /// Queries of what is not there, which were refused.
    pub(crate) absent: u64,
    /// Statements that both refused.
    pub(crate) refused: u64,
    /// Statements that failed on one side, for what the rows hold that it looked at: for numbers
    /// that they compute.
    pub(crate) of_arithmetic: u64,
    /// The same for casts.
    pub(crate) of_casts: u64,
    /// Answers from more than one stage.
    pub(crate) mixed: u64,
    /// Answers that left acknowledged batches out.
    pub(crate) stale: u64,
    /// Answers that were read long after they had been asked for.
    pub(crate) slow: u64,
    /// Backups that were restored.
    pub(crate) restored: u64,
    /// Answers that were also told by hand.
    pub(crate) by_hand: u64,
    /// Answers to queries that name hidden columns.
    pub(crate) hidden: u64,
    /// SCUs whose times were asked for.
    pub(crate) times: u64,
    /// Rows of all answers.
    pub(crate) rows: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.compared += other.compared;
        self.planner += other.planner;
        self.again += other.again;
        self.changes += other.changes;
        self.defined += other.defined;
        self.absent += other.absent;
        self.refused += other.refused;
        self.of_arithmetic += other.of_arithmetic;
        self.of_casts += other.of_casts;
        self.mixed += other.mixed;
        self.stale += other.stale;
        self.slow += other.slow;
        self.restored += other.restored;
        self.by_hand += other.by_hand;
        self.hidden += other.hidden;
        self.times += other.times;
        self.rows += other.rows;
    }

    /// All that was sent, and held to what the model says.
    pub(crate) fn statements(&self) -> u64 {
        self.compared + self.changes + self.defined + self.refused + self.of_rows()
    }

    /// Statements that failed on one side, for what the rows hold that it looked at.
    pub(crate) fn of_rows(&self) -> u64 {
        self.of_arithmetic + self.of_casts
    }

    fn excused(&mut self, excuse: Excuse) {
        match excuse {
            Excuse::Arithmetic => self.of_arithmetic += 1,
            Excuse::Cast => self.of_casts += 1,
        }
    }
}

/// What is wrong.
#[derive(Debug, Clone)]
pub(crate) struct Violation(pub(crate) String);

type Run<T = ()> = Result<T, Violation>;

fn wrong<T>(what: impl fmt::Display) -> Run<T> {
    Err(Violation(what.to_string()))
}

/// How a story ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) violation: Option<Violation>,
    /// What was said, one line a statement.
    pub(crate) lines: Vec<String>,
}

/// What the tables held after a batch.
struct Version {
    horizon: Horizon,
    state: State,
    /// Whether it is the boundary inside a transaction at which rows were taken away: AS OF alone
    /// may show it.
    inside: bool,
    /// Made when somebody asks, where tables and views have these names: without hidden columns,
    /// and with them.
    tables: [Option<(Vec<String>, PlainTables)>; 2],
}

/// What is told of a change.
struct Done {
    /// Where it stands, if it has a place of its own.
    token: Option<Horizon>,
    /// How many rows it has changed.
    rows: u64,
}

impl Done {
    fn of(answers: &[Answer]) -> Done {
        Done {
            token: token(answers),
            rows: answers.last().map_or(0, |answer| answer.rows),
        }
    }
}

/// A query whose answer is known.
struct Kept {
    query: Query,
    version: usize,
    expected: Table,
}

struct World {
    plain: Plain,
    store: MemoryStore,
    database: Database,
    writer: Session,
    /// What the writer has prepared, by its text.
    prepared: BTreeMap<String, Prepared>,
    steady: Session,
    loose: Session,
    pinned: Session,
    /// The version and horizon of the read-only transaction, once it has read; `None` without one.
    pin: Option<Option<(usize, Horizon)>>,
    /// The newest horizon that the steady session has seen.
    seen: Horizon,
    versions: Vec<Version>,
    /// The version in which all tables are there that the story begins with.
    begun: usize,
    transaction: Option<Transaction>,
    known: Known,
    /// Whether the story looks at hidden columns.
    looks: bool,
    /// A mistake that is made on purpose.
    plant: Option<Plant>,
    kept: VecDeque<Kept>,
    slow: Option<Slow>,
    width: (usize, usize),
    outcome: Outcome,
}

/// Tells a story.
pub(crate) async fn tell(plain: &Plain, story: &Story, plant: Option<Plant>) -> Outcome {
    let mut world = match World::new(plain).await {
        Ok(world) => World {
            looks: times::are_looked_at(story),
            plant,
            ..world
        },
        Err(error) => {
            return Outcome {
                violation: Some(Violation(format!("the database does not open: {error}"))),
                ..Outcome::default()
            };
        }
    };
    for step in &story.steps {
        if let Err(violation) = world.step(step).await {
            world.outcome.violation = Some(violation);
            break;
        }
    }
    world.slow = None;
    if let Err(error) = world.database.close().await
        && world.outcome.violation.is_none()
    {
        world.outcome.violation = Some(Violation(format!("the database does not close: {error}")));
    }
    world.outcome
}

async fn open(store: &MemoryStore) -> lazybase_model::Result<Database> {
    let settings = Settings {
        seal_age: Duration::from_secs(3600),
        // Views and tables of a few hundred rows are cut into several ranges.
        range_split_bytes: 4 << 10,
        ..Settings::default()
    };
    Database::open_env(Env::system(Arc::new(store.clone())), settings).await
}

impl World {
    async fn new(plain: &Plain) -> lazybase_model::Result<World> {
        let store = MemoryStore::new();
        let database = open(&store).await?;
        let mut world = World {
            plain: plain.clone(),
            writer: database.session(),
            prepared: BTreeMap::new(),
            steady: database.session(),
            loose: database.session(),
            pinned: database.session(),
            store,
            database,
            pin: None,
            seen: Horizon::ZERO,
            versions: Vec::new(),
            begun: 0,
            transaction: None,
            known: Known::default(),
            looks: false,
            plant: None,
            kept: VecDeque::new(),
            slow: None,
            width: (1, 8192),
            outcome: Outcome::default(),
        };
        world.sessions().await?;
        world.pause().await?;
        Ok(world)
    }

    /// New sessions, each with its settings.
    async fn sessions(&mut self) -> lazybase_model::Result<()> {
        self.writer = self.database.session();
        self.steady = self.database.session();
        self.loose = self.database.session();
        self.pinned = self.database.session();
        self.writer
            .execute("SET lazybase.read_modify_write = on")
            .await?;
        self.loose.execute("SET lazybase.monotonic = off").await?;
        self.seen = Horizon::ZERO;
        self.set_width().await
    }

    async fn set_width(&self) -> lazybase_model::Result<()> {
        let (partitions, rows) = self.width;
        for session in [&self.writer, &self.steady, &self.loose, &self.pinned] {
            session
                .execute(&format!(
                    "SET datafusion.execution.target_partitions = {partitions};
                     SET datafusion.execution.batch_size = {rows}"
                ))
                .await?;
        }
        Ok(())
    }

    fn say(&mut self, line: impl Into<String>) {
        self.outcome.lines.push(line.into());
    }

    /// Whether this mistake is made.
    fn has(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    /// The SCU of what was acknowledged so.
    fn scu_at(&self, horizon: Horizon) -> u64 {
        horizon.scu.0 + u64::from(self.has(Plant::WrongScu))
    }

    /// Who has set what a statement sets that was acknowledged so, or was not, in a transaction.
    fn mark_of(&self, token: Option<Horizon>) -> Mark {
        token.map_or(Mark::Own, |horizon| Mark::Scu(self.scu_at(horizon)))
    }

    fn newest(&self) -> usize {
        self.versions.len().saturating_sub(1)
    }

    fn state(&self) -> State {
        match (&self.transaction, self.versions.last()) {
            (Some(transaction), _) => transaction.state.clone(),
            (None, Some(version)) => version.state.clone(),
            (None, None) => State::default(),
        }
    }

    async fn step(&mut self, step: &Step) -> Run {
        match step {
            Step::Create(table) => {
                let table = Arc::clone(table);
                self.make(&table.create(), |state| state.create(&table))
                    .await?;
                self.begun = self.newest();
                Ok(())
            }
            Step::View(view) => self.view(view).await,
            Step::DropView(view) => self.drop_view(view).await,
            Step::Files => self.files().await,
            Step::Change(change) => self.change(change).await,
            Step::Define(define) => self.define(define).await,
            Step::Begin { .. }
            | Step::Savepoint
            | Step::RollbackTo
            | Step::Commit
            | Step::Rollback => self.transaction(step).await,
            Step::BeginReadOnly => {
                self.say("pinned: BEGIN READ ONLY");
                self.pin = Some(None);
                fine(self.pinned.execute("BEGIN READ ONLY").await)
            }
            Step::EndReadOnly => self.end_read_only().await,
            Step::BeginSlow(query, clause) => self.begin_slow(query, clause).await,
            Step::EndSlow => self.end_slow().await,
            Step::Push(push) => self.push(*push).await,
            Step::Width(partitions, rows) => {
                self.width = (*partitions, *rows);
                self.say(format!("-- {partitions} partitions, {rows} rows a batch"));
                fine(self.set_width().await)
            }
            Step::Query(query, ask) => self.query(query, *ask).await,
            Step::Again => self.again().await,
        }
    }

    async fn end_read_only(&mut self) -> Run {
        if self.pin.take().is_some() {
            self.say("pinned: ROLLBACK");
            return fine(self.pinned.execute("ROLLBACK").await);
        }
        Ok(())
    }

    async fn files(&mut self) -> Run {
        let paths: Vec<String> = (0..crate::kind::PATHS.0)
            .map(|path| format!("('p{path}', NULL)"))
            .collect();
        let sql = format!("INSERT INTO files (path, note) VALUES {}", paths.join(", "));
        self.say(&sql);
        let answers = timely(self.writer.execute(&sql)).await?;
        let answers = answers.map_err(|error| Violation(format!("{error:?}")))?;
        let (mut state, token) = (self.state(), token(&answers));
        state.know_paths(crate::kind::PATHS.0, self.mark_of(token));
        self.add_version(state, token);
        self.learn().await
    }

    /// Asks for what the model can't know of the newest version.
    async fn learn(&mut self) -> Run {
        self.learn_numbers().await?;
        self.learn_times().await
    }

    fn add_version(&mut self, state: State, horizon: Option<Horizon>) {
        let sealed = self.database.instance().manifest().sealed_through;
        let before = self
            .versions
            .last()
            .map_or(Horizon::ZERO, |version| version.horizon);
        let last = self.versions.last();
        if last.is_some_and(|last| !state.keeps_names(&last.state)) {
            self.kept.clear();
        }
        self.versions.push(Version {
            horizon: horizon.unwrap_or(Horizon::end_of(sealed)).max(before),
            state,
            inside: false,
            tables: [None, None],
        });
    }

    /// Asks for the numbers of paths that have none.
    async fn learn_numbers(&mut self) -> Run {
        let Some(files) = self.state().tables.get("files").cloned() else {
            return Ok(());
        };
        if files.rows.len() == self.known.numbers.len() {
            return Ok(());
        }
        let answers = self
            .loose
            .execute("SELECT path, id FROM files FRESHNESS 0")
            .await;
        let answers = answers.map_err(|error| Violation(format!("{error:?}")))?;
        let kinds = [crate::kind::Kind::Text, crate::kind::Kind::BigInt];
        let rows = plain::rows_of(&answers[0].batches, &kinds, &self.known.numbers);
        let rows = rows.map_err(|error| Violation(error.to_string()))?;
        if rows.len() != files.rows.len() {
            return wrong(format!(
                "{} paths have numbers, not {}",
                rows.len(),
                files.rows.len()
            ));
        }
        for row in rows {
            let (path, number) = (row[0].to_string(), row[1].to_string());
            let number: i64 = number
                .parse()
                .map_err(|_| Violation(format!("{path}: {number}")))?;
            let numbers = &mut self.known.numbers;
            if numbers.get(&path).is_some_and(|known| *known != number) {
                return wrong(format!("path {path} has another number now: {number}"));
            }
            let taken = numbers
                .iter()
                .any(|(other, n)| *n == number && *other != path);
            if taken {
                return wrong(format!("number {number} was given twice"));
            }
            numbers.insert(path, number);
        }
        Ok(())
    }

    async fn change(&mut self, change: &Change) -> Run {
        let sql = change.sql();
        let (state, table) = (self.state(), change.table());
        let fits = state.seen(table.id);
        let fits = fits.is_some_and(|rows| Arc::ptr_eq(&rows.table, table));
        // What a program appends is a batch of its own, and of tables that all see.
        let may_append = self.transaction.is_none() && !table.is_temporary;
        let cannot = matches!(change.given(), Some(Given::Arrow(_))) && !may_append;
        if !fits || cannot || self.lacks(&sql, true) {
            return Ok(());
        }
        self.guard().await?;
        self.say(format!("{}{sql}", self.margin()));
        self.outcome.tally.changes += 1;
        let mut state = self.state();
        let asked = self.asked(change, &state).await;
        let done = self.done(change, &sql).await?;
        if let Ok(asked) = &asked
            && state.has_no_place(change, asked)
        {
            return self.no_place(&sql, done).await;
        }
        let (asked, token) = match (asked, done) {
            (Ok(asked), Ok(done)) => {
                let rows = state.table(table.id).expect("it is seen");
                let counted = change.counted(asked.len(), rows);
                let told = done.rows + u64::from(self.has(Plant::WrongCount));
                if !counted.contains(&told) {
                    return wrong(format!("told of {told} rows, not of {counted:?}"));
                }
                (asked, done.token)
            }
            (Err(plain), Err(error)) if Class::of(&plain) == Class::of(&error) => {
                return self.both_refused(&error).await;
            }
            (Err(plain), Err(error)) => {
                return wrong(format!("refused: {error:?}, not for {plain:?}"));
            }
            (Ok(_), Err(error)) if Class::of(&error) == Class::Rows => {
                self.excuse(&sql, &error)?;
                return self.both_refused(&error).await;
            }
            (Ok(_), Err(error)) => return wrong(format!("refused: {error:?}")),
            (Err(error), Ok(_)) => {
                return wrong(format!("only the plain engine failed: {error}"));
            }
        };
        state.apply(change, &asked, self.mark_of(token));
        if let Some(transaction) = &mut self.transaction {
            transaction.state = state;
            if let Change::Truncate { .. } = change {
                transaction.stored.apply(change, &Asked::new(), Mark::Own);
                transaction.empties = true;
            }
            return Ok(());
        }
        match (token, change) {
            (None, Change::Truncate { .. }) => self.add_version(state, None),
            (Some(horizon), _) => self.add_version(state, Some(horizon)),
            (None, _) if asked.is_empty() => {}
            (None, _) => return wrong("rows were found, and nothing was written"),
        }
        self.learn().await
    }

    /// Does a change.
    async fn done(&self, change: &Change, sql: &str) -> Run<Result<Done, Error>> {
        let Some(Given::Arrow(rows)) = change.given() else {
            let done = timely(self.writer.execute(sql)).await?;
            return Ok(done.map(|answers| Done::of(&answers)));
        };
        let table = change.table();
        let all: Vec<usize> = (0..table.columns.len()).collect();
        let batch = plain::batch_of(&table.names(&all), rows);
        let batch = batch.map_err(|error| Violation(error.to_string()))?;
        let mut appender = self.writer.appender(None);
        let appended = timely(appender.append(&table.name, &batch, Op::Upsert)).await?;
        if let Err(error) = appended {
            return Ok(Err(error));
        }
        let done = timely(appender.commit()).await?;
        Ok(done.map(|done| Done {
            token: Some(done.token.horizon),
            rows: done.rows,
        }))
    }

    /// What the plain engine says of the rows that a change touches.
    async fn asked(&mut self, change: &Change, state: &State) -> Result<Asked, Error> {
        let Some((sql, width)) = change.question() else {
            return Ok(Asked::new());
        };
        let table = change.table();
        let mut kinds: Vec<_> = table.columns.iter().map(|column| column.kind).collect();
        if let Change::Update { sets, .. } = change {
            let made = sets
                .iter()
                .filter(|(_, set)| matches!(set, crate::change::Set::Made(_)));
            kinds.extend(made.map(|(at, _)| table.columns[*at].kind));
        }
        let tables = self.plain.tables(state, &self.known, &sql)?;
        let sql = plain::spelt(&sql, &self.known.numbers);
        let (_, batches) = tables.query(&sql).await?;
        let rows = plain::rows_of(&batches, &kinds, &self.known.numbers)
            .map_err(|error| Error::invalid(error.to_string()).with_sqlstate("22P02"))?;
        let parts = |mut row: Vec<_>| {
            let made = row.split_off(width);
            (row, made)
        };
        Ok(rows.into_iter().map(parts).collect())
    }

    /// One side has failed alone: wrong, unless the statement explains it.
    fn excuse(&mut self, sql: &str, error: &Error) -> Run {
        match excuse(sql, error.sqlstate()) {
            Some(excuse) => {
                self.outcome.tally.excused(excuse);
                Ok(())
            }
            None => wrong(format!("failed alone: {sql}: {error:?}")),
        }
    }

    /// The newest version at or before a horizon.
    fn version_at(&self, horizon: Horizon) -> usize {
        let before = self
            .versions
            .iter()
            .rposition(|version| version.horizon <= horizon);
        before.unwrap_or(0)
    }

    /// Asks both, and compares.
    async fn query(&mut self, query: &Query, ask: Ask) -> Run {
        if self.versions.is_empty() {
            return Ok(());
        }
        // It was drawn over what all see: to the writer, a temporary table may stand before that.
        let ask = match ask {
            Ask::Pinned if self.pin.is_none() => Ask::Loose(" FRESHNESS 0"),
            other => other,
        };
        let by_writer = matches!(ask, Ask::Writer | Ask::Bound | Ask::Prepared);
        if self.lacks(&query.sql, by_writer) {
            let is_told = ask == Ask::Writer && !query.sql.contains("IDKEY(");
            return match is_told && self.transaction.is_none() {
                true => self.absent(&query.sql).await,
                false => Ok(()),
            };
        }
        let mut sql = query.sql.clone();
        if by_writer {
            self.guard().await?;
        }
        let session = match ask {
            Ask::Writer => &self.writer,
            Ask::Bound if query.bound.is_none() => &self.writer,
            Ask::Bound => {
                let (text, values) = query.bound.clone().unwrap_or_default();
                self.say(format!("{text} -- {values:?}"));
                let answer = timely(self.writer.execute_with(&text, &values)).await?;
                return self.check(query, ask, answer).await;
            }
            Ask::Prepared => {
                let bound = query.bound.clone();
                let (text, values) = bound.unwrap_or_else(|| (sql, Vec::new()));
                self.say(format!("{text} -- prepared, {values:?}"));
                let answer = self.ask_prepared(&text, &values).await?;
                return self.check(query, ask, answer).await;
            }
            Ask::Steady(clause) => {
                sql += clause;
                &self.steady
            }
            Ask::Loose(clause) => {
                sql += clause;
                &self.loose
            }
            Ask::Past(share) => {
                let sealed = self.database.instance().manifest().sealed_through.0;
                let first = self.first_scu();
                // Of an SCU that is not sealed yet, nobody knows the end.
                if let Some(more) = sealed.checked_sub(first) {
                    let scu = first + more * share as u64 / 1000;
                    sql += &format!(" AS OF SCU {scu}");
                }
                &self.loose
            }
            Ask::Pinned => &self.pinned,
        };
        let answer = timely(session.execute(&sql)).await?;
        let answer = answer.map(|mut answers| answers.remove(0));
        self.say(format!("{sql} -- {ask:?}"));
        self.check(query, ask, answer).await
    }

    /// Asks a statement of the writer's that is prepared when it is asked first, and stays so
    /// whatever becomes of its tables.
    async fn ask_prepared(&mut self, text: &str, values: &[Value]) -> Run<Result<Answer, Error>> {
        let prepared = match self.prepared.remove(text) {
            Some(prepared) => prepared,
            None => match timely(self.writer.prepare(text)).await? {
                Ok(prepared) => prepared,
                Err(error) => return Ok(Err(error)),
            },
        };
        let answer = timely(prepared.execute(values)).await;
        self.prepared.insert(text.to_owned(), prepared);
        answer
    }

    /// The SCU at whose end all tables are there that the story begins with.
    fn first_scu(&self) -> u64 {
        let begun = self.versions.get(self.begun);
        begun.map_or(1, |version| version.horizon.scu.0.max(1))
    }
}

/// The planner calls some of its own refusals internal; damage is never right.
fn check_error(error: &Error) -> Run {
    match error.kind() {
        ErrorKind::Corrupt => wrong(format!("{error:?}")),
        _ => Ok(()),
    }
}

fn token(answers: &[Answer]) -> Option<Horizon> {
    let last = answers.last()?;
    last.token.map(|token| token.horizon)
}

fn fine<T>(done: Result<T, Error>) -> Run {
    done.map(|_| ())
        .map_err(|error| Violation(format!("{error:?}")))
}

/// What is awaited, unless it hangs.
#[expect(
    clippy::disallowed_methods,
    reason = "watches from outside that a statement comes to its end"
)]
async fn timely<T>(statement: impl Future<Output = T>) -> Run<T> {
    match tokio::time::timeout(STATEMENT_TIME_MAX, statement).await {
        Ok(done) => Ok(done),
        Err(_) => wrong(format!(
            "nothing came in {} s",
            STATEMENT_TIME_MAX.as_secs()
        )),
    }
}
