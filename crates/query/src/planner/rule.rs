//! Rules of the planner that rewrite a plan node by node, from its leaves on, and the expressions
//! of a node under the names that they have: a plan gives the columns that it gave before. Pure.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::WindowFunctionParams;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::walk::plans::{Change, map_expressions, transform_up, transform_up_with_subqueries};

/// What a rule makes of one node, whose inputs it has been over.
type RewriteNode = fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>;

/// A rule: before the planner's own, as its analyzer has them, or among those of its optimizer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeRule {
    name: &'static str,
    rewrite: RewriteNode,
}

impl NodeRule {
    pub(crate) const fn new(name: &'static str, rewrite: RewriteNode) -> NodeRule {
        NodeRule { name, rewrite }
    }
}

impl AnalyzerRule for NodeRule {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut rewrite = self.rewrite;
        Ok(transform_up_with_subqueries(plan, &mut rewrite)?.data)
    }

    fn name(&self) -> &str {
        self.name
    }
}

impl OptimizerRule for NodeRule {
    fn name(&self) -> &str {
        self.name
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        (self.rewrite)(plan)
    }
}

/// What becomes of a plan for which the planner has a rule of its own.
type UseRule =
    fn(&dyn OptimizerRule, LogicalPlan, &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>>;

/// A rule in the place of one of the planner's own, which it decides to use or not.
#[derive(Debug)]
pub(crate) struct InPlaceOf {
    own: Arc<dyn OptimizerRule + Send + Sync>,
    rewrite: UseRule,
}

impl InPlaceOf {
    pub(crate) fn new(
        own: impl OptimizerRule + Send + Sync + 'static,
        rewrite: UseRule,
    ) -> InPlaceOf {
        let own = Arc::new(own);
        InPlaceOf { own, rewrite }
    }
}

impl OptimizerRule for InPlaceOf {
    fn name(&self) -> &str {
        self.own.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.own.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        (self.rewrite)(&*self.own, plan, config)
    }
}

/// What a rule makes of one node of a physical plan, whose inputs it has been over.
type RewritePlan = fn(Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>>;

/// A rule for physical plans.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanRule {
    name: &'static str,
    rewrite: RewritePlan,
}

impl PlanRule {
    pub(crate) const fn new(name: &'static str, rewrite: RewritePlan) -> PlanRule {
        PlanRule { name, rewrite }
    }
}

impl PhysicalOptimizerRule for PlanRule {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut rewrite = self.rewrite;
        Ok(transform_up(plan, &mut rewrite)?.data)
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Rewrites each part of each expression of a node, from the innermost on; `change` is told the
/// columns that it is over.
///
/// # Errors
/// Those of `change`.
pub(crate) fn rewrite_parts(
    plan: LogicalPlan,
    change: &dyn Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    rewrite_named(plan, &mut |expr| {
        transform_up(expr, &mut |part| change(part, &schema))
    })
}

/// Changes the calls of a node's windows; `change` is told the columns that they are over, and
/// says whether it changed one.
///
/// # Errors
/// Those of `change`.
pub(crate) fn change_windows(
    plan: LogicalPlan,
    change: &dyn Fn(&mut WindowFunctionParams, &DFSchema) -> Result<bool>,
) -> Result<Transformed<LogicalPlan>> {
    if !matches!(plan, LogicalPlan::Window(_)) {
        return Ok(Transformed::no(plan));
    }
    rewrite_parts(plan, &|mut expr, schema| {
        let changed = match &mut expr {
            Expr::WindowFunction(call) => change(&mut call.params, schema)?,
            _ => false,
        };
        Ok(Transformed::new(expr, changed, TreeNodeRecursion::Continue))
    })
}

/// Rewrites each expression of one node of a plan.
///
/// # Errors
/// Those of `change`.
pub(crate) fn rewrite_named(
    plan: LogicalPlan,
    change: Change<'_, Expr>,
) -> Result<Transformed<LogicalPlan>> {
    // An order has no names to keep.
    let names = (!matches!(plan, LogicalPlan::Sort(_))).then(|| NamePreserver::new(&plan));
    let mut under_its_name = |expr: Expr| -> Result<Transformed<Expr>> {
        let name = names.as_ref().map(|names| names.save(&expr));
        let changed = change(expr)?;
        Ok(match name.filter(|_| changed.transformed) {
            Some(name) => changed.update_data(|expr| name.restore(expr)),
            None => changed,
        })
    };
    map_expressions(plan, &mut |expr| match expr {
        Expr::GroupingSet(set) => grouped(set, &mut under_its_name),
        expr => under_its_name(expr),
    })
}

/// Each member of a grouping set is a column of its own.
fn grouped(set: GroupingSet, change: Change<'_, Expr>) -> Result<Transformed<Expr>> {
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
