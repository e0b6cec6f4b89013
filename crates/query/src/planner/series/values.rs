//! The values of series, one after the other, from their arguments.
//!
//! All of them are whole numbers: moments count the units of their type. Pure.

use std::cmp::Ordering;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit,
    TimestampMicrosecondType, TimestampNanosecondType,
};
use datafusion::common::internal_err;
use datafusion::error::Result;
use lazybase_model::Error;

use super::Gives;
use crate::error::into_datafusion;
use crate::types::UTC;

const DAY_NANOS: i128 = 86_400_000_000_000;

/// The arguments of series, for each row of a batch.
#[derive(Debug)]
pub(super) struct Arguments {
    gives: Gives,
    /// 0 where there is none.
    start: Option<Int64Array>,
    stop: Int64Array,
    steps: Steps,
}

/// By how much series go on.
#[derive(Debug)]
enum Steps {
    /// By one.
    Ones,
    Numbers(Int64Array),
    Intervals(IntervalMonthDayNanoArray, Unit),
}

/// What a moment becomes with an interval, by the clocks of a zone; nothing past the last one.
type Later = fn(i64, IntervalMonthDayNano, Tz) -> Option<i64>;

/// What moments are counted in.
#[derive(Debug, Clone, Copy)]
struct Unit {
    nanos: i128,
    clocks: Tz,
    /// Whether each day of the clocks is as long as any other.
    has_even_days: bool,
    later: Later,
}

impl Arguments {
    /// Those of a function, which it has in the types that it wants.
    pub(super) fn of(gives: Gives, arrays: &[ArrayRef]) -> Result<Arguments> {
        let (start, stop, step) = match arrays {
            [stop] => (None, stop, None),
            [start, stop] => (Some(start), stop, None),
            [start, stop, step] => (Some(start), stop, Some(step)),
            _ => return internal_err!("{} takes one to three arguments", gives.name()),
        };
        let steps = match step {
            None => Steps::Ones,
            Some(step) => match step.as_primitive_opt::<IntervalMonthDayNanoType>() {
                Some(steps) => Steps::Intervals(steps.clone(), Unit::of(stop.data_type())?),
                None => Steps::Numbers(numbers(step)?),
            },
        };
        Ok(Arguments {
            gives,
            start: start.map(numbers).transpose()?,
            stop: numbers(stop)?,
            steps,
        })
    }

    /// The series of a row; nothing where one of its arguments is NULL.
    ///
    /// # Errors
    /// `Invalid` (22023) for one that goes on by nothing.
    pub(super) fn row(&self, row: usize) -> Result<Option<Values>> {
        let number = |of: &Int64Array| of.is_valid(row).then(|| of.value(row));
        let start = match &self.start {
            Some(start) => number(start),
            None => Some(0),
        };
        let by = match &self.steps {
            Steps::Ones => Some(By::Number(1)),
            Steps::Numbers(steps) => number(steps).map(By::Number),
            Steps::Intervals(steps, unit) => steps.is_valid(row).then(|| unit.by(steps.value(row))),
        };
        let (Some(start), Some(stop), Some(by)) = (start, number(&self.stop), by) else {
            return Ok(None);
        };
        let rises = match by.direction() {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => {
                let error = Error::invalid("step size cannot equal zero").with_sqlstate("22023");
                return Err(into_datafusion(error));
            }
        };
        Ok(Some(Values {
            next: Some(start),
            stop,
            with_stop: self.gives != Gives::Range,
            rises,
            by,
            place: (self.gives == Gives::Places).then_some(0),
        }))
    }
}

fn numbers(array: &ArrayRef) -> Result<Int64Array> {
    let numbers = cast(array, &DataType::Int64)?;
    Ok(numbers.as_primitive::<Int64Type>().clone())
}

/// A date with an interval, of which it takes whole days.
fn later_date(day: i64, step: IntervalMonthDayNano, _: Tz) -> Option<i64> {
    let day = i32::try_from(day).ok()?;
    Date32Type::add_month_day_nano_opt(day, step).map(i64::from)
}

