//! Stored columns as their table declares them: sums are stored in 128 bits and read as what they
//! are sums of (section 3.2 of the paper).
//!
//! Pure. Invariant DCL-1: a sum that its column's type can't hold is an error of the read that
//! wants it, which names table, column and key, and never of a merge.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Decimal128Type};
use arrow::util::display::array_value_to_string;
use lazybase_model::{Column, Error, Result};

use super::arrow_internal;

/// The SQLSTATE of a sum that its column's type can't hold.
pub(super) const OUT_OF_RANGE: &str = "22003";

/// A stored column as the type that the table declares; the first row that it can't hold.
fn cast(column: &ArrayRef, declared: &DataType) -> Result<std::result::Result<ArrayRef, usize>> {
    if column.data_type() == declared {
        return Ok(Ok(Arc::clone(column)));
    }
    // Casting to NULL what does not fit says where it is.
    let options = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    let narrow = cast_with_options(column, declared, &options).map_err(arrow_internal)?;
    if narrow.null_count() == column.null_count() {
        return Ok(Ok(narrow));
    }
    let lost = (0..column.len()).find(|row| narrow.is_null(*row) && column.is_valid(*row));
    Ok(Err(lost.unwrap_or_default()))
}

/// The stored values of a column as its table declares them. `rows` are those that the values are
/// of, with the key's columns `key` where they are known.
///
/// # Errors
/// `Invalid` (22003) for the first sum that is out of range.
pub(super) fn declared_column(
    table: &str,
    column: &Column,
    values: &ArrayRef,
    rows: &RecordBatch,
    key: Option<&[usize]>,
) -> Result<ArrayRef> {
    let row = match cast(values, &column.data_type)? {
        Ok(values) => return Ok(values),
        Err(row) => row,
    };
    let sum = match values.as_primitive_opt::<Decimal128Type>() {
        Some(values) => values.value_as_string(row),
        None => String::new(),
    };
    let of = match key {
        None => String::new(),
        Some(key) => {
            let cell = |at: &usize| array_value_to_string(rows.column(*at), row);
            let cells: std::result::Result<Vec<String>, _> = key.iter().map(cell).collect();
            format!(" of key ({})", cells.map_err(arrow_internal)?.join(", "))
        }
    };
    let name = &column.name;
    Err(Error::invalid(format!("the sum {sum}{of} is out of range"))
        .within(format!("table {table:?}, column {name:?}"))
        .with_detail("the stored sum is exact; the column's type is too small for it")
        .with_hint(format!("UPDATE ... SET {name} = ... begins a new sum"))
        .with_sqlstate(OUT_OF_RANGE))
}
