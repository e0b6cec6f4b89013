//! Statements that are read once and run many times, with values for `$1`, `$2`, ...
//!
//! ```text
//!   prepare: text -> tree -> types of the parameters; a read of full keys -> a pattern of it
//!   query:   values -> the pattern's keys -> Snapshot::get          (nothing is planned)
//!            values -> the tree's constants -> as any other statement
//! ```
//!
//! Reads and writes through the session. Invariant PRE-1: a pattern is used only while its table
//! is the one that it was made for.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::sql::sqlparser::ast;
use futures::future::BoxFuture;
use lazybase_engine::read::Snapshot;
use lazybase_model::{
    Column, Error, ErrorKind, Freshness, Result, SchemaVersion, Table, TableId, TextPlace,
};
use tracing::Instrument;

use crate::answer::{Answer, AnswerStream, Columns, Definitions};
use crate::catalog::definition_in;
use crate::clauses::Clauses;
use crate::context::{Read, stored_tables};
use crate::dml::change::{rows_of, told_of};
use crate::dml::defaults::is_default;
use crate::dml::insert::column;
use crate::dml::returning;
use crate::dml::returning::found::FoundColumns;
use crate::dml::returning::wanted::Wanted;
use crate::explain::counted;
use crate::id_keys::lookup;
use crate::id_keys::own::Buffered;
use crate::observe::Watch;
use crate::parse::convert;
use crate::parse::parameters::{self, number_of};
use crate::parse::{
    self, ChangedRows, Insert, InsertSource, NamedStatement, Statement, Text, Unbound,
};
use crate::planner::sql_types;
use crate::point::{self, PointPattern};
use crate::read;
use crate::session::{Rebinds, Shared, dispatch, watched};
use crate::text_places::{at_span, locate};
use crate::value::Value;
use crate::{explain, named_statements, types, upkeep};

mod rows;

/// A statement that was read, without the session that runs it.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    sql: Arc<str>,
    statement: Arc<Unbound>,
    types: Vec<Option<DataType>>,
    json: Vec<bool>,
    point: Option<Arc<PointPattern>>,
}

impl Kept {
    /// The statement, to be run by a session.
    pub(crate) fn within(&self, session: Arc<Shared>) -> Prepared {
        let Kept {
            sql,
            statement,
            types,
            json,
            point,
        } = self.clone();
        Prepared {
            session,
            sql,
            start: None,
            statement,
            types,
            json,
            point,
        }
    }

    /// As [`Prepared::takes_json`].
    pub(crate) fn takes_json(&self, at: usize) -> bool {
        self.json.get(at).copied().unwrap_or_default()
    }

    /// Whether EXECUTE may run it.
    pub(crate) fn may_be_executed(&self) -> bool {
        use ast::Statement as Ast;
        match &self.statement.text {
            Text::Ours(_) => false,
            Text::Sql(tree) => matches!(
                tree.as_ref(),
                Ast::Query(_) | Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_)
            ),
        }
    }
}

/// A statement of one session, read once. Made by [`crate::Session::prepare`].
pub struct Prepared {
    session: Arc<Shared>,
    sql: Arc<str>,
    /// Where its text begins in the one that the caller has; `None` where the caller has another.
    start: Option<TextPlace>,
    statement: Arc<Unbound>,
    types: Vec<Option<DataType>>,
    /// Whether the texts of each parameter are JSON.
    json: Vec<bool>,
    point: Option<Arc<PointPattern>>,
}

