//! Days beside constant moments, as days beside days: what a scan knows of its days is days.
//!
//! ```text
//!   day < DATE '2024-01-31' + INTERVAL '1 day'
//!     planned as    day::TIMESTAMP <  2024-02-01 00:00     ->  day <  2024-02-01
//!                   day::TIMESTAMP <  2024-02-01 10:00     ->  day <= 2024-02-01
//!                   day::TIMESTAMP >= 2024-02-01 10:00     ->  day >  2024-02-01
//! ```
//!
//! A rule of the optimizer, behind the one that computes constants; pure. Invariant DAB-1: equality
//! with a moment that begins no day stays as it is.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, lit,
};

use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const DAY_BOUNDS: NodeRule = NodeRule::new("day_bounds", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) => {
            rewrite_parts(plan, |expr, schema| Ok(beside_days(expr, schema)))
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

/// A day as a moment beside a constant one, as a day beside a day.
fn compared(tested: &Expr, op: Operator, bound: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::Cast(Cast { expr: day, field }) = tested else {
        return None;
    };
    let is_day = day.get_type(schema).is_ok_and(|of| of == DataType::Date32);
    if !is_day || !matches!(field.data_type(), DataType::Timestamp(_, None)) {
        return None;
    }
    let Expr::Literal(bound, _) = bound else {
        return None;
    };
    let (moment, per_second) = match bound {
        ScalarValue::TimestampSecond(Some(moment), None) => (moment, TimeUnit::Second),
        ScalarValue::TimestampMillisecond(Some(moment), None) => (moment, TimeUnit::Millisecond),
        ScalarValue::TimestampMicrosecond(Some(moment), None) => (moment, TimeUnit::Microsecond),
        ScalarValue::TimestampNanosecond(Some(moment), None) => (moment, TimeUnit::Nanosecond),
        _ => return None,
    };
    let per_day: i64 = 86_400
        * match per_second {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        };
    let bound = i32::try_from(moment.div_euclid(per_day)).ok()?;
    let begins = moment.rem_euclid(per_day) == 0;
    let op = match op {
        Operator::Lt if !begins => Operator::LtEq,
        Operator::GtEq if !begins => Operator::Gt,
        Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => op,
        Operator::Eq | Operator::NotEq if begins => op,
        _ => return None,
    };
    Some(Expr::BinaryExpr(BinaryExpr {
        left: day.clone(),
        op,
        right: Box::new(lit(ScalarValue::Date32(Some(bound)))),
    }))
}
