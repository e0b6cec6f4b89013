//! PostgreSQL's binary COPY as a stream of Arrow batches, which the session reads.
//!
//! ```text
//!   head: PGCOPY signature, flags, length of what else is in the head
//!   rows: how many values, each with its length; a count of -1 ends them
//! ```
//!
//! Invariant BIN-1: memory holds one batch and what has come of one row.

use std::sync::Arc;

use arrow::array::types::{Time64MicrosecondType, TimestampMicrosecondType};
use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Float32Builder, Float64Builder,
    Int16Builder, Int32Builder, Int64Builder, PrimitiveArray, RecordBatch, StringBuilder,
};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::writer::StreamWriter;
use bytes::{Buf, Bytes, BytesMut};
use lazybase_model::limits::CELL_BYTES_MAX;
use lazybase_model::{Error, Result};
use lazybase_query::{Value, put_array_element, put_hex};

use crate::messages::{MESSAGE_BYTES_MAX, broken};
use crate::{parameters, types};

#[cfg(test)]
mod tests;

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// The flags that whoever reads must know.
const CRITICAL_FLAGS: u32 = 0xffff_0000;
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 8 << 20;

/// Turns bytes into batches.
pub(super) struct Binary {
    input: BytesMut,
    columns: Vec<Column>,
    fields: Vec<Field>,
    rows: usize,
    bytes: usize,
    begun: bool,
    ended: bool,
    writer: StreamWriter<Vec<u8>>,
}

/// The values of a column.
struct Column {
    oid: u32,
    values: Values,
}

enum Values {
    Bool(BooleanBuilder),
    I16(Int16Builder),
    I32(Int32Builder),
    I64(Int64Builder),
    F32(Float32Builder),
    F64(Float64Builder),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Time(Int64Builder),
    /// Whether it has a zone.
    Timestamp(Int64Builder, bool),
    /// Of everything else the text, which the column takes as INSERT would.
    Text(StringBuilder),
}

impl Binary {
    /// Reads rows of these columns.
    pub(super) fn new(schema: &Schema) -> Result<Binary> {
        let columns: Vec<Column> = schema
            .fields()
            .iter()
            .map(|field| Column::new(field))
            .collect();
        let fields = schema.fields().iter().zip(&columns);
        let fields: Vec<Field> = fields
            .map(|(field, column)| Field::new(field.name(), column.values.data_type(), true))
            .collect();
        let writer = StreamWriter::try_new(Vec::new(), &Schema::new(fields.clone()));
        Ok(Binary {
            input: BytesMut::new(),
            columns,
            fields,
            rows: 0,
            bytes: 0,
            begun: false,
            ended: false,
            writer: writer.map_err(|error| Error::internal(error.to_string()))?,
        })
    }

