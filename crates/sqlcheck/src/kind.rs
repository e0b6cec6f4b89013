//! What columns can be of: how a type is declared, what it is in memory, and values of it, each as
//! SQL writes it and as the model keeps it.
//!
//! Values come from small domains, so that predicates and joins find some; those of a *wild*
//! column may lie at the ends of its type.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::ScalarValue;
use lazybase_query::Value;

use crate::dice::Dice;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    UnsignedInt,
    UnsignedBigInt,
    Real,
    Double,
    Decimal,
    Text,
    Varchar,
    Bytes,
    Uuid,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    List,
    /// A number that stands for a path; the model keeps the path.
    File,
}

/// Types between which expressions and comparisons make sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Bool,
    Int,
    Float,
    Decimal,
    Text,
    Bytes,
    Uuid,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    /// Without an order.
    List,
    File,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    /// As a statement gives it.
    pub(crate) sql: String,
    /// As the model keeps it.
    pub(crate) value: ScalarValue,
}

/// Paths that are known before a story begins, and all that there are.
pub(crate) const PATHS: (usize, usize) = (6, 12);

/// The first day of those that values are of, 2024-01-01.
const DAY: i64 = 19_723;
/// Days far from the others that still have a moment in nanoseconds.
const WILD_DAYS: [(i64, &str); 3] = [
    (-25_567, "1900-01-01"),
    (-1, "1969-12-31"),
    (84_006, "2200-01-01"),
];
const DAY_MICROS: i64 = 86_400_000_000;

const TEXTS: [&str; 14] = [
    "", "a", "A", "ab", "abc", "b", "ba", "B c", "%", "a_b", "it's", "ü", "Zürich", "zz top",
];
const WILD_TEXTS: [&str; 4] = [
    "\u{1F980}crab",
    "a\u{301}",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
    "~",
];

impl Kind {
    pub(crate) const ALL: [Kind; 19] = [
        Kind::Bool,
        Kind::TinyInt,
        Kind::SmallInt,
        Kind::Int,
        Kind::BigInt,
        Kind::UnsignedInt,
        Kind::UnsignedBigInt,
        Kind::Real,
        Kind::Double,
        Kind::Decimal,
        Kind::Text,
        Kind::Varchar,
        Kind::Bytes,
        Kind::Uuid,
        Kind::Date,
        Kind::Time,
        Kind::Timestamp,
        Kind::TimestampTz,
        Kind::List,
    ];

