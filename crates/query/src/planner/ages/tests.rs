//! Ages and justified intervals.

use arrow::compute::kernels::cast_utils::Parser;

use super::*;

fn interval(months: i32, days: i32, micros: i64) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(months, days, micros * 1_000)
}

/// As PostgreSQL gives them.
#[test]
fn ages_are_counted_by_the_calendar() {
    let micros = |text: &str| TimestampMicrosecondType::parse(text).unwrap();
    for (later, earlier, expected) in [
        ("2024-03-01", "2024-01-31", interval(1, 1, 0)),
        ("2024-01-31", "2024-03-01", interval(-1, -1, 0)),
        (
            "2024-03-01 01:00:00",
            "2023-12-31 23:30:15.5",
            interval(2, 0, 5_384_500_000),
        ),
        ("2001-04-10", "1957-06-13", interval(43 * 12 + 9, 27, 0)),
        ("2024-02-29", "2023-03-31", interval(10, 29, 0)),
    ] {
        assert_eq!(age(micros(later), micros(earlier)), expected, "{later}");
    }
}

/// As PostgreSQL gives them.
#[test]
fn intervals_are_justified() {
    let hour = 3_600_000_000;
    let hours = |of| hours_justified(of).unwrap();
    assert_eq!(hours(interval(0, 0, 27 * hour)), interval(0, 1, 3 * hour));
    assert_eq!(hours(interval(0, 1, -hour)), interval(0, 0, 23 * hour));
    let days = |of| days_justified(of).unwrap();
    assert_eq!(days(interval(0, 35, 0)), interval(1, 5, 0));
    assert_eq!(days(interval(1, -35, 0)), interval(0, -5, 0));
    let all = |of| all_justified(of).unwrap();
    assert_eq!(all(interval(1, 0, -hour)), interval(0, 29, 23 * hour));
    assert_eq!(all(interval(0, 100, 100 * hour)), interval(3, 14, 4 * hour));
    assert_eq!(all(interval(-1, 0, hour)), interval(0, -29, -23 * hour));
}

#[test]
fn moments_are_made_of_their_parts() {
    let made = moment([2024, 1, 31], [10, 20], 30.5);
    let micros = TimestampMicrosecondType::parse("2024-01-31 10:20:30.5");
    assert_eq!(made, micros);
    assert_eq!(moment([2024, 2, 30], [1, 1], 1.0), None);
    assert_eq!(moment([2024, 2, 20], [1, 60], 1.0), None);
    assert_eq!(moment([0, 2, 20], [1, 1], 1.0), None);
}
