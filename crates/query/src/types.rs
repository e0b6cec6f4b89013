//! SQL's type names as Arrow types, and back (section 3.2 of the paper: typed columns).
//!
//! | SQL                                | stored as                          |
//! | ---------------------------------- | ---------------------------------- |
//! | BOOLEAN                            | Boolean                            |
//! | SMALLINT, INT, BIGINT, UINT ...    | Int16, Int32, Int64, UInt8..UInt64 |
//! | REAL, DOUBLE PRECISION             | Float32, Float64                   |
//! | DECIMAL(p, s)                      | Decimal128, Decimal256 from p = 39 |
//! | TEXT, VARCHAR, CHAR                | Utf8                               |
//! | JSON                               | Utf8, whose texts are JSON         |
//! | VARCHAR(n), CHAR(n)                | Utf8, n characters at most         |
//! | BYTEA, BLOB                        | Binary                             |
//! | UUID                               | FixedSizeBinary(16); text in SQL   |
//! | DATE, TIME                         | Date32, Time64(us)                 |
//! | TIMESTAMP, TIMESTAMPTZ             | Timestamp(us), in UTC with a zone  |
//! | TIME(p), TIMESTAMP(p)              | in s, ms, us, ns: p = 0, 3, 6, 9   |
//! | INTERVAL                           | Interval(MonthDayNano); in no key  |
//! | T[], STRUCT<...>                   | List, Struct; in no key            |
//!
//! Invariant TYP-1: a stored FixedSizeBinary(16) is a UUID and nothing else; SQL shows it as
//! lower-case text, whose order and equality are those of the bytes.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharLengthUnits, CharacterLength, DataType as SqlType, ExactNumberInfo,
    StructField, TimezoneInfo,
};
use lazybase_model::limits::CELL_BYTES_MAX;
use lazybase_model::{Column, Error, Result, Table};

#[cfg(test)]
mod tests;

/// How intervals are stored.
pub(crate) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// How UUIDs are stored.
pub(crate) const UUID: DataType = DataType::FixedSizeBinary(16);

/// The name of the zone that TIMESTAMP WITH TIME ZONE is kept in.
pub(crate) const UTC: &str = "+00:00";

/// Whether texts of a column of an SQL type are JSON.
pub(crate) fn is_json(sql: &SqlType) -> bool {
    matches!(sql, SqlType::JSON)
}

/// The Arrow type that a column of an SQL type is stored as, and the most characters that its
/// texts may have, if there is such a limit.
///
/// # Errors
/// `Invalid`: as [`from_sql`]; 22023 for a limit that no text or every text would keep.
pub(crate) fn of_column(sql: &SqlType) -> Result<(DataType, Option<u32>)> {
    let limited = match sql {
        // Nothing pads them: of CHAR(n) the limit is kept.
        SqlType::Character(length @ Some(_)) | SqlType::Char(length @ Some(_)) => {
            varying(&SqlType::Varchar(*length))
        }
        _ => varying(sql),
    };
    match limited? {
        None => Ok((from_sql(sql)?, None)),
        limited => Ok((DataType::Utf8, limited)),
    }
}

/// The limit of VARCHAR(n), in characters.
///
/// # Errors
/// `Invalid` (22023) for a limit that no text or every text would keep.
pub(crate) fn varying(sql: &SqlType) -> Result<Option<u32>> {
    use SqlType as S;
    let characters = match sql {
        S::CharacterVarying(Some(length))
        | S::CharVarying(Some(length))
        | S::Varchar(Some(length))
        | S::Nvarchar(Some(length)) => match length {
            CharacterLength::IntegerLength {
                length,
                unit: None | Some(CharLengthUnits::Characters),
            } => *length,
            CharacterLength::IntegerLength { .. } | CharacterLength::Max => return Ok(None),
        },
        _ => return Ok(None),
    };
    match usize::try_from(characters) {
        Ok(1..=CELL_BYTES_MAX) => Ok(u32::try_from(characters).ok()),
        _ => Err(Error::invalid(format!("{sql}: the length is out of range"))
            .with_detail(format!("a length is 1 to {CELL_BYTES_MAX}"))
            .with_hint("TEXT has no length")
            .with_sqlstate("22023")),
    }
}

