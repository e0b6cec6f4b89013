//! Plain views in the statements that name them: each is planned by itself, from its text, before
//! the statement is, and the planner puts its plan where its name stands.
//!
//! ```text
//!   SELECT ... FROM v   v is named -> what v reads comes first: w
//!                       w: text -> plan, in which names mean what they meant when w was made
//!                       v: the same; it finds the plan of w
//!                       statement -> plan, in which FROM v is the plan of v under that name
//! ```
//!
//! Rows of tables are read for a view by the rights of its owner, and shown by the labels that the
//! session may read; columns of a view that may not be read are withheld where it is named
//! (`withheld`). All of it is of the statement's one snapshot, for the tables are those of its
//! names. Reads definitions; writes nothing. Invariant EXP-1: the columns of a view have the names,
//! types and order that it was made with, or the statement fails.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Column as PlannedColumn;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as PlannerStatement;
use datafusion::sql::resolve::resolve_table_references;
use datafusion::sql::sqlparser::ast::Statement;
use futures::future::{self, BoxFuture};
use lazybase_model::{Column, Error, Result, Table, TableId};
use lazybase_plan::statement_to_plan;
use parking_lot::Mutex;

use crate::access::Gate;
use crate::catalog::{Catalogs, Names};
use crate::context::Context;
use crate::error::{from_planning, into_datafusion};
use crate::hidden;
use crate::parse::{self, SCHEMA};
use crate::pg_catalog::types::mark;
use crate::planner;
use crate::planner::repeated_names;
use crate::read;
use crate::types;
use crate::visible;
use crate::walk::plans::{apply, apply_expressions, apply_with_subqueries};

mod withheld;

/// The plans of the plain views of one statement, by the views' ids.
pub(crate) type PlannedViews = Arc<Mutex<BTreeMap<TableId, LogicalPlan>>>;

impl Context {
    /// Plans the plain views that a statement names, and those that these read, if there are any:
    /// then the planner finds them.
    ///
    /// # Errors
    /// `Invalid` (42501) for a view that the session, or the owner of one that reads it, may not
    /// read; what the planner refuses of a view's text.
    pub(crate) fn expand<'c>(
        &'c self,
        state: &'c SessionState,
        statement: &'c PlannerStatement,
    ) -> BoxFuture<'c, DataFusionResult<()>> {
        Box::pin(async move {
            let Some(catalogs) = self.catalogs() else {
                return Ok(());
            };
            let names = catalogs.names();
            if !names.visible.has_plain_views() {
                return Ok(());
            }
            let named = named_in(statement, names)?;
            for view in &named {
                names.gate.name(view).map_err(into_datafusion)?;
            }
            for view in names.visible.with_read_before(&named) {
                let is_known = names.planned.lock().contains_key(&view.id);
                if is_known {
                    continue;
                }
                let plan = plan_of_view(state, catalogs, &view).await;
                let plan = plan.map_err(|error| in_view(error, &view))?;
                names.planned.lock().insert(view.id, plan);
            }
            Ok(())
        })
    }

    /// The columns that the query of a new view gives, and the names of those that it reads of
    /// anything; `view` tells what the names of the query mean, and `sql` is its text.
    ///
    /// # Errors
    /// What the planner refuses.
    pub(crate) async fn look_at_view(
        &self,
        view: Arc<Table>,
        query: Statement,
        sql: &str,
    ) -> Result<(SchemaRef, BTreeSet<String>)> {
        let Some(catalogs) = self.catalogs() else {
            return Err(Error::internal("a view is made without a session"));
        };
        let looked = async {
            let gate = catalogs.names().gate.clone();
            let plan = plan_of_query(self.state(), catalogs.within(view, gate), query).await?;
            let optimized = self.state().optimize(&plan)?;
            let columns = repeated_names::unmarked(optimized.schema().inner());
            Ok::<_, DataFusionError>((columns, columns_named(&plan)?))
        };
        looked.await.map_err(|error| from_planning(&error, sql))
    }
}

/// The plain views that a statement names.
fn named_in(statement: &PlannerStatement, names: &Names) -> DataFusionResult<Vec<Arc<Table>>> {
    let (references, _) = resolve_table_references(statement, true)?;
    let mut named: Vec<Arc<Table>> = Vec::new();
    for reference in references {
        if !matches!(reference.schema(), None | Some(SCHEMA)) {
            continue;
        }
        let (name, _) = hidden::shown(reference.table());
        named.extend(names.plain_view(name));
    }
    Ok(named)
}

/// An error that a view's text meets: none of it stands in the statement.
fn in_view(error: DataFusionError, view: &Table) -> DataFusionError {
    let text = view.query.as_ref().map_or("", |query| query.text.as_str());
    let error = from_planning(&error, text).elsewhere();
    into_datafusion(error.within(format_args!("view {:?}", view.name)))
}

/// The plan of a view's text, with the columns that the view was made with. Other views that it
/// reads are planned by then.
async fn plan_of_view(
    state: &SessionState,
    catalogs: &Catalogs,
    view: &Arc<Table>,
) -> DataFusionResult<LogicalPlan> {
    let names = catalogs.names();
    let gate = names.gate.of_owner(view.id);
    for used in visible::uses(view) {
        let read = names.visible.relation_of(used.table);
        if let Some(read) = read.filter(|read| read.query.is_some()) {
            gate.name(&read).map_err(into_datafusion)?;
            // Only in a circle it is not planned yet.
            if !names.planned.lock().contains_key(&read.id) {
                return Err(into_datafusion(reads_itself(view)));
            }
        }
    }
    let query = query_of(view).map_err(into_datafusion)?;
    let inner = catalogs.within(Arc::clone(view), gate);
    let plan = plan_of_query(state, inner, query).await?;
    with_columns_of(plan, view)
}

