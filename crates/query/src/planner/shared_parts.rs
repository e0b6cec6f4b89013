//! Where all rows of a stored table go to an aggregate that answers the same whichever of them
//! comes to which of its partitions, and when, the partitions of the scan share its parts: one that
//! gets less of the processor holds up nobody.
//!
//! ```text
//!   AggregateExec Partial  sum(n)        AggregateExec Partial  sum(n)
//!     FilterExec  n > 0             ->     FilterExec  n > 0
//!       LazyScanExec  n                      LazyScanExec  n, shared_parts
//! ```
//!
//! An aggregate takes all rows before it gives one that counts: no partition ends early while
//! others go on. What makes use of an order, and sums of floating-point numbers, which round by the
//! order in which they are added up, keep partitions with parts of their own; so does the left side
//! of a nested loop, which is read once more, without being told so, where memory does not suffice.
//!
//! A rule of the planner for physical plans, behind all but those that check a plan; reads and
//! gives plans.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use crate::planner::rule::PlanRule;
use crate::scan::LazyScanExec;
use crate::walk::plans::transform_up;

/// The rule.
pub(crate) const SHARED_PARTS: PlanRule = PlanRule::new("shared_parts", shared_parts);

/// Aggregates that tell the same of some values in whatever order these come.
const OF_ANY_ORDER: [&str; 8] = [
    "count", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor",
];

/// The same for numbers that are added up without rounding.
const ADDED_UP: [&str; 2] = ["sum", "avg"];

fn shared_parts(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let left = transform_up(Arc::clone(join.left()), &mut own_parts)?;
        if !left.transformed {
            return Ok(Transformed::no(plan));
        }
        let sides = vec![left.data, Arc::clone(join.right())];
        return replace_children_if_necessary(plan, sides).map(Transformed::yes);
    }
    let input = match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) if takes_any_order(aggregate)? => sharing(aggregate.input())?,
        _ => None,
    };
    match input {
        Some(input) => replace_children_if_necessary(plan, vec![input]).map(Transformed::yes),
        None => Ok(Transformed::no(plan)),
    }
}

fn own_parts(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let scan = plan.downcast_ref::<LazyScanExec>();
    Ok(match scan.and_then(LazyScanExec::with_own_parts) {
        Some(scan) => Transformed::yes(Arc::new(scan)),
        None => Transformed::no(plan),
    })
}

/// Whether an aggregate takes all of its rows, and tells the same of them in any order.
fn takes_any_order(aggregate: &AggregateExec) -> Result<bool> {
    let is_first = aggregate.mode().input_mode() == AggregateInputMode::Raw;
    let unordered = *aggregate.input_order_mode() == InputOrderMode::Linear
        && aggregate
            .required_input_ordering()
            .iter()
            .all(Option::is_none);
    if !is_first || !unordered || aggregate.limit_options().is_some() {
        return Ok(false);
    }
    let schema = aggregate.input().schema();
    for call in aggregate.aggr_expr() {
        if !is_of_any_order(call, &schema)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_of_any_order(call: &AggregateFunctionExpr, schema: &Schema) -> Result<bool> {
    let name = call.fun().name();
    let is_added_up = ADDED_UP.contains(&name);
    if !is_added_up && !OF_ANY_ORDER.contains(&name) {
        return Ok(false);
    }
    for value in call.expressions() {
        let of = value.data_type(schema)?;
        // Spans of one length may be told in several ways, of which the first one stands.
        let is_span = matches!(of, DataType::Interval(_)) && name != "count";
        if is_span || is_added_up && of.is_floating() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The same rows from a scan whose partitions share its parts, where nothing between makes a
/// difference of it.
fn sharing(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<LazyScanExec>() {
        let shared = scan.with_shared_parts();
        return Ok(shared.map(|scan| Arc::new(scan) as _));
    }
    let Some(input) = below(plan) else {
        return Ok(None);
    };
    match sharing(input)? {
        Some(input) => replace_children_if_necessary(Arc::clone(plan), vec![input]).map(Some),
        None => Ok(None),
    }
}

/// What is below a node that takes all rows and hands them on one by one.
fn below(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    if plan.fetch().is_some() {
        return None;
    }
    if let Some(dealt) = plan.downcast_ref::<RepartitionExec>() {
        return (!dealt.preserve_order()).then(|| dealt.input());
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some(filter.input());
    }
    plan.downcast_ref::<ProjectionExec>()
        .map(ProjectionExec::input)
}
