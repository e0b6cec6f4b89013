//! The other engine: the same planner over plain tables in memory, with nothing of the storage
//! beneath.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as Planned};
use lazybase_model::{Error, Result};
use lazybase_query::plain::{PlainPlanner, PlainTables};

use crate::compare::Table;
use crate::hidden::{self, Times};
use crate::kind::{Cell, Kind, PATHS};
use crate::rows::{Mark, Rows, State, Stored};

/// The numbers that paths have got.
pub(crate) type Numbers = BTreeMap<String, i64>;

/// What the database has said that the model can't know.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) numbers: Numbers,
    pub(crate) times: Times,
}

/// The planner of all plain contexts: that of LazyBase.
#[derive(Debug, Clone)]
pub(crate) struct Plain {
    planner: PlainPlanner,
}

impl Plain {
    pub(crate) fn new() -> Result<Plain> {
        Plain::wide(1, 8192)
    }

    /// One that works as sessions are told to.
    pub(crate) fn wide(partitions: usize, rows: usize) -> Result<Plain> {
        let planner = PlainPlanner::new(partitions, rows)?;
        Ok(Plain { planner })
    }

    /// Tables and views that hold what the model says; tables with their hidden columns, where
    /// the statement that is to be asked names some.
    pub(crate) fn tables(&self, state: &State, known: &Known, sql: &str) -> Result<PlainTables> {
        self.tables_cut(state, known, sql, 1)
    }

    /// The same, with the rows of each table cut into so many parts.
    pub(crate) fn tables_cut(
        &self,
        state: &State,
        known: &Known,
        sql: &str,
        cut: usize,
    ) -> Result<PlainTables> {
        let with_hidden = hidden::are_named(sql);
        let mut all: Vec<(String, Arc<dyn TableProvider>)> = Vec::new();
        let is_free = |name: &str| !state.temporary.contains_key(name);
        let stored = state.tables.iter().filter(|(name, _)| is_free(name));
        for (name, rows) in stored.chain(&state.temporary) {
            let columns: Vec<usize> = (0..rows.table.columns.len()).collect();
            let made = table(rows, &columns, known, with_hidden, cut)?;
            all.push((name.clone(), made));
        }
        for (name, view) in state.views.iter().filter(|(name, _)| is_free(name)) {
            if let Some(rows) = state.table(view.table.id) {
                let made = table(rows, &view.columns, known, false, cut)?;
                all.push((name.clone(), made));
            }
        }
        self.planner.over(all)
    }
}

/// Some columns of a table's rows, with all hidden ones or without, in so many parts.
fn table(
    rows: &Rows,
    columns: &[usize],
    known: &Known,
    with_hidden: bool,
    cut: usize,
) -> Result<Arc<dyn TableProvider>> {
    let made = memory_table(rows, columns, known, with_hidden, cut);
    made.map(|table| Arc::new(table) as _)
        .map_err(|error| Error::internal(format!("a plain table: {error}")))
}

fn memory_table(
    rows: &Rows,
    columns: &[usize],
    known: &Known,
    with_hidden: bool,
    cut: usize,
) -> Planned<MemTable> {
    let of = |at: &usize| &rows.table.columns[*at];
    let shown = columns.iter().map(|at| {
        let cells = rows.rows.values().map(|row| match of(at).kind {
            Kind::File => numbered(&row.cells[*at], &known.numbers),
            _ => row.cells[*at].clone(),
        });
        let array = match rows.rows.is_empty() {
            true => arrow::array::new_empty_array(&of(at).kind.shown()),
            false => ScalarValue::iter_to_array(cells)?,
        };
        let may_be_null = rows.table.may_be_null(*at);
        let field = Field::new(&of(at).name, of(at).kind.shown(), may_be_null);
        Ok((field, array))
    });
    let mut all = shown.collect::<Planned<Vec<(Field, ArrayRef)>>>()?;
    if with_hidden {
        all.extend(hidden_columns(rows, &known.times)?);
    }
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = all.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.rows.len()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)?;
    let length = batch.num_rows().div_ceil(cut).max(1);
    let parts = (0..cut).map(|part| {
        let from = (part * length).min(batch.num_rows());
        vec![batch.slice(from, length.min(batch.num_rows() - from))]
    });
    MemTable::try_new(schema, parts.collect())
}

