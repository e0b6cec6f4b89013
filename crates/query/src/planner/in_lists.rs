//! `x IN (a, CASE ... END)`: the planner takes a list for constants where all of it can be computed
//! of no rows, and a CASE can. It becomes comparisons, one by one.
//!
//! ```text
//!   x IN (1, a + b, 2, coalesce(a, b))    ->  x IN (1, 2) OR x = a + b OR x = coalesce(a, b)
//!   x NOT IN (...)                        ->  NOT (...)
//! ```
//!
//! A rule of the planner, once all have one type; pure. Invariant INL-1: lists of constants and of
//! columns stay as they are.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::disjunction;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const IN_LISTS: NodeRule = NodeRule::new("in_lists", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, _| Ok(rewritten(expr)))
}

fn rewritten(expr: Expr) -> Transformed<Expr> {
    let Expr::InList(InList {
        expr: looked_for,
        list,
        negated,
    }) = expr
    else {
        return Transformed::no(expr);
    };
    if list.iter().all(is_plain) || looked_for.is_volatile() {
        return Transformed::no(Expr::InList(InList {
            expr: looked_for,
            list,
            negated,
        }));
    }
    let (plain, computed): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(is_plain);
    let mut any = Vec::with_capacity(computed.len() + 1);
    if !plain.is_empty() {
        any.push(looked_for.as_ref().clone().in_list(plain, false));
    }
    let equals = |element| looked_for.as_ref().clone().eq(element);
    any.extend(computed.into_iter().map(equals));
    let Some(any) = disjunction(any) else {
        return Transformed::no(*looked_for);
    };
    Transformed::yes(match negated {
        true => Expr::Not(Box::new(any)),
        false => any,
    })
}

/// A constant or a column, or either of them cast.
fn is_plain(element: &Expr) -> bool {
    match element {
        Expr::Literal(..) | Expr::Column(_) | Expr::Placeholder(_) => true,
        Expr::Cast(cast) => is_plain(&cast.expr),
        _ => false,
    }
}
