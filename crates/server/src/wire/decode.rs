//! Values as PostgreSQL's binary format has them, as Arrow's columns; no I/O.
//!
//! Invariant DEC-1: a value that is cut off or of a type that is not known is an error or a text,
//! never another value.

use std::error::Error as StdError;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, RecordBatch,
    RecordBatchOptions, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Field, IntervalMonthDayNano, IntervalUnit, Schema, SchemaRef, TimeUnit,
};
use lazybase_model::{Error, Result};
use tokio_postgres::types::{FromSql, Kind, Type};
use tokio_postgres::{Column, Row};

mod numeric;

/// Days and microseconds from 1970 to 2000, which PostgreSQL counts from.
const DAYS: i32 = 10_957;
const MICROS: i64 = DAYS as i64 * 86_400_000_000;

/// The columns as Arrow has them.
pub(super) fn schema(columns: &[Column]) -> SchemaRef {
    let field = |column: &Column| {
        let data_type = arrow_type(column.type_(), column.type_modifier());
        Field::new(column.name(), data_type, true)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Rows as a batch.
pub(super) fn batch(schema: &SchemaRef, columns: &[Column], rows: &[Row]) -> Result<RecordBatch> {
    let arrays = columns.iter().enumerate().map(|(at, column)| {
        let cells: Result<Vec<Option<&[u8]>>> = rows.iter().map(|row| cell(row, at)).collect();
        array(column.type_(), column.type_modifier(), &cells?)
            .map_err(|error| error.within(format!("column {:?}", column.name())))
    });
    let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
        .map_err(|error| Error::internal(error.to_string()))
}

/// The bytes of a value, whatever its type.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Raw(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn cell(row: &Row, at: usize) -> Result<Option<&[u8]>> {
    let raw: Result<Option<Raw<'_>>, _> = row.try_get(at);
    let raw = raw.map_err(|error| Error::invalid(format!("a value can't be read: {error}")))?;
    Ok(raw.map(|raw| raw.0))
}

/// Precision and scale that a type's modifier tells, where it does and they fit.
fn decimal(modifier: i32) -> Option<(u8, i8)> {
    let packed = modifier.checked_sub(4).filter(|packed| *packed >= 0)?;
    let precision = u8::try_from(packed >> 16).ok()?;
    // The scale has eleven bits, the highest of which is its sign.
    let scale = ((packed & 0x7ff) ^ 0x400) - 0x400;
    let scale = i8::try_from(scale).ok()?;
    (1..=38).contains(&precision).then_some((precision, scale))
}

fn arrow_type(of: &Type, modifier: i32) -> DataType {
    if let Kind::Array(element) = of.kind() {
        return DataType::new_list(arrow_type(element, modifier), true);
    }
    match *of {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 | Type::OID => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::BYTEA => DataType::Binary,
        Type::DATE => DataType::Date32,
        Type::TIME => DataType::Time64(TimeUnit::Microsecond),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        Type::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        Type::NUMERIC => match decimal(modifier) {
            Some((precision, scale)) => DataType::Decimal128(precision, scale),
            None => DataType::Utf8,
        },
        _ => DataType::Utf8,
    }
}

type Cells<'a> = [Option<&'a [u8]>];

/// A column of values.
fn array(of: &Type, modifier: i32, cells: &Cells<'_>) -> Result<ArrayRef> {
    if let Kind::Array(element) = of.kind() {
        return list(element, modifier, cells);
    }
    Ok(match *of {
        Type::BOOL => Arc::new(
            each(cells, |bytes| Ok(fixed::<1>(bytes)?[0] != 0))?
                .into_iter()
                .collect::<BooleanArray>(),
        ),
        Type::INT2 => Arc::new(Int16Array::from(each(cells, |bytes| {
            Ok(i16::from_be_bytes(fixed(bytes)?))
        })?)),
        Type::INT4 => Arc::new(Int32Array::from(each(cells, int4)?)),
        Type::OID => Arc::new(Int64Array::from(each(cells, |bytes| {
            Ok(i64::from(u32::from_be_bytes(fixed(bytes)?)))
        })?)),
        Type::INT8 => Arc::new(Int64Array::from(each(cells, int8)?)),
        Type::FLOAT4 => Arc::new(Float32Array::from(each(cells, |bytes| {
            Ok(f32::from_be_bytes(fixed(bytes)?))
        })?)),
        Type::FLOAT8 => Arc::new(Float64Array::from(each(cells, |bytes| {
            Ok(f64::from_be_bytes(fixed(bytes)?))
        })?)),
        Type::BYTEA => Arc::new(cells.iter().copied().collect::<BinaryArray>()),
        Type::DATE => Arc::new(Date32Array::from(each(cells, |bytes| {
            Ok(int4(bytes)?.saturating_add(DAYS))
        })?)),
        Type::TIME => Arc::new(Time64MicrosecondArray::from(each(cells, int8)?)),
        Type::TIMESTAMP => Arc::new(TimestampMicrosecondArray::from(each(cells, moment)?)),
        Type::TIMESTAMPTZ => {
            let moments = TimestampMicrosecondArray::from(each(cells, moment)?);
            Arc::new(moments.with_timezone("+00:00"))
        }
        Type::INTERVAL => Arc::new(IntervalMonthDayNanoArray::from(each(cells, interval)?)),
        Type::NUMERIC => return numbers(modifier, cells),
        _ => texts(of, cells)?,
    })
}

