//! Where the planner takes what holds of rows below for what holds of those above, and it does not,
//! what it knows of them is hidden.
//!
//! With GROUPING SETS, ROLLUP and CUBE nothing that holds of a column below the aggregate, that it
//! rises, that it is constant, that it equals another, holds above: each set leaves columns out, as
//! NULL. Groups would be given before all their rows have come.
//!
//! ```text
//!   AggregateExec Final             groups are met in any order
//!     ForgetfulExec                 hides what is said of the groups of all sets
//!       AggregateExec Partial
//!         ForgetfulExec             hides what is known of the rows
//!           rows by key, or of one a, or with a = b
//! ```
//!
//! A filter like `lower(note) = note` makes the planner write the one for the other, in
//! `lower(note)` itself too: of rows in the order of notes it says that they are, and are not.
//!
//! ```text
//!   ForgetfulExec
//!     FilterExec  lower(note) = note
//! ```
//!
//! A rule of the planner, before all others of its kind; reads and gives plans. Invariant GRS-1:
//! nothing is known of the groups of several sets but their columns.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, split_conjunction,
};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};

use crate::planner::rule::PlanRule;
use crate::walk::plans::exists;

/// The rule.
pub(crate) const FORGETFUL: PlanRule = PlanRule::new("forgetful", forgetful);

fn forgetful(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let conditions = split_conjunction(filter.predicate());
        return Ok(match conditions.into_iter().any(is_of_itself) {
            true => Transformed::yes(ForgetfulExec::over(plan)),
            false => Transformed::no(plan),
        });
    }
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(Transformed::no(plan));
    };
    if !aggregate.group_expr().has_grouping_set() {
        return Ok(Transformed::no(plan));
    }
    let input = ForgetfulExec::over(Arc::clone(aggregate.input()));
    let groups = replace_children_if_necessary(plan, vec![input])?;
    Ok(Transformed::yes(ForgetfulExec::over(groups)))
}

/// Whether a condition says that something equals what is computed of it.
fn is_of_itself(condition: &Arc<dyn PhysicalExpr>) -> bool {
    let Some(binary) = condition.downcast_ref::<BinaryExpr>() else {
        return false;
    };
    let (left, right) = (binary.left(), binary.right());
    let holds = |of: &Arc<dyn PhysicalExpr>, part: &Arc<dyn PhysicalExpr>| {
        !of.eq(part) && exists(of, &mut |inner| Ok(inner.eq(part))).unwrap_or(true)
    };
    *binary.op() == Operator::Eq && (holds(left, right) || holds(right, left))
}

/// Rows as they come, and nothing known of them but their columns.
#[derive(Debug, Clone)]
struct ForgetfulExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl ForgetfulExec {
    fn over(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let given = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            given.emission_type,
            given.boundedness,
        )
        .with_scheduling_type(given.scheduling_type)
        .with_evaluation_type(given.evaluation_type);
        Arc::new(ForgetfulExec {
            properties: Arc::new(properties),
            input,
        })
    }
}

impl DisplayAs for ForgetfulExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForgetfulExec")
    }
}

impl ExecutionPlan for ForgetfulExec {
    fn name(&self) -> &str {
        "ForgetfulExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(ForgetfulExec::over(input)),
            _ => internal_err!("ForgetfulExec has one input"),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(ForgetfulExec::over(input)),
            _ => internal_err!("ForgetfulExec has one input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
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
