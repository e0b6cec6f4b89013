//! Dates, times and intervals as PostgreSQL spells them.
//!
//! Invariant MOM-1: every number of microseconds has a text; years before 1 are `BC`, as there.

use std::fmt::Write;

/// The days from 1970-01-01 to 2000-01-01, which PostgreSQL counts from.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
pub(crate) const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * DAY_MICROS;
pub(crate) const DAY_MICROS: i64 = 86_400_000_000;

/// Appends a date; it is before year 1 where that is given back.
fn put_date(days: i64, out: &mut impl Write) -> bool {
    // Years of 400 years' cycles that begin in March (the algorithm of H. Hinnant).
    let days = days + 719_468;
    let cycle = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + cycle * 400 + i64::from(month <= 2);
    let before = year < 1;
    let year = if before { 1 - year } else { year };
    let _ = write!(out, "{year:04}-{month:02}-{of_month:02}");
    before
}

/// Appends a date.
pub(crate) fn date(days: i32, out: &mut impl Write) {
    if put_date(i64::from(days), out) {
        let _ = out.write_str(" BC");
    }
}

/// Appends a time of day, its fraction without the zeros at its end.
pub(crate) fn time(micros: i64, out: &mut impl Write) {
    let seconds = micros / 1_000_000;
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let _ = write!(out, "{hour:02}:{minute:02}:{second:02}");
    fraction(micros % 1_000_000, out);
}

fn fraction(micros: i64, out: &mut impl Write) {
    if micros != 0 {
        let digits = format!("{micros:06}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
}

/// Appends a timestamp; with a zone it is one of UTC.
pub(crate) fn timestamp(micros: i64, zone: bool, out: &mut impl Write) {
    let before = put_date(micros.div_euclid(DAY_MICROS), out);
    let _ = out.write_char(' ');
    time(micros.rem_euclid(DAY_MICROS), out);
    if zone {
        let _ = out.write_str("+00");
    }
    if before {
        let _ = out.write_str(" BC");
    }
}

/// Appends an interval.
pub(crate) fn interval(months: i32, days: i32, micros: i64, out: &mut impl Write) {
    let mut space = "";
    let many = |count: i32| if count == 1 { "" } else { "s" };
    for (count, name) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if count != 0 {
            let _ = write!(out, "{space}{count} {name}{}", many(count));
            space = " ";
        }
    }
    if micros != 0 || space.is_empty() {
        let sign = if micros < 0 { "-" } else { "" };
        let _ = write!(out, "{space}{sign}");
        let micros = micros.unsigned_abs();
        let seconds = micros / 1_000_000;
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        let _ = write!(out, "{hour:02}:{minute:02}:{second:02}");
        fraction((micros % 1_000_000) as i64, out);
    }
}

#[cfg(test)]
mod tests;
