//! Moments and intervals by a format: `to_char(at, 'Day, DD Month YYYY')`. Pure.

use lazybase_model::{Error, Result};

use crate::moments::{civil, day_of};
use crate::text_form::DAY_MICROS;

/// A moment, or an interval, in the parts that formats name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    /// Days since 1970; an interval has none.
    days: Option<i64>,
    /// Whether it is one of UTC.
    zone: bool,
}

impl Parts {
    /// A moment in microseconds since 1970.
    pub(super) fn of_moment(micros: i64, zone: bool) -> Parts {
        let days = micros.div_euclid(DAY_MICROS);
        let (year, month, day) = civil(days);
        Parts {
            year,
            month,
            day,
            days: Some(days),
            zone,
            ..Parts::of_interval(0, 0, micros.rem_euclid(DAY_MICROS))
        }
    }

    pub(super) fn of_interval(months: i32, days: i32, micros: i64) -> Parts {
        let seconds = micros / 1_000_000;
        Parts {
            year: i64::from(months / 12),
            month: i64::from(months % 12),
            day: i64::from(days),
            hour: seconds / 3_600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: micros % 1_000_000,
            days: None,
            zone: false,
        }
    }

    /// The year as it is written: 1 BC is 1.
    fn shown_year(&self) -> i64 {
        match self.days {
            Some(_) if self.year < 1 => 1 - self.year,
            _ => self.year,
        }
    }

    /// The day of the week, from Sunday, which is 0.
    fn weekday(&self) -> i64 {
        (self.days.unwrap_or(0) + 4).rem_euclid(7)
    }

    /// The day of the year, from 1.
    fn year_day(&self) -> i64 {
        let first = day_of(self.year, 1, 1);
        first.map_or(0, |first| self.days.unwrap_or(0) - first + 1)
    }

    /// The year that the week is of, the week, and the day in that year, as ISO 8601 counts them.
    fn iso(&self) -> (i64, i64, i64) {
        let days = self.days.unwrap_or(0);
        let thursday = days - (self.weekday() + 6) % 7 + 3;
        let (year, _, _) = civil(thursday);
        let first = day_of(year, 1, 1).unwrap_or(thursday);
        let week = (thursday - first) / 7 + 1;
        let monday = first - ((first + 4).rem_euclid(7) + 6) % 7;
        let begins = match (first + 4).rem_euclid(7) {
            1..=4 => monday,
            _ => monday + 7,
        };
        (year, week, days - begins + 1)
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const ROMAN: [&str; 12] = [
    "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII",
];

/// The words of formats, those first that others begin with. Small letters mean the same, but for
/// names, which come out as they are spelt.
const WORDS: [&str; 61] = [
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "Day", "DDD", "DD", "DY", "Dy", "D",
    "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY",
    "IYY", "IY", "I", "J", "MI", "MM", "MONTH", "Month", "MON", "Mon", "MS", "OF", "P.M.", "PM",
    "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ", "US", "WW", "W", "Y,YYY", "YYYY", "YYY",
    "YY", "Y", "TM", "FX", "SP", "FF",
];

/// The word that a text begins with, as it is written there, and its name in capitals.
fn word_of(text: &str) -> Option<(&str, &'static str)> {
    let is_word = |word: &&&str| {
        let begin = text.get(..word.len());
        begin.is_some_and(|begin| begin == **word || begin == word.to_lowercase())
    };
    let word = WORDS.iter().find(is_word)?;
    Some((&text[..word.len()], word))
}

/// A moment as a format has it.
///
/// # Errors
/// `Invalid`: 0A000 for what is not done, 22007 for a part that intervals do not have.
pub(super) fn shown(parts: &Parts, format: &str) -> Result<String> {
    let mut out = String::with_capacity(format.len() + 8);
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            out.push_str(text);
            rest = after;
            continue;
        }
        let filled = rest.strip_prefix("FM").or(rest.strip_prefix("fm"));
        let Some((written, word)) = word_of(filled.unwrap_or(rest)) else {
            if filled.is_none() {
                out.push(first);
            }
            rest = filled.unwrap_or(&rest[first.len_utf8()..]);
            continue;
        };
        rest = &filled.unwrap_or(rest)[written.len()..];
        let text = shown_word(parts, written, word, filled.is_some())?;
        out.push_str(&text);
        for (suffix, capitals) in [("TH", true), ("th", false)] {
            if let Some(after) = rest.strip_prefix(suffix) {
                rest = after;
                out.push_str(ordinal(&text, capitals));
            }
        }
    }
    Ok(out)
}

/// What stands behind a number that counts things in a row.
fn ordinal(number: &str, capitals: bool) -> &'static str {
    let teens = number.len() > 1 && number.as_bytes()[number.len() - 2] == b'1';
    let (upper, lower) = match number.bytes().last() {
        Some(b'1') if !teens => ("ST", "st"),
        Some(b'2') if !teens => ("ND", "nd"),
        Some(b'3') if !teens => ("RD", "rd"),
        _ => ("TH", "th"),
    };
    if capitals { upper } else { lower }
}

