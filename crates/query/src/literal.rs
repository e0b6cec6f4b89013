//! Constants as they are written, kept as text until the column they go to is known: so a number
//! of forty digits reaches a DECIMAL whole, and a text becomes a date where a date is wanted.
//!
//! Reads sqlparser's expressions; writes nothing.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, Expr, TypedString, UnaryOperator, Value,
};
use lazybase_model::Result;

use crate::cast::{Place, from_bytes, from_text};
use crate::hex::from_hex;
use crate::parse::parameters::number_of;
use crate::planner::json_functions::is_json_text;

#[cfg(test)]
mod tests;

/// Whether anything stands behind a moment's day that is no part of its time.
fn may_have_zone(moment: &Value) -> bool {
    let Value::SingleQuotedString(text) = moment else {
        return true;
    };
    let is_of_time = |byte: u8| byte.is_ascii_digit() || b" :.T".contains(&byte);
    !text.bytes().skip("2024-01-01".len()).all(is_of_time)
}

/// Whether a unit holds all the digits of a second that a moment is written with.
fn has_digits(moment: &str, unit: TimeUnit) -> bool {
    let held = match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    let Some((_, fraction)) = moment.split_once('.') else {
        return true;
    };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit);
    digits.skip(held).all(|digit| digit == b'0')
}

/// A constant as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    /// With its sign.
    Number(String),
    Text(String),
    /// A text that is a timestamp, whatever it is compared with.
    Moment(String),
    Bytes(Vec<u8>),
    /// `$1`, `$2`, ...: a value that is given when the statement runs.
    Parameter(usize),
}

impl Literal {
    /// The constant that an expression is, if it is one.
    pub(crate) fn of(expr: &Expr) -> Option<Literal> {
        match expr {
            Expr::Nested(inner) => Literal::of(inner),
            Expr::Value(value) => Literal::of_value(&value.value),
            Expr::TypedString(TypedString {
                data_type: SqlType::Decimal(_),
                value,
                ..
            }) => match &value.value {
                Value::SingleQuotedString(text) => Some(Literal::Number(text.clone())),
                other => Literal::of_value(other),
            },
            // It is the moment that its own type makes of it, with the zone or without.
            Expr::TypedString(TypedString {
                data_type: SqlType::Timestamp(..),
                value,
                ..
            }) if may_have_zone(&value.value) => None,
            Expr::TypedString(TypedString {
                data_type: SqlType::Timestamp(..) | SqlType::Datetime(_),
                value,
                ..
            }) => match Literal::of_value(&value.value)? {
                Literal::Text(text) => Some(Literal::Moment(text)),
                other => Some(other),
            },
            // A text that is none is refused by the planner, wherever it would go.
            Expr::TypedString(TypedString {
                data_type: SqlType::JSON | SqlType::JSONB,
                value,
                ..
            }) => Literal::of_value(&value.value)
                .filter(|literal| matches!(literal, Literal::Text(text) if is_json_text(text))),
            Expr::TypedString(TypedString { value, .. }) => Literal::of_value(&value.value),
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } => match Literal::of(expr)? {
                Literal::Number(number) if !number.starts_with('-') => {
                    Some(Literal::Number(format!("-{number}")))
                }
                _ => None,
            },
            Expr::UnaryOp {
                op: UnaryOperator::Plus,
                expr,
            } => Literal::of(expr).filter(|literal| matches!(literal, Literal::Number(_))),
            _ => None,
        }
    }

    /// The constant or the parameter that an expression is.
    pub(crate) fn or_parameter(expr: &Expr) -> Option<Literal> {
        number_of(expr)
            .map(Literal::Parameter)
            .or_else(|| Literal::of(expr))
    }

    /// A parameter's value, if it has one; everything else is itself.
    pub(crate) fn bound(&self, values: &[Literal]) -> Literal {
        match self {
            Literal::Parameter(number) => values.get(number - 1).unwrap_or(self).clone(),
            other => other.clone(),
        }
    }

    fn of_value(value: &Value) -> Option<Literal> {
        match value {
            Value::Null => Some(Literal::Null),
            Value::Boolean(value) => Some(Literal::Bool(*value)),
            Value::Number(number, _) => Some(Literal::Number(number.clone())),
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => {
                Some(Literal::Text(text.clone()))
            }
            Value::DollarQuotedString(quoted) => Some(Literal::Text(quoted.value.clone())),
            Value::HexStringLiteral(digits) => from_hex(digits).map(Literal::Bytes),
            _ => None,
        }
    }

    /// Whether the planner would compare the constant with a column of this type as it stands,
    /// without a cast that may fail or lose something.
    pub(crate) fn compares_with(&self, data_type: &DataType) -> bool {
        match self {
            Literal::Null | Literal::Parameter(_) => false,
            Literal::Bool(_) => *data_type == DataType::Boolean,
            Literal::Number(number) => match data_type {
                integer if integer.is_integer() => !number.contains(['.', 'e', 'E']),
                DataType::Float64 => true,
                _ => false,
            },
            Literal::Text(text) => match data_type {
                DataType::Utf8 | DataType::FixedSizeBinary(16) | DataType::Date32 => true,
                DataType::Time32(unit) | DataType::Time64(unit) => has_digits(text, *unit),
                DataType::Timestamp(unit, _) => has_digits(text, *unit),
                _ => false,
            },
            Literal::Moment(text) => match data_type {
                DataType::Timestamp(unit, _) => has_digits(text, *unit),
                _ => false,
            },
            Literal::Bytes(_) => *data_type == DataType::Binary,
        }
    }

    fn text(&self, data_type: &DataType) -> Option<String> {
        match self {
            Literal::Null | Literal::Bytes(_) | Literal::Parameter(_) => None,
            Literal::Bool(value) => Some(value.to_string()),
            Literal::Number(number) => Some(whole(number, data_type)),
            Literal::Text(text) | Literal::Moment(text) => Some(text.clone()),
        }
    }
}

