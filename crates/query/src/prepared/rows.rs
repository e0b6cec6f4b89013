//! A prepared statement that is run once for each row of Arrow batches, as one atomic batch.
//!
//! ```text
//!   INSERT INTO t VALUES ($1, 'x', $2)     columns of values -> dml::insert::write_rows
//!   UPDATE t SET a = $1 WHERE key = $2     columns of keys and values -> Sink
//!   DELETE FROM t WHERE key = $1           columns of keys -> Sink
//!   anything else                          one by one, in a transaction
//! ```
//!
//! Reads batches; writes through a `Sink`. Invariant ROWS-1: what a statement of the first kinds
//! writes is what running it row by row would.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{filter, is_not_null};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::sql::sqlparser::ast::Expr;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt, iter};
use lazybase_engine::key::Partitioner;
use lazybase_model::access::Privilege;
use lazybase_model::{Error, IdentityKind, Result, Table};
use tracing::Instrument;

use super::Prepared;
use crate::answer::AnswerStream;
use crate::cast::{checked_cells, checked_key, place, to_column};
use crate::changes::repeated;
use crate::dml::defaults::is_default;
use crate::dml::insert::{
    Conflict, Rows, column, columns_given, conflict, id_is_given_out, key_is_set, permit,
    values_given, write_rows,
};
use crate::dml::moved::can_move;
use crate::dml::sink::Sink;
use crate::id_keys::Keys;
use crate::ingest::{copied, for_sink, pieces};
use crate::keys::key_pattern;
use crate::literal::{Literal, to_array};
use crate::observe::Watch;
use crate::parse::parameters::number_of;
use crate::parse::{self, ChangedRows, Delete, Insert, InsertSource, Statement, Text, Update};
use crate::sequences::columns::check_given;
use crate::session::{Shared, watched};
use crate::types;
use crate::value::Value;
use crate::walk::visit_expressions;

/// Where a column's values come from.
#[derive(Debug, Clone)]
enum Source {
    /// The parameter in this place, counted from 0.
    Parameter(usize),
    /// The same constant for each row.
    Constant(Literal),
}

/// What all rows do at once.
enum AtOnce {
    Insert {
        table: Arc<Table>,
        given: Vec<usize>,
        values: Vec<Source>,
        conflict: Conflict,
    },
    Update {
        table: Arc<Table>,
        keys: Vec<Source>,
        set: Vec<(usize, Source)>,
    },
    Delete {
        table: Arc<Table>,
        keys: Vec<Source>,
    },
}

type Batches = BoxStream<'static, Result<RecordBatch>>;

