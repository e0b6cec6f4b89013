//! Values of queries that are told by hand: what is compared, sorted, grouped and computed.

use std::cmp::Ordering;

use datafusion::common::ScalarValue;

use super::{Comparison, Operator};

/// A value. Those of one type stand in its order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    Null,
    Truth(bool),
    /// In tenths, for constants that are no whole numbers.
    Number(i128),
    Text(String),
    /// By the days since 1970.
    Day(i32),
}

/// What can't be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsure;

pub(super) type Told<T> = Result<T, Unsure>;

/// A whole number.
pub(super) fn whole(number: impl Into<i128>) -> Value {
    Value::Number(number.into() * 10)
}

impl Value {
    pub(super) fn of(cell: &ScalarValue) -> Told<Value> {
        if cell.is_null() {
            return Ok(Value::Null);
        }
        Ok(match cell {
            ScalarValue::Boolean(Some(truth)) => Value::Truth(*truth),
            ScalarValue::Int8(Some(number)) => whole(*number),
            ScalarValue::Int16(Some(number)) => whole(*number),
            ScalarValue::Int32(Some(number)) => whole(*number),
            ScalarValue::Int64(Some(number)) => whole(*number),
            ScalarValue::UInt32(Some(number)) => whole(*number),
            ScalarValue::UInt64(Some(number)) => whole(*number),
            ScalarValue::Date32(Some(day)) => Value::Day(*day),
            other => Value::Text(other.try_as_str().flatten().ok_or(Unsure)?.to_owned()),
        })
    }

    pub(super) fn is_null(&self) -> bool {
        *self == Value::Null
    }

    /// NULL where one of them is.
    pub(super) fn compared(&self, how: Comparison, other: &Value) -> Option<bool> {
        if self.is_null() || other.is_null() {
            return None;
        }
        let order = self.cmp(other);
        Some(match how {
            Comparison::Equal => order == Ordering::Equal,
            Comparison::Unequal => order != Ordering::Equal,
            Comparison::Less => order == Ordering::Less,
            Comparison::AtMost => order != Ordering::Greater,
            Comparison::More => order == Ordering::Greater,
            Comparison::AtLeast => order != Ordering::Less,
        })
    }

    /// What is made of two whole numbers: a BIGINT.
    pub(super) fn made(&self, operator: Operator, other: &Value) -> Told<Value> {
        let (one, other) = match (self, other) {
            (Value::Null, _) | (_, Value::Null) => return Ok(Value::Null),
            (Value::Number(one), Value::Number(other)) => (one / 10, other / 10),
            _ => return Err(Unsure),
        };
        let made = match operator {
            Operator::Plus => one.checked_add(other),
            Operator::Minus => one.checked_sub(other),
            Operator::Times => one.checked_mul(other),
            // Towards zero, and the rest has the sign of what is divided.
            Operator::Over => one.checked_div(other),
            Operator::Rest => one.checked_rem(other),
        };
        big(made.ok_or(Unsure)?)
    }
}

/// A number that a BIGINT holds.
pub(super) fn big(number: i128) -> Told<Value> {
    i64::try_from(number).map(whole).map_err(|_| Unsure)
}

/// Whether a text is like a pattern: `%` stands for any characters, `_` for one, and what stands
/// behind a backslash for itself.
pub(super) fn is_like(text: &[char], pattern: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|from| is_like(&text[from..], rest)),
        ['_', rest @ ..] => text
            .split_first()
            .is_some_and(|(_, text)| is_like(text, rest)),
        ['\\', one, rest @ ..] | [one, rest @ ..] => {
            let mut text = text.iter();
            text.next() == Some(one) && is_like(text.as_slice(), rest)
        }
    }
}
