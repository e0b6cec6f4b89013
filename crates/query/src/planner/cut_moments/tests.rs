//! Moments of all years, cut.

use super::*;
use crate::moments::far_timestamp;

fn micros(text: &str) -> i64 {
    let near = || chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f");
    far_timestamp(text, false).unwrap_or_else(|| near().unwrap().and_utc().timestamp_micros())
}

/// As PostgreSQL gives them.
#[test]
fn units_begin_in_all_years() {
    for (unit, of, begins) in [
        ("hour", "1500-05-06 07:08:09", "1500-05-06 07:00:00"),
        ("day", "0001-01-01 07:08:09", "0001-01-01 00:00:00"),
        ("week", "3000-05-06 07:08:09", "3000-05-05 00:00:00"),
        ("month", "3000-05-06 07:08:09", "3000-05-01 00:00:00"),
        ("quarter", "3000-05-06 07:08:09", "3000-04-01 00:00:00"),
        ("years", "0044-03-15 12:00:00 BC", "0044-01-01 00:00:00 BC"),
        ("decade", "0044-03-15 12:00:00 BC", "0051-01-01 00:00:00 BC"),
        ("century", "2000-05-06 07:08:09", "1901-01-01 00:00:00"),
        (
            "century",
            "0044-03-15 12:00:00 BC",
            "0100-01-01 00:00:00 BC",
        ),
        ("millennium", "12024-05-06 07:08:09", "12001-01-01 00:00:00"),
    ] {
        let cut = Unit::named(unit).unwrap().begin(micros(of));
        assert_eq!(cut, Some(micros(begins)), "{unit} of {of}");
    }
}

#[test]
fn strides_are_counted_from_their_origin() {
    let days = |days: i32| IntervalMonthDayNano::new(0, days, 0);
    let origin = micros("2001-02-16 20:05:00");
    let at = bin(days(15), micros("1320-02-16 20:38:40"), origin).unwrap();
    assert_eq!(at, micros("1320-02-02 20:05:00"));
    let at = bin(days(15), origin, origin).unwrap();
    assert_eq!(at, origin);
    let months = IntervalMonthDayNano::new(3, 0, 0);
    let origin = micros("1999-01-31 12:00:00");
    let at = bin(months, micros("3000-04-30 11:00:00"), origin).unwrap();
    assert_eq!(at, micros("3000-01-31 12:00:00"));
    assert!(bin(days(0), 0, 0).is_err());
    assert!(bin(days(-1), 0, 0).is_err());
}