impl Prepared {
    /// Reads a statement and finds out what it can about its parameters; `declared` are the types
    /// that the caller knows.
    pub(crate) async fn new(
        session: Arc<Shared>,
        sql: &str,
        declared: &[Option<DataType>],
    ) -> Result<Prepared> {
        let statement = tracing::info_span!("parse").in_scope(|| session.read(sql))?;
        let count = match &statement.text {
            Text::Ours(_) => 0,
            Text::Sql(tree) => {
                let cast = statement.extras.casts.iter().map(|(number, _)| *number);
                parameters::count(tree)?.max(cast.max().unwrap_or(0))
            }
        };
        let mut prepared = Prepared {
            session,
            sql: sql.into(),
            start: Some(TextPlace::START),
            types: (0..count)
                .map(|at| declared.get(at).cloned().flatten())
                .collect(),
            json: vec![false; count],
            point: None,
            statement: Arc::new(statement),
        };
        if let Text::Sql(tree) = &prepared.statement.text {
            let written = prepared.statement.extras.casts.clone();
            for (number, sql_type) in written.into_iter().chain(parameters::cast(tree)) {
                let at = number - 1;
                // One that is declared, or cast before, is what it is known to be.
                if prepared.types[at].is_none() {
                    prepared.json[at] |= sql_types::is_any_json(&sql_type);
                    prepared.types[at] = sql_types::of_parameter(&sql_type);
                }
            }
            let tree = tree.as_ref().clone();
            prepared.look(tree).await?;
        }
        Ok(prepared)
    }

    /// The same statement, of whose parameters those are JSON, too, of which `is_json` says so;
    /// they are counted from 0.
    pub fn declared_json(mut self, is_json: impl Fn(usize) -> bool) -> Prepared {
        for (at, json) in self.json.iter_mut().enumerate() {
            *json |= is_json(at);
        }
        self
    }

    /// The same statement of a caller in whose text it begins here.
    pub(crate) fn begun_at(self, start: TextPlace) -> Prepared {
        Prepared {
            start: Some(start),
            ..self
        }
    }

    /// The same statement, to be run by another session.
    pub(crate) fn within(&self, session: Arc<Shared>) -> Prepared {
        Prepared {
            start: self.start,
            ..self.kept().within(session)
        }
    }

    /// An error of the statement, as its caller is told.
    fn locate(&self, error: Error) -> Error {
        match self.start {
            Some(start) => locate(error, &self.sql, start),
            None => error.elsewhere(),
        }
    }

    /// The same statement, for who keeps it without its session.
    pub(crate) fn kept(&self) -> Kept {
        Kept {
            // PREPARE has put blanks in the place of its own words.
            sql: self.sql.trim_start().into(),
            statement: Arc::clone(&self.statement),
            types: self.types.clone(),
            json: self.json.clone(),
            point: self.point.clone(),
        }
    }

    /// The statement's text.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The statement as the session reads it now: a temporary table that was made since takes its
    /// name from another, and the schema of that says which one is meant.
    fn unbound(&self) -> Result<Arc<Unbound>> {
        let temporary = self.session.temporary_names(&self.sql);
        match temporary.is_empty() {
            true => Ok(Arc::clone(&self.statement)),
            false => parse::read_beside(&self.sql, &temporary).map(Arc::new),
        }
    }

    /// The statement with these values in the places of its parameters, and its clauses.
    pub(crate) fn with_values(&self, values: &[Value]) -> Result<(ast::Statement, Clauses)> {
        let unbound = self.unbound()?;
        let Text::Sql(tree) = &unbound.text else {
            return Err(Error::internal("the statement was seen to be one of SQL"));
        };
        let mut tree = tree.as_ref().clone();
        parameters::bind(&mut tree, values);
        parse::formats(&mut tree)?;
        Ok((tree, unbound.clauses))
    }

    /// The statement that it is with these values.
    fn bound(&self, values: &[Value]) -> Result<Statement> {
        let unbound = self.unbound()?;
        match &unbound.text {
            Text::Ours(statement) => Ok(statement.as_ref().clone()),
            Text::Sql(tree) => {
                let mut tree = tree.as_ref().clone();
                parameters::bind(&mut tree, values);
                parse::formats(&mut tree)?;
                parse::with_extras(tree, unbound.extras.clone())
            }
        }
    }

    /// How many values the statement needs.
    pub fn parameters(&self) -> usize {
        self.types.len()
    }

