//! Filters that leave columns out have a projection above them do so, where projections are about
//! to be pushed down: pushing one below a filter that leaves columns out itself, the planner reads
//! the filter's condition by the numbers that columns have above it.
//!
//! ```text
//!   ProjectionExec  z, y                            ProjectionExec  z, y
//!     FilterExec    y > 0, projection [x, y, z]  ->   ProjectionExec  x, y, z
//!                                                       FilterExec  y > 0
//! ```
//!
//! A rule of the planner for physical plans, before each of its own that pushes projections down;
//! that puts them into filters again. Reads and gives plans.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::ProjectionExec;

use crate::planner::rule::PlanRule;

/// The rule.
pub(crate) const OPEN_FILTERS: PlanRule = PlanRule::new("open_filters", open_filter);

fn open_filter(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some((filter, kept)) = plan
        .downcast_ref::<FilterExec>()
        .and_then(|filter| Some((filter, filter.projection().clone()?)))
    else {
        return Ok(Transformed::no(plan));
    };
    let schema = filter.input().schema();
    let columns = kept.iter().map(|at| {
        let name = schema.field(*at).name();
        let column = Arc::new(Column::new(name, *at)) as Arc<dyn PhysicalExpr>;
        (column, name.clone())
    });
    let whole = FilterExecBuilder::from(filter)
        .apply_projection(None)?
        .build()?;
    let shown = ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::new(whole))?;
    Ok(Transformed::yes(Arc::new(shown)))
}
