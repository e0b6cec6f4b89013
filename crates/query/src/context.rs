//! What DataFusion needs for one statement: the session's options, the names that the statement
//! sees, and the moment it began.
//!
//! Reads the snapshot through its tables; writes nothing. Invariant CTX-1: a context serves one
//! statement and no other.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::error::Result as DataFusionResult;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan, ScalarUDF};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement as PlannerStatement;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{Expr, ExprWithAlias, Statement};
use lazybase_cluster::Instance;
use lazybase_model::{Error, Result, Table};

use crate::catalog::{Catalogs, Names};
use crate::database::Database;
use crate::error::{from_datafusion, unknown_table};
use crate::id_keys::function::IdKey;
use crate::parse::{SCHEMA, SYSTEM_SCHEMA};
use crate::pg_catalog::{self, PG_CATALOG, functions};
use crate::session::Shared;
use crate::settings::Settings;
use crate::system_tables;
use crate::table::ScanNotes;
use crate::uuid_literals::UuidLiterals;
use crate::visible::Visible;

/// The parts of a context that are the same for all statements, made once: functions and rules.
///
/// All queries share one pool of memory: one that needs more than it may have spills what it sorts
/// and groups, or fails alone. Memory is counted as it is held, so rows that are a small part of
/// what was decoded for them count for all of it.
///
/// # Errors
/// `Unavailable` when there is no place for temporary files.
pub(crate) fn base(limits: &lazybase_cluster::Settings) -> Result<SessionState> {
    let memory = usize::try_from(limits.query_memory).unwrap_or(usize::MAX);
    let pool: Arc<dyn MemoryPool> = match memory {
        usize::MAX => Arc::new(UnboundedMemoryPool::default()),
        bytes => Arc::new(FairSpillPool::new(bytes)),
    };
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(pool)
        .with_max_temp_directory_size(limits.query_spill_bytes)
        .build_arc()
        .map_err(|error| from_datafusion(&error, ""))?;
    let mut state = SessionStateBuilder::new()
        .with_runtime_env(runtime)
        .with_config(Settings::default().config)
        .with_default_features()
        .with_analyzer_rule(Arc::new(UuidLiterals))
        .build();
    let id_key = Arc::new(ScalarUDF::from(IdKey::new()));
    // Nothing of that name is there before.
    let _ = state.register_udf(id_key);
    for function in functions::fixed() {
        // Those of PostgreSQL's that the planner has of its own stay as they are.
        let known = state.scalar_functions().contains_key(function.name());
        if !known || function.name() == "version" {
            let _ = state.register_udf(Arc::new(function));
        }
    }
    Ok(state)
}

/// What the optimizer says of a plan of its own that would mix up rows.
const UNSORTED_PARTITIONS: &str = "does not satisfy order requirements";

/// The planner for one statement.
#[derive(Debug)]
pub(crate) struct Context {
    state: SessionState,
}

impl Context {
    /// A context over `names`.
    pub(crate) fn new(
        base: &SessionState,
        settings: &Settings,
        names: Names,
        instance: &Instance,
    ) -> Context {
        let mut state = base.clone();
        *state.config_mut() = settings.config.clone();
        for function in functions::over(&names.visible, settings) {
            // Each statement has its own: those of the one before are not there.
            let _ = state.register_udf(Arc::new(function));
        }
        let catalogs = Catalogs::new(names, instance.clone(), settings.clone());
        state.register_catalog_list(Arc::new(catalogs));
        state.mark_start_execution();
        Context { state }
    }

    /// Plans a query and begins to run it.
    pub(crate) async fn run(
        &self,
        statement: Statement,
        sql: &str,
    ) -> Result<SendableRecordBatchStream> {
        let statement = PlannerStatement::Statement(Box::new(statement));
        let run = async {
            let plan = self.state.statement_to_plan(statement).await?;
            let plan = self.physical(&plan).await?;
            execute_stream(plan, self.state.task_ctx())
        };
        run.await.map_err(|error| from_datafusion(&error, sql))
    }

    /// The columns of the rows that a query gives.
    pub(crate) async fn columns(&self, statement: Statement, sql: &str) -> Result<SchemaRef> {
        let statement = PlannerStatement::Statement(Box::new(statement));
        let plan = self.state.statement_to_plan(statement).await;
        plan.and_then(|plan| self.state.optimize(&plan))
            .map(|plan| Arc::clone(plan.schema().inner()))
            .map_err(|error| from_datafusion(&error, sql))
    }

    /// How a query runs. Where the optimizer gets the order of partitions wrong, and says so when
    /// it checks itself, the query runs on one.
    pub(crate) async fn physical(
        &self,
        plan: &LogicalPlan,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        match self.state.create_physical_plan(plan).await {
            Err(error) if error.to_string().contains(UNSORTED_PARTITIONS) => {
                let mut alone = self.state.clone();
                alone.config_mut().options_mut().execution.target_partitions = 1;
                alone.create_physical_plan(plan).await
            }
            planned => planned,
        }
    }

