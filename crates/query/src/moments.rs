//! Dates, timestamps and intervals as PostgreSQL writes them, where Arrow reads them otherwise:
//! years before 1 and after 9999, moments without seconds, and intervals; and the calendar. Pure.
//!
//! ```text
//!   2013-1-1 5:00          ->  2013-01-01 05:00:00     spelt_moment
//!   2013-01-01 05:00+02    ->  2013-01-01 05:00        local_moment
//!   1 day 04:05            ->  1 day 04 hours ...      spelt_interval
//! ```

use std::fmt::Write;

use arrow::array::types::{Date32Type, Time64MicrosecondType, TimestampMicrosecondType};
use arrow::compute::kernels::cast_utils::{Parser, string_to_datetime};
use chrono::Utc;
pub(crate) use lazybase_model::moment::civil;

use crate::text_form;

#[cfg(test)]
mod tests;

const DAY_MICROS: i64 = 86_400_000_000;

/// The microseconds since 1970 of a moment of the years 1 to 9999, of UTC where no zone is written;
/// what is finer is cut off.
pub(crate) fn utc_micros(text: &str) -> Option<i64> {
    let moment = string_to_datetime(&Utc, text).ok()?;
    Some(moment.timestamp_micros())
}

/// Whether a text may be a moment before year 1 or after 9999.
pub(crate) fn looks_far(text: &str) -> bool {
    let (text, before) = era(text);
    let has_sign = text.starts_with(['+', '-']);
    before || has_sign || text.find('-').is_some_and(|at| at > 4)
}

/// The days since 1970 of a date before year 1 or after 9999, or of a timestamp of such a day;
/// `None` for every other text.
pub(crate) fn far_date(text: &str) -> Option<i32> {
    let (text, before) = era(text);
    let (date, time) = split_day(text);
    if let Some(time) = time {
        clock(time)?;
    }
    days(date, before)
}

/// The microseconds since 1970 of a timestamp of such a day; `None` for every other text. The zone
/// that is written behind it counts where `zoned`, and says nothing otherwise.
pub(crate) fn far_timestamp(text: &str, zoned: bool) -> Option<i64> {
    let (text, before) = era(text);
    let (date, time) = split_day(text);
    let (micros, offset) = time.map_or(Some((0, 0)), clock)?;
    let offset = if zoned { offset } else { 0 };
    let days = i64::from(days(date, before)?);
    let midnight = days.checked_mul(DAY_MICROS)?;
    midnight.checked_add(micros)?.checked_sub(offset)
}

/// The day of a moment, and its time if it has one.
fn split_day(text: &str) -> (&str, Option<&str>) {
    match text.split_once([' ', 'T', 't']) {
        Some((date, time)) => (date, Some(time.trim())),
        None => (text, None),
    }
}

/// A time of day and how far its zone is from UTC, both in microseconds.
fn clock(time: &str) -> Option<(i64, i64)> {
    let end = time.find(|c: char| !matches!(c, '0'..='9' | ':' | '.'));
    let (clock, zone) = time.split_at(end.unwrap_or(time.len()));
    if !clock.contains(':') {
        return None;
    }
    let micros = Time64MicrosecondType::parse(clock)?;
    Some((micros, offset(zone.trim())?))
}