fn each<T>(cells: &Cells<'_>, read: impl Fn(&[u8]) -> Result<T>) -> Result<Vec<Option<T>>> {
    let read = |cell: &Option<&[u8]>| cell.map(&read).transpose();
    cells.iter().map(read).collect()
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| cut_off())
}

fn cut_off() -> Error {
    Error::invalid("the server sent a value of another length than its type has")
}

fn int4(bytes: &[u8]) -> Result<i32> {
    Ok(i32::from_be_bytes(fixed(bytes)?))
}

fn int8(bytes: &[u8]) -> Result<i64> {
    Ok(i64::from_be_bytes(fixed(bytes)?))
}

fn moment(bytes: &[u8]) -> Result<i64> {
    Ok(int8(bytes)?.saturating_add(MICROS))
}

fn interval(bytes: &[u8]) -> Result<IntervalMonthDayNano> {
    let bytes: [u8; 16] = fixed(bytes)?;
    let micros = int8(&bytes[..8])?;
    let nanos = micros.checked_mul(1_000).ok_or_else(cut_off)?;
    let (days, months) = (int4(&bytes[8..12])?, int4(&bytes[12..])?);
    Ok(IntervalMonthDayNano::new(months, days, nanos))
}

fn numbers(modifier: i32, cells: &Cells<'_>) -> Result<ArrayRef> {
    let Some((precision, scale)) = decimal(modifier) else {
        let texts = each(cells, numeric::text)?;
        return Ok(Arc::new(StringArray::from(texts)));
    };
    let values = each(cells, |bytes| numeric::scaled(bytes, scale))?;
    let array = Decimal128Array::from(values).with_precision_and_scale(precision, scale);
    let array = array.map_err(|error| Error::invalid(error.to_string()))?;
    Ok(Arc::new(array))
}

fn texts(of: &Type, cells: &Cells<'_>) -> Result<ArrayRef> {
    let texts = each(cells, |bytes| {
        Ok(match *of {
            Type::UUID => uuid(&fixed::<16>(bytes)?),
            // The first byte is the format's version.
            Type::JSONB => text(bytes.get(1..).unwrap_or_default()),
            _ => text(bytes),
        })
    })?;
    Ok(Arc::new(StringArray::from(texts)))
}

/// A text; what is none, in hexadecimal digits.
fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}

/// Arrays of one dimension: number of dimensions, whether there are NULLs, the element's type,
/// length and lower bound, then the elements, each with its length.
fn list(element: &Type, modifier: i32, cells: &Cells<'_>) -> Result<ArrayRef> {
    let mut elements: Vec<Option<&[u8]>> = Vec::new();
    let mut lengths = Vec::with_capacity(cells.len());
    for cell in cells {
        let before = elements.len();
        if let Some(bytes) = cell {
            take_elements(bytes, &mut elements)?;
        }
        lengths.push(elements.len() - before);
    }
    let values = array(element, modifier, &elements)?;
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let nulls: NullBuffer = cells.iter().map(Option::is_some).collect();
    let offsets = OffsetBuffer::from_lengths(lengths);
    let list = ListArray::try_new(field, offsets, values, Some(nulls));
    Ok(Arc::new(
        list.map_err(|error| Error::internal(error.to_string()))?,
    ))
}

fn take_elements<'a>(bytes: &'a [u8], elements: &mut Vec<Option<&'a [u8]>>) -> Result<()> {
    let mut rest = bytes;
    let mut number = || -> Result<i32> {
        let (head, after) = rest.split_first_chunk::<4>().ok_or_else(cut_off)?;
        rest = after;
        Ok(i32::from_be_bytes(*head))
    };
    let dimensions = number()?;
    let (_, _) = (number()?, number()?);
    if dimensions == 0 {
        return Ok(());
    }
    if dimensions != 1 {
        return Err(Error::invalid("arrays of several dimensions are not shown"));
    }
    let (count, _) = (number()?, number()?);
    for _ in 0..count {
        let (head, after) = rest.split_first_chunk::<4>().ok_or_else(cut_off)?;
        let length = i32::from_be_bytes(*head);
        rest = after;
        let Ok(length) = usize::try_from(length) else {
            elements.push(None);
            continue;
        };
        let (value, after) = rest.split_at_checked(length).ok_or_else(cut_off)?;
        elements.push(Some(value));
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
