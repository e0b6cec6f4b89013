//! `generate_series` with PostgreSQL's types: the planner's own keeps dates dates, reads texts as
//! dates alone, counts moments in nanoseconds, which reach from the year 1677 to 2262, and does not
//! take every whole number beside every other.
//!
//! ```text
//!   generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1 day')   of TIMESTAMPs
//!   generate_series(at, '2024-01-02', '12 hours')                             texts are read
//!   generate_series(n, NULL)                                                  no numbers
//!   generate_series(1, 3, 0)                                                  22023
//! ```
//!
//! A function around the planner's own; pure.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, TimestampMicrosecondBuilder};
use arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::planner::intervals::computed;
use crate::types::UTC;

const DAY_NANOS: i128 = 86_400_000_000_000;

/// The name of the function.
pub(crate) const SERIES: &str = "generate_series";

/// Puts the function in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let inner = state.udf(SERIES)?;
    let signature = Signature::user_defined(Volatility::Immutable);
    state.register_udf(Arc::new(ScalarUDF::from(Series { inner, signature })))?;
    Ok(())
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Series {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

/// What an argument may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    Moment,
    Interval,
    /// A text or NULL: as what it stands beside.
    Unknown,
    Other,
}

impl Kind {
    fn of(data_type: &DataType) -> Kind {
        match data_type {
            DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Kind::Unknown
            }
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Kind::Moment,
            DataType::Interval(_) | DataType::Duration(_) => Kind::Interval,
            other if other.is_integer() => Kind::Whole,
            _ => Kind::Other,
        }
    }
}

impl ScalarUDFImpl for Series {
    fn name(&self) -> &str {
        SERIES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(of @ DataType::Timestamp(..)) => Ok(DataType::new_list(of.clone(), true)),
            _ => self.inner.return_type(arguments),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = args.arg_fields.iter().map(|field| field.data_type());
        let types: Vec<DataType> = types.cloned().collect();
        match types.first() {
            Some(DataType::Timestamp(..)) => {
                let gives = self.return_type(&types)?;
                Ok(Arc::new(Field::new(SERIES, gives, true)))
            }
            _ => self.inner.return_field_from_args(args),
        }
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let kinds: Vec<Kind> = arguments.iter().map(Kind::of).collect();
        let whole = |kind: &Kind| matches!(kind, Kind::Whole | Kind::Unknown);
        let moments = match kinds.as_slice() {
            [start, stop, step] => {
                let ends = [*start, *stop];
                let known = ends.contains(&Kind::Moment) || *step == Kind::Interval;
                let moment = |kind: &Kind| matches!(kind, Kind::Moment | Kind::Unknown);
                let steps = matches!(step, Kind::Interval | Kind::Unknown);
                known && steps && ends.iter().all(moment)
            }
            _ => false,
        };
        if moments {
            let zone = arguments[..2].iter().find_map(|of| match of {
                DataType::Timestamp(_, zone) => zone.clone(),
                _ => None,
            });
            let fine = |of: &DataType| matches!(of, DataType::Timestamp(TimeUnit::Nanosecond, _));
            let unit = match arguments[..2].iter().any(fine) {
                true => TimeUnit::Nanosecond,
                false => TimeUnit::Microsecond,
            };
            let moment = DataType::Timestamp(unit, zone);
            let step = DataType::Interval(IntervalUnit::MonthDayNano);
            return Ok(vec![moment.clone(), moment, step]);
        }
        let some = kinds.contains(&Kind::Whole) || arguments.contains(&DataType::Null);
        if (1..=3).contains(&kinds.len()) && some && kinds.iter().all(whole) {
            return Ok(vec![DataType::Int64; kinds.len()]);
        }
        let given: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        plan_err!(
            "Function '{SERIES}' failed to match any signature, but received {} (DataType: )",
            given.join(", ")
        )
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if has_no_step(&args.args)? {
            let error = Error::invalid("step size cannot equal zero").with_sqlstate("22023");
            return Err(into_datafusion(error));
        }
        match args.args.first().map(ColumnarValue::data_type) {
            Some(DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
                computed(&args, |arrays| moments(arrays, zone.as_deref()))
            }
            _ => self.inner.invoke_with_args(args),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// A list of moments a row, from the start to the stop.
fn moments(arrays: &[ArrayRef], zone: Option<&str>) -> Result<ArrayRef> {
    let start = arrays[0].as_primitive::<TimestampMicrosecondType>();
    let stop = arrays[1].as_primitive::<TimestampMicrosecondType>();
    let step = arrays[2].as_primitive::<IntervalMonthDayNanoType>();
    let clocks: Tz = zone.unwrap_or(UTC).parse()?;
    let builder = TimestampMicrosecondBuilder::new();
    let mut lists = ListBuilder::new(builder.with_data_type(start.data_type().clone()));
    for row in 0..start.len() {
        if start.is_null(row) || stop.is_null(row) || step.is_null(row) {
            lists.append_null();
            continue;
        }
        let (stop, step) = (stop.value(row), step.value(row));
        let rises = length(step) > 0;
        let mut at = Some(start.value(row));
        while let Some(now) = at.filter(|now| if rises { *now <= stop } else { *now >= stop }) {
            lists.values().append_value(now);
            let next = TimestampMicrosecondType::add_month_day_nano(now, step, clocks);
            // Months and days with different signs may come back to where they were.
            at = next.filter(|next| if rises { *next > now } else { *next < now });
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// How long a step is in nanoseconds, with 30 days a month, as steps are compared with nothing.
fn length(step: IntervalMonthDayNano) -> i128 {
    let days = i128::from(step.months) * 30 + i128::from(step.days);
    days * DAY_NANOS + i128::from(step.nanoseconds)
}

/// Whether some row is to go on by nothing.
fn has_no_step(args: &[ColumnarValue]) -> Result<bool> {
    let [_, _, step] = args else {
        return Ok(false);
    };
    let arrays = ColumnarValue::values_to_arrays(args)?;
    let (Some(start), Some(stop)) = (arrays.first(), arrays.get(1)) else {
        return Ok(false);
    };
    let asked = |row: usize| start.is_valid(row) && stop.is_valid(row);
    let Some(steps) = arrays.get(2) else {
        return Ok(false);
    };
    Ok(match step.data_type() {
        DataType::Int64 => {
            let mut steps = steps.as_primitive::<Int64Type>().iter().enumerate();
            steps.any(|(row, step)| step == Some(0) && asked(row))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let steps = steps.as_primitive::<IntervalMonthDayNanoType>().iter();
            let mut steps = steps.enumerate();
            steps.any(|(row, step)| step.map(length) == Some(0) && asked(row))
        }
        _ => false,
    })
}
