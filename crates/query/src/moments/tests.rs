//! Tests of `moments`.

use super::*;

#[test]
fn far_days_are_read() {
    assert_eq!(far_date("0001-12-31 BC"), Some(-719_163));
    assert_eq!(far_date("10000-01-01"), Some(2_932_897));
    assert_eq!(far_date("0044-02-30 BC"), None);
    assert_eq!(far_date("2013-01-01"), None, "Arrow reads it");
    assert_eq!(far_date("0000-01-01 BC"), None);
    assert_eq!(far_date("44-03-15 BC"), None, "a month in PostgreSQL");
    assert_eq!(far_date("044-03-15 bc"), far_date("0044-03-15 BC"));
    assert_eq!(
        far_date("0001-12-31 23:00:00+02 BC"),
        Some(-719_163),
        "its day as it is written"
    );
    assert_eq!(far_date("0001-12-31 soon BC"), None);
    let end = far_timestamp("0001-12-31 23:59:59.999999 BC", false);
    assert_eq!(end, Some(-719_162 * DAY_MICROS - 1));
    for zone in ["", "+00", "+00:00", "Z", " UTC"] {
        let text = format!("10000-01-01 00:00:00{zone}");
        let begin = Some(2_932_897 * DAY_MICROS);
        assert_eq!(far_timestamp(&text, true), begin, "{text}");
    }
    assert_eq!(
        far_timestamp("999999-01-01", true),
        None,
        "no microseconds count so far"
    );
}

#[test]
fn zones_of_far_days_count_where_they_may() {
    let hours = |text, zoned| {
        let micros = far_timestamp(text, zoned)? - 2_932_897 * DAY_MICROS;
        Some(micros as f64 / 3.6e9)
    };
    assert_eq!(hours("10000-01-01 00:00:00+02", true), Some(-2.0));
    assert_eq!(hours("10000-01-01 00:00:00+02", false), Some(0.0));
    assert_eq!(hours("10000-01-01T06:00:00-05:30", true), Some(11.5));
    assert_eq!(hours("10000-01-01 06:00:00 +0130", true), Some(4.5));
    assert_eq!(hours("10000-01-01 06:00:00 soon", true), None);
    assert_eq!(hours("10000-01-01 06", true), None);
}

#[test]
fn far_moments_are_known_by_their_looks() {
    for text in [
        "0044-03-15 BC",
        "0044-03-15 10:00:00 bc",
        "12026-01-01",
        "-0043-03-15",
    ] {
        assert!(looks_far(text), "{text}");
    }
    for text in ["2013-01-01", "2013-01-01 10:00:00-05", "", "é"] {
        assert!(!looks_far(text), "{text}");
    }
}

#[test]
fn times_in_intervals_are_written_out() {
    let spelt = |text| spelt_interval(text).unwrap();
    assert_eq!(
        spelt("1 mon 2 days 00:00:03.5"),
        "1 mon 2 days 00 hours 00 minutes 3.5 seconds".replace(" 3.5", " 03.5")
    );
    assert_eq!(spelt("-10:20"), "-10 hours -20 minutes -0 seconds");
    assert_eq!(
        spelt("1 day, 0:00:01"),
        "1 day 0 hours 00 minutes 01 seconds"
    );
    assert_eq!(spelt_interval("3 days"), None);
    assert_eq!(spelt_interval("a:b"), None);
    assert_eq!(spelt_interval("1:2:3:4"), None);
}

#[test]
fn intervals_are_read_as_postgresql_writes_them() {
    for (text, spelt) in [
        ("1-2", "1 years 2 months"),
        ("-1-2", "-1 years -2 months"),
        (
            "1-2 3 4:05:06",
            "1 years 2 months 3 days 4 hours 05 minutes 06 seconds",
        ),
        ("P1DT2H", "1 days 2 hours"),
        (
            "P1Y2M3DT4H5M6.5S",
            "1 years 2 months 3 days 4 hours 5 minutes 6.5 seconds",
        ),
        (
            "P0001-02-03T04:05:06",
            "0001 years 02 months 03 days 04 hours 05 minutes 06 seconds",
        ),
        ("@ 1 minute ago", "-1 minute"),
        ("1 day -2 hours ago", "-1 day 2 hours"),
        ("1h30m", "1 h 30 m"),
        ("90", "90 seconds"),
        ("1 year 3", "1 year 3 seconds"),
        ("04:05.5", "0 hours 04 minutes 05.5 seconds"),
        ("+5 days", "5 days"),
        (
            "-1 days +02:00:00",
            "-1 days 02 hours 00 minutes 00 seconds",
        ),
    ] {
        assert_eq!(spelt_interval(text).as_deref(), Some(spelt), "{text}");
    }
    for text in [
        "soon",
        "P",
        "PT",
        "P1X",
        "1-2-3",
        "",
        "3 days 2 hours",
        "Pé",
    ] {
        assert_eq!(spelt_interval(text), None, "{text}");
    }
}

#[test]
fn zones_behind_a_time_are_left_out() {
    for (text, local) in [
        ("2024-01-15 10:20:30+02", "2024-01-15 10:20:30"),
        ("2024-01-15T10:20:30.5-08:00", "2024-01-15T10:20:30.5"),
        ("2024-01-15 10:20Z", "2024-01-15 10:20"),
        ("2024-01-15 10:20:30 Europe/Berlin", "2024-01-15 10:20:30"),
        ("2024-01-15 10:20:30 +02", "2024-01-15 10:20:30"),
        ("2024-01-15", "2024-01-15"),
        ("0044-03-15 10:00:00 BC", "0044-03-15 10:00:00 BC"),
        ("soon:", "soon:"),
    ] {
        assert_eq!(local_moment(text), local, "{text}");
    }
}

#[test]
fn days_have_dates() {
    for days in [-719_529, -719_468, -1, 0, 59, 60, 19_782, 2_932_897] {
        let (year, month, day) = civil(days);
        assert_eq!(day_of(year, month, day), Some(days), "{days}");
    }
    assert_eq!(civil(19_782), (2024, 2, 29));
    assert_eq!(civil(-719_529), (-1, 12, 31));
    assert_eq!(day_of(2023, 2, 29), None);
    assert_eq!(day_of(2023, 13, 1), None);
}
