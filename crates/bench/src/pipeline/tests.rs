//! The slope of lag.

use super::slope;

#[test]
fn a_line_has_its_slope() {
    let line = (0..10).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x)));
    assert!((slope(line) - 2.0).abs() < 1e-9);
    assert_eq!(slope([(1.0, 5.0)].into_iter()), 0.0);
    assert_eq!(slope([].into_iter()), 0.0);
}
