//! Functions about intervals and moments that PostgreSQL has and the planner lacks.
//!
//! | function                               | gives                                           |
//! | -------------------------------------- | ----------------------------------------------- |
//! | `age(a, b)`                            | a - b in years, months, days and a time of day  |
//! | `justify_hours(i)`                     | 24 hours as a day                               |
//! | `justify_days(i)`                      | 30 days as a month                              |
//! | `justify_interval(i)`                  | both, and one sign for all                      |
//! | `make_timestamp(y, m, d, h, min, s)`   | a TIMESTAMP                                     |
//! | `make_interval(y, m, w, d, h, min, s)` | an interval                                     |
//!
//! Pure.

use std::sync::Arc;

use arrow::array::types::{Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::moments::{civil, day_of, month_days};
use crate::planner::intervals::computed;
use crate::types::INTERVAL;

/// The function of an interval's parts.
pub(super) const MAKE_INTERVAL: &str = "make_interval";

const MOMENT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
const DAY_MICROS: i64 = 86_400_000_000;
const DAY_NANOS: i64 = DAY_MICROS * 1_000;

/// Adds the functions.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let functions = [
        Made::Age,
        Made::JustifiedHours,
        Made::JustifiedDays,
        Made::Justified,
        Made::Moment,
        Made::Interval,
    ];
    for made in functions {
        state.register_udf(Arc::new(ScalarUDF::from(MomentFunction {
            made,
            signature: Signature::user_defined(Volatility::Immutable),
        })))?;
    }
    Ok(())
}

/// What a function makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Made {
    Age,
    JustifiedHours,
    JustifiedDays,
    Justified,
    Moment,
    Interval,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MomentFunction {
    made: Made,
    signature: Signature,
}