impl Unit {
    fn of(moment: &DataType) -> Result<Unit> {
        let (nanos, later): (i128, Later) = match moment {
            DataType::Date32 => (DAY_NANOS, later_date),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                (1_000, TimestampMicrosecondType::add_month_day_nano)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                (1, TimestampNanosecondType::add_month_day_nano)
            }
            other => return internal_err!("a series of {other} does not go on by intervals"),
        };
        let zone = match moment {
            DataType::Timestamp(_, Some(zone)) => zone.as_ref(),
            _ => UTC,
        };
        Ok(Unit {
            nanos,
            clocks: zone.parse()?,
            has_even_days: zone == UTC,
            later,
        })
    }

    /// A step: a number of units, where it is one. Dates go on by whole days.
    fn by(self, step: IntervalMonthDayNano) -> By {
        let length = length(step);
        let even = step.months == 0 && (step.days == 0 || self.has_even_days);
        let whole = length % self.nanos == 0 || self.nanos == DAY_NANOS;
        match i64::try_from(length / self.nanos) {
            Ok(units) if even && whole => By::Number(units),
            _ => By::Interval {
                step,
                length,
                unit: self,
            },
        }
    }
}

/// How long a step is in nanoseconds, with 30 days a month, as steps are compared with nothing.
fn length(step: IntervalMonthDayNano) -> i128 {
    let days = i128::from(step.months) * 30 + i128::from(step.days);
    days * DAY_NANOS + i128::from(step.nanoseconds)
}

/// By how much a series goes on.
#[derive(Debug, Clone, Copy)]
enum By {
    Number(i64),
    Interval {
        step: IntervalMonthDayNano,
        /// In nanoseconds.
        length: i128,
        unit: Unit,
    },
}

impl By {
    fn direction(&self) -> Ordering {
        match self {
            By::Number(number) => number.cmp(&0),
            By::Interval { length, .. } => length.cmp(&0),
        }
    }

    fn after(&self, now: i64) -> Option<i64> {
        match self {
            By::Number(number) => now.checked_add(*number),
            By::Interval { step, unit, .. } => (unit.later)(now, *step, unit.clocks),
        }
    }
}

/// The values of a series that are still to come.
#[derive(Debug)]
pub(super) struct Values {
    next: Option<i64>,
    stop: i64,
    with_stop: bool,
    rises: bool,
    by: By,
    /// The place of the last one, where places are wanted.
    place: Option<i64>,
}

impl Values {
    fn is_past(&self, value: i64) -> bool {
        match value.cmp(&self.stop) {
            Ordering::Less => !self.rises,
            Ordering::Equal => !self.with_stop,
            Ordering::Greater => self.rises,
        }
    }

    /// How many they are; about how many where they go on by months.
    pub(super) fn estimate(&self) -> u64 {
        let Some(next) = self.next.filter(|next| !self.is_past(*next)) else {
            return 0;
        };
        let step = match &self.by {
            By::Number(number) => number.unsigned_abs(),
            By::Interval { length, unit, .. } => {
                let units = (length / unit.nanos).unsigned_abs();
                u64::try_from(units).unwrap_or(u64::MAX)
            }
        };
        // One that is not past a stop which is left out lies before it.
        let behind = next.abs_diff(self.stop) - u64::from(!self.with_stop);
        (behind / step.max(1)).saturating_add(1)
    }
}

impl Iterator for Values {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let now = self.next.filter(|now| !self.is_past(*now))?;
        // Months and days with different signs may come back to where they were.
        self.next = self.by.after(now).filter(|next| match self.rises {
            true => *next > now,
            false => *next < now,
        });
        match &mut self.place {
            Some(place) => {
                *place += 1;
                Some(*place)
            }
            None => Some(now),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.by {
            By::Number(_) => {
                let count = usize::try_from(self.estimate()).unwrap_or(usize::MAX);
                (count, Some(count))
            }
            By::Interval { .. } => (0, None),
        }
    }
}
