//! Appenders: Arrow batches into one table, or several, as one atomic batch.
//!
//! Reads record batches; writes changes through a [`BatchWriter`]. Invariant APP-1: a batch is
//! accepted whole or refused whole, with an error that names table, column and row; memory is
//! bounded, for what was appended is in the log already when `append` returns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::DataType;
use futures::future::BoxFuture;
use lazybase_cluster::{Acknowledgement, BatchNumber, BatchWriter};
use lazybase_engine::stages::remap::KeyedChanges;
use lazybase_model::access::Privilege;
use lazybase_model::{Error, Result, Table};
use tracing::Instrument;

use crate::cast::{check_digits, checked_cells, place, to_column};
use crate::changes::{deletes, updates};
use crate::context::Constants;
use crate::database::Database;
use crate::dml::defaults::Defaults;
use crate::dml::insert::{Conflict, RowMaker, column, id_is_given_out};
use crate::id_keys::{Keys, check_numbers};
use crate::ingest::MEET_IN_SQL;
use crate::observe;
use crate::sequences::Numbers;
use crate::session::Shared;
use crate::types;
use crate::visible::Visible;

/// What the rows of a batch do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Whole rows, whatever was there. Columns that are not given get their defaults. Columns with
    /// a merge operator are combined with what is there, or left where they are not given.
    Upsert,
    /// Whole rows where there is none; a row that is there stays.
    Insert,
    /// The columns given of rows that are there; no row stays no row.
    Update,
    /// No row. Columns that are not of the key are ignored.
    Delete,
}

/// Writes Arrow batches as one atomic batch. Dropping it leaves nothing.
///
/// ```no_run
/// # async fn example(database: lazybase_query::Database, rows: arrow::array::RecordBatch)
/// # -> lazybase_model::Result<()> {
/// use lazybase_query::Op;
///
/// let mut appender = database.appender();
/// appender.append("flights", &rows, Op::Upsert).await?;
/// let acknowledged = appender.commit().await?;
/// println!("{} rows, token {}", acknowledged.rows, acknowledged.token);
/// # Ok(())
/// # }
/// ```
pub struct Appender {
    database: Database,
    /// Whose rights count; without one, the folder's owner writes.
    session: Option<Arc<Shared>>,
    writer: BatchWriter,
    /// Whether a producer numbers the batch.
    numbered: bool,
    rows: u64,
    /// The number of the next row, in messages.
    next_row: u64,
}

impl Appender {
    pub(crate) fn new(
        database: Database,
        session: Option<Arc<Shared>>,
        number: Option<BatchNumber>,
    ) -> Appender {
        let numbered = number.is_some();
        let writer = database.instance().begin(number);
        Appender {
            database,
            session,
            writer,
            numbered,
            rows: 0,
            next_row: 1,
        }
    }

