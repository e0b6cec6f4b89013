//! Moments in other time zones, as PostgreSQL has them: `timezone(zone, x)`, which
//! `x AT TIME ZONE zone` stands for, gives the time on the clocks of the zone for a moment, and the
//! moment for a time on the clocks.
//!
//! | x                     | gives                                             |
//! | --------------------- | ------------------------------------------------- |
//! | TIMESTAMPTZ, a text   | TIMESTAMP: what clocks there show                 |
//! | DATE                  | the same of its first moment in UTC               |
//! | TIMESTAMP             | TIMESTAMPTZ: when clocks there show it            |
//!
//! A zone is a name of the tz database, a fixed offset (`+02` lies west of Greenwich, as in POSIX),
//! an abbreviation, or an interval, which lies east. Functions; pure. Invariant TZN-1: what clocks
//! show never or twice is the moment by the time that lies less far east, the standard time.

use std::sync::Arc;

use arrow::array::temporal_conversions::as_datetime_with_timezone;
use arrow::array::timezone::Tz;
use arrow::array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::planner::intervals::computed;
use crate::types::{INTERVAL, UTC};

/// The function of `AT TIME ZONE`.
pub(crate) const TIMEZONE: &str = "timezone";
/// What clocks of a zone show, also for what has no zone: that is UTC's.
pub(crate) const CLOCKS_IN: &str = "clocks_in";

const HOUR_MICROS: i64 = 3_600_000_000;
const DAY_MICROS: i64 = 24 * HOUR_MICROS;
/// What clocks show.
const CLOCK: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Zones that are known by their abbreviations, and how many hours they lie east.
pub(crate) const ABBREVIATIONS: [(&str, i64); 31] = [
    ("Z", 0),
    ("UT", 0),
    ("UTC", 0),
    ("GMT", 0),
    ("ZULU", 0),
    ("WET", 0),
    ("WEST", 1),
    ("BST", 1),
    ("CET", 1),
    ("CEST", 2),
    ("SAST", 2),
    ("EET", 2),
    ("EEST", 3),
    ("MSK", 3),
    ("JST", 9),
    ("KST", 9),
    ("AEST", 10),
    ("AEDT", 11),
    ("NZST", 12),
    ("NZDT", 13),
    ("HST", -10),
    ("AKST", -9),
    ("AKDT", -8),
    ("PST", -8),
    ("PDT", -7),
    ("MST", -7),
    ("MDT", -6),
    ("CST", -6),
    ("CDT", -5),
    ("EST", -5),
    ("EDT", -4),
];

/// Whether a zone is called so.
pub(crate) fn is_zone(name: &str) -> bool {
    Zone::named(name).is_some()
}

/// Adds the functions.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for name in [TIMEZONE, CLOCKS_IN] {
        state.register_udf(Arc::new(ScalarUDF::from(InZone {
            name,
            signature: Signature::user_defined(Volatility::Immutable),
        })))?;
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct InZone {
    name: &'static str,
    signature: Signature,
}

impl InZone {
    /// Whether a value of this type is a moment, to be shown on clocks.
    fn is_moment(&self, of: &DataType) -> bool {
        self.name == CLOCKS_IN || matches!(of, DataType::Timestamp(_, Some(_)))
    }
}

fn moment() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
}

impl ScalarUDFImpl for InZone {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        use DataType as A;
        let [zone, of] = arguments else {
            return plan_err!("{} takes a zone and a timestamp", self.name);
        };
        let zone = match zone {
            A::Interval(_) | A::Duration(_) => INTERVAL,
            _ => A::Utf8,
        };
        let of = match of {
            A::Timestamp(_, None) => CLOCK,
            A::Timestamp(_, Some(_)) | A::Date32 | A::Date64 => moment(),
            A::Utf8 | A::LargeUtf8 | A::Utf8View | A::Null => moment(),
            other => return plan_err!("{} takes a timestamp, not {other}", self.name),
        };
        Ok(vec![zone, of])
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [_, of] if self.is_moment(of) => Ok(CLOCK),
            _ => Ok(moment()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| {
            let is_moment = self.is_moment(arrays[1].data_type());
            let values = arrays[1].as_primitive::<TimestampMicrosecondType>();
            let mut zones = Zones::of(&arrays[0]);
            let rows = values.iter().enumerate().map(|(row, value)| {
                let (Some(zone), Some(value)) = (zones.at(row)?, value) else {
                    return Ok(None);
                };
                let shown = match is_moment {
                    true => zone.clock(value),
                    false => zone.moment(value),
                };
                let out = || Error::invalid("timestamp out of range").with_sqlstate("22008");
                shown.map(Some).ok_or_else(out)
            });
            let rows: lazybase_model::Result<PrimitiveArray<TimestampMicrosecondType>> =
                rows.collect();
            let rows = rows.map_err(into_datafusion)?;
            let zone = (!is_moment).then(|| Arc::from(UTC));
            Ok(Arc::new(rows.with_timezone_opt(zone)))
        })
    }
}

