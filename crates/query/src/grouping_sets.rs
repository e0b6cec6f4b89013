//! GROUPING SETS, ROLLUP and CUBE over rows that come in an order.
//!
//! The planner takes what holds of a column below an aggregate for what holds of it above: that it
//! rises, that it is constant, that it equals another. With grouping sets it does not, since each
//! set leaves columns out, as NULL; groups would be given before all their rows have come.
//!
//! ```text
//!   AggregateExec Final             groups are met in any order
//!     ForgetfulExec                 hides what is said of the groups of all sets
//!       AggregateExec Partial
//!         ForgetfulExec             hides what is known of the rows
//!           rows by key, or of one a, or with a = b
//! ```
//!
//! A rule of the planner, before all others of its kind; reads and gives plans. Invariant GRS-1:
//! nothing is known of the groups of several sets but their columns.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    ReplaceChildrenOptions,
};

/// The planner's rules for physical plans, with ours before them.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.insert(0, Arc::new(GroupingSets));
    // What checks a plan stays last.
    let last = rules.len().saturating_sub(1);
    rules.insert(last, Arc::new(PatientJoins));
    rules
}

/// Has joins let others run now and then: what they give grows out of what the leaves give, which
/// alone do so by themselves. Without it a join of much with much hears of no timeout.
#[derive(Debug)]
struct PatientJoins;

impl PhysicalOptimizerRule for PatientJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let patient = plan.transform_up(|plan| {
            let is_join = plan.is::<NestedLoopJoinExec>()
                || plan.is::<CrossJoinExec>()
                || plan.is::<HashJoinExec>()
                || plan.is::<SortMergeJoinExec>();
            Ok(match is_join {
                true => Transformed::yes(Arc::new(CooperativeExec::new(plan)) as _),
                false => Transformed::no(plan),
            })
        })?;
        Ok(patient.data)
    }

    fn name(&self) -> &str {
        "patient_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rule.
#[derive(Debug)]
struct GroupingSets;

impl PhysicalOptimizerRule for GroupingSets {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(shielded).map(|plan| plan.data)
    }

    fn name(&self) -> &str {
        "grouping_sets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn shielded(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
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
