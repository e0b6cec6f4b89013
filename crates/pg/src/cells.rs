//! The cells of a batch as text or as PostgreSQL's binary formats.
//!
//! One decision a column and batch; loops over rows then know what they write. Invariant CEL-1: a
//! cell is written in the format, and as the type, that the description of its column named.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::types::{Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, IntervalMonthDayNanoArray, ListArray,
    PrimitiveArray, RecordBatch, StringArray,
};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::{BufMut, BytesMut};
use lazybase_model::{Error, Result};
use lazybase_query::text_form::{self, IntervalStyle, float};
use lazybase_query::{Cell, KeptRow, from_uuid, json_texts, put_array_element, put_hex};

use crate::failure::changed;
use crate::{decimal, types};

#[cfg(test)]
mod tests;

/// A batch that is ready to be written.
pub(crate) struct Rows {
    cells: Vec<Cells>,
    pub(crate) count: usize,
}

impl Rows {
    /// Prepares a batch for the columns that a client was told of; `formats` as the client asked.
    ///
    /// # Errors
    /// `Invalid` (0A000) where the columns are others than those.
    pub(crate) fn new(batch: &RecordBatch, told: &Schema, formats: &[i16]) -> Result<Rows> {
        if told.fields().len() != batch.num_columns() {
            return Err(changed());
        }
        let columns = told.fields().iter().zip(batch.columns()).enumerate();
        let cells = columns.map(|(at, (field, column))| {
            let binary = types::format_of(formats, at) == 1;
            Cells::new(field, column, binary)
        });
        Ok(Rows {
            cells: cells.collect::<Result<_>>()?,
            count: batch.num_rows(),
        })
    }

    /// The same with intervals as text in a style.
    pub(crate) fn spelling(mut self, style: IntervalStyle) -> Rows {
        for cells in &mut self.cells {
            cells.values.spell_intervals(style);
        }
        self
    }

    /// Appends a row as a message.
    pub(crate) fn put_row(&self, row: usize, out: &mut BytesMut) {
        out.put_u8(b'D');
        with_length(out, true, |out| {
            out.put_i16(self.cells.len() as i16);
            for cells in &self.cells {
                cells.put_counted(row, out);
            }
        });
    }

    /// Appends the cells of a row, each with its length, and nothing else.
    pub(crate) fn put_cells(&self, row: usize, out: &mut BytesMut) {
        for cells in &self.cells {
            cells.put_counted(row, out);
        }
    }

    /// The cells of a row one by one: their text, or nothing for NULL.
    pub(crate) fn each_text(&self, row: usize, mut take: impl FnMut(Option<&[u8]>)) {
        let mut text = BytesMut::new();
        for cells in &self.cells {
            text.clear();
            match cells.is_null(row) {
                true => take(None),
                false => {
                    cells.values.put(row, cells.binary, &mut text);
                    take(Some(&text));
                }
            }
        }
    }
}

/// Appends a row as a message, as [`Rows`] does it, for the columns that a client was told of.
///
/// # Errors
/// As [`Rows::new`]; then nothing is appended.
pub(crate) fn put_kept_row(
    row: &KeptRow,
    told: &Schema,
    formats: &[i16],
    style: IntervalStyle,
    out: &mut BytesMut,
) -> Result<()> {
    if told.fields().len() != row.width() {
        return Err(changed());
    }
    let start = out.len();
    let mut done = Ok(());
    out.put_u8(b'D');
    with_length(out, true, |out| {
        out.put_i16(row.width() as i16);
        done = told
            .fields()
            .iter()
            .enumerate()
            .try_for_each(|(at, field)| {
                let binary = types::format_of(formats, at) == 1;
                put_kept_cell(row, at, field, binary, style, out)
            });
    });
    if done.is_err() {
        out.truncate(start);
    }
    done
}

fn put_kept_cell(
    row: &KeptRow,
    at: usize,
    field: &Field,
    binary: bool,
    style: IntervalStyle,
    out: &mut BytesMut,
) -> Result<()> {
    let cell = row.cell(at);
    if cell == Cell::Null {
        out.put_i32(-1);
        return Ok(());
    }
    let (start, oid) = (out.len(), types::of_field(field));
    let mut is_put = false;
    with_length(out, false, |out| {
        is_put = match binary {
            true => put_cell_binary(oid, cell, out),
            false => put_cell_text(oid, cell, out),
        };
    });
    if is_put {
        return Ok(());
    }
    out.truncate(start);
    let mut cells = Cells::new(field, &row.column(at)?, binary)?;
    cells.values.spell_intervals(style);
    cells.put_counted(0, out);
    Ok(())
}