/// The zones of the rows of a column; those that repeat are found once.
struct Zones<'a> {
    column: &'a ArrayRef,
    last: Option<(&'a str, Zone)>,
}

impl<'a> Zones<'a> {
    fn of(column: &'a ArrayRef) -> Zones<'a> {
        Zones { column, last: None }
    }

    fn at(&mut self, row: usize) -> lazybase_model::Result<Option<Zone>> {
        if self.column.is_null(row) {
            return Ok(None);
        }
        if *self.column.data_type() == INTERVAL {
            let interval = self.column.as_primitive::<IntervalMonthDayNanoType>();
            return Zone::ahead(interval.value(row)).map(Some);
        }
        let name = self.column.as_string::<i32>().value(row);
        if let Some((known, zone)) = self.last
            && known == name
        {
            return Ok(Some(zone));
        }
        let zone = Zone::named(name).ok_or_else(|| {
            Error::invalid(format!("time zone {name:?} not recognized")).with_sqlstate("22023")
        })?;
        self.last = Some((name, zone));
        Ok(Some(zone))
    }
}

#[derive(Debug, Clone, Copy)]
enum Zone {
    /// So many microseconds east.
    Fixed(i64),
    Named(Tz),
}

impl Zone {
    fn ahead(interval: IntervalMonthDayNano) -> lazybase_model::Result<Zone> {
        match interval {
            IntervalMonthDayNano {
                months: 0,
                days: 0,
                nanoseconds,
            } => Ok(Zone::Fixed(nanoseconds / 1_000)),
            _ => Err(
                Error::invalid("an interval that is a time zone has hours and minutes only")
                    .with_sqlstate("22023"),
            ),
        }
    }

    fn named(name: &str) -> Option<Zone> {
        let name = name.trim();
        if let Some(east) = posix(name) {
            return Some(Zone::Fixed(east));
        }
        let upper = name.to_ascii_uppercase();
        let mut known = ABBREVIATIONS.iter();
        if let Some((_, hours)) = known.find(|(known, _)| *known == upper) {
            return Some(Zone::Fixed(hours * HOUR_MICROS));
        }
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic());
        let spelt = [name.to_owned(), capitalized(name), upper];
        let mut spelt = spelt.iter().filter(|_| begins_well);
        if let Some(zone) = spelt.find_map(|name| name.parse().ok()) {
            return Some(Zone::Named(zone));
        }
        // Behind an abbreviation of its own: `UTC+2`.
        let sign = name.find(['+', '-'])?;
        let (letters, offset) = name.split_at(sign);
        let is_name = letters.len() > 2 && letters.bytes().all(|b| b.is_ascii_alphabetic());
        posix(offset).filter(|_| is_name).map(Zone::Fixed)
    }

    /// What clocks show at a moment.
    fn clock(self, moment: i64) -> Option<i64> {
        match self {
            Zone::Fixed(east) => moment.checked_add(east),
            Zone::Named(zone) => {
                let there = as_datetime_with_timezone::<TimestampMicrosecondType>(moment, zone)?;
                Some(there.naive_local().and_utc().timestamp_micros())
            }
        }
    }

    /// When clocks show it.
    fn moment(self, clock: i64) -> Option<i64> {
        if let Zone::Fixed(east) = self {
            return clock.checked_sub(east);
        }
        let east = |moment: i64| Some(self.clock(moment)? - moment);
        let before = clock.checked_sub(east(clock.checked_sub(DAY_MICROS)?)?)?;
        let after = clock.checked_sub(east(clock.checked_add(DAY_MICROS)?)?)?;
        let is_shown = |moment: i64| self.clock(moment) == Some(clock);
        Some(match (is_shown(before), is_shown(after)) {
            (true, false) => before,
            (false, true) => after,
            _ => before.max(after),
        })
    }
}

/// How far east an offset lies that has a sign; those of POSIX count west.
fn posix(offset: &str) -> Option<i64> {
    let (sign, digits) = match offset.split_at_checked(1)? {
        ("+", digits) => (-1, digits),
        ("-", digits) => (1, digits),
        _ => return None,
    };
    let parts: Vec<&str> = match digits.len() {
        4 if !digits.contains(':') && digits.is_ascii() => vec![&digits[..2], &digits[2..]],
        _ => digits.split(':').collect(),
    };
    let is_part = |part: &&str| matches!(part.len(), 1 | 2);
    if parts.len() > 3 || !parts.iter().all(is_part) {
        return None;
    }
    let mut seconds = 0;
    for (part, many) in parts.iter().zip([3_600, 60, 1]) {
        seconds += i64::from(part.parse::<u8>().ok()?) * many;
    }
    (seconds < 168 * 3_600).then_some(sign * seconds * 1_000_000)
}

/// A zone's name with the letters that begin its words in upper case.
fn capitalized(name: &str) -> String {
    let mut begins = true;
    let letters = name.chars().map(|c| {
        let spelt = match begins {
            true => c.to_ascii_uppercase(),
            false => c.to_ascii_lowercase(),
        };
        begins = !c.is_ascii_alphanumeric();
        spelt
    });
    letters.collect()
}

#[cfg(test)]
mod tests;
