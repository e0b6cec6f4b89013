//! What DataFusion needs for one statement: the session's options, the names that the statement
//! sees, and the moment it began.
//!
//! Reads the snapshot through its tables; writes nothing. Invariant CTX-1: a context serves one
//! statement and no other.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::CatalogProviderList;
use datafusion::common::{DFSchema, internal_datafusion_err, internal_err};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, EmptyRelation, Expr as PlannedExpr, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement as PlannerStatement;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::{Expr, ExprWithAlias, Statement, Visit};
use futures::future::BoxFuture;
use lazybase_cluster::Instance;
use lazybase_model::{Error, Result, Table, TableId};
use lazybase_plan::statement_to_plan;
use tracing::Instrument;

use crate::access::{Gate, Identity};
use crate::advisory::functions as of_locks;
use crate::advisory::{SessionLocks, SpanLocks};
use crate::catalog::{Catalogs, Names};
use crate::database::Database;
use crate::error::{
    from_datafusion, from_planning, into_datafusion, misplaced, misses_column,
    unknown_system_table, unknown_table,
};
use crate::generated;
use crate::heavy::{self, Seat};
use crate::literal::Literal;
use crate::memory;
use crate::origins::{self, Origin};
use crate::parse::{SCHEMA, SYSTEM_SCHEMA};
use crate::pg_catalog::{self, PG_CATALOG, functions};
use crate::planner;
use crate::planner::checked_integers::checked_alone;
use crate::planner::repeated_names;
use crate::sequences::called::takes_numbers;
use crate::sequences::{Numbers, functions as of_sequences};
use crate::session::Shared;
use crate::settings::Settings;
use crate::system_tables;
use crate::table::ScanNotes;
use crate::visible::Visible;
use crate::walk::plans::exists;

/// What the optimizer says of a plan of its own that would mix up rows.
const MIXED_UP: [&str; 2] = [
    "does not satisfy order requirements",
    "does not satisfy distribution requirements",
];

/// Whether the optimizer refuses a plan of its own.
fn is_mixed_up(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::Plan(said) => MIXED_UP.iter().any(|what| said.contains(what)),
        _ => false,
    }
}

/// How a statement runs, where its columns come from, and which of them the database generates.
type Planned = (Arc<dyn ExecutionPlan>, Vec<Origin>, Vec<bool>);

/// Marks a plan whose scans all have one partition: an extension of the planner's settings.
#[derive(Debug)]
pub(crate) struct OnePartition;

/// The planner for one statement.
#[derive(Debug)]
pub(crate) struct Context {
    state: SessionState,
    /// The names that it knows; `None` where somebody else has named tables.
    catalogs: Option<Arc<Catalogs>>,
    notes: ScanNotes,
    /// What calls of advisory locks lock, and what takes numbers of sequences; `None` where there
    /// is no session.
    own: Option<Own>,
}

/// What a statement's own functions work on.
#[derive(Debug)]
struct Own {
    locks: Arc<SpanLocks>,
    numbers: Numbers,
    gate: Gate,
}

/// A query that has begun to run.
pub(crate) struct Begun {
    pub(crate) rows: SendableRecordBatchStream,
    /// Where its columns come from.
    pub(crate) origins: Vec<Origin>,
    /// Which columns have values that the database generates.
    pub(crate) generated: Vec<bool>,
}

impl Context {
    /// A context over `names`.
    pub(crate) fn new(
        base: &SessionState,
        settings: &Settings,
        names: Names,
        instance: &Instance,
    ) -> Context {
        let functions = functions::over(&names, settings);
        let notes = Arc::clone(&names.notes);
        let own = Own {
            locks: Arc::clone(&names.locks),
            numbers: names.numbers.clone(),
            gate: names.gate.clone(),
        };
        let catalogs = Arc::new(Catalogs::new(names, instance.clone(), settings.clone()));
        let mut context = Context::over(base, settings, Arc::clone(&catalogs) as _);
        for function in functions {
            // Each statement has its own: those of the one before are not there.
            let _ = context.state.register_udf(Arc::new(function));
        }
        context.catalogs = Some(catalogs);
        context.notes = notes;
        context.own = Some(own);
        context
    }

    /// A context over tables that somebody else has named.
    pub(crate) fn over(
        base: &SessionState,
        settings: &Settings,
        catalogs: Arc<dyn CatalogProviderList>,
    ) -> Context {
        let mut state = base.clone();
        *state.config_mut() = settings.config.clone();
        state.register_catalog_list(catalogs);
        state.mark_start_execution();
        // now() is whole microseconds, as a TIMESTAMP that it is written to.
        if let Some(now) = &mut state.execution_props_mut().query_execution_start_time {
            let rest = u64::from(now.timestamp_subsec_nanos() % 1_000);
            *now -= Duration::from_nanos(rest);
        }
        Context {
            state,
            catalogs: None,
            notes: ScanNotes::default(),
            own: None,
        }
    }

