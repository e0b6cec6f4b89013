//! Arrow batches into one table, which may have to be made first: one atomic batch, or a part of
//! the session's transaction.
//!
//! ```text
//!   schema of the batches -> table: as it is | made | dropped and made anew
//!   batches -> pieces -> Target::changes -> Sink -> one commit, with what happens to the table
//! ```
//!
//! Reads a stream of batches; writes through a `Sink`. Invariant ARR-1: memory is bounded by a
//! batch of the stream, whatever its length; nothing of a stream that fails is kept, also no table,
//! but for one that a producer's numbered batch was to go to.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use futures::stream::{BoxStream, StreamExt};
use lazybase_cluster::TableSpec;
use lazybase_model::access::Privilege;
use lazybase_model::{Column, Error, Result, Table};

use crate::answer::AnswerStream;
use crate::appender::{Op, Target};
use crate::dml::sink::Sink;
use crate::error::from_arrow;
use crate::id_keys::check_numbers;
use crate::parse::create::{checked_name, mark_key};
use crate::pg_catalog::types::is_json_field;
use crate::session::Shared;
use crate::temporary;
use crate::types;
use crate::views;
use crate::visible::TableChange;

/// The rows that are converted at once.
const PIECE_ROWS: usize = 65_536;

/// What happens when there is no table of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfAbsent {
    /// That is an error.
    Fail,
    /// It is made from the schema of the rows.
    Create,
}

/// What happens when there is a table of the name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfPresent {
    /// That is an error.
    Fail,
    /// The rows go into it.
    Append,
    /// It is dropped, and made anew from the schema of the rows; both or neither.
    Replace,
}

/// Where Arrow batches go, and what they do there.
#[derive(Debug, Clone)]
pub struct Ingest {
    /// The table's name.
    pub table: String,
    /// Whether it is a temporary one, of the session alone.
    pub temporary: bool,
    /// Whether it is said to be in the schema `public`, so that no temporary one is meant where
    /// there is another; one is made beside it.
    pub in_public: bool,
    /// What happens when it is not there.
    pub if_absent: IfAbsent,
    /// What happens when it is there.
    pub if_present: IfPresent,
    /// What the rows do.
    pub op: Op,
    /// The primary key of a table that is made; none makes a table without a key.
    pub key: Vec<String>,
    /// How many rows there are, where that is known beforehand: with more or fewer of them nothing
    /// is kept, for the stream was not whole.
    pub rows: Option<u64>,
}

impl Ingest {
    /// Into a table that is there.
    pub fn append(table: impl Into<String>) -> Ingest {
        Ingest {
            table: table.into(),
            temporary: false,
            in_public: false,
            if_absent: IfAbsent::Fail,
            if_present: IfPresent::Append,
            op: Op::Upsert,
            key: Vec::new(),
            rows: None,
        }
    }

    /// Into a table that is made where it is not there.
    pub fn create_append(table: impl Into<String>) -> Ingest {
        Ingest {
            if_absent: IfAbsent::Create,
            ..Ingest::append(table)
        }
    }

    /// The same with this primary key, for a table that is made.
    #[must_use]
    pub fn with_key<N: Into<String>>(mut self, key: impl IntoIterator<Item = N>) -> Ingest {
        self.key = key.into_iter().map(Into::into).collect();
        self
    }
}

/// Writes the batches of a stream.
pub(crate) async fn ingest(
    session: &Arc<Shared>,
    into: &Ingest,
    schema: &SchemaRef,
    mut rows: BoxStream<'static, Result<RecordBatch>>,
) -> Result<AnswerStream> {
    session.check_may_write()?;
    session.open_producer().await?;
    let mut sink = Sink::of(session);
    let table = table_of(session, into, schema, &mut sink)?;
    let mut sink = made_before(session, into, sink).await?;
    permit(session, &table, schema, into.op, &mut sink)?;
    let visible = session.visible();
    let constants = session.constants();
    let target = Target {
        visible: &visible,
        constants: &constants,
        table: &table,
        numbered: sink.is_numbered(),
    };
    // Columns that don't fit are told before anything is sent, and also where no row is.
    let numbers = session.numbers();
    let none = RecordBatch::new_empty(Arc::clone(schema));
    let defaults = target.defaults(&none, into.op, &numbers).await?;
    target.changes(&none, 1, into.op, &defaults)?;
    let mut written = 0_u64;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        for piece in pieces(&batch) {
            let piece = for_sink(piece, &sink)?;
            let first_row = written + 1;
            let defaults = target.defaults(&piece, into.op, &numbers).await?;
            let changes = target.changes(&piece, first_row, into.op, &defaults)?;
            let instance = session.instance();
            Box::pin(check_numbers(instance, &table, &changes, first_row)).await?;
            sink.append_keyed(&table, changes).await?;
            written += piece.num_rows() as u64;
        }
    }
    if let Some(rows) = into.rows.filter(|rows| *rows != written) {
        return Err(
            Error::invalid(format!("{rows} rows were announced, {written} have come"))
                .with_detail("nothing of them is kept")
                .with_sqlstate("22000"),
        );
    }
    let token = sink.finish(session).await?;
    Ok(AnswerStream::done(format!("INSERT 0 {written}"), written).with_token(token))
}

/// What whoever sees some rows only can do instead of changes by keys.
pub(crate) const MEET_IN_SQL: &str = "UPDATE and DELETE in SQL meet the rows that may be read";

