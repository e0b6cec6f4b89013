//! Texts that stand beside values of other types: each is a value of that type, as PostgreSQL
//! takes a constant in quotes, and not the other way round. The planner would take both to the
//! finest timestamps, which end in 2262, and has nothing in common for a BOOLEAN and a text.
//!
//! ```text
//!   at < '9999-12-31'          ->  at < TIMESTAMP '9999-12-31'
//!   done = 't'                 ->  done = TRUE
//!   took IN ('1 day', '36:00') ->  took IN (INTERVAL '1 day', INTERVAL '36 hours')
//! ```
//!
//! A rule of the planner and its form for single operators; pure. Invariant UNL-1: only constants
//! change, and each to what the same text is in a column of the type.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use lazybase_model::{Column, Error};

use crate::cast::texts_as;
use crate::checked_integers;
use crate::error::into_datafusion;
use crate::named_rewrites::rewrite_named;
use crate::types;
use crate::uuid_literals::is_comparison;

/// The rule: for what is no operator between two values, and for plans that no SQL was.
#[derive(Debug)]
pub(crate) struct UnknownLiterals;

impl AnalyzerRule for UnknownLiterals {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &str {
        "unknown_literals"
    }
}

/// The same where SQL is planned: what has no common type does not come as far as a plan.
#[derive(Debug)]
pub(crate) struct UnknownOperands;

impl ExprPlanner for UnknownOperands {
    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as B;
        let of = |expr: &Expr| expr.get_type(schema).unwrap_or(DataType::Null);
        let beside = |other: &Expr| {
            let other = of(other);
            match raw.op {
                B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq => other,
                B::Minus => other,
                B::Plus if is_moment(&other) => DataType::Interval(IntervalUnit::MonthDayNano),
                B::Plus => other,
                _ => DataType::Null,
            }
        };
        let both = (of(&raw.left), of(&raw.right));
        if raw.op == B::Minus && both == (DataType::UInt64, DataType::UInt64) {
            let difference = checked_integers::difference(raw.left, raw.right);
            return Ok(PlannerResult::Planned(difference));
        }
        let (wanted_left, wanted_right) = (beside(&raw.right), beside(&raw.left));
        Ok(PlannerResult::Original(RawBinaryExpr {
            left: typed(raw.left, &wanted_left)?.data,
            right: typed(raw.right, &wanted_right)?.data,
            op: raw.op,
        }))
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    rewrite_named(plan, |expr| {
        expr.transform_up(|expr| rewritten(expr, &schema))
    })
}

fn rewritten(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let of = |expr: &Expr| expr.get_type(schema).unwrap_or(DataType::Null);
    let mut changed = false;
    let mut as_wanted = |expr: &mut Expr, wanted: &DataType| -> Result<()> {
        let after = typed(std::mem::take(expr), wanted)?;
        changed |= after.transformed;
        *expr = after.data;
        Ok(())
    };
    let mut expr = expr;
    match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(*op) || *op == Operator::Minus =>
        {
            let (of_left, of_right) = (of(left), of(right));
            as_wanted(left, &of_right)?;
            as_wanted(right, &of_left)?;
        }
        Expr::Between(between) => {
            let wanted = of(&between.expr);
            as_wanted(&mut between.low, &wanted)?;
            as_wanted(&mut between.high, &wanted)?;
        }
        Expr::InList(list) => {
            let wanted = of(&list.expr);
            for constant in &mut list.list {
                as_wanted(constant, &wanted)?;
            }
        }
        Expr::Case(case) => {
            if let Some(tested) = &case.expr {
                let wanted = of(tested);
                for (when, _) in &mut case.when_then_expr {
                    as_wanted(when, &wanted)?;
                }
            }
            let results = case.when_then_expr.iter().map(|(_, then)| then);
            let mut types = results.chain(&case.else_expr).map(|result| of(result));
            if let Some(wanted) = types.find(is_read) {
                let results = case.when_then_expr.iter_mut().map(|(_, then)| then);
                for result in results.chain(&mut case.else_expr) {
                    as_wanted(result, &wanted)?;
                }
            }
        }
        _ => {}
    }
    Ok(match changed {
        true => Transformed::yes(expr),
        false => Transformed::no(expr),
    })
}

fn is_moment(of: &DataType) -> bool {
    matches!(of, DataType::Date32 | DataType::Timestamp(..))
}

/// Whether texts are read as values of this type. The planner takes texts beside numbers itself.
fn is_read(of: &DataType) -> bool {
    let is_other = matches!(
        of,
        DataType::Boolean | DataType::Interval(_) | DataType::Time64(_) | DataType::List(_)
    );
    is_other || is_moment(of)
}

/// A constant text as a value of the type that is wanted; everything else as it is.
///
/// # Errors
/// `Invalid` for a text that is no value of the type.
fn typed(expr: Expr, wanted: &DataType) -> Result<Transformed<Expr>> {
    let wanted = match wanted {
        // The difference of two moments.
        DataType::Duration(_) => &DataType::Interval(IntervalUnit::MonthDayNano),
        other => other,
    };
    let text = match &expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) if is_read(wanted) => text,
        _ => return Ok(Transformed::no(expr)),
    };
    let texts: ArrayRef = Arc::new(StringArray::from(vec![text.as_str()]));
    let values = texts_as(&texts, &Column::new("constant", wanted.clone()), 1);
    let values = values.map_err(|error| {
        let said = format!("{text:?} is not of type {}", types::name(wanted));
        into_datafusion(Error::invalid(said).with_sqlstate(error.sqlstate()))
    })?;
    let value = ScalarValue::try_from_array(&values, 0)?;
    Ok(Transformed::yes(Expr::Literal(value, None)))
}
