//! `extract` and `date_part` as PostgreSQL answers them.
//!
//! | asked                              | the planner's own | here            |
//! | ---------------------------------- | ----------------- | --------------- |
//! | second, milliseconds               | whole             | with a fraction |
//! | epoch of an interval of a year     | 360 days          | 365.25 days     |
//! | century, decade, millennium, julian | none             | as PostgreSQL   |
//! | years before 1                     | 0 for 1 BC        | -1              |
//! | parts of a duration                | each in full      | of its interval |
//!
//! A function in the place of the planner's, which it calls for everything else, and the planner of
//! `extract`; pure.

use std::sync::Arc;

use arrow::array::types::{
    Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int32Array, Int64Array, PrimitiveArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
};
use lazybase_model::Error;

use super::around::{self, Around};
use crate::error::into_datafusion;
use crate::text_form::intervals;
use crate::types::{self, INTERVAL};

const MINUTE_MICROS: i64 = 60_000_000;
const HOUR_MICROS: i64 = 60 * MINUTE_MICROS;
const DAY_SECONDS: i64 = 86_400;
/// A year of 365.25 days.
const YEAR_SECONDS: i64 = 31_557_600;
/// The day that Julian days call 0, in days before 1970.
const JULIAN_DAYS: f64 = 2_440_588.0;

/// Puts the function in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    state.register_udf(function())?;
    Ok(())
}

fn function() -> Arc<ScalarUDF> {
    around::function(date_part(), PartOf)
}

/// Plans `extract`; the planner's own has its own function.
#[derive(Debug)]
pub(crate) struct Extracts;

impl ExprPlanner for Extracts {
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(function().call(args)))
    }
}

/// A part of a moment or of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Year,
    IsoYear,
    /// So many years.
    Years(i32),
    Quarter,
    Month,
    Day,
    /// Of the week, of the year, the week.
    Count,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    Epoch,
    Julian,
    Zone,
}

impl Part {
    /// The part of a name, or of one of its short forms.
    pub(super) fn named(name: &str) -> Option<Part> {
        let name = name.trim_matches(['\'', '"']).to_ascii_lowercase();
        Some(match name.as_str() {
            "y" | "yr" | "yrs" | "year" | "years" => Part::Year,
            "isoyear" => Part::IsoYear,
            "dec" | "decs" | "decade" | "decades" => Part::Years(10),
            "c" | "cent" | "century" | "centuries" => Part::Years(100),
            "mil" | "mils" | "millennium" | "millennia" | "millenium" => Part::Years(1000),
            "qtr" | "quarter" => Part::Quarter,
            "mon" | "mons" | "month" | "months" => Part::Month,
            "d" | "day" | "days" => Part::Day,
            "w" | "week" | "weeks" | "dow" | "isodow" | "doy" => Part::Count,
            "h" | "hr" | "hrs" | "hour" | "hours" => Part::Hour,
            "m" | "min" | "mins" | "minute" | "minutes" => Part::Minute,
            "s" | "sec" | "secs" | "second" | "seconds" => Part::Second,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" => {
                Part::Millisecond
            }
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds" => {
                Part::Microsecond
            }
            "nanosecond" | "nanoseconds" => Part::Nanosecond,
            "epoch" => Part::Epoch,
            "julian" => Part::Julian,
            "timezone" | "timezone_hour" | "timezone_minute" => Part::Zone,
            _ => return None,
        })
    }

    /// Whether values of a type have such a part.
    fn is_of(self, of: &DataType) -> bool {
        use Part as P;
        match of {
            DataType::Time32(_) | DataType::Time64(_) => matches!(
                self,
                P::Hour
                    | P::Minute
                    | P::Second
                    | P::Millisecond
                    | P::Microsecond
                    | P::Nanosecond
                    | P::Epoch
            ),
            DataType::Interval(_) | DataType::Duration(_) => {
                !matches!(self, P::IsoYear | P::Count | P::Julian | P::Zone)
            }
            DataType::Timestamp(_, Some(_)) => true,
            _ => self != P::Zone,
        }
    }

    fn result(self) -> DataType {
        match self {
            Part::Second | Part::Millisecond | Part::Epoch | Part::Julian => DataType::Float64,
            Part::Nanosecond => DataType::Int64,
            _ => DataType::Int32,
        }
    }
}

