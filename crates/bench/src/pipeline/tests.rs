//! The slope of lags.

use super::{Look, Seen, slope};

#[test]
fn a_line_has_its_slope() {
    let line = (0..10).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x)));
    assert!((slope(line) - 2.0).abs() < 1e-9);
    assert_eq!(slope([(1.0, 5.0)].into_iter()), 0.0);
    assert_eq!(slope([].into_iter()), 0.0);
}

#[test]
fn lags_grow_each_by_itself_over_the_second_half() {
    let look = |second: u32| {
        let at = f64::from(second);
        Look {
            at,
            // It grows by half a second each, and no longer from the middle on.
            staleness: at.min(10.0) / 2.0,
            authority_lag: at,
        }
    };
    let seen = Seen {
        looks: (0..20).map(look).collect(),
        ..Seen::default()
    };
    assert_eq!(seen.growth(|look| look.staleness), 0.0);
    assert!((seen.growth(|look| look.authority_lag) - 60.0).abs() < 1e-9);
}