    pub(crate) fn declared(self) -> &'static str {
        match self {
            Kind::Bool => "BOOLEAN",
            Kind::TinyInt => "TINYINT",
            Kind::SmallInt => "SMALLINT",
            Kind::Int => "INT",
            Kind::BigInt => "BIGINT",
            Kind::UnsignedInt => "INT UNSIGNED",
            Kind::UnsignedBigInt => "BIGINT UNSIGNED",
            Kind::Real => "REAL",
            Kind::Double => "DOUBLE PRECISION",
            Kind::Decimal => "DECIMAL(10, 2)",
            Kind::Text => "TEXT",
            Kind::Varchar => "VARCHAR(40)",
            Kind::Bytes => "BYTEA",
            Kind::Uuid => "UUID",
            Kind::Date => "DATE",
            Kind::Time => "TIME",
            Kind::Timestamp => "TIMESTAMP",
            Kind::TimestampTz => "TIMESTAMP WITH TIME ZONE",
            Kind::List => "INT[]",
            Kind::File => "IDKEY REFERENCES files",
        }
    }

    /// The type that SQL sees.
    pub(crate) fn shown(self) -> DataType {
        match self {
            Kind::Bool => DataType::Boolean,
            Kind::TinyInt => DataType::Int8,
            Kind::SmallInt => DataType::Int16,
            Kind::Int => DataType::Int32,
            Kind::BigInt | Kind::File => DataType::Int64,
            Kind::UnsignedInt => DataType::UInt32,
            Kind::UnsignedBigInt => DataType::UInt64,
            Kind::Real => DataType::Float32,
            Kind::Double => DataType::Float64,
            Kind::Decimal => DataType::Decimal128(10, 2),
            Kind::Text | Kind::Varchar | Kind::Uuid => DataType::Utf8,
            Kind::Bytes => DataType::Binary,
            Kind::Date => DataType::Date32,
            Kind::Time => DataType::Time64(TimeUnit::Microsecond),
            Kind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            Kind::List => DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))),
        }
    }

    pub(crate) fn class(self) -> Class {
        match self {
            Kind::Bool => Class::Bool,
            Kind::TinyInt
            | Kind::SmallInt
            | Kind::Int
            | Kind::BigInt
            | Kind::UnsignedInt
            | Kind::UnsignedBigInt => Class::Int,
            Kind::Real | Kind::Double => Class::Float,
            Kind::Decimal => Class::Decimal,
            Kind::Text | Kind::Varchar => Class::Text,
            Kind::Bytes => Class::Bytes,
            Kind::Uuid => Class::Uuid,
            Kind::Date => Class::Date,
            Kind::Time => Class::Time,
            Kind::Timestamp => Class::Timestamp,
            Kind::TimestampTz => Class::TimestampTz,
            Kind::List => Class::List,
            Kind::File => Class::File,
        }
    }

    /// NULL of this type, as the model keeps it.
    pub(crate) fn null(self) -> Cell {
        let kept = match self {
            Kind::File => DataType::Utf8,
            other => other.shown(),
        };
        Cell {
            sql: "NULL".to_owned(),
            value: ScalarValue::try_from(&kept).expect("each of these types has a NULL"),
        }
    }

    /// A value that is not NULL; of a file, one of the first `paths`.
    pub(crate) fn cell(self, dice: &mut Dice, wild: bool, paths: usize) -> Cell {
        let wild = wild && dice.one_in(6);
        let (sql, value) = match self {
            Kind::Bool => {
                let value = dice.one_in(2);
                (value.to_string(), ScalarValue::Boolean(Some(value)))
            }
            Kind::Real | Kind::Double | Kind::Decimal => self.fraction(dice, wild),
            Kind::Text | Kind::Varchar => {
                let text = match wild {
                    true => WILD_TEXTS[dice.roll(WILD_TEXTS.len())],
                    false => TEXTS[dice.roll(TEXTS.len())],
                };
                (quoted(text), ScalarValue::Utf8(Some(text.to_owned())))
            }
            Kind::Bytes => {
                let bytes: Vec<u8> = (0..dice.roll(3))
                    .map(|_| [0, 1, 97, 255][dice.roll(4)])
                    .collect();
                (hex(&bytes), ScalarValue::Binary(Some(bytes)))
            }
            Kind::Uuid => {
                let text = uuid(dice);
                (quoted(&text), ScalarValue::Utf8(Some(text)))
            }
            Kind::Date | Kind::Time | Kind::Timestamp | Kind::TimestampTz => {
                self.moment(dice, wild)
            }
            Kind::List => list(dice),
            Kind::File => {
                let path = format!("p{}", dice.roll(paths));
                (format!("IDKEY('{path}')"), ScalarValue::Utf8(Some(path)))
            }
            _ => self.whole(dice, wild),
        };
        Cell { sql, value }
    }

    fn whole(self, dice: &mut Dice, wild: bool) -> (String, ScalarValue) {
        let ends = match self {
            Kind::TinyInt => [i128::from(i8::MIN), i128::from(i8::MAX)],
            Kind::SmallInt => [i128::from(i16::MIN), i128::from(i16::MAX)],
            Kind::Int => [i128::from(i32::MIN), i128::from(i32::MAX)],
            Kind::UnsignedInt => [0, i128::from(u32::MAX)],
            Kind::UnsignedBigInt => [0, i128::from(u64::MAX)],
            _ => [i128::from(i64::MIN), i128::from(i64::MAX)],
        };
        let value = match wild {
            true => ends[dice.roll(2)],
            false => i128::from(dice.between(-4, 11)).max(ends[0]),
        };
        let kept = match self {
            Kind::TinyInt => ScalarValue::Int8(Some(value as i8)),
            Kind::SmallInt => ScalarValue::Int16(Some(value as i16)),
            Kind::Int => ScalarValue::Int32(Some(value as i32)),
            Kind::UnsignedInt => ScalarValue::UInt32(Some(value as u32)),
            Kind::UnsignedBigInt => ScalarValue::UInt64(Some(value as u64)),
            _ => ScalarValue::Int64(Some(value as i64)),
        };
        (value.to_string(), kept)
    }

    /// In quarters: so sums are exact, in whatever order they are made.
    fn fraction(self, dice: &mut Dice, wild: bool) -> (String, ScalarValue) {
        let quarters = dice.between(-8, 12);
        let value = quarters as f64 / 4.0;
        if self == Kind::Decimal {
            let hundredths = match wild {
                true => [-9_999_999_999, 9_999_999_999][dice.roll(2)],
                false => quarters * 25,
            };
            let sign = if hundredths < 0 { "-" } else { "" };
            let (units, rest) = (hundredths.abs() / 100, hundredths.abs() % 100);
            let kept = ScalarValue::Decimal128(Some(i128::from(hundredths)), 10, 2);
            return (format!("{sign}{units}.{rest:02}"), kept);
        }
        let value = match wild {
            true => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][dice.roll(3)],
            false if quarters == 0 && dice.one_in(2) => -0.0,
            false => value,
        };
        let sql = match value.is_finite() {
            true => format!("{value:?}"),
            // There is one NaN, however it is spelt.
            false if value.is_nan() => dice.pick(&["'NaN'", "'-NaN'"]).to_owned(),
            false if value > 0.0 => "'Infinity'".to_owned(),
            false => "'-Infinity'".to_owned(),
        };
        match self {
            Kind::Real => (sql, ScalarValue::Float32(Some(value as f32))),
            _ => (sql, ScalarValue::Float64(Some(value))),
        }
    }

    fn moment(self, dice: &mut Dice, wild: bool) -> (String, ScalarValue) {
        let (days, date) = match wild {
            true => {
                let (days, date) = WILD_DAYS[dice.roll(WILD_DAYS.len())];
                (days, date.to_owned())
            }
            false => {
                let day = dice.roll(8) as i64;
                (DAY + day, format!("2024-01-{:02}", day + 1))
            }
        };
        let hour = dice.roll(4) as i64 * 7;
        let half = dice.roll(2) as i64;
        let time = format!("{hour:02}:00:00{}", if half == 1 { ".5" } else { "" });
        let micros = hour * 3_600_000_000 + half * 500_000;
        let at = days * DAY_MICROS + micros;
        match self {
            Kind::Date => (quoted(&date), ScalarValue::Date32(Some(days as i32))),
            Kind::Time => (quoted(&time), ScalarValue::Time64Microsecond(Some(micros))),
            Kind::Timestamp => (
                quoted(&format!("{date} {time}")),
                ScalarValue::TimestampMicrosecond(Some(at), None),
            ),
            _ => (
                quoted(&in_zone(dice, &date, hour, half == 1)),
                ScalarValue::TimestampMicrosecond(Some(at), Some("+00:00".into())),
            ),
        }
    }
}

