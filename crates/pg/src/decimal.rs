//! Decimal numbers in PostgreSQL's binary format: digits of base 10,000 with a weight.

use bytes::{BufMut, Bytes, BytesMut};
use lazybase_model::Result;

use crate::messages::broken;

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const POSITIVE_INFINITY: u16 = 0xd000;
const NEGATIVE_INFINITY: u16 = 0xf000;
/// The most digits on either side of the point that are read.
const DIGITS_MAX: i32 = 4096;

/// The most digits that a number of SQL has.
pub(crate) const SQL_DIGITS_MAX: usize = 76;

/// A number without an exponent or a plus sign; `None` for what is no number.
pub(crate) fn plain(text: &str) -> Option<String> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, exponent) = match rest.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (rest, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = [whole, fraction].concat();
    let are_digits = all.bytes().all(|byte| byte.is_ascii_digit());
    let is_written = (-DIGITS_MAX..=DIGITS_MAX).contains(&exponent);
    if all.is_empty() || !are_digits || !is_written {
        return None;
    }
    let point = whole.len() as i32 + exponent;
    let padding = |zeros: i32| "0".repeat(zeros.max(0) as usize);
    let length = all.len() as i32;
    Some(match point {
        point if point <= 0 => format!("{sign}0.{}{all}", padding(-point)),
        point if point >= length => format!("{sign}{all}{}", padding(point - length)),
        point => {
            let (whole, fraction) = all.split_at(point as usize);
            format!("{sign}{whole}.{fraction}")
        }
    })
}

/// Appends the number that a plain text (`-12.50`) spells.
pub(crate) fn put(text: &str, out: &mut BytesMut) {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    let mut groups: Vec<i16> = Vec::with_capacity(whole.len() / 4 + fraction.len() / 4 + 2);
    let group = |digits: &str| {
        let number = digits
            .bytes()
            .fold(0, |sum, d| sum * 10 + i16::from(d - b'0'));
        number * 10_i16.pow(4 - digits.len() as u32)
    };
    let lead = whole.len() % 4;
    if lead > 0 {
        groups.push(
            whole[..lead]
                .bytes()
                .fold(0, |sum, d| sum * 10 + i16::from(d - b'0')),
        );
    }
    groups.extend(
        (lead..whole.len())
            .step_by(4)
            .map(|at| group(&whole[at..at + 4])),
    );
    let mut weight = groups.len() as i16 - 1;
    let ends = (0..fraction.len()).step_by(4);
    groups.extend(ends.map(|at| group(&fraction[at..fraction.len().min(at + 4)])));
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    weight -= zeros as i16;
    let last = groups.iter().rposition(|group| *group != 0);
    let groups = last.map_or(&[][..], |last| &groups[zeros..=last]);
    out.put_i16(groups.len() as i16);
    out.put_i16(if groups.is_empty() { 0 } else { weight });
    out.put_u16(if negative && !groups.is_empty() {
        NEGATIVE
    } else {
        0
    });
    out.put_u16(fraction.len() as u16);
    for group in groups {
        out.put_i16(*group);
    }
}

/// The text of a number.
///
/// # Errors
/// `Invalid` (08P01) for bytes that are no number.
pub(crate) fn text(bytes: &Bytes) -> Result<String> {
    let short = || broken("a binary number is too short");
    let head = bytes.first_chunk::<8>().ok_or_else(short)?;
    let part = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (count, weight) = (usize::from(part(0)), i32::from(part(2) as i16));
    let (sign, scale) = (part(4), i32::from(part(6)));
    match sign {
        NAN => return Ok("NaN".to_owned()),
        POSITIVE_INFINITY => return Ok("Infinity".to_owned()),
        NEGATIVE_INFINITY => return Ok("-Infinity".to_owned()),
        0 | NEGATIVE => {}
        _ => return Err(broken("a binary number has no such sign")),
    }
    if bytes.len() != 8 + 2 * count {
        return Err(short());
    }
    if weight.saturating_mul(4) > DIGITS_MAX || scale > DIGITS_MAX {
        return Err(broken("a binary number has too many digits"));
    }
    let digits: Vec<u16> = bytes[8..]
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
        .collect();
    if digits.iter().any(|digit| *digit > 9_999) {
        return Err(broken("a binary number has a digit above 9999"));
    }
    let digit = |place: i32| {
        let at = usize::try_from(weight - place).ok();
        at.and_then(|at| digits.get(at)).copied().unwrap_or(0)
    };
    let mut text = if sign == NEGATIVE {
        "-".to_owned()
    } else {
        String::new()
    };
    match weight < 0 {
        true => text.push('0'),
        false => {
            text.push_str(&digit(weight).to_string());
            (0..weight)
                .rev()
                .for_each(|place| text.push_str(&format!("{:04}", digit(place))));
        }
    }
    if scale > 0 {
        text.push('.');
        let end = text.len() + scale as usize;
        let mut place = -1;
        while text.len() < end {
            text.push_str(&format!("{:04}", digit(place)));
            place -= 1;
        }
        text.truncate(end);
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
