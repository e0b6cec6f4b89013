//! The other engine: DataFusion over plain tables in memory, with nothing of LazyBase's between.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemTable, MemoryCatalogProvider,
    MemoryCatalogProviderList, MemorySchemaProvider, SchemaProvider,
};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::sqlparser::ast::{DataType as SqlType, TimezoneInfo};

use crate::compare::{Class, Table};
use crate::kind::{Kind, PATHS};
use crate::rows::{Rows, State};

/// The numbers that paths have got.
pub(crate) type Numbers = BTreeMap<String, i64>;

/// Tells the planner that a TIME counts microseconds, as the tables' columns do, and that a
/// TIMESTAMP WITH TIME ZONE has a zone.
#[derive(Debug)]
struct Microseconds;

impl TypePlanner for Microseconds {
    fn plan_type_field(&self, sql: &SqlType) -> Result<Option<FieldRef>> {
        let unit = TimeUnit::Microsecond;
        let of = match sql {
            SqlType::Time(..) => DataType::Time64(unit),
            SqlType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
                DataType::Timestamp(unit, Some("+00:00".into()))
            }
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(Field::new("", of, true))))
    }
}

/// What all plain contexts have alike.
#[derive(Debug, Clone)]
pub(crate) struct Plain {
    base: SessionState,
}

impl Plain {
    pub(crate) fn new() -> Plain {
        Plain::with_width(1, 8192)
    }

    /// One that works as sessions are told to.
    pub(crate) fn wide(&self, partitions: usize, rows: usize) -> Plain {
        Plain::with_width(partitions, rows)
    }

    fn with_width(partitions: usize, rows: usize) -> Plain {
        let mut config = SessionConfig::new()
            .with_target_partitions(partitions)
            .with_batch_size(rows)
            .with_create_default_catalog_and_schema(false);
        config.options_mut().sql_parser.map_string_types_to_utf8view = false;
        let base = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .with_type_planner(Arc::new(Microseconds))
            .build();
        Plain { base }
    }

    /// A context in which the tables and views hold what the model says.
    pub(crate) fn context(&self, state: &State, numbers: &Numbers) -> Result<SessionContext> {
        self.context_cut(state, numbers, 1)
    }

    /// The same, with the rows of each table cut into so many parts.
    pub(crate) fn context_cut(
        &self,
        state: &State,
        numbers: &Numbers,
        cut: usize,
    ) -> Result<SessionContext> {
        let schema = MemorySchemaProvider::new();
        for (name, rows) in &state.tables {
            let all: Vec<usize> = (0..rows.table.columns.len()).collect();
            schema.register_table(name.clone(), Arc::new(table(rows, &all, numbers, cut)?))?;
        }
        for (name, view) in &state.views {
            if let Some(rows) = state.tables.get(&view.table.name) {
                let shown = table(rows, &view.columns, numbers, cut)?;
                schema.register_table(name.clone(), Arc::new(shown))?;
            }
        }
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema("public", Arc::new(schema))?;
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog("datafusion".to_owned(), Arc::new(catalog));
        let mut session = self.base.clone();
        session.register_catalog_list(Arc::new(catalogs));
        Ok(SessionContext::new_with_state(session))
    }
}

/// Some columns of a table's rows, in so many parts.
fn table(rows: &Rows, columns: &[usize], numbers: &Numbers, cut: usize) -> Result<MemTable> {
    let of = |at: &usize| &rows.table.columns[*at];
    let fields = columns.iter().map(|at| {
        Field::new(
            &of(at).name,
            of(at).kind.shown(),
            rows.table.may_be_null(*at),
        )
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let arrays: Result<Vec<ArrayRef>> = columns
        .iter()
        .map(|at| {
            let cells = rows.rows.values().map(|row| match of(at).kind {
                Kind::File => numbered(&row[*at], numbers),
                _ => row[*at].clone(),
            });
            match rows.rows.is_empty() {
                true => Ok(arrow::array::new_empty_array(&of(at).kind.shown())),
                false => ScalarValue::iter_to_array(cells),
            }
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.rows.len()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays?, &options)?;
    let length = batch.num_rows().div_ceil(cut).max(1);
    let parts = (0..cut).map(|part| {
        let from = (part * length).min(batch.num_rows());
        vec![batch.slice(from, length.min(batch.num_rows() - from))]
    });
    MemTable::try_new(schema, parts.collect())
}

fn numbered(path: &ScalarValue, numbers: &Numbers) -> ScalarValue {
    ScalarValue::Int64(match path {
        ScalarValue::Utf8(Some(path)) => numbers.get(path).copied(),
        _ => None,
    })
}

/// A statement in which paths are written as their numbers.
pub(crate) fn with_numbers(sql: &str, numbers: &Numbers) -> String {
    let mut sql = sql.to_owned();
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

/// The answer of a context.
pub(crate) async fn ask(
    context: &SessionContext,
    sql: &str,
) -> Result<(Arc<Schema>, Vec<RecordBatch>)> {
    let tasks = context.task_ctx();
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let schema = plan.schema();
    let batches = collect(plan, tasks).await?;
    Ok((schema, batches))
}

/// The same, to be compared.
pub(crate) async fn answer(context: &SessionContext, sql: &str) -> Result<Table> {
    let (schema, batches) = ask(context, sql).await?;
    Ok(Table::new(&schema, &batches))
}

/// Rows as the model keeps them, of columns that have these kinds.
pub(crate) fn rows_of(
    batches: &[RecordBatch],
    kinds: &[Kind],
    numbers: &Numbers,
) -> Result<Vec<Vec<ScalarValue>>> {
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
            rows.push(cells.collect::<Result<Vec<_>>>()?);
        }
    }
    Ok(rows)
}

fn path_of(number: &ScalarValue, numbers: &Numbers) -> Result<ScalarValue> {
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

/// What an error is about.
pub(crate) fn class_of(error: &DataFusionError) -> Class {
    match error {
        DataFusionError::ArrowError(..) | DataFusionError::Execution(_) => Class::Rows,
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Configuration(_) => Class::Statement,
        // What does not fit together is found by trying it, before any row is read.
        DataFusionError::Context(rule, inner)
            if rule == "type_coercion" && class_of(inner) == Class::Rows =>
        {
            Class::Statement
        }
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            class_of(inner)
        }
        DataFusionError::Shared(inner) => class_of(inner),
        DataFusionError::Collection(all) if !all.is_empty() => class_of(&all[0]),
        DataFusionError::Internal(_) => Class::Internal,
        _ => Class::Other,
    }
}

/// How a context would answer.
pub(crate) async fn plan(context: &SessionContext, sql: &str) -> Result<String> {
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    Ok(displayable(plan.as_ref()).indent(false).to_string())
}
