//! What several expressions have in common is computed once, but for whole windows. The planner's
//! rule puts those into a projection, which computes none, and the query is refused; and it takes
//! for one what is two.
//!
//! ```text
//!   sum(1 + 1) OVER (), sum(2) OVER ()      one window, once constants are computed
//!   sum(a + b) OVER (), sum(b + a) OVER ()
//!   sum(a) OVER (PARTITION BY b ROWS ...),  two, and one to the rule
//!   sum(a) OVER (ORDER BY b ROWS ...)
//! ```
//!
//! A rule of the planner in the place of its own: a plan in which that has moved a window stays as
//! it was. Reads and gives plans.

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::planner::rule::InPlaceOf;
use crate::walk::plans::{apply_expressions, apply_with_subqueries, exists};

/// The rule.
pub(crate) fn common_parts() -> InPlaceOf {
    InPlaceOf::new(CommonSubexprEliminate::new(), rewrite)
}

fn rewrite(
    own: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    if !any_node(&plan, |node| Ok(matches!(node, LogicalPlan::Window(_))))? {
        return own.rewrite(plan, config);
    }
    let rewritten = own.rewrite(plan.clone(), config)?;
    match any_node(&rewritten.data, computes_windows_elsewhere)? {
        true => Ok(Transformed::no(plan)),
        false => Ok(rewritten),
    }
}

/// Whether something holds for a node of a plan, or of a subquery of it.
fn any_node(plan: &LogicalPlan, holds: impl Fn(&LogicalPlan) -> Result<bool>) -> Result<bool> {
    let mut found = false;
    apply_with_subqueries(plan, &mut |node| {
        found = holds(node)?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Whether windows stand in a node that computes none.
fn computes_windows_elsewhere(node: &LogicalPlan) -> Result<bool> {
    if matches!(node, LogicalPlan::Window(_)) {
        return Ok(false);
    }
    let mut found = false;
    apply_expressions(node, &mut |expr| {
        found |= exists(expr, &mut |part| {
            Ok(matches!(part, Expr::WindowFunction(_)))
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