/// The Arrow type that a value of an SQL type is stored as.
///
/// # Errors
/// `Invalid` (0A000) for types that are not kept, with a hint at one that is.
pub(crate) fn from_sql(sql: &SqlType) -> Result<DataType> {
    if let Some(kept) = without_length(sql) {
        return Err(
            Error::invalid(format!("{sql}: the length would not be enforced"))
                .with_detail(format!("values are kept as {kept}, whatever their length"))
                .with_hint(format!("write {kept}"))
                .with_sqlstate("0A000"),
        );
    }
    use DataType as A;
    use SqlType as S;
    Ok(match sql {
        S::Bool | S::Boolean => A::Boolean,
        S::TinyInt(_) => A::Int8,
        S::SmallInt(_) | S::Int2(_) | S::Int16 => A::Int16,
        S::Int(_) | S::Int4(_) | S::Integer(_) | S::MediumInt(_) | S::Int32 => A::Int32,
        S::BigInt(_) | S::Int8(_) | S::Int64 => A::Int64,
        S::TinyIntUnsigned(_) | S::UTinyInt | S::UInt8 => A::UInt8,
        S::SmallIntUnsigned(_) | S::USmallInt | S::UInt16 | S::Int2Unsigned(_) => A::UInt16,
        S::IntUnsigned(_) | S::IntegerUnsigned(_) | S::UInt32 | S::Int4Unsigned(_) => A::UInt32,
        S::BigIntUnsigned(_) | S::UBigInt | S::UInt64 | S::Int8Unsigned(_) => A::UInt64,
        S::Float4 | S::Real | S::Float32 => A::Float32,
        S::Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => A::Float32,
        S::Float(_) | S::Float8 | S::Float64 | S::Double(_) | S::DoublePrecision => A::Float64,
        S::Numeric(info) | S::Decimal(info) | S::Dec(info) => decimal(info)?,
        S::Text | S::TinyText | S::MediumText | S::LongText | S::String(_) | S::Clob(_) => A::Utf8,
        S::Character(_)
        | S::Char(_)
        | S::CharacterVarying(_)
        | S::CharVarying(_)
        | S::Varchar(_)
        | S::Nvarchar(_)
        | S::CharacterLargeObject(_)
        | S::CharLargeObject(_)
        | S::JSON => A::Utf8,
        S::Bytea | S::Blob(_) | S::Binary(_) | S::Varbinary(_) | S::Bytes(_) => A::Binary,
        S::Uuid => UUID,
        S::Date | S::Date32 => A::Date32,
        S::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            match unit(sql, *digits)? {
                coarse @ (TimeUnit::Second | TimeUnit::Millisecond) => A::Time32(coarse),
                fine => A::Time64(fine),
            }
        }
        S::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
        | S::Datetime(digits)
        | S::TimestampNtz(digits) => A::Timestamp(unit(sql, *digits)?, None),
        S::Timestamp(digits, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
            A::Timestamp(unit(sql, *digits)?, Some(UTC.into()))
        }
        S::Interval {
            fields: None,
            precision: None,
        } => INTERVAL,
        S::Array(
            ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::SquareBracket(element, _)
            | ArrayElemTypeDef::Parenthesis(element),
        ) => A::List(Arc::new(Field::new_list_field(nested(element)?, true))),
        S::Struct(fields, _) => structure(fields)?,
        other => return Err(unknown(other)),
    })
}

fn decimal(info: &ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => (38, 10),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    let scale_fits = scale >= 0 && scale <= i64::try_from(precision).unwrap_or(0);
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale_fits => {
            Ok(DataType::Decimal128(precision, scale))
        }
        (Ok(precision @ 39..=76), Ok(scale)) if scale_fits => {
            Ok(DataType::Decimal256(precision, scale))
        }
        _ => Err(
            Error::invalid(format!("DECIMAL({precision}, {scale}) is not kept"))
                .with_hint("the precision is 1 to 76, the scale 0 to the precision")
                .with_sqlstate("22023"),
        ),
    }
}