    pub(crate) fn state(&self) -> &SessionState {
        &self.state
    }

    /// The names that the planner knows, where they are of a session.
    pub(crate) fn catalogs(&self) -> Option<&Arc<Catalogs>> {
        self.catalogs.as_ref()
    }

    /// The planner for a statement or an expression that names functions of advisory locks or of
    /// sequences: it has them. The others get on without, for making them takes longer than a short
    /// statement.
    fn with_own(&self, part: &impl Visit) -> Option<Box<SessionState>> {
        let own = self.own.as_ref()?;
        let mut functions = Vec::new();
        if of_locks::are_named(part) {
            functions.extend(of_locks::over(&own.locks));
        }
        if of_sequences::are_named(part) {
            functions.extend(of_sequences::over(&own.numbers, &own.gate));
        }
        if functions.is_empty() {
            return None;
        }
        let mut state = self.state.clone();
        for function in functions {
            let _ = state.register_udf(Arc::new(function));
        }
        Some(Box::new(state))
    }

    /// Plans a query and begins to run it; with a seat, it stands in line if it is heavy.
    pub(crate) async fn run(
        &self,
        statement: Statement,
        sql: &str,
        seat: Option<Seat>,
    ) -> Result<Begun> {
        let own = self.with_own(&statement);
        let state = own.as_deref().unwrap_or(&self.state);
        // One that may wait for the lock of another session must not keep a place from that.
        let seat = seat.filter(|_| !of_locks::may_wait(&statement));
        let statement = planner::rewritten(statement);
        let run = async {
            let (plan, origins, generated) = self
                .plan_in(state, statement)
                .instrument(tracing::info_span!("plan"))
                .await?;
            let task = memory::task_of_one(state);
            let rows = match seat.filter(|_| heavy::is_heavy(&plan)) {
                Some(seat) => seat.rows(plan, task),
                None => execute_stream(plan, task)?,
            };
            Ok::<_, DataFusionError>(Begun {
                rows: repeated_names::unmarked_rows(rows),
                origins,
                generated,
            })
        };
        run.await.map_err(|error| from_planning(&error, sql))
    }

