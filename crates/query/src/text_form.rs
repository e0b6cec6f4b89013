//! Values as PostgreSQL spells them: what its clients are sent as text, and what a cast to TEXT
//! gives.
//!
//! | value                | text                    |
//! | -------------------- | ----------------------- |
//! | timestamp, interval  | `2024-01-15 10:20:30.5`, `1 mon 2 days 03:00:00` |
//! | 0.5, 1, 1e20         | `0.5`, `1`, `1e+20`     |
//! | list                 | `{1,NULL,"a b"}`        |
//! | bytes                | `\x00ff`                |
//!
//! Pure. Invariant MOM-1: every number of microseconds has a text; years before 1 are `BC`, as
//! there.

use std::fmt::{Display, LowerExp, Write};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, IntervalMonthDayNanoArray, ListArray, StringArray,
    StringBuilder,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, DurationMicrosecondType, Float32Type, Float64Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampSecondType,
};
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;

use crate::array_text::put_array_element;
use crate::hex::put_hex;
use crate::moments::civil;

/// The days from 1970-01-01 to 2000-01-01, which PostgreSQL counts from.
pub const EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
pub const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * DAY_MICROS;
/// The seconds of a day.
const DAY_SECONDS: i64 = 86_400;
/// The microseconds of a day.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// Appends a date; it is before year 1 where that is given back.
fn put_date(days: i64, out: &mut impl Write) -> bool {
    let (year, month, day) = civil(days);
    let before = year < 1;
    let year = if before { 1 - year } else { year };
    let _ = write!(out, "{year:04}-{month:02}-{day:02}");
    before
}

/// Appends a date.
pub fn date(days: i32, out: &mut impl Write) {
    if put_date(i64::from(days), out) {
        let _ = out.write_str(" BC");
    }
}

/// Appends a time of day, its fraction without the zeros at its end.
pub fn time(micros: i64, out: &mut impl Write) {
    clock(micros / 1_000_000, micros % 1_000_000 * 1_000, out);
}

/// The same of a time of day in nanoseconds.
pub fn time_of_nanos(nanos: i64, out: &mut impl Write) {
    clock(nanos / 1_000_000_000, nanos % 1_000_000_000, out);
}

fn clock(seconds: i64, nanos: i64, out: &mut impl Write) {
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let _ = write!(out, "{hour:02}:{minute:02}:{second:02}");
    fraction(nanos, out);
}

fn fraction(nanos: i64, out: &mut impl Write) {
    if nanos != 0 {
        let digits = format!("{nanos:09}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
}

/// Appends a timestamp; with a zone it is one of UTC.
pub fn timestamp(micros: i64, zone: bool, out: &mut impl Write) {
    let seconds = micros.div_euclid(1_000_000);
    moment(seconds, micros.rem_euclid(1_000_000) * 1_000, zone, out);
}

/// The same of a timestamp in nanoseconds.
pub fn timestamp_of_nanos(nanos: i64, zone: bool, out: &mut impl Write) {
    let seconds = nanos.div_euclid(1_000_000_000);
    moment(seconds, nanos.rem_euclid(1_000_000_000), zone, out);
}

fn moment(seconds: i64, nanos: i64, zone: bool, out: &mut impl Write) {
    let before = put_date(seconds.div_euclid(DAY_SECONDS), out);
    let _ = out.write_char(' ');
    clock(seconds.rem_euclid(DAY_SECONDS), nanos, out);
    if zone {
        let _ = out.write_str("+00");
    }
    if before {
        let _ = out.write_str(" BC");
    }
}

/// Appends an interval; what is positive behind something negative has a sign.
pub fn interval(months: i32, days: i32, micros: i64, out: &mut impl Write) {
    let (mut space, mut before) = ("", false);
    for (count, name) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if count != 0 {
            let plus = if before && count > 0 { "+" } else { "" };
            let many = if count == 1 { "" } else { "s" };
            let _ = write!(out, "{space}{plus}{count} {name}{many}");
            (space, before) = (" ", count < 0);
        }
    }
    if micros != 0 || space.is_empty() {
        let sign = match micros {
            ..0 => "-",
            _ if before => "+",
            _ => "",
        };
        let micros = micros.unsigned_abs();
        let seconds = micros / 1_000_000;
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        let _ = write!(out, "{space}{sign}{hour:02}:{minute:02}:{second:02}");
        fraction((micros % 1_000_000) as i64 * 1_000, out);
    }
}

/// How intervals are written that clients are sent as text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 mon 2 days 00:00:03`.
    #[default]
    Postgres,
    /// `P1M2DT3S`.
    Iso8601,
}

impl IntervalStyle {
    /// What SQL calls it.
    pub fn name(self) -> &'static str {
        match self {
            IntervalStyle::Postgres => "postgres",
            IntervalStyle::Iso8601 => "iso_8601",
        }
    }
}

