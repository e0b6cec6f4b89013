//! PostgreSQL's numbers and names of types.
//!
//! | Arrow                              | PostgreSQL                               |
//! | ---------------------------------- | ---------------------------------------- |
//! | Boolean                            | bool                                     |
//! | Int8, Int16, UInt8                 | int2                                     |
//! | Int32, UInt16                      | int4                                     |
//! | Int64, UInt32                      | int8                                     |
//! | UInt64, Decimal                    | numeric                                  |
//! | Float16, Float32; Float64          | float4; float8                           |
//! | Utf8, Null, everything else        | text                                     |
//! | Utf8 that is marked as UUID, JSON  | uuid, json                               |
//! | Binary                             | bytea                                    |
//! | Date, Time                         | date, time                               |
//! | Timestamp without, with zone       | timestamp, timestamptz, in microseconds  |
//! | Interval, Duration                 | interval                                 |
//! | List of one of these               | its array                                |
//! | List of Utf8 that is marked so     | json[]                                   |
//! | List of lists or structs, Struct   | json                                     |

use std::collections::HashMap;

use arrow::datatypes::{DataType, Field};
use lazybase_model::Column;

/// A type that PostgreSQL's tools know.
#[derive(Debug)]
pub(crate) struct PgType {
    pub(crate) oid: u32,
    pub(crate) array: u32,
    /// In `pg_type`.
    pub(crate) name: &'static str,
    /// In SQL.
    pub(crate) sql: &'static str,
    pub(crate) length: i16,
    pub(crate) category: &'static str,
}

const fn pg_type(
    oid: u32,
    array: u32,
    name: &'static str,
    sql: &'static str,
    length: i16,
    category: &'static str,
) -> PgType {
    PgType {
        oid,
        array,
        name,
        sql,
        length,
        category,
    }
}

/// All of them.
pub(crate) static TYPES: [PgType; 27] = [
    pg_type(16, 1000, "bool", "boolean", 1, "B"),
    pg_type(17, 1001, "bytea", "bytea", -1, "U"),
    pg_type(18, 1002, "char", "\"char\"", 1, "Z"),
    pg_type(19, 1003, "name", "name", 64, "S"),
    pg_type(20, 1016, "int8", "bigint", 8, "N"),
    pg_type(21, 1005, "int2", "smallint", 2, "N"),
    pg_type(22, 1006, "int2vector", "int2vector", -1, "A"),
    pg_type(23, 1007, "int4", "integer", 4, "N"),
    pg_type(25, 1009, "text", "text", -1, "S"),
    pg_type(26, 1028, "oid", "oid", 4, "N"),
    pg_type(30, 1013, "oidvector", "oidvector", -1, "A"),
    pg_type(114, 199, "json", "json", -1, "U"),
    pg_type(700, 1021, "float4", "real", 4, "N"),
    pg_type(701, 1022, "float8", "double precision", 8, "N"),
    pg_type(705, 0, "unknown", "unknown", -2, "X"),
    pg_type(1042, 1014, "bpchar", "character", -1, "S"),
    pg_type(1043, 1015, "varchar", "character varying", -1, "S"),
    pg_type(1082, 1182, "date", "date", 4, "D"),
    pg_type(1083, 1183, "time", "time without time zone", 8, "D"),
    pg_type(
        1114,
        1115,
        "timestamp",
        "timestamp without time zone",
        8,
        "D",
    ),
    pg_type(
        1184,
        1185,
        "timestamptz",
        "timestamp with time zone",
        8,
        "D",
    ),
    pg_type(1186, 1187, "interval", "interval", 16, "T"),
    pg_type(1700, 1231, "numeric", "numeric", -1, "N"),
    pg_type(2205, 2210, "regclass", "regclass", 4, "N"),
    pg_type(2249, 2287, "record", "record", -1, "P"),
    pg_type(2950, 2951, "uuid", "uuid", 16, "U"),
    pg_type(3802, 3807, "jsonb", "jsonb", -1, "U"),
];

const MARK: &str = "lazybase.type";
/// The marks of lists that are written as numbers with spaces between them.
pub(super) const VECTOR: &str = "int2vector";
pub(super) const OID_VECTOR: &str = "oidvector";

/// The metadata of a field whose values are of a type that Arrow does not know; the marks of lists
/// that are no vectors tell of their elements.
pub(crate) fn mark(name: &str) -> HashMap<String, String> {
    HashMap::from([(MARK.to_owned(), name.to_owned())])
}

/// Whether a field is marked as JSON. What JSON is cast to keeps the mark, whatever its type.
pub(crate) fn says_json(field: &Field) -> bool {
    field.metadata().get(MARK).map(String::as_str) == Some("json")
}

/// Whether a field's texts are marked as JSON.
pub(crate) fn is_json_field(field: &Field) -> bool {
    says_json(field) && *field.data_type() == DataType::Utf8
}

