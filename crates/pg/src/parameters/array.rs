//! Arrays of one dimension: `{1,2,NULL}`, and their binary format.

use bytes::{Buf, Bytes};
use lazybase_model::{Error, Result};
use lazybase_query::{Value, array_elements};

use super::{from_binary as value_from_binary, from_text as value_from_text};
use crate::messages::broken;
use crate::types;

/// An array from its text.
pub(super) fn from_text(oid: u32, text: &str) -> Result<Value> {
    let wrong = || Error::invalid("not an array of one dimension").with_sqlstate("22P02");
    let element = types::element_of(oid).ok_or_else(wrong)?;
    let elements = array_elements(text).ok_or_else(wrong)?;
    let value = |text: Option<String>| match text {
        Some(text) => value_from_text(element, &text),
        None => Ok(Value::Null),
    };
    elements
        .into_iter()
        .map(value)
        .collect::<Result<_>>()
        .map(Value::List)
}

/// An array from PostgreSQL's binary format.
pub(super) fn from_binary(bytes: &Bytes) -> Result<Value> {
    let mut rest = bytes.clone();
    let dimensions = number(&mut rest)?;
    number(&mut rest)?;
    let element = number(&mut rest)? as u32;
    if dimensions == 0 {
        return Ok(Value::List(vec![]));
    }
    // An array of arrays would have more dimensions; nobody nests what is read here.
    if dimensions != 1 || types::element_of(element).is_some() {
        return Err(Error::invalid("an array of several dimensions").with_sqlstate("0A000"));
    }
    let count = number(&mut rest)?;
    number(&mut rest)?;
    if count < 0 {
        return Err(broken("an array has a negative count"));
    }
    let mut one = |_: i32| match number(&mut rest)? {
        -1 => Ok(Value::Null),
        length => match usize::try_from(length) {
            Ok(length) if length <= rest.len() => {
                value_from_binary(element, &rest.split_to(length))
            }
            _ => Err(broken("an array's element is cut off")),
        },
    };
    let values = (0..count).map(&mut one).collect::<Result<_>>()?;
    match rest.is_empty() {
        true => Ok(Value::List(values)),
        false => Err(broken("bytes are left over after an array")),
    }
}

fn number(rest: &mut Bytes) -> Result<i32> {
    match rest.first_chunk::<4>() {
        Some(bytes) => {
            let number = i32::from_be_bytes(*bytes);
            rest.advance(4);
            Ok(number)
        }
        None => Err(broken("an array is cut off")),
    }
}
