//! An aggregate of all rows gives one row, also of none. The planner joins a subquery that depends
//! on the row around it by what they have in common, and then finds no row where nothing is in
//! common.
//!
//! ```text
//!   EXISTS (SELECT count(*) FROM u WHERE u.a = t.a)       ->  true
//!   EXISTS (SELECT ... HAVING count(*) > 1)               ->  (SELECT count(*) > 1 ...)
//!   0 IN (SELECT count(*) FROM u WHERE u.a = t.a)         ->  0 = (SELECT count(*) ...)
//!   (SELECT max(n) FROM (SELECT count(*) AS n FROM u WHERE u.a = t.a))
//!                                                         ->  (SELECT n FROM (...))
//! ```
//!
//! A rule of the planner before its own, and before those that look at values of subqueries; pure.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, Exists, InSubquery};
use datafusion::logical_expr::logical_plan::{FetchType, Limit, SkipType};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Subquery, lit, when,
};

use crate::planner::rule::{NodeRule, rewrite_parts};
use crate::walk::plans::transform_up;

/// The rule.
pub(crate) const CERTAIN_ROWS: NodeRule = NodeRule::new("certain_rows", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Aggregate(aggregate) = &plan
        && let Some(of_one) = of_one_row(aggregate)?
    {
        return Ok(Transformed::yes(of_one));
    }
    rewrite_parts(plan, &|expr, _| match &expr {
        Expr::Exists(Exists { subquery, negated }) => Ok(match exists(subquery)? {
            Some(exists) => Transformed::yes(negated_if(*negated, exists)),
            None => Transformed::no(expr),
        }),
        Expr::InSubquery(looked) if !looked.subquery.outer_ref_columns.is_empty() => {
            Ok(match is_in(looked)? {
                Some(is_in) => Transformed::yes(negated_if(looked.negated, is_in)),
                None => Transformed::no(expr),
            })
        }
        Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty() => {
            Ok(match value(subquery)? {
                Some(value) => Transformed::yes(value),
                None => match value_of(subquery, subquery.subquery.as_ref().clone()) {
                    same if same == expr => Transformed::no(expr),
                    other => Transformed::yes(other),
                },
            })
        }
        _ => Ok(Transformed::no(expr)),
    })
}

fn negated_if(negated: bool, expr: Expr) -> Expr {
    match negated {
        true => Expr::Not(Box::new(expr)),
        false => expr,
    }
}

/// A query that gives one row, but for a HAVING.
struct OneRow {
    /// The aggregate that the row comes from.
    base: LogicalPlan,
    /// The row, computed from the aggregate.
    values: Vec<Expr>,
    /// What its HAVING asks; nothing where the row is there in any case.
    condition: Option<Expr>,
}

impl OneRow {
    /// A query of something computed from the row; it reads nothing where that is constant.
    fn query(&self, value: Expr, name: &str) -> Result<LogicalPlan> {
        let base = match value.any_column_refs() {
            true => LogicalPlanBuilder::from(self.base.clone()),
            false => LogicalPlanBuilder::empty(true),
        };
        base.project([value.alias(name)])?.build()
    }

    /// A query of what the HAVING asks.
    fn holds(&self, condition: &Expr) -> Result<LogicalPlan> {
        self.query(Expr::IsTrue(Box::new(condition.clone())), "holds")
    }

    /// An expression of the row's columns as one of the aggregate's.
    fn computed(&self, expr: &Expr, columns: &[Column]) -> Result<Expr> {
        let known = |column: &Column| columns.iter().position(|known| known == column);
        let computed = transform_up(expr.clone(), &mut |expr| {
            Ok(match &expr {
                Expr::Column(column) => match known(column).and_then(|at| self.values.get(at)) {
                    Some(value) => Transformed::new(value.clone(), true, TreeNodeRecursion::Jump),
                    None => Transformed::no(expr),
                },
                _ => Transformed::no(expr),
            })
        })?;
        Ok(computed.data)
    }
}

fn one_row(plan: &LogicalPlan) -> Result<Option<OneRow>> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let Some(below) = one_row(&projection.input)? else {
                return Ok(None);
            };
            let columns = projection.input.schema().columns();
            let values = projection.expr.iter();
            let values = values.map(|expr| below.computed(&expr.clone().unalias(), &columns));
            let values = values.collect::<Result<_>>()?;
            Ok(Some(OneRow { values, ..below }))
        }
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
            let columns = plan.schema().columns().into_iter();
            Ok(Some(OneRow {
                base: plan.clone(),
                values: columns.map(Expr::Column).collect(),
                condition: None,
            }))
        }
        LogicalPlan::Filter(filter) => {
            let Some(below) = one_row(&filter.input)?.filter(|below| below.condition.is_none())
            else {
                return Ok(None);
            };
            let columns = filter.input.schema().columns();
            let condition = Some(below.computed(&filter.predicate, &columns)?);
            Ok(Some(OneRow { condition, ..below }))
        }
        LogicalPlan::SubqueryAlias(alias) => one_row(&alias.input),
        LogicalPlan::Sort(sort) if sort.fetch != Some(0) => one_row(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => one_row(input),
        LogicalPlan::Limit(limit) if lets_first_pass(limit)? => one_row(&limit.input),
        _ => Ok(None),
    }
}

