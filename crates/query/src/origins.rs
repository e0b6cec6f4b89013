//! Where the columns of an answer come from: tables and columns as `pg_catalog` numbers them, which
//! drivers of PostgreSQL tell their users, and by which some of them write changed rows back.
//!
//! ```text
//!   Projection t.a AS x, t.b + 1 ->  (t, 1), nothing
//!     Filter, Sort, Join, ...        are passed through
//!       TableScan t                  says who it is
//! ```
//!
//! Reads a plan as the statement says it, before any rule has changed it; writes nothing. Invariant
//! ORI-1: a column with an origin has that column's values, or NULL where an outer join found none.

use datafusion::common::JoinType;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use lazybase_model::Table;

use crate::pg_catalog::oid_of;
use crate::table::LazyTable;

/// The column of a table that a column of an answer is; zeros for one that is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Origin {
    /// The table or view: `oid` of `pg_class`.
    pub table: u32,
    /// Its column: `attnum` of `pg_attribute`.
    pub column: i16,
}

impl Origin {
    /// The column at a place of a table's definition.
    pub(crate) fn of(table: &Table, at: usize) -> Origin {
        match at < table.visible_columns() {
            true => Origin {
                table: oid_of(table) as u32,
                column: at as i16 + 1,
            },
            false => Origin::default(),
        }
    }
}

/// Where each column of a plan's rows comes from.
pub(crate) fn of_plan(plan: &LogicalPlan) -> Vec<Origin> {
    let columns = 0..plan.schema().fields().len();
    columns
        .map(|at| of_column(plan, at).unwrap_or_default())
        .collect()
}

fn of_column(plan: &LogicalPlan, at: usize) -> Option<Origin> {
    match plan {
        LogicalPlan::Projection(projection) => of_expr(projection.expr.get(at)?, &projection.input),
        LogicalPlan::Aggregate(aggregate) => {
            of_expr(aggregate.group_expr.get(at)?, &aggregate.input)
        }
        LogicalPlan::Distinct(Distinct::On(distinct)) => {
            of_expr(distinct.select_expr.get(at)?, &distinct.input)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => of_column(input, at),
        LogicalPlan::Filter(filter) => of_column(&filter.input, at),
        LogicalPlan::Sort(sort) => of_column(&sort.input, at),
        LogicalPlan::Limit(limit) => of_column(&limit.input, at),
        LogicalPlan::SubqueryAlias(alias) => of_column(&alias.input, at),
        LogicalPlan::Subquery(subquery) => of_column(&subquery.subquery, at),
        // Their own columns stand behind those of their input.
        LogicalPlan::Window(window) => {
            let is_input = at < window.input.schema().fields().len();
            is_input.then(|| of_column(&window.input, at)).flatten()
        }
        LogicalPlan::Join(join) => {
            // Others show one side, or a mark.
            let both = [
                JoinType::Inner,
                JoinType::Left,
                JoinType::Right,
                JoinType::Full,
            ];
            if !both.contains(&join.join_type) {
                return None;
            }
            match at.checked_sub(join.left.schema().fields().len()) {
                Some(at) => of_column(&join.right, at),
                None => of_column(&join.left, at),
            }
        }
        LogicalPlan::TableScan(scan) => {
            let at = match &scan.projection {
                Some(projection) => *projection.get(at)?,
                None => at,
            };
            let provider = source_as_provider(&scan.source).ok()?;
            provider.downcast_ref::<LazyTable>()?.origin(at)
        }
        _ => None,
    }
}

fn of_expr(expr: &Expr, input: &LogicalPlan) -> Option<Origin> {
    match expr {
        Expr::Alias(alias) => of_expr(&alias.expr, input),
        Expr::Column(column) => of_column(input, input.schema().maybe_index_of_column(column)?),
        _ => None,
    }
}
