//! `pg_timezone_names` and `pg_timezone_abbrevs`: the zones that AT TIME ZONE knows, and how far
//! east of Greenwich their clocks are at a moment.
//!
//! Pure.

use arrow::array::temporal_conversions::as_datetime;
use arrow::datatypes::TimestampMicrosecondType;
use chrono::TimeZone;
use chrono_tz::{OffsetComponents, OffsetName, TZ_VARIANTS};

use super::Row;
use crate::planner::time_zones::ABBREVIATIONS;

pub(super) const COLUMNS: [(&str, &str); 2] = [
    (
        "pg_timezone_names",
        "name t, abbrev t, utc_offset v, is_dst b",
    ),
    ("pg_timezone_abbrevs", "abbrev t, utc_offset v, is_dst b"),
];

/// The abbreviations of times of summer.
const OF_SUMMER: [&str; 11] = [
    "WEST", "BST", "CEST", "EEST", "AEDT", "NZDT", "AKDT", "PDT", "MDT", "CDT", "EDT",
];

/// The rows of one of these tables.
pub(super) fn rows(name: &str, now_micros: i64) -> Vec<Row> {
    match name {
        "pg_timezone_names" => names(now_micros),
        _ => ABBREVIATIONS
            .iter()
            .map(|(abbreviation, hours)| {
                vec![
                    ("abbrev", (*abbreviation).into()),
                    ("utc_offset", (hours * 3_600).into()),
                    ("is_dst", OF_SUMMER.contains(abbreviation).into()),
                ]
            })
            .collect(),
    }
}

fn names(now_micros: i64) -> Vec<Row> {
    let Some(now) = as_datetime::<TimestampMicrosecondType>(now_micros) else {
        return Vec::new();
    };
    let rows = TZ_VARIANTS.iter().map(|zone| {
        let there = zone.offset_from_utc_datetime(&now);
        let summer = there.dst_offset();
        let east = (there.base_utc_offset() + summer).num_seconds();
        let abbreviation = there.abbreviation().filter(|name| !name.is_empty());
        let abbreviation = abbreviation.map_or_else(|| numbers(east), str::to_owned);
        vec![
            ("name", zone.name().into()),
            ("abbrev", abbreviation.into()),
            ("utc_offset", east.into()),
            ("is_dst", (summer.num_seconds() != 0).into()),
        ]
    });
    rows.collect()
}

/// What a zone without letters is called: its hours, and its minutes if there are any.
fn numbers(east: i64) -> String {
    let (sign, minutes) = (if east < 0 { '-' } else { '+' }, east.abs() / 60);
    match (minutes / 60, minutes % 60) {
        (hours, 0) => format!("{sign}{hours:02}"),
        (hours, minutes) => format!("{sign}{hours:02}{minutes:02}"),
    }
}