/// The hidden columns of a table.
fn hidden_columns(rows: &Rows, times: &Times) -> Planned<Vec<(Field, ArrayRef)>> {
    let scus = rows.rows.values().map(|row| match row.mark() {
        Mark::Scu(scu) => Some(scu as i64),
        Mark::Own => None,
    });
    let scus: ArrayRef = Arc::new(scus.collect::<Int64Array>());
    let mut columns = vec![(Field::new(hidden::SCU, DataType::Int64, true), scus)];
    let newest = times_of(rows, times, hidden::TIME.to_owned(), Stored::mark)?;
    columns.push(newest);
    for (at, column) in rows.table.columns.iter().enumerate() {
        let name = hidden::time_of(&column.name);
        columns.push(times_of(rows, times, name, |row| row.marks[at])?);
    }
    Ok(columns)
}

/// A column of times.
fn times_of(
    rows: &Rows,
    times: &Times,
    name: String,
    mark: impl Fn(&Stored) -> Mark,
) -> Planned<(Field, ArrayRef)> {
    let time = |row| match mark(row) {
        Mark::Own => Ok(None),
        Mark::Scu(scu) => times.get(&scu).copied().map(Some).ok_or_else(|| {
            DataFusionError::Execution(format!("nobody has asked for the time of SCU {scu}"))
        }),
    };
    let values: Planned<Vec<Option<i64>>> = rows.rows.values().map(time).collect();
    let values = TimestampMicrosecondArray::from(values?).with_timezone("+00:00");
    let array: ArrayRef = Arc::new(values);
    let field = Field::new(name, Kind::TimestampTz.shown(), true);
    Ok((field, array))
}

fn numbered(path: &ScalarValue, numbers: &Numbers) -> ScalarValue {
    ScalarValue::Int64(match path {
        ScalarValue::Utf8(Some(path)) => numbers.get(path).copied(),
        _ => None,
    })
}

/// A statement as plain tables are asked: paths are written as their numbers, and hidden columns
/// as columns.
pub(crate) fn spelt(sql: &str, numbers: &Numbers) -> String {
    let mut sql = hidden::as_names(sql);
    if sql.contains("IDKEY(") {
        for path in 0..PATHS.1 {
            let path = format!("p{path}");
            let number = numbers.get(&path).copied().unwrap_or(NOBODY);
            sql = sql.replace(&format!("IDKEY('{path}')"), &number.to_string());
        }
    }
    sql
}

/// No path has this number.
const NOBODY: i64 = -1;

/// The answer to a query, to be compared.
pub(crate) async fn answer(tables: &PlainTables, sql: &str) -> Result<Table> {
    let (schema, batches) = tables.query(sql).await?;
    Ok(Table::new(&schema, &batches))
}

/// Rows with these names of columns as a batch of Arrow; there is one at least.
pub(crate) fn batch_of(names: &[&str], rows: &[Vec<Cell>]) -> Planned<RecordBatch> {
    let column = |(place, name): (usize, &&str)| -> Planned<(Field, ArrayRef)> {
        let cells = rows.iter().map(|row| row[place].value.clone());
        let values = ScalarValue::iter_to_array(cells)?;
        Ok((Field::new(*name, values.data_type().clone(), true), values))
    };
    let columns: Planned<Vec<(Field, ArrayRef)>> = names.iter().enumerate().map(column).collect();
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns?.into_iter().unzip();
    let schema = Arc::new(Schema::new(fields));
    Ok(RecordBatch::try_new(schema, arrays)?)
}

/// Rows as the model keeps them, of columns that have these kinds.
pub(crate) fn rows_of(
    batches: &[RecordBatch],
    kinds: &[Kind],
    numbers: &Numbers,
) -> Planned<Vec<Vec<ScalarValue>>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().zip(kinds).map(|(column, kind)| {
                let value = ScalarValue::try_from_array(column, row)?;
                match kind {
                    Kind::File => path_of(&value, numbers),
                    _ => value.cast_to(&kind.shown()),
                }
            });
            rows.push(cells.collect::<Planned<Vec<_>>>()?);
        }
    }
    Ok(rows)
}

fn path_of(number: &ScalarValue, numbers: &Numbers) -> Planned<ScalarValue> {
    match number.cast_to(&DataType::Int64)? {
        ScalarValue::Int64(Some(number)) => {
            let found = numbers.iter().find(|(_, known)| **known == number);
            let (path, _) = found.ok_or_else(|| {
                DataFusionError::Execution(format!("nothing has the number {number}"))
            })?;
            Ok(ScalarValue::Utf8(Some(path.clone())))
        }
        _ => Ok(ScalarValue::Utf8(None)),
    }
}
