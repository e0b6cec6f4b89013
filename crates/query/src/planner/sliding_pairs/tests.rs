//! Frames of random pairs, each beside what its pairs give when they are looked at alone.

use std::sync::Arc;

use arrow::array::Float64Array;
use datafusion::common::ScalarValue;
use proptest::prelude::*;

use super::*;

const ALL: [Says; 11] = [
    Says::Correlation,
    Says::Covariance { of_sample: true },
    Says::Covariance { of_sample: false },
    Says::MeanX,
    Says::MeanY,
    Says::Intercept,
    Says::Determination,
    Says::Slope,
    Says::SquaresX,
    Says::Products,
    Says::SquaresY,
];

/// What the pairs of a frame give when they are looked at alone.
fn alone(says: Says, frame: &[(f64, f64)]) -> Option<f64> {
    let count = frame.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| frame.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        let apart = frame.iter().map(|(x, y)| (x - mean_x, y - mean_y));
        apart.map(|(x, y)| of(x, y)).sum()
    };
    let (xx, yy, xy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    let is_line = frame.len() > 1 && xx > 0.0;
    let is_there = !frame.is_empty();
    match says {
        Says::Correlation => (is_line && yy > 0.0).then(|| xy / (xx * yy).sqrt()),
        Says::Covariance { of_sample: true } => (frame.len() > 1).then(|| xy / (count - 1.0)),
        Says::Covariance { of_sample: false } => is_there.then(|| xy / count),
        Says::MeanX => is_there.then_some(mean_x),
        Says::MeanY => is_there.then_some(mean_y),
        Says::Intercept => is_line.then(|| mean_y - xy / xx * mean_x),
        Says::Determination => (is_line && yy > 0.0).then(|| xy * xy / xx / yy),
        Says::Slope => is_line.then(|| xy / xx),
        Says::SquaresX => is_there.then_some(xx),
        Says::Products => is_there.then_some(xy),
        Says::SquaresY => is_there.then_some(yy),
    }
}

fn number() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        16 => (-1000_i32..1000).prop_map(|number| Some(f64::from(number) / 8.0)),
        1 => Just(None),
        1 => Just(Some(f64::NAN)),
        1 => Just(Some(f64::INFINITY)),
        1 => Just(Some(1e18)),
    ]
}

fn is_small(number: f64) -> bool {
    number.abs() < 1000.0
}

proptest! {
    /// Frames of the same length slide along rows; those that hold small numbers alone say nothing
    /// of the great ones that have left.
    #[test]
    fn a_frame_says_what_its_pairs_say(
        rows in proptest::collection::vec((number(), number()), 0..40),
        long in 1_usize..6,
    ) {
        for says in ALL {
            let mut frame = Frame::new(says);
            for last in 0..rows.len() {
                let one = |at: usize| -> [ArrayRef; 2] {
                    let (x, y) = rows[at];
                    [y, x].map(|number| Arc::new(Float64Array::from(vec![number])) as ArrayRef)
                };
                frame.update_batch(&one(last)).unwrap();
                let mut first = 0;
                if let Some(gone) = last.checked_sub(long) {
                    frame.retract_batch(&one(gone)).unwrap();
                    first = gone + 1;
                }
                let said = match frame.evaluate().unwrap() {
                    ScalarValue::Float64(said) => said,
                    other => panic!("{other:?} is no number"),
                };
                let pairs = rows[first..=last].iter();
                let held: Vec<(f64, f64)> = pairs.filter_map(|(x, y)| (*x).zip(*y)).collect();
                if !held.iter().all(|(x, y)| is_small(*x) && is_small(*y)) {
                    continue;
                }
                let expected = alone(says, &held);
                let is_alike = match (said, expected) {
                    (Some(said), Some(expected)) => {
                        (said - expected).abs() <= 1e-6 * (1.0 + expected.abs())
                    }
                    (said, expected) => said.is_none() && expected.is_none(),
                };
                prop_assert!(is_alike, "{says:?} of {held:?}: {said:?}, not {expected:?}");
            }
        }
    }
}
