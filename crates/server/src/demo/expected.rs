//! What the tables must hold at the end, summed straight from the source files: it shares nothing
//! with the replay but the files themselves; no I/O.

use std::collections::BTreeMap;

use arrow::array::{Array, PrimitiveArray};
use arrow::datatypes::{Int16Type, Int32Type};
use lazybase_model::Result;

use super::data::{Source, numbers};
use crate::render::cell_texts;

/// A question and the rows that must answer it, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
    pub(super) rows: Vec<Vec<String>>,
}

const BY_CARRIER: &str = "SELECT carrier, count(*) AS flights, \
    sum(CASE WHEN status = 'cancelled' THEN 1 ELSE 0 END) AS cancelled, \
    coalesce(sum(dep_delay), 0) AS dep_delays, coalesce(sum(arr_delay), 0) AS arr_delays, \
    coalesce(sum(air_time), 0) AS air_minutes, sum(distance) AS miles \
    FROM flights GROUP BY carrier ORDER BY carrier";
const BY_STATUS: &str = "SELECT status, count(*) AS flights FROM flights \
    GROUP BY status ORDER BY status";
const BY_ORIGIN: &str = "SELECT origin, count(*) AS late, max(dep_delay) AS worst FROM flights \
    WHERE dep_delay > 60 GROUP BY origin ORDER BY origin";
const WEATHER: &str = "SELECT origin, count(*) AS readings, count(temp) AS temperatures \
    FROM weather GROUP BY origin ORDER BY origin";
const REFERENCE: &str = "SELECT (SELECT count(*) FROM airlines) AS airlines, \
    (SELECT count(*) FROM airports) AS airports, (SELECT count(*) FROM planes) AS planes, \
    (SELECT sum(seats) FROM planes) AS seats";

/// The columns of the source's flights that are summed.
struct Flights<'a> {
    carrier: Vec<Option<String>>,
    origin: Vec<Option<String>>,
    tailnum: Vec<Option<String>>,
    dep_delay: &'a PrimitiveArray<Int16Type>,
    arr_delay: &'a PrimitiveArray<Int16Type>,
    air_time: &'a PrimitiveArray<Int16Type>,
    distance: &'a PrimitiveArray<Int32Type>,
}

/// All questions with their answers.
pub(super) fn expected(source: &Source) -> Result<Vec<Expected>> {
    let batch = &source.flights;
    let texts = |name: &str| cell_texts(batch.column(batch.schema().index_of(name).unwrap_or(0)));
    let flights = Flights {
        carrier: texts("carrier")?,
        origin: texts("origin")?,
        tailnum: texts("tailnum")?,
        dep_delay: numbers(batch, "dep_delay")?,
        arr_delay: numbers(batch, "arr_delay")?,
        air_time: numbers(batch, "air_time")?,
        distance: numbers(batch, "distance")?,
    };
    let questions = [
        (
            "flights, delays and miles by carrier",
            BY_CARRIER,
            by_carrier(&flights),
        ),
        ("flights by status", BY_STATUS, by_status(&flights)),
        ("late departures by airport", BY_ORIGIN, by_origin(&flights)),
        ("weather by airport", WEATHER, weather(source)?),
        (
            "airlines, airports and planes",
            REFERENCE,
            reference(source)?,
        ),
    ];
    Ok(questions
        .into_iter()
        .map(|(name, sql, rows)| Expected { name, sql, rows })
        .collect())
}

impl Flights<'_> {
    /// Flights that stay: all but those that were cancelled before they had a plane.
    fn kept(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.carrier.len())
            .filter(|&row| self.dep_delay.is_valid(row) || self.tailnum[row].is_some())
    }
}

fn value(column: &PrimitiveArray<Int16Type>, row: usize) -> i64 {
    match column.is_valid(row) {
        true => column.value(row).into(),
        false => 0,
    }
}

fn rows_of<const N: usize>(sums: BTreeMap<String, [i64; N]>) -> Vec<Vec<String>> {
    sums.into_iter()
        .map(|(name, sums)| {
            let numbers = sums.iter().map(i64::to_string);
            std::iter::once(name).chain(numbers).collect()
        })
        .collect()
}

fn by_carrier(flights: &Flights<'_>) -> Vec<Vec<String>> {
    let mut sums: BTreeMap<String, [i64; 6]> = BTreeMap::new();
    for row in flights.kept() {
        let carrier = flights.carrier[row].clone().unwrap_or_default();
        let sum = sums.entry(carrier).or_default();
        sum[0] += 1;
        sum[1] += i64::from(flights.dep_delay.is_null(row));
        sum[2] += value(flights.dep_delay, row);
        sum[3] += value(flights.arr_delay, row);
        sum[4] += value(flights.air_time, row);
        sum[5] += i64::from(flights.distance.value(row));
    }
    rows_of(sums)
}

fn by_status(flights: &Flights<'_>) -> Vec<Vec<String>> {
    let mut sums: BTreeMap<String, [i64; 1]> = BTreeMap::new();
    for row in flights.kept() {
        let status = match (
            flights.dep_delay.is_valid(row),
            flights.arr_delay.is_valid(row),
        ) {
            (false, _) => "cancelled",
            (true, true) => "arrived",
            (true, false) => "diverted",
        };
        sums.entry(status.to_owned()).or_default()[0] += 1;
    }
    rows_of(sums)
}

fn by_origin(flights: &Flights<'_>) -> Vec<Vec<String>> {
    let mut sums: BTreeMap<String, [i64; 2]> = BTreeMap::new();
    for row in flights
        .kept()
        .filter(|&row| value(flights.dep_delay, row) > 60)
    {
        let origin = flights.origin[row].clone().unwrap_or_default();
        let sum = sums.entry(origin).or_default();
        sum[0] += 1;
        sum[1] = sum[1].max(value(flights.dep_delay, row));
    }
    rows_of(sums)
}

fn weather(source: &Source) -> Result<Vec<Vec<String>>> {
    let batch = &source.weather;
    let column = |name: &str| {
        batch
            .column(batch.schema().index_of(name).unwrap_or(0))
            .clone()
    };
    let temperature = column("temp");
    let mut sums: BTreeMap<String, [i64; 2]> = BTreeMap::new();
    for (row, origin) in cell_texts(&column("origin"))?.into_iter().enumerate() {
        let sum = sums.entry(origin.unwrap_or_default()).or_default();
        sum[0] += 1;
        sum[1] += i64::from(temperature.is_valid(row));
    }
    Ok(rows_of(sums))
}

fn reference(source: &Source) -> Result<Vec<Vec<String>>> {
    let seats = numbers::<Int16Type>(&source.planes, "seats")?;
    let seats: i64 = seats.iter().flatten().map(i64::from).sum();
    let counts = [&source.airlines, &source.airports, &source.planes];
    let mut row: Vec<String> = counts
        .iter()
        .map(|batch| batch.num_rows().to_string())
        .collect();
    row.push(seats.to_string());
    Ok(vec![row])
}

#[cfg(test)]
mod tests;
