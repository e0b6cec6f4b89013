//! Parameters of a statement: `$1`, `$2`, found and replaced by the values given.
//!
//! Reads and writes sqlparser's trees; no I/O. Invariant PRM-1: a value never becomes text that
//! is read again: it goes into the tree as a constant.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Statement, UnaryOperator, Value as Constant,
    visit_expressions, visit_expressions_mut,
};
use lazybase_model::{Error, Result};

use crate::value::Value;

/// The most parameters that a statement may have, as with PostgreSQL.
const PARAMETERS_MAX: usize = 65_535;

/// The number of the parameter that an expression is, counted from 1; `None` for anything else.
pub(crate) fn number_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Constant::Placeholder(name) => name
                .strip_prefix('$')?
                .parse()
                .ok()
                .filter(|number| (1..=PARAMETERS_MAX).contains(number)),
            _ => None,
        },
        _ => None,
    }
}

/// How many values a statement needs: the highest of its parameters' numbers.
///
/// # Errors
/// `Invalid` (42P02) for a parameter that is not written `$1`, `$2`, ...
pub(crate) fn count(statement: &Statement) -> Result<usize> {
    let mut most = 0;
    let found = visit_expressions(statement, |expr| match number_of(expr) {
        Some(number) => {
            most = most.max(number);
            ControlFlow::Continue(())
        }
        None => match expr {
            Expr::Value(value) => match &value.value {
                Constant::Placeholder(name) => ControlFlow::Break(name.clone()),
                _ => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        },
    });
    match found {
        ControlFlow::Continue(()) => Ok(most),
        ControlFlow::Break(name) => Err(Error::invalid(format!("{name} is not a parameter"))
            .with_hint("parameters are written $1, $2, ...")
            .with_sqlstate("42P02")),
    }
}

/// Puts values in the places of the parameters; there must be one for each.
pub(crate) fn bind(statement: &mut Statement, values: &[Value]) {
    let bound: ControlFlow<()> = visit_expressions_mut(statement, |expr| {
        if let Some(value) = number_of(expr).and_then(|number| values.get(number - 1)) {
            *expr = constant(value);
        }
        ControlFlow::Continue(())
    });
    debug_assert!(bound.is_continue(), "nothing ends the visit");
}

/// A value as SQL would write it.
fn constant(value: &Value) -> Expr {
    match value {
        Value::Null => of(Constant::Null),
        Value::Bool(value) => of(Constant::Boolean(*value)),
        Value::Int(value) => number(&value.to_string()),
        Value::UInt(value) => number(&value.to_string()),
        Value::Decimal(text) => number(text),
        Value::Float(value) if value.is_finite() => number(&format!("{value:?}")),
        Value::Float(value) => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(of(Constant::SingleQuotedString(value.to_string()))),
            data_type: DataType::Double(ExactNumberInfo::None),
            array: false,
            format: None,
        },
        Value::Text(text) => of(Constant::SingleQuotedString(text.clone())),
        Value::Bytes(bytes) => {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            of(Constant::HexStringLiteral(digits))
        }
    }
}

fn number(text: &str) -> Expr {
    let plain = |text: &str| of(Constant::Number(text.to_owned(), false));
    match text.strip_prefix('-') {
        None => plain(text),
        Some(text) => Expr::Nested(Box::new(Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(plain(text)),
        })),
    }
}

fn of(constant: Constant) -> Expr {
    Expr::Value(constant.into())
}
