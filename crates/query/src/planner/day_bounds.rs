//! Days beside constant moments, as days beside days, and moments of a coarse unit beside constants
//! of a finer one: what a scan knows of its days is days.
//!
//! ```text
//!   day < DATE '2024-01-31' + INTERVAL '1 day'
//!     planned as    day::TIMESTAMP <  2024-02-01 00:00     ->  day <  2024-02-01
//!                   day::TIMESTAMP <  2024-02-01 10:00     ->  day <= 2024-02-01
//!                   day::TIMESTAMP >= 2024-02-01 10:00     ->  day >  2024-02-01
//!   in_microseconds(t) <  00:00:01.9       ->  t   <= 00:00:01
//! ```
//!
//! A rule of the optimizer, behind the one that computes constants; pure. Invariant DAB-1: equality
//! with a moment between two of the coarser kind stays as it is.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, lit,
};

use crate::planner::fine_moments::made_finer;
use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const DAY_BOUNDS: NodeRule = NodeRule::new("day_bounds", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) => {
            rewrite_parts(plan, &|expr, schema| Ok(beside_days(expr, schema)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn beside_days(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let made = match &expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let swapped = || compared(right, op.swap()?, left, schema);
            compared(left, *op, right, schema).or_else(swapped)
        }
        Expr::Between(Between {
            expr: tested,
            negated: false,
            low,
            high,
        }) => {
            let low = compared(tested, Operator::GtEq, low, schema);
            let high = compared(tested, Operator::LtEq, high, schema);
            low.zip(high).map(|(low, high)| low.and(high))
        }
        _ => None,
    };
    match made {
        Some(made) => Transformed::yes(made),
        None => Transformed::no(expr),
    }
}

/// A day, or a moment of a coarser unit, beside a constant moment: beside one of its own kind.
fn compared(tested: &Expr, op: Operator, bound: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::Literal(bound, _) = bound else {
        return None;
    };
    let DataType::Timestamp(unit, zone) = bound.data_type() else {
        return None;
    };
    let moment = count(bound)?;
    let (coarse, per) = match tested {
        Expr::Cast(Cast { expr, field }) => {
            let is_day = expr.get_type(schema).is_ok_and(|of| of == DataType::Date32);
            if !is_day || zone.is_some() || !matches!(field.data_type(), DataType::Timestamp(..)) {
                return None;
            }
            (expr.as_ref(), 86_400 * per_second(unit))
        }
        other => {
            let finer = made_finer(other)?;
            let Ok(DataType::Timestamp(coarse, _)) = finer.get_type(schema) else {
                return None;
            };
            (finer, per_second(unit) / per_second(coarse))
        }
    };
    if per < 1 {
        return None;
    }
    let begins = moment.rem_euclid(per) == 0;
    let op = match op {
        Operator::Lt if !begins => Operator::LtEq,
        Operator::GtEq if !begins => Operator::Gt,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => op,
        Operator::Eq | Operator::NotEq if begins => op,
        _ => return None,
    };
    let bound = moment.div_euclid(per);
    let bound = match coarse.get_type(schema).ok()? {
        DataType::Date32 => ScalarValue::Date32(Some(i32::try_from(bound).ok()?)),
        moment => ScalarValue::Int64(Some(bound)).cast_to(&moment).ok()?,
    };
    Some(Expr::BinaryExpr(BinaryExpr {
        left: Box::new(coarse.clone()),
        op,
        right: Box::new(lit(bound)),
    }))
}

/// A moment as a number of its unit.
fn count(moment: &ScalarValue) -> Option<i64> {
    match moment.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(count)) => count,
        _ => None,
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