/// Appends a cell of one of the types that most columns have; whether it is of one.
fn put_cell_text(oid: u32, cell: Cell<'_>, out: &mut BytesMut) -> bool {
    match (oid, cell) {
        (types::BOOL, Cell::Boolean(value)) => out.put_u8(if value { b't' } else { b'f' }),
        (types::INT2, Cell::Int16(value)) => shown_as(value, out),
        (types::INT4, Cell::Int32(value)) => shown_as(value, out),
        (types::INT8 | types::OID, Cell::Int64(value)) => shown_as(value, out),
        (types::FLOAT4, Cell::Float32(value)) => float(value.into(), value, out),
        (types::FLOAT8, Cell::Float64(value)) => float(value, value, out),
        (types::TEXT | types::JSON, Cell::Text(text)) => out.put_slice(text),
        (types::BYTEA, Cell::Binary(bytes)) => {
            out.put_slice(b"\\x");
            put_hex(bytes, out);
        }
        (types::DATE, Cell::Date32(days)) => text_form::date(days, out),
        (types::TIMESTAMP, Cell::TimestampMicros(micros)) => {
            text_form::timestamp(micros, false, out);
        }
        (types::TIMESTAMPTZ, Cell::TimestampMicros(micros)) => {
            text_form::timestamp(micros, true, out);
        }
        _ => return false,
    }
    true
}

/// The same in PostgreSQL's binary formats.
fn put_cell_binary(oid: u32, cell: Cell<'_>, out: &mut BytesMut) -> bool {
    match (oid, cell) {
        (types::BOOL, Cell::Boolean(value)) => out.put_u8(value.into()),
        (types::INT2, Cell::Int16(value)) => out.put_i16(value),
        (types::INT4, Cell::Int32(value)) => out.put_i32(value),
        (types::INT8, Cell::Int64(value)) => out.put_i64(value),
        (types::FLOAT4, Cell::Float32(value)) => out.put_f32(value),
        (types::FLOAT8, Cell::Float64(value)) => out.put_f64(value),
        (types::TEXT | types::JSON, Cell::Text(bytes)) => out.put_slice(bytes),
        (types::BYTEA, Cell::Binary(bytes)) => out.put_slice(bytes),
        (types::DATE, Cell::Date32(days)) => {
            out.put_i32(days.wrapping_sub(text_form::EPOCH_DAYS));
        }
        (types::TIMESTAMP | types::TIMESTAMPTZ, Cell::TimestampMicros(micros)) => {
            out.put_i64(micros.saturating_sub(text_form::EPOCH_MICROS));
        }
        _ => return false,
    }
    true
}

/// Appends what `put` appends, preceded by its length; with its own four bytes where that is said.
pub(crate) fn with_length(
    out: &mut BytesMut,
    counts_itself: bool,
    put: impl FnOnce(&mut BytesMut),
) {
    let start = out.len();
    out.put_i32(0);
    put(out);
    let length = out.len() - start - if counts_itself { 0 } else { 4 };
    // A message of more than two GiB can't be: cells go up to 16 MiB, rows are of 1,600 columns.
    out[start..start + 4].copy_from_slice(&(length as u32).to_be_bytes());
}

/// The cells of one column.
struct Cells {
    array: ArrayRef,
    values: Values,
    binary: bool,
}

impl Cells {
    fn new(field: &Field, column: &ArrayRef, binary: bool) -> Result<Cells> {
        let numbers = |data_type: &DataType| types::of_type(data_type) == types::NUMERIC;
        // A number is sent with the digits that it has, whatever scale was told.
        let same = column.data_type() == field.data_type()
            || (numbers(column.data_type()) && numbers(field.data_type()));
        let column = match same {
            true => Arc::clone(column),
            false => as_told(field, column)?,
        };
        let values = Values::new(field, &column)?;
        Ok(Cells {
            array: column,
            values,
            binary,
        })
    }

    fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row) || matches!(self.values, Values::Null)
    }

    fn put_counted(&self, row: usize, out: &mut BytesMut) {
        match self.is_null(row) {
            true => out.put_i32(-1),
            false => with_length(out, false, |out| self.values.put(row, self.binary, out)),
        }
    }
}

/// A value that does not fit is an error: Arrow would make it NULL otherwise.
const CHECKED: CastOptions<'static> = CastOptions {
    safe: false,
    format_options: FormatOptions::new(),
};

