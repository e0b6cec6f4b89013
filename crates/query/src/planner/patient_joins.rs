//! Joins that let others run now and then: what they give grows out of what the leaves give, which
//! alone do so by themselves. Without it a join of much with much hears of no timeout.
//!
//! ```text
//!   CooperativeExec          pauses now and then between batches that the join gives
//!     NestedLoopJoinExec     compares each batch on the right with all rows on the left, and gives
//!       CountingExec           nothing while nothing fits
//!         left
//!       PausingExec            small batches, and a pause before each: the smaller the more rows
//!         right                the left has given, all of them before the first on the right
//! ```
//!
//! A rule of the planner, behind all but those that check a plan; reads and gives plans.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::stream::{self, StreamExt, TryStreamExt};

use crate::planner::rule::PlanRule;

/// The rule.
pub(crate) const PATIENT_JOINS: PlanRule = PlanRule::new("patient_joins", patient);

/// The most rows between two pauses: a nested loop compares each of them with all rows on the left
/// before it looks up. With fewer it is slower.
const ROWS_BETWEEN_PAUSES_MAX: usize = 1024;

/// The most pairs of rows that are compared between two pauses, about a second of them, as long as
/// the left has no more rows than that.
const PAIRS_BETWEEN_PAUSES: usize = 1 << 26;

/// How many rows on the right come between two pauses.
fn rows_between_pauses(left_rows: usize) -> usize {
    (PAIRS_BETWEEN_PAUSES / left_rows.max(1)).clamp(1, ROWS_BETWEEN_PAUSES_MAX)
}

fn patient(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let is_loop = plan.is::<NestedLoopJoinExec>();
    let is_join = is_loop
        || plan.is::<CrossJoinExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<SortMergeJoinExec>();
    if !is_join {
        return Ok(Transformed::no(plan));
    }
    let plan = match plan.children().as_slice() {
        [left, right] if is_loop => {
            let left_rows = Arc::default();
            let counting = SideExec::over(Side::Left, Arc::clone(left), &left_rows);
            let pausing = SideExec::over(Side::Right, Arc::clone(right), &left_rows);
            replace_children_if_necessary(plan, vec![counting, pausing])?
        }
        _ => plan,
    };
    Ok(Transformed::yes(Arc::new(CooperativeExec::new(plan))))
}

/// A side of a nested loop.
#[derive(Debug, Clone, Copy)]
enum Side {
    /// Its rows are counted.
    Left,
    /// Its rows come in small batches, with a pause before each.
    Right,
}

/// The same rows as a side of a nested loop gives.
#[derive(Debug, Clone)]
struct SideExec {
    side: Side,
    input: Arc<dyn ExecutionPlan>,
    /// How many rows the left has given since it was last begun.
    left_rows: Arc<AtomicUsize>,
}

impl SideExec {
    fn over(
        side: Side,
        input: Arc<dyn ExecutionPlan>,
        left_rows: &Arc<AtomicUsize>,
    ) -> Arc<dyn ExecutionPlan> {
        let left_rows = Arc::clone(left_rows);
        Arc::new(SideExec {
            side,
            input,
            left_rows,
        })
    }

    fn over_only(
        &self,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(SideExec::over(self.side, input, &self.left_rows)),
            _ => internal_err!("{} has one input", self.name()),
        }
    }

    /// The rows of the left, which are counted as they go by.
    fn counted(&self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let (schema, left_rows) = (rows.schema(), Arc::clone(&self.left_rows));
        left_rows.store(0, Ordering::Relaxed);
        let counted = rows.inspect_ok(move |rows| {
            left_rows.fetch_add(rows.num_rows(), Ordering::Relaxed);
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, counted))
    }

    /// The rows of the right, with pauses. The join asks for the first of them when it has all of
    /// the left.
    fn paused(&self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let (schema, left_rows) = (rows.schema(), Arc::clone(&self.left_rows));
        let parts = rows.flat_map(move |rows| {
            let rows_max = rows_between_pauses(left_rows.load(Ordering::Relaxed));
            let rows = rows.map(|rows| {
                let starts = (0..rows.num_rows()).step_by(rows_max);
                let part = |at| rows.slice(at, rows_max.min(rows.num_rows() - at));
                starts.map(part).collect::<Vec<_>>()
            });
            match rows {
                Ok(parts) => stream::iter(parts).map(Ok).left_stream(),
                Err(error) => stream::iter([Err(error)]).right_stream(),
            }
        });
        let paused = parts.then(async |part| {
            tokio::task::yield_now().await;
            part
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, paused))
    }
}

impl DisplayAs for SideExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for SideExec {
    fn name(&self) -> &str {
        match self.side {
            Side::Left => "CountingExec",
            Side::Right => "PausingExec",
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.over_only(children)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.over_only(children)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        Ok(match self.side {
            Side::Left => self.counted(rows),
            Side::Right => self.paused(rows),
        })
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        input: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&input[0]))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

#[cfg(test)]
mod tests;
