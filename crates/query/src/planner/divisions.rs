//! Quotients of DECIMALs with as many digits as PostgreSQL gives them: the planner's have four more
//! than the dividend, so that `1 / 3.0::DECIMAL` is 0.3333.
//!
//! ```text
//!   a / b    ->  CAST(CAST(a AS DECIMAL(p, 12)) / b AS DECIMAL(q, 16))
//! ```
//!
//! Division is done in 256 bits where 128 might not hold the dividend. A rule of the planner before
//! its own, which look at the types of results; pure. Invariant DIV-1: a quotient has at least 16
//! digits behind the point, and no fewer than its operands.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};

use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const DIVISIONS: NodeRule = NodeRule::new("divisions", rewrite);

/// The digits behind the point that a quotient has at least.
const SCALE: i8 = 16;
/// So many more than the dividend's Arrow's quotients have.
const MORE: i8 = 4;
const NARROW: u8 = 38;
const WIDE: u8 = 76;

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, schema| Ok(divided(expr, schema)))
}

fn divided(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Divide,
        right,
    }) = expr
    else {
        return Transformed::no(expr);
    };
    let types = left
        .get_type(schema)
        .and_then(|left| Ok((left, right.get_type(schema)?)));
    let types = types
        .ok()
        .filter(|(left, right)| left.is_decimal() || right.is_decimal());
    let both = types.and_then(|(left, right)| digits_of(&left).zip(digits_of(&right)));
    let made = both.and_then(|(dividend, divisor)| {
        let scale = SCALE.max(dividend.1).max(divisor.1);
        // As the dividend is made larger before it is divided.
        let digits = dividend.0 - dividend.1 + scale + divisor.1;
        let whole = dividend.0 - dividend.1 + divisor.1;
        (digits <= WIDE as i8).then_some((scale, digits, whole, divisor.1))
    });
    let Some((scale, digits, whole, of_divisor)) = made else {
        let op = Operator::Divide;
        return Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }));
    };
    let cast = |expr: Box<Expr>, to: DataType| match expr.get_type(schema) {
        Ok(of) if of == to => expr,
        _ => Box::new(Expr::Cast(Cast::new(expr, to))),
    };
    let decimal = |is_narrow: bool, scale| match is_narrow {
        true => DataType::Decimal128(NARROW, scale),
        false => DataType::Decimal256(WIDE, scale),
    };
    let is_narrow = digits <= NARROW as i8;
    let quotient = Expr::BinaryExpr(BinaryExpr {
        left: cast(left, decimal(is_narrow, scale - MORE)),
        op: Operator::Divide,
        right: cast(right, decimal(is_narrow, of_divisor)),
    });
    let fits = whole + scale <= NARROW as i8;
    Transformed::yes(*cast(Box::new(quotient), decimal(fits, scale)))
}

/// All digits of a number's type, and those behind the point.
fn digits_of(of: &DataType) -> Option<(i8, i8)> {
    match of {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (*scale >= 0).then_some((*precision as i8, *scale))
        }
        DataType::Int8 | DataType::UInt8 => Some((3, 0)),
        DataType::Int16 | DataType::UInt16 => Some((5, 0)),
        DataType::Int32 | DataType::UInt32 => Some((10, 0)),
        DataType::Int64 | DataType::UInt64 => Some((20, 0)),
        _ => None,
    }
}
