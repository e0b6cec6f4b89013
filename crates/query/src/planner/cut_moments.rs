//! `date_trunc` and `date_bin` of all moments that a TIMESTAMP can be: the planner's own count in
//! nanoseconds, which reach from the year 1677 to 2262, and give NULL or an error beyond.
//!
//! | call                          | gives                                                  |
//! | ----------------------------- | ------------------------------------------------------ |
//! | `date_trunc(unit, x)`         | the last beginning of a unit, up to millennia          |
//! | `date_bin(stride, x, origin)` | the last whole stride from the origin on, or 1970      |
//!
//! Functions in the place of the planner's, which they call for times of day; pure.

use std::sync::Arc;

use arrow::array::types::{
    IntervalMonthDayNano, IntervalMonthDayNanoType, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use lazybase_model::Error;

use super::date_parts::Part;
use crate::error::into_datafusion;
use crate::moments::{civil, day_of, month_days};
use crate::planner::intervals::computed;
use crate::types::{self, INTERVAL};

const MINUTE_MICROS: i64 = 60_000_000;
const HOUR_MICROS: i64 = 60 * MINUTE_MICROS;
const DAY_MICROS: i64 = 24 * HOUR_MICROS;
const DAY_NANOS: i64 = DAY_MICROS * 1_000;

/// Puts the functions in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for (name, to) in [("date_trunc", To::Unit), ("date_bin", To::Stride)] {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(Cut {
            inner,
            to,
            signature: Signature::user_defined(Volatility::Immutable),
        })))?;
    }
    Ok(())
}

/// What moments are cut to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum To {
    Unit,
    Stride,
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Cut {
    inner: Arc<ScalarUDF>,
    to: To,
    signature: Signature,
}

fn is_text(of: &DataType) -> bool {
    use DataType as D;
    matches!(of, D::Utf8 | D::LargeUtf8 | D::Utf8View | D::Null)
}

/// The type that is cut in the place of this one. Nothing else counts in nanoseconds but what is
/// stored so.
fn moment(of: &DataType, zone: Option<Arc<str>>) -> Option<DataType> {
    use DataType as D;
    Some(match of {
        D::Timestamp(TimeUnit::Nanosecond, _) => D::Timestamp(TimeUnit::Nanosecond, zone),
        D::Timestamp(..) | D::Date32 | D::Date64 => D::Timestamp(TimeUnit::Microsecond, zone),
        text if is_text(text) => D::Timestamp(TimeUnit::Microsecond, zone),
        _ => return None,
    })
}

impl Cut {
    fn wanted(&self, arguments: &[DataType]) -> Option<Vec<DataType>> {
        let zone = arguments.iter().find_map(|of| match of {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        });
        let (first, of, origin) = match arguments {
            [first, of] => (first, of, None),
            [first, of, origin] if self.to == To::Stride => (first, of, Some(origin)),
            _ => return None,
        };
        let is_interval = matches!(first, DataType::Interval(_) | DataType::Duration(_));
        let first = match self.to {
            To::Unit if is_text(first) => DataType::Utf8,
            To::Stride if is_interval || is_text(first) => INTERVAL,
            _ => return None,
        };
        let of = match of {
            DataType::Time32(_) | DataType::Time64(_) => of.clone(),
            of => moment(of, zone)?,
        };
        let mut wanted = vec![first, of.clone()];
        wanted.extend(origin.map(|_| of));
        Some(wanted)
    }
}

impl ScalarUDFImpl for Cut {
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
        self.wanted(arguments).ok_or_else(|| {
            let given: Vec<String> = arguments.iter().map(types::name).collect();
            let said = format!("there is no {}({})", self.name(), given.join(", "));
            into_datafusion(Error::invalid(said).with_sqlstate("42883"))
        })
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.get(1).cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let arguments: Vec<DataType> = args.arg_fields.iter().map(data_type).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let gives = self.return_type(&arguments)?;
        Ok(Arc::new(Field::new(self.name(), gives, nullable)))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let gives = args.return_field.data_type().clone();
        match (self.to, &gives) {
            (To::Unit, DataType::Timestamp(..)) => to_unit(&args),
            (To::Stride, DataType::Timestamp(TimeUnit::Microsecond, _)) => {
                computed(&args, |arrays| {
                    Ok(Arc::new(binned(arrays)?.with_data_type(gives.clone())))
                })
            }
            _ => self.inner.invoke_with_args(args),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

fn data_type(field: &FieldRef) -> DataType {
    field.data_type().clone()
}

fn out_of_range() -> DataFusionError {
    into_datafusion(Error::invalid("timestamp out of range").with_sqlstate("22008"))
}

fn to_unit(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let gives = args.return_field.data_type();
    let (unit, moments) = match args.args.as_slice() {
        [ColumnarValue::Scalar(unit), moments] => (unit.try_as_str(), moments),
        _ => {
            let said = "the unit of date_trunc must be a constant";
            return Err(into_datafusion(Error::invalid(said).with_sqlstate("0A000")));
        }
    };
    let Some(name) = unit.flatten() else {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from(gives)?));
    };
    let unit = Unit::named(name).map_err(|(not, sqlstate)| {
        let (unit, of) = (name.to_lowercase(), types::name(gives));
        let error = Error::invalid(format!("unit {unit:?} not {not} for type {of}"));
        into_datafusion(error.with_sqlstate(sqlstate))
    })?;
    Ok(match moments {
        ColumnarValue::Array(moments) => ColumnarValue::Array(unit.cut(moments, gives)?),
        ColumnarValue::Scalar(moment) => {
            let cut = unit.cut(&moment.to_array()?, gives)?;
            ColumnarValue::Scalar(ScalarValue::try_from_array(&cut, 0)?)
        }
    })
}

