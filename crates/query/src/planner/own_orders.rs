//! Aggregates in orders of their own. The planner sorts rows once for all that want an order, and
//! refuses two orders but for `array_agg`; and an order that names something twice it takes for
//! two in one place, and for one in another.
//!
//! ```text
//!   string_agg(a, ',' ORDER BY x), string_agg(b, ',' ORDER BY y)
//!     ->  array_to_string(array_agg(a ORDER BY x) FILTER (WHERE a IS NOT NULL), ','), ...
//!   SELECT DISTINCT ON (k) ... ORDER BY k, k      ->  ... ORDER BY k
//! ```
//!
//! A rule of the planner before its own; pure.

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_nested::string::array_to_string;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, Sort};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder,
};

use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const OWN_ORDERS: NodeRule = NodeRule::new("own_orders", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
            let changed = distinct.sort_expr.as_mut().is_some_and(once);
            let plan = LogicalPlan::Distinct(Distinct::On(distinct));
            Ok(Transformed::new(plan, changed, TreeNodeRecursion::Continue))
        }
        LogicalPlan::Aggregate(_) => {
            let plan = rewrite_parts(plan, &|mut expr, _| {
                let changed = match &mut expr {
                    Expr::AggregateFunction(function) => once(&mut function.params.order_by),
                    _ => false,
                };
                Ok(Transformed::new(expr, changed, TreeNodeRecursion::Continue))
            })?;
            plan.transform_data(|plan| match &plan {
                LogicalPlan::Aggregate(aggregate) if has_orders(aggregate) => {
                    in_own_orders(aggregate).map(Transformed::yes)
                }
                _ => Ok(Transformed::no(plan)),
            })
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Leaves out what an order has had before; whether there was any.
fn once(order: &mut Vec<Sort>) -> bool {
    let given = order.len();
    let mut known: Vec<Expr> = Vec::with_capacity(given);
    order.retain(|sort| {
        let is_new = !known.contains(&sort.expr);
        known.push(sort.expr.clone());
        is_new
    });
    order.len() < given
}

fn call(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::Alias(alias) => call(&alias.expr),
        Expr::AggregateFunction(function) => Some(function),
        _ => None,
    }
}

/// Whether texts are put together in an order that is not that of all other aggregates.
fn has_orders(aggregate: &Aggregate) -> bool {
    let calls = || aggregate.aggr_expr.iter().filter_map(call);
    let mut orders = calls()
        .map(|call| &call.params.order_by)
        .filter(|order| !order.is_empty());
    let first = orders.next();
    orders.any(|order| Some(order) != first) && calls().any(is_text)
}

fn is_text(call: &AggregateFunction) -> bool {
    call.func.name() == "string_agg" && !call.params.order_by.is_empty()
}

/// Puts together texts from lists, which have orders of their own.
fn in_own_orders(aggregate: &Aggregate) -> Result<LogicalPlan> {
    let mut calls = Vec::with_capacity(aggregate.aggr_expr.len());
    let mut between: Vec<Option<Expr>> = vec![None; aggregate.group_expr_len()?];
    for expr in &aggregate.aggr_expr {
        let list = call(expr).filter(|call| is_text(call)).and_then(list_of);
        match list {
            Some((list, text)) => {
                calls.push(list);
                between.push(Some(text));
            }
            None => {
                calls.push(expr.clone());
                between.push(None);
            }
        }
    }
    let lists = LogicalPlanBuilder::from(aggregate.input.as_ref().clone())
        .aggregate(aggregate.group_expr.clone(), calls)?
        .build()?;
    let given = lists.schema().columns().into_iter();
    let wanted = aggregate.schema.columns().into_iter();
    let columns = given.zip(wanted).enumerate().map(|(at, (given, wanted))| {
        let expr = Expr::Column(given);
        let Some(text) = between.get(at).cloned().flatten() else {
            return Ok(expr);
        };
        let of = aggregate.schema.field(at).data_type();
        let text = array_to_string(expr, text).cast_to(of, lists.schema())?;
        Ok(text.alias(wanted.name))
    });
    let columns = columns.collect::<Result<Vec<Expr>>>()?;
    LogicalPlanBuilder::from(lists).project(columns)?.build()
}

/// The list of what a `string_agg` puts together, and what it writes between.
fn list_of(call: &AggregateFunction) -> Option<(Expr, Expr)> {
    let AggregateFunctionParams {
        args,
        distinct,
        filter,
        order_by,
        null_treatment,
    } = call.params.clone();
    let [of, between] = <[Expr; 2]>::try_from(args).ok()?;
    let is_there = of.clone().is_not_null();
    let filter = match filter {
        Some(filter) => filter.and(is_there),
        None => is_there,
    };
    let list = AggregateFunction::new_udf(
        array_agg_udaf(),
        vec![of],
        distinct,
        Some(Box::new(filter)),
        order_by,
        null_treatment,
    );
    Some((Expr::AggregateFunction(list), between))
}
