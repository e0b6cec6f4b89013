//! Rewriting the expressions of a plan under the names that they have: for rules of the planner,
//! whose plans must give the columns that they gave before. Pure.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};

/// Rewrites each expression of one node of a plan.
///
/// # Errors
/// Those of `change`.
pub(crate) fn rewrite_named(
    plan: LogicalPlan,
    mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    // An order has no names to keep.
    let names = (!matches!(plan, LogicalPlan::Sort(_))).then(|| NamePreserver::new(&plan));
    let mut under_its_name = |expr: Expr| {
        let name = names.as_ref().map(|names| names.save(&expr));
        let changed = change(expr)?;
        Ok(match name.filter(|_| changed.transformed) {
            Some(name) => changed.update_data(|expr| name.restore(expr)),
            None => changed,
        })
    };
    plan.map_expressions(|expr| match expr {
        Expr::GroupingSet(set) => grouped(set, &mut under_its_name),
        expr => under_its_name(expr),
    })
}

/// Each member of a grouping set is a column of its own.
fn grouped(
    set: GroupingSet,
    change: &mut impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let mut transformed = false;
    let mut each = |members: Vec<Expr>| {
        let members = members.into_iter().map(|member| {
            let changed = change(member)?;
            transformed |= changed.transformed;
            Ok(changed.data)
        });
        members.collect::<Result<Vec<Expr>>>()
    };
    let set = match set {
        GroupingSet::Rollup(members) => GroupingSet::Rollup(each(members)?),
        GroupingSet::Cube(members) => GroupingSet::Cube(each(members)?),
        GroupingSet::GroupingSets(sets) => {
            let sets = sets.into_iter().map(each);
            GroupingSet::GroupingSets(sets.collect::<Result<_>>()?)
        }
    };
    let expr = Expr::GroupingSet(set);
    Ok(match transformed {
        true => Transformed::yes(expr),
        false => Transformed::no(expr),
    })
}
