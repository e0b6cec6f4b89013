//! Values of parameters, from text or from PostgreSQL's binary formats.
//!
//! Reads bytes of a client; no I/O. Invariant PAR-2: what is no value of its type is refused with
//! the number of its parameter, never guessed.

use arrow::datatypes::DataType;
use bytes::Bytes;
use lazybase_model::{Error, Result};
use lazybase_query::{Value, from_hex, from_uuid, nul_byte, put_uuid, text_form};

use crate::messages::broken;
use crate::{decimal, types};

mod array;
#[cfg(test)]
mod tests;

/// The value of parameter `number`, counted from 1.
///
/// # Errors
/// `Invalid`: 22P02 or 22P03 for what is no value of the type, 0A000 for a type that is not known.
pub(crate) fn value(number: usize, oid: u32, format: i16, bytes: Option<&Bytes>) -> Result<Value> {
    let Some(bytes) = bytes else {
        return Ok(Value::Null);
    };
    let value = match format {
        0 => text_of(bytes).and_then(|text| from_text(oid, text)),
        1 => from_binary(oid, bytes),
        other => Err(broken(format!("there is no format {other}"))),
    };
    value.map_err(|error| error.within(format!("parameter ${number}")))
}

fn text_of(bytes: &[u8]) -> Result<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => Err(nul_byte()),
        Ok(text) => Ok(text),
        Err(_) => Err(Error::invalid("the text is not UTF-8").with_sqlstate("22021")),
    }
}

fn wrong(text: &str, type_name: &str) -> Error {
    let short: String = text.chars().take(40).collect();
    Error::invalid(format!("{short:?} is not of type {type_name}")).with_sqlstate("22P02")
}

/// A value from its text.
fn from_text(oid: u32, text: &str) -> Result<Value> {
    let trimmed = text.trim();
    Ok(match oid {
        types::BOOL => match trimmed.to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => Value::Bool(true),
            "f" | "false" | "n" | "no" | "off" | "0" => Value::Bool(false),
            _ => return Err(wrong(text, "boolean")),
        },
        types::INT2 | types::INT4 | types::INT8 | types::OID => integer(trimmed)?,
        types::FLOAT4 => float(trimmed, true)?,
        types::FLOAT8 => float(trimmed, false)?,
        types::NUMERIC => number(trimmed)?,
        types::BYTEA => Value::Bytes(bytea(text).ok_or_else(|| wrong(text, "bytea"))?),
        types::UUID => uuid(&from_uuid(text).ok_or_else(|| wrong(text, "uuid"))?),
        types::DATE | types::TIME | types::TIMESTAMP | types::TIMESTAMPTZ | types::INTERVAL => {
            typed(oid, trimmed.to_owned())
        }
        types::JSON | types::JSONB => Value::Json(text.to_owned()),
        array if types::element_of(array).is_some() => array::from_text(array, text)?,
        _ => Value::Text(text.to_owned()),
    })
}

/// A UUID in the one spelling in which SQL compares it, however the client spelt it.
fn uuid(bytes: &[u8]) -> Value {
    let mut text = String::with_capacity(36);
    put_uuid(bytes, &mut text);
    Value::Text(text)
}

/// A text of a type whose texts alone don't tell it.
fn typed(oid: u32, text: String) -> Value {
    match types::to_arrow(oid) {
        Some(data_type) => Value::Typed(data_type, text),
        None => Value::Text(text),
    }
}

/// A decimal number, with all of its digits.
fn number(text: &str) -> Result<Value> {
    if let Some(plain) = decimal::plain(text) {
        let digits = plain.bytes().filter(u8::is_ascii_digit).count();
        return match digits <= decimal::SQL_DIGITS_MAX {
            true => Ok(Value::Decimal(plain)),
            false => Err(too_large(text, "numeric")),
        };
    }
    match text.to_ascii_lowercase().as_str() {
        "nan" => Ok(Value::Float(f64::NAN)),
        "infinity" | "+infinity" | "inf" => Ok(Value::Float(f64::INFINITY)),
        "-infinity" | "-inf" => Ok(Value::Float(f64::NEG_INFINITY)),
        _ => Err(wrong(text, "numeric")),
    }
}

/// A floating-point number; one of more than it can hold is none.
fn float(text: &str, single: bool) -> Result<Value> {
    let name = if single { "real" } else { "double precision" };
    let value: f64 = text.parse().map_err(|_| wrong(text, name))?;
    let kept = if single {
        f64::from(value as f32)
    } else {
        value
    };
    match kept.is_infinite() && text.contains(|c: char| c.is_ascii_digit()) {
        true => Err(too_large(text, name)),
        false => Ok(Value::Float(value)),
    }
}

fn too_large(text: &str, type_name: &str) -> Error {
    let short: String = text.chars().take(40).collect();
    Error::invalid(format!("{short:?} is out of range for {type_name}")).with_sqlstate("22003")
}

/// A whole number.
fn integer(text: &str) -> Result<Value> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    match text.parse() {
        Ok(number) => Ok(Value::Int(number)),
        Err(_) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(too_large(text, "bigint"))
        }
        Err(_) => Err(wrong(text, "integer")),
    }
}