/// Appends an interval in the style of ISO 8601, each part with its own sign.
pub fn iso_interval(months: i32, days: i32, micros: i64, out: &mut impl Write) {
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    let of_date = [(months / 12, 'Y'), (months % 12, 'M'), (days, 'D')];
    let of_day = [(seconds / 3_600, 'H'), (seconds / 60 % 60, 'M')];
    // Writing to memory can't fail.
    let _ = out.write_char('P');
    for (count, unit) in of_date.into_iter().filter(|(count, _)| *count != 0) {
        let _ = write!(out, "{count}{unit}");
    }
    let is_nothing = months == 0 && days == 0 && micros == 0;
    if micros != 0 || is_nothing {
        let _ = out.write_char('T');
    }
    for (count, unit) in of_day.into_iter().filter(|(count, _)| *count != 0) {
        let _ = write!(out, "{count}{unit}");
    }
    if seconds % 60 != 0 || rest != 0 || is_nothing {
        let sign = if micros < 0 { "-" } else { "" };
        let _ = write!(out, "{sign}{}", (seconds % 60).abs());
        fraction(rest.abs() * 1_000, out);
        let _ = out.write_char('S');
    }
}

/// Appends a floating-point number as briefly as it can be read back: `value` for its size, `shown`
/// for its digits, which are those of its own width.
pub fn float(value: f64, shown: impl Display + LowerExp, out: &mut impl Write) {
    let size = value.abs();
    // Writing to memory can't fail.
    let _ = match () {
        () if value.is_nan() => out.write_str("NaN"),
        () if value.is_infinite() && value > 0.0 => out.write_str("Infinity"),
        () if value.is_infinite() => out.write_str("-Infinity"),
        () if size != 0.0 && !(1e-4..1e15).contains(&size) => {
            let text = format!("{shown:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let exponent: i32 = exponent.parse().unwrap_or(0);
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(out, "{digits}e{sign}{:02}", exponent.abs())
        }
        () => write!(out, "{shown}"),
    };
}

/// The differences of moments as intervals: days of 24 hours, and what is left of them.
///
/// # Errors
/// Arrow's, for one that is out of the range of microseconds.
pub fn intervals(durations: &ArrayRef) -> Result<IntervalMonthDayNanoArray, ArrowError> {
    let micros = DataType::Duration(TimeUnit::Microsecond);
    let options = CastOptions {
        safe: false,
        format_options: FormatOptions::new(),
    };
    let micros = cast_with_options(durations, &micros, &options)?;
    let micros = micros.as_primitive::<DurationMicrosecondType>();
    micros.try_unary(|micros| {
        let days = i32::try_from(micros / DAY_MICROS)
            .map_err(|_| ArrowError::ComputeError("interval out of range: overflow".to_owned()))?;
        let nanos = micros % DAY_MICROS * 1_000;
        Ok(IntervalMonthDayNanoType::make_value(0, days, nanos))
    })
}

/// The days since 1970 of 0001-01-01 and 10000-01-01: Arrow has signs before other years.
const NEAR_DAYS: Range<i64> = -719_162..2_932_897;

/// The text of a value that is not NULL, where Arrow spells it otherwise and files and tables
/// should not: intervals, infinities, dates and timestamps before year 1 or after 9999. `None` for
/// all else, and where no text here tells the whole value: intervals finer than a microsecond.
/// Nanoseconds count no year so far away.
pub fn own_text(column: &dyn Array, row: usize) -> Option<String> {
    let mut text = String::new();
    let micros = match column.data_type() {
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(row);
            return infinity(value.into());
        }
        DataType::Float64 => return infinity(column.as_primitive::<Float64Type>().value(row)),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = column.as_primitive::<IntervalMonthDayNanoType>().value(row);
            if value.nanoseconds % 1_000 != 0 {
                return None;
            }
            interval(
                value.months,
                value.days,
                value.nanoseconds / 1_000,
                &mut text,
            );
            return Some(text);
        }
        DataType::Date32 => {
            let days = column.as_primitive::<Date32Type>().value(row);
            if NEAR_DAYS.contains(&i64::from(days)) {
                return None;
            }
            date(days, &mut text);
            return Some(text);
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            let seconds = column.as_primitive::<TimestampSecondType>().value(row);
            seconds.checked_mul(1_000_000)?
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            let millis = column.as_primitive::<TimestampMillisecondType>().value(row);
            millis.checked_mul(1_000)?
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            column.as_primitive::<TimestampMicrosecondType>().value(row)
        }
        _ => return None,
    };
    if NEAR_DAYS.contains(&micros.div_euclid(DAY_MICROS)) {
        return None;
    }
    let zoned = matches!(column.data_type(), DataType::Timestamp(_, Some(_)));
    timestamp(micros, zoned, &mut text);
    Some(text)
}