/// The statement that a view's text is. It was read once, when the view was made.
fn query_of(view: &Table) -> Result<Statement> {
    let text = view.query.as_ref().map_or("", |query| query.text.as_str());
    match parse::parse_template(text)?.statement {
        parse::Statement::Query(query) => Ok(Statement::Query(query)),
        _ => Err(Error::internal("a view's text is no query")),
    }
}

/// The plan of a query over other names than the state's.
async fn plan_of_query(
    state: &SessionState,
    inner: Catalogs,
    mut query: Statement,
) -> DataFusionResult<LogicalPlan> {
    read::spell(&mut query, inner.names()).map_err(into_datafusion)?;
    let mut state = state.clone();
    state.register_catalog_list(Arc::new(inner));
    statement_to_plan(&state, planner::rewritten(query)).await
}

/// EXP-1: the plan's columns under the names and with the types that the view has.
fn with_columns_of(plan: LogicalPlan, view: &Table) -> DataFusionResult<LogicalPlan> {
    let given = plan.schema().columns();
    if given.len() != view.columns.len() {
        return Err(into_datafusion(other_columns(view)));
    }
    let fields = plan.schema().fields().iter();
    let shown = given.into_iter().zip(fields).zip(&view.columns);
    let shown: Vec<Expr> = shown
        .map(|((given, field), column)| {
            let wanted = shown_field(column);
            let given = Expr::Column(given);
            let is_of_type = field.data_type() == wanted.data_type();
            let given = match (is_of_type, column.json) {
                (true, _) => given,
                (false, false) => {
                    Expr::Cast(Cast::new(Box::new(given), wanted.data_type().clone()))
                }
                (false, true) => Expr::Cast(Cast {
                    expr: Box::new(given),
                    field: Arc::new(wanted),
                }),
            };
            given.alias(column.name.as_str())
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(shown)?.build()
}

/// A column of a view as SQL shows it.
fn shown_field(column: &Column) -> Field {
    let field = types::shown_field(&column.name, &column.data_type, true);
    match column.json {
        true => field.with_metadata(mark("json")),
        false => field,
    }
}

fn reads_itself(view: &Table) -> Error {
    Error::conflict(format!(
        "view {:?} would read itself, through views that another session has changed",
        view.name
    ))
    .with_hint("ROLLBACK, and run the transaction again")
    .with_sqlstate("40001")
}

fn other_columns(view: &Table) -> Error {
    Error::invalid(format!(
        "view {:?} shows columns that its tables do not have at this horizon",
        view.name
    ))
    .with_sqlstate("42703")
}

/// The names of all columns that stand in the expressions of a plan.
fn columns_named(plan: &LogicalPlan) -> DataFusionResult<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    apply_with_subqueries(plan, &mut |node| {
        apply_expressions(node, &mut |expr| {
            apply(expr, &mut |part: &Expr| {
                if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = part {
                    names.insert(column.name.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(names)
}

/// A plain view as the planner finds it by its name.
#[derive(Debug)]
pub(crate) struct ViewTable {
    schema: SchemaRef,
    /// `None` where only the definition is asked for.
    plan: Option<LogicalPlan>,
}

impl ViewTable {
    /// A view with so many of its columns, all where that is not said; what a gate does not let
    /// pass of them is withheld.
    pub(crate) fn new(
        view: &Arc<Table>,
        plan: Option<LogicalPlan>,
        columns: Option<usize>,
        gate: &Gate,
    ) -> DataFusionResult<ViewTable> {
        let all = view.columns.len();
        let columns = columns.unwrap_or(all).min(all);
        let plan = match plan {
            Some(plan) if columns < all => Some(first_of(plan, columns)?),
            plan => plan,
        };
        let plan = plan.map(|plan| withheld::withhold(plan, view, gate));
        let plan = plan.transpose()?;
        let schema = match &plan {
            Some(plan) => Arc::clone(plan.schema().inner()),
            None => {
                let shown = view.columns.iter().take(columns).map(shown_field);
                Arc::new(Schema::new(shown.collect::<Vec<_>>()))
            }
        };
        Ok(ViewTable { schema, plan })
    }
}

/// The first columns of a plan.
fn first_of(plan: LogicalPlan, columns: usize) -> DataFusionResult<LogicalPlan> {
    let all: Vec<PlannedColumn> = plan.schema().columns();
    let first = all.into_iter().take(columns).map(Expr::Column);
    LogicalPlanBuilder::from(plan).project(first)?.build()
}

impl TableProvider for ViewTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        self.plan.as_ref().map(Cow::Borrowed)
    }

    // Written out, and not by `async_trait`, for the compiler's sake: see `catalog::Found`.
    fn scan<'table: 'plan, 'state: 'plan, 'columns: 'plan, 'filters: 'plan, 'plan>(
        &'table self,
        _: &'state dyn Session,
        _: Option<&'columns Vec<usize>>,
        _: &'filters [Expr],
        _: Option<usize>,
    ) -> BoxFuture<'plan, DataFusionResult<Arc<dyn ExecutionPlan>>>
    where
        Self: 'plan,
    {
        let refused = internal_err!("a view is scanned that was not planned");
        Box::pin(future::ready(refused))
    }
}