impl Part {
    fn computed(self, inner: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ArrayRef> {
        let rows = match args.args.get(1) {
            Some(ColumnarValue::Array(array)) => array.len(),
            _ => 1,
        };
        let value = args.args.get(1).cloned();
        let value = value.unwrap_or(ColumnarValue::Scalar(ScalarValue::Null));
        let values = value.into_array(rows)?;
        let part = self;
        match values.data_type() {
            DataType::Interval(_) => {
                let intervals = cast(&values, &INTERVAL)?;
                return of_intervals(part, intervals.as_primitive());
            }
            DataType::Duration(_) => return of_intervals(part, &intervals(&values)?),
            _ => {}
        }
        Ok(match part {
            Part::Second => shown(&micros(&values)?, |at| of_minute(at) as f64 / 1e6),
            Part::Millisecond => shown(&micros(&values)?, |at| of_minute(at) as f64 / 1e3),
            // A day may lie further off than microseconds count.
            Part::Epoch if *values.data_type() == DataType::Date32 => {
                shown(&days(&values)?, |day| (day * DAY_SECONDS) as f64)
            }
            Part::Epoch => shown(&micros(&values)?, |at| at as f64 / 1e6),
            Part::Julian if *values.data_type() == DataType::Date32 => {
                shown(&days(&values)?, |day| day as f64 + JULIAN_DAYS)
            }
            Part::Julian => {
                let day = DAY_SECONDS as f64 * 1e6;
                shown(&micros(&values)?, |at| at as f64 / day + JULIAN_DAYS)
            }
            Part::Zone => {
                let zero = |_: i64| 0_i32;
                Arc::new(micros(&values)?.unary::<_, Int32Type>(zero))
            }
            Part::Years(many) => {
                let years = other_part(inner, "year", args)?.into_array(rows)?;
                let years = years.as_primitive::<Int32Type>();
                Arc::new(years.unary::<_, Int32Type>(|year| many_years(year, many)))
            }
            // The year before 1 is -1.
            Part::Year | Part::IsoYear => {
                let years = inner.invoke_with_args(args)?.into_array(rows)?;
                let years = years.as_primitive::<Int32Type>();
                let year = |year: i32| if year > 0 { year } else { year - 1 };
                Arc::new(years.unary::<_, Int32Type>(year))
            }
            _ => inner.invoke_with_args(args)?.into_array(rows)?,
        })
    }
}

/// Another part of the same values, as the planner's function has it.
fn other_part(
    inner: &ScalarUDF,
    part: &str,
    mut args: ScalarFunctionArgs,
) -> Result<ColumnarValue> {
    if let Some(named) = args.args.first_mut() {
        *named = ColumnarValue::Scalar(ScalarValue::from(part));
    }
    inner.invoke_with_args(args)
}

/// The decade, century or millennium of a year, where 0 is the year before 1: decades begin at 0,
/// the others at 1, and there is none between 1 and -1.
fn many_years(year: i32, many: i32) -> i32 {
    match (many, year) {
        (10, 0..) => year / 10,
        (10, _) => -((8 - (year - 1)) / 10),
        (_, 1..) => (year + many - 1) / many,
        _ => -((many - 1 - (year - 1)) / many),
    }
}

fn of_minute(micros: i64) -> i64 {
    micros.rem_euclid(MINUTE_MICROS)
}

fn shown(numbers: &Int64Array, show: impl Fn(i64) -> f64) -> ArrayRef {
    let shown: Float64Array = numbers.unary(show);
    Arc::new(shown)
}

/// The microseconds since 1970, or since midnight.
fn micros(values: &ArrayRef) -> Result<Int64Array> {
    let micros: Int64Array = match values.data_type() {
        DataType::Time32(_) | DataType::Time64(_) => {
            let times = cast(values, &DataType::Time64(TimeUnit::Microsecond))?;
            let times = times.as_primitive::<Time64MicrosecondType>();
            times.reinterpret_cast::<Int64Type>()
        }
        of => {
            let zone = match of {
                DataType::Timestamp(_, zone) => zone.clone(),
                _ => None,
            };
            let moments = cast(values, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
            let moments = moments.as_primitive::<TimestampMicrosecondType>();
            moments.reinterpret_cast::<Int64Type>()
        }
    };
    Ok(micros)
}

fn days(values: &ArrayRef) -> Result<Int64Array> {
    let days = cast(&cast(values, &DataType::Int32)?, &DataType::Int64)?;
    Ok(days.as_primitive::<Int64Type>().clone())
}

/// A part of intervals, each of which has the sign of what it is a part of.
fn of_intervals(part: Part, intervals: &Intervals) -> Result<ArrayRef> {
    let micros = |of: IntervalMonthDayNano| of.nanoseconds / 1_000;
    let of_minute = |of: IntervalMonthDayNano| micros(of) % MINUTE_MICROS;
    Ok(match part {
        Part::Year => counted(intervals, |of| i64::from(of.months / 12)),
        Part::Years(many) => counted(intervals, |of| i64::from(of.months / 12 / many)),
        Part::Quarter => counted(intervals, |of| i64::from(of.months % 12 / 3 + 1)),
        Part::Month => counted(intervals, |of| i64::from(of.months % 12)),
        Part::Day => counted(intervals, |of| i64::from(of.days)),
        Part::Hour => counted(intervals, |of| micros(of) / HOUR_MICROS),
        Part::Minute => counted(intervals, |of| micros(of) / MINUTE_MICROS % 60),
        Part::Microsecond => counted(intervals, of_minute),
        Part::Second => measured(intervals, |of| of_minute(of) as f64 / 1e6),
        Part::Millisecond => measured(intervals, |of| of_minute(of) as f64 / 1e3),
        Part::Epoch => measured(intervals, |of| {
            let (years, months) = (i64::from(of.months / 12), i64::from(of.months % 12));
            let days = months * 30 + i64::from(of.days);
            let seconds = years * YEAR_SECONDS + days * DAY_SECONDS;
            let all = i128::from(seconds) * 1_000_000 + i128::from(micros(of));
            all as f64 / 1e6
        }),
        Part::Nanosecond => {
            let of_minute = |of: IntervalMonthDayNano| of.nanoseconds % (MINUTE_MICROS * 1_000);
            Arc::new(intervals.unary::<_, Int64Type>(of_minute))
        }
        Part::IsoYear | Part::Count | Part::Julian | Part::Zone => {
            return Err(into_datafusion(Error::internal(
                "an interval has no such part",
            )));
        }
    })
}

type Intervals = PrimitiveArray<IntervalMonthDayNanoType>;

fn counted(intervals: &Intervals, part: impl Fn(IntervalMonthDayNano) -> i64) -> ArrayRef {
    // The greatest are the hours of all nanoseconds that there are: millions.
    let counts: Int32Array = intervals.unary(|of| part(of) as i32);
    Arc::new(counts)
}

fn measured(intervals: &Intervals, part: impl Fn(IntervalMonthDayNano) -> f64) -> ArrayRef {
    let measures: Float64Array = intervals.unary(part);
    Arc::new(measures)
}

fn constant(value: Option<&ScalarValue>) -> Option<&str> {
    value.and_then(|value| value.try_as_str().flatten())
}

/// `date_part`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PartOf;

impl Around for PartOf {
    fn field(&self, inner: &ScalarUDF, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let name = constant(args.scalar_arguments.first().copied().flatten());
        let (Some(name), Some(value)) = (name, args.arg_fields.get(1)) else {
            return inner.return_field_from_args(args);
        };
        let of = value.data_type();
        let part = Part::named(name).ok_or((name, "recognized", "22023"));
        let part = part.and_then(|part| match part.is_of(of) {
            true => Ok(part),
            false => Err((name, "supported", "0A000")),
        });
        let part = part.map_err(|(name, not, sqlstate)| {
            let (unit, of) = (name.to_lowercase(), types::name(of));
            let error = Error::invalid(format!("unit {unit:?} not {not} for type {of}"));
            into_datafusion(error.with_sqlstate(sqlstate))
        })?;
        let field = Field::new(inner.name(), part.result(), value.is_nullable());
        Ok(Arc::new(field))
    }

    fn answer(&self, inner: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let part = match args.args.first() {
            Some(ColumnarValue::Scalar(name)) => constant(Some(name)).and_then(Part::named),
            _ => None,
        };
        let Some(part) = part else {
            return inner.invoke_with_args(args);
        };
        let is_constant = matches!(args.args.get(1), Some(ColumnarValue::Scalar(_)));
        let values = part.computed(inner, args)?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }

    fn preimage(
        &self,
        inner: &ScalarUDF,
        args: &[Expr],
        constant: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        // Years before 1 have other numbers there.
        match constant {
            Expr::Literal(ScalarValue::Int32(Some(1..)), _) => inner.preimage(args, constant, info),
            _ => Ok(PreimageResult::None),
        }
    }
}
