//! `to_char` as PostgreSQL has it: of numbers, and of moments and intervals, with all that its
//! formats say. A format with a percent sign is one of strftime, which the planner's own reads.
//!
//! A function in the place of the planner's; pure.

mod moments;
mod numbers;

use std::sync::Arc;

use arrow::array::types::{Date32Type, IntervalMonthDayNanoType, TimestampMicrosecondType};
use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Time64MicrosecondType, TimeUnit};
use datafusion::common::{ScalarValue, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use lazybase_model::Result as Checked;

use crate::error::into_datafusion;
use crate::planner::intervals::computed;
use crate::text_form::{DAY_MICROS, intervals};
use crate::types::{self, INTERVAL};
use moments::Parts;
use numbers::NumberFormat;

/// Digits that a floating-point number has.
const FLOAT_DIGITS: usize = 15;

/// Puts the function in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let inner = state.udf("to_char")?;
    let function = ToChar {
        inner,
        signature: Signature::user_defined(Volatility::Immutable),
    };
    state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ToChar {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

/// What values are taken as.
fn taken(of: &DataType) -> Option<DataType> {
    let micros = TimeUnit::Microsecond;
    Some(match of {
        DataType::Timestamp(_, zone) => DataType::Timestamp(micros, zone.clone()),
        DataType::Date32 | DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(micros),
        DataType::Interval(_) => INTERVAL,
        DataType::Duration(_) => of.clone(),
        of if of.is_integer() => of.clone(),
        DataType::Decimal128(..) | DataType::Decimal256(..) => of.clone(),
        of if of.is_floating() => DataType::Float64,
        DataType::Null => DataType::Timestamp(micros, None),
        _ => return None,
    })
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let wrong = || {
            let names: Vec<String> = arguments.iter().map(types::name).collect();
            plan_datafusion_err!(
                "Function 'to_char' failed to match any signature, but received of (DataType: {})",
                names.join(", ")
            )
        };
        let [of, format] = arguments else {
            return Err(wrong());
        };
        let is_text = format.is_string() || format.is_null();
        let of = taken(of).filter(|_| is_text).ok_or_else(wrong)?;
        Ok(vec![of, DataType::Utf8])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_moment = |of: &DataType| !of.is_numeric();
        if let [
            value,
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(format))),
        ] = &args.args[..]
            && format.contains('%')
            && is_moment(&value.data_type())
        {
            let text = self.inner.invoke_with_args(args)?;
            return text.cast_to(&DataType::Utf8, None);
        }
        let is_constant = matches!(args.args.first(), Some(ColumnarValue::Scalar(_)));
        computed(&args, |arrays| {
            let formats = cast(&arrays[1], &DataType::Utf8)?;
            let shown = shown(&arrays[0], formats.as_string(), is_constant)?;
            Ok(Arc::new(shown))
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The texts of values, each by its format.
fn shown(values: &ArrayRef, formats: &StringArray, is_constant: bool) -> Result<StringArray> {
    let values = match values.data_type() {
        DataType::Duration(_) => Arc::new(intervals(values)?) as ArrayRef,
        _ => Arc::clone(values),
    };
    let of_number = values.data_type().is_numeric();
    // A format is mostly the same for all rows.
    let mut read: Option<(String, NumberFormat)> = None;
    let mut texts = StringBuilder::new();
    let as_texts = match of_number && !values.data_type().is_floating() {
        true => Some(cast(&values, &DataType::Utf8)?),
        false => None,
    };
    for row in 0..values.len() {
        if values.is_null(row) || formats.is_null(row) {
            texts.append_null();
            continue;
        }
        let format = formats.value(row);
        if !of_number {
            let text = moments::shown(&parts(&values, row), format).map_err(into_datafusion)?;
            texts.append_value(text);
            continue;
        }
        if read.as_ref().is_none_or(|(known, _)| known != format) {
            let number = NumberFormat::read(format).map_err(into_datafusion)?;
            read = Some((format.to_owned(), number));
        }
        if let Some((_, format)) = &read {
            let text = match &as_texts {
                Some(numbers) => exact(numbers.as_string::<i32>().value(row), format),
                None => float(
                    values.as_primitive::<Float64Type>().value(row),
                    is_constant,
                    format,
                ),
            };
            texts.append_value(text.map_err(into_datafusion)?);
        }
    }
    Ok(texts.finish())
}

fn exact(number: &str, format: &NumberFormat) -> Checked<String> {
    let (negative, digits) = numbers::rounded(number, format.behind());
    Ok(format.show(negative, &digits))
}

/// A floating-point number; one that is written out is a DECIMAL in PostgreSQL.
fn float(number: f64, is_constant: bool, format: &NumberFormat) -> Checked<String> {
    if is_constant && number.is_finite() {
        return exact(&format!("{number}"), format);
    }
    let before = format!("{:.0}", number.abs()).len();
    let behind = format.behind().min(FLOAT_DIGITS.saturating_sub(before));
    let digits = format!("{:.behind$}", number.abs());
    let is_zero = !digits.bytes().any(|digit| matches!(digit, b'1'..=b'9'));
    let negative = number < 0.0 && (!is_zero || number.is_infinite());
    Ok(format.show(negative, &digits))
}

fn parts(values: &ArrayRef, row: usize) -> Parts {
    match values.data_type() {
        DataType::Date32 => {
            let days = values.as_primitive::<Date32Type>().value(row);
            Parts::of_moment(i64::from(days).saturating_mul(DAY_MICROS), false)
        }
        DataType::Time64(_) => {
            let micros = values.as_primitive::<Time64MicrosecondType>().value(row);
            Parts::of_interval(0, 0, micros)
        }
        DataType::Interval(_) => {
            let value = values.as_primitive::<IntervalMonthDayNanoType>().value(row);
            Parts::of_interval(value.months, value.days, value.nanoseconds / 1_000)
        }
        of => {
            let zone = matches!(of, DataType::Timestamp(_, Some(_)));
            let micros = values.as_primitive::<TimestampMicrosecondType>().value(row);
            Parts::of_moment(micros, zone)
        }
    }
}