/// Bytes, in hexadecimal digits or in the older way with backslashes.
fn bytea(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        return from_hex(digits);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        if let Some(after) = rest.strip_prefix(b"\\") {
            bytes.push(b'\\');
            rest = after;
            continue;
        }
        let (octal, after) = rest.split_at_checked(3)?;
        let octal = std::str::from_utf8(octal).ok()?;
        bytes.push(u8::from_str_radix(octal, 8).ok()?);
        rest = after;
    }
    Some(bytes)
}

/// A value from PostgreSQL's binary format.
pub(crate) fn from_binary(oid: u32, bytes: &Bytes) -> Result<Value> {
    let moment = |tell: &dyn Fn(&mut String)| {
        let mut text = String::new();
        tell(&mut text);
        typed(oid, text)
    };
    Ok(match oid {
        types::BOOL => Value::Bool(fixed::<1>(bytes)? != [0]),
        types::INT2 => Value::Int(i16::from_be_bytes(fixed(bytes)?).into()),
        types::INT4 => Value::Int(i32::from_be_bytes(fixed(bytes)?).into()),
        types::OID => Value::Int(u32::from_be_bytes(fixed(bytes)?).into()),
        types::INT8 => Value::Int(i64::from_be_bytes(fixed(bytes)?)),
        types::FLOAT4 => {
            // The digits that the client meant, and not those of the same number in 64 bits.
            let shown = f32::from_be_bytes(fixed(bytes)?).to_string();
            Value::Float(shown.parse().unwrap_or(f64::NAN))
        }
        types::FLOAT8 => Value::Float(f64::from_be_bytes(fixed(bytes)?)),
        types::NUMERIC => number(&decimal::text(bytes)?)?,
        types::BYTEA => Value::Bytes(bytes.to_vec()),
        types::UUID => uuid(&fixed::<16>(bytes)?),
        types::DATE => {
            let days = days(bytes)?;
            moment(&|out| text_form::date(days, out))
        }
        types::TIME => {
            let micros = micros_of_day(bytes)?;
            moment(&|out| text_form::time(micros, out))
        }
        types::TIMESTAMP | types::TIMESTAMPTZ => {
            let micros = micros(bytes)?;
            moment(&|out| text_form::timestamp(micros, oid == types::TIMESTAMPTZ, out))
        }
        types::INTERVAL => interval(fixed(bytes)?),
        types::JSONB => match bytes.split_first() {
            Some((1, text)) => Value::Json(text_of(text)?.to_owned()),
            _ => return Err(broken("binary JSON begins with its version, 1")),
        },
        types::JSON => Value::Json(text_of(bytes)?.to_owned()),
        types::TEXT | types::VARCHAR | types::UNKNOWN | 0 | 18 | 19 | 1042 => {
            Value::Text(text_of(bytes)?.to_owned())
        }
        array if types::element_of(array).is_some() => array::from_binary(bytes)?,
        other => {
            return Err(
                Error::invalid(format!("the type of number {other} is not known"))
                    .with_hint("send the value as text")
                    .with_sqlstate("0A000"),
            );
        }
    })
}

/// An interval: microseconds, days, months.
fn interval(bytes: [u8; 16]) -> Value {
    let number = |from: usize, to: usize| {
        let digits = bytes[from..to].iter();
        digits.fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let (micros, days, months) = (number(0, 8) as i64, number(8, 12), number(12, 16));
    Value::Typed(
        DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano),
        format!(
            "{} months {} days {micros} microseconds",
            months as u32 as i32, days as u32 as i32
        ),
    )
}

/// The days since 1970 of a date; PostgreSQL's infinite ones are none here.
pub(crate) fn days(bytes: &[u8]) -> Result<i32> {
    let days = i32::from_be_bytes(fixed(bytes)?);
    let finite = Some(days).filter(|days| !matches!(*days, i32::MIN | i32::MAX));
    finite
        .and_then(|days| days.checked_add(text_form::EPOCH_DAYS))
        .ok_or_else(out_of_range)
}

/// The microseconds of a time of day.
pub(crate) fn micros_of_day(bytes: &[u8]) -> Result<i64> {
    let micros = i64::from_be_bytes(fixed(bytes)?);
    match (0..text_form::DAY_MICROS).contains(&micros) {
        true => Ok(micros),
        false => Err(out_of_range()),
    }
}

/// The microseconds since 1970 of a timestamp; PostgreSQL's infinite ones are none here.
pub(crate) fn micros(bytes: &[u8]) -> Result<i64> {
    let micros = i64::from_be_bytes(fixed(bytes)?);
    let finite = Some(micros).filter(|micros| !matches!(*micros, i64::MIN | i64::MAX));
    finite
        .and_then(|micros| micros.checked_add(text_form::EPOCH_MICROS))
        .ok_or_else(out_of_range)
}

/// A value of so many bytes.
pub(crate) fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| {
        Error::invalid(format!("{} bytes where {N} make a value", bytes.len()))
            .with_sqlstate("22P03")
    })
}

fn out_of_range() -> Error {
    Error::invalid("the value is out of range").with_sqlstate("22008")
}
