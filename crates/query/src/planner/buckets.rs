//! `width_bucket(x, low, high, count)`: which of so many stretches of one width a number lies in,
//! 0 before the first and `count + 1` behind the last. The bounds may fall, too. Pure.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int32Array};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::plan_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use lazybase_model::{Error, Result as Checked};

use crate::error::into_datafusion;
use crate::planner::intervals::computed;
use crate::types;

/// Adds the function.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let signature = Signature::user_defined(Volatility::Immutable);
    state.register_udf(Arc::new(ScalarUDF::from(WidthBucket { signature })))?;
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WidthBucket {
    signature: Signature,
}

impl ScalarUDFImpl for WidthBucket {
    fn name(&self) -> &str {
        "width_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let is_number = |of: &DataType| of.is_numeric() || *of == DataType::Null;
        let fits = matches!(arguments, [numbers @ .., count]
            if numbers.len() == 3
                && numbers.iter().all(is_number)
                && (count.is_integer() || *count == DataType::Null));
        match fits {
            true => Ok(vec![
                DataType::Float64,
                DataType::Float64,
                DataType::Float64,
                DataType::Int64,
            ]),
            false => {
                let names: Vec<String> = arguments.iter().map(types::name).collect();
                Err(plan_datafusion_err!(
                    "Function 'width_bucket' failed to match any signature, but received types \
                     (DataType: {})",
                    names.join(", ")
                ))
            }
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| {
            let numbers = [0, 1, 2].map(|at| arrays[at].as_primitive::<Float64Type>());
            let counts = arrays[3].as_primitive::<Int64Type>();
            let rows = (0..counts.len()).map(|row| {
                if arrays.iter().any(|array| array.is_null(row)) {
                    return Ok(None);
                }
                let [of, low, high] = numbers.map(|numbers| numbers.value(row));
                let found = bucket(of, (low, high), counts.value(row));
                found.map(Some).map_err(into_datafusion)
            });
            let rows: Result<Int32Array> = rows.collect();
            Ok(Arc::new(rows?))
        })
    }
}

fn bucket(of: f64, (low, high): (f64, f64), count: i64) -> Checked<i32> {
    let wrong = |said: &str| Err(Error::invalid(said).with_sqlstate("2201G"));
    if count <= 0 {
        return wrong("count must be greater than zero");
    }
    if of.is_nan() || low.is_nan() || high.is_nan() {
        return wrong("operand, lower bound, and upper bound cannot be NaN");
    }
    if low.is_infinite() || high.is_infinite() {
        return wrong("lower and upper bounds must be finite");
    }
    if low == high {
        return wrong("lower bound cannot equal upper bound");
    }
    let (of, low, high) = match low < high {
        true => (of, low, high),
        false => (-of, -low, -high),
    };
    let place = if of < low {
        0
    } else if of >= high {
        count.saturating_add(1)
    } else {
        // Halves, for the difference of two doubles may be none.
        let share = (of / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
        ((share * count as f64) as i64).min(count - 1) + 1
    };
    i32::try_from(place).map_err(|_| Error::invalid("integer out of range").with_sqlstate("22003"))
}