/// How far a zone is from UTC, in microseconds, of one that is written as such an offset.
fn offset(zone: &str) -> Option<i64> {
    let is_utc = |name: &&str| zone.eq_ignore_ascii_case(name);
    if ["", "Z", "UTC", "GMT"].iter().any(is_utc) {
        return Some(0);
    }
    let (sign, shown) = match zone.strip_prefix('-') {
        Some(shown) => (-1, shown),
        None => (1, zone.strip_prefix('+')?),
    };
    let figures: String = shown.chars().filter(|c| *c != ':').collect();
    let all_digits = figures.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits || !matches!(figures.len(), 2 | 4 | 6) {
        return None;
    }
    let pair = |at: usize| match figures.get(at..at + 2) {
        Some(pair) => pair.parse::<i64>().ok(),
        None => Some(0),
    };
    let seconds = pair(0)? * 3_600 + pair(2)? * 60 + pair(4)?;
    Some(sign * seconds * 1_000_000)
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

/// A timestamp with more digits of a second than six, rounded to six; `None` for every other text.
pub(crate) fn rounded_fraction(text: &str) -> Option<String> {
    const DIGITS: usize = 6;
    let (clock, fraction) = text.split_once('.')?;
    let end = fraction.find(|c: char| !c.is_ascii_digit());
    let (digits, zone) = fraction.split_at(end.unwrap_or(fraction.len()));
    let rounds_up = *digits.as_bytes().get(DIGITS)? >= b'5';
    let cut = format!("{clock}.{}", &digits[..DIGITS]);
    if !rounds_up {
        return Some(cut + zone);
    }
    let cut = spelt_moment(&cut).unwrap_or(cut);
    let micros = TimestampMicrosecondType::parse(&cut)?;
    let mut rounded = String::with_capacity(text.len());
    text_form::timestamp(micros + 1, false, &mut rounded);
    Some(rounded + zone)
}

/// Whether a text has the form of a moment, so that what it lacks is a day, or a time, of such
/// numbers.
pub(crate) fn has_fields(text: &str) -> bool {
    let (text, _) = era(text);
    let begins = text.starts_with(|c: char| c.is_ascii_digit());
    let plain =
        |c: char| c.is_ascii_digit() || matches!(c, '-' | ':' | '.' | ' ' | 'T' | '+' | 'Z');
    let parts = text.matches('-').count() >= 2 || text.contains(':');
    begins && parts && text.chars().all(plain)
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
    let era = text.len().saturating_sub("BC".len());
    match text.split_at_checked(era) {
        Some((rest, era)) if era.eq_ignore_ascii_case("BC") => (rest.trim_end(), true),
        _ => (text, false),
    }
}

fn days(date: &str, before: bool) -> Option<i32> {
    // As ISO has them, and files that were written here.
    if !before && date.starts_with(['+', '-']) {
        return Date32Type::parse(date);
    }
    let (year, rest) = date.split_once('-')?;
    let digits = year.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || year.len() < 3 || !(before || year.len() > 4) {
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

/// The text of a moment without the zone behind its time of day, which says nothing where a moment
/// has no zone; every other text as it is.
pub(crate) fn local_moment(text: &str) -> &str {
    let Some(colon) = text.find(':') else {
        return text;
    };
    let is_clock = |c: char| matches!(c, '0'..='9' | ':' | '.');
    let clock = &text[colon..];
    let end = clock.find(|c: char| !is_clock(c)).unwrap_or(clock.len());
    let (local, zone) = text.split_at(colon + end);
    let zone = zone.trim();
    let is_offset = |zone: &str| {
        let digits = zone.strip_prefix(['+', '-']);
        digits.is_some_and(|digits| !digits.is_empty() && digits.chars().all(is_clock))
    };
    let is_name = |zone: &str| {
        let known = ["Z", "UTC", "GMT"];
        let of_city = zone.contains('/') && zone.starts_with(|c: char| c.is_ascii_alphabetic());
        of_city || known.iter().any(|name| zone.eq_ignore_ascii_case(name))
    };
    match is_offset(zone) || is_name(zone) {
        true => local,
        false => text,
    }
}

/// The days since 1970 of a day; `None` where the month has no such day.
pub(crate) fn day_of(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=month_days(year, month)).contains(&day) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let cycle = year.div_euclid(400);
    let of_cycle = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year;
    Some(cycle * 146_097 + days - 719_468)
}

/// How many days a month has.
pub(crate) fn month_days(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// An interval as Arrow reads it, of one that is written otherwise; `None` for every other text.
///
/// ```text
///   1 day 04:05:06      ->  1 day 04 hours 05 minutes 06 seconds
///   1-2                 ->  1 years 2 months
///   P1DT2H              ->  1 days 2 hours
///   1h30m, 90           ->  1 h 30 m, 90 seconds
///   @ 1 minute ago      ->  -1 minute
///   1 month - 1 day     ->  1 month -1 day
/// ```
pub(crate) fn spelt_interval(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(iso) = text.strip_prefix('P') {
        return spelt_iso_interval(iso);
    }
    let mut words: Vec<String> = Vec::new();
    for word in text.trim_start_matches('@').split_whitespace() {
        match words
            .last_mut()
            .filter(|last| matches!(last.as_str(), "-" | "+"))
        {
            // A sign that stands alone is the next number's.
            Some(sign) => {
                let signed = format!("{sign}{}", word.trim_end_matches(','));
                words.pop();
                words.extend(apart(&signed));
            }
            None => words.extend(apart(word.trim_end_matches(','))),
        }
    }
    let ago = words
        .pop_if(|last| last.eq_ignore_ascii_case("ago"))
        .is_some();
    let mut spelt = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let (sign, plain) = signed(word, ago);
        let next = words.get(at + 1);
        if plain.contains(':') {
            spelt.push(spelt_clock(sign, plain)?);
        } else if let Some((years, months)) = plain.split_once('-') {
            if !is_whole(years) || !is_whole(months) {
                return None;
            }
            spelt.push(format!("{sign}{years} years {sign}{months} months"));
        } else if !is_number(plain) {
            spelt.push(word.clone());
        } else {
            let unit = match next {
                None => " seconds",
                Some(clock) if clock.contains(':') => " days",
                _ => "",
            };
            spelt.push(format!("{sign}{plain}{unit}"));
        }
    }
    let spelt = spelt.join(" ");
    (spelt != text).then_some(spelt)
}

/// The numbers and units of a word in which they stand without spaces.
fn apart(word: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut in_unit = None;
    for c in word.chars() {
        let is_letter = c.is_alphabetic();
        match parts.last_mut().filter(|_| in_unit == Some(is_letter)) {
            Some(part) => part.push(c),
            None => parts.push(c.to_string()),
        }
        in_unit = Some(is_letter);
    }
    parts
}

/// The sign of a number, turned around where `ago` says so, and the number without it.
fn signed(word: &str, ago: bool) -> (&'static str, &str) {
    let (negative, plain) = match word.strip_prefix('-') {
        Some(plain) => (true, plain),
        None => (false, word.strip_prefix('+').unwrap_or(word)),
    };
    let sign = if negative != ago { "-" } else { "" };
    (sign, plain)
}

fn is_whole(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_number(part: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    !part.is_empty() && part.bytes().all(is_part)
}

/// A time of day in an interval, in hours, minutes and seconds; of two numbers the second one is
/// of seconds where it has a fraction.
fn spelt_clock(sign: &str, clock: &str) -> Option<String> {
    let parts: Vec<&str> = clock.split(':').collect();
    let (hours, minutes, seconds) = match *parts.as_slice() {
        [minutes, seconds] if seconds.contains('.') => ("0", minutes, seconds),
        [hours, minutes] => (hours, minutes, "0"),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    (is_whole(hours) && is_whole(minutes) && is_number(seconds))
        .then(|| format!("{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds"))
}

/// An interval of ISO 8601, behind its `P`: with letters, or as a date and a time.
fn spelt_iso_interval(iso: &str) -> Option<String> {
    let (date, time) = iso.split_once('T').unwrap_or((iso, ""));
    let mut spelt = Vec::new();
    let parts: Vec<&str> = date.split('-').collect();
    match parts.as_slice() {
        [years, months, days] if parts.iter().all(|part| is_whole(part)) => {
            spelt.push(format!("{years} years {months} months {days} days"));
        }
        _ => {
            let units = [
                ('Y', "years"),
                ('M', "months"),
                ('W', "weeks"),
                ('D', "days"),
            ];
            lettered(date, &units, &mut spelt)?;
        }
    }
    match time.contains(':') {
        true => spelt.push(spelt_clock("", time)?),
        false => {
            let units = [('H', "hours"), ('M', "minutes"), ('S', "seconds")];
            lettered(time, &units, &mut spelt)?;
        }
    }
    (!spelt.is_empty()).then(|| spelt.join(" "))
}

/// Adds the numbers that letters stand behind, with their units.
fn lettered(text: &str, units: &[(char, &str)], spelt: &mut Vec<String>) -> Option<()> {
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (amount, letter) = rest.split_at(at);
        let (_, unit) = units.iter().find(|(known, _)| letter.starts_with(*known))?;
        let (sign, plain) = signed(amount, false);
        if !is_number(plain) {
            return None;
        }
        spelt.push(format!("{sign}{plain} {unit}"));
        rest = &letter[1..];
    }
    Some(())
}
