//! Constants that decimals are compared with, as the decimals that they were written as: the
//! planner takes `33333333.33` for a double, and gives both sides a decimal of 15 digits behind the
//! point, in which that double is another number.
//!
//! ```text
//!   p = 33333333.33     p DECIMAL(10, 2)    ->    p = 33333333.33::DECIMAL(10, 2)
//!   p < 1e300                               ->    p::DOUBLE PRECISION < 1e300
//! ```
//!
//! A rule of the planner before its own; pure. Invariant EXC-1: a constant keeps its value, to the
//! last digit that it was written with, up to the 17 that a double has.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, i256};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast};

use crate::planner::comparisons::compared;
use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const EXACT_CONSTANTS: NodeRule = NodeRule::new("exact_constants", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, schema| {
        Ok(compared(expr, schema, decimal, all_beside))
    })
}

/// A decimal, and what it is compared with: constants as the decimals that they were written as,
/// or where no type holds one of them, the decimal as a double.
fn all_beside(decimal: Expr, constants: Vec<Expr>, digits: Digits) -> (Expr, Vec<Expr>) {
    let mut exacts = Vec::with_capacity(constants.len());
    for constant in &constants {
        match exact(constant, digits) {
            Exact::Other => exacts.push(constant.clone()),
            Exact::Decimal(exact) => exacts.push(exact),
            Exact::Double => return (cast(decimal, DataType::Float64), constants),
        }
    }
    (decimal, exacts)
}

/// The digits of a decimal, and those behind its point.
pub(super) type Digits = (u8, i8);

/// Those of the type that an expression has, where that is a decimal.
pub(super) fn decimal(expr: &Expr, schema: &DFSchema) -> Option<Digits> {
    match expr.get_type(schema) {
        Ok(DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale)) => {
            Some((precision, scale))
        }
        _ => None,
    }
}

/// What a constant is beside a decimal.
enum Exact {
    /// The decimal that it was written as.
    Decimal(Expr),
    /// A double: no type holds it and what stands beside it.
    Double,
    /// No constant with a point.
    Other,
}

fn exact(expr: &Expr, beside: Digits) -> Exact {
    let Expr::Literal(ScalarValue::Float64(Some(number)), metadata) = expr else {
        return Exact::Other;
    };
    match written(*number).filter(|(_, digits)| one_type_holds(*digits, beside)) {
        Some((value, digits)) => {
            let value = literal(value, digits, beside);
            Exact::Decimal(Expr::Literal(value, metadata.clone()))
        }
        None => Exact::Double,
    }
}

/// The shortest decimal that is a double's.
fn written(number: f64) -> Option<(i128, Digits)> {
    if !number.is_finite() {
        return None;
    }
    spelt(&number.to_string())
}

/// The decimal that a text without an exponent spells.
pub(super) fn spelt(text: &str) -> Option<(i128, Digits)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{part}");
    let significant = digits.trim_start_matches('-').trim_start_matches('0').len();
    let precision = significant.max(part.len()).max(1);
    if precision > usize::from(DECIMAL128_MAX_PRECISION) {
        return None;
    }
    Some((digits.parse().ok()?, (precision as u8, part.len() as i8)))
}

/// The digits that types as long as a decimal's have at most.
pub(super) fn most(of: Digits) -> i16 {
    i16::from(match of.0 > DECIMAL128_MAX_PRECISION {
        true => DECIMAL256_MAX_PRECISION,
        false => DECIMAL128_MAX_PRECISION,
    })
}

/// A decimal as long as what it stands beside.
pub(super) fn literal(value: i128, (precision, scale): Digits, beside: Digits) -> ScalarValue {
    match beside.0 > DECIMAL128_MAX_PRECISION {
        true => ScalarValue::Decimal256(Some(i256::from_i128(value)), precision, scale),
        false => ScalarValue::Decimal128(Some(value), precision, scale),
    }
}

/// Whether a type as long as the other's holds all digits of both.
pub(super) fn one_type_holds(one: Digits, other: Digits) -> bool {
    let whole = |(precision, scale): Digits| i16::from(precision) - i16::from(scale);
    let scale = i16::from(one.1.max(other.1));
    whole(one).max(whole(other)) + scale <= most(other)
}
