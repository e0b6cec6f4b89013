//! EXCEPT ALL and INTERSECT ALL, which mind how often a row comes: the planner asks only whether
//! the other query has the row.
//!
//! ```text
//!   a EXCEPT ALL b   ->  a with row_number() OVER (PARTITION BY all columns)
//!                        that is not in b with row_number() OVER (PARTITION BY all columns)
//! ```
//!
//! A rule of the planner, before its own: there, only these two join so that NULL equals NULL, and
//! only they do it without DISTINCT. Pure. Invariant CNT-1: a plan whose rows are distinct anyway
//! stays as it is.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder,
};

use crate::planner::rule::NodeRule;

/// The rule.
pub(crate) const COUNTED_SETS: NodeRule = NodeRule::new("counted_sets", rewrite);

/// What the numbers of equal rows are called, on either side. No key of a keyboard writes it.
const NUMBERS: [&str; 2] = ["\u{1}number", "\u{1}number of other"];

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) if is_counted(&join) => counted(&join).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    }
}

fn is_counted(join: &Join) -> bool {
    let of_sets = matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && !join.on.is_empty();
    let once = matches!(*join.left, LogicalPlan::Distinct(Distinct::All(_)));
    let done = |(left, _): &(Expr, Expr)| match left {
        Expr::Column(column) => column.name == NUMBERS[0],
        _ => false,
    };
    of_sets && !once && !join.on.iter().any(done)
}

fn counted(join: &Join) -> Result<LogicalPlan> {
    let (left, right): (Vec<Expr>, Vec<Expr>) = join.on.iter().cloned().unzip();
    let [number, of_other] = NUMBERS;
    let numbered_left = numbered(&join.left, left, number)?;
    let numbered_right = numbered(&join.right, right, of_other)?;
    let mut on = join.on.clone();
    let column = |name: &str| Expr::Column(Column::new_unqualified(name));
    on.push((column(number), column(of_other)));
    let joined = Join::try_new(
        Arc::new(numbered_left),
        Arc::new(numbered_right),
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let columns = join.left.schema().columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(LogicalPlan::Join(joined))
        .project(columns)?
        .build()
}

/// The rows with numbers that tell equal ones apart.
fn numbered(plan: &LogicalPlan, all: Vec<Expr>, name: &str) -> Result<LogicalPlan> {
    let number = row_number().partition_by(all).build()?;
    let windowed = LogicalPlanBuilder::from(plan.clone())
        .window([number])?
        .build()?;
    let mut columns: Vec<Expr> = windowed
        .schema()
        .columns()
        .into_iter()
        .map(Expr::Column)
        .collect();
    // The window's own column is the last one.
    let number = columns.pop().map(|number| number.alias(name));
    columns.extend(number);
    LogicalPlanBuilder::from(windowed).project(columns)?.build()
}
