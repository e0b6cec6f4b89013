//! Queries: a snapshot, then either the rows of named keys, or DataFusion over the snapshot.
//!
//! Reads through [`Snapshot`]; writes nothing. Invariant READ-1: all tables of a statement, and
//! its stamp, are of one snapshot.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use futures::stream::{self, StreamExt};
use lazybase_engine::read::{OneRow, Snapshot};
use lazybase_model::{Result, SchemaVersion, Table};
use tracing::Instrument;

use crate::answer::{Answer, AnswerStream, Definitions};
use crate::cast::{checked_key, place, to_column};
use crate::catalog::{Names, definition_in};
use crate::clauses::Clauses;
use crate::context::{Read, stored_tables};
use crate::error::from_datafusion;
use crate::hidden;
use crate::id_keys::met::table_met;
use crate::id_keys::own;
use crate::kept_row::KeptRow;
use crate::key_order;
use crate::keys::{self, NamedKeys};
use crate::labels::Sight;
use crate::origins::Origin;
use crate::parse::natural_joins;
use crate::point::{self, PointRead};
use crate::scan::{Shape, shown_schema};
use crate::session::{Shared, Target, ours};
use crate::table::ScanNotes;

/// A query that has begun to run.
pub(crate) struct Opened {
    pub(crate) rows: SendableRecordBatchStream,
    /// `None` where no stored table is read.
    pub(crate) snapshot: Option<Snapshot>,
    /// Of the tables that the statement names.
    pub(crate) definitions: Definitions,
    pub(crate) origins: Vec<Origin>,
    /// Which columns have values that the database generates.
    pub(crate) generated: Vec<bool>,
    pub(crate) notes: ScanNotes,
}

impl Definitions {
    /// The definitions of tables at a snapshot, or those that are given.
    pub(crate) fn of(read: &Read, snapshot: Option<&Snapshot>) -> Result<Definitions> {
        let of_table = |table: &Arc<Table>| match snapshot {
            Some(snapshot) => Ok((table.id, definition_in(snapshot, table)?.version)),
            None => Ok((table.id, table.version)),
        };
        // Those of views are today's.
        let views = read.views.iter().map(|view| Ok((view.id, view.version)));
        let all = read.tables.iter().map(of_table).chain(views);
        all.collect::<Result<_>>().map(Definitions)
    }
}

/// Answers a query.
pub(crate) async fn query(
    session: &Arc<Shared>,
    query: Box<Query>,
    clauses: &Clauses,
    sql: &str,
) -> Result<AnswerStream> {
    if let Some(point) = recognise(session, &query, clauses)?
        && let Some(answer) = point_read(session, point, clauses).await?
    {
        return Ok(answer);
    }
    let opened = open(session, Statement::Query(query), clauses, sql).await?;
    let schema = opened.rows.schema();
    let rows = ours(opened.rows, sql);
    Ok(
        AnswerStream::rows(schema, rows, opened.snapshot, Arc::clone(session))
            .with_definitions(opened.definitions)
            .with_origins(opened.origins),
    )
}

/// The read of named keys that a query is, if it is one. Where the horizon may have had another
/// definition of the table, the planner looks.
pub(crate) fn recognise(
    session: &Shared,
    query: &Query,
    clauses: &Clauses,
) -> Result<Option<PointRead>> {
    let visible = session.visible();
    let point = point::recognise(query, |name| visible.table(name))?;
    Ok(point
        .filter(|point| clauses.as_of.is_none() || point.table.version == SchemaVersion::default()))
}

/// Begins to run a query over a snapshot that the clauses ask for.
pub(crate) async fn open(
    session: &Arc<Shared>,
    statement: Statement,
    clauses: &Clauses,
    sql: &str,
) -> Result<Opened> {
    let read = stored_tables(&statement, session, None)?;
    let snapshot = match read.tables.is_empty() {
        true => None,
        false => Some(session.snapshot(clauses, Some(read.ids())).await?),
    };
    let definitions = Definitions::of(&read, snapshot.as_ref())?;
    let target = table_met(session, &statement).map(|table| Target {
        table,
        hidden_key: false,
        free: Vec::new(),
        new_ids: true,
    });
    let opened = run(session, statement, snapshot, target, sql).await?;
    Ok(Opened {
        definitions,
        ..opened
    })
}

/// Begins to run a query over a snapshot that is there already.
pub(crate) async fn run(
    session: &Arc<Shared>,
    mut statement: Statement,
    snapshot: Option<Snapshot>,
    target: Option<Target>,
    sql: &str,
) -> Result<Opened> {
    let buffered = match &snapshot {
        Some(snapshot) => Box::pin(own::buffered(session, snapshot)).await?,
        None => own::Buffered::default(),
    };
    let shows_key = target.as_ref().is_some_and(|target| target.hidden_key);
    let (context, names) = session.context(snapshot.clone(), buffered, target);
    if let Statement::Query(query) = &mut statement {
        let gate = session.gate_now();
        // To sort by what may not be read would be refused.
        let may_order = |table: &Arc<Table>| gate.may_read(table, &table.key_indices()).is_ok();
        key_order::order(query, |name| names.definition(name).ok().filter(may_order));
    }
    spell(&mut statement, &names)?;
    if shows_key {
        hidden::show_key(&mut statement);
    }
    let begun = context.run(statement, sql, Some(session.seat())).await?;
    Ok(Opened {
        rows: begun.rows,
        snapshot,
        definitions: Definitions::default(),
        origins: begun.origins,
        generated: begun.generated,
        notes: names.notes,
    })
}

