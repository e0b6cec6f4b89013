//! How heavy a plan is: through how many values it may go, as far as can be told before it runs.
//!
//! ```text
//!   a stored table   rows that pruning leaves x columns, or what a LIMIT above it takes
//!   a series         its values, for each row beside it
//!   a nested loop    the product of its sides
//!   else             the sum
//! ```
//!
//! Pure. System tables weigh nothing: who looks at the server never waits for those who load it.

use std::sync::Arc;

use datafusion::functions_table::generate_series::GenericSeriesState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use lazybase_model::limits::LIGHT_VALUES_MAX;

use crate::planner::series::SeriesExec;
use crate::scan::LazyScanExec;

/// What compares each row of one side with each of the other.
const PRODUCTS: [&str; 2] = ["CrossJoinExec", "NestedLoopJoinExec"];

/// What asks for no more rows than are asked of it, or a few batches more.
const STREAMING: [&str; 11] = [
    "CoalescePartitionsExec",
    "CooperativeExec",
    "CountingExec",
    "FilterExec",
    "ForgetfulExec",
    "GlobalLimitExec",
    "LocalLimitExec",
    "PausingExec",
    "ProjectionExec",
    "RepartitionExec",
    "SortPreservingMergeExec",
];

/// Whether a plan is to run beside few others of its kind.
pub(crate) fn is_heavy(plan: &Arc<dyn ExecutionPlan>) -> bool {
    weight(plan, None) > LIGHT_VALUES_MAX
}

/// The weight of a plan of which so many rows are taken at most.
fn weight(plan: &Arc<dyn ExecutionPlan>, rows_max: Option<u64>) -> u64 {
    if let Some(scan) = plan.downcast_ref::<LazyScanExec>() {
        return scan.values(rows_max);
    }
    if let Some(series) = plan.downcast_ref::<LazyMemoryExec>() {
        let numbers = numbers(series);
        return rows_max.map_or(numbers, |rows| rows.min(numbers));
    }
    if let Some(series) = plan.downcast_ref::<SeriesExec>() {
        let below = weight(series.input(), rows_max);
        let rows = series.rows_each().saturating_mul(below.max(1));
        return below.saturating_add(rows_max.map_or(rows, |most| most.min(rows)));
    }
    let rows_max = taken(plan, rows_max);
    let children = plan.children();
    let weights = children.into_iter().map(|child| weight(child, rows_max));
    match PRODUCTS.contains(&plan.name()) {
        true => weights.fold(1, |all, one| all.saturating_mul(one.max(1))),
        false => weights.fold(0, u64::saturating_add),
    }
}

/// How many rows a plan takes of what is below it, where that is less than all.
fn taken(plan: &Arc<dyn ExecutionPlan>, rows_max: Option<u64>) -> Option<u64> {
    if !STREAMING.contains(&plan.name()) {
        return None;
    }
    let skipped = plan
        .downcast_ref::<GlobalLimitExec>()
        .map_or(0, GlobalLimitExec::skip);
    let own = plan.fetch().map(|rows| rows.saturating_add(skipped) as u64);
    [own, rows_max].into_iter().flatten().min()
}

/// How many numbers a series has; what makes other rows than whole numbers is not known.
fn numbers(series: &LazyMemoryExec) -> u64 {
    let of_generators = series.generators().iter().map(|generator| {
        let generator = generator.read();
        let state = generator.as_any().downcast_ref::<GenericSeriesState<i64>>();
        state.map_or(0, |state| {
            state.start().abs_diff(*state.end()) / state.step().unsigned_abs().max(1)
        })
    });
    of_generators.fold(0, u64::saturating_add)
}
