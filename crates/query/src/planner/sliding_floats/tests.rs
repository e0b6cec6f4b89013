//! Frames of random numbers, each beside what its numbers give when they are looked at alone.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

/// What the numbers of a frame give when they are looked at alone.
fn alone(says: Says, frame: &[f64]) -> Option<f64> {
    let count = frame.len() as f64;
    let sum: f64 = frame.iter().sum();
    let squares: f64 = frame
        .iter()
        .map(|number| (number - sum / count).powi(2))
        .sum();
    let many = frame.len();
    match says {
        Says::Sum => (many > 0).then_some(sum),
        Says::Average => (many > 0).then_some(sum / count),
        Says::Variance { of_sample: true } => (many > 1).then_some(squares / (count - 1.0)),
        Says::Variance { of_sample: false } => (many > 0).then_some(squares / count),
        Says::Deviation { of_sample } => alone(Says::Variance { of_sample }, frame).map(f64::sqrt),
    }
}

const ALL: [Says; 6] = [
    Says::Sum,
    Says::Average,
    Says::Variance { of_sample: true },
    Says::Variance { of_sample: false },
    Says::Deviation { of_sample: true },
    Says::Deviation { of_sample: false },
];

fn are_alike(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if one.is_finite() && other.is_finite() => {
            (one - other).abs() <= 1e-9 * (1.0 + other.abs())
        }
        (Some(one), Some(other)) => (one.is_nan() && other.is_nan()) || one == other,
        (one, other) => one.is_none() && other.is_none(),
    }
}

fn numbers() -> impl Strategy<Value = Vec<Option<f64>>> {
    let number = prop_oneof![
        8 => (-1000_i32..1000).prop_map(|number| Some(f64::from(number) / 8.0)),
        1 => Just(None),
        1 => Just(Some(f64::NAN)),
        1 => Just(Some(f64::INFINITY)),
        1 => Just(Some(1e18)),
    ];
    proptest::collection::vec(number, 0..40)
}

proptest! {
    /// Frames of the same length slide along rows, and say what their numbers say alone.
    #[test]
    fn a_frame_says_what_its_numbers_say(rows in numbers(), long in 1_usize..6) {
        for says in ALL {
            let mut frame = Frame::new(says);
            for last in 0..rows.len() {
                let one = |at: usize| -> [ArrayRef; 1] {
                    [Arc::new(Float64Array::from(vec![rows[at]]))]
                };
                frame.update_batch(&one(last)).unwrap();
                let mut first = 0;
                if let Some(gone) = last.checked_sub(long) {
                    frame.retract_batch(&one(gone)).unwrap();
                    first = gone + 1;
                }
                let held: Vec<f64> = rows[first..=last].iter().flatten().copied().collect();
                let said = match frame.evaluate().unwrap() {
                    ScalarValue::Float64(said) => said,
                    other => panic!("{other:?} is no number"),
                };
                let expected = alone(says, &held);
                let is_alike = are_alike(said, expected);
                prop_assert!(is_alike, "{says:?} of {held:?}: {said:?}, not {expected:?}");
            }
        }
    }
}
