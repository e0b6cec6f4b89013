//! CSV as PostgreSQL reads it: an unquoted field that reads as the NULL text is NULL, a quoted
//! one never is, so that `a,,b` and `a,"",b` differ.
//!
//! Reads bytes; gives batches of text columns, so that an error of a value can name its row.
//! Invariant CSV-1: memory holds one batch and one record, whatever a broken file says: a field
//! longer than a cell may be ends the reading.

use std::io::{BufRead, Chain, Read};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lazybase_model::limits::CELL_BYTES_MAX;
use lazybase_model::{Error, Result};

use super::header::check_names;
use super::{BYTE_ORDER_MARK, Header, drain, io, text_of};
use crate::error::from_arrow;

#[cfg(test)]
mod tests;

/// The most rows of a batch.
const BATCH_ROWS: usize = 8192;
/// A batch ends with the record that brings it to so many bytes.
const BATCH_BYTES: usize = 8 << 20;

/// How the text is written.
#[derive(Debug, Clone)]
pub(super) struct Dialect {
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    /// What makes a quote stand for itself inside quotes; mostly the quote.
    pub(super) escape: u8,
    /// The unquoted text that means NULL.
    pub(super) null: Vec<u8>,
    /// What the first line is.
    pub(super) header: Header,
    /// Which columns' values are NULL in quotes too; none of those that it ends before.
    pub(super) force_null: Vec<bool>,
    /// Which columns' values are never NULL.
    pub(super) force_not_null: Vec<bool>,
    /// Whether a line of `\\.` ends the data, as clients send it.
    pub(super) has_end: bool,
}

/// What comes before some lines of a file, for errors that say where something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinesBefore {
    /// Rows.
    pub rows: u64,
    /// Lines, the header's among them.
    pub lines: u64,
}

/// The rows of whole lines of CSV, which stand after a header, as texts in columns of these names.
/// An empty value is NULL; one in quotes is an empty text. Errors count rows and lines on from
/// `before`.
///
/// # Errors
/// Each batch: `Invalid` for a line that is no CSV or has another number of values.
pub fn csv_texts(
    lines: &[u8],
    delimiter: u8,
    names: Vec<String>,
    before: LinesBefore,
) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
    let dialect = Dialect {
        delimiter,
        quote: b'"',
        escape: b'"',
        null: Vec::new(),
        header: Header::None,
        force_null: Vec::new(),
        force_not_null: Vec::new(),
        has_end: false,
    };
    let mut records = Records::after(b"", lines, dialect, names)?;
    records.rows = before.rows;
    records.line = before.lines + 1;
    Ok(records)
}

/// One record: its fields' bytes one after the other.
#[derive(Debug, Default)]
struct Record {
    bytes: Vec<u8>,
    /// Where each field ends, and whether any of it stood in quotes.
    fields: Vec<(usize, bool)>,
    quoted: bool,
}

impl Record {
    fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
        self.quoted = false;
    }

    fn end_field(&mut self) {
        self.fields.push((self.bytes.len(), self.quoted));
        self.quoted = false;
    }

    fn field_bytes(&self) -> usize {
        self.bytes.len() - self.fields.last().map_or(0, |(end, _)| *end)
    }

    /// Line ends inside quotes.
    fn lines_inside(&self) -> u64 {
        self.bytes.iter().filter(|byte| **byte == b'\n').count() as u64
    }

    /// The fields of a header.
    fn texts(&self) -> Vec<String> {
        let mut start = 0;
        let texts = self.fields.iter().map(|(end, _)| {
            let text = String::from_utf8_lossy(&self.bytes[start..*end]);
            start = *end;
            text.into_owned()
        });
        texts.collect()
    }

    /// Whether the line is the one that ends what clients send.
    fn is_end(&self) -> bool {
        self.bytes == b"\\." && self.fields.len() == 1 && !self.fields[0].1
    }

    /// Whether the line was empty.
    fn is_blank(&self) -> bool {
        self.bytes.is_empty() && self.fields.len() == 1 && !self.fields[0].1
    }
}

