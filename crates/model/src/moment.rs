//! Moments as people write them: a date and a time of day, in UTC. Pure.

use std::fmt;

const DAY_SECONDS: i64 = 86_400;

/// The year, month and day of a day, in days since 1970; the year before 1 is 0.
pub fn civil(days: i64) -> (i64, i64, i64) {
    // Years of 400 years' cycles that begin in March (the algorithm of H. Hinnant).
    let days = days + 719_468;
    let cycle = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + cycle * 400 + i64::from(month <= 2), month, of_month)
}

/// A moment in microseconds since 1970, e.g. `2026-01-31 12:00:00.250000 UTC`.
pub struct DisplayMoment(pub i64);

impl fmt::Display for DisplayMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1_000_000);
        let (year, month, day) = civil(seconds.div_euclid(DAY_SECONDS));
        let of_day = seconds.rem_euclid(DAY_SECONDS);
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        let micros = self.0.rem_euclid(1_000_000);
        write!(f, "{year:04}-{month:02}-{day:02} ")?;
        write!(f, "{hour:02}:{minute:02}:{second:02}.{micros:06} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        for (micros, text) in [
            (0, "1970-01-01 00:00:00.000000 UTC"),
            (-1, "1969-12-31 23:59:59.999999 UTC"),
            (1_709_208_000_250_000, "2024-02-29 12:00:00.250000 UTC"),
            (1_769_903_999_000_001, "2026-01-31 23:59:59.000001 UTC"),
        ] {
            assert_eq!(DisplayMoment(micros).to_string(), text);
        }
    }
}
