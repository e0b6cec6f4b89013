//! Tests of `text_form`.

use arrow::array::{Date32Array, Float64Array, TimestampMicrosecondArray};
use lazybase_model::Column;

use super::*;

fn told(tell: impl Fn(&mut String)) -> String {
    let mut text = String::new();
    tell(&mut text);
    text
}

#[test]
fn dates_and_times_are_spelt_as_postgresql_does() {
    for (days, text) in [
        (0, "1970-01-01"),
        (EPOCH_DAYS, "2000-01-01"),
        (-719_162, "0001-01-01"),
        (-719_163, "0001-12-31 BC"),
        (11_016, "2000-02-29"),
        (2_932_897, "10000-01-01"),
    ] {
        assert_eq!(told(|out| date(days, out)), text);
    }
    for (micros, zone, text) in [
        (0, false, "1970-01-01 00:00:00"),
        (-1, true, "1969-12-31 23:59:59.999999+00"),
        (1_500_000, true, "1970-01-01 00:00:01.5+00"),
        (
            -62_135_596_800_000_001,
            false,
            "0001-12-31 23:59:59.999999 BC",
        ),
    ] {
        assert_eq!(told(|out| timestamp(micros, zone, out)), text);
    }
    told(|out| timestamp(i64::MIN, true, out));
    told(|out| timestamp(i64::MAX, true, out));
}

#[test]
fn intervals_are_spelt_as_iso_8601_has_them() {
    for ((months, days, micros), text) in [
        ((0, 0, 0), "PT0S"),
        ((14, 3, 0), "P1Y2M3D"),
        ((1, 0, 3_723_000_100), "P1MT1H2M3.0001S"),
        ((0, -1, -1_000_000), "P-1DT-1S"),
        ((0, -1, 7_200_000_000), "P-1DT2H"),
        ((-1, 3, -3_723_500_000), "P-1M3DT-1H-2M-3.5S"),
        ((0, 0, -500_000), "PT-0.5S"),
        ((0, 0, 60_000_000), "PT1M"),
    ] {
        assert_eq!(told(|out| iso_interval(months, days, micros, out)), text);
    }
}

#[test]
fn intervals_are_spelt_as_postgresql_does() {
    for ((months, days, micros), text) in [
        ((0, 0, 0), "00:00:00"),
        ((14, 3, 0), "1 year 2 mons 3 days"),
        ((1, 0, 3_723_000_100), "1 mon 01:02:03.0001"),
        ((0, -1, -1_000_000), "-1 days -00:00:01"),
        ((0, -1, 7_200_000_000), "-1 days +02:00:00"),
        ((-1, 3, -3_600_000_000), "-1 mons +3 days -01:00:00"),
        ((0, 1, -7_200_000_000), "1 day -02:00:00"),
        ((-11, 0, 0), "-11 mons"),
    ] {
        assert_eq!(told(|out| interval(months, days, micros, out)), text);
    }
}

/// What is written instead of Arrow's texts is read back as it was, to the ends of the types.
#[test]
fn own_texts_are_read_back() {
    let mut intervals = Vec::new();
    for months in [i32::MIN, -13, 0, 1, i32::MAX] {
        for days in [i32::MIN, -1, 0, 2, i32::MAX] {
            for micros in [
                i64::MIN / 1_000,
                -500_000,
                0,
                3_600_000_001,
                i64::MAX / 1_000,
            ] {
                let nanos = micros * 1_000;
                intervals.push(IntervalMonthDayNanoType::make_value(months, days, nanos));
            }
        }
    }
    let moments = vec![-62_135_596_800_000_001, 253_402_300_800_000_000];
    let columns: [ArrayRef; 4] = [
        Arc::new(IntervalMonthDayNanoArray::from(intervals)),
        Arc::new(Float64Array::from(vec![f64::INFINITY, f64::NEG_INFINITY])),
        Arc::new(Date32Array::from(vec![-719_163, 2_932_897])),
        Arc::new(TimestampMicrosecondArray::from(moments)),
    ];
    for column in columns {
        let texts = (0..column.len()).map(|row| own_text(&column, row));
        let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
        assert_eq!(texts.null_count(), 0, "{:?}", column.data_type());
        let place = Column::new("c", column.data_type().clone());
        let read = crate::texts_as(&texts, &place, 1).unwrap();
        assert_eq!(read.to_data(), column.to_data());
    }
    let finer = IntervalMonthDayNanoType::make_value(0, 0, 1);
    let finer = IntervalMonthDayNanoArray::from(vec![finer]);
    assert_eq!(own_text(&finer, 0), None);
}
