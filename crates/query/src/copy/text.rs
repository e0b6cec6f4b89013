//! The text format of PostgreSQL's COPY: a line a row, values between tabs, `\\N` for NULL,
//! backslashes before what would mean something else.
//!
//! Reads bytes; gives batches of text columns, so that an error of a value can name its row.
//! Invariant TXT-1: memory holds one batch and one line, and a line has a limit. Invariant TXT-2:
//! the rows end with the bytes, also where `\\.` ended them before: whoever sends them may still
//! say that they don't count.

use std::io::BufRead;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use lazybase_model::{Error, Result};

use super::header::check_names;
use super::{Header, drain, io, text_of};
use crate::error::from_arrow;

#[cfg(test)]
mod tests;

/// The most rows of a batch.
const BATCH_ROWS: usize = 8192;
/// A batch ends with the line that brings it to so many bytes.
const BATCH_BYTES: usize = 8 << 20;
/// The longest line: cells go up to 16 MiB, and a row has several.
const LINE_BYTES_MAX: usize = 256 << 20;

/// Batches of lines.
pub(super) struct Lines<R> {
    input: R,
    delimiter: u8,
    null: Vec<u8>,
    schema: SchemaRef,
    line: Vec<u8>,
    value: Vec<u8>,
    /// Of the line that was read last, counted from 1.
    number: u64,
    rows: u64,
    ended: bool,
}

impl<R: BufRead> Lines<R> {
    /// Reads the rows of `input`, whose columns are `names`.
    pub(super) fn new(
        input: R,
        delimiter: u8,
        null: String,
        header: Header,
        names: Vec<String>,
    ) -> Result<Lines<R>> {
        if delimiter == b'\\' {
            return Err(Error::invalid("DELIMITER can't be a backslash").with_sqlstate("22023"));
        }
        let fields: Vec<Field> = names
            .into_iter()
            .map(|name| Field::new(name, DataType::Utf8, true))
            .collect();
        let mut lines = Lines {
            input,
            delimiter,
            null: null.into_bytes(),
            schema: Arc::new(Schema::new(fields)),
            line: Vec::new(),
            value: Vec::new(),
            number: 0,
            rows: 0,
            ended: false,
        };
        if header != Header::None {
            lines.read_line()?;
        }
        if header == Header::Matched {
            check_names(&lines.texts(), &lines.schema)?;
        }
        Ok(lines)
    }

    /// The values of a header.
    fn texts(&self) -> Vec<String> {
        let (mut rest, mut texts) = (Some(self.line.as_slice()), Vec::new());
        while let Some(bytes) = rest {
            let (raw, _, after) = next_value(bytes, self.delimiter);
            rest = after;
            let mut plain = Vec::new();
            unescape(raw, &mut plain);
            texts.push(String::from_utf8_lossy(&plain).into_owned());
        }
        texts
    }

    /// Reads one line; false at the end.
    fn read_line(&mut self) -> Result<bool> {
        self.line.clear();
        loop {
            let buffer = self.input.fill_buf().map_err(io("COPY"))?;
            if buffer.is_empty() {
                break;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |end| end + 1);
            self.line
                .extend_from_slice(&buffer[..end.unwrap_or(buffer.len())]);
            self.input.consume(taken);
            if self.line.len() > LINE_BYTES_MAX {
                return Err(Error::invalid(format!(
                    "line {} is longer than {LINE_BYTES_MAX} bytes",
                    self.number + 1
                ))
                .with_sqlstate("54000"));
            }
            // A line feed after a backslash is data.
            let escaped = self
                .line
                .iter()
                .rev()
                .take_while(|byte| **byte == b'\\')
                .count()
                % 2;
            if end.is_some() && escaped == 1 {
                self.line.push(b'\n');
            } else if end.is_some() {
                self.number += 1;
                return self.is_data();
            }
        }
        self.number += 1;
        Ok(!self.line.is_empty() && self.is_data()?)
    }