    /// Takes some bytes; gives what they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Bytes> {
        if self.ended && !bytes.is_empty() {
            return Err(after_the_end());
        }
        self.input.extend_from_slice(bytes);
        if !self.begun && !self.take_head()? {
            return Ok(Bytes::new());
        }
        while !self.ended && self.take_row()? {
            if self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
                self.write_batch()?;
            }
        }
        if self.ended && !self.input.is_empty() {
            return Err(after_the_end());
        }
        Ok(std::mem::take(self.writer.get_mut()).into())
    }

    /// All bytes have come; gives what is left.
    pub(super) fn finish(mut self) -> Result<Bytes> {
        // Its end need not be marked, as long as no row is cut.
        if !self.ended && (!self.begun || !self.input.is_empty()) {
            return Err(broken("a binary COPY ends amid its rows").with_sqlstate("22P04"));
        }
        self.write_batch()?;
        let written = self.writer.into_inner();
        written
            .map(Bytes::from)
            .map_err(|error| Error::internal(error.to_string()))
    }

    fn take_head(&mut self) -> Result<bool> {
        let head = SIGNATURE.len();
        if self.input.len() < head + 8 {
            return Ok(false);
        }
        if &self.input[..head] != SIGNATURE {
            return Err(Error::invalid("this is no binary COPY").with_sqlstate("22P04"));
        }
        let number = |at: usize| parameters::fixed(&self.input[at..at + 4]).map(u32::from_be_bytes);
        if number(head)? & CRITICAL_FLAGS != 0 {
            return Err(
                Error::invalid("a binary COPY has flags that are not known here")
                    .with_detail("rows with object numbers are not read")
                    .with_sqlstate("22P04"),
            );
        }
        let more = number(head + 4)? as usize;
        if more > 1 << 20 {
            return Err(
                Error::invalid("the head of a binary COPY is too long").with_sqlstate("22P04")
            );
        }
        if self.input.len() < head + 8 + more {
            return Ok(false);
        }
        self.input.advance(head + 8 + more);
        self.begun = true;
        Ok(true)
    }

    /// Takes the next row, once it is there whole.
    fn take_row(&mut self) -> Result<bool> {
        let Some(count) = self
            .input
            .first_chunk::<2>()
            .map(|count| i16::from_be_bytes(*count))
        else {
            return Ok(false);
        };
        if count == -1 {
            self.input.advance(2);
            self.ended = true;
            return Ok(true);
        }
        if usize::try_from(count).ok() != Some(self.columns.len()) {
            return Err(Error::invalid(format!(
                "a row has {count} values for {} columns",
                self.columns.len()
            ))
            .with_sqlstate("22P04"));
        }
        let mut ends = Vec::with_capacity(self.columns.len());
        let mut at = 2;
        for _ in 0..self.columns.len() {
            let Some(length) = self.input.get(at..at + 4) else {
                return Ok(false);
            };
            let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
            at += 4;
            match usize::try_from(length) {
                Ok(length) if length > CELL_BYTES_MAX => {
                    return Err(too_long("a value", CELL_BYTES_MAX));
                }
                Ok(length) if at + length > MESSAGE_BYTES_MAX => {
                    return Err(too_long("a row", MESSAGE_BYTES_MAX));
                }
                Ok(length) => {
                    ends.push(Some((at, at + length)));
                    at += length;
                }
                Err(_) if length == -1 => ends.push(None),
                Err(_) => return Err(broken("a value has a negative length")),
            }
        }
        if self.input.len() < at {
            return Ok(false);
        }
        let row = self.input.split_to(at).freeze();
        for (at, (column, span)) in self.columns.iter_mut().zip(ends).enumerate() {
            let value = span.map(|(from, to)| row.slice(from..to));
            column
                .append(value.as_ref())
                .map_err(|error| error.within(format!("column {:?}", self.fields[at].name())))?;
        }
        self.rows += 1;
        self.bytes += row.len();
        Ok(true)
    }

    fn write_batch(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let columns: Vec<ArrayRef> = self
            .columns
            .iter_mut()
            .map(|column| column.values.finish())
            .collect();
        (self.rows, self.bytes) = (0, 0);
        let schema = Arc::new(Schema::new(self.fields.clone()));
        RecordBatch::try_new(schema, columns)
            .and_then(|batch| self.writer.write(&batch))
            .map_err(|error| Error::internal(error.to_string()))
    }
}

impl Column {
    fn new(field: &Field) -> Column {
        let oid = types::of_field(field);
        let values = match oid {
            types::BOOL => Values::Bool(BooleanBuilder::new()),
            types::INT2 => Values::I16(Int16Builder::new()),
            types::INT4 => Values::I32(Int32Builder::new()),
            types::INT8 => Values::I64(Int64Builder::new()),
            types::FLOAT4 => Values::F32(Float32Builder::new()),
            types::FLOAT8 => Values::F64(Float64Builder::new()),
            types::BYTEA => Values::Bytes(BinaryBuilder::new()),
            types::DATE => Values::Date(Date32Builder::new()),
            types::TIME => Values::Time(Int64Builder::new()),
            types::TIMESTAMP => Values::Timestamp(Int64Builder::new(), false),
            types::TIMESTAMPTZ => Values::Timestamp(Int64Builder::new(), true),
            _ => Values::Text(StringBuilder::new()),
        };
        Column { oid, values }
    }

