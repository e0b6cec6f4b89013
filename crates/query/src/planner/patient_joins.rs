//! Joins that let others run now and then: what they give grows out of what the leaves give, which
//! alone do so by themselves. Without it a join of much with much hears of no timeout.
//!
//! A rule of the planner, behind all but those that check a plan; reads and gives plans.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};

use crate::planner::rule::PlanRule;

/// The rule.
pub(crate) const PATIENT_JOINS: PlanRule = PlanRule::new("patient_joins", patient);

fn patient(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let is_join = plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<SortMergeJoinExec>();
    Ok(match is_join {
        true => Transformed::yes(Arc::new(CooperativeExec::new(plan))),
        false => Transformed::no(plan),
    })
}