fn shown_word(parts: &Parts, written: &str, word: &str, filled: bool) -> Result<String> {
    let number = |number: i64, width: usize| match (filled, number < 0) {
        (true, _) => number.to_string(),
        (false, true) => format!("{number:0width$}", width = width + 1),
        (false, false) => format!("{number:0width$}"),
    };
    let capitals = written.starts_with(|c: char| c.is_uppercase());
    let in_case = |text: &str| match capitals {
        true => text.to_owned(),
        false => text.to_lowercase(),
    };
    Ok(match word {
        "HH24" => number(parts.hour, 2),
        "HH12" | "HH" => match parts.hour % 12 {
            0 => number(12, 2),
            hour => number(hour, 2),
        },
        "MI" => number(parts.minute, 2),
        "SS" => number(parts.second, 2),
        "MS" => number(parts.micros / 1_000, 3),
        "US" => number(parts.micros, 6),
        "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
            let digits = word.as_bytes()[2] - b'0';
            let unit = 10_i64.pow(6 - u32::from(digits));
            let shown = parts.micros / unit;
            format!("{shown:0width$}", width = usize::from(digits))
        }
        "SSSS" | "SSSSS" => {
            let seconds = parts.hour * 3_600 + parts.minute * 60 + parts.second;
            seconds.to_string()
        }
        "AM" | "PM" => in_case(if parts.hour % 24 >= 12 { "PM" } else { "AM" }),
        "A.M." | "P.M." => in_case(if parts.hour % 24 >= 12 {
            "P.M."
        } else {
            "A.M."
        }),
        "DD" if filled => parts.day.to_string(),
        "DD" => format!("{:02}", parts.day),
        "MM" => number(parts.month, 2),
        "YYYY" => number(parts.shown_year(), 4),
        "YYY" => number(parts.shown_year() % 1_000, 3),
        "YY" => number(parts.shown_year() % 100, 2),
        "Y" => number(parts.shown_year() % 10, 1),
        "Y,YYY" => {
            let (thousands, others) = (parts.shown_year() / 1_000, parts.shown_year() % 1_000);
            format!("{thousands},{others:03}")
        }
        "TM" | "FX" | "SP" | "FF" => {
            return Err(
                Error::invalid(format!("to_char: {written} in a format is not supported"))
                    .with_hint("texts stand in quotes: 'YYYY \"from\"'")
                    .with_sqlstate("0A000"),
            );
        }
        _ if parts.days.is_none() => {
            return Err(
                Error::invalid(format!("to_char: an interval has no {written}"))
                    .with_hint("YYYY, MM, DD, HH24, HH12, MI, SS, MS and US are parts of intervals")
                    .with_sqlstate("22007"),
            );
        }
        _ => return shown_day(parts, written, word, filled),
    })
}

/// The words that need a day.
fn shown_day(parts: &Parts, written: &str, word: &str, filled: bool) -> Result<String> {
    let number = |number: i64, width: usize| match filled {
        true => number.to_string(),
        false => format!("{number:0width$}"),
    };
    let padded = |name: &str, width: usize| {
        let mut letters = written.chars();
        let is_upper = |letter: Option<char>| letter.is_some_and(char::is_uppercase);
        let name = match (is_upper(letters.next()), is_upper(letters.next())) {
            (true, true) => name.to_uppercase(),
            (true, false) => name.to_owned(),
            _ => name.to_lowercase(),
        };
        match filled {
            true => name,
            false => format!("{name:width$}"),
        }
    };
    let before = parts.year < 1;
    let capitals = written.starts_with(|c: char| c.is_uppercase());
    let era = |text: &str| match capitals {
        true => text.to_owned(),
        false => text.to_lowercase(),
    };
    let month = (parts.month - 1).clamp(0, 11) as usize;
    let weekday = parts.weekday() as usize;
    let (iso_year, iso_week, iso_day) = parts.iso();
    Ok(match word {
        "MONTH" | "Month" => padded(MONTHS[month], 9),
        "MON" | "Mon" => padded(&MONTHS[month][..3], 3),
        "DAY" | "Day" => padded(DAYS[weekday], 9),
        "DY" | "Dy" => padded(&DAYS[weekday][..3], 3),
        "RM" => padded(ROMAN[month], 4),
        "AD" | "BC" => era(if before { "BC" } else { "AD" }),
        "A.D." | "B.C." => era(if before { "B.C." } else { "A.D." }),
        "CC" => {
            let century = match before {
                true => (parts.year - 1) / 100 - 1,
                false => (parts.year - 1) / 100 + 1,
            };
            number(century, 2)
        }
        "D" => (parts.weekday() + 1).to_string(),
        "ID" => ((parts.weekday() + 6) % 7 + 1).to_string(),
        "DDD" => number(parts.year_day(), 3),
        "IDDD" => number(iso_day, 3),
        "IW" => number(iso_week, 2),
        "WW" => number((parts.year_day() - 1) / 7 + 1, 2),
        "W" => ((parts.day - 1) / 7 + 1).to_string(),
        "IYYY" => number(iso_year, 4),
        "IYY" => number(iso_year % 1_000, 3),
        "IY" => number(iso_year % 100, 2),
        "I" => (iso_year % 10).to_string(),
        "J" => (parts.days.unwrap_or(0) + 2_440_588).to_string(),
        "Q" => ((parts.month - 1) / 3 + 1).to_string(),
        "TZ" if parts.zone => era("UTC"),
        "TZ" => String::new(),
        "TZM" => "00".to_owned(),
        _ => "+00".to_owned(),
    })
}
