//! Figures as lines, targets and JSON.

#![allow(clippy::unwrap_used)]

use super::{Report, line, median, readable};
use crate::data::Shape;

#[test]
fn numbers_are_readable() {
    for (value, text) in [
        (0.0, "0"),
        (1.0, "1"),
        (0.5, "0.5"),
        (999.25, "999.25"),
        (1_000.0, "1_000"),
        (1_234_567.0, "1_234_567"),
        (-12_345.0, "-12_345"),
    ] {
        assert_eq!(readable(value), text);
    }
}

#[test]
fn a_line_says_whether_the_target_is_met() {
    assert!(line("wide", "sort_rows_s", 200_000.0).ends_with("met"));
    assert!(line("wide", "sort_rows_s", 100_000.0).ends_with("MISSED"));
    assert!(line("narrow", "sort_rows_s", 200_000.0).ends_with("MISSED"));
    assert!(line("wide", "pipeline_disk_ratio", 3.5).ends_with("MISSED"));
    assert!(line("wide", "point_extents_a_run", 1.0).ends_with("met"));
    assert!(line("wide", "point_layout_extents_a_run", 1.01).ends_with("MISSED"));
    assert!(!line("limits", "memcpy_gb_s", 10.0).contains("target"));
}

#[test]
fn json_has_the_three_sections_in_one_line() {
    let report = Report::default();
    report.figure(Shape::Wide, "sort_rows_s", 181_234.567);
    report.figure(Shape::Narrow, "range_ratio", 1.234_567);
    report.limit("memcpy_gb_s", 10.5);
    assert!(report.all_met());
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    assert_eq!(json["wide"]["sort_rows_s"], 181_235);
    assert_eq!(json["narrow"]["range_ratio"], 1.235);
    assert_eq!(json["limits"]["memcpy_gb_s"], 10.5);
    assert!(!report.json().contains('\n'));
}

#[test]
fn the_median_is_the_middle() {
    assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
    assert!(median(&mut []).is_nan());
}
