//! Lengths and products of intervals.

use proptest::prelude::*;

use super::*;

fn interval(months: i32, days: i32, nanoseconds: i64) -> IntervalMonthDayNano {
    IntervalMonthDayNano {
        months,
        days,
        nanoseconds,
    }
}

#[test]
fn a_month_has_thirty_days_and_a_day_24_hours() {
    assert_eq!(nanos(interval(1, 0, 0)), nanos(interval(0, 30, 0)));
    assert_eq!(nanos(interval(0, 1, 0)), nanos(interval(0, 0, DAY_NANOS)));
    assert!(nanos(interval(0, 0, DAY_NANOS + 1)) > nanos(interval(0, 1, 0)));
    let most = interval(i32::MAX, i32::MAX, i64::MAX);
    assert!(nanos(most).to_string().len() <= 38);
}

/// As PostgreSQL gives them.
#[test]
fn what_is_left_of_months_and_days_goes_on() {
    let hour = 3_600_000_000_000;
    let cases = [
        (interval(1, 0, 0), 0.5, interval(0, 15, 0)),
        (interval(0, 1, 0), 0.5, interval(0, 0, 12 * hour)),
        (interval(1, 1, 0), 1.5, interval(1, 16, 12 * hour)),
        (interval(0, 0, hour), 90.0, interval(0, 0, 90 * hour)),
        (interval(2, 3, hour), -1.0, interval(-2, -3, -hour)),
        (interval(0, 1, 0), 1.0 / 3.0, interval(0, 0, 8 * hour)),
    ];
    for (of, factor, product) in cases {
        assert_eq!(times(of, factor), Some(product), "{of:?} * {factor}");
    }
    assert_eq!(times(interval(1, 0, 0), 1e12), None);
    assert_eq!(times(interval(0, 0, 1), f64::NAN), None);
}

proptest! {
    #[test]
    fn whole_times_are_sums(
        months in -99..99_i32,
        days in -99..99_i32,
        micros in -9_999_999..9_999_999_i64,
        n in 1..9_i32,
    ) {
        let one = interval(months, days, micros * 1000);
        let all = interval(months * n, days * n, micros * 1000 * i64::from(n));
        prop_assert_eq!(times(one, f64::from(n)), Some(all));
    }
}