    /// The types of a statement's parameters by their names, where the planner finds them.
    pub(crate) async fn parameter_types(
        &self,
        statement: Statement,
        sql: &str,
    ) -> Result<HashMap<String, Option<DataType>>> {
        let statement = PlannerStatement::Statement(Box::new(statement));
        let plan = self.state.statement_to_plan(statement).await;
        plan.and_then(|plan| plan.get_parameter_types())
            .map_err(|error| from_datafusion(&error, sql))
    }

    /// The values of a constant expression for `rows` rows: one a row where it is volatile.
    pub(crate) fn constant(&self, expr: &Expr, rows: usize) -> Result<ArrayRef> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let empty = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)
            .map_err(|error| Error::internal(error.to_string()))?;
        self.evaluate(expr, &DFSchema::empty(), &empty)
    }

    /// The values of an expression over rows.
    pub(crate) fn evaluate(
        &self,
        expr: &Expr,
        schema: &DFSchema,
        rows: &RecordBatch,
    ) -> Result<ArrayRef> {
        let evaluate = || {
            let expr = ExprWithAlias {
                expr: expr.clone(),
                alias: None,
            };
            let expr = self.state.create_logical_expr_from_sql_expr(expr, schema)?;
            let context = SimplifyContext::builder()
                .with_schema(Arc::new(schema.clone()))
                .with_config_options(Arc::clone(self.state.config_options()))
                .with_query_execution_start_time(
                    self.state.execution_props().query_execution_start_time,
                )
                .build();
            let simplifier = ExprSimplifier::new(context);
            let expr = simplifier.simplify(simplifier.coerce(expr, schema)?)?;
            let expr = self.state.create_physical_expr(expr, schema)?;
            match expr.evaluate(rows)? {
                ColumnarValue::Array(array) if array.len() == rows.num_rows() => Ok(array),
                ColumnarValue::Array(array) => ColumnarValue::Scalar(
                    datafusion::common::ScalarValue::try_from_array(&array, 0)?,
                )
                .into_array(rows.num_rows()),
                scalar => scalar.into_array(rows.num_rows()),
            }
        };
        evaluate().map_err(|error| from_datafusion(&error, &expr.to_string()))
    }
}

/// The stored tables that a statement names.
///
/// # Errors
/// `NotFound` (42P01) for a name that means nothing, with the nearest that does.
pub(crate) fn stored_tables(statement: &Statement, session: &Shared) -> Result<Vec<Arc<Table>>> {
    let visible = session.visible();
    let functions = session.database.planner().table_functions();
    let statement = PlannerStatement::Statement(Box::new(statement.clone()));
    let (references, _) =
        resolve_table_references(&statement, true).map_err(|error| from_datafusion(&error, ""))?;
    let mut tables = Vec::with_capacity(references.len());
    for reference in references {
        let name = reference.table();
        match reference.schema() {
            None | Some(SCHEMA) => match visible.readable(name) {
                Some(table) => tables.push(table),
                None if functions.contains_key(name) => {}
                None => {
                    let mut known = visible.tables();
                    known.extend(visible.views());
                    let known = known.iter().map(|table| table.name.as_str());
                    let functions = functions.keys().map(String::as_str);
                    return Err(unknown_table(name, known.chain(functions)));
                }
            },
            Some(SYSTEM_SCHEMA) if !system_tables::NAMES.contains(&name) => {
                return Err(unknown_table(name, system_tables::NAMES.into_iter()));
            }
            Some(PG_CATALOG) if !pg_catalog::has(name) => {
                return Err(unknown_table(name, pg_catalog::names()));
            }
            Some(SYSTEM_SCHEMA | PG_CATALOG | "information_schema") => {}
            Some(schema) => {
                return Err(Error::not_found(format!("there is no schema {schema:?}"))
                    .with_hint("tables live in public, system tables in lazybase")
                    .with_sqlstate("3F000"));
            }
        }
    }
    Ok(tables)
}

/// Evaluates constant expressions, with a context that is made only when the first one comes:
/// most writes are of literals alone.
pub(crate) struct Constants {
    database: Database,
    /// The session's; defaults where there is no session.
    settings: Option<Settings>,
    context: OnceLock<Context>,
}

impl Constants {
    pub(crate) fn new(database: Database, settings: Option<Settings>) -> Constants {
        Constants {
            database,
            settings,
            context: OnceLock::new(),
        }
    }

    pub(crate) fn context(&self) -> &Context {
        self.context.get_or_init(|| {
            let instance = self.database.instance();
            let names = Names {
                visible: Visible::stored(instance.manifest()),
                snapshot: None,
                buffered: HashMap::new(),
                with_hidden_key: None,
                notes: ScanNotes::default(),
            };
            let settings = self.settings.clone().unwrap_or_default();
            Context::new(self.database.planner(), &settings, names, instance)
        })
    }
}
