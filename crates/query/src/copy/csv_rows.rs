//! Rows as CSV that COPY FROM reads back: NULL stands bare, a text that looks like it in quotes.
//!
//! Intervals, infinities and far moments are spelt as a cast to TEXT has them.
//!
//! Gets batches and writes lines. Invariant CSR-1: a value is in quotes if it would otherwise be
//! read as anything else.

use std::io::Write;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::spelling::{csv_lacks, rows_with};
use crate::text_form::own_text;

/// Moments as SQL's users write them.
const TIMESTAMP: &str = "%Y-%m-%d %H:%M:%S%.f";
const TIMESTAMP_TZ: &str = "%Y-%m-%d %H:%M:%S%.f%:z";

/// How rows are spelt; by default with commas, double quotes, and nothing for NULL.
#[derive(Debug, Clone)]
pub struct CsvSpelling {
    pub(super) delimiter: char,
    pub(super) quote: char,
    pub(super) escape: char,
    pub(super) null: String,
    /// Which columns' values stand in quotes, whatever they are; none of those that it ends before.
    pub(super) quoted: Vec<bool>,
}

impl CsvSpelling {
    /// The usual one, but for what stands between values.
    pub fn of_delimiter(delimiter: char) -> CsvSpelling {
        CsvSpelling {
            delimiter,
            ..CsvSpelling::default()
        }
    }
}

impl Default for CsvSpelling {
    fn default() -> CsvSpelling {
        CsvSpelling {
            delimiter: ',',
            quote: '"',
            escape: '"',
            null: String::new(),
            quoted: Vec::new(),
        }
    }
}

/// Writes rows as lines of CSV: a text is in quotes where it would be read as something else, an
/// empty one beside NULL, which is bare, for one.
#[derive(Debug)]
pub struct CsvWriter<W> {
    out: W,
    spelling: CsvSpelling,
    line: String,
}

impl<W: Write> CsvWriter<W> {
    /// A writer to `out`.
    pub fn new(out: W, spelling: CsvSpelling) -> CsvWriter<W> {
        CsvWriter {
            out,
            spelling,
            line: String::new(),
        }
    }

    /// Writes a line with the columns' names.
    ///
    /// # Errors
    /// Those of the writer beneath.
    pub fn header(&mut self, schema: &SchemaRef) -> Result<(), ArrowError> {
        let fields = schema.fields();
        for (at, field) in fields.iter().enumerate() {
            let is_lost = self.spelling.is_lost(field.name(), fields.len());
            self.spelling
                .add(&mut self.line, at, Some(field.name()), is_lost);
        }
        self.end_line()
    }

    /// Writes a line for each row.
    ///
    /// # Errors
    /// Those of the writer beneath; when a value has no text.
    pub fn write(&mut self, rows: &RecordBatch) -> Result<(), ArrowError> {
        let rows = rows_with(rows, csv_lacks)?;
        let options = FormatOptions::default()
            .with_timestamp_format(Some(TIMESTAMP))
            .with_timestamp_tz_format(Some(TIMESTAMP_TZ));
        let columns = rows.columns();
        let formatters = columns
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options));
        let formatters = formatters.collect::<Result<Vec<_>, _>>()?;
        for row in 0..rows.num_rows() {
            for (at, (column, formatter)) in columns.iter().zip(&formatters).enumerate() {
                let is_null = column.is_null(row) || column.data_type().is_null();
                let value = match is_null {
                    true => None,
                    false => Some(match own_text(column, row) {
                        Some(text) => text,
                        None => formatter.value(row).try_to_string()?,
                    }),
                };
                let in_quotes = value.as_deref().is_some_and(|value| {
                    self.spelling.quoted.get(at) == Some(&true)
                        || self.spelling.is_lost(value, columns.len())
                });
                self.spelling
                    .add(&mut self.line, at, value.as_deref(), in_quotes);
            }
            self.end_line()?;
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), ArrowError> {
        self.line.push('\n');
        let written = self.out.write_all(self.line.as_bytes());
        self.line.clear();
        Ok(written?)
    }

    /// What it writes to; nothing is held back.
    pub fn into_inner(self) -> W {
        self.out
    }
}

impl CsvSpelling {
    /// Whether a value would be read as something else without quotes: as NULL, or as no row where
    /// an empty line holds all of its values.
    fn is_lost(&self, value: &str, of: usize) -> bool {
        value == self.null || (value.is_empty() && of == 1)
    }

    /// Adds value `at` of a line, in quotes if that is said or needed.
    fn add(&self, line: &mut String, at: usize, value: Option<&str>, in_quotes: bool) {
        if at > 0 {
            line.push(self.delimiter);
        }
        let Some(value) = value else {
            line.push_str(&self.null);
            return;
        };
        let parts = [self.delimiter, self.quote, '\n', '\r'];
        if !in_quotes && !value.contains(parts) {
            line.push_str(value);
            return;
        }
        line.push(self.quote);
        for c in value.chars() {
            if c == self.quote || c == self.escape {
                line.push(self.escape);
            }
            line.push(c);
        }
        line.push(self.quote);
    }
}
