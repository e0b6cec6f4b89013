//! What a grouped key determines is grouped by only where it is read. The planner takes all columns
//! that a key determines for grouped by, and takes those out again that nobody reads; but not
//! beside a group that is computed, nor below `count(DISTINCT x)`. It would read and group by all
//! of the table there, and a sum that its type can't hold would be an error of a query that never
//! named it.
//!
//! ```text
//!   SELECT k, count(DISTINCT a) FROM t GROUP BY k
//!
//!     Projection k, count(DISTINCT a)          Projection k, count(DISTINCT a)
//!       Aggregate k, a, b, c              ->     Aggregate k
//!         t                                        t
//! ```
//!
//! Nor does it determine the elements of `GROUP BY k, unnest(l) / 2`, which the planner takes for
//! grouped by as well.
//!
//! A rule of the planner before its own; pure.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};

use crate::planner::rule::NodeRule;
use crate::walk::plans::{apply, apply_expressions, apply_with_subqueries};

/// The rule.
pub(crate) const DETERMINED_GROUPS: NodeRule = NodeRule::new("determined_groups", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    // What is above a projection reads what that gives, and none of the groups below it.
    if !matches!(plan, LogicalPlan::Projection(_)) {
        return Ok(Transformed::no(plan));
    }
    match over_groups(&plan, &mut HashSet::new())? {
        Some(over_fewer) => Ok(Transformed::yes(over_fewer)),
        None => Ok(Transformed::no(plan)),
    }
}

/// A node over the groups that it and the nodes above it read, whose names are in `read`; `None`
/// where there are no others.
fn over_groups(plan: &LogicalPlan, read: &mut HashSet<String>) -> Result<Option<LogicalPlan>> {
    let inputs = plan.inputs();
    let [input] = inputs.as_slice() else {
        return Ok(None);
    };
    let exprs = plan.expressions();
    for expr in &exprs {
        add_names(expr, read)?;
    }
    let fewer = match input {
        LogicalPlan::Aggregate(aggregate) => fewer_groups(aggregate, read)?,
        LogicalPlan::Filter(_) | LogicalPlan::Window(_) => over_groups(input, read)?,
        _ => None,
    };
    match fewer {
        Some(input) => plan.with_new_exprs(exprs, vec![input]).map(Some),
        None => Ok(None),
    }
}

/// Adds the names of the columns that an expression reads, those that its subqueries read of the
/// rows around them among them.
fn add_names(expr: &Expr, read: &mut HashSet<String>) -> Result<()> {
    apply(expr, &mut |part| {
        let subquery = match part {
            Expr::Column(column) => {
                read.insert(column.name.clone());
                return Ok(TreeNodeRecursion::Continue);
            }
            Expr::ScalarSubquery(subquery) => subquery,
            Expr::Exists(exists) => &exists.subquery,
            Expr::InSubquery(within) => &within.subquery,
            Expr::SetComparison(comparison) => &comparison.subquery,
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        apply_with_subqueries(&subquery.subquery, &mut |node| {
            apply_expressions(node, &mut |expr| {
                apply(expr, &mut |part| {
                    if let Expr::OuterReferenceColumn(_, column) = part {
                        read.insert(column.name.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })
    })?;
    Ok(())
}

/// The same groups without the columns that are not read and that keys among the others determine;
/// `None` where there are none.
fn fewer_groups(aggregate: &Aggregate, read: &HashSet<String>) -> Result<Option<LogicalPlan>> {
    let schema = aggregate.input.schema();
    let place = |group: &Expr| match group {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        _ => None,
    };
    let grouped: HashSet<usize> = aggregate.group_expr.iter().filter_map(place).collect();
    let mut keys: HashSet<usize> = HashSet::new();
    let mut determined: HashSet<usize> = elements(&aggregate.input);
    for dependence in schema.functional_dependencies().iter() {
        let key = &dependence.source_indices;
        if !key.is_empty() && key.iter().all(|at| grouped.contains(at)) {
            keys.extend(key);
            determined.extend(&dependence.target_indices);
        }
    }
    let is_idle = |group: &Expr| match group {
        // The same name in another table keeps a column that nobody reads: that does no harm.
        Expr::Column(column) if read.contains(&column.name) => false,
        group => place(group).is_some_and(|at| determined.contains(&at) && !keys.contains(&at)),
    };
    let groups = aggregate.group_expr.iter();
    let needed: Vec<Expr> = groups.filter(|group| !is_idle(group)).cloned().collect();
    if needed.len() == aggregate.group_expr.len() {
        return Ok(None);
    }
    let input = Arc::clone(&aggregate.input);
    let fewer = Aggregate::try_new(input, needed, aggregate.aggr_expr.clone())?;
    Ok(Some(LogicalPlan::Aggregate(fewer)))
}

/// The places of the elements that lists right below give: whoever groups by some gives them a
/// name, so that those under their own are there only because the planner took them for determined.
fn elements(plan: &LogicalPlan) -> HashSet<usize> {
    let LogicalPlan::Unnest(unnest) = plan else {
        return HashSet::new();
    };
    let lists = &unnest.list_type_columns;
    let places = unnest.dependency_indices.iter().enumerate();
    let places = places.filter(|(_, from)| lists.iter().any(|(list, _)| list == *from));
    places.map(|(at, _)| at).collect()
}
