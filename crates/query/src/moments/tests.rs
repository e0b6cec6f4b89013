//! Tests of `moments`.

use super::*;

#[test]
fn far_days_are_read() {
    assert_eq!(far_date("0001-12-31 BC"), Some(-719_163));
    assert_eq!(far_date("10000-01-01"), Some(2_932_897));
    assert_eq!(far_date("0044-02-30 BC"), None);
    assert_eq!(far_date("2013-01-01"), None, "Arrow reads it");
    assert_eq!(far_date("0000-01-01 BC"), None);
    let end = far_timestamp("0001-12-31 23:59:59.999999 BC");
    assert_eq!(end, Some(-719_162 * DAY_MICROS - 1));
    assert_eq!(
        far_timestamp("10000-01-01 00:00:00+00"),
        Some(2_932_897 * DAY_MICROS)
    );
    assert_eq!(far_timestamp("10000-01-01 00:00:00+02"), None);
    assert_eq!(
        far_timestamp("999999-01-01"),
        None,
        "no microseconds count so far"
    );
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
