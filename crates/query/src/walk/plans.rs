//! Walks over the planner's trees: expressions, plans, and both as they run.
//!
//! DataFusion's own walks, over each kind of node, are compiled anew for each function that they
//! are given. Here each is compiled once for a kind of tree, and calls functions through their
//! tables: that takes much off a build, and no time that a statement feels. They have DataFusion's
//! names, and go its ways.

#![expect(clippy::disallowed_methods, reason = "here the walks are compiled")]

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// What becomes of a node.
pub(crate) type Change<'f, N> = &'f mut dyn FnMut(N) -> Result<Transformed<N>>;

/// Changes the nodes of a tree, from its leaves on.
pub(crate) fn transform_up<N: TreeNode>(tree: N, change: Change<'_, N>) -> Result<Transformed<N>> {
    tree.transform_up(change)
}

/// Changes the nodes of a tree, from its root on.
pub(crate) fn transform_down<N: TreeNode>(
    tree: N,
    change: Change<'_, N>,
) -> Result<Transformed<N>> {
    tree.transform_down(change)
}

/// Shows the nodes of a tree to a function, from its root on.
pub(crate) fn apply<'t, N: TreeNode>(
    tree: &'t N,
    look: &mut dyn FnMut(&'t N) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    tree.apply(look)
}

/// Whether a function finds some node of a tree.
pub(crate) fn exists<N: TreeNode>(
    tree: &N,
    is_it: &mut dyn FnMut(&N) -> Result<bool>,
) -> Result<bool> {
    let mut found = false;
    apply(tree, &mut |node| {
        found = is_it(node)?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Changes the inputs of a plan's first node.
pub(crate) fn map_children(
    plan: LogicalPlan,
    change: Change<'_, LogicalPlan>,
) -> Result<Transformed<LogicalPlan>> {
    plan.map_children(change)
}

/// Changes the expressions of a plan's first node.
pub(crate) fn map_expressions(
    plan: LogicalPlan,
    change: Change<'_, Expr>,
) -> Result<Transformed<LogicalPlan>> {
    plan.map_expressions(change)
}

/// Changes the queries inside of the expressions of a plan's first node.
pub(crate) fn map_subqueries(
    plan: LogicalPlan,
    change: Change<'_, LogicalPlan>,
) -> Result<Transformed<LogicalPlan>> {
    plan.map_subqueries(change)
}

/// Shows the expressions of a plan's first node to a function.
pub(crate) fn apply_expressions(
    plan: &LogicalPlan,
    look: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    plan.apply_expressions(look)
}

/// Changes the nodes of a plan and of the queries inside of its expressions, from the leaves on.
pub(crate) fn transform_up_with_subqueries(
    plan: LogicalPlan,
    change: Change<'_, LogicalPlan>,
) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(change)
}

/// Shows the nodes of a plan and of the queries inside of its expressions to a function, from the
/// root on.
pub(crate) fn apply_with_subqueries(
    plan: &LogicalPlan,
    look: &mut dyn FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    plan.apply_with_subqueries(look)
}