/// A number for an integer column without its fraction, such as `1.0` or `1e3`: it is rounded as an
/// assignment rounds it, halves away from zero.
fn whole(number: &str, data_type: &DataType) -> String {
    if !data_type.is_integer() || !number.contains(['.', 'e', 'E']) {
        return number.to_owned();
    }
    match number.parse::<f64>() {
        // Without the sign of a zero.
        Ok(value) if value.abs() < (1_u64 << 53) as f64 => format!("{:.0}", value.round() + 0.0),
        _ => number.to_owned(),
    }
}

/// The constants of one column as an array of the type it is stored as.
///
/// # Errors
/// `Invalid` naming table, column and row for a constant that is no value of the type.
pub(crate) fn to_array(literals: &[Literal], place: &Place<'_>) -> Result<ArrayRef> {
    let data_type = place.data_type();
    if literals
        .iter()
        .any(|literal| matches!(literal, Literal::Bytes(_)))
    {
        let bytes: Option<Vec<Option<&[u8]>>> = literals
            .iter()
            .map(|literal| match literal {
                Literal::Null => Some(None),
                Literal::Bytes(bytes) => Some(Some(bytes.as_slice())),
                Literal::Text(text) | Literal::Moment(text) => Some(Some(text.as_bytes())),
                _ => None,
            })
            .collect();
        return match bytes {
            Some(bytes) if *data_type == DataType::Binary => Ok(from_bytes(&bytes)),
            _ => Err(place.error(0, "X'...' is for columns of type BYTEA", "42804")),
        };
    }
    if *data_type == DataType::Boolean {
        let number = literals
            .iter()
            .position(|literal| matches!(literal, Literal::Number(_)));
        if let Some(row) = number {
            return Err(place.error(row, "a number is not a BOOLEAN", "42804"));
        }
    }
    let texts: StringArray = literals
        .iter()
        .map(|literal| literal.text(data_type))
        .collect();
    debug_assert_eq!(texts.len(), literals.len(), "one text a constant");
    from_text(&(Arc::new(texts) as ArrayRef), place)
}
