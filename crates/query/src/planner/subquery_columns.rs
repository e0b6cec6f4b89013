//! Subqueries that depend on the row around them, in an ORDER BY, an aggregate or the ON of a JOIN:
//! the planner joins those of SELECT lists and conditions alone.
//!
//! ```text
//!   Sort (SELECT max(b) FROM u WHERE u.a = t.a)       Projection all columns of t
//!     t                                         ->      Sort v
//!                                                         Projection all columns of t, (...) AS v
//!                                                           t
//!   Join ON t.a = (SELECT ...)                  ->    Filter t.a = (SELECT ...)
//!                                                       Join
//! ```
//!
//! A rule of the planner before its own; reads and gives plans. Invariant SBC-1: a condition of an
//! outer join is asked of the side that may be missing, or refused.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinConstraint, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Subquery};
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::planner::rule::{NodeRule, rewrite_named};
use crate::walk::plans::{apply, exists, transform_down};

/// The rule.
pub(crate) const SUBQUERY_COLUMNS: NodeRule = NodeRule::new("subquery_columns", rewrite);

/// What the value of a subquery is called. No key of a keyboard writes it.
const VALUE: &str = "\u{1}value ";

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Sort(_) | LogicalPlan::Aggregate(_) => beside_rows(plan),
        LogicalPlan::Join(join) => match conditions(&join) {
            Some((kept, asked)) => {
                let columns = join.schema.columns();
                let joined = around_join(join, kept, asked)?;
                let columns = columns.into_iter().map(Expr::Column);
                let joined = LogicalPlanBuilder::from(joined).project(columns)?.build()?;
                Ok(Transformed::yes(joined))
            }
            None => Ok(Transformed::no(LogicalPlan::Join(join))),
        },
        other => Ok(Transformed::no(other)),
    }
}

/// The values of subqueries as columns of what a node reads.
fn beside_rows(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut values: Vec<Expr> = Vec::new();
    let given = plan.schema().columns();
    let is_order = matches!(plan, LogicalPlan::Sort(_));
    let rewritten = rewrite_named(plan, &mut |expr| {
        transform_down(expr, &mut |part| match &part {
            Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty() => {
                let name = format!("{VALUE}{}", values.len());
                values.push(part.alias(&name));
                let column = Expr::Column(Column::new_unqualified(name));
                Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
            }
            _ => Ok(Transformed::no(part)),
        })
    })?;
    if values.is_empty() {
        return Ok(rewritten);
    }
    let plan = rewritten.data;
    let Some(input) = plan.inputs().into_iter().next().cloned() else {
        return Ok(Transformed::no(plan));
    };
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let columns: Vec<Expr> = columns.chain(values).collect();
    let input = LogicalPlanBuilder::from(input).project(columns)?.build()?;
    let plan = plan.with_new_exprs(plan.expressions(), vec![input])?;
    Ok(Transformed::yes(match is_order {
        true => LogicalPlanBuilder::from(plan)
            .project(given.into_iter().map(Expr::Column))?
            .build()?,
        false => plan,
    }))
}

/// The conditions of a join without and with subqueries that depend on its rows; nothing where no
/// such ones are.
fn conditions(join: &Join) -> Option<(Vec<Expr>, Vec<Expr>)> {
    if join.join_constraint != JoinConstraint::On {
        return None;
    }
    let equal = join.on.iter().cloned();
    let equal = equal.map(|(left, right)| left.eq(right));
    let others = join.filter.clone().map(split_conjunction_owned);
    let all = equal.chain(others.into_iter().flatten());
    let (asked, kept): (Vec<Expr>, Vec<Expr>) = all.partition(is_dependent);
    (!asked.is_empty()).then_some((kept, asked))
}

fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

fn is_dependent(expr: &Expr) -> bool {
    let found = exists(expr, &mut |part| {
        Ok(subquery_of(part).is_some_and(|subquery| !subquery.outer_ref_columns.is_empty()))
    });
    found.unwrap_or(false)
}

fn around_join(join: Join, kept: Vec<Expr>, asked: Vec<Expr>) -> Result<LogicalPlan> {
    let (mut left, mut right) = (join.left, join.right);
    if join.join_type == JoinType::Inner {
        let joined = LogicalPlanBuilder::from(Arc::unwrap_or_clone(left));
        let joined = joined.join_on(Arc::unwrap_or_clone(right), join.join_type, kept)?;
        return match conjunction(asked) {
            Some(condition) => joined.filter(condition)?.build(),
            None => joined.build(),
        };
    }
    for condition in asked {
        let side = match join.join_type {
            JoinType::Left => &mut right,
            JoinType::Right => &mut left,
            _ => return Err(refused()),
        };
        if !is_of(&condition, side.schema())? {
            return Err(refused());
        }
        let filtered = LogicalPlanBuilder::from(side.as_ref().clone()).filter(condition)?;
        *side = Arc::new(filtered.build()?);
    }
    LogicalPlanBuilder::from(Arc::unwrap_or_clone(left))
        .join_on(Arc::unwrap_or_clone(right), join.join_type, kept)?
        .build()
}

/// Whether a condition, with its subqueries, is about the columns of one side alone.
fn is_of(condition: &Expr, side: &DFSchema) -> Result<bool> {
    let mut is_of = condition
        .column_refs()
        .into_iter()
        .all(|column| side.has_column(column));
    apply(condition, &mut |part| {
        for outer in subquery_of(part).map_or(&[][..], |of| &of.outer_ref_columns) {
            is_of &= match outer {
                Expr::OuterReferenceColumn(_, column) => side.has_column(column),
                _ => false,
            };
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(is_of)
}

fn refused() -> DataFusionError {
    into_datafusion(
        Error::invalid(
            "a subquery in the ON of an outer join that depends on the rows which are kept is \
             not supported",
        )
        .with_hint(
            "compute it before the join: FROM (SELECT a.*, (SELECT ...) AS v FROM a) AS a \
             LEFT JOIN b ON b.k = a.v",
        )
        .with_sqlstate("0A000"),
    )
}
