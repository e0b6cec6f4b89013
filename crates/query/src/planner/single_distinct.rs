//! `count(DISTINCT a)` beside `sum(b)`: the planner groups by `a` first and adds up sums of sums,
//! whose type is another one, or whose parts are out of their type's range where the whole is not.
//!
//! ```text
//!   count(DISTINCT a), sum(b)         b DECIMAL or an integer: stays as it is
//!   count(DISTINCT a), max(b)         the planner's rule
//! ```
//!
//! A rule of the planner in the place of its own; reads and gives plans.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::single_distinct_to_groupby::SingleDistinctToGroupBy;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::planner::rule::InPlaceOf;

/// The rule.
pub(crate) fn single_distinct() -> InPlaceOf {
    InPlaceOf::new(SingleDistinctToGroupBy::new(), rewrite)
}

fn rewrite(
    own: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    match adds_up_exactly(&plan) {
        true => Ok(Transformed::no(plan)),
        false => own.rewrite(plan, config),
    }
}

/// Whether a node has sums of numbers that have one exact value.
fn adds_up_exactly(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Aggregate(aggregate) = plan else {
        return false;
    };
    let is_exact = |arg: &Expr| {
        let of = arg.get_type(aggregate.input.schema());
        !of.is_ok_and(|of| of.is_floating())
    };
    aggregate.aggr_expr.iter().any(|expr| match expr {
        Expr::AggregateFunction(function) => {
            let params = &function.params;
            let is_sum = function.func.name() == "sum" && !params.distinct;
            is_sum && params.args.iter().any(is_exact)
        }
        _ => false,
    })
}
