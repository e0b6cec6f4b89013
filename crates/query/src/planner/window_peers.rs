//! Windows over an order by times, bytes or UUIDs: the planner has ranges of numbers, texts and
//! moments alone, and a window without a frame is a range up to the rows that are equal.
//!
//! ```text
//!   RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW  ->  GROUPS BETWEEN the same
//! ```
//!
//! A rule of the planner, before its own, for frames whose bounds count nothing: there, a row's
//! peers end a frame in either form. Pure.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ExprSchemable, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits,
};

use crate::planner::rule::{NodeRule, change_windows};

/// The rule.
pub(crate) const WINDOW_PEERS: NodeRule = NodeRule::new("window_peers", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    change_windows(plan, &|params, schema| {
        let first = params.order_by.first();
        let of = first.map(|sort| sort.expr.get_type(schema)).transpose()?;
        let changes =
            of.is_some_and(|of| has_no_ranges(&of)) && counts_nothing(&params.window_frame);
        if changes {
            params.window_frame = WindowFrame::new_bounds(
                WindowFrameUnits::Groups,
                params.window_frame.start_bound.clone(),
                params.window_frame.end_bound.clone(),
            );
        }
        Ok(changes)
    })
}

/// Whether the planner refuses ranges of a type's values.
fn has_no_ranges(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    )
}

/// Whether a frame is a range whose ends are the row's peers, or those of the partition.
fn counts_nothing(frame: &WindowFrame) -> bool {
    let bare = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => true,
        WindowFrameBound::Preceding(by) | WindowFrameBound::Following(by) => by.is_null(),
    };
    frame.units == WindowFrameUnits::Range && bare(&frame.start_bound) && bare(&frame.end_bound)
}