    fn append(&mut self, bytes: Option<&Bytes>) -> Result<()> {
        match &mut self.values {
            Values::Bool(values) => {
                values.append_option(number(bytes, |[byte]: [u8; 1]| byte != 0)?)
            }
            Values::I16(values) => values.append_option(number(bytes, i16::from_be_bytes)?),
            Values::I32(values) => values.append_option(number(bytes, i32::from_be_bytes)?),
            Values::I64(values) => values.append_option(number(bytes, i64::from_be_bytes)?),
            Values::F32(values) => values.append_option(number(bytes, f32::from_be_bytes)?),
            Values::F64(values) => values.append_option(number(bytes, f64::from_be_bytes)?),
            Values::Bytes(values) => values.append_option(bytes),
            Values::Date(values) => {
                values.append_option(bytes.map(|bytes| parameters::days(bytes)).transpose()?);
            }
            Values::Time(values) => {
                values.append_option(
                    bytes
                        .map(|bytes| parameters::micros_of_day(bytes))
                        .transpose()?,
                );
            }
            Values::Timestamp(values, _) => {
                values.append_option(bytes.map(|bytes| parameters::micros(bytes)).transpose()?);
            }
            Values::Text(values) => {
                let value = bytes.map(|bytes| parameters::from_binary(self.oid, bytes));
                values.append_option(value.transpose()?.and_then(|value| text(&value)));
            }
        }
        Ok(())
    }
}

impl Values {
    fn data_type(&self) -> DataType {
        match self {
            Values::Bool(_) => DataType::Boolean,
            Values::I16(_) => DataType::Int16,
            Values::I32(_) => DataType::Int32,
            Values::I64(_) => DataType::Int64,
            Values::F32(_) => DataType::Float32,
            Values::F64(_) => DataType::Float64,
            Values::Bytes(_) => DataType::Binary,
            Values::Date(_) => DataType::Date32,
            Values::Time(_) => DataType::Time64(arrow::datatypes::TimeUnit::Microsecond),
            Values::Timestamp(_, zone) => DataType::Timestamp(
                arrow::datatypes::TimeUnit::Microsecond,
                zone.then(|| "+00:00".into()),
            ),
            Values::Text(_) => DataType::Utf8,
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Values::Bool(values) => Arc::new(values.finish()),
            Values::I16(values) => Arc::new(values.finish()),
            Values::I32(values) => Arc::new(values.finish()),
            Values::I64(values) => Arc::new(values.finish()),
            Values::F32(values) => Arc::new(values.finish()),
            Values::F64(values) => Arc::new(values.finish()),
            Values::Bytes(values) => Arc::new(values.finish()),
            Values::Date(values) => Arc::new(values.finish()),
            Values::Time(values) => {
                let times: PrimitiveArray<Time64MicrosecondType> =
                    values.finish().reinterpret_cast();
                Arc::new(times)
            }
            Values::Timestamp(values, zone) => {
                let times: PrimitiveArray<TimestampMicrosecondType> =
                    values.finish().reinterpret_cast();
                Arc::new(times.with_timezone_opt(zone.then_some("+00:00")))
            }
            Values::Text(values) => Arc::new(values.finish()),
        }
    }
}

/// A number of so many bytes.
fn number<const N: usize, T>(
    bytes: Option<&Bytes>,
    read: impl Fn([u8; N]) -> T,
) -> Result<Option<T>> {
    let fixed = bytes.map(|bytes| parameters::fixed(bytes)).transpose()?;
    Ok(fixed.map(read))
}

fn too_long(what: &str, limit: usize) -> Error {
    Error::invalid(format!("{what} is longer than {limit} bytes")).with_sqlstate("54000")
}

fn after_the_end() -> Error {
    Error::invalid("bytes come after the end of a binary COPY").with_sqlstate("22P04")
}

/// A value as COPY takes it from a text.
fn text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Decimal(text) | Value::Text(text) | Value::Json(text) | Value::Typed(_, text) => {
            text.clone()
        }
        Value::Bytes(bytes) => {
            let mut text = "\\x".to_owned();
            put_hex(bytes, &mut text);
            text
        }
        Value::List(values) => {
            let mut list = "{".to_owned();
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    list.push(',');
                }
                match text(value) {
                    Some(text) => put_array_element(&text, &mut list),
                    None => list.push_str("NULL"),
                }
            }
            list + "}"
        }
    })
}