    /// How a statement would run, where its columns come from, and which are generated.
    pub(crate) fn plan(
        &self,
        statement: PlannerStatement,
    ) -> BoxFuture<'_, DataFusionResult<Planned>> {
        self.plan_in(&self.state, statement)
    }

    /// What a statement means: the plan of it before anything is changed.
    async fn logical(
        &self,
        state: &SessionState,
        statement: PlannerStatement,
    ) -> DataFusionResult<LogicalPlan> {
        self.expand(state, &statement).await?;
        statement_to_plan(state, statement).await
    }

    fn plan_in<'s>(
        &'s self,
        state: &'s SessionState,
        statement: PlannerStatement,
    ) -> BoxFuture<'s, DataFusionResult<Planned>> {
        Box::pin(async move {
            let plan = self.logical(state, statement).await?;
            let physical = self.physical(state, &plan).await;
            let physical = physical.map_err(|error| of_queries(error, &plan))?;
            Ok((physical, origins::of_plan(&plan), generated::of_plan(&plan)))
        })
    }

    /// The columns of the rows that a query gives, and where they come from.
    pub(crate) async fn columns(
        &self,
        statement: Statement,
        sql: &str,
    ) -> Result<(SchemaRef, Vec<Origin>)> {
        let own = self.with_own(&statement);
        let state = own.as_deref().unwrap_or(&self.state);
        let plan = self.logical(state, planner::rewritten(statement)).await;
        let optimized = |plan: &LogicalPlan| {
            let optimized = state.optimize(plan);
            optimized.map_err(|error| of_queries(error, plan))
        };
        plan.and_then(|plan| Ok((optimized(&plan)?, origins::of_plan(&plan))))
            .map(|(plan, origins)| (repeated_names::unmarked(plan.schema().inner()), origins))
            .map_err(|error| from_planning(&error, sql))
    }

    /// How a query runs. Where the optimizer gets the order of partitions wrong, and says so when
    /// it checks itself, the query runs on one.
    async fn physical(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        // EXPLAIN would give an error as its answer: it is looked for beforehand.
        if let LogicalPlan::Explain(explain) = plan {
            self.check_withheld(state, &explain.plan)?;
            let tried = state.create_physical_plan(&explain.plan).await;
            self.notes.lock().clear();
            return match tried {
                Err(error) if is_mixed_up(&error) => self.alone(state, plan).await,
                Err(error) => Err(error),
                Ok(_) => state.create_physical_plan(plan).await,
            };
        }
        self.check_withheld(state, plan)?;
        match state.create_physical_plan(plan).await {
            Err(error) if is_mixed_up(&error) => self.alone(state, plan).await,
            planned => planned,
        }
    }

    /// How a query runs on one partition.
    async fn alone(
        &self,
        state: &SessionState,
        plan: &LogicalPlan,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        // Those of the scans that were planned in vain.
        self.notes.lock().clear();
        let mut alone = state.clone();
        let config = alone.config_mut();
        config.options_mut().execution.target_partitions = 1;
        config.set_extension(Arc::new(OnePartition));
        alone.create_physical_plan(plan).await
    }

    /// The types of a statement's parameters by their numbers, where the planner finds them.
    pub(crate) async fn parameter_types(
        &self,
        statement: Statement,
        sql: &str,
    ) -> Result<HashMap<usize, DataType>> {
        let own = self.with_own(&statement);
        let state = own.as_deref().unwrap_or(&self.state);
        let plan = self.logical(state, planner::rewritten(statement)).await;
        plan.and_then(planner::parameter_types)
            .map_err(|error| from_datafusion(&error, sql))
    }

    /// The values of a constant expression for `rows` rows: one a row where it is volatile.
    pub(crate) fn constant(&self, expr: &Expr, rows: usize) -> Result<ArrayRef> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let empty = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)
            .map_err(|error| Error::internal(error.to_string()))?;
        self.evaluate(expr, &DFSchema::empty(), &empty)
    }

    /// Whether an expression has values that the database generates.
    fn generates(&self, expr: &Expr) -> bool {
        let own = self.with_own(expr);
        let state = own.as_deref().unwrap_or(&self.state);
        let expr = planner::rewritten_expr(expr.clone());
        generated::is_generated(&expr, state.scalar_functions())
    }

    /// The values of an expression over rows.
    pub(crate) fn evaluate(
        &self,
        expr: &Expr,
        schema: &DFSchema,
        rows: &RecordBatch,
    ) -> Result<ArrayRef> {
        if takes_numbers(expr) {
            return Err(of_sequences::no_wait());
        }
        let evaluate = || {
            let own = self.with_own(expr);
            let state = own.as_deref().unwrap_or(&self.state);
            let expr = planner::rewritten_expr(expr.clone());
            let expr = ExprWithAlias { expr, alias: None };
            let expr = state.create_logical_expr_from_sql_expr(expr, schema)?;
            let expr = self.analyzed(expr, schema)?;
            let context = SimplifyContext::builder()
                .with_schema(Arc::new(schema.clone()))
                .with_config_options(Arc::clone(self.state.config_options()))
                .with_query_execution_start_time(
                    self.state.execution_props().query_execution_start_time,
                )
                .build();
            let simplifier = ExprSimplifier::new(context);
            let expr = checked_alone(simplifier.simplify(expr)?, schema)?;
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

    /// An expression as the planner's first rules make it, which know whole plans only.
    fn analyzed(&self, expr: PlannedExpr, schema: &DFSchema) -> DataFusionResult<PlannedExpr> {
        let rows = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: false,
            schema: Arc::new(schema.clone()),
        });
        let plan = LogicalPlanBuilder::from(rows).project([expr])?.build()?;
        let options = self.state.config_options();
        let analyzer = self.state.analyzer();
        match analyzer.execute_and_check(plan, options, |_, _| {})? {
            LogicalPlan::Projection(projection) => projection
                .expr
                .into_iter()
                .next()
                .map(PlannedExpr::unalias)
                .ok_or_else(|| internal_datafusion_err!("an expression is gone")),
            other => internal_err!("an expression became {other}"),
        }
    }
}

/// What the planner says of a plan whose columns were all there: of a query in an expression that
/// it makes no join of, it loses some that have another name inside.
fn of_queries(error: DataFusionError, plan: &LogicalPlan) -> DataFusionError {
    match misses_column(&error) && has_queries(plan) {
        true => into_datafusion(misplaced()),
        false => error,
    }
}

/// Whether expressions of a plan hold queries.
fn has_queries(plan: &LogicalPlan) -> bool {
    let found = exists(plan, &mut |node| {
        let expressions = node.expressions();
        let mut found = expressions.iter().map(|expr| exists(expr, &mut is_query));
        found.try_fold(false, |any, one| one.map(|one| any || one))
    });
    found.unwrap_or(false)
}

fn is_query(expr: &PlannedExpr) -> DataFusionResult<bool> {
    Ok(matches!(
        expr,
        PlannedExpr::ScalarSubquery(_) | PlannedExpr::Exists(_) | PlannedExpr::InSubquery(_)
    ))
}

/// What a statement reads of what is stored.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// The tables that it names, itself or through views.
    pub(crate) tables: Vec<Arc<Table>>,
    /// The plain views, with those that these read.
    pub(crate) views: Vec<Arc<Table>>,
}

