//! The columns of a text file, from its first records; no I/O.
//!
//! ```text
//!   CSV    header -> names;  texts  -> numbers, booleans, days, moments, times of day, texts
//!   JSON   fields -> names;  values -> the least kind that holds them all; else their JSON
//! ```
//!
//! Types are looked for only where a table is made of the file: one that is there says its own.
//! Invariant INF-1: what was looked at can be read as the type that is told, digit by digit.

use std::sync::LazyLock;

use arrow::array::AsArray;
use arrow::csv;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use lazybase_model::Result;
use regex::Regex;

use super::text_file::TextOptions;
use crate::failure;

mod json;

pub(super) use json::{json_columns, json_names};

/// The records that types are inferred from.
const INFERENCE_RECORDS: usize = 50_000;

/// The fields that are looked at together, unless one record has more of them.
const FIELDS_AT_ONCE: usize = 64 << 10;

/// How many records of so many fields are looked at together: the reader makes room for all of
/// them by the header, before it has seen one.
fn records_at_once(fields: usize) -> usize {
    (FIELDS_AT_ONCE / fields.max(1)).clamp(1, 1_024)
}

/// The columns that a CSV file's header names, all of texts.
///
/// # Errors
/// `Invalid` for a header that is no CSV.
pub(super) fn csv_names(first: &[u8], options: &TextOptions) -> Result<Schema> {
    let (schema, _) = format(options)?
        .infer_schema(first, Some(0))
        .map_err(|error| failure::arrow("columns", &error))?;
    Ok(all_texts(&schema))
}

/// The columns of a CSV file with the types of their first values.
///
/// # Errors
/// `Invalid` for what is no CSV.
pub(super) fn csv_columns(first: &[u8], options: &TextOptions) -> Result<Schema> {
    let (schema, _) = format(options)?
        .infer_schema(first, Some(INFERENCE_RECORDS))
        .map_err(|error| failure::arrow("columns", &error))?;
    refined(&schema, first, options)
}

fn format(options: &TextOptions) -> Result<csv::reader::Format> {
    Ok(csv::reader::Format::default()
        .with_header(true)
        .with_delimiter(options.delimiter())
        .with_null_regex(options.null_pattern()?))
}

fn all_texts(schema: &Schema) -> Schema {
    let fields = schema.fields().iter();
    let texts = fields.map(|field| Field::new(field.name(), DataType::Utf8, true));
    Schema::new(texts.collect::<Vec<_>>())
}

/// Columns whose texts say more than Arrow has looked at: it infers a timestamp whatever stands
/// behind it, integers of any length, and no times of day.
fn refined(inferred: &Schema, first: &[u8], options: &TextOptions) -> Result<Schema> {
    let is_open = |field: &FieldRef| {
        let data_type = field.data_type();
        matches!(
            data_type,
            DataType::Timestamp(..) | DataType::Int64 | DataType::Utf8
        )
    };
    let mut fields: Vec<FieldRef> = inferred.fields().iter().cloned().collect();
    let open: Vec<usize> = (0..fields.len())
        .filter(|at| is_open(&fields[*at]))
        .collect();
    let mut seen: Vec<Seen> = open.iter().map(|_| Seen::default()).collect();
    if !open.is_empty() {
        let records = csv::ReaderBuilder::new(SchemaRef::new(all_texts(inferred)))
            .with_header(true)
            .with_delimiter(options.delimiter())
            .with_null_regex(options.null_pattern()?)
            .with_projection(open.clone())
            .with_bounds(0, INFERENCE_RECORDS)
            .with_batch_size(records_at_once(fields.len()))
            .build(first)
            .map_err(|error| failure::arrow("columns", &error))?;
        for batch in records {
            let batch = batch.map_err(|error| failure::arrow("columns", &error))?;
            for ((column, seen), at) in batch.columns().iter().zip(&mut seen).zip(&open) {
                let texts = column.as_string::<i32>().iter().flatten();
                texts.for_each(|text| seen.look(text, fields[*at].data_type()));
            }
        }
    }
    for (at, seen) in open.into_iter().zip(seen) {
        let data_type = seen.data_type(fields[at].data_type());
        fields[at] = FieldRef::new(Field::new(fields[at].name(), data_type, true));
    }
    // What no record of the beginning has may be anything later on.
    let known = fields.iter().map(|field| match field.data_type() {
        DataType::Null => Field::new(field.name(), DataType::Utf8, true),
        data_type => Field::new(field.name(), data_type.clone(), true),
    });
    Ok(Schema::new(known.collect::<Vec<_>>()))
}

static ZONE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^([Zz]|[+-]\d\d(:?\d\d)?(:\d\d)?)$").expect("a pattern that was tried")
});
static TIME_OF_DAY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?$")
        .expect("a pattern that was tried")
});

/// What the texts of a column have in common.
#[derive(Debug, Clone, Default)]
struct Seen {
    /// Any text.
    any: bool,
    /// Zones behind some moments.
    with_zone: bool,
    /// Nothing behind some moments, or no zone that is known.
    without_zone: bool,
    /// The digits of the longest integer beyond BIGINT.
    digits: usize,
    /// Something that is no integer.
    no_integer: bool,
    /// Something that is no time of day.
    no_time: bool,
}

impl Seen {
    fn look(&mut self, text: &str, inferred: &DataType) {
        self.any = true;
        match inferred {
            DataType::Timestamp(..) => {
                // Behind the day: the time of day, and what follows it.
                let clock = text.get(11..).unwrap_or_default();
                let of_clock = |c: char| c.is_ascii_digit() || c == ':' || c == '.';
                let behind = clock.trim_start_matches(of_clock);
                self.with_zone |= !behind.is_empty();
                self.without_zone |= !ZONE.is_match(behind);
            }
            DataType::Int64 => self.look_at_integer(text),
            DataType::Utf8 => {
                self.no_time |= !TIME_OF_DAY.is_match(text);
                self.look_at_integer(text);
            }
            _ => {}
        }
    }

    fn look_at_integer(&mut self, text: &str) {
        if text.parse::<i64>().is_err() {
            let digits = text.trim_start_matches(['+', '-']);
            self.no_integer |= digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit());
            self.digits = self.digits.max(digits.trim_start_matches('0').len());
        }
    }

    fn data_type(&self, inferred: &DataType) -> DataType {
        match inferred {
            // Instants, each with its zone; where some have none, or something else, texts.
            DataType::Timestamp(..) if self.with_zone && self.without_zone => DataType::Utf8,
            DataType::Timestamp(..) if self.with_zone => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))
            }
            DataType::Int64 => integers_of(self.digits),
            DataType::Utf8 if self.any && !self.no_time => DataType::Time64(TimeUnit::Microsecond),
            DataType::Utf8 if self.any && !self.no_integer => integers_of(self.digits),
            other => other.clone(),
        }
    }
}

/// The type of integers of which the longest beyond BIGINT have so many digits; 0 for none.
fn integers_of(digits: usize) -> DataType {
    match digits {
        0 => DataType::Int64,
        1..=38 => DataType::Decimal128(38, 0),
        39..=76 => DataType::Decimal256(76, 0),
        _ => DataType::Utf8,
    }
}

#[cfg(test)]
mod tests;
