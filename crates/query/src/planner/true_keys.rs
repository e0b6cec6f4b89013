//! Which columns determine which others, and whether a row has them to itself. The planner hands
//! that on from node to node, and two kinds of nodes claim more than is so:
//!
//! ```text
//!   k, unnest(l)              k comes once for each element, and does not determine it
//!   GROUP BY a.k, b.x         a.k determines what is of a, and comes once for each x
//!     over a join
//! ```
//!
//! Where that is believed, an order is one of k alone, DISTINCT and groups are left out, a join
//! multiplies no rows, and whoever groups by k may name x. Any rule may make a node anew, with the
//! same claims: so they are put right just before each place where they are read.
//!
//! ```text
//!   plan          what stands in FROM, before it is grouped and looked at through windows
//!   analyzer      before determined_groups and single_rows
//!   optimizer     within each rule that reads them
//! ```
//!
//! Rules of the planner, some in the place of its own, and one that it asks of tables; pure.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Dependency, FunctionalDependence, FunctionalDependencies};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Join, LogicalPlan, Projection, Unnest, Window,
};
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::eliminate_join::EliminateJoin;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::sql::sqlparser::ast::{
    TableFactor, TableSample, TableSampleKind, TableSampleModifier,
};

use crate::planner::rule::{InPlaceOf, NodeRule};
use crate::walk::plans::{apply_with_subqueries, transform_up_with_subqueries};

/// The rule.
pub(crate) const TRUE_KEYS: NodeRule = NodeRule::new("true_keys", rewrite);

/// The planner's rules that read what is claimed, over plans that claim what is so.
pub(crate) fn rules() -> [InPlaceOf; 4] {
    [
        InPlaceOf::new(ReplaceDistinctWithAggregate::new(), of_nodes),
        InPlaceOf::new(EliminateJoin::new(), of_plans),
        InPlaceOf::new(EliminateDuplicatedExpr::new(), of_nodes),
        InPlaceOf::new(OptimizeProjections::new(), of_plans),
    ]
}

/// For a rule that goes through a plan by itself.
fn of_plans(
    own: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    own.rewrite(put_right(plan)?, config)
}

/// For a rule that is shown each node. What it has made of the nodes below may be made anew.
fn of_nodes(
    own: &dyn OptimizerRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        plan @ (LogicalPlan::Sort(_) | LogicalPlan::Distinct(Distinct::All(_))) => put_right(plan)?,
        plan => plan,
    };
    own.rewrite(plan, config)
}

