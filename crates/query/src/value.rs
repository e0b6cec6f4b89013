//! Values that are given to a statement's parameters; no I/O.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::util::display::array_value_to_string;
use lazybase_model::{Error, Result};

use crate::error::from_arrow;
use crate::hex::put_uuid;
use crate::types;

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
    /// The text of JSON, also where the statement does not tell that it is.
    Json(String),
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
            Value::Text(text) | Value::Json(text) => Literal::Text(text.clone()),
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

/// Values of the few layouts that values are made of.
fn plain(values: &ArrayRef) -> Result<ArrayRef> {
    use DataType as A;
    let to = match values.data_type() {
        A::LargeUtf8 | A::Utf8View => A::Utf8,
        A::LargeBinary | A::BinaryView => A::Binary,
        A::Float16 => A::Float32,
        A::Date64 => A::Timestamp(TimeUnit::Millisecond, None),
        A::Dictionary(..) | A::RunEndEncoded(..) | A::LargeList(_) | A::ListView(_) => {
            types::storable(values.data_type())?
        }
        _ => return Ok(ArrayRef::clone(values)),
    };
    cast(values, &to).map_err(|error| from_arrow(&error))
}

impl Value {
    /// The rows of a batch as values, one a column: what a client has bound to parameters.
    ///
    /// # Errors
    /// `Invalid` (0A000) for types of which no constant can be written.
    pub fn rows_of(batch: &RecordBatch) -> Result<Vec<Vec<Value>>> {
        let columns: Result<Vec<ArrayRef>> = batch.columns().iter().map(plain).collect();
        let columns = columns?;
        let row = |row: usize| {
            let cells = columns.iter().map(|column| Value::of(column, row));
            cells.collect::<Result<Vec<Value>>>()
        };
        (0..batch.num_rows()).map(row).collect()
    }

    /// The value of a column's only row.
    ///
    /// # Errors
    /// As [`Value::rows_of`].
    pub(crate) fn only(column: &ArrayRef) -> Result<Value> {
        Value::of(&plain(column)?, 0)
    }

    /// The value in a row of a column.
    fn of(values: &ArrayRef, row: usize) -> Result<Value> {
        use DataType as A;
        macro_rules! number {
            ($kind:ty) => {
                Value::from(values.as_primitive::<$kind>().value(row))
            };
        }
        if values.is_null(row) || values.data_type().is_null() {
            return Ok(Value::Null);
        }
        Ok(match values.data_type() {
            A::Boolean => Value::Bool(values.as_boolean().value(row)),
            A::Int8 => number!(Int8Type),
            A::Int16 => number!(Int16Type),
            A::Int32 => number!(Int32Type),
            A::Int64 => number!(Int64Type),
            A::UInt8 => number!(UInt8Type),
            A::UInt16 => number!(UInt16Type),
            A::UInt32 => number!(UInt32Type),
            A::UInt64 => number!(UInt64Type),
            A::Float32 => number!(Float32Type),
            A::Float64 => number!(Float64Type),
            A::Utf8 => Value::from(values.as_string::<i32>().value(row)),
            A::Binary => Value::from(values.as_binary::<i32>().value(row)),
            A::FixedSizeBinary(16) => {
                let mut text = String::with_capacity(36);
                put_uuid(values.as_fixed_size_binary().value(row), &mut text);
                Value::Text(text)
            }
            A::FixedSizeBinary(_) => Value::from(values.as_fixed_size_binary().value(row)),
            A::List(_) => {
                let items = plain(&values.as_list::<i32>().value(row))?;
                let items = (0..items.len()).map(|at| Value::of(&items, at));
                Value::List(items.collect::<Result<_>>()?)
            }
            A::Decimal32(..) | A::Decimal64(..) | A::Decimal128(..) | A::Decimal256(..) => {
                Value::Decimal(spelt(values, row)?)
            }
            known @ (A::Date32 | A::Time64(_) | A::Timestamp(..) | A::Interval(_)) => {
                Value::Typed(known.clone(), spelt(values, row)?)
            }
            A::Time32(_) => Value::Text(spelt(values, row)?),
            other => {
                let name = types::name(other);
                return Err(
                    Error::invalid(format!("a {name} can't be a parameter here"))
                        .with_hint("INSERT ... VALUES takes it, as do appended batches")
                        .with_sqlstate("0A000"),
                );
            }
        })
    }
}

fn spelt(values: &ArrayRef, row: usize) -> Result<String> {
    array_value_to_string(values, row).map_err(|error| from_arrow(&error))
}
