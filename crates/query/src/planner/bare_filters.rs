//! Filters that name no column, above aggregates that give a row whatever comes in.
//!
//! The planner moves a filter below an aggregate when all its columns are groups. A filter without
//! columns moves too, also where the aggregate has no groups: there it leaves the row of nothing
//! where there should be none.
//!
//! ```text
//!   Filter (SELECT max(k) FROM u) > 9           Filter ...
//!     Aggregate count(*)                  ->      Limit all        which no filter passes
//!                                                   Aggregate count(*)
//! ```
//!
//! A rule of the planner; reads and gives plans. Invariant BAR-1: plans without such a filter stay
//! as they are.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, Subquery, lit};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::plans::{apply, map_subqueries, transform_up};

/// The rule.
#[derive(Debug)]
pub(crate) struct BareFilters;

impl AnalyzerRule for BareFilters {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        guarded(plan)
    }

    fn name(&self) -> &str {
        "bare_filters"
    }
}

/// A plan, and each subquery in it, with its aggregates out of reach of its own bare filters.
fn guarded(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = transform_up(plan, &mut |node| {
        map_subqueries(node, &mut guarded_subquery)
    })?;
    match has_bare_filter(&plan.data)? {
        true => Ok(transform_up(plan.data, &mut out_of_reach)?.data),
        false => Ok(plan.data),
    }
}

fn guarded_subquery(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Subquery(subquery) = plan else {
        return Ok(Transformed::no(plan));
    };
    let Subquery {
        subquery,
        outer_ref_columns,
        spans,
    } = subquery;
    let subquery = Arc::new(guarded(Arc::unwrap_or_clone(subquery))?);
    Ok(Transformed::yes(LogicalPlan::Subquery(Subquery {
        subquery,
        outer_ref_columns,
        spans,
    })))
}

fn has_bare_filter(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    apply(plan, &mut |node| {
        let condition = match node {
            LogicalPlan::Filter(filter) => Some(&filter.predicate),
            LogicalPlan::Join(join) => join.filter.as_ref(),
            _ => None,
        };
        found |= condition.is_some_and(|all| split_conjunction(all).into_iter().any(is_bare));
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Whether a condition says nothing of the rows that it is asked for.
fn is_bare(condition: &Expr) -> bool {
    condition.column_refs().is_empty()
        && !condition.contains_outer()
        && !matches!(condition, Expr::Literal(..))
}

fn out_of_reach(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let whole = match &plan {
        LogicalPlan::Aggregate(aggregate) => {
            let groups = &aggregate.group_expr;
            groups.is_empty()
                || groups
                    .iter()
                    .any(|group| matches!(group, Expr::GroupingSet(_)))
        }
        _ => false,
    };
    if !whole {
        return Ok(Transformed::no(plan));
    }
    Ok(Transformed::yes(LogicalPlan::Limit(Limit {
        skip: None,
        fetch: Some(Box::new(lit(i64::MAX))),
        input: Arc::new(plan),
    })))
}
