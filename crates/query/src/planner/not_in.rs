//! `f(x) NOT IN (SELECT ...)`: the planner minds NULL on the left side where that is a column, and
//! forgets it where it is anything else. It becomes a column.
//!
//! ```text
//!   Filter f(x) NOT IN (SELECT ...)       Projection all columns of t
//!     t                               ->    Filter looked_for NOT IN (SELECT ...)
//!                                             Projection all columns of t, f(x) AS looked_for
//!                                               t
//! ```
//!
//! A rule of the planner before its own; reads and gives plans. Invariant NIN-1: conditions on
//! columns stay as they are.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder};

use crate::planner::rule::NodeRule;

/// The rule.
pub(crate) const NOT_IN: NodeRule = NodeRule::new("not_in", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = plan else {
        return Ok(Transformed::no(plan));
    };
    let mut computed: Vec<Expr> = Vec::new();
    let conditions = split_conjunction_owned(filter.predicate.clone());
    let conditions = conditions
        .into_iter()
        .map(|condition| match not_in(condition) {
            Ok(InSubquery { expr, subquery, .. }) => {
                let name = free_name(filter.input.schema(), computed.len());
                computed.push(expr.alias(&name));
                Expr::InSubquery(InSubquery {
                    expr: Box::new(Expr::Column(Column::new_unqualified(name))),
                    subquery,
                    negated: true,
                })
            }
            Err(condition) => condition,
        });
    let conditions: Vec<Expr> = conditions.collect();
    let Some(predicate) = conjunction(conditions).filter(|_| !computed.is_empty()) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let columns: Vec<Expr> = filter
        .input
        .schema()
        .columns()
        .into_iter()
        .map(Expr::Column)
        .collect();
    let beside = columns.iter().cloned().chain(computed);
    let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(filter.input)).project(beside)?;
    let filtered = Filter::try_new(predicate, Arc::new(input.build()?))?;
    let rows = LogicalPlanBuilder::from(LogicalPlan::Filter(filtered)).project(columns)?;
    Ok(Transformed::yes(rows.build()?))
}

/// A name that no column has.
fn free_name(schema: &DFSchema, number: usize) -> String {
    let mut name = format!("looked_for_{number}");
    while schema.fields().iter().any(|field| *field.name() == name) {
        name.push('_');
    }
    name
}

/// A condition NOT IN on something that is no column; any other one as it is.
fn not_in(condition: Expr) -> std::result::Result<InSubquery, Expr> {
    match condition {
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(looked) if !looked.negated && !is_columns(&looked.expr) => Ok(looked),
            inner => Err(Expr::Not(Box::new(inner))),
        },
        Expr::InSubquery(looked) if looked.negated && !is_columns(&looked.expr) => Ok(looked),
        other => Err(other),
    }
}

/// Whether it is a column, or of columns of a query around it: those are the planner's to find.
fn is_columns(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(_)) || expr.contains_outer()
}
