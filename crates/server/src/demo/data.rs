//! The data set nycflights13 as record batches, read from bytes inside the binary, so that the
//! demo runs from anywhere.

use arrow::array::{Array, AsArray, PrimitiveArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::{ArrowPrimitiveType, Int16Type, TimestampMicrosecondType};
use bytes::Bytes;
use lazybase_model::{Error, Result};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::failure;

const FLIGHTS: &[u8] = include_bytes!("../../../../data/nycflights13/flights.parquet");
const WEATHER: &[u8] = include_bytes!("../../../../data/nycflights13/weather.parquet");
const PLANES: &[u8] = include_bytes!("../../../../data/nycflights13/planes.parquet");
const AIRPORTS: &[u8] = include_bytes!("../../../../data/nycflights13/airports.parquet");
const AIRLINES: &[u8] = include_bytes!("../../../../data/nycflights13/airlines.parquet");

/// The files as they are, each one batch in the source's order.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) flights: RecordBatch,
    pub(super) weather: RecordBatch,
    pub(super) planes: RecordBatch,
    pub(super) airports: RecordBatch,
    pub(super) airlines: RecordBatch,
}

impl Source {
    /// The whole year, or its first `days` days.
    pub(super) fn read(days: Option<u32>) -> Result<Source> {
        let mut source = Source {
            flights: decode("flights", FLIGHTS)?,
            weather: decode("weather", WEATHER)?,
            planes: decode("planes", PLANES)?,
            airports: decode("airports", AIRPORTS)?,
            airlines: decode("airlines", AIRLINES)?,
        };
        if let Some(days) = days {
            source.flights = first_days(&source.flights, days)?;
            source.weather = first_days(&source.weather, days)?;
        }
        Ok(source)
    }
}

fn decode(name: &str, bytes: &'static [u8]) -> Result<RecordBatch> {
    let place = || format!("embedded {name}.parquet");
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from_static(bytes))
        .and_then(|builder| builder.with_batch_size(64 << 10).build())
        .map_err(|error| failure::parquet(place(), &error))?;
    let schema = arrow::array::RecordBatchReader::schema(&reader);
    let batches: Result<Vec<RecordBatch>, _> = reader.collect();
    batches
        .and_then(|batches| concat_batches(&schema, &batches))
        .map_err(|error| failure::arrow(place(), &error))
}

fn first_days(batch: &RecordBatch, days: u32) -> Result<RecordBatch> {
    let month = numbers::<Int16Type>(batch, "month")?;
    let day = numbers::<Int16Type>(batch, "day")?;
    let last = day_number(2013, 1, 1) + days as i32;
    let early = (0..batch.num_rows()).map(|row| {
        let date = day_number(2013, month.value(row).into(), day.value(row).into());
        Some(date < last)
    });
    filter_record_batch(batch, &early.collect())
        .map_err(|error| failure::arrow("first days", &error))
}

/// A column of numbers by its name.
pub(super) fn numbers<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a PrimitiveArray<T>> {
    let column = batch.column_by_name(name);
    column
        .and_then(|column| column.as_primitive_opt::<T>())
        .ok_or_else(|| Error::internal(format!("embedded data has no column {name} as expected")))
}

/// Instants as seconds since 1970.
pub(super) fn seconds(batch: &RecordBatch, name: &str) -> Result<Vec<i64>> {
    let instants = numbers::<TimestampMicrosecondType>(batch, name)?;
    debug_assert_eq!(instants.null_count(), 0, "every row has its hour");
    Ok(instants
        .values()
        .iter()
        .map(|micros| micros / 1_000_000)
        .collect())
}

/// Days since 1970-01-01 of a date of the Gregorian calendar.
pub(super) fn day_number(year: i32, month: i32, day: i32) -> i32 {
    // Years begin in March, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::{Source, day_number};

    #[test]
    fn dates_are_counted_from_1970() {
        for (date, number) in [
            ((1970, 1, 1), 0),
            ((2000, 2, 29), 11_016),
            ((2013, 1, 1), 15_706),
            ((2013, 12, 31), 16_070),
        ] {
            assert_eq!(day_number(date.0, date.1, date.2), number, "{date:?}");
        }
    }

    #[test]
    fn the_year_is_whole_and_can_be_cut() {
        let year = Source::read(None).unwrap();
        assert_eq!(year.flights.num_rows(), 336_776);
        assert_eq!(year.weather.num_rows(), 26_115);
        let day = Source::read(Some(1)).unwrap();
        assert_eq!(day.flights.num_rows(), 842);
        assert_eq!(day.airlines.num_rows(), 16);
    }
}
