//! Parts that are sorted for a merge are sorted by all that it merges them by. The planner leaves
//! out what is constant in each part, and then cuts off the rows of one part by what it found in
//! another: with a limit, the parts share what the last row wanted holds.
//!
//! ```text
//!   SortPreservingMergeExec  g, x                      g, x
//!     SortExec  TopK(3)      x: of all parts     ->    g, x
//!       UnionExec
//!         -2 AS g, c AS x
//!         NULL AS g, d AS x
//! ```
//!
//! Of the parts of a union that are sorted below it, the planner does not always believe that their
//! shorter orders are enough: then they are sorted above it.
//!
//! A rule of the planner, behind all but those that check a plan; reads and gives plans.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::planner::rule::PlanRule;
use crate::walk::plans::transform_up;

/// The rule.
pub(crate) const WHOLE_ORDERS: PlanRule = PlanRule::new("whole_orders", whole_orders);

fn whole_orders(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() else {
        return Ok(Transformed::no(plan));
    };
    let order = merge.expr();
    let mut sorted = sorted_by(merge.input(), order)?;
    if sorted.data.is::<UnionExec>() && !is_in(&sorted.data, order)? {
        let union = without_sorts(sorted.data)?;
        let sort = SortExec::new(order.clone(), union)
            .with_preserve_partitioning(true)
            .with_fetch(merge.fetch());
        sorted = Transformed::yes(Arc::new(sort) as _);
    }
    match sorted.transformed {
        true => replace_children_if_necessary(plan, vec![sorted.data]).map(Transformed::yes),
        false => Ok(Transformed::no(plan)),
    }
}

/// Whether the planner knows that the partitions of a plan come in an order.
fn is_in(plan: &Arc<dyn ExecutionPlan>, order: &LexOrdering) -> Result<bool> {
    plan.equivalence_properties()
        .ordering_satisfy(order.iter().cloned())
}

/// A plan whose sorts of several partitions are by the whole of the order that it comes in. One
/// with a limit has that for the sake of the merge above, where it has several partitions.
fn sorted_by(
    plan: &Arc<dyn ExecutionPlan>,
    order: &LexOrdering,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let parts = plan.output_partitioning().partition_count();
        if sort.expr() == order || parts == 1 {
            return Ok(Transformed::no(Arc::clone(plan)));
        }
        let sort = SortExec::new(order.clone(), Arc::clone(sort.input()))
            .with_preserve_partitioning(true)
            .with_fetch(sort.fetch());
        return Ok(Transformed::yes(Arc::new(sort)));
    }
    if !plan.is::<UnionExec>() {
        return Ok(Transformed::no(Arc::clone(plan)));
    }
    let mut transformed = false;
    let mut parts = Vec::new();
    for part in plan.children() {
        let sorted = sorted_by(part, &order_of(part, order)?)?;
        transformed |= sorted.transformed;
        parts.push(sorted.data);
    }
    Ok(match transformed {
        true => Transformed::yes(replace_children_if_necessary(Arc::clone(plan), parts)?),
        false => Transformed::no(Arc::clone(plan)),
    })
}

/// A union of what its parts sort, without their sorts; with those that choose rows by a limit.
fn without_sorts(union: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let parts = union.children().into_iter();
    let parts = parts.map(|part| match part.downcast_ref::<SortExec>() {
        Some(sort) if sort.fetch().is_none() => Arc::clone(sort.input()),
        _ => Arc::clone(part),
    });
    let parts = parts.collect();
    replace_children_if_necessary(union, parts)
}

/// An order of a union's rows as that of a part's, whose columns have names of their own.
fn order_of(part: &Arc<dyn ExecutionPlan>, order: &LexOrdering) -> Result<LexOrdering> {
    let schema = part.schema();
    let mut named = |of: Arc<dyn PhysicalExpr>| -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
        Ok(match of.downcast_ref::<Column>() {
            Some(column) => {
                let index = column.index();
                let name = schema.field(index).name();
                Transformed::yes(Arc::new(Column::new(name, index)) as _)
            }
            None => Transformed::no(of),
        })
    };
    let mut whole = Vec::with_capacity(order.len());
    for PhysicalSortExpr { expr, options } in order {
        let expr = transform_up(Arc::clone(expr), &mut named)?.data;
        whole.push(PhysicalSortExpr::new(expr, *options));
    }
    match LexOrdering::new(whole) {
        Some(whole) => Ok(whole),
        None => internal_err!("an order has columns"),
    }
}