impl Read {
    /// The ids of the tables.
    pub(crate) fn ids(&self) -> Vec<TableId> {
        self.tables.iter().map(|table| table.id).collect()
    }
}

/// What a statement reads of what is stored. Of each table and plain view that it names some column
/// may be read, but for that of the table which the statement changes.
///
/// # Errors
/// `Invalid` (42501) for one that the session may not read;
/// `NotFound` (42P01) for a name that means nothing, with the nearest that does.
pub(crate) fn stored_tables(
    statement: &Statement,
    session: &Shared,
    target: Option<TableId>,
) -> Result<Read> {
    let visible = session.visible();
    let gate = session.gate_now();
    let functions = session.database.planner().table_functions();
    let statement = PlannerStatement::Statement(Box::new(statement.clone()));
    let (references, _) =
        resolve_table_references(&statement, true).map_err(|error| from_datafusion(&error, ""))?;
    let (mut tables, mut views) = (Vec::with_capacity(references.len()), Vec::new());
    let names_view = |name: &str, views: &mut Vec<Arc<Table>>| {
        let view = visible.plain_view(name);
        views.extend(view.clone());
        view.is_some()
    };
    for reference in references {
        let name = reference.table();
        match reference.schema() {
            None | Some(SCHEMA) => match visible.readable(name) {
                Some(table) => {
                    if target != Some(table.id) {
                        gate.name(visible.view(name).as_ref().unwrap_or(&table))?;
                    }
                    tables.push(table);
                }
                None if names_view(name, &mut views) => {}
                None if functions.contains_key(name) => {}
                None if visible.sequence_named(name).is_some() => {}
                None => {
                    let known = visible.relations();
                    let known = known.iter().map(|table| table.name.as_str());
                    let functions = functions.keys().map(String::as_str);
                    return Err(unknown_table(name, known.chain(functions)));
                }
            },
            Some(SYSTEM_SCHEMA) if !system_tables::NAMES.contains(&name) => {
                let known = system_tables::NAMES.into_iter();
                return Err(unknown_system_table(SYSTEM_SCHEMA, name, known));
            }
            Some(PG_CATALOG) if !pg_catalog::has(name) => {
                return Err(unknown_system_table(PG_CATALOG, name, pg_catalog::names()));
            }
            Some(SYSTEM_SCHEMA | PG_CATALOG | "information_schema") => {}
            Some(schema) => {
                return Err(Error::not_found(format!("there is no schema {schema:?}"))
                    .with_hint("tables live in public, system tables in lazybase")
                    .with_sqlstate("3F000"));
            }
        }
    }
    for view in &views {
        gate.name(view)?;
        tables.extend(visible.tables_below(view));
    }
    let views = visible.with_read_before(&views);
    Ok(Read { tables, views })
}

/// Evaluates constant expressions, with a context that is made only when the first one comes:
/// most writes are of literals alone.
pub(crate) struct Constants {
    database: Database,
    /// The session's; defaults where there is no session.
    session: Option<OfSession>,
    context: OnceLock<Context>,
}

/// What constants need of their session.
#[derive(Clone)]
pub(crate) struct OfSession {
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
    pub(crate) locks: Arc<SpanLocks>,
    pub(crate) numbers: Numbers,
}

impl Constants {
    pub(crate) fn new(database: Database, session: Option<OfSession>) -> Constants {
        Constants {
            database,
            session,
            context: OnceLock::new(),
        }
    }

    /// Whether an expression has values that the database generates, others each time.
    pub(crate) fn generates(&self, expr: &Expr) -> bool {
        Literal::of(expr).is_none() && self.context().generates(expr)
    }

    pub(crate) fn context(&self) -> &Context {
        self.context.get_or_init(|| {
            let instance = self.database.instance();
            let OfSession {
                settings,
                identity,
                locks,
                numbers,
            } = self.session.clone().unwrap_or_else(|| {
                let locks = SessionLocks::new(Arc::clone(self.database.locks()));
                OfSession {
                    settings: Settings::default(),
                    identity: Identity::default(),
                    locks: SpanLocks::new(&locks),
                    numbers: Numbers::of(instance),
                }
            });
            let visible = Visible::stored(instance.manifest());
            let names = Names {
                gate: Gate::new(
                    visible.access(),
                    identity.current,
                    settings.authorizations.as_ref(),
                ),
                identity,
                visible,
                snapshot: None,
                buffered: HashMap::new(),
                with_new_ids: None,
                notes: ScanNotes::default(),
                within: None,
                planned: Arc::default(),
                activities: Arc::default(),
                cursors: Arc::default(),
                named: Arc::default(),
                locks,
                numbers,
                pid: None,
            };
            Context::new(self.database.planner(), &settings, names, instance)
        })
    }
}
