//! Rows compress as the targets assume.

#![allow(clippy::unwrap_used)]

use super::{WIDE_RATIO, as_assumed, lz4_ratio};
use crate::data::{Pool, Shape};

#[test]
fn rows_that_are_made_compress_as_the_targets_assume() {
    let wide = lz4_ratio(&Pool::new(Shape::Wide, 42, 1, 3_500)).unwrap();
    assert!(WIDE_RATIO.contains(&wide), "{wide}");
    assert!(lz4_ratio(&Pool::new(Shape::Narrow, 42, 1, 10_000)).unwrap() > wide);
}

#[test]
fn wide_rows_that_compress_otherwise_end_the_run() {
    for ratio in [0.44, 0.56, f64::NAN] {
        let error = as_assumed(Shape::Wide, ratio).unwrap_err();
        assert!(error.to_string().contains("LZ4"), "{error}");
        assert!(as_assumed(Shape::Narrow, ratio).is_ok());
    }
    assert!(as_assumed(Shape::Wide, 0.5).is_ok());
}