/// A column as the type that the client was told.
fn as_told(field: &Field, column: &ArrayRef) -> Result<ArrayRef> {
    cast_with_options(column, field.data_type(), &CHECKED)
        .map_err(|error| changed().with_detail(format!("column {:?}: {error}", field.name())))
}

/// The values of a column by how they are written.
enum Values {
    Null,
    Bool(BooleanArray),
    I16(PrimitiveArray<Int16Type>),
    I32(PrimitiveArray<Int32Type>),
    I64(PrimitiveArray<Int64Type>),
    /// An object number: four bytes without a sign.
    Oid(PrimitiveArray<Int64Type>),
    F32(PrimitiveArray<Float32Type>),
    F64(PrimitiveArray<Float64Type>),
    Text(StringArray),
    Uuid(StringArray),
    Bytes(BinaryArray),
    Date(PrimitiveArray<Date32Type>),
    /// In microseconds.
    Time(PrimitiveArray<Int64Type>),
    /// The same in nanoseconds, for which binary formats have no digits.
    TimeNanos(PrimitiveArray<Int64Type>),
    /// In microseconds; whether it has a zone.
    Timestamp(PrimitiveArray<Int64Type>, bool),
    /// The same in nanoseconds.
    TimestampNanos(PrimitiveArray<Int64Type>, bool),
    Interval(IntervalMonthDayNanoArray, IntervalStyle),
    /// As plain text.
    Numeric(StringArray),
    List(ListArray, Box<Values>, u32),
    /// `int2vector` and `oidvector`: a list that is written as numbers with spaces between them.
    Vector(ListArray, Box<Values>, u32),
}

/// A column as another type, if all its values can be.
fn cast(field: &Field, column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let sqlstate = match can_cast_types(column.data_type(), data_type) {
        true => "22008",
        false => "0A000",
    };
    cast_with_options(column, data_type, &CHECKED).map_err(|error| {
        Error::invalid(format!("column {:?} can't be sent: {error}", field.name()))
            .with_sqlstate(sqlstate)
    })
}