    /// The type of each parameter, where the statement tells it: of the column that it is
    /// compared with or goes to. UUIDs are 16 bytes there, and texts elsewhere.
    pub fn parameter_types(&self) -> &[Option<DataType>] {
        &self.types
    }

    /// Whether the texts of a parameter, counted from 0, are JSON, where the statement tells it.
    pub fn takes_json(&self, at: usize) -> bool {
        self.json.get(at).copied().unwrap_or_default()
    }

    /// Whether the statement reads rows by full keys, and so is planned no more.
    pub fn reads_keys(&self) -> bool {
        self.point.is_some()
    }

    /// The columns of the rows that the statement gives, as its tables are now; `None` for one
    /// that gives no rows. Parameters whose types nothing tells are taken for texts.
    ///
    /// # Errors
    /// As the planner's, for what it can tell without the values.
    pub fn columns(&self) -> BoxFuture<'_, Result<Option<Columns>>> {
        Box::pin(async move {
            let columns = self.found_columns().await;
            columns.map_err(|error| self.locate(error))
        })
    }

    fn found_columns(&self) -> BoxFuture<'_, Result<Option<Columns>>> {
        Box::pin(async move {
            let visible = self.session.visible();
            if let Some(pattern) = self.point.as_ref().filter(|p| p.is_current(&visible))
                && !self.needs_horizon(&[Arc::clone(pattern.table())])
            {
                let table = pattern.table();
                return Ok(Some(Columns {
                    schema: pattern.schema(),
                    definitions: Definitions(vec![(table.id, table.version)]),
                    origins: pattern.origins().to_vec(),
                }));
            }
            let fixed = |schema| {
                Ok(Some(Columns {
                    schema,
                    definitions: Definitions::default(),
                    origins: Vec::new(),
                }))
            };
            let unbound = self.unbound()?;
            let statement = match &unbound.text {
                Text::Ours(statement) => statement.as_ref().clone(),
                Text::Sql(tree) => {
                    let mut tree = tree.as_ref().clone();
                    parameters::bind_nulls(&mut tree, &self.types, &self.json);
                    parse::with_extras(tree, unbound.extras.clone())?
                }
            };
            match statement {
                Statement::Query(query) => Ok(Some(self.columns_of(query, None).await?)),
                Statement::Update(update) => {
                    let update = *update;
                    let set = update.assignments.iter().map(|(name, _)| name.as_str());
                    self.told_columns(update.rows, set.collect(), update.returning)
                        .await
                }
                Statement::Delete(delete) => {
                    let delete = *delete;
                    self.told_columns(delete.rows, Vec::new(), delete.returning)
                        .await
                }
                Statement::Insert(insert) => returning::columns(&self.session, *insert),
                Statement::Explain(statement) => {
                    fixed(explain::columns(explain::is_in_json(&statement)))
                }
                Statement::Named(named) => match *named {
                    NamedStatement::Execute(execution) => {
                        let prepared = named_statements::prepared(&self.session, &execution)?;
                        prepared.columns().await
                    }
                    _ => Ok(None),
                },
                Statement::VerifyTable { .. } => fixed(upkeep::verify_columns()),
                Statement::Backup { .. } => fixed(upkeep::backup_columns()),
                Statement::Show(_)
                | Statement::ShowTables
                | Statement::ShowViews
                | Statement::ShowCreate { .. }
                | Statement::Describe { .. } => {
                    let parsed = parse::known(statement, self.statement.clauses)?;
                    let answer = dispatch(&self.session, parsed, &self.sql, None).await?;
                    fixed(answer.schema())
                }
                _ => Ok(None),
            }
        })
    }

    /// The columns of a query's rows; `target` is the table whose rows it finds for a change.
    async fn columns_of(&self, query: Box<ast::Query>, target: Option<TableId>) -> Result<Columns> {
        let mut statement = ast::Statement::Query(query);
        lookup::unknown_numbers(&mut statement);
        let read = stored_tables(&statement, &self.session, target)?;
        let of_horizon = match target {
            // What is changed is found in the newest state, or in that of the transaction.
            Some(_) => self.session.has_snapshot(),
            None => self.needs_horizon(&read.tables),
        };
        let snapshot = match of_horizon {
            true => {
                let clauses = self.statement.clauses;
                Some(self.session.glance(&clauses, Some(read.ids())).await?)
            }
            false => None,
        };
        let definitions = Definitions::of(&read, snapshot.as_ref())?;
        let (context, names) = self.session.context(snapshot, Buffered::default(), None);
        read::spell(&mut statement, &names)?;
        let (schema, origins) = context.columns(statement, &self.sql).await?;
        Ok(Columns {
            schema,
            definitions,
            origins,
        })
    }

    /// The columns that an UPDATE or DELETE tells of the rows that it changes, by setting `set`.
    async fn told_columns(
        &self,
        rows: ChangedRows,
        set: Vec<&str>,
        items: Option<Vec<ast::SelectItem>>,
    ) -> Result<Option<Columns>> {
        let Some(items) = items else {
            return Ok(None);
        };
        let table = self.session.table(&rows.table)?;
        let set = set.into_iter().map(|name| column(&table, name));
        let set = set.collect::<Result<Vec<usize>>>()?;
        let wanted = Wanted::of(&self.session, &table, &rows, &items)?;
        let query = told_of(rows, &wanted)?;
        let Columns {
            schema,
            definitions,
            origins,
        } = self.columns_of(query, Some(table.id)).await?;
        let found = FoundColumns {
            schema: &schema,
            origins: &origins,
            before: 1,
            shows_key: false,
            definitions,
        };
        Ok(Some(wanted.telling(&self.session, found, &set)?.columns()))
    }

    /// Whether the columns may be those of an earlier definition of the tables, which only the
    /// horizon tells that the statement would read.
    fn needs_horizon(&self, tables: &[Arc<Table>]) -> bool {
        let clauses = self.statement.clauses;
        if tables.is_empty() {
            return false;
        }
        let freshness = self.session.state.lock().settings.freshness;
        let is_fresh = clauses.freshness.unwrap_or(freshness) == Freshness::ZERO;
        let altered = |table: &Arc<Table>| table.version != SchemaVersion::default();
        clauses.as_of.is_some()
            || self.session.has_snapshot()
            || (!is_fresh && tables.iter().any(altered))
    }

    /// The columns of [`Prepared::columns`], for callers that need not know by which definitions of
    /// tables they were found.
    ///
    /// # Errors
    /// As [`Prepared::columns`].
    pub fn schema(&self) -> BoxFuture<'_, Result<Option<SchemaRef>>> {
        Box::pin(async move { Ok(self.columns().await?.map(|columns| columns.schema)) })
    }

    /// Runs the statement with these values; its rows come as a stream.
    ///
    /// # Errors
    /// `Invalid` (08P01) for another number of values than there are parameters, and whatever
    /// the statement meets before its first row.
    pub fn query<'a>(&'a self, values: &'a [Value]) -> BoxFuture<'a, Result<AnswerStream>> {
        Box::pin(async move {
            if values.len() != self.types.len() {
                return Err(Error::invalid(format!(
                    "the statement has {} parameters, {} values are given",
                    self.types.len(),
                    values.len()
                ))
                .with_sqlstate("08P01"));
            }
            let _running = self.session.gate.lock().await;
            let watch = Watch::begin(&self.session, Arc::clone(&self.sql));
            let run = async {
                let mut rebinds = Rebinds::of(&self.session, false);
                let mut answer = self.run(values).await;
                while answer.as_ref().is_err_and(|error| rebinds.again(error)) {
                    answer = self.run(values).await;
                }
                answer
            };
            let answer = Box::pin(run).instrument(watch.span()).await;
            if answer.is_err() {
                self.session.fail_transaction();
            }
            watched(
                &self.session,
                answer.map_err(|error| self.locate(error)),
                watch,
            )
        })
    }

    /// Runs the statement with these values, to its end.
    ///
    /// # Errors
    /// As [`Prepared::query`], and whatever is met later.
    pub fn execute<'a>(&'a self, values: &'a [Value]) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move { self.query(values).await?.collect().await })
    }

    /// Runs the statement as a part of another one, which has begun.
    pub(crate) async fn run(&self, values: &[Value]) -> Result<AnswerStream> {
        let clauses = self.statement.clauses;
        self.session.statement_begins()?;
        let visible = self.session.visible();
        if let Some(pattern) = self.point.as_ref().filter(|p| p.is_current(&visible)) {
            let past = clauses.as_of.is_some();
            if let Some(point) = pattern.bind(values)?.filter(|_| !past) {
                self.session.check_may_read()?;
                let read = read::point_read(&self.session, point, &clauses);
                if let Some(answer) = read.await? {
                    return Ok(answer);
                }
            }
        }
        let parsed = parse::known(self.bound(values)?, clauses)?;
        // In a box, so that reads by keys, which need none of it, carry none of it.
        Box::pin(dispatch(&self.session, parsed, &self.sql, None)).await
    }

    /// What the statement tells before it runs: a pattern of keys, types of parameters, and
    /// names that mean nothing.
    async fn look(&mut self, tree: ast::Statement) -> Result<()> {
        let visible = self.session.visible();
        let clauses = self.statement.clauses;
        let statement = parse::known(convert::statement(tree)?, clauses)?.statement;
        match statement {
            Statement::Query(query) => {
                self.point = point::pattern(&query, |name| visible.table(name)).map(Arc::new);
                self.look_at_query(query, None).await
            }
            Statement::Insert(insert) => self.look_at_insert(*insert).await,
            Statement::Update(update) => {
                let rows = update.rows;
                for (column, value) in &update.assignments {
                    self.goes_to(value, &rows.table, column)?;
                }
                let values = update.assignments.into_iter().map(|(_, value)| value);
                let values = values.filter(|value| !is_default(value));
                let values = values.chain(told_values(update.returning)).collect();
                let target = self.session.table(&rows.table)?.id;
                self.look_at_query(rows_of(rows, values)?, Some(target))
                    .await
            }
            Statement::Delete(delete) => {
                let target = self.session.table(&delete.rows.table)?.id;
                let values = told_values(delete.returning).collect();
                self.look_at_query(rows_of(delete.rows, values)?, Some(target))
                    .await
            }
            // Its plan is the query's own only if the values have the types that they have there.
            Statement::Explain(explained) => match *explained {
                ast::Statement::Explain { statement, .. } => match *statement {
                    ast::Statement::Query(query) => {
                        self.look_at_query(convert::reading(query)?, None).await
                    }
                    _ => Ok(()),
                },
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Takes the types that the planner finds for a query's parameters.
    async fn look_at_query(
        &mut self,
        query: Box<ast::Query>,
        target: Option<TableId>,
    ) -> Result<()> {
        if self.types.is_empty() {
            return Ok(());
        }
        for number in parameters::in_limit(&query) {
            self.types[number - 1].get_or_insert(DataType::Int64);
        }
        let mut statement = ast::Statement::Query(query);
        let Read { mut tables, views } = stored_tables(&statement, &self.session, target)?;
        let snapshot = self.past(&tables).await;
        if let Some(snapshot) = &snapshot {
            for table in &mut tables {
                if let Ok(then) = definition_in(snapshot, table) {
                    *table = then;
                }
            }
        }
        // A view has columns of its own, under names of its own.
        tables.extend(views);
        let (context, names) = self.session.context(snapshot, Buffered::default(), None);
        for (number, data_type) in parameters::in_calls(&statement) {
            self.types[number - 1].get_or_insert(data_type);
        }
        for (number, name) in parameters::lists(&statement) {
            let mut of = tables.iter().filter_map(|table| {
                let at = table.column_index(&name)?;
                Some(types::shown_list(&table.columns[at].data_type))
            });
            let list = of.next();
            self.types[number - 1]
                .get_or_insert_with(|| list.unwrap_or_else(|| types::shown_list(&DataType::Utf8)));
        }
        for (number, name) in parameters::compared(&statement) {
            // The planner takes a UUID for its text, and clients have a type for it.
            let is_uuid = |table: &Arc<Table>| {
                let at = table.column_index(&name);
                at.is_some_and(|at| table.columns[at].data_type == types::UUID)
            };
            if tables.iter().any(is_uuid) {
                self.types[number - 1].get_or_insert(types::UUID);
            }
        }
        read::spell(&mut statement, &names)?;
        match context.parameter_types(statement, &self.sql).await {
            Ok(found) => {
                for (number, data_type) in found {
                    if let Some(place) = self.types.get_mut(number - 1) {
                        place.get_or_insert(data_type);
                    }
                }
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Err(error),
            // Without the values the planner can't type every expression: it may with them.
            Err(_) => Ok(()),
        }
    }

    /// Where the tables may have other columns than now, a snapshot that tells which. Why there is
    /// none is said by whoever runs the statement.
    async fn past(&self, tables: &[Arc<Table>]) -> Option<Snapshot> {
        let clauses = self.statement.clauses;
        if tables.is_empty() || !(clauses.as_of.is_some() || self.session.has_snapshot()) {
            return None;
        }
        let ids = tables.iter().map(|table| table.id).collect();
        self.session.glance(&clauses, Some(ids)).await.ok()
    }

    async fn look_at_insert(&mut self, insert: Insert) -> Result<()> {
        let table = self.session.table(&insert.table)?;
        let given = crate::dml::insert::columns_given(&table, &insert.columns)?;
        match insert.source {
            InsertSource::Values(rows) => {
                for row in &rows {
                    for (value, at) in row.iter().zip(&given) {
                        self.is_of(value, &table.columns[*at]);
                    }
                }
                Ok(())
            }
            InsertSource::Query(query) => self.look_at_query(query, None).await,
            InsertSource::Defaults => Ok(()),
        }
    }

    fn goes_to(&mut self, value: &ast::Expr, table: &str, column: &str) -> Result<()> {
        let table = self.session.table(table)?;
        let at = crate::dml::insert::column(&table, column)?;
        self.is_of(value, &table.columns[at]);
        Ok(())
    }

    /// A value goes to a column: if it is a parameter of which nothing is known, it is of its type.
    fn is_of(&mut self, value: &ast::Expr, column: &Column) {
        let Some(at) = number_of(value).map(|number| number - 1) else {
            return;
        };
        if let Some(place @ None) = self.types.get_mut(at) {
            *place = Some(column.data_type.clone());
            self.json[at] |= column.json;
        }
    }
}

/// What RETURNING computes.
fn told_values(items: Option<Vec<ast::SelectItem>>) -> impl Iterator<Item = ast::Expr> {
    use ast::SelectItem as Item;
    let value = |item| match item {
        Item::UnnamedExpr(expr) | Item::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    };
    items.into_iter().flatten().filter_map(value)
}

/// Refuses a statement that needs values; `sql` is its text, which mostly has no sign of any.
pub(crate) fn refuse_parameters(statement: &Unbound, sql: &str) -> Result<()> {
    if !sql.contains(['$', '?', ':', '@']) {
        return Ok(());
    }
    let Text::Sql(tree) = &statement.text else {
        return Ok(());
    };
    match parameters::count(tree)? {
        0 => Ok(()),
        count => {
            let error = Error::invalid(format!(
                "the statement needs {}: it has parameters",
                counted(count, "value")
            ))
            .with_hint(
                "PREPARE name AS ..., then EXECUTE name (value) gives them; in Rust, \
                 session.execute_with(sql, &[value])",
            )
            .with_sqlstate("42P02");
            Err(at_span(error, parameters::first(tree)))
        }
    }
}
