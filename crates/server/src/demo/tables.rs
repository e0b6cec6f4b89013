//! The demo's tables, and for each kind of observation the columns that it sets.
//!
//! An observation of flight n is row n of its kind's batch: a step of the replay takes its rows
//! and appends them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    UInt32Array, new_null_array,
};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Int16Type, Schema, TimeUnit};
use lazybase_model::{Error, Result};
use lazybase_query::{Database, Op};

use super::data::{Source, day_number, numbers, seconds};
use super::timeline::Kind;
use crate::failure;
use crate::load::create_table;

/// All tables that a demo makes.
pub(super) const TABLES: [&str; 6] = [
    "flights", "weather", "airlines", "airports", "planes", "desk",
];

const FLIGHT_KEY: [&str; 4] = ["day", "carrier", "flight", "origin"];
/// What departures, arrivals and cancellations set later.
const SET_LATER: [&str; 6] = [
    "tailnum",
    "dep_time",
    "dep_delay",
    "arr_time",
    "arr_delay",
    "air_time",
];

/// All observations, ready to be taken from.
pub(super) struct Observations {
    flights: Vec<(Kind, RecordBatch)>,
    weather: RecordBatch,
    /// Tables that are loaded first: name, key, rows.
    pub(super) reference: Vec<(&'static str, &'static str, RecordBatch)>,
}

impl Observations {
    /// Lays the source's columns out by kind.
    pub(super) fn of(source: &Source) -> Result<Observations> {
        let columns = flight_columns(source)?;
        let kinds = Kind::FLIGHT.into_iter();
        let flights: Result<Vec<_>> = kinds
            .map(|kind| Ok((kind, observation(&columns, kind)?)))
            .collect();
        Ok(Observations {
            flights: flights?,
            weather: plain_instants(&source.weather)?,
            reference: vec![
                ("airlines", "carrier", source.airlines.clone()),
                ("airports", "faa", source.airports.clone()),
                ("planes", "tailnum", source.planes.clone()),
            ],
        })
    }

    /// The rows of some observations of one kind.
    pub(super) fn rows(&self, kind: Kind, rows: Vec<u32>) -> Result<RecordBatch> {
        let all = self.flights.iter().find(|(of, _)| *of == kind);
        let all = all.map_or(&self.weather, |(_, batch)| batch);
        take_record_batch(all, &UInt32Array::from(rows))
            .map_err(|error| failure::arrow("demo", &error))
    }

    /// The keys of all flights, in the source's order.
    pub(super) fn flight_keys(&self) -> &RecordBatch {
        let removals = self.flights.iter().find(|(kind, _)| *kind == Kind::Removed);
        removals.map_or(&self.weather, |(_, keys)| keys)
    }

    /// Makes all tables.
    pub(super) async fn create_tables(&self, database: &Database) -> Result<()> {
        let names =
            |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        let scheduled = self.rows(Kind::Scheduled, Vec::new())?;
        let schema = nullable(&scheduled.schema());
        create_table(database, "flights", &schema, &names(&FLIGHT_KEY)).await?;
        let schema = nullable(&self.weather.schema());
        create_table(
            database,
            "weather",
            &schema,
            &names(&["origin", "time_hour"]),
        )
        .await?;
        for (name, key, rows) in &self.reference {
            let schema = nullable(&rows.schema());
            create_table(database, name, &schema, &names(&[key])).await?;
        }
        let desk = super::desk::Desk::default().row(0)?;
        create_table(database, "desk", &nullable(&desk.schema()), &names(&["id"])).await
    }
}

/// Which table an observation goes to, and how.
pub(super) fn target(kind: Kind) -> (&'static str, Op) {
    match kind {
        Kind::Scheduled => ("flights", Op::Upsert),
        Kind::Departed | Kind::Arrived | Kind::Diverted | Kind::Cancelled => {
            ("flights", Op::Update)
        }
        Kind::Removed => ("flights", Op::Delete),
        Kind::Weather => ("weather", Op::Upsert),
    }
}

fn nullable(schema: &Schema) -> Schema {
    let fields = schema.fields().iter();
    Schema::new(
        fields
            .map(|field| Field::new(field.name(), field.data_type().clone(), true))
            .collect::<Vec<_>>(),
    )
}