impl ScalarUDFImpl for MomentFunction {
    fn name(&self) -> &str {
        match self.made {
            Made::Age => "age",
            Made::JustifiedHours => "justify_hours",
            Made::JustifiedDays => "justify_days",
            Made::Justified => "justify_interval",
            Made::Moment => "make_timestamp",
            Made::Interval => MAKE_INTERVAL,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        use DataType as A;
        let is_moment = |of: &DataType| {
            let is_text = matches!(of, A::Utf8 | A::LargeUtf8 | A::Utf8View | A::Null);
            is_text || matches!(of, A::Timestamp(..) | A::Date32 | A::Date64)
        };
        let is_interval = |of: &DataType| {
            let is_text = matches!(of, A::Utf8 | A::LargeUtf8 | A::Utf8View | A::Null);
            is_text || matches!(of, A::Interval(_) | A::Duration(_))
        };
        let is_number = |of: &DataType| of.is_numeric() || *of == A::Null;
        match (self.made, arguments) {
            (Made::Age, [_, _]) if arguments.iter().all(is_moment) => Ok(vec![MOMENT, MOMENT]),
            (Made::Moment, [whole @ .., _]) | (Made::Interval, [whole @ .., _])
                if whole.len() == self.made.whole() && arguments.iter().all(is_number) =>
            {
                let mut wanted = vec![A::Int64; whole.len()];
                wanted.push(A::Float64);
                Ok(wanted)
            }
            (Made::Age | Made::Moment | Made::Interval, _) => Err(self.unknown(arguments)),
            (_, [of]) if is_interval(of) => Ok(vec![INTERVAL]),
            _ => Err(self.unknown(arguments)),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.made {
            Made::Moment => MOMENT,
            _ => INTERVAL,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| match self.made {
            Made::Age => Ok(ages(arrays)),
            Made::JustifiedHours => justified(arrays, hours_justified),
            Made::JustifiedDays => justified(arrays, days_justified),
            Made::Justified => justified(arrays, all_justified),
            Made::Moment => moments(arrays),
            Made::Interval => intervals(arrays),
        })
    }
}

impl Made {
    /// How many whole numbers stand before the seconds.
    fn whole(self) -> usize {
        match self {
            Made::Moment => 5,
            Made::Interval => 6,
            _ => 0,
        }
    }
}

impl MomentFunction {
    fn unknown(&self, arguments: &[DataType]) -> DataFusionError {
        let given: Vec<String> = arguments.iter().map(crate::types::name).collect();
        let said = format!("there is no {}({})", self.name(), given.join(", "));
        into_datafusion(Error::invalid(said).with_sqlstate("42883"))
    }
}

type Intervals = PrimitiveArray<IntervalMonthDayNanoType>;

fn ages(arrays: &[ArrayRef]) -> ArrayRef {
    let later = arrays[0].as_primitive::<TimestampMicrosecondType>().iter();
    let earlier = arrays[1].as_primitive::<TimestampMicrosecondType>().iter();
    let ages: Intervals = later
        .zip(earlier)
        .map(|(later, earlier)| Some(age(later?, earlier?)))
        .collect();
    Arc::new(ages)
}

/// From one moment to another one by the calendar. The days that a month lends are those of the
/// month that the earlier one lies in.
fn age(later: i64, earlier: i64) -> IntervalMonthDayNano {
    let (sign, later, earlier) = match later < earlier {
        true => (-1, earlier, later),
        false => (1, later, earlier),
    };
    let date = |moment: i64| civil(moment.div_euclid(DAY_MICROS));
    let (to, from) = (date(later), date(earlier));
    let mut micros = later.rem_euclid(DAY_MICROS) - earlier.rem_euclid(DAY_MICROS);
    let mut days = to.2 - from.2;
    let mut months = (to.0 - from.0) * 12 + to.1 - from.1;
    if micros < 0 {
        micros += DAY_MICROS;
        days -= 1;
    }
    while days < 0 {
        days += month_days(from.0, from.1);
        months -= 1;
    }
    // Moments lie some hundred thousand years apart at most.
    IntervalMonthDayNano::new(
        (sign * months) as i32,
        (sign * days) as i32,
        sign * micros * 1_000,
    )
}

fn justified(
    arrays: &[ArrayRef],
    justify: impl Fn(IntervalMonthDayNano) -> Option<IntervalMonthDayNano>,
) -> Result<ArrayRef> {
    let intervals = arrays[0].as_primitive::<IntervalMonthDayNanoType>().iter();
    let justify = |interval: Option<IntervalMonthDayNano>| {
        let Some(interval) = interval else {
            return Ok(None);
        };
        justify(interval).map(Some).ok_or_else(out_of_range)
    };
    let justified: Result<Intervals> = intervals.map(justify).collect();
    Ok(Arc::new(justified?))
}

fn hours_justified(of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let whole = i32::try_from(of.nanoseconds / DAY_NANOS).ok()?;
    let days = of.days.checked_add(whole)?;
    let (days, nanos) = one_sign(days, of.nanoseconds % DAY_NANOS);
    Some(IntervalMonthDayNano::new(of.months, days, nanos))
}

/// Days and nanoseconds, less than a day of them, with one sign.
fn one_sign(days: i32, nanos: i64) -> (i32, i64) {
    match (days.signum(), nanos.signum()) {
        (1, -1) => (days - 1, nanos + DAY_NANOS),
        (-1, 1) => (days + 1, nanos - DAY_NANOS),
        _ => (days, nanos),
    }
}

fn days_justified(of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let months = of.months.checked_add(of.days / 30)?;
    let days = of.days % 30;
    let (months, days) = match (months.signum(), days.signum()) {
        (1, -1) => (months - 1, days + 30),
        (-1, 1) => (months + 1, days - 30),
        _ => (months, days),
    };
    Some(IntervalMonthDayNano::new(months, days, of.nanoseconds))
}

fn all_justified(of: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let whole = i32::try_from(of.nanoseconds / DAY_NANOS).ok()?;
    let nanos = of.nanoseconds % DAY_NANOS;
    let days = of.days.checked_add(whole)?;
    let months = of.months.checked_add(days / 30)?;
    let days = days % 30;
    let (months, days) = match (months.signum(), days.signum(), nanos.signum()) {
        (1, -1, _) | (1, 0, -1) => (months - 1, days + 30),
        (-1, 1, _) | (-1, 0, 1) => (months + 1, days - 30),
        _ => (months, days),
    };
    let (days, nanos) = one_sign(days, nanos);
    Some(IntervalMonthDayNano::new(months, days, nanos))
}

fn moments(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let whole = |at: usize| arrays[at].as_primitive::<Int64Type>();
    let seconds = arrays[5].as_primitive::<Float64Type>();
    let rows = (0..seconds.len()).map(|row| {
        if arrays.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let [year, month, day, hour, minute] = [0, 1, 2, 3, 4].map(|at| whole(at).value(row));
        let made = moment([year, month, day], [hour, minute], seconds.value(row));
        made.map(Some).ok_or_else(|| {
            let second = seconds.value(row);
            let said = format!(
                "date or time field value out of range: \
                 {year}-{month:02}-{day:02} {hour}:{minute:02}:{second}"
            );
            into_datafusion(Error::invalid(said).with_sqlstate("22008"))
        })
    });
    let rows: Result<PrimitiveArray<TimestampMicrosecondType>> = rows.collect();
    Ok(Arc::new(rows?))
}

fn intervals(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let whole = |at: usize| arrays[at].as_primitive::<Int64Type>();
    let seconds = arrays[6].as_primitive::<Float64Type>();
    let rows = (0..seconds.len()).map(|row| {
        if arrays.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let parts = [0, 1, 2, 3, 4, 5].map(|at| whole(at).value(row));
        let made = interval(parts, seconds.value(row));
        made.map(Some).ok_or_else(out_of_range)
    });
    let rows: Result<Intervals> = rows.collect();
    Ok(Arc::new(rows?))
}

fn interval(parts: [i64; 6], seconds: f64) -> Option<IntervalMonthDayNano> {
    let [years, months, weeks, days, hours, minutes] = parts;
    let months = years.checked_mul(12)?.checked_add(months)?;
    let days = weeks.checked_mul(7)?.checked_add(days)?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    if !seconds.is_finite() {
        return None;
    }
    // What no integer holds becomes the largest, which is too large for nanoseconds.
    let micros = (seconds * 1e6).round() as i64;
    let nanos = minutes.checked_mul(60_000_000_000)?;
    Some(IntervalMonthDayNano::new(
        i32::try_from(months).ok()?,
        i32::try_from(days).ok()?,
        nanos.checked_add(micros.checked_mul(1_000)?)?,
    ))
}

fn out_of_range() -> DataFusionError {
    into_datafusion(Error::invalid("interval out of range").with_sqlstate("22008"))
}

fn moment(date: [i64; 3], time: [i64; 2], second: f64) -> Option<i64> {
    let [year, month, day] = date;
    // There is no year 0; -1 is the one before 1.
    let year = match year {
        0 => return None,
        1..=294_276 => year,
        -4_713..0 => year + 1,
        _ => return None,
    };
    let [hour, minute] = time;
    let is_minute = (0..24).contains(&hour) && (0..60).contains(&minute);
    let is_time = is_minute && (0.0..=60.0).contains(&second);
    let is_end = time == [24, 0] && second == 0.0;
    if !(is_time || is_end) {
        return None;
    }
    let micros = (hour * 60 + minute) * 60_000_000 + (second * 1e6).round() as i64;
    day_of(year, month, day)?
        .checked_mul(DAY_MICROS)?
        .checked_add(micros)
}

#[cfg(test)]
mod tests;