/// Batches of records.
pub(super) struct Records<R> {
    /// What was read already to look at it, and the rest.
    input: Chain<&'static [u8], R>,
    dialect: Dialect,
    schema: SchemaRef,
    record: Record,
    /// The line where the next record begins, counted from 1.
    line: u64,
    rows: u64,
    /// A line ended with a carriage return: a line feed right after it belongs to it.
    after_return: bool,
    ended: bool,
}

/// Where in a record a byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Plain,
    Quoted,
    /// After the escape inside quotes.
    Escaped,
    /// After a quote inside quotes: it ends them, unless another one follows.
    QuoteInQuotes,
}

impl<R: BufRead> Records<R> {
    /// Reads the records of a file, whose columns are `names`.
    pub(super) fn new(mut input: R, dialect: Dialect, names: Vec<String>) -> Result<Records<R>> {
        let begun = skip_mark(&mut input)?;
        Records::after(begun, input, dialect, names)
    }

    /// Reads the records of `begun`, and then of `input`.
    fn after(
        begun: &'static [u8],
        input: R,
        dialect: Dialect,
        names: Vec<String>,
    ) -> Result<Records<R>> {
        if dialect.delimiter == dialect.quote {
            return Err(Error::invalid("DELIMITER and QUOTE are the same").with_sqlstate("22023"));
        }
        let fields: Vec<Field> = names
            .into_iter()
            .map(|name| Field::new(name, DataType::Utf8, true))
            .collect();
        let mut records = Records {
            input: begun.chain(input),
            schema: Arc::new(Schema::new(fields)),
            record: Record::default(),
            line: 1,
            rows: 0,
            after_return: false,
            ended: false,
            dialect,
        };
        if records.dialect.header != Header::None {
            records.read_record()?;
        }
        if records.dialect.header == Header::Matched {
            check_names(&records.record.texts(), &records.schema)?;
        }
        Ok(records)
    }

    /// Reads one record; false at the end.
    fn read_record(&mut self) -> Result<bool> {
        let Records {
            input,
            dialect,
            record,
            line,
            after_return,
            ..
        } = self;
        record.clear();
        let mut at = At::Plain;
        let mut begun = false;
        loop {
            let buffer = input.fill_buf().map_err(io("CSV"))?;
            if buffer.is_empty() {
                break;
            }
            let mut next = 0;
            if std::mem::take(after_return) && buffer[0] == b'\n' {
                next = 1;
            }
            let mut ends = false;
            while next < buffer.len() && !ends {
                begun = true;
                (at, next) = step(dialect, record, at, buffer, next);
                ends = at == At::Plain && buffer[next - 1] == b'\n';
                if at == At::Plain && buffer[next - 1] == b'\r' {
                    (ends, *after_return) = (true, true);
                }
            }
            input.consume(next);
            if record.field_bytes() > CELL_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "a value of the record at line {line} is longer than {CELL_BYTES_MAX} bytes"
                ))
                .with_hint("perhaps a quote is not closed")
                .with_sqlstate("54000"));
            }
            if ends {
                record.end_field();
                *line += 1 + record.lines_inside();
                return Ok(true);
            }
        }
        if matches!(at, At::Quoted | At::Escaped) {
            return Err(Error::invalid("a quoted value is never closed")
                .with_detail(format!("the quotes begin in the record of line {line}"))
                .with_sqlstate("22P04"));
        }
        if begun {
            record.end_field();
        }
        Ok(begun)
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let width = self.schema.fields().len();
        let mut columns: Vec<StringBuilder> = (0..width).map(|_| StringBuilder::new()).collect();
        let (mut rows, mut bytes) = (0, 0);
        while rows < BATCH_ROWS && bytes < BATCH_BYTES {
            let line = self.line;
            if !self.read_record()? {
                self.ended = true;
                break;
            }
            if self.dialect.has_end && self.record.is_end() {
                self.ended = true;
                drain(&mut self.input)?;
                break;
            }
            if width > 1 && self.record.is_blank() {
                continue;
            }
            rows += 1;
            bytes += self.record.bytes.len();
            self.rows += 1;
            self.take_record(&mut columns, line)?;
        }
        if rows == 0 {
            return Ok(None);
        }
        let arrays = columns
            .iter_mut()
            .map(|column| Arc::new(column.finish()) as ArrayRef)
            .collect();
        RecordBatch::try_new(Arc::clone(&self.schema), arrays)
            .map(Some)
            .map_err(|error| from_arrow(&error))
    }

    fn take_record(&self, columns: &mut [StringBuilder], line: u64) -> Result<()> {
        let fields = &self.record.fields;
        if fields.len() != columns.len() {
            return Err(Error::invalid(format!(
                "row {} (line {line}) has {} values for {} columns",
                self.rows,
                fields.len(),
                columns.len()
            ))
            .with_sqlstate("22P04"));
        }
        let mut start = 0;
        let is = |forced: &[bool], at: usize| forced.get(at) == Some(&true);
        for (at, (column, (end, quoted))) in columns.iter_mut().zip(fields).enumerate() {
            let bytes = &self.record.bytes[start..*end];
            start = *end;
            let may_be_null = match quoted {
                true => is(&self.dialect.force_null, at),
                false => !is(&self.dialect.force_not_null, at),
            };
            if may_be_null && bytes == self.dialect.null {
                column.append_null();
                continue;
            }
            let place = || format!("row {} (line {line})", self.rows);
            column.append_value(text_of(bytes, place)?);
        }
        Ok(())
    }
}