impl Values {
    fn new(field: &Field, column: &ArrayRef) -> Result<Values> {
        let to = |data_type: &DataType| {
            // Most columns are what they are sent as, and each answer of a row asks.
            match column.data_type() == data_type {
                true => Ok(Arc::clone(column)),
                false => cast(field, column, data_type),
            }
        };
        let micros = |data_type: &DataType| as_i64(&to(data_type)?);
        Ok(match (types::of_field(field), column.data_type()) {
            (_, DataType::Null) => Values::Null,
            (types::BOOL, _) => Values::Bool(column.as_boolean().clone()),
            (types::INT2, _) => Values::I16(to(&DataType::Int16)?.as_primitive().clone()),
            (types::INT4, _) => Values::I32(to(&DataType::Int32)?.as_primitive().clone()),
            (types::OID, _) => Values::Oid(to(&DataType::Int64)?.as_primitive().clone()),
            (types::INT8, _) => Values::I64(to(&DataType::Int64)?.as_primitive().clone()),
            (types::FLOAT4, _) => Values::F32(to(&DataType::Float32)?.as_primitive().clone()),
            (types::FLOAT8, _) => Values::F64(to(&DataType::Float64)?.as_primitive().clone()),
            (types::NUMERIC, _) => Values::Numeric(to(&DataType::Utf8)?.as_string().clone()),
            (types::UUID, _) => Values::Uuid(to(&DataType::Utf8)?.as_string().clone()),
            (types::BYTEA, _) => Values::Bytes(to(&DataType::Binary)?.as_binary().clone()),
            (types::DATE, _) => Values::Date(to(&DataType::Date32)?.as_primitive().clone()),
            (types::TIME, DataType::Time64(TimeUnit::Nanosecond)) => {
                Values::TimeNanos(as_i64(column)?)
            }
            (types::TIME, _) => Values::Time(micros(&DataType::Time64(TimeUnit::Microsecond))?),
            (_, DataType::Timestamp(TimeUnit::Nanosecond, zone)) => {
                Values::TimestampNanos(as_i64(column)?, zone.is_some())
            }
            (types::TIMESTAMP, _) => {
                let wanted = DataType::Timestamp(TimeUnit::Microsecond, None);
                Values::Timestamp(micros(&wanted)?, false)
            }
            (types::TIMESTAMPTZ, DataType::Timestamp(_, zone)) => {
                let wanted = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
                Values::Timestamp(micros(&wanted)?, true)
            }
            (types::INTERVAL, DataType::Duration(_)) => {
                let intervals = text_form::intervals(column).map_err(|error| {
                    Error::invalid(format!("column {:?} can't be sent: {error}", field.name()))
                        .with_sqlstate("22008")
                })?;
                Values::Interval(intervals, IntervalStyle::default())
            }
            (types::INTERVAL, _) => {
                let wanted = DataType::Interval(IntervalUnit::MonthDayNano);
                let intervals: IntervalMonthDayNanoArray = to(&wanted)?.as_primitive().clone();
                Values::Interval(intervals, IntervalStyle::default())
            }
            (types::JSON, _) => Values::Text(match column.data_type().is_nested() {
                true => json(field, column)?,
                false => to(&DataType::Utf8)?.as_string().clone(),
            }),
            (types::INT2VECTOR | types::OIDVECTOR, DataType::List(item)) => {
                let values = Values::new(item, column.as_list::<i32>().values())?;
                let element = types::of_field(item);
                Values::Vector(column.as_list().clone(), Box::new(values), element)
            }
            (
                _,
                DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _),
            ) => {
                let item = Arc::clone(item);
                let list = to(&DataType::List(Arc::clone(&item)))?.as_list().clone();
                let values = Values::new(&item, list.values())?;
                // That its elements are JSON, a list says itself.
                let element = types::element_of(types::of_field(field));
                let element = element.unwrap_or_else(|| types::of_field(&item));
                Values::List(list, Box::new(values), element)
            }
            _ => match to(&DataType::Utf8) {
                Ok(texts) => Values::Text(texts.as_string().clone()),
                Err(_) => Values::Text(shown(column)?),
            },
        })
    }

    /// Intervals are written in this style, also those of lists.
    fn spell_intervals(&mut self, style: IntervalStyle) {
        match self {
            Values::Interval(_, own) => *own = style,
            Values::List(_, values, _) => values.spell_intervals(style),
            _ => {}
        }
    }

    /// Appends a value that is not NULL.
    fn put(&self, row: usize, binary: bool, out: &mut BytesMut) {
        match binary {
            true => self.put_binary(row, out),
            false => self.put_text(row, out),
        }
    }

    fn put_text(&self, row: usize, out: &mut BytesMut) {
        match self {
            Values::Null => {}
            Values::Bool(array) => out.put_u8(if array.value(row) { b't' } else { b'f' }),
            Values::I16(array) => shown_as(array.value(row), out),
            Values::I32(array) => shown_as(array.value(row), out),
            Values::I64(array) | Values::Oid(array) => shown_as(array.value(row), out),
            Values::F32(array) => float(array.value(row).into(), array.value(row), out),
            Values::F64(array) => float(array.value(row), array.value(row), out),
            Values::Text(array) | Values::Uuid(array) | Values::Numeric(array) => {
                out.put_slice(array.value(row).as_bytes());
            }
            Values::Bytes(array) => {
                out.put_slice(b"\\x");
                put_hex(array.value(row), out);
            }
            Values::Date(array) => text_form::date(array.value(row), out),
            Values::Time(array) => text_form::time(array.value(row), out),
            Values::TimeNanos(array) => text_form::time_of_nanos(array.value(row), out),
            Values::Timestamp(array, zone) => text_form::timestamp(array.value(row), *zone, out),
            Values::TimestampNanos(array, zone) => {
                text_form::timestamp_of_nanos(array.value(row), *zone, out);
            }
            Values::Interval(array, style) => {
                let value = array.value(row);
                let (months, days) = (value.months, value.days);
                let micros = value.nanoseconds / 1_000;
                match style {
                    IntervalStyle::Postgres => text_form::interval(months, days, micros, out),
                    IntervalStyle::Iso8601 => text_form::iso_interval(months, days, micros, out),
                }
            }
            Values::List(list, values, _) => put_list_text(list, values, row, out),
            Values::Vector(list, values, _) => put_vector_text(list, values, row, out),
        }
    }

    fn put_binary(&self, row: usize, out: &mut BytesMut) {
        match self {
            Values::Null => {}
            Values::Bool(array) => out.put_u8(array.value(row).into()),
            Values::I16(array) => out.put_i16(array.value(row)),
            Values::I32(array) => out.put_i32(array.value(row)),
            Values::I64(array) => out.put_i64(array.value(row)),
            Values::Oid(array) => out.put_u32(array.value(row) as u32),
            Values::F32(array) => out.put_f32(array.value(row)),
            Values::F64(array) => out.put_f64(array.value(row)),
            Values::Text(array) => out.put_slice(array.value(row).as_bytes()),
            Values::Uuid(array) => {
                // What is shown as a UUID is the text of one.
                out.put_slice(&from_uuid(array.value(row)).unwrap_or_else(|| vec![0; 16]));
            }
            Values::Numeric(array) => decimal::put(array.value(row), out),
            Values::Bytes(array) => out.put_slice(array.value(row)),
            Values::Date(array) => {
                out.put_i32(array.value(row).wrapping_sub(text_form::EPOCH_DAYS))
            }
            Values::Time(array) => out.put_i64(array.value(row)),
            Values::TimeNanos(array) => out.put_i64(array.value(row) / 1_000),
            Values::Timestamp(array, _) => {
                out.put_i64(array.value(row).saturating_sub(text_form::EPOCH_MICROS));
            }
            Values::TimestampNanos(array, _) => {
                // The last microsecond before it, also before 1970.
                let micros = array.value(row).div_euclid(1_000);
                out.put_i64(micros - text_form::EPOCH_MICROS);
            }
            Values::Interval(array, _) => {
                let value = array.value(row);
                out.put_i64(value.nanoseconds / 1_000);
                out.put_i32(value.days);
                out.put_i32(value.months);
            }
            Values::List(list, values, element) | Values::Vector(list, values, element) => {
                put_list_binary(list, values, *element, row, out);
            }
        }
    }
}

