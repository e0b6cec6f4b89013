//! Parts of moments and intervals, as PostgreSQL gives them.
//!
//! | written                           | the planner's       | here, as there          |
//! | --------------------------------- | ------------------- | ----------------------- |
//! | `extract(second FROM at)`         | 30                  | 30.25                   |
//! | `extract(milliseconds FROM at)`   | refused             | 30250                   |
//! | `extract(day FROM b - a)`         | 0, hours alone      | days of 24 hours        |
//! | `extract(hour FROM b - a)`        | all hours           | those of the last day   |
//!
//! A rule of the planner before its own; pure.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, lit};

use crate::planner::casts::{Intervals, call};
use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const MOMENT_PARTS: NodeRule = NodeRule::new("moment_parts", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, |expr, schema| Ok(rewritten(expr, schema)))
}

fn rewritten(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::ScalarFunction(mut function) = expr else {
        return Transformed::no(expr);
    };
    if function.func.name() != "date_part" {
        return Transformed::no(Expr::ScalarFunction(function));
    }
    let mut changed = false;
    let [part, of] = &mut function.args[..] else {
        return Transformed::no(Expr::ScalarFunction(function));
    };
    if matches!(of.get_type(schema), Ok(DataType::Duration(_))) {
        *of = call(Intervals::new(), std::mem::take(of));
        changed = true;
    }
    // An interval has whole seconds, as the planner counts them.
    let is_interval = matches!(of.get_type(schema), Ok(DataType::Interval(_)));
    let known = named(part).filter(|(_, divisor)| divisor.is_none() || !is_interval);
    if let Some((name, _)) = known {
        *part = lit(name);
    }
    match known {
        Some((_, divisor)) => Transformed::yes(divided(function, divisor)),
        None if changed => Transformed::yes(Expr::ScalarFunction(function)),
        None => Transformed::no(Expr::ScalarFunction(function)),
    }
}

/// The part that the planner knows in the place of one that it does not, or knows without its
/// fraction; and what it is divided by.
fn named(part: &Expr) -> Option<(&'static str, Option<f64>)> {
    let Expr::Literal(ScalarValue::Utf8(Some(name)), _) = part else {
        return None;
    };
    Some(match name.to_ascii_lowercase().as_str() {
        "second" | "seconds" | "sec" | "secs" | "s" => ("microsecond", Some(1e6)),
        "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => ("microsecond", Some(1e3)),
        "microseconds" | "usec" | "usecs" | "us" => ("microsecond", None),
        "minutes" | "min" | "mins" => ("minute", None),
        "hours" | "hr" | "hrs" => ("hour", None),
        "days" => ("day", None),
        "weeks" => ("week", None),
        "months" | "mon" | "mons" => ("month", None),
        "years" | "yr" | "yrs" => ("year", None),
        _ => return None,
    })
}

fn divided(function: ScalarFunction, divisor: Option<f64>) -> Expr {
    let part = Expr::ScalarFunction(function);
    match divisor {
        Some(divisor) => Expr::BinaryExpr(BinaryExpr {
            left: Box::new(Expr::Cast(Cast::new(Box::new(part), DataType::Float64))),
            op: Operator::Divide,
            right: Box::new(lit(divisor)),
        }),
        None => part,
    }
}
