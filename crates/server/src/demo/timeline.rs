//! What an operations desk sees, in time order: the year as a list of observations, cut into
//! steps; no I/O.
//!
//! Invariant DEMO-1: a flight's observations come in the order of their kinds, so that rows of
//! one step may be appended kind by kind.

use std::ops::Range;

use arrow::array::Array;
use arrow::datatypes::{Int16Type, Int32Type};
use lazybase_model::Result;

use super::data::{Source, numbers, seconds};
use super::tables::scheduled_seconds;

const HOUR: i64 = 3_600;
/// A flight is on the board this long before it leaves.
const SCHEDULED_AHEAD: i64 = 24 * HOUR;
/// Between wheels and gate, both ends together: the source tells the time in the air only.
const TAXI: i64 = 25 * 60;

/// Kinds of observation, in the order in which they happen to one flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// An hour's weather at an airport: a whole row.
    Weather,
    /// A flight comes onto the board: a whole row.
    Scheduled,
    /// It leaves: some columns.
    Departed,
    /// It is there: some columns.
    Arrived,
    /// It landed elsewhere: some columns.
    Diverted,
    /// It had a plane and does not fly: some columns.
    Cancelled,
    /// It never had a plane and does not fly: its row goes.
    Removed,
}

impl Kind {
    /// The kinds of flights.
    pub(super) const FLIGHT: [Kind; 6] = [
        Kind::Scheduled,
        Kind::Departed,
        Kind::Arrived,
        Kind::Diverted,
        Kind::Cancelled,
        Kind::Removed,
    ];
    /// All kinds.
    pub(super) const ALL: [Kind; 7] = [
        Kind::Weather,
        Kind::Scheduled,
        Kind::Departed,
        Kind::Arrived,
        Kind::Diverted,
        Kind::Cancelled,
        Kind::Removed,
    ];

    /// The status that a flight has from then on.
    pub(super) fn status(self) -> Option<&'static str> {
        match self {
            Kind::Scheduled => Some("scheduled"),
            Kind::Departed => Some("departed"),
            Kind::Arrived => Some("arrived"),
            Kind::Diverted => Some("diverted"),
            Kind::Cancelled => Some("cancelled"),
            Kind::Removed | Kind::Weather => None,
        }
    }
}

/// One observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    /// When, in seconds since 1970.
    pub(super) second: i64,
    pub(super) kind: Kind,
    /// The row in the source.
    pub(super) row: u32,
}

/// The observations of a stretch of time: one atomic batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// Where the stretch ends, in seconds since 1970.
    pub(super) until: i64,
    pub(super) events: Range<usize>,
}

/// The observations of the whole source, in time order.
#[derive(Debug)]
pub(super) struct Timeline {
    pub(super) events: Vec<Event>,
    pub(super) steps: Vec<Step>,
}

impl Timeline {
    /// Orders the source's observations and cuts them every `step_minutes`.
    pub(super) fn of(source: &Source, step_minutes: i64) -> Result<Timeline> {
        let mut events = flight_events(source)?;
        let hours = seconds(&source.weather, "time_hour")?;
        events.extend(hours.into_iter().zip(0..).map(|(second, row)| Event {
            second,
            kind: Kind::Weather,
            row,
        }));
        events.sort_unstable();
        let steps = cut(&events, step_minutes * 60);
        Ok(Timeline { events, steps })
    }
}

/// What the source tells of one flight.
#[derive(Debug, Clone, Copy)]
struct Told {
    scheduled: i64,
    dep_delay: Option<i64>,
    arrived: bool,
    air_minutes: Option<i64>,
    distance: i64,
    has_plane: bool,
}

fn flight_events(source: &Source) -> Result<Vec<Event>> {
    let flights = &source.flights;
    let scheduled = scheduled_seconds(flights)?;
    let dep_delay = numbers::<Int16Type>(flights, "dep_delay")?;
    let arr_delay = numbers::<Int16Type>(flights, "arr_delay")?;
    let air_time = numbers::<Int16Type>(flights, "air_time")?;
    let distance = numbers::<Int32Type>(flights, "distance")?;
    let tailnum = flights.column_by_name("tailnum");
    let mut events = Vec::with_capacity(flights.num_rows() * 3);
    for (row, scheduled) in scheduled.into_iter().enumerate() {
        let told = Told {
            scheduled,
            dep_delay: dep_delay.is_valid(row).then(|| dep_delay.value(row).into()),
            arrived: arr_delay.is_valid(row),
            air_minutes: air_time.is_valid(row).then(|| air_time.value(row).into()),
            distance: distance.value(row).into(),
            has_plane: tailnum.is_some_and(|tailnum| tailnum.is_valid(row)),
        };
        let observed = observed(told).into_iter().flatten();
        events.extend(observed.map(|(second, kind)| Event {
            second,
            kind,
            row: row as u32,
        }));
    }
    Ok(events)
}

/// A flight's observations with their times.
fn observed(told: Told) -> [Option<(i64, Kind)>; 3] {
    let scheduled = (told.scheduled - SCHEDULED_AHEAD, Kind::Scheduled);
    let Some(delay) = told.dep_delay else {
        let kind = match told.has_plane {
            true => Kind::Cancelled,
            false => Kind::Removed,
        };
        return [Some(scheduled), Some((told.scheduled, kind)), None];
    };
    let left = told.scheduled + delay * 60;
    // Miles over seven make minutes, about; who went elsewhere took two hours more.
    let in_air = told.air_minutes.unwrap_or(told.distance / 7 + 120) * 60;
    let kind = match told.arrived {
        true => Kind::Arrived,
        false => Kind::Diverted,
    };
    [
        Some(scheduled),
        Some((left, Kind::Departed)),
        Some((left + in_air + TAXI, kind)),
    ]
}

/// Cuts sorted events wherever a stretch of `length` seconds ends.
fn cut(events: &[Event], length: i64) -> Vec<Step> {
    let stretch = |event: &Event| event.second.div_euclid(length);
    let mut steps = Vec::new();
    let mut start = 0;
    for part in events.chunk_by(|a, b| stretch(a) == stretch(b)) {
        steps.push(Step {
            until: (stretch(&part[0]) + 1) * length,
            events: start..start + part.len(),
        });
        start += part.len();
    }
    steps
}

#[cfg(test)]
mod tests;