impl Prepared {
    /// Runs the statement once for each row: its columns are the parameters' values, in their
    /// order. All of it is one atomic batch, or part of the session's transaction.
    ///
    /// INSERT of values, and UPDATE and DELETE by full keys, take whole columns, and any number of
    /// rows in bounded memory; other statements run row by row, and what they write is kept in
    /// memory until the end.
    ///
    /// # Errors
    /// As [`Prepared::query`]; then nothing of it is kept.
    pub fn execute_rows(
        &self,
        schema: SchemaRef,
        rows: Batches,
    ) -> BoxFuture<'_, Result<AnswerStream>> {
        Box::pin(async move {
            let (columns, wanted) = (schema.fields().len(), self.types.len());
            if columns != wanted {
                return Err(Error::invalid(format!(
                    "the statement has {wanted} parameters, {columns} values are given"
                ))
                .with_sqlstate("08P01"));
            }
            let _running = self.session.gate.lock().await;
            let watch = Watch::begin(&self.session, Arc::clone(&self.sql));
            let run = async {
                match self.at_once(&schema)? {
                    Some(at_once) => self.run_at_once(at_once, rows).await,
                    None => self.run_one_by_one(rows).await,
                }
            };
            let done = Box::pin(run).instrument(watch.span()).await;
            if done.is_err() {
                self.session.fail_transaction();
            }
            let done = done.map_err(|error| self.locate(error));
            watched(&self.session, done, watch)
        })
    }

    /// How the rows are done at once, if they can be.
    fn at_once(&self, schema: &SchemaRef) -> Result<Option<AtOnce>> {
        let unbound = self.unbound()?;
        let Text::Sql(tree) = &unbound.text else {
            return Ok(None);
        };
        let statement = parse::with_extras(tree.as_ref().clone(), unbound.extras.clone())?;
        let statement = parse::known(statement, self.statement.clauses)?.statement;
        let plan = Plan {
            session: &self.session,
            schema,
        };
        match statement {
            Statement::Insert(insert) => plan.insert(*insert),
            Statement::Update(update) => plan.update(*update),
            Statement::Delete(delete) => plan.delete(*delete),
            _ => Ok(None),
        }
    }

    async fn run_at_once(&self, at_once: AtOnce, rows: Batches) -> Result<AnswerStream> {
        let session = &self.session;
        session.statement_begins()?;
        session.check_may_write()?;
        session.open_producer().await?;
        let mut sink = Sink::of(session);
        let (word, written) = match at_once {
            AtOnce::Insert {
                table,
                given,
                values,
                conflict,
            } => {
                permit(session, &mut sink, &table, &given, &conflict)?;
                let rows = Rows::given(columns_of(rows, &table, &given, values, &sink));
                let written =
                    write_rows(session, &table, &given, rows, &conflict, &mut sink).await?;
                ("INSERT 0", written)
            }
            AtOnce::Update { table, keys, set } => {
                let columns: Vec<usize> = set.iter().map(|(at, _)| *at).collect();
                session.gate_now().may_read(&table, &table.key_indices())?;
                sink.permit(Privilege::Update, &table, &columns)?;
                let updated = change(session, &table, &keys, &set, rows, &mut sink).await?;
                ("UPDATE", updated)
            }
            AtOnce::Delete { table, keys } => {
                session.gate_now().may_read(&table, &table.key_indices())?;
                sink.permit(Privilege::Delete, &table, &[])?;
                let deleted = change(session, &table, &keys, &[], rows, &mut sink).await?;
                ("DELETE", deleted)
            }
        };
        let token = sink.finish(session).await?;
        Ok(AnswerStream::done(format!("{word} {written}"), written).with_token(token))
    }

    /// Runs the statement row by row, in the session's transaction or one of its own.
    async fn run_one_by_one(&self, mut rows: Batches) -> Result<AnswerStream> {
        let own = !self.session.has_transaction();
        if own {
            let mut state = self.session.state.lock();
            let read_only = state.settings.read_only;
            state.begin(read_only, true);
        }
        // Given up half way, nothing of it is kept.
        let mut ended = Ended {
            session: own.then(|| Arc::clone(&self.session)),
        };
        let (mut written, mut word) = (0, String::from("INSERT 0"));
        while let Some(batch) = rows.next().await {
            for values in Value::rows_of(&batch?)? {
                let mut answer = self.run(&values).await?;
                while let Some(rows) = answer.next().await {
                    rows?;
                }
                written += answer.written();
                word = answer.tag();
            }
        }
        ended.session = None;
        let token = match own {
            true => self.session.commit(false).await?.token(),
            false => None,
        };
        let word = word
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .trim_end();
        Ok(AnswerStream::done(format!("{word} {written}"), written).with_token(token))
    }
}

/// Rolls a session's transaction back when it is dropped.
struct Ended {
    session: Option<Arc<Shared>>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            drop(session.state.lock().take());
        }
    }
}

/// Finds out whether rows can be done at once: `None` where they can't.
struct Plan<'p> {
    session: &'p Arc<Shared>,
    schema: &'p SchemaRef,
}