/// What `date_trunc` cuts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Micros(i64),
    Week,
    Months(i64),
    /// So many years, of which the first ones begin with this one.
    Years(i64, i64),
}

impl Unit {
    /// The unit of a name, or what is wrong with that and its SQLSTATE.
    fn named(name: &str) -> Result<Unit, (&'static str, &'static str)> {
        if matches!(name.to_lowercase().as_str(), "w" | "week" | "weeks") {
            return Ok(Unit::Week);
        }
        Ok(match Part::named(name).ok_or(("recognized", "22023"))? {
            Part::Microsecond => Unit::Micros(1),
            Part::Millisecond => Unit::Micros(1_000),
            Part::Second => Unit::Micros(1_000_000),
            Part::Minute => Unit::Micros(MINUTE_MICROS),
            Part::Hour => Unit::Micros(HOUR_MICROS),
            Part::Day => Unit::Micros(DAY_MICROS),
            Part::Month => Unit::Months(1),
            Part::Quarter => Unit::Months(3),
            Part::Year => Unit::Years(1, 0),
            Part::Years(10) => Unit::Years(10, 0),
            Part::Years(many) => Unit::Years(many.into(), 1),
            _ => return Err(("supported", "0A000")),
        })
    }

    fn cut(self, moments: &ArrayRef, gives: &DataType) -> Result<ArrayRef> {
        Ok(match gives {
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                let moments = moments.as_primitive::<TimestampNanosecondType>();
                let cut: PrimitiveArray<TimestampNanosecondType> = moments.try_unary(|nanos| {
                    let begins = self.begin(nanos.div_euclid(1_000));
                    begins
                        .and_then(|micros| micros.checked_mul(1_000))
                        .ok_or_else(out_of_range)
                })?;
                Arc::new(cut.with_data_type(gives.clone()))
            }
            _ => {
                let moments = moments.as_primitive::<TimestampMicrosecondType>();
                let cut: PrimitiveArray<TimestampMicrosecondType> =
                    moments.try_unary(|micros| self.begin(micros).ok_or_else(out_of_range))?;
                Arc::new(cut.with_data_type(gives.clone()))
            }
        })
    }

    /// When the unit began that a moment lies in.
    fn begin(self, micros: i64) -> Option<i64> {
        let day = micros.div_euclid(DAY_MICROS);
        let begins = match self {
            Unit::Micros(many) => return micros.checked_sub(micros.rem_euclid(many)),
            // 1970 began with a Thursday.
            Unit::Week => day - (day + 3).rem_euclid(7),
            Unit::Months(many) => {
                let (year, month, _) = civil(day);
                day_of(year, (month - 1) / many * many + 1, 1)?
            }
            Unit::Years(many, first) => {
                let (year, _, _) = civil(day);
                day_of((year - first).div_euclid(many) * many + first, 1, 1)?
            }
        };
        begins.checked_mul(DAY_MICROS)
    }
}

fn binned(arrays: &[ArrayRef]) -> Result<PrimitiveArray<TimestampMicrosecondType>> {
    let strides = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
    let moments = arrays[1].as_primitive::<TimestampMicrosecondType>();
    let origins = arrays
        .get(2)
        .map(|origins| origins.as_primitive::<TimestampMicrosecondType>());
    let rows = (0..moments.len()).map(|row| {
        let nulls = strides.is_null(row) || moments.is_null(row);
        if nulls || origins.is_some_and(|origins| origins.is_null(row)) {
            return Ok(None);
        }
        let origin = origins.map_or(0, |origins| origins.value(row));
        bin(strides.value(row), moments.value(row), origin).map(Some)
    });
    rows.collect()
}

/// The beginning of the stride that a moment lies in.
fn bin(stride: IntervalMonthDayNano, micros: i64, origin: i64) -> Result<i64> {
    let nanos = i128::from(stride.days) * i128::from(DAY_NANOS) + i128::from(stride.nanoseconds);
    if stride.months != 0 {
        if nanos != 0 {
            let said = "a stride of date_bin has months, or days and a time of day, but not both";
            return Err(into_datafusion(Error::invalid(said).with_sqlstate("0A000")));
        }
        let months = i64::from(stride.months);
        return match months > 0 {
            true => in_months(months, micros, origin).ok_or_else(out_of_range),
            false => Err(no_stride()),
        };
    }
    let stride = nanos / 1_000;
    if stride <= 0 {
        return Err(no_stride());
    }
    let beyond = (i128::from(micros) - i128::from(origin)).rem_euclid(stride);
    i64::try_from(i128::from(micros) - beyond).map_err(|_| out_of_range())
}

fn no_stride() -> DataFusionError {
    into_datafusion(Error::invalid("stride must be greater than zero").with_sqlstate("22008"))
}

/// The same with a stride of months: a month that is too short for the origin's day has its last.
fn in_months(stride: i64, micros: i64, origin: i64) -> Option<i64> {
    let (year, month, day) = civil(origin.div_euclid(DAY_MICROS));
    let time = origin.rem_euclid(DAY_MICROS);
    let first = year * 12 + month - 1;
    let begin = |months: i64| {
        let (year, month) = (
            (first + months).div_euclid(12),
            (first + months).rem_euclid(12) + 1,
        );
        let day = day_of(year, month, day.min(month_days(year, month)))?;
        day.checked_mul(DAY_MICROS)?.checked_add(time)
    };
    let (year, month, _) = civil(micros.div_euclid(DAY_MICROS));
    let months = (year * 12 + month - 1 - first).div_euclid(stride) * stride;
    match begin(months)? {
        begins if begins > micros => begin(months - stride),
        begins => Some(begins),
    }
}

#[cfg(test)]
mod tests;
