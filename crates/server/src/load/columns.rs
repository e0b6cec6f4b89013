//! Types of files against types of tables; no I/O.
//!
//! Invariant LOAD-2: a value is stored as it was or not at all. A cast that could lose something
//! is refused by its types; one that may fail for a value (a number too large) fails.

use arrow::array::{Array, ArrayRef};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use lazybase_model::{Column, Error, Result};
use lazybase_query::texts_as;

use crate::render::{format_options, sql_type};

/// The type that a new table's column gets for a file's column.
pub(super) fn stored_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => stored_type(values),
        DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::Date64 => DataType::Date32,
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        other => other.clone(),
    }
}

/// The columns of a new table for a file: names as SQL folds them, where that keeps them apart.
pub(super) fn stored_schema(schema: &Schema, leave_out: Option<&str>) -> Schema {
    let kept = || {
        let fields = schema.fields().iter();
        fields.filter(|field| Some(field.name().as_str()) != leave_out)
    };
    let folded = |field: &Field| {
        let name = field.name().to_lowercase();
        let alike = kept().filter(|other| other.name().to_lowercase() == name);
        match alike.count() {
            1 => name,
            _ => field.name().clone(),
        }
    };
    let fields: Vec<Field> = kept()
        .map(|field| Field::new(folded(field), stored_type(field.data_type()), true))
        .collect();
    Schema::new(fields)
}

/// Whether every value of `from` that fits into `to` at all comes back the same.
pub(super) fn is_lossless(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Decimal128, Dictionary, Float32, Float64, LargeBinary,
        LargeUtf8, Null, Timestamp, Utf8, Utf8View,
    };
    match (from, to) {
        _ if from == to || is_spelt(from, to) => true,
        (Null, _) => true,
        (Dictionary(_, values), _) => is_lossless(values, to),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View)
        | (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView)
        | (Float32, Float64)
        | (Date32 | Date64, Date32 | Date64)
        | (Date32, Timestamp(_, None)) => true,
        // Whole numbers: a value that does not fit is an error of its own.
        _ if from.is_integer() && to.is_integer() => true,
        (_, Decimal128(..)) if from.is_integer() => true,
        // Numbers that a mantissa holds.
        (_, Float64) if integer_bits(from) <= 32 => true,
        (_, Float32) if integer_bits(from) <= 16 => true,
        (Decimal128(_, from), Decimal128(_, to)) => to >= from,
        (Timestamp(from, from_zone), Timestamp(to, to_zone)) => {
            to >= from && from_zone.is_some() == to_zone.is_some()
        }
        _ => false,
    }
}

/// Whether files have values of a type as texts.
fn is_spelt(from: &DataType, to: &DataType) -> bool {
    *from == DataType::Utf8 && matches!(to, DataType::Interval(_) | DataType::FixedSizeBinary(16))
}

fn integer_bits(data_type: &DataType) -> usize {
    match data_type.is_integer() {
        true => data_type
            .primitive_width()
            .map_or(usize::MAX, |bytes| bytes * 8),
        false => usize::MAX,
    }
}

/// A column as the table's type.
///
/// # Errors
/// `Invalid` when a value does not fit.
pub(super) fn cast(name: &str, column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if column.data_type() == to {
        return Ok(ArrayRef::clone(column));
    }
    if is_spelt(column.data_type(), to) {
        return texts_as(column, &Column::new(name, to.clone()), 1);
    }
    let options = CastOptions {
        safe: false,
        format_options: format_options(),
    };
    cast_with_options(column, to, &options).map_err(|error| {
        Error::invalid(format!(
            "column {name:?}: a value does not fit {}",
            sql_type(to)
        ))
        .with_detail(error.to_string())
    })
}

/// Columns in words, for errors.
pub(super) fn listed<'a>(columns: impl Iterator<Item = (&'a str, &'a DataType)>) -> String {
    let columns: Vec<String> = columns
        .map(|(name, data_type)| format!("{name} {}", sql_type(data_type)))
        .collect();
    columns.join(", ")
}

/// See [`listed`].
pub(super) fn listed_schema(schema: &SchemaRef) -> String {
    listed(
        schema
            .fields()
            .iter()
            .map(|field| (field.name().as_str(), field.data_type())),
    )
}

#[cfg(test)]
mod tests;