impl Plan<'_> {
    fn insert(&self, insert: Insert) -> Result<Option<AtOnce>> {
        // What it tells is checked where it runs.
        if insert.returning.is_some() {
            return Ok(None);
        }
        let table = self.session.table(&insert.table)?;
        let InsertSource::Values(rows) = insert.source else {
            return Ok(None);
        };
        let all = columns_given(&table, &insert.columns)?;
        let all = values_given(all, &insert.columns, &rows)?;
        if !insert.overriding {
            check_given(&table, &all, &rows)?;
        }
        let [row] = rows.as_slice() else {
            return Ok(None);
        };
        let updates = insert.on_conflict.iter().filter_map(|c| c.update.as_ref());
        if updates.flatten().any(|(_, value)| has_parameter(value)) {
            return Ok(None);
        }
        let (mut given, mut values) = (Vec::new(), Vec::new());
        for (at, value) in all.into_iter().zip(row) {
            if is_default(value) {
                continue;
            }
            let Some(source) = self.source(value, &table, at) else {
                return Ok(None);
            };
            given.push(at);
            values.push(source);
        }
        Ok(Some(AtOnce::Insert {
            conflict: conflict(&table, insert.on_conflict)?,
            table,
            given,
            values,
        }))
    }

    fn update(&self, update: Update) -> Result<Option<AtOnce>> {
        if update.returning.is_some() {
            return Ok(None);
        }
        let table = self.session.table(&update.rows.table)?;
        let Some(keys) = self.changed_keys(&update.rows, &table) else {
            return Ok(None);
        };
        let mut set = Vec::with_capacity(update.assignments.len());
        for (name, value) in &update.assignments {
            let at = column(&table, name)?;
            if table.key_indices().contains(&at) {
                match can_move(&table) {
                    true => return Ok(None),
                    false => return Err(key_is_set(name)),
                }
            }
            if table.owned_id().is_some_and(|(owned, _)| owned == at) {
                return Err(id_is_given_out(name));
            }
            if table.columns[at].identity == Some(IdentityKind::Always) {
                return Ok(None);
            }
            match self.source(value, &table, at) {
                Some(source) => set.push((at, source)),
                None => return Ok(None),
            }
        }
        Ok(Some(AtOnce::Update { table, keys, set }))
    }

    fn delete(&self, delete: Delete) -> Result<Option<AtOnce>> {
        if delete.returning.is_some() {
            return Ok(None);
        }
        let table = self.session.table(&delete.rows.table)?;
        let keys = self.changed_keys(&delete.rows, &table);
        Ok(keys.map(|keys| AtOnce::Delete { table, keys }))
    }

    /// A value that goes to a column, if it is the same for each row or a parameter whose values
    /// become the column's as the constants in a statement's text would.
    fn source(&self, value: &Expr, table: &Table, at: usize) -> Option<Source> {
        let place = &table.columns[at];
        if let Some(number) = number_of(value) {
            let given = self.schema.field(number - 1).data_type();
            let fits = place.id_key.is_some()
                || given.is_null()
                || is_text(given)
                || types::is_lossless(given, &place.data_type);
            return fits.then_some(Source::Parameter(number - 1));
        }
        let literal = Literal::of(value).filter(|_| place.id_key.is_none())?;
        Some(Source::Constant(literal))
    }

    /// The same of the rows of a change, where nothing else must be asked for which they are.
    fn changed_keys(&self, rows: &ChangedRows, table: &Table) -> Option<Vec<Source>> {
        // A row that may not be read is not met: only a query can tell.
        let hides_rows = self.session.gate_now().hides_rows(table);
        let alone = rows.is_of_table() && !hides_rows;
        let keys = self.keys(rows.selection.as_ref(), table, rows.called());
        keys.filter(|_| alone)
    }

    /// The values of the key's columns in its order, if a predicate asks for one whole key.
    fn keys(&self, predicate: Option<&Expr>, table: &Table, alias: &str) -> Option<Vec<Source>> {
        let pattern = key_pattern(predicate?, table, alias)?;
        let key = table.key_indices();
        let columns = pattern.single()?.into_iter().zip(&key);
        columns
            .map(|(literal, at)| {
                let place = &table.columns[*at];
                if place.id_key.is_some() {
                    return None;
                }
                match literal {
                    Literal::Parameter(number) => {
                        let given = self.schema.field(number - 1).data_type();
                        let fits = given.is_null()
                            || is_text(given)
                            || types::is_lossless(given, &place.data_type);
                        fits.then_some(Source::Parameter(number - 1))
                    }
                    constant => constant
                        .compares_with(&place.data_type)
                        .then_some(Source::Constant(constant)),
                }
            })
            .collect()
    }
}

