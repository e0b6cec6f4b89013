//! Conditions without columns in a subquery that depends on the row around it: the planner computes
//! them between joining the subquery and looking at its form, and then no longer knows it.
//!
//! ```text
//!   (SELECT count(*) FROM u WHERE u.a = t.a AND 1 = 1)    ->  (... WHERE u.a = t.a)
//!   (SELECT count(*) FROM u WHERE u.a = t.a AND 1 = 2)    ->  (SELECT count(*) FROM no rows)
//! ```
//!
//! A rule of the planner before its own; pure. What can't be computed stays as it is.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{EmptyRelation, Expr, Filter, LogicalPlan, Subquery};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use crate::planner::rule::{NodeRule, rewrite_parts};
use crate::walk::plans::transform_up;

/// The rule.
pub(crate) const CONSTANT_CONDITIONS: NodeRule = NodeRule::new("constant_conditions", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, _| {
        let subquery = match &expr {
            Expr::Exists(exists) => &exists.subquery,
            Expr::InSubquery(looked) => &looked.subquery,
            Expr::ScalarSubquery(subquery) => subquery,
            _ => return Ok(Transformed::no(expr)),
        };
        if subquery.outer_ref_columns.is_empty() {
            return Ok(Transformed::no(expr));
        }
        let rows = subquery.subquery.as_ref().clone();
        let rows = transform_up(rows, &mut |node| match node {
            LogicalPlan::Filter(filter) => Ok(without_constants(filter)),
            other => Ok(Transformed::no(other)),
        })?;
        if !rows.transformed {
            return Ok(Transformed::no(expr));
        }
        let subquery = Subquery {
            outer_ref_columns: rows.data.all_out_ref_exprs(),
            subquery: Arc::new(rows.data),
            spans: subquery.spans.clone(),
        };
        Ok(Transformed::yes(match expr {
            Expr::Exists(exists) => Expr::Exists(Exists { subquery, ..exists }),
            Expr::InSubquery(looked) => Expr::InSubquery(InSubquery { subquery, ..looked }),
            _ => Expr::ScalarSubquery(subquery),
        }))
    })
}

fn without_constants(mut filter: Filter) -> Transformed<LogicalPlan> {
    let mut kept = Vec::new();
    let mut changed = false;
    for condition in split_conjunction_owned(filter.predicate.clone()) {
        match constant(&condition) {
            None => kept.push(condition),
            Some(true) => changed = true,
            Some(false) => {
                let schema = Arc::clone(filter.input.schema());
                return Transformed::yes(LogicalPlan::EmptyRelation(EmptyRelation {
                    produce_one_row: false,
                    schema,
                }));
            }
        }
    }
    if !changed {
        return Transformed::no(LogicalPlan::Filter(filter));
    }
    match conjunction(kept) {
        Some(predicate) => {
            filter.predicate = predicate;
            Transformed::yes(LogicalPlan::Filter(filter))
        }
        None => Transformed::yes(Arc::unwrap_or_clone(filter.input)),
    }
}

/// Whether a condition holds that is the same for all rows.
fn constant(condition: &Expr) -> Option<bool> {
    if condition.any_column_refs() || condition.contains_outer() || condition.is_volatile() {
        return None;
    }
    let schema = DFSchema::empty();
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .build();
    let simplifier = ExprSimplifier::new(context);
    let condition = simplifier.coerce(condition.clone(), &schema).ok()?;
    match simplifier.simplify(condition).ok()? {
        Expr::Literal(ScalarValue::Boolean(holds), _) => Some(holds == Some(true)),
        Expr::Literal(ScalarValue::Null, _) => Some(false),
        _ => None,
    }
}
