//! Arrays of one dimension: `{1,2,NULL}`, and their binary format.

use bytes::{Buf, Bytes};
use lazybase_model::{Error, Result};
use lazybase_query::Value;

use super::{from_binary as value_from_binary, from_text as value_from_text};
use crate::messages::broken;
use crate::types;

/// An array from its text.
pub(super) fn from_text(oid: u32, text: &str) -> Result<Value> {
    let wrong = || Error::invalid("not an array of one dimension").with_sqlstate("22P02");
    let element = types::element_of(oid).ok_or_else(wrong)?;
    let inside = text
        .trim()
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'));
    let inside = inside.ok_or_else(wrong)?;
    if inside.trim().is_empty() {
        return Ok(Value::List(vec![]));
    }
    let mut values = Vec::new();
    let mut rest = inside.chars().peekable();
    loop {
        let (mut item, mut quoted) = (String::new(), false);
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        if rest.next_if_eq(&'"').is_some() {
            quoted = true;
            loop {
                match rest.next().ok_or_else(wrong)? {
                    '"' => break,
                    '\\' => item.push(rest.next().ok_or_else(wrong)?),
                    other => item.push(other),
                }
            }
            while rest.next_if(|c| c.is_whitespace()).is_some() {}
        } else {
            while let Some(c) = rest.next_if(|c| *c != ',') {
                match c {
                    '{' | '}' | '"' => return Err(wrong()),
                    '\\' => item.push(rest.next().ok_or_else(wrong)?),
                    other => item.push(other),
                }
            }
            item.truncate(item.trim_end().len());
        }
        values.push(match !quoted && item.eq_ignore_ascii_case("null") {
            true => Value::Null,
            false => value_from_text(element, &item)?,
        });
        match rest.next() {
            None => return Ok(Value::List(values)),
            Some(',') => {}
            Some(_) => return Err(wrong()),
        }
    }
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
    let one = |_| match number(&mut rest)? {
        -1 => Ok(Value::Null),
        length => match usize::try_from(length) {
            Ok(length) if length <= rest.len() => {
                value_from_binary(element, &rest.split_to(length))
            }
            _ => Err(broken("an array's element is cut off")),
        },
    };
    (0..count).map(one).collect::<Result<_>>().map(Value::List)
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
