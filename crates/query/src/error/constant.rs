//! The constant of a statement that is no value of its type: the planner tells the value, and not
//! where it stands.
//!
//! Reads the statement once more; no I/O. Invariant CPL-1: there is a place only where one constant
//! is the value, and nothing else in the statement can make texts of constants.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, TypedString, Value};
use datafusion::sql::sqlparser::tokenizer::Span;
use lazybase_model::Error;

use crate::cast::shown;
use crate::parse::{Text, read};
use crate::text_places::at_span;
use crate::walk::visit_expressions;

/// What is said of texts that are no values of a type.
const OF_VALUES: [&str; 4] = ["22P02", "22007", "22008", "22003"];

/// What the planner refuses in a statement, with the place of the constant that it is about.
pub(super) fn located(error: Error, sql: &str) -> Error {
    if error.place().is_some() || !OF_VALUES.contains(&error.sqlstate()) {
        return error;
    }
    match span(error.message(), sql) {
        Some(span) => at_span(error, span),
        None => error,
    }
}

/// The place of the only constant that is said.
fn span(said: &str, sql: &str) -> Option<Span> {
    let Text::Sql(tree) = read(sql).ok()?.text else {
        return None;
    };
    let mut spans = Vec::new();
    let walked = visit_expressions(&*tree, |expr| {
        if makes_texts(expr) {
            return ControlFlow::Break(());
        }
        if let Some((text, span)) = constant(expr)
            && is_said(said, text)
        {
            spans.push(span);
        }
        ControlFlow::Continue(())
    });
    let first = *spans.first()?;
    let alone = spans.iter().all(|span| *span == first);
    (walked.is_continue() && alone).then_some(first)
}

/// Whether a message is about a value: it begins or ends with it.
fn is_said(said: &str, text: &str) -> bool {
    let text = shown(text);
    said.starts_with(&text) || said.ends_with(&text)
}

/// A text as it is written in a statement, and where.
fn constant(expr: &Expr) -> Option<(&str, Span)> {
    let value = match expr {
        Expr::Value(value) | Expr::TypedString(TypedString { value, .. }) => value,
        _ => return None,
    };
    let text = match &value.value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text,
        Value::DollarQuotedString(quoted) => &quoted.value,
        _ => return None,
    };
    Some((text, value.span))
}

/// Whether an expression may make texts of constants alone, or is one that the statement does not
/// show: a parameter's value.
fn makes_texts(expr: &Expr) -> bool {
    let keeps = match expr {
        Expr::Value(value) => return matches!(value.value, Value::Placeholder(_)),
        Expr::BinaryOp { op, .. } => is_of_numbers(op),
        Expr::Cast { data_type, .. } => is_of_values(data_type),
        other => matches!(
            other,
            Expr::TypedString(_)
                | Expr::Interval(_)
                | Expr::Identifier(_)
                | Expr::CompoundIdentifier(_)
                | Expr::Nested(_)
                | Expr::UnaryOp { .. }
                | Expr::IsNull(_)
                | Expr::IsNotNull(_)
                | Expr::InList { .. }
                | Expr::InSubquery { .. }
                | Expr::Between { .. }
                | Expr::Like { .. }
                | Expr::ILike { .. }
                | Expr::Exists { .. }
                | Expr::Subquery(_)
        ),
    };
    !keeps && is_constant(expr)
}

/// Whether an expression is made of constants, and reads no column.
fn is_constant(expr: &Expr) -> bool {
    let (mut constants, mut columns) = (false, false);
    let walked: ControlFlow<()> = visit_expressions(expr, |part| {
        constants |= matches!(part, Expr::Value(_) | Expr::TypedString(_));
        columns |= matches!(part, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        ControlFlow::Continue(())
    });
    debug_assert!(walked.is_continue(), "nothing ends the visit");
    constants && !columns
}

/// Whether an operator gives a number, a moment, or the truth.
fn is_of_numbers(op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(
        op,
        B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq | B::And | B::Or
    ) || matches!(op, B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo)
}

/// Whether values of a type are no texts.
fn is_of_values(data_type: &DataType) -> bool {
    use DataType as D;
    let is_number = matches!(
        data_type,
        D::SmallInt(_)
            | D::Int(_)
            | D::Integer(_)
            | D::BigInt(_)
            | D::Int2(_)
            | D::Int4(_)
            | D::Int8(_)
            | D::Real
            | D::Float(_)
            | D::Float4
            | D::Float8
            | D::Double(_)
            | D::DoublePrecision
            | D::Decimal(_)
            | D::Numeric(_)
    );
    let is_moment = matches!(
        data_type,
        D::Date | D::Time(..) | D::Timestamp(..) | D::Interval { .. }
    );
    is_number || is_moment || matches!(data_type, D::Boolean | D::Bool)
}
