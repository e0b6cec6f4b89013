//! Numbers as they are compared and as they are shown.

use arrow::array::Float64Array;

use super::*;

fn bits(values: &ArrayRef) -> Vec<u64> {
    let numbers = values.as_primitive::<Float64Type>().values().iter();
    numbers.map(|number| number.to_bits()).collect()
}

fn given() -> ArrayRef {
    Arc::new(Float64Array::from(vec![
        -0.0,
        0.0,
        -f64::NAN,
        f64::NAN,
        f64::NEG_INFINITY,
        -1.5,
    ]))
}

#[test]
fn zero_and_nan_are_compared_in_one_spelling() {
    let expected = [0.0, 0.0, f64::NAN, f64::NAN, f64::NEG_INFINITY, -1.5].map(f64::to_bits);
    assert_eq!(bits(&one_spelling(&given(), true)), expected);
}

#[test]
fn nan_loses_its_sign_and_zero_keeps_it() {
    let expected = [-0.0, 0.0, f64::NAN, f64::NAN, f64::NEG_INFINITY, -1.5].map(f64::to_bits);
    assert_eq!(bits(&one_spelling(&given(), false)), expected);
}

#[test]
fn numbers_that_are_spelt_so_are_not_copied() {
    let spelt = one_spelling(&given(), false);
    assert!(Arc::ptr_eq(&spelt, &one_spelling(&spelt, false)));
}

#[test]
fn lists_have_such_numbers() {
    let lists = ListArray::from_iter_primitive::<Float64Type, _, _>([
        Some(vec![Some(-0.0), None, Some(-f64::NAN)]),
        None,
    ]);
    let lists: ArrayRef = Arc::new(lists);
    let expected = ListArray::from_iter_primitive::<Float64Type, _, _>([
        Some(vec![Some(0.0), None, Some(f64::NAN)]),
        None,
    ]);
    let spelt = one_spelling(&lists, true);
    assert_eq!(spelt.to_data(), expected.to_data());
    let numbers = spelt.as_list::<i32>().values();
    assert_eq!(bits(numbers)[0], 0.0_f64.to_bits());
    assert_eq!(bits(numbers)[2], f64::NAN.to_bits());
}
