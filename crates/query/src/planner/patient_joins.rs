//! Joins that let others run now and then: what they give grows out of what the leaves give, which
//! alone do so by themselves. Without it a join of much with much hears of no timeout.
//!
//! ```text
//!   CooperativeExec          pauses now and then between batches that the join gives
//!     NestedLoopJoinExec     compares each batch on the right with all rows on the left, and gives
//!       left                   nothing while nothing fits
//!       PausingExec          small batches, and a pause before each
//!         right
//! ```
//!
//! A rule of the planner, behind all but those that check a plan; reads and gives plans.

use std::fmt;
use std::sync::Arc;

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
use futures::stream::{self, StreamExt};

use crate::planner::rule::PlanRule;

/// The rule.
pub(crate) const PATIENT_JOINS: PlanRule = PlanRule::new("patient_joins", patient);

/// The rows between two pauses: a nested loop compares each of them with all rows on the other side
/// before it looks up. With fewer it would be slower.
const ROWS_BETWEEN_PAUSES: usize = 1024;

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
            let children = vec![Arc::clone(left), PausingExec::over(Arc::clone(right))];
            replace_children_if_necessary(plan, children)?
        }
        _ => plan,
    };
    Ok(Transformed::yes(Arc::new(CooperativeExec::new(plan))))
}

/// The same rows in small batches, with a pause before each.
#[derive(Debug, Clone)]
struct PausingExec {
    input: Arc<dyn ExecutionPlan>,
}

impl PausingExec {
    fn over(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(PausingExec { input })
    }

    fn over_only(mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(PausingExec::over(input)),
            _ => internal_err!("PausingExec has one input"),
        }
    }
}

impl DisplayAs for PausingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PausingExec")
    }
}

impl ExecutionPlan for PausingExec {
    fn name(&self) -> &str {
        "PausingExec"
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
        PausingExec::over_only(children)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        PausingExec::over_only(children)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let schema = rows.schema();
        let parts = rows.flat_map(|rows| {
            let rows = rows.map(|rows| {
                let starts = (0..rows.num_rows()).step_by(ROWS_BETWEEN_PAUSES);
                let part = |at| rows.slice(at, ROWS_BETWEEN_PAUSES.min(rows.num_rows() - at));
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
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, paused)))
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
