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

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, cast};

use crate::planner::rule::{NodeRule, rewrite_parts};
use crate::planner::uuid_literals::is_comparison;

/// The rule.
pub(crate) const EXACT_CONSTANTS: NodeRule = NodeRule::new("exact_constants", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, |expr, schema| Ok(compared(expr, schema)))
}

fn compared(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (left, right) = match (decimal(&left, schema), decimal(&right, schema)) {
                (Some(digits), None) => beside(*left, *right, digits),
                (None, Some(digits)) => {
                    let (right, left) = beside(*right, *left, digits);
                    (left, right)
                }
                _ => (*left, *right),
            };
            let (left, right) = (Box::new(left), Box::new(right));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(list) => match decimal(&list.expr, schema) {
            Some(digits) => {
                let (expr, constants) = all_beside(*list.expr, list.list, digits);
                Transformed::yes(Expr::InList(InList {
                    expr: Box::new(expr),
                    list: constants,
                    negated: list.negated,
                }))
            }
            None => Transformed::no(Expr::InList(list)),
        },
        Expr::Between(between) => match decimal(&between.expr, schema) {
            Some(digits) => {
                let bounds = vec![*between.low, *between.high];
                let (expr, bounds) = all_beside(*between.expr, bounds, digits);
                let mut bounds = bounds.into_iter();
                let mut bound = || Box::new(bounds.next().unwrap_or_default());
                Transformed::yes(Expr::Between(Between {
                    expr: Box::new(expr),
                    negated: between.negated,
                    low: bound(),
                    high: bound(),
                }))
            }
            None => Transformed::no(Expr::Between(between)),
        },
        other => Transformed::no(other),
    }
}

/// A decimal, and what it is compared with: a constant as the decimal that it was written as, or
/// where no type holds both, the decimal as a double.
fn beside(decimal: Expr, constant: Expr, digits: Digits) -> (Expr, Expr) {
    match exact(&constant, digits) {
        Exact::Other => (decimal, constant),
        Exact::Decimal(exact) => (decimal, exact),
        Exact::Double => (cast(decimal, DataType::Float64), constant),
    }
}

/// The same with many: one that stays a double makes all of them doubles.
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
type Digits = (u8, i8);

fn decimal(expr: &Expr, schema: &DFSchema) -> Option<Digits> {
    match expr.get_type(schema) {
        Ok(DataType::Decimal128(precision, scale)) => Some((precision, scale)),
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
        Some((value, (precision, scale))) => {
            let value = ScalarValue::Decimal128(Some(value), precision, scale);
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
    let text = number.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{whole}{part}");
    let significant = digits.trim_start_matches('-').trim_start_matches('0').len();
    let precision = significant.max(part.len()).max(1);
    if precision > usize::from(DECIMAL128_MAX_PRECISION) {
        return None;
    }
    Some((digits.parse().ok()?, (precision as u8, part.len() as i8)))
}

fn one_type_holds(one: Digits, other: Digits) -> bool {
    let whole = |(precision, scale): Digits| i16::from(precision) - i16::from(scale);
    let scale = i16::from(one.1.max(other.1));
    whole(one).max(whole(other)) + scale <= i16::from(DECIMAL128_MAX_PRECISION)
}
