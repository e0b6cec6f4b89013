//! PostgreSQL's types by their numbers: which of them a client is told for a column is said by
//! `lazybase_query::pg_type_of`.

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use lazybase_model::{Error, Result};
use lazybase_query::Origin;
use pgwire::messages::data::{FieldDescription, RowDescription};

pub(crate) const BOOL: u32 = 16;
pub(crate) const BYTEA: u32 = 17;
pub(crate) const INT8: u32 = 20;
pub(crate) const INT2: u32 = 21;
pub(crate) const INT2VECTOR: u32 = 22;
pub(crate) const INT4: u32 = 23;
pub(crate) const TEXT: u32 = 25;
pub(crate) const OID: u32 = 26;
pub(crate) const OIDVECTOR: u32 = 30;
pub(crate) const JSON: u32 = 114;
pub(crate) const FLOAT4: u32 = 700;
pub(crate) const FLOAT8: u32 = 701;
pub(crate) const UNKNOWN: u32 = 705;
pub(crate) const VARCHAR: u32 = 1043;
pub(crate) const DATE: u32 = 1082;
pub(crate) const TIME: u32 = 1083;
pub(crate) const TIMESTAMP: u32 = 1114;
pub(crate) const TIMESTAMPTZ: u32 = 1184;
pub(crate) const INTERVAL: u32 = 1186;
pub(crate) const NUMERIC: u32 = 1700;
pub(crate) const UUID: u32 = 2950;
pub(crate) const JSONB: u32 = 3802;

/// Whether values of a type are JSON.
pub(crate) fn is_json(oid: u32) -> bool {
    matches!(oid, JSON | JSONB)
}

/// The type of an array's elements.
pub(crate) fn element_of(array: u32) -> Option<u32> {
    lazybase_query::pg_element_of(array)
}

/// The type of a column.
pub(crate) fn of_field(field: &Field) -> u32 {
    lazybase_query::pg_type_of(field)
}

/// The type of a parameter.
pub(crate) fn of_type(data_type: &DataType) -> u32 {
    if *data_type == DataType::FixedSizeBinary(16) {
        return UUID;
    }
    of_field(&Field::new("", data_type.clone(), true))
}

/// The Arrow type of values of one of PostgreSQL's types; `None` where the statement must tell.
pub(crate) fn to_arrow(oid: u32) -> Option<DataType> {
    Some(match oid {
        BOOL => DataType::Boolean,
        INT2 => DataType::Int16,
        INT4 => DataType::Int32,
        INT8 | OID => DataType::Int64,
        FLOAT4 => DataType::Float32,
        FLOAT8 => DataType::Float64,
        NUMERIC => DataType::Decimal128(38, 10),
        BYTEA => DataType::Binary,
        DATE => DataType::Date32,
        TIME => DataType::Time64(TimeUnit::Microsecond),
        TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        TEXT | VARCHAR | UUID | JSON | JSONB | 18 | 19 | 1042 => DataType::Utf8,
        array => {
            let element = to_arrow(element_of(array)?)?;
            DataType::new_list(element, true)
        }
    })
}

/// How many bytes a value takes; less than nothing where that varies.
fn size(oid: u32) -> i16 {
    match oid {
        BOOL => 1,
        INT2 => 2,
        INT4 | OID | FLOAT4 | DATE => 4,
        INT8 | FLOAT8 | TIME | TIMESTAMP | TIMESTAMPTZ => 8,
        INTERVAL | UUID => 16,
        _ => -1,
    }
}

/// What a type says beside its number: precision and scale.
fn modifier(data_type: &DataType) -> i32 {
    match data_type {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            ((i32::from(*precision) << 16) | (i32::from(*scale) & 0x7ff)) + 4
        }
        // Whole numbers of at most twenty digits.
        DataType::UInt64 => (20 << 16) + 4,
        _ => -1,
    }
}

/// The most columns that an answer may have, as with PostgreSQL.
const COLUMNS_MAX: usize = 1664;

/// Whether clients are told the same of both columns.
pub(crate) fn is_same(one: &Schema, other: &Schema) -> bool {
    let told = |field: &Field| (of_field(field), modifier(field.data_type()));
    let pairs = one.fields().iter().zip(other.fields());
    let mut same = pairs.map(|(a, b)| a.name() == b.name() && told(a) == told(b));
    one.fields().len() == other.fields().len() && same.all(|same| same)
}

/// The columns of an answer, and where they come from, as far as that is known; `formats` as a
/// client gives them: none, one for all, or one each.
///
/// # Errors
/// `Invalid` (54011) for too many columns.
pub(crate) fn description(
    schema: &Schema,
    origins: &[Origin],
    formats: &[i16],
) -> Result<RowDescription> {
    if schema.fields().len() > COLUMNS_MAX {
        return Err(Error::invalid(format!(
            "the answer has {} columns, and clients take {COLUMNS_MAX}",
            schema.fields().len()
        ))
        .with_hint("name the columns that are needed")
        .with_sqlstate("54011"));
    }
    let fields = schema.fields().iter().enumerate().map(|(at, field)| {
        let oid = of_field(field);
        let modifier = modifier(field.data_type());
        let format = format_of(formats, at);
        let name = field.name().replace('\0', "");
        let origin = origins.get(at).copied().unwrap_or_default();
        let (table, column) = (origin.table as i32, origin.column);
        FieldDescription::new(name, table, column, oid, size(oid), modifier, format)
    });
    Ok(RowDescription::new(fields.collect()))
}

/// The format of one of several values: 0 is text, 1 binary.
pub(crate) fn format_of(formats: &[i16], at: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(at).copied().unwrap_or(0),
    }
}
