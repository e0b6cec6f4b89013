//! Groups of one stored text are told apart by views of it: a view holds a short text itself, so
//! that its hash and a comparison look nowhere else, and what reads Parquet makes it without
//! copying the text.
//!
//! ```text
//!   AggregateExec Partial  word           ProjectionExec  CAST(word AS Utf8)
//!     FilterExec  n > 0              ->     AggregateExec Partial  word
//!       LazyScanExec  word, n                 FilterExec  n > 0
//!                                               LazyScanExec  word, n; views of word
//! ```
//!
//! Rows that are dealt out in turn, before the filter or behind it, are the same. What is above
//! gets texts as before. Where anything but the groups looks at the text, and where rows come in
//! the order of their groups, all stays as it is.
//!
//! A rule of the planner for physical plans, behind all but those that check a plan; reads and
//! gives plans.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode, Partitioning};

use crate::planner::rule::PlanRule;
use crate::scan::LazyScanExec;

/// The rule.
pub(crate) const TEXT_GROUPS: PlanRule = PlanRule::new("text_groups", text_groups);

fn text_groups(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(Transformed::no(plan));
    };
    let input = match sole_group(aggregate) {
        Some(group) => with_views_of(aggregate.input(), group)?,
        None => None,
    };
    let Some(input) = input else {
        return Ok(Transformed::no(plan));
    };
    let grouped = as_before(aggregate, grouping(aggregate, input)?)?;
    Ok(match grouped.schema() == plan.schema() {
        true => Transformed::yes(grouped),
        false => Transformed::no(plan),
    })
}

/// Which column of its input an aggregate groups by, if it is one alone, no order of the rows is
/// made use of, and nothing else of the aggregate looks at it.
fn sole_group(aggregate: &AggregateExec) -> Option<usize> {
    let groups = aggregate.group_expr();
    let [(group, _)] = groups.expr() else {
        return None;
    };
    let column = group.downcast_ref::<Column>()?.index();
    let calls = aggregate.aggr_expr().iter().flat_map(|call| {
        let parts = call.all_expressions();
        parts.args.into_iter().chain(parts.order_by_exprs)
    });
    let mut others = calls.chain(aggregate.filter_expr().iter().flatten().cloned());
    let is_first = aggregate.mode().input_mode() == AggregateInputMode::Raw;
    let is_plain = !groups.has_grouping_set() && aggregate.limit_options().is_none();
    let unordered = *aggregate.input_order_mode() == InputOrderMode::Linear;
    let is_sole = is_first && is_plain && unordered && !others.any(|expr| reads(&expr, column));
    is_sole.then_some(column)
}

fn reads(expr: &Arc<dyn PhysicalExpr>, column: usize) -> bool {
    let columns = collect_columns(expr);
    columns.iter().any(|read| read.index() == column)
}

/// The same rows with a column as views of texts, where the scan can give them and nothing above it
/// looks at them.
fn with_views_of(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<LazyScanExec>() {
        let viewed = scan.with_views_of(column);
        return Ok(viewed.map(|scan| Arc::new(scan) as _));
    }
    let Some((input, below)) = below(plan, column) else {
        return Ok(None);
    };
    match with_views_of(input, below)? {
        Some(input) => replace_children_if_necessary(Arc::clone(plan), vec![input]).map(Some),
        None => Ok(None),
    }
}

/// Where a column comes from, for a filter and for rows that are dealt out: these hand it on as it
/// is. Nothing where a filter looks at it.
fn below(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Option<(&Arc<dyn ExecutionPlan>, usize)> {
    if let Some(dealt) = plan.downcast_ref::<RepartitionExec>() {
        let in_turn = matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_));
        return (in_turn && !dealt.preserve_order()).then_some((dealt.input(), column));
    }
    let filter = plan.downcast_ref::<FilterExec>()?;
    let below = match filter.projection() {
        Some(kept) => kept.get(column).copied()?,
        None => column,
    };
    (!reads(filter.predicate(), below)).then_some((filter.input(), below))
}

/// An aggregate over another input.
fn grouping(aggregate: &AggregateExec, input: Arc<dyn ExecutionPlan>) -> Result<AggregateExec> {
    let schema = input.schema();
    AggregateExec::try_new(
        *aggregate.mode(),
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        input,
        schema,
    )
}

/// What an aggregate gives, as another one gave it before.
fn as_before(before: &AggregateExec, now: AggregateExec) -> Result<Arc<dyn ExecutionPlan>> {
    let (wanted, given) = (before.schema(), now.schema());
    let columns = wanted.fields().iter().zip(given.fields()).enumerate();
    let columns = columns.map(|(at, (wanted, given))| {
        let column = Arc::new(Column::new(given.name(), at)) as Arc<dyn PhysicalExpr>;
        let column = match wanted.data_type() == given.data_type() {
            true => column,
            false => Arc::new(CastExpr::new_with_target_field(
                column,
                Arc::clone(wanted),
                None,
            )) as _,
        };
        (column, wanted.name().clone())
    });
    let shown = ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::new(now))?;
    Ok(Arc::new(shown))
}
