//! Grouping sets of what is computed. The planner gives a set the name that its members had before
//! their types were made equal, and then finds the members no more.
//!
//! ```text
//!   Aggregate ROLLUP (day + 1)        Projection g AS "day + 1"
//!     t                          ->     Aggregate ROLLUP (g)
//!                                         Projection all columns of t, day + 1 AS g
//!                                           t
//! ```
//!
//! A rule of the planner before its own, behind what computes `grouping()`; pure.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder};

use crate::planner::rule::NodeRule;

/// What a member is called that is computed. No key of a keyboard writes it.
const COMPUTED: &str = "\u{1}group ";

/// The rule.
pub(crate) const GROUPED_COLUMNS: NodeRule = NodeRule::new("grouped_columns", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = plan else {
        return Ok(Transformed::no(plan));
    };
    let [Expr::GroupingSet(set)] = aggregate.group_expr.as_slice() else {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    };
    let mut computed: Vec<Expr> = Vec::new();
    let mut named = |members: &Vec<Expr>| -> Vec<Expr> {
        let named = members.iter().map(|member| match member {
            Expr::Column(_) => member.clone(),
            member => {
                let known = computed.iter().position(|known| known == member);
                let at = known.unwrap_or(computed.len());
                if known.is_none() {
                    computed.push(member.clone());
                }
                Expr::Column(Column::new_unqualified(format!("{COMPUTED}{at}")))
            }
        });
        named.collect()
    };
    let set = match set {
        GroupingSet::Rollup(members) => GroupingSet::Rollup(named(members)),
        GroupingSet::Cube(members) => GroupingSet::Cube(named(members)),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.iter().map(named).collect())
        }
    };
    if computed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let columns = aggregate.input.schema().columns();
    let computed = computed.into_iter().enumerate();
    let computed = computed.map(|(at, value)| value.alias(format!("{COMPUTED}{at}")));
    let columns = columns.into_iter().map(Expr::Column).chain(computed);
    let names = Arc::clone(&aggregate.schema);
    let input = LogicalPlanBuilder::from(aggregate.input.as_ref().clone()).project(columns)?;
    let aggregate = Aggregate::try_new(
        Arc::new(input.build()?),
        vec![Expr::GroupingSet(set)],
        aggregate.aggr_expr,
    )?;
    let given = aggregate.schema.columns().into_iter().zip(names.iter());
    let given = given.map(|(column, (qualifier, field))| {
        Expr::Column(column).alias_qualified(qualifier.cloned(), field.name())
    });
    let given: Vec<Expr> = given.collect();
    let groups = LogicalPlanBuilder::from(LogicalPlan::Aggregate(aggregate)).project(given)?;
    Ok(Transformed::yes(groups.build()?))
}
