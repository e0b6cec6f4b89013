//! Dates, timestamps and intervals as PostgreSQL writes them, where Arrow reads them otherwise:
//! years before 1 and after 9999, moments without seconds, and intervals with a time of day; pure.

use std::fmt::Write;

use arrow::array::types::{Date32Type, Time64MicrosecondType};
use arrow::compute::kernels::cast_utils::Parser;

#[cfg(test)]
mod tests;

const DAY_MICROS: i64 = 86_400_000_000;

/// The days since 1970 of a date before year 1 or after 9999; `None` for every other text.
pub(crate) fn far_date(text: &str) -> Option<i32> {
    let (text, before) = era(text);
    days(text, before)
}

/// The microseconds since 1970 of a timestamp of such a day, in UTC; `None` for every other text.
pub(crate) fn far_timestamp(text: &str) -> Option<i64> {
    let (text, before) = era(text);
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (date, time.trim()),
        None => (text, "00:00:00"),
    };
    let time = ["+00:00", "+00", "Z"]
        .iter()
        .find_map(|zone| time.strip_suffix(zone))
        .unwrap_or(time);
    let days = i64::from(days(date, before)?);
    let micros = Time64MicrosecondType::parse(time)?;
    days.checked_mul(DAY_MICROS)?.checked_add(micros)
}

/// A date or timestamp in full, of one that lacks seconds or the leading zeros of a number, as
/// PostgreSQL reads it; `None` for every other text.
pub(crate) fn spelt_moment(text: &str) -> Option<String> {
    if is_full(text.as_bytes()) {
        return None;
    }
    let text = text.trim();
    let (date, time) = match text.split_once([' ', 'T', 't']) {
        Some((date, time)) => (date, Some(time.trim())),
        None => (text, None),
    };
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if year.len() < 4 {
        return None;
    }
    let mut spelt = format!(
        "{}-{:02}-{:02}",
        digits(year, 6).map(|_| year)?,
        digits(month, 2)?,
        digits(day, 2)?
    );
    let Some(time) = time else {
        return Some(spelt);
    };
    let zone = time.find(|c: char| !matches!(c, '0'..='9' | ':' | '.'));
    let (clock, zone) = time.split_at(zone.unwrap_or(time.len()));
    let mut parts = clock.splitn(3, ':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = parts.next().unwrap_or("0");
    let (second, fraction) = match second.split_once('.') {
        Some((second, fraction)) => (second, Some(fraction)),
        None => (second, None),
    };
    let second = digits(second, 2)?;
    let _ = write!(spelt, " {hour:02}:{minute:02}:{second:02}");
    if let Some(fraction) = fraction.filter(|fraction| !fraction.is_empty()) {
        spelt.push('.');
        spelt.push_str(fraction);
    }
    spelt.push_str(zone.trim_start());
    Some(spelt)
}

/// Whether a text begins with a date, or a date and a time, in full.
fn is_full(text: &[u8]) -> bool {
    let day = |text: &[u8]| {
        let hyphens = text[4] == b'-' && text[7] == b'-';
        let numbers = [0, 1, 2, 3, 5, 6, 8, 9];
        hyphens && numbers.iter().all(|at| text[*at].is_ascii_digit())
    };
    match text.len() {
        10 => day(text),
        19.. => day(text) && text[13] == b':' && text[16] == b':',
        _ => false,
    }
}

/// A number of at most so many digits.
fn digits(text: &str, most: usize) -> Option<u32> {
    let inside = (1..=most).contains(&text.len());
    let number = inside && text.bytes().all(|byte| byte.is_ascii_digit());
    number.then(|| text.parse().ok())?
}

/// A text without the word that says it is before year 1.
fn era(text: &str) -> (&str, bool) {
    let text = text.trim();
    match text.strip_suffix("BC") {
        Some(rest) => (rest.trim_end(), true),
        None => (text, false),
    }
}

fn days(date: &str, before: bool) -> Option<i32> {
    // As ISO has them, and files that were written here.
    if !before && date.starts_with(['+', '-']) {
        return Date32Type::parse(date);
    }
    let (year, rest) = date.split_once('-')?;
    let digits = year.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || year.len() < 4 || !(before || year.len() > 4) {
        return None;
    }
    let year: i64 = year.parse().ok()?;
    // Between the years 1 BC and 1 there is none; ISO's year 0 is 1 BC.
    let iso = match before {
        true if year == 0 => return None,
        true => format!("-{:04}-{rest}", year - 1),
        false => format!("+{year}-{rest}"),
    };
    Date32Type::parse(&iso)
}

/// An interval whose time of day is written out in hours, minutes and seconds, as Arrow reads it;
/// `None` for one without such a time.
pub(crate) fn spelt_interval(text: &str) -> Option<String> {
    if !text.contains(':') {
        return None;
    }
    let words = text.split_whitespace().map(|word| {
        let word = word.trim_end_matches(',');
        if !word.contains(':') {
            return Some(word.to_owned());
        }
        let (sign, time) = match word.strip_prefix('-') {
            Some(time) => ("-", time),
            None => ("", word.strip_prefix('+').unwrap_or(word)),
        };
        let parts: Vec<&str> = time.split(':').collect();
        let whole = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let (hours, minutes, seconds) = match parts.as_slice() {
            [hours, minutes] => (hours, minutes, "0"),
            [hours, minutes, seconds] => (hours, minutes, *seconds),
            _ => return None,
        };
        let number = seconds.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        (whole(hours) && whole(minutes) && number)
            .then(|| format!("{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds"))
    });
    words
        .collect::<Option<Vec<String>>>()
        .map(|words| words.join(" "))
}