/// The type of what lies in a list or a struct.
fn nested(sql: &SqlType) -> Result<DataType> {
    match from_sql(sql)? {
        uuid if uuid == UUID => Err(Error::invalid("a UUID is kept in columns of its own")
            .with_hint("write TEXT inside of lists and structs")
            .with_sqlstate("0A000")),
        other => Ok(other),
    }
}

/// The unit that keeps so many digits of a second.
fn unit(sql: &SqlType, digits: Option<u64>) -> Result<TimeUnit> {
    match digits {
        Some(0) => Ok(TimeUnit::Second),
        Some(3) => Ok(TimeUnit::Millisecond),
        None | Some(6) => Ok(TimeUnit::Microsecond),
        Some(9) => Ok(TimeUnit::Nanosecond),
        Some(_) => Err(
            Error::invalid(format!("{sql}: such a precision is not kept"))
                .with_hint("the digits of a second are 0, 3, 6 (the default) or 9")
                .with_sqlstate("0A000"),
        ),
    }
}

fn structure(fields: &[StructField]) -> Result<DataType> {
    let fields: Result<Fields> = fields
        .iter()
        .map(|field| {
            let name = field.field_name.as_ref().ok_or_else(|| {
                Error::invalid("each field of a STRUCT needs a name").with_sqlstate("42601")
            })?;
            Ok(Field::new(&name.value, nested(&field.field_type)?, true))
        })
        .collect();
    Ok(DataType::Struct(fields?))
}

fn unknown(sql: &SqlType) -> Error {
    let error = not_kept(&sql.to_string());
    match sql {
        SqlType::Custom(..) => error,
        _ => error.with_sqlstate("0A000"),
    }
}

/// Types that PostgreSQL has and nothing here is like.
const OF_POSTGRES: [&str; 33] = [
    "BIT",
    "BOX",
    "CIDR",
    "CIRCLE",
    "DATEMULTIRANGE",
    "DATERANGE",
    "INET",
    "INT4MULTIRANGE",
    "INT4RANGE",
    "INT8MULTIRANGE",
    "INT8RANGE",
    "JSONPATH",
    "LINE",
    "LSEG",
    "MACADDR",
    "MACADDR8",
    "NUMMULTIRANGE",
    "NUMRANGE",
    "PATH",
    "PG_LSN",
    "PG_SNAPSHOT",
    "POINT",
    "POLYGON",
    "TID",
    "TSMULTIRANGE",
    "TSQUERY",
    "TSRANGE",
    "TSTZMULTIRANGE",
    "TSTZRANGE",
    "TSVECTOR",
    "VARBIT",
    "XID8",
    "XML",
];

/// Of a type that is none of those that are kept, by its name.
pub(crate) fn not_kept(name: &str) -> Error {
    let mut sqlstate = "0A000";
    let upper = name.to_ascii_uppercase();
    let word = upper.split(['(', ' ']).next().unwrap_or_default();
    let hint = match upper.as_str() {
        "JSONB" => {
            "use JSON, which keeps texts as they are given: JSONB sorts keys and leaves out blanks"
        }
        upper if upper.starts_with("INTERVAL") => "write INTERVAL, without fields",
        upper if upper.starts_with("TIME") => "use TIME, or TIMESTAMP WITH TIME ZONE",
        "SERIAL" | "BIGSERIAL" | "SMALLSERIAL" => "a new table's column may be of that type alone",
        upper if upper.starts_with("ENUM") => "use TEXT",
        "MONEY" => "use DECIMAL(19, 2)",
        _ if OF_POSTGRES.contains(&word) => "use TEXT, or a column for each of its parts",
        _ => {
            sqlstate = "42704";
            "use one of BOOLEAN, SMALLINT, INT, BIGINT, REAL, DOUBLE PRECISION, DECIMAL(p, s), \
             TEXT, BYTEA, UUID, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, JSON, T[]"
        }
    };
    let spelt = match name.starts_with('"') {
        true => name.trim_matches('"').to_owned(),
        false => word.to_ascii_lowercase(),
    };
    Error::invalid(format!("type {name} is not kept"))
        .with_hint(hint)
        .with_name(spelt)
        .with_sqlstate(sqlstate)
}

