//! Values that are given to a statement's parameters; no I/O.

use arrow::datatypes::DataType;

use crate::literal::Literal;

/// A value for `$1`, `$2`, ... of a prepared statement.
///
/// It becomes what its place asks for, as a constant in the statement's text would: a text
/// becomes a date, a timestamp or a UUID where one is wanted.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number without a sign.
    UInt(u64),
    /// A floating-point number; NaN and the infinities too.
    Float(f64),
    /// A number of any length, as digits with a point: reaches a DECIMAL whole.
    Decimal(String),
    /// A text; also dates, times, timestamps, UUIDs and JSON.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The text of a value that is known to be of this type: a date, a time, a timestamp or an
    /// interval also where the statement does not tell.
    Typed(DataType, String),
    /// A list.
    List(Vec<Value>),
}

impl Value {
    /// The constant that stands for it.
    pub(crate) fn literal(&self) -> Literal {
        match self {
            Value::Null => Literal::Null,
            Value::Bool(value) => Literal::Bool(*value),
            Value::Int(value) => Literal::Number(value.to_string()),
            Value::UInt(value) => Literal::Number(value.to_string()),
            Value::Float(value) if value.is_finite() => Literal::Number(format!("{value:?}")),
            Value::Float(value) => Literal::Text(value.to_string()),
            Value::Decimal(text) => Literal::Number(text.clone()),
            Value::Text(text) => Literal::Text(text.clone()),
            Value::Bytes(bytes) => Literal::Bytes(bytes.clone()),
            Value::Typed(_, text) => Literal::Text(text.clone()),
            // No key is a list: what is compared with one finds nothing.
            Value::List(_) => Literal::Null,
        }
    }
}

macro_rules! value_from {
    ($($given:ty => $made:expr),+ $(,)?) => {
        $(impl From<$given> for Value {
            fn from(value: $given) -> Value {
                $made(value.into())
            }
        })+
    };
}

value_from! {
    bool => Value::Bool,
    i8 => Value::Int,
    i16 => Value::Int,
    i32 => Value::Int,
    i64 => Value::Int,
    u8 => Value::UInt,
    u16 => Value::UInt,
    u32 => Value::UInt,
    u64 => Value::UInt,
    f32 => Value::Float,
    f64 => Value::Float,
    &str => Value::Text,
    String => Value::Text,
    &[u8] => Value::Bytes,
    Vec<u8> => Value::Bytes,
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}
