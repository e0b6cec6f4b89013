//! Sums of integers and of long decimals, added up in twice as many bits: one that is out of its
//! type's range is an error, where the planner's own wraps around; what goes over the range in
//! between does not matter.
//!
//! | of                             | added up as       |
//! | ------------------------------ | ----------------- |
//! | BIGINT, BIGINT UNSIGNED        | `DECIMAL(38, 0)`  |
//! | `DECIMAL(p, s)`, p over 28     | `DECIMAL(76, s)`  |
//!
//! The planner's function, with its input as such decimals and its answer narrowed again; of all
//! other types it is the planner's as it stands, but for floating-point numbers over frames that
//! slide (`crates/query/src/planner/sliding_floats.rs`). Pure.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Decimal256Array};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type,
    DecimalType, Int64Type, UInt64Type, i256,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::function::AccumulatorArgs;

use super::mapped::{self, Mapping};
use super::sliding_floats::over_floats;
use crate::error::into_datafusion;
use crate::planner::checked_integers::out_of_range;

/// Digits that the planner's sum of decimals has more than they: so many rows can't overflow it.
const SPARE_DIGITS: u8 = 10;

/// What values are added up as, if not as they are.
fn wide(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Int64 | DataType::UInt64 => Some(DataType::Decimal128(38, 0)),
        DataType::Decimal128(precision, scale)
            if *precision > DECIMAL128_MAX_PRECISION - SPARE_DIGITS =>
        {
            Some(DataType::Decimal256(DECIMAL256_MAX_PRECISION, *scale))
        }
        _ => None,
    }
}

/// Puts the function in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    mapped::register::<Wide>(state, "sum")
}

/// How values are mapped to wide numbers.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Wide;

impl Mapping for Wide {
    // The planner's has only a function for distinct values of BIGINT.
    const SLIDES_OVER_DISTINCT: bool = false;

    fn mapped(of: &DataType) -> Option<DataType> {
        wide(of)
    }

    fn to_mapped(values: &ArrayRef) -> ArrayRef {
        widened(values)
    }

    fn from_mapped(values: &ArrayRef, of: &DataType) -> Result<ArrayRef> {
        narrowed(values, of)
    }

    fn sliding(name: &str, args: &AccumulatorArgs<'_>) -> Option<Box<dyn Accumulator>> {
        over_floats(name, args)
    }
}

/// Values as wide numbers.
fn widened(values: &ArrayRef) -> ArrayRef {
    let Some(wide) = wide(values.data_type()) else {
        return Arc::clone(values);
    };
    match values.data_type() {
        DataType::Int64 => {
            let integers = values.as_primitive::<Int64Type>();
            let sums: Decimal128Array = integers.unary(i128::from);
            Arc::new(sums.with_data_type(wide))
        }
        DataType::UInt64 => {
            let integers = values.as_primitive::<UInt64Type>();
            let sums: Decimal128Array = integers.unary(i128::from);
            Arc::new(sums.with_data_type(wide))
        }
        _ => {
            let decimals = values.as_primitive::<Decimal128Type>();
            let sums: Decimal256Array = decimals.unary(i256::from_i128);
            Arc::new(sums.with_data_type(wide))
        }
    }
}

/// Wide numbers as the sum's type.
fn narrowed(sums: &ArrayRef, of: &DataType) -> Result<ArrayRef> {
    let failed = |sum: String| into_datafusion(out_of_range(of, &sum));
    if let DataType::Decimal128(precision, scale) = of {
        let narrow = |sum: i256| {
            let narrow = sum.to_i128();
            let fits = narrow.filter(|sum| {
                Decimal128Type::validate_decimal_precision(*sum, *precision, *scale).is_ok()
            });
            fits.ok_or_else(|| failed(Decimal256Type::format_decimal(sum, u8::MAX, *scale)))
        };
        let sums = sums.as_primitive::<Decimal256Type>();
        let narrow = sums.try_unary::<_, Decimal128Type, DataFusionError>(narrow)?;
        return Ok(Arc::new(narrow.with_data_type(of.clone())));
    }
    let sums = sums.as_primitive::<Decimal128Type>();
    Ok(match of {
        DataType::UInt64 => {
            let narrow = |sum: i128| sum.try_into().map_err(|_| failed(sum.to_string()));
            Arc::new(sums.try_unary::<_, UInt64Type, DataFusionError>(narrow)?)
        }
        _ => {
            let narrow = |sum: i128| sum.try_into().map_err(|_| failed(sum.to_string()));
            Arc::new(sums.try_unary::<_, Int64Type, DataFusionError>(narrow)?)
        }
    })
}