/// What a type is kept as whose declaration asks for a length that nothing keeps.
fn without_length(sql: &SqlType) -> Option<&'static str> {
    use SqlType as S;
    match sql {
        S::Character(Some(_))
        | S::Char(Some(_))
        | S::CharacterVarying(Some(_))
        | S::CharVarying(Some(_))
        | S::Varchar(Some(_))
        | S::Nvarchar(Some(_))
        | S::CharacterLargeObject(Some(_))
        | S::CharLargeObject(Some(_))
        | S::Clob(Some(_))
        | S::String(Some(_)) => Some("TEXT"),
        S::Binary(Some(_)) | S::Varbinary(Some(_)) | S::Blob(Some(_)) | S::Bytes(Some(_)) => {
            Some("BYTEA")
        }
        _ => None,
    }
}

/// The mark of a field whose text is a UUID's.
const UUID_MARK: (&str, &str) = ("lazybase.type", "uuid");

/// A field of a stored type as SQL sees it: UUIDs are text, and marked.
pub(crate) fn shown_field(name: &str, stored: &DataType, nullable: bool) -> Field {
    let field = Field::new(name, shown(stored), nullable);
    match *stored == UUID {
        true => field.with_metadata(HashMap::from([(
            UUID_MARK.0.to_owned(),
            UUID_MARK.1.to_owned(),
        )])),
        false => field,
    }
}

/// A list of values of a stored type as SQL sees it.
pub(crate) fn shown_list(stored: &DataType) -> DataType {
    let item = shown_field(Field::LIST_FIELD_DEFAULT_NAME, stored, true);
    DataType::List(Arc::new(item))
}

/// Whether a field's text is a UUID's.
pub(crate) fn is_uuid(field: &Field) -> bool {
    field.metadata().get(UUID_MARK.0).map(String::as_str) == Some(UUID_MARK.1)
}

/// The type that a column gets whose values come from a query or a file of Arrow type `given`.
///
/// # Errors
/// `Invalid` (0A000) for types that are not kept.
pub(crate) fn storable(given: &DataType) -> Result<DataType> {
    use DataType as A;
    Ok(match given {
        A::Null | A::Utf8 | A::LargeUtf8 | A::Utf8View => A::Utf8,
        A::Binary | A::LargeBinary | A::BinaryView => A::Binary,
        A::FixedSizeBinary(16) => UUID,
        A::FixedSizeBinary(_) => A::Binary,
        A::Boolean
        | A::Int8
        | A::Int16
        | A::Int32
        | A::Int64
        | A::UInt8
        | A::UInt16
        | A::UInt32
        | A::UInt64
        | A::Float32
        | A::Float64
        | A::Date32
        | A::Decimal128(..)
        | A::Decimal256(..) => given.clone(),
        A::Float16 => A::Float32,
        A::Decimal32(precision, scale) | A::Decimal64(precision, scale) => {
            A::Decimal128(*precision, *scale)
        }
        A::Date64 => A::Timestamp(TimeUnit::Microsecond, None),
        A::Time32(_) | A::Time64(_) | A::Timestamp(_, None) => given.clone(),
        // A zone says how moments are shown, and does not change which they are.
        A::Timestamp(unit, Some(_)) => A::Timestamp(*unit, Some(UTC.into())),
        A::Interval(_) | A::Duration(_) => INTERVAL,
        A::Dictionary(_, value) => storable(value)?,
        A::RunEndEncoded(_, values) => storable(values.data_type())?,
        A::List(item) | A::LargeList(item) | A::ListView(item) | A::FixedSizeList(item, _) => {
            let item = storable_inside(item.data_type())?;
            A::List(Arc::new(Field::new_list_field(item, true)))
        }
        // SQL has no maps: the pairs of each, in their order.
        A::Map(pairs, _) => {
            let pair = storable_inside(pairs.data_type())?;
            A::List(Arc::new(Field::new_list_field(pair, true)))
        }
        A::Struct(fields) if fields.is_empty() => {
            return Err(Error::invalid("a STRUCT without fields is not kept")
                .with_hint("JSON, which is kept as text, has empty objects")
                .with_sqlstate("0A000"));
        }
        A::Struct(fields) => {
            let fields: Result<Fields> = fields
                .iter()
                .map(|field| {
                    let inside = storable_inside(field.data_type())?;
                    Ok(Field::new(field.name(), inside, true))
                })
                .collect();
            A::Struct(fields?)
        }
        other => {
            return Err(Error::invalid(format!("type {} is not kept", name(other)))
                .with_hint("CAST the column to a type of CREATE TABLE")
                .with_sqlstate("0A000"));
        }
    })
}