    /// Appends rows to a table. Columns are matched by name; values are taken as they are, or
    /// cast where nothing can be lost.
    ///
    /// # Errors
    /// `NotFound` for an unknown table or column, `Invalid` for values that don't fit; then the
    /// rows of this call are not part of the batch, and the batch can go on.
    pub fn append<'a>(
        &'a mut self,
        table: &'a str,
        rows: &'a RecordBatch,
        op: Op,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let table = self.database.table(table)?;
            self.check(&table, rows, op)?;
            let visible = Visible::stored(self.database.instance().manifest());
            let constants = Constants::new(self.database.clone(), None);
            let target = Target {
                visible: &visible,
                constants: &constants,
                table: &table,
                numbered: self.numbered,
            };
            let numbers = match &self.session {
                Some(session) => session.numbers(),
                None => Numbers::of(self.database.instance()),
            };
            let first_row = self.next_row;
            let defaults = target.defaults(rows, op, &numbers).await?;
            let changes = target.changes(rows, first_row, op, &defaults)?;
            self.rows += rows.num_rows() as u64;
            self.next_row += rows.num_rows() as u64;
            if changes.changes.rows() == 0 {
                return Ok(());
            }
            let instance = self.database.instance();
            Box::pin(check_numbers(instance, &table, &changes, first_row)).await?;
            self.writer.append_keyed(&table, changes).await
        })
    }

    /// Gives the next row this number in messages, for rows that are counted over more than this
    /// batch: those of a file. The first is 1.
    pub fn number_rows_from(&mut self, row: u64) {
        self.next_row = row;
    }

    /// Whether the session may write these columns so.
    fn check(&self, table: &Table, rows: &RecordBatch, op: Op) -> Result<()> {
        let Some(session) = &self.session else {
            return Ok(());
        };
        let gate = session.gate_now();
        let schema = rows.schema();
        let key = table.key_indices();
        let given = schema
            .fields()
            .iter()
            .filter_map(|field| table.column_index(field.name()));
        if op != Op::Upsert {
            gate.meet_rows(table, MEET_IN_SQL)?;
        }
        match op {
            Op::Upsert | Op::Insert => {
                gate.write(Privilege::Insert, table, &given.collect::<Vec<_>>())
            }
            Op::Update => {
                let set: Vec<usize> = given.filter(|at| !key.contains(at)).collect();
                gate.write(Privilege::Update, table, &set)
            }
            Op::Delete => gate.table(Privilege::Delete, table),
        }
    }

    /// Rows appended so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Makes the batch durable and visible.
    ///
    /// # Errors
    /// `MaybeHappened` when its fate is unknown: read back, or append again under the same
    /// producer number.
    pub fn commit(self) -> BoxFuture<'static, Result<Acknowledgement>> {
        Box::pin(async move {
            let clock = &self.database.instance().env().clock;
            let started = clock.monotonic();
            let span = tracing::info_span!("commit", scu = tracing::field::Empty);
            let acknowledged = self.writer.commit().instrument(span.clone()).await?;
            span.record("scu", acknowledged.token.horizon.scu.0);
            let took = clock.monotonic().saturating_sub(started);
            observe::committed(took, acknowledged.rows);
            // The session reads what it wrote, at whatever freshness.
            if let Some(session) = &self.session {
                session.note_token(acknowledged.token);
            }
            Ok(acknowledged)
        })
    }
}

/// The table that Arrow batches go to.
pub(crate) struct Target<'t> {
    /// The tables that keys may be of.
    pub(crate) visible: &'t Visible,
    /// What evaluates defaults.
    pub(crate) constants: &'t Constants,
    pub(crate) table: &'t Arc<Table>,
    /// Whether a producer numbers the batch that the rows are a part of.
    pub(crate) numbered: bool,
}

impl Target<'_> {
    /// The defaults of the table, with the numbers that these rows need of them.
    ///
    /// # Errors
    /// As [`Numbers::next`].
    pub(crate) async fn defaults(
        &self,
        rows: &RecordBatch,
        op: Op,
        numbers: &Numbers,
    ) -> Result<Defaults> {
        let defaults = Defaults::of(self.table)?;
        if matches!(op, Op::Upsert | Op::Insert) {
            let schema = rows.schema();
            let is_given = |at: usize| {
                let name = &self.table.columns[at].name;
                schema.column_with_name(name).is_some()
            };
            let missing = (0..self.table.written_columns()).filter(|at| !is_given(*at));
            let wanted = missing.map(|at| (at, rows.num_rows())).collect();
            defaults.take(numbers, wanted).await?;
        }
        Ok(defaults)
    }

    /// What rows do to the table; `first_row` is the number of the first, for messages. The
    /// defaults hold the numbers that the rows need.
    ///
    /// # Errors
    /// `NotFound` for an unknown column, `Invalid` for values that don't fit.
    pub(crate) fn changes(
        &self,
        rows: &RecordBatch,
        first_row: u64,
        op: Op,
        defaults: &Defaults,
    ) -> Result<KeyedChanges> {
        match op {
            Op::Upsert => self.whole_rows(rows, first_row, &Conflict::Replace, defaults),
            Op::Insert if self.table.hidden_key => {
                self.whole_rows(rows, first_row, &Conflict::Replace, defaults)
            }
            Op::Insert => self.whole_rows(rows, first_row, &Conflict::Keep, defaults),
            Op::Update | Op::Delete => self.of_keys(rows, first_row, op),
        }
    }

    fn whole_rows(
        &self,
        rows: &RecordBatch,
        first_row: u64,
        conflict: &Conflict,
        defaults: &Defaults,
    ) -> Result<KeyedChanges> {
        let (schema, table) = (rows.schema(), self.table);
        let mut keys = Keys::new(self.visible, self.constants);
        let mut given = Vec::with_capacity(rows.num_columns());
        let mut columns = Vec::with_capacity(rows.num_columns());
        for (field, values) in schema.fields().iter().zip(rows.columns()) {
            let at = column(table, field.name())?;
            if given.contains(&at) {
                return Err(given_twice(field.name()));
            }
            if table.owned_id().is_some_and(|(owned, _)| owned == at) {
                return Err(id_is_given_out(field.name()));
            }
            given.push(at);
            columns.push(lossless(&mut keys, values, table, at, first_row)?);
        }
        let (constants, numbered) = (self.constants, self.numbered);
        // What Arrow batches give, they give as values.
        let made = (constants, defaults);
        let maker = RowMaker::of(made, table, &given, conflict, numbered, |_, _| false);
        maker.changes(columns, keys, rows.num_rows(), first_row, conflict, None)
    }

    /// Updates or deletes of the rows of keys.
    fn of_keys(&self, rows: &RecordBatch, first_row: u64, op: Op) -> Result<KeyedChanges> {
        let table = self.table;
        let mut keys = Keys::new(self.visible, self.constants);
        let named = key_columns(&mut keys, table, rows, first_row)?;
        let changes = match op {
            Op::Delete => deletes(table, &named)?,
            _ => {
                let set = set_columns(&mut keys, table, rows, first_row)?;
                updates(table, &named, &set)?
            }
        };
        Ok(KeyedChanges {
            changes,
            keys: keys.finish()?,
            generated: Vec::new(),
        })
    }
}

