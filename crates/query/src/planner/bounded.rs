//! Functions that make much out of little: `repeat('a', 1000000000)`. What they make at once has a
//! limit, which is looked at before anything is made: the memory of queries does not count it.
//!
//! Functions around the planner's own; pure. Invariant BND-1: what one call makes for one batch of
//! rows takes at most [`MADE_BYTES_MAX`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use lazybase_model::Error;

use super::around::{self, Around};
use crate::error::into_datafusion;

/// Bytes that a call may make at once.
pub(super) const MADE_BYTES_MAX: u128 = 256 << 20;

/// The functions, and what they make.
const BOUNDED: [(&str, Makes); 4] = [
    ("repeat", Makes::Repeated),
    ("lpad", Makes::Padded),
    ("rpad", Makes::Padded),
    ("array_repeat", Makes::Elements),
];

/// Puts the functions in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    around::register(state, BOUNDED)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Makes {
    /// The text, as many times as the second argument says.
    Repeated,
    /// A text as long as the second argument.
    Padded,
    /// A list as long as the second argument.
    Elements,
}

impl Makes {
    /// How many bytes a call would make at least; nothing where only the call knows.
    fn bytes(&self, args: &[ColumnarValue]) -> Result<u128> {
        let arrays = ColumnarValue::values_to_arrays(args)?;
        let numbers = |at: usize| -> Result<Option<Vec<i128>>> {
            let array = arrays
                .get(at)
                .filter(|array| array.data_type().is_integer());
            let Some(array) = array else {
                return Ok(None);
            };
            let array = cast(array, &DataType::Int64)?;
            let numbers = array.as_primitive::<Int64Type>().iter();
            Ok(Some(numbers.map(|n| n.map_or(0, i128::from)).collect()))
        };
        let sum =
            |all: Vec<i128>| -> u128 { all.into_iter().map(|n| n.max(0).unsigned_abs()).sum() };
        Ok(match self {
            Makes::Padded => numbers(1)?.map_or(0, sum),
            Makes::Elements => numbers(1)?.map_or(0, sum) * 8,
            Makes::Repeated => {
                let lengths = cast(&length(&arrays[0])?, &DataType::Int64)?;
                let lengths = lengths.as_primitive::<Int64Type>().iter();
                let times = numbers(1)?.unwrap_or_default();
                let each = lengths.zip(times);
                sum(each
                    .map(|(length, n)| i128::from(length.unwrap_or(0)) * n)
                    .collect())
            }
        })
    }
}

impl Around for Makes {
    fn answer(&self, inner: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = self.bytes(&args.args)?;
        if bytes > MADE_BYTES_MAX {
            let what = format!("{} would make {bytes} bytes at once", inner.name());
            return Err(into_datafusion(
                Error::invalid(what)
                    .with_detail(format!("at most {MADE_BYTES_MAX} are made"))
                    .with_sqlstate("54000"),
            ));
        }
        let mut args = args;
        if *self == Makes::Padded
            && let Some(length) = args.args.get_mut(1)
        {
            *length = not_negative(length)?;
        }
        inner.invoke_with_args(args)
    }
}

/// Lengths of texts, of which none is less than nothing.
fn not_negative(lengths: &ColumnarValue) -> Result<ColumnarValue> {
    let clipped = |lengths: ArrayRef| -> Result<ArrayRef> {
        let lengths = cast(&lengths, &DataType::Int64)?;
        let lengths = lengths.as_primitive::<Int64Type>();
        Ok(Arc::new(
            lengths.unary::<_, Int64Type>(|length| length.max(0)),
        ))
    };
    match lengths {
        ColumnarValue::Array(lengths) => clipped(Arc::clone(lengths)).map(ColumnarValue::Array),
        ColumnarValue::Scalar(length) => {
            let length = clipped(length.to_array()?)?;
            ScalarValue::try_from_array(&length, 0).map(ColumnarValue::Scalar)
        }
    }
}