/// Whether the cast of a column can lose nothing; values out of range are errors.
pub(crate) fn is_lossless(given: &DataType, wanted: &DataType) -> bool {
    use DataType as A;
    match (given, wanted) {
        _ if given == wanted => true,
        // A value that is out of range is an error of its own, never a loss.
        (a, b) if a.is_integer() && b.is_integer() => true,
        (A::Int8 | A::Int16 | A::UInt8 | A::UInt16, A::Float32 | A::Float64)
        | (A::Int32 | A::UInt32, A::Float64)
        | (A::Float16, A::Float32 | A::Float64)
        | (A::Float32, A::Float64) => true,
        (a, A::Decimal128(..) | A::Decimal256(..)) if a.is_integer() => true,
        (
            A::Decimal32(_, from)
            | A::Decimal64(_, from)
            | A::Decimal128(_, from)
            | A::Decimal256(_, from),
            A::Decimal128(_, to) | A::Decimal256(_, to),
        ) => from <= to,
        (A::Utf8 | A::LargeUtf8 | A::Utf8View | A::Binary, uuid) if *uuid == UUID => true,
        (A::Utf8 | A::LargeUtf8 | A::Utf8View, A::Interval(_)) => true,
        (A::Date32, A::Timestamp(_, None)) => true,
        (A::Null, _) => true,
        (A::Timestamp(from, None), A::Timestamp(to, None))
        | (A::Timestamp(from, Some(_)), A::Timestamp(to, Some(_)))
        | (A::Time32(from) | A::Time64(from), A::Time32(to) | A::Time64(to))
            if from <= to =>
        {
            true
        }
        _ => storable(given).is_ok_and(|kept| kept == *wanted),
    }
}

/// The type that a column gets whose first values come from a file or a frame of Arrow type
/// `given`: moments have the digits of TIMESTAMP at least, for later ones may need them.
///
/// # Errors
/// As [`storable`].
pub fn of_data(given: &DataType) -> Result<DataType> {
    use TimeUnit::{Microsecond, Millisecond, Second};
    Ok(match storable(given)? {
        DataType::Timestamp(Second | Millisecond, zone) => DataType::Timestamp(Microsecond, zone),
        DataType::Time32(_) => DataType::Time64(Microsecond),
        other => other,
    })
}

/// Whether values of a type may go to a column as they are: none can lose anything, or, of moments
/// and times of day with more digits than the column keeps, each is looked at.
pub fn may_fit(given: &DataType, wanted: &DataType) -> bool {
    is_lossless(given, wanted) || is_finer(given, wanted)
}

/// Whether both are moments, or times of day, and the first have more digits of a second.
pub(crate) fn is_finer(given: &DataType, wanted: &DataType) -> bool {
    use DataType as A;
    match (given, wanted) {
        (A::Timestamp(from, None), A::Timestamp(to, None))
        | (A::Timestamp(from, Some(_)), A::Timestamp(to, Some(_)))
        | (A::Time32(from) | A::Time64(from), A::Time32(to) | A::Time64(to)) => from > to,
        _ => false,
    }
}

