//! `round(price, 1)`: the type of what it gives has as many digits as the constant says, and the
//! planner sees no constant in the one that it has cast to another width of integers. Given the
//! width that it wants from the beginning, the type is one all along.
//!
//! A rule of the planner before its own; pure.

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const ROUNDING: NodeRule = NodeRule::new("rounding", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, _| Ok(rewritten(expr)))
}

fn rewritten(mut expr: Expr) -> Transformed<Expr> {
    if let Expr::ScalarFunction(function) = &mut expr
        && matches!(function.func.name(), "round" | "trunc")
        && let [_, Expr::Literal(places @ ScalarValue::Int64(Some(_)), _)] = &mut function.args[..]
        && let ScalarValue::Int64(Some(digits)) = places
        && let Ok(digits) = i32::try_from(*digits)
    {
        *places = ScalarValue::Int32(Some(digits));
        return Transformed::yes(expr);
    }
    Transformed::no(expr)
}
