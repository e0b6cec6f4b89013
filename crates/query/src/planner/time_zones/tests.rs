//! Zones, and clocks that are set.

use super::*;

fn micros(text: &str) -> i64 {
    use arrow::compute::kernels::cast_utils::Parser;
    TimestampMicrosecondType::parse(text).unwrap()
}

#[test]
fn zones_have_names_and_offsets() {
    let hours = |name: &str| match Zone::named(name) {
        Some(Zone::Fixed(east)) => Some(east / HOUR_MICROS),
        _ => None,
    };
    for (name, east) in [
        ("+02", -2),
        ("-5", 5),
        ("-05:00", 5),
        ("+0200", -2),
        ("UTC+2", -2),
        ("utc", 0),
        ("pst", -8),
        ("CEST", 2),
    ] {
        assert_eq!(hours(name), Some(east), "{name}");
    }
    for name in [
        "Europe/Berlin",
        "europe/berlin",
        "America/New_York",
        "EST5EDT",
    ] {
        assert!(matches!(Zone::named(name), Some(Zone::Named(_))), "{name}");
    }
    for name in ["", "Nowhere/City", "+", "+1:2:3:4", "soon"] {
        assert!(Zone::named(name).is_none(), "{name}");
    }
}

/// As PostgreSQL gives them.
#[test]
fn clocks_that_are_set_count_by_standard_time() {
    let berlin = Zone::named("Europe/Berlin").unwrap();
    for (clock, moment) in [
        ("2024-01-15 11:20:30", "2024-01-15 10:20:30"),
        ("2024-07-15 12:20:30", "2024-07-15 10:20:30"),
        ("2024-03-31 02:30:00", "2024-03-31 01:30:00"),
        ("2024-10-27 02:30:00", "2024-10-27 01:30:00"),
        ("2024-10-27 01:30:00", "2024-10-26 23:30:00"),
    ] {
        assert_eq!(
            berlin.moment(micros(clock)),
            Some(micros(moment)),
            "{clock}"
        );
    }
    let shown = berlin.clock(micros("2024-10-27 00:30:00"));
    assert_eq!(shown, Some(micros("2024-10-27 02:30:00")));
}
