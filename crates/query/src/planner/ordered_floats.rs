//! `max` and `min` of floating-point numbers in which NaN stands: it is greater than every number,
//! in whatever order the rows come. The planner's own compare with it in vain.
//!
//! Numbers go to the planner's functions as integers of the same order, and come back as what they
//! were; of all other types they are the planner's as they stand, and of JSON they are JSON. Pure.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int32Type, Int64Type};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;

use super::mapped::{self, Mapping};

/// The functions.
const EXTREMES: [&str; 2] = ["max", "min"];

/// Puts the functions in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for name in EXTREMES {
        mapped::register::<Ordered>(state, name)?;
    }
    Ok(())
}

/// The integer of a number's place among all of them. It is the number of that integer, too.
fn turned(bits: i64) -> i64 {
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

fn turned_short(bits: i32) -> i32 {
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

/// Numbers as integers of the same order.
fn to_ordered(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let numbers = values.as_primitive::<Float64Type>();
            let place = |number: f64| match number.is_nan() {
                true => i64::MAX,
                false => turned(number.to_bits() as i64),
            };
            let places: PrimitiveArray<Int64Type> = numbers.unary(place);
            Arc::new(places)
        }
        DataType::Float32 => {
            let numbers = values.as_primitive::<Float32Type>();
            let place = |number: f32| match number.is_nan() {
                true => i32::MAX,
                false => turned_short(number.to_bits() as i32),
            };
            let places: PrimitiveArray<Int32Type> = numbers.unary(place);
            Arc::new(places)
        }
        _ => Arc::clone(values),
    }
}

/// Such integers as the numbers that they were.
fn from_ordered(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Int64 => {
            let places = values.as_primitive::<Int64Type>();
            let number = |place: i64| match place {
                i64::MAX => f64::NAN,
                place => f64::from_bits(turned(place) as u64),
            };
            let numbers: PrimitiveArray<Float64Type> = places.unary(number);
            Arc::new(numbers)
        }
        DataType::Int32 => {
            let places = values.as_primitive::<Int32Type>();
            let number = |place: i32| match place {
                i32::MAX => f32::NAN,
                place => f32::from_bits(turned_short(place) as u32),
            };
            let numbers: PrimitiveArray<Float32Type> = places.unary(number);
            Arc::new(numbers)
        }
        _ => Arc::clone(values),
    }
}

/// How numbers are mapped to integers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Ordered;

impl Mapping for Ordered {
    const SLIDES_OVER_DISTINCT: bool = true;
    const KEEPS_JSON: bool = true;

    fn mapped(of: &DataType) -> Option<DataType> {
        match of {
            DataType::Float32 => Some(DataType::Int32),
            DataType::Float64 => Some(DataType::Int64),
            _ => None,
        }
    }

    fn to_mapped(values: &ArrayRef) -> ArrayRef {
        to_ordered(values)
    }

    fn from_mapped(values: &ArrayRef, _: &DataType) -> Result<ArrayRef> {
        Ok(from_ordered(values))
    }
}
