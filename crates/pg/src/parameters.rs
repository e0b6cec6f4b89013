//! Values of parameters, from text or from PostgreSQL's binary formats.
//!
//! Reads bytes of a client; no I/O. Invariant PAR-2: what is no value of its type is refused with
//! the number of its parameter, never guessed.

use arrow::datatypes::DataType;
use bytes::Bytes;
use lazybase_model::{Error, Result};
use lazybase_query::Value;

use crate::messages::broken;
use crate::{decimal, moments, types};

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
    let text = std::str::from_utf8(bytes);
    let text = text.ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| Error::invalid("the text is not UTF-8").with_sqlstate("22021"))
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
        types::INT2 | types::INT4 | types::INT8 | types::OID => {
            Value::Int(trimmed.parse().map_err(|_| wrong(text, "integer"))?)
        }
        types::FLOAT4 | types::FLOAT8 => Value::Float(
            trimmed
                .parse()
                .map_err(|_| wrong(text, "double precision"))?,
        ),
        types::NUMERIC => number(trimmed).ok_or_else(|| wrong(text, "numeric"))?,
        types::BYTEA => Value::Bytes(bytea(text).ok_or_else(|| wrong(text, "bytea"))?),
        types::DATE | types::TIME | types::TIMESTAMP | types::TIMESTAMPTZ | types::INTERVAL => {
            typed(oid, trimmed.to_owned())
        }
        array if types::element_of(array).is_some() => array::from_text(array, text)?,
        _ => Value::Text(text.to_owned()),
    })
}

/// A text of a type whose texts alone don't tell it.
fn typed(oid: u32, text: String) -> Value {
    match types::to_arrow(oid) {
        Some(data_type) => Value::Typed(data_type, text),
        None => Value::Text(text),
    }
}

/// A decimal number.
fn number(text: &str) -> Option<Value> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let plain = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let points = digits.bytes().filter(|byte| *byte == b'.').count();
    let any = digits.bytes().any(|byte| byte.is_ascii_digit());
    match plain && any && points <= 1 {
        true => Some(Value::Decimal(text.trim_start_matches('+').to_owned())),
        // An exponent, or not a number.
        false => text.parse().ok().map(Value::Float),
    }
}

/// Bytes, in hexadecimal digits or in the older way with backslashes.
fn bytea(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: Option<Vec<u8>> = digits
            .chars()
            .map(|c| c.to_digit(16).map(|digit| digit as u8))
            .collect();
        let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
        return Some(
            digits
                .chunks(2)
                .map(|pair| pair[0] << 4 | pair[1])
                .collect(),
        );
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
        types::NUMERIC => {
            let text = decimal::text(bytes)?;
            number(&text).ok_or_else(|| wrong(&text, "numeric"))?
        }
        types::BYTEA => Value::Bytes(bytes.to_vec()),
        types::UUID => Value::Text(uuid(fixed(bytes)?)),
        types::DATE => {
            let days = i32::from_be_bytes(fixed(bytes)?).checked_add(moments::EPOCH_DAYS);
            let days = days.ok_or_else(out_of_range)?;
            moment(&|out| moments::date(days, out))
        }
        types::TIME => {
            let micros = i64::from_be_bytes(fixed(bytes)?);
            if !(0..=moments::DAY_MICROS).contains(&micros) {
                return Err(out_of_range());
            }
            moment(&|out| moments::time(micros, out))
        }
        types::TIMESTAMP | types::TIMESTAMPTZ => {
            let micros = i64::from_be_bytes(fixed(bytes)?).checked_add(moments::EPOCH_MICROS);
            let micros = micros.ok_or_else(out_of_range)?;
            moment(&|out| moments::timestamp(micros, oid == types::TIMESTAMPTZ, out))
        }
        types::INTERVAL => interval(fixed(bytes)?),
        types::JSONB => match bytes.split_first() {
            Some((1, text)) => Value::Text(text_of(text)?.to_owned()),
            _ => return Err(broken("binary JSON begins with its version, 1")),
        },
        types::TEXT | types::VARCHAR | types::JSON | types::UNKNOWN | 0 | 18 | 19 | 1042 => {
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

/// A UUID as text.
fn uuid(bytes: [u8; 16]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| digits[from..to].concat();
    [
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 16),
    ]
    .join("-")
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

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| {
        Error::invalid(format!("{} bytes where {N} make a value", bytes.len()))
            .with_sqlstate("22P03")
    })
}

fn out_of_range() -> Error {
    Error::invalid("the value is out of range").with_sqlstate("22008")
}
