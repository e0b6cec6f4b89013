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
//! Of a query that depends on the row around it, it also forgets which of the NULLs that it finds
//! are of that row. It asks for what is there and not for what is equal:
//!
//! ```text
//!   t.x NOT IN (SELECT y FROM u WHERE u.a = t.a)
//!     ->  NOT EXISTS (SELECT y FROM u WHERE u.a = t.a AND (y = t.x) IS NOT FALSE)
//! ```
//!
//! A rule of the planner before its own; reads and gives plans. Invariant NIN-1: conditions on
//! columns, with queries that depend on nothing, stay as they are.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ExprSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, Subquery};

use crate::planner::rule::NodeRule;
use crate::walk::plans::transform_up;

/// The rule.
pub(crate) const NOT_IN: NodeRule = NodeRule::new("not_in", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(mut filter) = plan else {
        return Ok(Transformed::no(plan));
    };
    let dependent = none_found(&filter)?;
    let transformed = dependent.is_some();
    if let Some(predicate) = dependent {
        filter.predicate = predicate;
    }
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
        let filter = LogicalPlan::Filter(filter);
        return Ok(match transformed {
            true => Transformed::yes(filter),
            false => Transformed::no(filter),
        });
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
            Expr::InSubquery(looked) if !looked.negated && is_computed(&looked) => Ok(looked),
            inner => Err(Expr::Not(Box::new(inner))),
        },
        Expr::InSubquery(looked) if looked.negated && is_computed(&looked) => Ok(looked),
        other => Err(other),
    }
}

/// Whether what is looked for is neither a column nor of columns of a query around it: those are
/// the planner's to find.
fn is_computed(looked: &InSubquery) -> bool {
    !matches!(*looked.expr, Expr::Column(_)) && !looked.expr.contains_outer()
}

/// The condition of a filter with each NOT IN of a query that depends on the row around it as NOT
/// EXISTS; nothing where it has none.
fn none_found(filter: &Filter) -> Result<Option<Expr>> {
    let mut changed = false;
    let mut conditions = Vec::new();
    for condition in split_conjunction_owned(filter.predicate.clone()) {
        let looked = match &condition {
            Expr::Not(inner) => match inner.as_ref() {
                Expr::InSubquery(looked) if !looked.negated => Some(looked),
                _ => None,
            },
            Expr::InSubquery(looked) if looked.negated => Some(looked),
            _ => None,
        };
        let looked = looked.filter(|looked| !looked.subquery.outer_ref_columns.is_empty());
        let none = looked.map(|looked| none_is_it(looked, filter.input.schema()));
        changed |= none.is_some();
        conditions.push(none.transpose()?.unwrap_or(condition));
    }
    Ok(conjunction(conditions).filter(|_| changed))
}

/// That no row of a query is, or may be, what is looked for.
fn none_is_it(looked: &InSubquery, around: &DFSchema) -> Result<Expr> {
    let outside = transform_up(looked.expr.as_ref().clone(), &mut |expr| match expr {
        Expr::Column(column) => {
            let field = around.field_from_column(&column)?;
            let outer = Expr::OuterReferenceColumn(Arc::clone(field), column);
            Ok(Transformed::yes(outer))
        }
        other => Ok(Transformed::no(other)),
    })?;
    let rows = looked.subquery.subquery.as_ref();
    let Some(column) = rows.schema().columns().into_iter().next() else {
        return plan_err!("subquery must return only one column");
    };
    let may_be = Expr::Column(column).eq(outside.data);
    let found = LogicalPlanBuilder::from(rows.clone())
        .filter(Expr::IsNotFalse(Box::new(may_be)))?
        .build()?;
    let subquery = Subquery {
        outer_ref_columns: found.all_out_ref_exprs(),
        subquery: Arc::new(found),
        spans: looked.subquery.spans.clone(),
    };
    Ok(Expr::Exists(Exists {
        subquery,
        negated: true,
    }))
}
