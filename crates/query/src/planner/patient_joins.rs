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
//! A hash join looks at all pairs of equal keys, and gives nothing either while its filter lets
//! nothing pass, or where it asks only whether there are such pairs. Its right is cut where many
//! rows on the left have the same keys, which is seldom.
//!
//! A rule of the planner, behind all but those that check a plan; reads and gives plans.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, Statistics, internal_err};
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
use gauge::{AllRows, EqualKeys, Gauge};

mod gauge;

/// The rule.
pub(crate) const PATIENT_JOINS: PlanRule = PlanRule::new("patient_joins", patient);

fn patient(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let is_join = plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<SortMergeJoinExec>();
    if !is_join {
        return Ok(Transformed::no(plan));
    }
    let plan = match plan.children().as_slice() {
        [left, right] => match gauge_of(&plan) {
            Some(gauge) => {
                let counting = SideExec::over(Side::Left, Arc::clone(left), &gauge);
                let pausing = SideExec::over(Side::Right, Arc::clone(right), &gauge);
                replace_children_if_necessary(plan, vec![counting, pausing])?
            }
            None => plan,
        },
        _ => plan,
    };
    Ok(Transformed::yes(Arc::new(CooperativeExec::new(plan))))
}

/// What tells the work of a join that may look at many pairs of rows and give none.
fn gauge_of(join: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn Gauge>> {
    if join.is::<NestedLoopJoinExec>() {
        return Some(Arc::new(AllRows::default()));
    }
    let join = join.downcast_ref::<HashJoinExec>()?;
    let gives_all = join.filter().is_none() && gives_pairs(*join.join_type());
    match gives_all {
        true => None,
        false => Some(Arc::new(EqualKeys::of(join))),
    }
}

/// Whether such a join gives each pair of rows that it finds, and not one of its sides.
fn gives_pairs(join_type: JoinType) -> bool {
    match join_type {
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => true,
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => false,
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => false,
    }
}

/// A side of a join.
#[derive(Debug, Clone, Copy)]
enum Side {
    /// Its rows are counted.
    Left,
    /// Its rows come in small batches, with a pause before each.
    Right,
}

/// The same rows as a side of a join gives.
#[derive(Debug, Clone)]
struct SideExec {
    side: Side,
    input: Arc<dyn ExecutionPlan>,
    gauge: Arc<dyn Gauge>,
}

impl SideExec {
    fn over(
        side: Side,
        input: Arc<dyn ExecutionPlan>,
        gauge: &Arc<dyn Gauge>,
    ) -> Arc<dyn ExecutionPlan> {
        let gauge = Arc::clone(gauge);
        Arc::new(SideExec { side, input, gauge })
    }

    fn over_only(
        &self,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(SideExec::over(self.side, input, &self.gauge)),
            _ => internal_err!("{} has one input", self.name()),
        }
    }

    /// The rows of the left, which are counted as they go by.
    fn counted(
        &self,
        partition: usize,
        rows: SendableRecordBatchStream,
    ) -> SendableRecordBatchStream {
        let (schema, gauge) = (rows.schema(), Arc::clone(&self.gauge));
        gauge.begin(partition);
        let counted = rows.map(move |rows| -> Result<RecordBatch> {
            let rows = rows?;
            gauge.count(partition, &rows)?;
            Ok(rows)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, counted))
    }

    /// The rows of the right, with pauses. The join asks for the first of them when it has all of
    /// the left.
    fn paused(
        &self,
        partition: usize,
        rows: SendableRecordBatchStream,
    ) -> SendableRecordBatchStream {
        let (schema, gauge) = (rows.schema(), Arc::clone(&self.gauge));
        let parts = rows.flat_map(move |rows| {
            let parts = rows.and_then(|rows| {
                let lengths = gauge.parts(partition, &rows)?;
                Ok(cut(&rows, &lengths))
            });
            match parts {
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

/// Rows in parts of these lengths.
fn cut(rows: &RecordBatch, lengths: &[usize]) -> Vec<RecordBatch> {
    let starts = lengths.iter().scan(0, |next, length| {
        let start = *next;
        *next += length;
        Some((start, *length))
    });
    starts
        .map(|(start, length)| rows.slice(start, length))
        .collect()
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
            Side::Left => self.counted(partition, rows),
            Side::Right => self.paused(partition, rows),
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
