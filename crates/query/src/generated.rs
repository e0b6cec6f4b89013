//! Which columns of a write have values that the database makes itself: the moment, chance, the
//! session. A producer that sends a statement again gets others, and it is the same batch still.
//!
//! ```text
//!   VALUES (7, now())           sqlparser's tree    a call of a function that is not immutable
//!   SET at = now()
//!   DEFAULT gen_random_uuid()
//!   INSERT ... SELECT k, now()  a plan, as the statement says it: Projection k, now()
//! ```
//!
//! Pure. A column that only follows from such a value (`SELECT x + 1 FROM (SELECT random() AS x)`)
//! is not found: its values count as given.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Distinct, Expr as PlannedExpr, LogicalPlan, ScalarUDF, Volatility};
use datafusion::sql::sqlparser::ast::Expr;

use crate::parse::folded;
use crate::walk::plans::apply;
use crate::walk::visit_expressions;

/// Whether an expression calls a function that may give something else the next time. It is
/// rewritten for the planner, so that what stands for a call is one.
pub(crate) fn is_generated(expr: &Expr, functions: &HashMap<String, Arc<ScalarUDF>>) -> bool {
    let found = visit_expressions(expr, |part| {
        let Expr::Function(call) = part else {
            return ControlFlow::Continue(());
        };
        let name = call.name.0.last().and_then(|name| name.as_ident());
        let called = name.and_then(|name| functions.get(&folded(name)));
        match called.is_some_and(|function| !is_immutable(function)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

fn is_immutable(function: &ScalarUDF) -> bool {
    function.signature().volatility == Volatility::Immutable
}

/// Whether each column of a plan's rows is generated, or some rows of it are.
pub(crate) fn of_plan(plan: &LogicalPlan) -> Vec<bool> {
    let columns = 0..plan.schema().fields().len();
    columns.map(|at| is_column_generated(plan, at)).collect()
}

/// Columns of plans that are still to be looked at.
type Open<'p> = Vec<(&'p LogicalPlan, usize)>;

/// The plans may be as deep as VALUES has rows: they are no calls of this function.
fn is_column_generated(plan: &LogicalPlan, at: usize) -> bool {
    let mut open: Open<'_> = vec![(plan, at)];
    while let Some((plan, at)) = open.pop() {
        let (expr, input) = match plan {
            LogicalPlan::Projection(projection) => (projection.expr.get(at), &projection.input),
            LogicalPlan::Distinct(Distinct::On(distinct)) => {
                (distinct.select_expr.get(at), &distinct.input)
            }
            LogicalPlan::Values(values) => {
                let mut cells = values.values.iter().filter_map(|row| row.get(at));
                if cells.any(|cell| calls_generating(cell, &mut open)) {
                    return true;
                }
                continue;
            }
            other => {
                open_inputs(other, at, &mut open);
                continue;
            }
        };
        let Some(expr) = expr else { continue };
        if calls_generating(expr, &mut open) {
            return true;
        }
        if let PlannedExpr::Column(column) = bare(expr)
            && let Some(at) = input.schema().maybe_index_of_column(column)
        {
            open.push((input, at));
        }
    }
    false
}

/// Opens the column of the inputs that a column of a plan is.
fn open_inputs<'p>(plan: &'p LogicalPlan, at: usize, open: &mut Open<'p>) {
    match plan {
        LogicalPlan::Distinct(Distinct::All(input)) => open.push((input, at)),
        LogicalPlan::Filter(filter) => open.push((&filter.input, at)),
        LogicalPlan::Sort(sort) => open.push((&sort.input, at)),
        LogicalPlan::Limit(limit) => open.push((&limit.input, at)),
        LogicalPlan::SubqueryAlias(alias) => open.push((&alias.input, at)),
        LogicalPlan::Subquery(subquery) => open.push((&subquery.subquery, at)),
        LogicalPlan::Union(union) => open.extend(union.inputs.iter().map(|input| (&**input, at))),
        _ => {}
    }
}

/// Whether a planned expression calls a function that may give something else the next time; the
/// queries inside of it that give one value are opened.
fn calls_generating<'p>(expr: &'p PlannedExpr, open: &mut Open<'p>) -> bool {
    let mut found = false;
    let looked = apply(expr, &mut |part| {
        match part {
            PlannedExpr::ScalarFunction(call) => found |= !is_immutable(&call.func),
            PlannedExpr::ScalarSubquery(query) => open.push((&query.subquery, 0)),
            _ => {}
        }
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    });
    debug_assert!(looked.is_ok(), "nothing that is looked at fails");
    found
}

/// An expression without its name and without what only changes its type.
fn bare(mut expr: &PlannedExpr) -> &PlannedExpr {
    loop {
        expr = match expr {
            PlannedExpr::Alias(alias) => &alias.expr,
            PlannedExpr::Cast(cast) => &cast.expr,
            PlannedExpr::TryCast(cast) => &cast.expr,
            other => return other,
        };
    }
}