/// The values of a column of another unit as whole numbers.
fn as_i64(array: &ArrayRef) -> Result<PrimitiveArray<Int64Type>> {
    let data = array.to_data().into_builder().data_type(DataType::Int64);
    let data = data
        .build()
        .map_err(|error| Error::internal(error.to_string()))?;
    Ok(data.into())
}

/// The values of nested types as JSON; as they are shown, where JSON has no such values.
fn json(field: &Field, column: &ArrayRef) -> Result<StringArray> {
    let field = Arc::new(field.clone().with_data_type(column.data_type().clone()));
    json_texts(&field, column).or_else(|_| shown(column))
}

/// The texts of values of a type that has no counterpart.
fn shown(column: &ArrayRef) -> Result<StringArray> {
    let options = FormatOptions::default();
    let failed = |error: arrow::error::ArrowError| Error::internal(error.to_string());
    let formatter = ArrayFormatter::try_new(column, &options).map_err(failed)?;
    let text = |row| {
        let shown = formatter.value(row).try_to_string().map_err(failed);
        column.is_valid(row).then_some(shown).transpose()
    };
    (0..column.len()).map(text).collect()
}

fn shown_as(value: impl std::fmt::Display, out: &mut BytesMut) {
    // Writing to memory can't fail.
    let _ = write!(out, "{value}");
}

fn put_list_text(list: &ListArray, values: &Values, row: usize, out: &mut BytesMut) {
    let (from, to) = span(list, row);
    out.put_u8(b'{');
    let mut element = BytesMut::new();
    for at in from..to {
        if at > from {
            out.put_u8(b',');
        }
        if list.values().is_null(at) {
            out.put_slice(b"NULL");
            continue;
        }
        element.clear();
        values.put_text(at, &mut element);
        put_array_element(&String::from_utf8_lossy(&element), out);
    }
    out.put_u8(b'}');
}

fn put_vector_text(list: &ListArray, values: &Values, row: usize, out: &mut BytesMut) {
    let (from, to) = span(list, row);
    for at in from..to {
        if at > from {
            out.put_u8(b' ');
        }
        values.put_text(at, out);
    }
}

fn put_list_binary(
    list: &ListArray,
    values: &Values,
    element: u32,
    row: usize,
    out: &mut BytesMut,
) {
    let (from, to) = span(list, row);
    let has_null = (from..to).any(|at| list.values().is_null(at));
    out.put_i32(i32::from(to > from));
    out.put_i32(has_null.into());
    out.put_u32(element);
    if to > from {
        out.put_i32((to - from) as i32);
        out.put_i32(1);
    }
    for at in from..to {
        match list.values().is_null(at) {
            true => out.put_i32(-1),
            false => with_length(out, false, |out| values.put_binary(at, out)),
        }
    }
}

/// Where the elements of a list lie.
fn span(list: &ListArray, row: usize) -> (usize, usize) {
    let offsets = list.value_offsets();
    (offsets[row] as usize, offsets[row + 1] as usize)
}