/// Refuses values whose cast to the column's type could lose something.
pub(crate) fn lossy(table: &Table, column: &Column, given: &DataType) -> Error {
    let (given, wanted) = (name(given), name(&column.data_type));
    Error::invalid(format!(
        "table {:?}, column {:?}: {given} does not go into {wanted} without loss",
        table.name, column.name
    ))
    .with_hint(format!("cast the column to {wanted} before"))
    .with_sqlstate("42804")
}

/// As [`storable`], in a list or a struct: 16 bytes are a UUID only in a column of their own.
fn storable_inside(given: &DataType) -> Result<DataType> {
    match storable(given)? {
        uuid if uuid == UUID => Ok(DataType::Binary),
        other => Ok(other),
    }
}

/// The SQL name of a column's type, for messages and `DESCRIBE`.
pub(crate) fn column_name(column: &Column) -> String {
    match column.characters_max {
        Some(characters) => format!("VARCHAR({characters})"),
        None if column.json => "JSON".to_owned(),
        None => name(&column.data_type),
    }
}

/// The column as it was declared: its type and its merge operator, for `DESCRIBE`.
pub(crate) fn declared_name(column: &Column) -> String {
    match column.merge {
        Some(operator) => format!("{} MERGE {}", column_name(column), operator.word()),
        None => column_name(column),
    }
}

/// The SQL name of a stored type, for messages and `DESCRIBE`.
pub(crate) fn name(stored: &DataType) -> String {
    use DataType as A;
    match stored {
        A::Boolean => "BOOLEAN".to_owned(),
        A::Int8 => "TINYINT".to_owned(),
        A::Int16 => "SMALLINT".to_owned(),
        A::Int32 => "INT".to_owned(),
        A::Int64 => "BIGINT".to_owned(),
        A::UInt8 => "TINYINT UNSIGNED".to_owned(),
        A::UInt16 => "SMALLINT UNSIGNED".to_owned(),
        A::UInt32 => "INT UNSIGNED".to_owned(),
        A::UInt64 => "BIGINT UNSIGNED".to_owned(),
        A::Float32 => "REAL".to_owned(),
        A::Float64 => "DOUBLE PRECISION".to_owned(),
        A::Decimal128(precision, scale) | A::Decimal256(precision, scale) => {
            format!("DECIMAL({precision}, {scale})")
        }
        A::Utf8 | A::LargeUtf8 | A::Utf8View => "TEXT".to_owned(),
        A::Binary | A::LargeBinary | A::BinaryView => "BYTEA".to_owned(),
        A::FixedSizeBinary(16) => "UUID".to_owned(),
        A::Date32 | A::Date64 => "DATE".to_owned(),
        A::Time32(unit) | A::Time64(unit) => format!("TIME{}", digits(*unit)),
        A::Timestamp(unit, None) => format!("TIMESTAMP{}", digits(*unit)),
        A::Timestamp(unit, Some(_)) => format!("TIMESTAMP{} WITH TIME ZONE", digits(*unit)),
        A::Interval(_) => "INTERVAL".to_owned(),
        A::List(item) | A::LargeList(item) => format!("{}[]", name(item.data_type())),
        A::Struct(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|field| format!("{} {}", field.name(), name(field.data_type())))
                .collect();
            format!("STRUCT<{}>", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// How many digits of a second a unit keeps, where it is not the default.
fn digits(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "(0)",
        TimeUnit::Millisecond => "(3)",
        TimeUnit::Microsecond => "",
        TimeUnit::Nanosecond => "(9)",
    }
}

/// The type that SQL sees of a stored column: UUIDs are text, everything else is as stored.
pub(crate) fn shown(stored: &DataType) -> DataType {
    match stored {
        DataType::FixedSizeBinary(16) => DataType::Utf8,
        other => other.clone(),
    }
}