/// Whether the texts in a field's lists are marked as JSON.
pub(crate) fn is_json_list(field: &Field) -> bool {
    let holds_texts = match field.data_type() {
        DataType::List(item) => *item.data_type() == DataType::Utf8,
        _ => false,
    };
    holds_texts && says_json(field)
}

/// The number of the type that PostgreSQL's clients are told for a column of an answer.
pub fn pg_type_of(field: &Field) -> u32 {
    let marked = field.metadata().get(MARK).map(String::as_str);
    match (field.data_type(), marked) {
        (DataType::Utf8, Some("uuid")) => 2950,
        (DataType::Utf8, Some("json")) => 114,
        (DataType::List(_), Some("json")) if is_json_list(field) => 199,
        (DataType::Int64, Some("oid")) => 26,
        (DataType::List(_), Some(VECTOR)) => 22,
        (DataType::List(_), Some(OID_VECTOR)) => 30,
        (data_type, _) => of_type(data_type),
    }
}

fn of_type(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Boolean => 16,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => 21,
        DataType::Int32 | DataType::UInt16 => 23,
        DataType::Int64 | DataType::UInt32 => 20,
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => 1700,
        DataType::Float16 | DataType::Float32 => 700,
        DataType::Float64 => 701,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => 17,
        DataType::Date32 | DataType::Date64 => 1082,
        DataType::Time32(_) | DataType::Time64(_) => 1083,
        DataType::Timestamp(_, None) => 1114,
        DataType::Timestamp(_, Some(_)) => 1184,
        DataType::Interval(_) | DataType::Duration(_) => 1186,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            match item.data_type().is_nested() {
                true => 114,
                false => pg_array_of(pg_type_of(item)).unwrap_or(114),
            }
        }
        DataType::Struct(_) | DataType::Map(..) => 114,
        DataType::Dictionary(_, values) => of_type(values),
        _ => 25,
    }
}

/// The type of a number.
pub(crate) fn known_type(oid: u32) -> Option<&'static PgType> {
    TYPES.iter().find(|known| known.oid == oid)
}

/// The number of the array of a type.
pub fn pg_array_of(element: u32) -> Option<u32> {
    let found = TYPES.iter().find(|known| known.oid == element);
    found.map(|known| known.array).filter(|array| *array > 0)
}

/// The number of the type of an array's elements.
pub fn pg_element_of(array: u32) -> Option<u32> {
    let found = TYPES.iter().find(|known| known.array == array && array > 0);
    found.map(|known| known.oid)
}

/// A column's type and what it says beside its number.
pub(crate) fn of_column(column: &Column) -> (u32, i64) {
    match (&column.data_type, column.characters_max) {
        (DataType::Utf8, Some(characters)) => (1043, i64::from(characters) + 4),
        (DataType::Utf8, None) if column.json => (114, -1),
        (DataType::FixedSizeBinary(16), _) => (2950, -1),
        (DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale), _) => {
            let modifier = (i64::from(*precision) << 16) | (i64::from(*scale) & 0x7ff);
            (1700, modifier + 4)
        }
        (data_type, _) => (of_type(data_type), -1),
    }
}

/// A type's name in SQL: `numeric(10,2)`, `character varying(64)`, `integer[]`.
pub(crate) fn format_type(oid: u32, modifier: Option<i64>) -> String {
    let (element, brackets) = match pg_element_of(oid) {
        Some(element) => (element, "[]"),
        None => (oid, ""),
    };
    let Some(known) = TYPES.iter().find(|known| known.oid == element) else {
        return if oid == 0 {
            "-".to_owned()
        } else {
            "???".to_owned()
        };
    };
    let detail = match (known.oid, modifier.filter(|modifier| *modifier >= 4)) {
        (1700, Some(modifier)) => format!("({},{})", (modifier - 4) >> 16, (modifier - 4) & 0x7ff),
        (1042 | 1043, Some(modifier)) => format!("({})", modifier - 4),
        _ => String::new(),
    };
    format!("{}{detail}{brackets}", known.sql)
}

/// The number of the type of a name, in `pg_type` or in SQL.
pub(super) fn named(name: &str) -> Option<u32> {
    let name = name.trim().to_lowercase();
    let name = name
        .strip_prefix("pg_catalog.")
        .unwrap_or(&name)
        .trim_matches('"');
    let (name, is_array) = match name.strip_suffix("[]") {
        Some(element) => (element, true),
        None => (name, false),
    };
    let name = match name {
        "int" => "int4",
        "decimal" => "numeric",
        "float" => "float8",
        name => name.split_once('(').map_or(name, |(name, _)| name),
    };
    let known = TYPES
        .iter()
        .find(|known| known.name == name || known.sql == name)?;
    Some(if is_array { known.array } else { known.oid })
}