impl Class {
    /// Those that expressions are made of.
    pub(crate) const SORTED: [Class; 11] = [
        Class::Bool,
        Class::Int,
        Class::Float,
        Class::Decimal,
        Class::Text,
        Class::Bytes,
        Class::Uuid,
        Class::Date,
        Class::Time,
        Class::Timestamp,
        Class::TimestampTz,
    ];

    /// Whether values of it can be sorted, grouped and compared.
    pub(crate) fn has_order(self) -> bool {
        self != Class::List
    }

    /// A type of this class.
    pub(crate) fn kind(self, dice: &mut Dice) -> Kind {
        let kinds: Vec<Kind> = Kind::ALL
            .into_iter()
            .filter(|k| k.class() == self)
            .collect();
        dice.choose(&kinds).copied().unwrap_or(Kind::File)
    }
}

/// A value as keys have it: there is one zero.
pub(crate) fn in_key(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float32(Some(number)) => ScalarValue::Float32(Some(number + 0.0)),
        ScalarValue::Float64(Some(number)) => ScalarValue::Float64(Some(number + 0.0)),
        other => other,
    }
}

impl Cell {
    /// A text with the one character that no statement can have.
    pub(crate) fn with_nul(dice: &mut Dice) -> Cell {
        let text = dice.pick(&["\0", "a\0", "a\0b", "\0a"]);
        Cell {
            sql: quoted(&text.escape_default().to_string()),
            value: ScalarValue::Utf8(Some(text.to_owned())),
        }
    }