fn infinity(value: f64) -> Option<String> {
    value.is_infinite().then(|| {
        let mut text = String::new();
        float(value, value, &mut text);
        text
    })
}

/// Whether a cast to TEXT by Arrow gives something else than [`texts`].
pub(crate) fn is_spelt_otherwise(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Date32
            | DataType::Date64
            | DataType::Timestamp(..)
            | DataType::Duration(_)
            | DataType::Interval(_)
            | DataType::Float16
            | DataType::Float32
            | DataType::Float64
            | DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    )
}

/// The texts of a column's values.
///
/// # Errors
/// Arrow's, for a value that is out of the range of microseconds, or has no text.
pub(crate) fn texts(column: &ArrayRef) -> Result<StringArray, ArrowError> {
    let values = Values::of(column)?;
    let mut texts = StringBuilder::new();
    let mut text = String::new();
    for row in 0..column.len() {
        if column.is_null(row) || column.data_type().is_null() {
            texts.append_null();
            continue;
        }
        text.clear();
        values.put(row, &mut text);
        texts.append_value(&text);
    }
    Ok(texts.finish())
}

/// The values of a column by how they are spelt.
enum Values {
    F32(ArrayRef),
    F64(ArrayRef),
    Date(ArrayRef),
    /// In microseconds; whether it has a zone.
    Timestamp(ArrayRef, bool),
    /// In nanoseconds; whether it has a zone.
    Nanos(ArrayRef, bool),
    Interval(IntervalMonthDayNanoArray),
    Bytes(BinaryArray),
    List(ListArray, Box<Values>),
    Other(StringArray),
}

impl Values {
    fn of(column: &ArrayRef) -> Result<Values, ArrowError> {
        const CHECKED: CastOptions<'static> = CastOptions {
            safe: false,
            format_options: FormatOptions::new(),
        };
        let to = |wanted: &DataType| cast_with_options(column, wanted, &CHECKED);
        Ok(match column.data_type() {
            DataType::Float32 => Values::F32(Arc::clone(column)),
            DataType::Float16 | DataType::Float64 => Values::F64(to(&DataType::Float64)?),
            DataType::Date32 | DataType::Date64 => Values::Date(to(&DataType::Date32)?),
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                Values::Nanos(to(&DataType::Int64)?, zone.is_some())
            }
            DataType::Timestamp(_, zone) => {
                let micros = to(&DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
                Values::Timestamp(cast(&micros, &DataType::Int64)?, zone.is_some())
            }
            DataType::Duration(_) => Values::Interval(intervals(column)?),
            DataType::Interval(_) => {
                let intervals = to(&DataType::Interval(IntervalUnit::MonthDayNano))?;
                Values::Interval(intervals.as_primitive().clone())
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                Values::Bytes(to(&DataType::Binary)?.as_binary().clone())
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                let list = to(&DataType::List(Arc::clone(item)))?;
                let list = list.as_list::<i32>().clone();
                let elements = Values::of(list.values())?;
                Values::List(list, Box::new(elements))
            }
            _ => Values::Other(to(&DataType::Utf8)?.as_string().clone()),
        })
    }

    /// Appends a value that is not NULL.
    fn put(&self, row: usize, out: &mut String) {
        match self {
            Values::F32(array) => {
                let value = array.as_primitive::<Float32Type>().value(row);
                float(value.into(), value, out);
            }
            Values::F64(array) => {
                let value = array.as_primitive::<Float64Type>().value(row);
                float(value, value, out);
            }
            Values::Date(array) => date(array.as_primitive::<Date32Type>().value(row), out),
            Values::Timestamp(array, zone) => {
                timestamp(array.as_primitive::<Int64Type>().value(row), *zone, out);
            }
            Values::Nanos(array, zone) => {
                timestamp_of_nanos(array.as_primitive::<Int64Type>().value(row), *zone, out);
            }
            Values::Interval(array) => {
                let value = array.value(row);
                interval(value.months, value.days, value.nanoseconds / 1_000, out);
            }
            Values::Bytes(array) => {
                out.push_str("\\x");
                put_hex(array.value(row), out);
            }
            Values::List(list, elements) => put_list(list, elements, row, out),
            Values::Other(array) => out.push_str(array.value(row)),
        }
    }
}

fn put_list(list: &ListArray, elements: &Values, row: usize, out: &mut String) {
    let offsets = list.value_offsets();
    let (from, to) = (offsets[row] as usize, offsets[row + 1] as usize);
    let mut element = String::new();
    out.push('{');
    for at in from..to {
        if at > from {
            out.push(',');
        }
        if list.values().is_null(at) {
            out.push_str("NULL");
            continue;
        }
        element.clear();
        elements.put(at, &mut element);
        put_array_element(&element, out);
    }
    out.push('}');
}

#[cfg(test)]
mod tests;