    /// Whether the line is none that ends the data.
    fn is_data(&mut self) -> Result<bool> {
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        if self.line == b"\\." {
            self.ended = true;
            drain(&mut self.input)?;
        }
        Ok(!self.ended)
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let width = self.schema.fields().len();
        let mut columns: Vec<StringBuilder> = (0..width).map(|_| StringBuilder::new()).collect();
        let (mut rows, mut bytes) = (0, 0);
        while rows < BATCH_ROWS && bytes < BATCH_BYTES {
            if self.ended || !self.read_line()? {
                self.ended = true;
                break;
            }
            rows += 1;
            bytes += self.line.len();
            self.rows += 1;
            self.take_line(&mut columns)?;
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

    fn take_line(&mut self, columns: &mut [StringBuilder]) -> Result<()> {
        let Lines {
            line,
            value,
            delimiter,
            null,
            ..
        } = self;
        let (mut rest, mut count) = (Some(line.as_slice()), 0);
        // A line of no columns is empty.
        if columns.is_empty() && line.is_empty() {
            return Ok(());
        }
        while let Some(bytes) = rest {
            let (raw, escaped, after) = next_value(bytes, *delimiter);
            rest = after;
            count += 1;
            let Some(column) = columns.get_mut(count - 1) else {
                continue;
            };
            if raw == null.as_slice() {
                column.append_null();
                continue;
            }
            let plain = match escaped {
                false => raw,
                true => {
                    value.clear();
                    unescape(raw, value);
                    value.as_slice()
                }
            };
            let place = || format!("row {} (line {})", self.rows, self.number);
            column.append_value(text_of(plain, place)?);
        }
        match count == columns.len() {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "row {} (line {}) has {count} values for {} columns",
                self.rows,
                self.number,
                columns.len()
            ))
            .with_sqlstate("22P04")),
        }
    }
}

/// The first value of a line, whether it has backslashes, and what comes after its delimiter.
fn next_value(bytes: &[u8], delimiter: u8) -> (&[u8], bool, Option<&[u8]>) {
    let (mut at, mut escaped) = (0, false);
    while at < bytes.len() {
        let special = |byte: &u8| *byte == delimiter || *byte == b'\\';
        let Some(found) = bytes[at..].iter().position(special) else {
            break;
        };
        at += found;
        if bytes[at] == delimiter {
            return (&bytes[..at], escaped, Some(&bytes[at + 1..]));
        }
        escaped = true;
        at += 2;
    }
    (bytes, escaped, None)
}

/// Appends what a value with backslashes means.
fn unescape(raw: &[u8], value: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            value.push(*first);
            continue;
        }
        let Some((letter, after)) = rest.split_first() else {
            value.push(b'\\');
            return;
        };
        let (taken, byte) = match letter {
            b'b' => (1, 0x08),
            b'f' => (1, 0x0c),
            b'n' => (1, b'\n'),
            b'r' => (1, b'\r'),
            b't' => (1, b'\t'),
            b'v' => (1, 0x0b),
            b'0'..=b'7' => number(rest, 0, 3, 8),
            b'x' if after.first().is_some_and(u8::is_ascii_hexdigit) => number(rest, 1, 2, 16),
            other => (1, *other),
        };
        value.push(byte);
        rest = &rest[taken..];
    }
}

/// The byte that some digits after `skipped` spell, and how long they are with what was skipped.
fn number(rest: &[u8], skipped: usize, digits_max: usize, base: u32) -> (usize, u8) {
    let (mut taken, mut sum) = (skipped, 0_u32);
    while taken < rest.len() && taken < skipped + digits_max {
        let Some(digit) = char::from(rest[taken]).to_digit(base) else {
            break;
        };
        sum = sum * base + digit;
        taken += 1;
    }
    (taken, (sum & 0xff) as u8)
}

impl<R: BufRead> Iterator for Lines<R> {
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