    /// As the value of a parameter.
    pub(crate) fn bound(&self) -> Option<Value> {
        Some(match &self.value {
            ScalarValue::Boolean(Some(value)) => (*value).into(),
            ScalarValue::Int8(Some(value)) => (*value).into(),
            ScalarValue::Int16(Some(value)) => (*value).into(),
            ScalarValue::Int32(Some(value)) => (*value).into(),
            ScalarValue::Int64(Some(value)) => (*value).into(),
            ScalarValue::UInt32(Some(value)) => (*value).into(),
            ScalarValue::UInt64(Some(value)) => (*value).into(),
            ScalarValue::Float32(Some(value)) => (*value).into(),
            ScalarValue::Float64(Some(value)) => (*value).into(),
            ScalarValue::Decimal128(Some(_), ..) => Value::Decimal(self.sql.clone()),
            ScalarValue::Binary(Some(bytes)) => Value::Bytes(bytes.clone()),
            _ if self.sql.starts_with('\'') => {
                let inside = &self.sql[1..self.sql.len() - 1];
                Value::Text(inside.replace("''", "'"))
            }
            _ => return None,
        })
    }
}

/// A text as SQL writes it.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A moment as some zone's clocks show it; on the day that it is in UTC.
fn in_zone(dice: &mut Dice, date: &str, hour: i64, is_half: bool) -> String {
    let offset = match dice.roll(8) {
        0 => 120,
        1 => 90,
        2 if hour > 0 => -330,
        _ => 0,
    };
    let minutes = hour * 60 + offset;
    let (hours, minutes) = (minutes / 60, minutes % 60);
    let half = if is_half { ".5" } else { "" };
    let sign = if offset < 0 { '-' } else { '+' };
    let (far, rest) = (offset.abs() / 60, offset.abs() % 60);
    format!("{date} {hours:02}:{minutes:02}:00{half}{sign}{far:02}:{rest:02}")
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("X'{digits}'")
}

fn uuid(dice: &mut Dice) -> String {
    let head = ["00000000", "0a000000", "f0000000"][dice.roll(3)];
    format!("{head}-0000-4000-8000-00000000000{:x}", dice.roll(6))
}

fn list(dice: &mut Dice) -> (String, ScalarValue) {
    let items: Vec<Option<i32>> = (0..dice.roll(3))
        .map(|_| (!dice.one_in(4)).then(|| dice.roll(3) as i32))
        .collect();
    let texts: Vec<String> = items
        .iter()
        .map(|item| item.map_or("null".to_owned(), |item| item.to_string()))
        .collect();
    let values: Vec<ScalarValue> = items.into_iter().map(ScalarValue::Int32).collect();
    let list = ScalarValue::new_list(&values, &DataType::Int32, true);
    (format!("'[{}]'", texts.join(", ")), ScalarValue::List(list))
}