type Columns = Vec<(&'static str, ArrayRef)>;

/// The columns of `flights` with what is known at the end, but for the status.
fn flight_columns(source: &Source) -> Result<Columns> {
    let flights = &source.flights;
    let year = numbers::<Int16Type>(flights, "year")?;
    let month = numbers::<Int16Type>(flights, "month")?;
    let day = numbers::<Int16Type>(flights, "day")?;
    let date = |row| {
        day_number(
            year.value(row).into(),
            month.value(row).into(),
            day.value(row).into(),
        )
    };
    let dates = Date32Array::from_iter_values((0..flights.num_rows()).map(date));
    let instants = scheduled_seconds(flights)?;
    let instants = instants.into_iter().map(|second| second * 1_000_000);
    let instants = TimestampMicrosecondArray::from_iter_values(instants);
    let mut columns: Columns = vec![("day", Arc::new(dates))];
    for name in ["carrier", "flight", "origin", "dest", "distance"] {
        columns.push((name, column(flights, name)?));
    }
    columns.push(("sched_dep", Arc::new(instants)));
    for name in ["sched_dep_time", "sched_arr_time"]
        .into_iter()
        .chain(SET_LATER)
    {
        columns.push((name, column(flights, name)?));
    }
    Ok(columns)
}

/// The scheduled departures in seconds since 1970.
pub(super) fn scheduled_seconds(flights: &RecordBatch) -> Result<Vec<i64>> {
    let minute = numbers::<Int16Type>(flights, "minute")?;
    let hours = seconds(flights, "time_hour")?;
    let minutes = minute.values().iter().map(|minute| i64::from(*minute) * 60);
    Ok(hours
        .into_iter()
        .zip(minutes)
        .map(|(hour, minute)| hour + minute)
        .collect())
}

fn column(batch: &RecordBatch, name: &str) -> Result<ArrayRef> {
    let column = batch.column_by_name(name);
    column
        .map(Arc::clone)
        .ok_or_else(|| Error::internal(format!("embedded data has no column {name}")))
}

/// The columns that one kind of observation gives.
fn observation(columns: &Columns, kind: Kind) -> Result<RecordBatch> {
    let set: &[&str] = match kind {
        Kind::Departed => &["tailnum", "dep_time", "dep_delay"],
        Kind::Arrived => &["arr_time", "arr_delay", "air_time"],
        Kind::Diverted => &["arr_time"],
        Kind::Cancelled => &["tailnum"],
        Kind::Scheduled | Kind::Removed | Kind::Weather => &[],
    };
    let mut given: Columns = Vec::new();
    for (name, column) in columns {
        let whole = kind == Kind::Scheduled;
        if FLIGHT_KEY.contains(name) || set.contains(name) {
            given.push((name, Arc::clone(column)));
        } else if whole && SET_LATER.contains(name) {
            given.push((name, new_null_array(column.data_type(), column.len())));
        } else if whole {
            given.push((name, Arc::clone(column)));
        }
    }
    if let Some(status) = kind.status() {
        let rows = columns.first().map_or(0, |(_, column)| column.len());
        let status: StringArray = std::iter::repeat_n(Some(status), rows).collect();
        given.push(("status", Arc::new(status)));
    }
    RecordBatch::try_from_iter(given).map_err(|error| failure::arrow("demo", &error))
}

/// The batch with instants in UTC as timestamps without zone.
fn plain_instants(batch: &RecordBatch) -> Result<RecordBatch> {
    let plain = DataType::Timestamp(TimeUnit::Microsecond, None);
    let schema = batch.schema();
    let columns = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| {
            let column: ArrayRef = match column.data_type() {
                DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
                    let instants = column
                        .as_primitive::<arrow::datatypes::TimestampMicrosecondType>()
                        .clone();
                    Arc::new(instants.with_data_type(plain.clone()))
                }
                _ => Arc::clone(column),
            };
            (field.name().clone(), column)
        });
    RecordBatch::try_from_iter(columns).map_err(|error| failure::arrow("demo", &error))
}

#[cfg(test)]
mod tests;
