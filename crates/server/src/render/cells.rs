//! Single values and types as text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use lazybase_model::Result;
use lazybase_query::json_texts;
use lazybase_query::text_form;

use crate::failure;

/// Instants as SQL users write them.
pub(crate) const TIMESTAMP: &str = "%Y-%m-%d %H:%M:%S%.f";
const TIMESTAMP_TZ: &str = "%Y-%m-%d %H:%M:%S%.f%:z";

/// How values become text in tables.
pub(crate) fn format_options() -> FormatOptions<'static> {
    FormatOptions::default()
        .with_timestamp_format(Some(TIMESTAMP))
        .with_timestamp_tz_format(Some(TIMESTAMP_TZ))
        .with_null("NULL")
        .with_display_error(true)
}

/// The values of a column as text; `None` where NULL. Lists and structs are JSON, as they are
/// written in SQL and in CSV: it tells NULL from texts, and their commas from its own.
pub(crate) fn cell_texts(column: &ArrayRef) -> Result<Vec<Option<String>>> {
    if column.data_type().is_nested() {
        let field = Arc::new(Field::new("value", column.data_type().clone(), true));
        // JSON lacks maps whose keys are no texts.
        if let Ok(texts) = json_texts(&field, column) {
            return Ok(texts.iter().map(|text| text.map(str::to_owned)).collect());
        }
    }
    let options = format_options();
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options)
        .map_err(|error| failure::arrow("result", &error))?;
    let is_null = |row| column.is_null(row) || column.data_type().is_null();
    let shown =
        |row| text_form::own_text(column, row).unwrap_or_else(|| formatter.value(row).to_string());
    let text = |row| (!is_null(row)).then(|| shown(row));
    Ok((0..column.len()).map(text).collect())
}

/// A type by the name that SQL gives it.
pub(crate) fn sql_type(data_type: &DataType) -> String {
    let fixed = match data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 => "tinyint",
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::UInt8 => "tinyint unsigned",
        DataType::UInt16 => "smallint unsigned",
        DataType::UInt32 => "integer unsigned",
        DataType::UInt64 => "bigint unsigned",
        DataType::Float32 => "real",
        DataType::Float64 => "double",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytea",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(unit) | DataType::Time64(unit) => return digits("time", *unit),
        DataType::Timestamp(unit, None) => return digits("timestamp", *unit),
        DataType::Timestamp(unit, Some(_)) => return digits("timestamptz", *unit),
        DataType::Interval(IntervalUnit::MonthDayNano) => "interval",
        DataType::FixedSizeBinary(16) => "uuid",
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            return format!("decimal({precision},{scale})");
        }
        DataType::List(field) => return format!("{}[]", sql_type(field.data_type())),
        DataType::Struct(fields) => {
            let field =
                |field: &FieldRef| format!("{} {}", field.name(), sql_type(field.data_type()));
            let fields: Vec<String> = fields.iter().map(field).collect();
            return format!("struct<{}>", fields.join(", "));
        }
        other => return other.to_string().to_lowercase(),
    };
    fixed.to_owned()
}

/// A type's name with the digits of a second that it keeps, where they are not the default.
fn digits(name: &str, unit: TimeUnit) -> String {
    match unit {
        TimeUnit::Second => format!("{name}(0)"),
        TimeUnit::Millisecond => format!("{name}(3)"),
        TimeUnit::Microsecond => name.to_owned(),
        TimeUnit::Nanosecond => format!("{name}(9)"),
    }
}