/// A plan that claims what is so: most do.
fn put_right(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut wrong = false;
    apply_with_subqueries(&plan, &mut |node| {
        wrong = wrong || other_than_claimed(node).is_some();
        Ok(match wrong {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    match wrong {
        true => Ok(transform_up_with_subqueries(plan, &mut rewrite)?.data),
        false => Ok(plan),
    }
}

fn rewrite(mut plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let Some(known) = other_than_claimed(&plan) else {
        return Ok(Transformed::no(plan));
    };
    let schema = plan.schema().as_ref().clone();
    let schema = Arc::new(schema.with_functional_dependencies(known)?);
    match &mut plan {
        LogicalPlan::Projection(node) => node.schema = schema,
        LogicalPlan::SubqueryAlias(node) => node.schema = schema,
        LogicalPlan::Join(node) => node.schema = schema,
        LogicalPlan::Window(node) => node.schema = schema,
        LogicalPlan::Aggregate(node) => node.schema = schema,
        LogicalPlan::Unnest(node) => node.schema = schema,
        _ => {}
    }
    Ok(Transformed::yes(plan))
}

/// What is known of a node's columns, given what its inputs claim, if the node claims something
/// else.
fn other_than_claimed(plan: &LogicalPlan) -> Option<FunctionalDependencies> {
    let claimed = plan.schema().functional_dependencies();
    if claimed.is_empty() {
        return None;
    }
    let known = match plan {
        LogicalPlan::Projection(projection) => of_columns(projection),
        LogicalPlan::SubqueryAlias(alias) => alias.input.schema().functional_dependencies().clone(),
        LogicalPlan::Join(join) => of_join(join),
        LogicalPlan::Window(window) => of_windows(window),
        LogicalPlan::Aggregate(aggregate) => of_groups(aggregate),
        LogicalPlan::Unnest(unnest) => of_elements(unnest),
        _ => return None,
    };
    (known != *claimed).then_some(known)
}

/// The place of the column that an expression is.
fn place(expr: &Expr, schema: &DFSchema) -> Option<usize> {
    let Expr::Column(column) = expr else {
        return None;
    };
    schema.iter().position(|(qualifier, field)| {
        qualifier == column.relation.as_ref() && *field.name() == column.name
    })
}

fn of_columns(projection: &Projection) -> FunctionalDependencies {
    let schema = projection.input.schema();
    let places = projection.expr.iter().map(|expr| {
        let place = match expr {
            Expr::Alias(alias) => place(&alias.expr, schema),
            expr => place(expr, schema),
        };
        // That of no column.
        place.unwrap_or(usize::MAX)
    });
    let places: Vec<usize> = places.collect();
    let known = schema.functional_dependencies();
    known.project_functional_dependencies(&places, places.len())
}

fn of_join(join: &Join) -> FunctionalDependencies {
    let (left, right) = (join.left.schema(), join.right.schema());
    left.functional_dependencies().join(
        right.functional_dependencies(),
        &join.join_type,
        left.fields().len(),
    )
}

/// Windows add columns; those that count rows determine the others.
fn of_windows(window: &Window) -> FunctionalDependencies {
    let input = window.input.schema();
    let before = input.fields().len();
    let claimed = window.schema.functional_dependencies().iter();
    let counted = claimed.filter(|one| one.source_indices.iter().all(|at| *at >= before));
    let counted = FunctionalDependencies::new(counted.cloned().collect());
    let mut known = input.functional_dependencies().clone();
    known.extend_target_indices(window.schema.fields().len());
    known.extend(counted);
    known
}

/// All groups together are those of one row. Some of them are where they determine all others, or
/// where a row below has them to itself.
fn of_groups(aggregate: &Aggregate) -> FunctionalDependencies {
    let groups = &aggregate.group_expr;
    let is_set = |group: &Expr| matches!(group, Expr::GroupingSet(_));
    if groups.is_empty() || groups.iter().any(is_set) {
        return FunctionalDependencies::empty();
    }
    let input = aggregate.input.schema();
    let fields = aggregate.schema.fields();
    let places: Vec<Option<usize>> = groups.iter().map(|group| place(group, input)).collect();
    let group_of = |at: &usize| places.iter().position(|place| *place == Some(*at));
    let below = input.functional_dependencies().iter();
    let kept = below.filter_map(|one| {
        let keys = one.source_indices.iter().map(group_of);
        let mut keys = keys.collect::<Option<Vec<usize>>>()?;
        keys.sort_unstable();
        let is_target = |at: usize| {
            let place = places.get(at).copied().flatten();
            place.is_some_and(|place| one.target_indices.contains(&place))
        };
        let alone = one.mode == Dependency::Single || (0..groups.len()).all(is_target);
        Some(determined(keys, one, alone, fields.len(), is_target))
    });
    let mut known: Vec<FunctionalDependence> = kept.collect();
    if known.iter().all(|one| one.mode == Dependency::Multi) {
        let nullable = fields.iter().take(groups.len()).any(|of| of.is_nullable());
        let keys = (0..groups.len()).collect();
        let of_row = FunctionalDependence::new(keys, (0..fields.len()).collect(), nullable);
        known.push(of_row.with_mode(Dependency::Single));
    }
    FunctionalDependencies::new(known)
}

/// A row comes once for each element, with the columns beside the lists as they were. The fields of
/// a row stand in its place, and the columns behind it in others.
fn of_elements(unnest: &Unnest) -> FunctionalDependencies {
    let from = &unnest.dependency_indices;
    let is_list = |at: &usize| unnest.list_type_columns.iter().any(|(list, _)| list == at);
    let is_changed = |at: &usize| is_list(at) || unnest.struct_type_columns.contains(at);
    let place_of = |at: &usize| match is_changed(at) {
        true => None,
        false => from.iter().position(|from| from == at),
    };
    let below = unnest.input.schema().functional_dependencies().iter();
    let known = below.filter_map(|one| {
        let keys = one.source_indices.iter().map(place_of);
        let keys = keys.collect::<Option<Vec<usize>>>()?;
        let is_target = |at: usize| {
            let from = from.get(at);
            from.is_some_and(|from| one.target_indices.contains(from) && !is_list(from))
        };
        let alone = one.mode == Dependency::Single && unnest.list_type_columns.is_empty();
        Some(determined(keys, one, alone, from.len(), is_target))
    });
    FunctionalDependencies::new(known.collect())
}

/// What keys determine that were known `before` under other places: all columns, where a row has
/// the keys to itself.
fn determined(
    keys: Vec<usize>,
    before: &FunctionalDependence,
    alone: bool,
    columns: usize,
    is_target: impl Fn(usize) -> bool,
) -> FunctionalDependence {
    let targets = (0..columns).filter(|at| alone || is_target(*at)).collect();
    let mode = match alone {
        true => Dependency::Single,
        false => Dependency::Multi,
    };
    FunctionalDependence::new(keys, targets, before.nullable).with_mode(mode)
}

/// What plans the tables and queries in FROM, as the planner does.
#[derive(Debug)]
pub(crate) struct KeysInFrom;

impl RelationPlanner for KeysInFrom {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let mark = match &mut relation {
            TableFactor::Table {
                args: None, sample, ..
            }
            | TableFactor::Derived { sample, .. } => sample,
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        // The planner asks for what is planned here again, and shall plan it then. No statement
        // comes here with a sample.
        if mark.take().is_some() {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        *mark = Some(TableSampleKind::AfterTableAlias(Box::new(TableSample {
            modifier: TableSampleModifier::TableSample,
            name: None,
            quantity: None,
            seed: None,
            bucket: None,
            offset: None,
        })));
        let plan = put_right(context.plan(relation)?)?;
        let planned = PlannedRelation::new(plan, None);
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

#[cfg(test)]
mod tests;