fn given_twice(name: &str) -> Error {
    Error::invalid(format!("column {name:?} is given twice")).with_sqlstate("42701")
}

/// The key's columns, in the order of the key.
fn key_columns(
    keys: &mut Keys<'_>,
    table: &Table,
    rows: &RecordBatch,
    first_row: u64,
) -> Result<Vec<ArrayRef>> {
    if table.hidden_key {
        return Err(Error::invalid(format!(
            "table {:?} has no key: its rows can't be named",
            table.name
        ))
        .with_hint("UPDATE and DELETE in SQL find rows by their values")
        .with_sqlstate("42P10"));
    }
    table
        .key_indices()
        .into_iter()
        .map(|at| {
            let name = &table.columns[at].name;
            let values = rows.column_by_name(name).ok_or_else(|| {
                Error::invalid(format!("the key's column {name:?} is not given"))
                    .with_sqlstate("42703")
            })?;
            let values = lossless(keys, values, table, at, first_row)?;
            checked_cells(values, true, &place(table, at, first_row))
        })
        .collect()
}

/// The columns given that are not of the key, with their values.
fn set_columns(
    keys: &mut Keys<'_>,
    table: &Table,
    rows: &RecordBatch,
    first_row: u64,
) -> Result<Vec<(usize, ArrayRef)>> {
    let key = table.key_indices();
    let mut set: Vec<(usize, ArrayRef)> = Vec::with_capacity(rows.num_columns());
    for (field, values) in rows.schema().fields().iter().zip(rows.columns()) {
        let at = column(table, field.name())?;
        if set.iter().any(|(column, _)| *column == at) {
            return Err(given_twice(field.name()));
        }
        if !key.contains(&at) {
            let values = lossless(keys, values, table, at, first_row)?;
            set.push((
                at,
                checked_cells(values, false, &place(table, at, first_row))?,
            ));
        }
    }
    Ok(set)
}

/// Values as the column's type, where the cast can lose nothing.
fn lossless(
    keys: &mut Keys<'_>,
    values: &ArrayRef,
    table: &Table,
    at: usize,
    first_row: u64,
) -> Result<ArrayRef> {
    let place = place(table, at, first_row);
    if place.column.id_key.is_some() {
        return keys.cells(values, &place);
    }
    let (given, wanted) = (values.data_type(), place.data_type());
    if *given == DataType::Null {
        return Ok(new_null_array(wanted, values.len()));
    }
    if types::may_fit(given, wanted) || values.null_count() == values.len() {
        check_digits(values, &place)?;
        return to_column(values, &place);
    }
    Err(types::lossy(table, place.column, given))
}
