//! The one spelling of a floating-point number: NaN has no sign, and is after all numbers; where
//! numbers are compared, be it in a key or in a query, -0 is 0 as well. A -0 that is stored or
//! computed is shown as one.
//!
//! The kernel for all places where numbers are stored (`crates/query/src/cast.rs`), computed and
//! compared (`crates/query/src/planner/equal_zeros.rs`); pure.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::datatypes::{ArrowNativeTypeOp, ArrowPrimitiveType, DataType, Float32Type, Float64Type};

#[cfg(test)]
mod tests;

/// Whether values of a type are floating-point numbers, or lists of them.
pub(crate) fn are_floats(of: &DataType) -> bool {
    match of {
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(item) => are_floats(item.data_type()),
        _ => false,
    }
}

/// Floating-point numbers with one NaN; as they are compared, with one zero too. Other values, and
/// numbers that are spelt so, come back as they are.
pub(crate) fn one_spelling(values: &ArrayRef, is_compared: bool) -> ArrayRef {
    // Either of these leaves all other numbers; the first makes zero of -0, too.
    let added = if is_compared { 0.0 } else { -0.0 };
    match values.data_type() {
        DataType::Float32 => each::<Float32Type>(values, |number| match number.is_nan() {
            true => f32::NAN,
            false => number + added as f32,
        }),
        DataType::Float64 => each::<Float64Type>(values, |number| match number.is_nan() {
            true => f64::NAN,
            false => number + added,
        }),
        DataType::List(item) if are_floats(item.data_type()) => {
            let lists = values.as_list::<i32>();
            Arc::new(ListArray::new(
                Arc::clone(item),
                lists.offsets().clone(),
                one_spelling(lists.values(), is_compared),
                lists.nulls().cloned(),
            ))
        }
        _ => Arc::clone(values),
    }
}

fn each<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    spelling: impl Fn(T::Native) -> T::Native,
) -> ArrayRef {
    let numbers = values.as_primitive::<T>();
    // Equal bit by bit, as hardly ever one is not.
    let is_spelt = |number: &T::Native| number.is_eq(spelling(*number));
    match numbers.values().iter().all(is_spelt) {
        true => Arc::clone(values),
        false => Arc::new(numbers.unary::<_, T>(spelling)),
    }
}