/// Asks whether the session may write such rows.
fn permit(session: &Shared, table: &Table, schema: &Schema, op: Op, sink: &mut Sink) -> Result<()> {
    if sink.makes(table.id) {
        return Ok(());
    }
    let fields = schema.fields().iter();
    let given: Vec<usize> = fields
        .filter_map(|field| table.column_index(field.name()))
        .collect();
    let key = table.key_indices();
    match op {
        Op::Upsert => sink.permit(Privilege::Insert, table, &given),
        Op::Insert => {
            let gate = session.gate_now();
            gate.may_read(table, &key)?;
            gate.meet_rows(table, MEET_IN_SQL)?;
            sink.permit(Privilege::Insert, table, &given)
        }
        Op::Update => {
            session.gate_now().meet_rows(table, MEET_IN_SQL)?;
            let set: Vec<usize> = given.into_iter().filter(|at| !key.contains(at)).collect();
            sink.permit(Privilege::Update, table, &set)
        }
        Op::Delete => {
            session.gate_now().meet_rows(table, MEET_IN_SQL)?;
            sink.permit(Privilege::Delete, table, &[])
        }
    }
}

/// A producer's batch comes without DDL: the table that it goes to is made before it, so that a
/// batch that is sent again finds the table.
async fn made_before(session: &Arc<Shared>, into: &Ingest, sink: Sink) -> Result<Sink> {
    if !sink.is_numbered() || !sink.changes_tables() {
        return Ok(sink);
    }
    if into.if_present != IfPresent::Append {
        return Err(
            Error::invalid("a producer's batch can't make or replace its table")
                .with_detail("sent again, it would find the table that it has made")
                .with_hint("append, or create and append: that makes the table first")
                .with_sqlstate("0A000"),
        );
    }
    // The number is for the batch, not for what makes its table.
    let number = session.state.lock().settings.batch_number;
    let made = sink.finish(session).await;
    session.state.lock().settings.batch_number = number;
    made?;
    Ok(Sink::of(session))
}

/// The table that the rows go to, as it will be.
fn table_of(
    session: &Arc<Shared>,
    into: &Ingest,
    schema: &Schema,
    sink: &mut Sink,
) -> Result<Arc<Table>> {
    let visible = session.visible();
    let name = &match (into.temporary, into.in_public) {
        (true, _) => temporary::of_session(&into.table),
        (false, true) => temporary::of_public(&into.table),
        (false, false) => into.table.clone(),
    };
    let is_beside = !into.temporary && into.in_public && into.if_absent == IfAbsent::Create;
    let missing = match is_beside {
        true => !visible.is_taken(&into.table),
        false => visible.relation(name).is_none(),
    };
    match (missing, into.if_absent, into.if_present) {
        (false, _, IfPresent::Append) | (true, IfAbsent::Fail, _) => visible.require(name),
        (false, _, IfPresent::Fail) => {
            let what = format!("table {:?} is there already", into.table);
            Err(Error::conflict(what)
                .with_hint("append to it, or replace it")
                .with_sqlstate("42P07"))
        }
        (false, _, IfPresent::Replace) => {
            for change in views::dropped(&visible, visible.require(name)?, false)? {
                sink.change_table(change)?;
            }
            made(session, into, schema, sink)
        }
        (true, IfAbsent::Create, _) => made(session, into, schema, sink),
    }
}

/// A new table for rows of a schema.
fn made(
    session: &Arc<Shared>,
    into: &Ingest,
    schema: &Schema,
    sink: &mut Sink,
) -> Result<Arc<Table>> {
    let mut columns: Vec<Column> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let name = checked_name(field.name().clone())?;
        if columns.iter().any(|column| column.name == name) {
            return Err(
                Error::invalid(format!("column {name:?} is there twice")).with_sqlstate("42701")
            );
        }
        columns.push(Column {
            nullable: field.is_nullable(),
            json: is_json_field(field),
            ..Column::new(name, kept_type(field)?)
        });
    }
    if columns.is_empty() {
        return Err(Error::invalid("a table needs a column").with_sqlstate("42601"));
    }
    mark_key(&mut columns, &into.key)?;
    let key: Vec<&str> = into.key.iter().map(String::as_str).collect();
    let name = checked_name(into.table.clone())?;
    let name = match into.temporary {
        true => session.temporary().stored(&name),
        false => name,
    };
    let spec = TableSpec::new(&name, columns, &key);
    let table = session.instance().define_table(&spec)?;
    sink.change_table(TableChange::Create(Arc::clone(&table)))?;
    Ok(table)
}

/// The type of a column that is made for a field: times keep their unit.
fn kept_type(field: &Field) -> Result<DataType> {
    if types::is_uuid(field) {
        return Ok(types::UUID);
    }
    let kept = types::of_data(field.data_type())
        .map_err(|error| error.within(format_args!("column {:?}", field.name())))?;
    Ok(match (field.data_type(), kept) {
        (DataType::Timestamp(unit, _), DataType::Timestamp(_, zone)) => {
            DataType::Timestamp(*unit, zone)
        }
        (given @ (DataType::Time32(_) | DataType::Time64(_)), DataType::Time64(_)) => given.clone(),
        (_, kept) => kept,
    })
}

/// A batch in pieces of a bounded number of rows.
pub(crate) fn pieces(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    let starts = (0..batch.num_rows()).step_by(PIECE_ROWS);
    starts.map(|from| batch.slice(from, PIECE_ROWS.min(batch.num_rows() - from)))
}

/// Rows as their sink may keep them: a transaction must not hold on to memory that is none of its
/// own.
pub(crate) fn for_sink(rows: RecordBatch, sink: &Sink) -> Result<RecordBatch> {
    match sink.in_transaction() {
        false => Ok(rows),
        true => copied(&rows),
    }
}

/// Rows in memory of their own.
pub(crate) fn copied(rows: &RecordBatch) -> Result<RecordBatch> {
    let all: UInt32Array = (0..rows.num_rows() as u32).collect();
    take_record_batch(rows, &all).map_err(|error| from_arrow(&error))
}
