//! Lists of what a subquery orders, in its order, as PostgreSQL makes them: the planner takes rows
//! of a subquery to be in no order, and does not sort them.
//!
//! ```text
//!   SELECT array_agg(x) FROM (SELECT x FROM t ORDER BY y) AS s
//!     ->  SELECT array_agg(x ORDER BY o) FROM (SELECT x, y AS o FROM t ORDER BY y) AS s
//! ```
//!
//! A rule of the planner before its own; pure. Invariant OIN-1: a list that says its own order, or
//! takes each value once, stays as it is.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Limit, LogicalPlan, Projection, SubqueryAlias,
};

use crate::planner::rule::{NodeRule, rewrite_parts};
use crate::walk::plans::transform_up;

/// The rule.
pub(crate) const ORDERED_INPUTS: NodeRule = NodeRule::new("ordered_inputs", rewrite);

/// The aggregates that put values one after the other.
const LISTS: [&str; 2] = ["array_agg", "string_agg"];

/// What a column is called by which rows are ordered, and that they do not show. No key of a
/// keyboard writes it.
const ORDER: &str = "\u{1}order ";

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = plan else {
        return Ok(Transformed::no(plan));
    };
    if !aggregate.aggr_expr.iter().filter_map(call).any(is_list) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let Some((input, order)) = ordered(&aggregate.input)? else {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    };
    let Aggregate {
        group_expr,
        aggr_expr,
        ..
    } = aggregate;
    let aggregate = Aggregate::try_new(Arc::new(input), group_expr, aggr_expr)?;
    rewrite_parts(LogicalPlan::Aggregate(aggregate), &|mut expr, _| {
        let changed = match &mut expr {
            Expr::AggregateFunction(call) if is_list(call) => {
                call.params.order_by = order.clone();
                true
            }
            _ => false,
        };
        Ok(Transformed::new(expr, changed, TreeNodeRecursion::Continue))
    })
}

fn call(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::Alias(alias) => call(&alias.expr),
        Expr::AggregateFunction(function) => Some(function),
        _ => None,
    }
}

/// Whether an aggregate has the order of its rows.
fn is_list(call: &AggregateFunction) -> bool {
    let params = &call.params;
    LISTS.contains(&call.func.name()) && params.order_by.is_empty() && !params.distinct
}

/// A plan that keeps the order of its input, with the columns of that, and the order over them.
fn ordered(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<Sort>)>> {
    Ok(match plan {
        LogicalPlan::Sort(sort) => {
            let is_fixed = sort.expr.iter().all(|sort| !sort.expr.is_volatile());
            is_fixed.then(|| (plan.clone(), sort.expr.clone()))
        }
        LogicalPlan::Limit(limit) => ordered(&limit.input)?.map(|(input, order)| {
            let limit = Limit {
                input: Arc::new(input),
                ..limit.clone()
            };
            (LogicalPlan::Limit(limit), order)
        }),
        LogicalPlan::Filter(filter) => match ordered(&filter.input)? {
            Some((input, order)) => {
                let filter = Filter::try_new(filter.predicate.clone(), Arc::new(input))?;
                Some((LogicalPlan::Filter(filter), order))
            }
            None => None,
        },
        LogicalPlan::SubqueryAlias(alias) => match ordered(&alias.input)? {
            Some((input, order)) => {
                let alias = SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?;
                let order = under_alias(order, alias.input.schema(), &alias.schema)?;
                Some((LogicalPlan::SubqueryAlias(alias), order))
            }
            None => None,
        },
        LogicalPlan::Projection(projection) => match ordered(&projection.input)? {
            Some((input, order)) => Some(projected(&projection.expr, input, order)?),
            None => None,
        },
        _ => None,
    })
}

/// An order over the same columns under other names.
fn under_alias(order: Vec<Sort>, from: &DFSchema, to: &DFSchema) -> Result<Vec<Sort>> {
    let columns = to.columns();
    let named = |expr: Expr| {
        transform_up(expr, &mut |part| {
            let Expr::Column(column) = &part else {
                return Ok(Transformed::no(part));
            };
            let at = from.index_of_column(column)?;
            Ok(Transformed::yes(Expr::Column(columns[at].clone())))
        })
        .data()
    };
    let order = order.into_iter().map(|sort| {
        let expr = named(sort.expr)?;
        Ok(Sort::new(expr, sort.asc, sort.nulls_first))
    });
    order.collect()
}

/// A projection that gives what its input is ordered by as well, and the order over what it gives.
fn projected(
    columns: &[Expr],
    input: LogicalPlan,
    order: Vec<Sort>,
) -> Result<(LogicalPlan, Vec<Sort>)> {
    let mut columns = columns.to_vec();
    let mut places = Vec::with_capacity(order.len());
    for sort in &order {
        let known = |column: &Expr| column.clone().unalias() == sort.expr;
        places.push(columns.iter().position(known).unwrap_or(columns.len()));
        if places.last() == Some(&columns.len()) {
            let name = format!("{ORDER}{}", columns.len());
            columns.push(sort.expr.clone().alias(name));
        }
    }
    let projection = Projection::try_new(columns, Arc::new(input))?;
    let names: Vec<Column> = projection.schema.columns();
    let order = order.into_iter().zip(places).map(|(sort, place)| {
        let expr = Expr::Column(names[place].clone());
        Sort::new(expr, sort.asc, sort.nulls_first)
    });
    let order = order.collect();
    Ok((LogicalPlan::Projection(projection), order))
}