/// Whether a LIMIT keeps a first row.
pub(crate) fn lets_first_pass(limit: &Limit) -> Result<bool> {
    let from_start = matches!(limit.get_skip_type()?, SkipType::Literal(0));
    let wants_none = matches!(limit.get_fetch_type()?, FetchType::Literal(Some(0)));
    let is_known = !matches!(limit.get_fetch_type()?, FetchType::UnsupportedExpr);
    Ok(from_start && is_known && !wants_none)
}

/// A query in the place of another one: what depended on the row around it may be gone.
fn value_of(subquery: &Subquery, plan: LogicalPlan) -> Expr {
    let outer_ref_columns = match plan.all_out_ref_exprs().is_empty() {
        true => Vec::new(),
        false => subquery.outer_ref_columns.clone(),
    };
    Expr::ScalarSubquery(Subquery {
        subquery: Arc::new(plan),
        outer_ref_columns,
        spans: subquery.spans.clone(),
    })
}

fn exists(subquery: &Subquery) -> Result<Option<Expr>> {
    let Some(one) = one_row(&subquery.subquery)? else {
        return Ok(None);
    };
    Ok(match &one.condition {
        None => Some(lit(true)),
        // The planner knows those that depend on nothing.
        Some(_) if subquery.outer_ref_columns.is_empty() => None,
        Some(condition) => Some(value_of(subquery, one.holds(condition)?)),
    })
}

fn is_in(looked: &InSubquery) -> Result<Option<Expr>> {
    let Some(one) = one_row(&looked.subquery.subquery)? else {
        return Ok(None);
    };
    let [value] = one.values.as_slice() else {
        return Ok(None);
    };
    let value = one.query(value.clone(), "value")?;
    let found = looked.expr.as_ref().clone();
    let found = found.eq(value_of(&looked.subquery, value));
    Ok(Some(match &one.condition {
        None => found,
        Some(condition) => value_of(&looked.subquery, one.holds(condition)?).and(found),
    }))
}

/// The value of a query of one row, which the planner takes for none, or for another, where names
/// of queries or a HAVING stand between.
fn value(subquery: &Subquery) -> Result<Option<Expr>> {
    // What the planner knows: one value computed from the aggregate.
    let is_known = match subquery.subquery.as_ref() {
        LogicalPlan::Projection(projection) => {
            matches!(*projection.input, LogicalPlan::Aggregate(_))
                && projection.expr.iter().all(Expr::any_column_refs)
        }
        plan => matches!(plan, LogicalPlan::Aggregate(_)),
    };
    if is_known {
        return Ok(None);
    }
    let Some(one) = one_row(&subquery.subquery)? else {
        return Ok(None);
    };
    let columns = subquery.subquery.schema().columns();
    let ([value], [column]) = (one.values.as_slice(), columns.as_slice()) else {
        return Ok(None);
    };
    let value = match one.condition.clone() {
        Some(condition) => when(condition, value.clone()).end()?,
        None => value.clone(),
    };
    let query = one.query(value, &column.name)?;
    Ok(Some(value_of(subquery, query)))
}

/// What an aggregate of all rows gives where there is one, without an aggregate. Only that of a
/// query that depends on the row around it: of others, the planner knows how many rows they have.
fn of_one_row(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    if !aggregate.group_expr.is_empty() {
        return Ok(None);
    }
    let Some(one) = one_row(&aggregate.input)? else {
        return Ok(None);
    };
    if one.condition.is_some() || one.base.all_out_ref_exprs().is_empty() {
        return Ok(None);
    }
    let columns = aggregate.input.schema().columns();
    let mut values = Vec::with_capacity(aggregate.aggr_expr.len());
    for (expr, field) in aggregate.aggr_expr.iter().zip(aggregate.schema.fields()) {
        let Expr::AggregateFunction(function) = expr.clone().unalias() else {
            return Ok(None);
        };
        let Some(value) = of_one(&function)? else {
            return Ok(None);
        };
        let value = one.computed(&value, &columns)?;
        let value = value.cast_to(field.data_type(), one.base.schema())?;
        values.push(value.alias(field.name()));
    }
    let values = LogicalPlanBuilder::from(one.base).project(values)?;
    values.build().map(Some)
}

/// What an aggregate gives for one row.
fn of_one(function: &AggregateFunction) -> Result<Option<Expr>> {
    let params = &function.params;
    let [of] = params.args.as_slice() else {
        return Ok(None);
    };
    if params.filter.is_some() || params.null_treatment.is_some() {
        return Ok(None);
    }
    let of = of.clone();
    Ok(match function.func.name() {
        "count" => Some(when(of.is_null(), lit(0_i64)).otherwise(lit(1_i64))?),
        "min" | "max" | "sum" | "avg" | "first_value" | "last_value" => Some(of),
        "array_agg" => Some(datafusion::functions_nested::make_array::make_array(vec![
            of,
        ])),
        _ => None,
    })
}