fn has_parameter(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |part| match number_of(part) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn is_text(given: &DataType) -> bool {
    types::storable(given).is_ok_and(|kept| kept == DataType::Utf8)
}

/// The batches of an INSERT, whose columns go to `given` in order.
fn columns_of(
    rows: Batches,
    table: &Arc<Table>,
    given: &[usize],
    values: Vec<Source>,
    sink: &Sink,
) -> Batches {
    let (table, given) = (Arc::clone(table), given.to_vec());
    let in_transaction = sink.in_transaction();
    let piece = move |piece: RecordBatch| -> Result<RecordBatch> {
        let piece = match in_transaction {
            true => copied(&piece)?,
            false => piece,
        };
        let columns: Result<Vec<ArrayRef>> = given
            .iter()
            .zip(&values)
            .map(|(at, source)| cells(source, &piece, &table, *at))
            .collect();
        let names = given.iter().map(|at| &table.columns[*at].name);
        RecordBatch::try_from_iter(names.zip(columns?))
            .map_err(|error| Error::internal(error.to_string()))
    };
    let piece = Arc::new(piece);
    rows.flat_map(move |batch| {
        let made: Vec<Result<RecordBatch>> = match batch {
            Ok(batch) => pieces(&batch).map(|rows| piece(rows)).collect(),
            Err(error) => vec![Err(error)],
        };
        iter(made)
    })
    .boxed()
}

/// The values that a source gives for the rows of a batch.
fn cells(source: &Source, rows: &RecordBatch, table: &Table, at: usize) -> Result<ArrayRef> {
    let place = place(table, at, 1);
    match source {
        Source::Parameter(at) => {
            let values = rows.column(*at);
            Ok(match values.data_type().is_null() {
                true => arrow::array::new_null_array(place.data_type(), values.len()),
                false => Arc::clone(values),
            })
        }
        Source::Constant(literal) => repeated(
            &to_array(std::slice::from_ref(literal), &place)?,
            rows.num_rows(),
        ),
    }
}

/// Updates or, where nothing is set, deletes the rows of keys.
async fn change(
    session: &Arc<Shared>,
    table: &Arc<Table>,
    keys: &[Source],
    set: &[(usize, Source)],
    mut rows: Batches,
    sink: &mut Sink,
) -> Result<u64> {
    let constants = session.constants();
    let visible = session.visible();
    let partitioner = Partitioner::of(table)?;
    let mut written = 0_u64;
    while let Some(batch) = rows.next().await {
        for piece in pieces(&batch?) {
            let piece = for_sink(piece, sink)?;
            let Some((piece, keys)) = named(table, keys, piece, partitioner.as_ref())? else {
                continue;
            };
            let mut mentioned = Keys::new(&visible, &constants);
            let mut values = Vec::with_capacity(set.len());
            for (at, source) in set {
                let place = place(table, *at, written + 1);
                let new = mentioned.cells(&cells(source, &piece, table, *at)?, &place)?;
                values.push((*at, checked_cells(new, false, &place)?));
            }
            match set.is_empty() {
                true => sink.delete(table, &keys, Vec::new()).await?,
                false => {
                    let mentioned = mentioned.finish()?;
                    sink.update(table, &keys, &values, &[], mentioned).await?;
                }
            }
            written += piece.num_rows() as u64;
        }
    }
    Ok(written)
}

/// The rows whose keys a stored row can have, with these keys.
fn named(
    table: &Table,
    keys: &[Source],
    rows: RecordBatch,
    partitioner: Option<&Partitioner>,
) -> Result<Option<(RecordBatch, Vec<ArrayRef>)>> {
    let mut columns = Vec::with_capacity(keys.len());
    for (source, at) in keys.iter().zip(table.key_indices()) {
        columns.push(key_cells(&cells(source, &rows, table, at)?, table, at)?);
    }
    let (rows, columns) = kept(rows, columns, |columns| {
        let mut valued: Option<BooleanArray> = None;
        for column in columns {
            let here = is_not_null(column)?;
            valued = Some(match valued {
                None => here,
                Some(others) => arrow::compute::and(&others, &here)?,
            });
        }
        Ok(valued)
    })?;
    let checked = columns.into_iter().zip(table.key_indices());
    let columns: Result<Vec<ArrayRef>> = checked
        .map(|(column, at)| checked_key(column, &place(table, at, 1)))
        .collect();
    let taken = |columns: &[ArrayRef]| match partitioner {
        None => Ok(None),
        Some(partitioner) => partitioner.taken(columns),
    };
    let columns = columns?;
    let mask = taken(&columns)?;
    let (rows, columns) = kept(rows, columns, |_| Ok(mask))?;
    Ok((rows.num_rows() > 0).then_some((rows, columns)))
}

/// The rows and columns where a mask, if there is one, says so.
fn kept(
    rows: RecordBatch,
    columns: Vec<ArrayRef>,
    mask: impl FnOnce(&[ArrayRef]) -> Result<Option<BooleanArray>, arrow::error::ArrowError>,
) -> Result<(RecordBatch, Vec<ArrayRef>)> {
    let failed = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    match mask(&columns).map_err(failed)? {
        Some(mask) if mask.true_count() < rows.num_rows() => {
            let columns = columns.iter().map(|column| filter(column, &mask));
            let columns = columns.collect::<Result<_, _>>().map_err(failed)?;
            let rows = arrow::compute::filter_record_batch(&rows, &mask).map_err(failed)?;
            Ok((rows, columns))
        }
        _ => Ok((rows, columns)),
    }
}

/// Values that a key's column is compared with: a number that the column can't hold is no key.
fn key_cells(values: &ArrayRef, table: &Table, at: usize) -> Result<ArrayRef> {
    let place = place(table, at, 1);
    let integers = values.data_type().is_integer() && place.data_type().is_integer();
    match integers {
        true => arrow::compute::cast(values, place.data_type())
            .map_err(|error| Error::internal(error.to_string())),
        false => to_column(values, &place),
    }
}