/// Writes out what a statement says by the columns of the tables that it names.
///
/// # Errors
/// Those of [`natural_joins::spell`] and [`hidden::show`].
pub(crate) fn spell(statement: &mut Statement, names: &Names) -> Result<()> {
    natural_joins::spell(statement, &|name| names.columns_of(name))?;
    hidden::show(statement, &|name| names.definition(name).ok())
}

/// Answers a read of named keys, past the planner; `None` where the snapshot has another definition
/// of the table than the read was made for.
pub(crate) async fn point_read(
    session: &Arc<Shared>,
    point: PointRead,
    clauses: &Clauses,
) -> Result<Option<AnswerStream>> {
    let sight = check_point(session, &point)?;
    let snapshot = session
        .snapshot(clauses, Some(vec![point.table.id]))
        .await?;
    if definition_in(&snapshot, &point.table)?.version != point.table.version {
        return Ok(None);
    }
    let read = Box::pin(rows_of_keys(session, &snapshot, &point, &sight));
    let found = read.instrument(tracing::info_span!("point read")).await?;
    let definitions = Definitions(vec![(point.table.id, point.table.version)]);
    let (schema, session) = (point.schema, Arc::clone(session));
    let answer = match found {
        OneRow::Packed(row) => {
            let row = KeptRow::new(row, point.projection);
            AnswerStream::kept_row(schema, row, snapshot, session)
        }
        OneRow::Rows(rows) => {
            let rows = stream::iter([Ok(rows)]).boxed();
            AnswerStream::rows(schema, rows, Some(snapshot), session)
        }
    };
    let answer = answer.with_definitions(definitions);
    Ok(Some(answer.with_origins(point.origins).of_keys()))
}

/// Whether the columns of a read of named keys may be read, and those that name the keys.
pub(crate) fn check_point(session: &Shared, point: &PointRead) -> Result<Sight> {
    let mut columns = point.table.key_indices();
    columns.extend(point.projection.iter());
    session.at_gate(|gate| gate.read(&point.table, &columns))
}

/// The rows of keys as SQL shows them, or the one row as it is kept, where nothing of it may be
/// hidden.
async fn rows_of_keys(
    session: &Shared,
    snapshot: &Snapshot,
    point: &PointRead,
    sight: &Sight,
) -> Result<OneRow> {
    let is_limited = sight.is_limited(&point.table);
    if is_limited {
        snapshot.conceal_sources();
    }
    let mut buffered = Box::pin(own::buffered(session, snapshot)).await?;
    let buffered = buffered.remove(&point.table.id).unwrap_or_default();
    let (table, columns) = (point.table.id, &*point.projection);
    let shape = || {
        let (table, schema) = (Arc::clone(&point.table), Arc::clone(&point.schema));
        Shape::with_schema(table, columns.to_vec(), sight, schema)
    };
    let (shape, rows) = match point.keys.as_slice() {
        [key] if !is_limited => match snapshot.get_one(table, key, columns, &buffered).await? {
            // Of a transaction's own it has nothing.
            OneRow::Packed(row) => return Ok(OneRow::Packed(row)),
            OneRow::Rows(rows) => (shape()?, rows),
        },
        keys => {
            let shape = shape()?;
            let stored = shape.stored_projection();
            let rows = snapshot.get(table, keys, &stored, &buffered).await?;
            (shape, rows)
        }
    };
    let shown = shape.show_in_place(&rows);
    let shown = shown.map_err(|error| from_datafusion(&error, ""))?;
    own::check_known(&point.table, columns, &shown)?;
    Ok(OneRow::Rows(shown))
}

/// Rows by their keys, for the Rust API.
pub(crate) async fn get(
    session: &Arc<Shared>,
    table: &str,
    keys: &RecordBatch,
    columns: &[&str],
) -> Result<Answer> {
    // A table that is altered between the two looks is looked at again.
    loop {
        let point = point_of(session, table, keys, columns)?;
        if let Some(rows) = point_read(session, point, &Clauses::default()).await? {
            return rows.collect().await;
        }
    }
}

fn point_of(
    session: &Shared,
    table: &str,
    keys: &RecordBatch,
    columns: &[&str],
) -> Result<PointRead> {
    let table = session.table(table)?;
    let projection: Vec<usize> = match columns.is_empty() {
        true => (0..table.visible_columns()).collect(),
        false => columns
            .iter()
            .map(|name| table.require_column(name))
            .collect::<Result<_>>()?,
    };
    let mut key = Vec::new();
    for index in table.key_indices() {
        let name = &table.columns[index].name;
        let given = keys.column_by_name(name).ok_or_else(|| {
            lazybase_model::Error::invalid(format!("the key's column {name:?} is not given"))
        })?;
        let place = place(&table, index, 1);
        key.push(checked_key(to_column(given, &place)?, &place)?);
    }
    let keys: NamedKeys = keys::distinct(key, &table)?;
    Ok(PointRead {
        schema: shown_schema(&table, &projection),
        origins: point::origins_of(&table, &projection),
        table,
        keys: keys.encoded,
        projection: projection.into(),
    })
}
