//! Types by the names that SQL gives them; no I/O.

use arrow::datatypes::{DataType, FieldRef, IntervalUnit, TimeUnit};

/// A type by the name that SQL gives it.
pub fn sql_type(data_type: &DataType) -> String {
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