/// Takes the byte order mark that a file begins with; gives what was taken of anything else.
fn skip_mark(input: &mut impl BufRead) -> Result<&'static [u8]> {
    for (taken, expected) in BYTE_ORDER_MARK.iter().enumerate() {
        let buffer = input.fill_buf().map_err(io("CSV"))?;
        if buffer.first() != Some(expected) {
            return Ok(&BYTE_ORDER_MARK[..taken]);
        }
        input.consume(1);
    }
    Ok(b"")
}

/// Takes the byte at `next`, or a stretch of plain ones; gives what comes after it.
fn step(dialect: &Dialect, record: &mut Record, at: At, buffer: &[u8], next: usize) -> (At, usize) {
    let byte = buffer[next];
    match at {
        At::Plain | At::QuoteInQuotes if byte == dialect.delimiter => {
            record.end_field();
            (At::Plain, next + 1)
        }
        At::Plain | At::QuoteInQuotes if matches!(byte, b'\n' | b'\r') => (At::Plain, next + 1),
        At::Plain if byte == dialect.quote => {
            record.quoted = true;
            (At::Quoted, next + 1)
        }
        At::QuoteInQuotes if byte == dialect.quote => {
            record.bytes.push(byte);
            (At::Quoted, next + 1)
        }
        At::Plain | At::QuoteInQuotes => {
            let special = |byte: &u8| {
                *byte == dialect.delimiter
                    || *byte == dialect.quote
                    || matches!(*byte, b'\n' | b'\r')
            };
            let rest = &buffer[next..];
            let length = rest.iter().position(special).unwrap_or(rest.len());
            record.bytes.extend_from_slice(&rest[..length]);
            // The last byte is plain: the caller takes no end of line for it.
            (At::Plain, next + length)
        }
        At::Quoted if byte == dialect.quote && dialect.escape == dialect.quote => {
            (At::QuoteInQuotes, next + 1)
        }
        At::Quoted if byte == dialect.quote => (At::Plain, next + 1),
        At::Quoted if byte == dialect.escape => (At::Escaped, next + 1),
        At::Quoted => {
            let special = |byte: &u8| *byte == dialect.quote || *byte == dialect.escape;
            let rest = &buffer[next..];
            let length = rest.iter().position(special).unwrap_or(rest.len());
            record.bytes.extend_from_slice(&rest[..length]);
            (At::Quoted, next + length)
        }
        At::Escaped => {
            if byte != dialect.quote && byte != dialect.escape {
                record.bytes.push(dialect.escape);
            }
            record.bytes.push(byte);
            (At::Quoted, next + 1)
        }
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.ended {
            return None;
        }
        let batch = self.next_batch();
        self.ended |= batch.is_err();
        batch.transpose()
    }
}
