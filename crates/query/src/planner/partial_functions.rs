//! Functions of numbers that are not there for all numbers: `sqrt(-1)`, `ln(0)`, `chr(0)`. The
//! planner gives NaN, an infinity or a NUL; here they are errors, as in PostgreSQL.
//!
//! Functions around the planner's own; pure.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use lazybase_model::Error;

use super::around::{self, Around};
use crate::error::into_datafusion;

/// The functions, and what their arguments are to be.
const PARTIAL: [(&str, Wants); 6] = [
    ("chr", Wants::Character),
    ("sqrt", Wants::NotNegative),
    ("ln", Wants::Positive),
    ("log", Wants::Positive),
    ("log2", Wants::Positive),
    ("log10", Wants::Positive),
];

/// Puts the functions in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    around::register(state, PARTIAL)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Wants {
    Character,
    NotNegative,
    Positive,
}

impl Wants {
    fn checked(self, number: f64) -> Result<()> {
        let (said, sqlstate) = match self {
            Wants::Character if number == 0.0 => ("null character not permitted", "54000"),
            Wants::NotNegative if number < 0.0 => {
                ("cannot take square root of a negative number", "2201F")
            }
            Wants::Positive if number == 0.0 => ("cannot take logarithm of zero", "2201E"),
            Wants::Positive if number < 0.0 => {
                ("cannot take logarithm of a negative number", "2201E")
            }
            _ => return Ok(()),
        };
        Err(into_datafusion(
            Error::invalid(said).with_sqlstate(sqlstate),
        ))
    }
}

impl Around for Wants {
    fn answer(&self, inner: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for value in &args.args {
            let numbers = match value {
                ColumnarValue::Array(array) => Arc::clone(array),
                ColumnarValue::Scalar(scalar) => scalar.to_array()?,
            };
            let numbers = cast(&numbers, &DataType::Float64)?;
            let mut numbers = numbers.as_primitive::<Float64Type>().iter().flatten();
            numbers.try_for_each(|number| self.checked(number))?;
        }
        inner.invoke_with_args(args)
    }
}
