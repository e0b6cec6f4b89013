//! Rows one behind the other: the form in which extents and pages are kept that reads of single
//! rows come back to.
//!
//! A row of columns lies in several places for each of them, and whoever wants it waits for the
//! memory of each. Here it lies in one:
//!
//! ```text
//!   keys         one behind the other
//!   key ends     four bytes each; none where all keys are as long
//!   row ends     four bytes each, counted from the first row
//!   rows         of each the ends of its cells, four bytes each, counted from the first cell, with
//!                a bit for NULL; then the cells, each number at a multiple of its length
//! ```
//!
//! Memory only, in the order of bytes that the machine's arrays have, so that an array of one cell
//! is a look at it. What is more to a row than its cells is not kept: batches of anything but whole
//! rows stay in columns.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray,
    RecordBatch, StringArray, downcast_primitive, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowPrimitiveType, DataType, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use lazybase_model::{Error, Result};

use crate::change_batch::ChangeBatch;
use crate::key::Keys;

/// The most bytes that are kept so: places have four bytes, less a bit.
const PAGE_BYTES_MAX: usize = 1 << 26;
/// In the end of a cell: it is NULL.
const NULL: u32 = 1 << 31;
/// What a place takes.
const END_BYTES: usize = size_of::<u32>();

/// Whole rows in the order of their keys.
#[derive(Debug)]
pub(super) struct RowPage {
    schema: SchemaRef,
    rows: usize,
    /// How long each key is, where all are as long.
    key_bytes: Option<usize>,
    /// Where the ends of keys, those of rows, and the rows begin.
    key_ends: usize,
    row_ends: usize,
    first_row: usize,
    bytes: Buffer,
}

impl RowPage {
    /// The rows of a batch, which have these keys. `None` for others than whole rows, for columns
    /// of types that are not kept so, and for too many bytes.
    pub(super) fn pack(batch: &ChangeBatch, keys: &Keys) -> Option<RowPage> {
        let columns = batch.data.columns();
        let values: Option<Vec<Values<'_>>> = columns.iter().map(Values::of).collect();
        let values = values.filter(|_| batch.all_upserts())?;
        let (mut bytes, mut ends) = (MutableBuffer::new(0), Vec::new());
        for key in keys {
            bytes.extend_from_slice(key.data());
            ends.push(bytes.len());
        }
        let first = *ends.first()?;
        let are_alike = (1..).zip(&ends).all(|(count, end)| *end == first * count);
        let key_ends = bytes.len();
        if !are_alike {
            ends.iter().for_each(|end| bytes.push(*end as u32));
        }
        let row_ends = bytes.len();
        let first_row = row_ends + batch.rows() * END_BYTES;
        bytes.resize(first_row, 0);
        for row in 0..batch.rows() {
            let cell_ends = bytes.len();
            let first_cell = cell_ends + columns.len() * END_BYTES;
            bytes.resize(first_cell, 0);
            for (at, (column, values)) in columns.iter().zip(&values).enumerate() {
                let is_null = column.is_null(row);
                if !is_null {
                    values.put(row, &mut bytes);
                }
                let null = if is_null { NULL } else { 0 };
                let end = (bytes.len() - first_cell) as u32 | null;
                set_end(&mut bytes, cell_ends, at, end);
            }
            if bytes.len() > PAGE_BYTES_MAX {
                return None;
            }
            let end = (bytes.len() - first_row) as u32;
            set_end(&mut bytes, row_ends, row, end);
        }
        bytes.shrink_to_fit();
        Some(RowPage {
            schema: batch.data.schema(),
            rows: batch.rows(),
            key_bytes: are_alike.then_some(first),
            key_ends,
            row_ends,
            first_row,
            bytes: bytes.into(),
        })
    }

    /// The row of a key.
    pub(super) fn find(self: &Arc<Self>, key: &[u8]) -> Option<PackedRow> {
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle).cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => {
                    let page = Arc::clone(self);
                    let cell_ends = self.first_row + self.end_before(self.row_ends, middle);
                    return Some(PackedRow { page, cell_ends });
                }
            }
        }
        None
    }

    /// The memory that it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<RowPage>() + self.bytes.len()
    }

    fn key(&self, row: usize) -> &[u8] {
        match self.key_bytes {
            Some(length) => &self.bytes[row * length..(row + 1) * length],
            None => {
                let begin = self.end_before(self.key_ends, row);
                &self.bytes[begin..self.end(self.key_ends, row) as usize]
            }
        }
    }

    /// End number `at` of those that begin at `ends`.
    fn end(&self, ends: usize, at: usize) -> u32 {
        let end = &self.bytes[ends + at * END_BYTES..ends + (at + 1) * END_BYTES];
        u32::from_ne_bytes(end.try_into().expect("four bytes"))
    }

    /// Where what stands at `at` begins: where the one before it ends.
    fn end_before(&self, ends: usize, at: usize) -> usize {
        match at.checked_sub(1) {
            Some(before) => (self.end(ends, before) & !NULL) as usize,
            None => 0,
        }
    }
}

fn set_end(bytes: &mut [u8], ends: usize, at: usize, end: u32) {
    let place = ends + at * END_BYTES..ends + (at + 1) * END_BYTES;
    bytes[place].copy_from_slice(&end.to_ne_bytes());
}

/// The values of a column by how they are kept.
enum Values<'v> {
    Booleans(&'v BooleanArray),
    Texts(&'v StringArray),
    Bytes(&'v BinaryArray),
    /// Of so many bytes each.
    Fixed(Buffer, usize),
    /// Of so many bytes each, each at a multiple of them.
    Numbers(Buffer, usize),
}

impl Values<'_> {
    fn of(column: &ArrayRef) -> Option<Values<'_>> {
        Some(match column.data_type() {
            DataType::Boolean => Values::Booleans(column.as_boolean()),
            DataType::Utf8 => Values::Texts(column.as_string()),
            DataType::Binary => Values::Bytes(column.as_binary()),
            other => {
                let width = fixed_width(other)?;
                let data = column.to_data();
                let values = data.buffers().first()?.slice(data.offset() * width);
                match other {
                    DataType::FixedSizeBinary(_) => Values::Fixed(values, width),
                    _ => Values::Numbers(values, width),
                }
            }
        })
    }

    fn put(&self, row: usize, out: &mut MutableBuffer) {
        let fixed = |values: &Buffer, width: usize, out: &mut MutableBuffer| {
            out.extend_from_slice(&values.as_slice()[row * width..(row + 1) * width]);
        };
        match self {
            Values::Booleans(values) => out.push(u8::from(values.value(row))),
            Values::Texts(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Values::Bytes(values) => out.extend_from_slice(values.value(row)),
            Values::Fixed(values, width) => fixed(values, *width, out),
            Values::Numbers(values, width) => {
                out.resize(out.len().next_multiple_of(*width), 0);
                fixed(values, *width, out);
            }
        }
    }
}

/// How many bytes each value of a type takes, where all take as many.
fn fixed_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(1),
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    }
}

/// A cell of a packed row, of the types that most columns have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'r> {
    /// NULL, of whatever type.
    Null,
    /// A truth value.
    Boolean(bool),
    /// A whole number.
    Int16(i16),
    /// A whole number.
    Int32(i32),
    /// A whole number.
    Int64(i64),
    /// A floating-point number.
    Float32(f32),
    /// A floating-point number.
    Float64(f64),
    /// Days since 1970.
    Date32(i32),
    /// Microseconds since 1970.
    TimestampMicros(i64),
    /// The bytes of a text.
    Text(&'r [u8]),
    /// Bytes.
    Binary(&'r [u8]),
    /// A value of another type: [`PackedRow::array`] has it.
    Other,
}

/// A whole row that is kept by itself, without its versions. Cheap to clone; it keeps the rows
/// around it.
#[derive(Debug, Clone)]
pub struct PackedRow {
    page: Arc<RowPage>,
    /// Where the ends of its cells begin.
    cell_ends: usize,
}

impl PackedRow {
    /// The cell of a column of the table.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn cell(&self, column: usize) -> Cell<'_> {
        let Some(bytes) = self.bytes(column) else {
            return Cell::Null;
        };
        // Each has the length of its type.
        macro_rules! fixed {
            ($kind:ty => $cell:expr) => {{
                let value = <[u8; size_of::<$kind>()]>::try_from(bytes);
                value.map_or(Cell::Other, |value| $cell(<$kind>::from_ne_bytes(value)))
            }};
        }
        match self.data_type(column) {
            DataType::Boolean => Cell::Boolean(bytes == [1]),
            DataType::Int16 => fixed!(i16 => Cell::Int16),
            DataType::Int32 => fixed!(i32 => Cell::Int32),
            DataType::Int64 => fixed!(i64 => Cell::Int64),
            DataType::Float32 => fixed!(f32 => Cell::Float32),
            DataType::Float64 => fixed!(f64 => Cell::Float64),
            DataType::Date32 => fixed!(i32 => Cell::Date32),
            DataType::Timestamp(TimeUnit::Microsecond, _) => fixed!(i64 => Cell::TimestampMicros),
            DataType::Utf8 => Cell::Text(bytes),
            DataType::Binary => Cell::Binary(bytes),
            _ => Cell::Other,
        }
    }

    /// The cell of a column of the table, as an array of one.
    ///
    /// # Errors
    /// `Internal` when it is no value of the column's type.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn array(&self, column: usize) -> Result<ArrayRef> {
        let data_type = self.data_type(column);
        match self.place(column) {
            None => Ok(new_null_array(data_type, 1)),
            Some(place) => array_of(&self.page.bytes, place, data_type)
                .map_err(|error| Error::internal(format!("a kept cell: {error}"))),
        }
    }

    /// All of it, as a batch of one row.
    ///
    /// # Errors
    /// As [`PackedRow::array`].
    pub(crate) fn batch(&self) -> Result<RecordBatch> {
        let schema = &self.page.schema;
        let columns = (0..schema.fields().len()).map(|at| self.array(at));
        RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_>>()?)
            .map_err(|error| Error::internal(format!("a kept row: {error}")))
    }

    fn data_type(&self, column: usize) -> &DataType {
        self.page.schema.field(column).data_type()
    }

    /// The bytes of a cell that is not NULL.
    fn bytes(&self, column: usize) -> Option<&[u8]> {
        self.place(column).map(|place| &self.page.bytes[place])
    }

    /// Where a cell that is not NULL lies in its page.
    fn place(&self, column: usize) -> Option<Range<usize>> {
        let page = &self.page;
        let end = page.end(self.cell_ends, column);
        if end & NULL != 0 {
            return None;
        }
        let cells = self.cell_ends + page.schema.fields().len() * END_BYTES;
        let end = end as usize;
        // There may be a gap before a number.
        let begin = match fixed_width(self.data_type(column)) {
            Some(width) => end - width,
            None => page.end_before(self.cell_ends, column),
        };
        Some(cells + begin..cells + end)
    }
}

/// The value that lies in a page, as an array of one.
fn array_of(
    bytes: &Buffer,
    place: Range<usize>,
    data_type: &DataType,
) -> std::result::Result<ArrayRef, ArrowError> {
    let alone = || bytes.slice_with_length(place.start, place.len());
    let ends = || OffsetBuffer::from_lengths([place.len()]);
    macro_rules! number {
        ($kind:ty) => {
            Ok(Arc::new(number::<$kind>(bytes, place.start, data_type)))
        };
    }
    downcast_primitive! {
        data_type => (number),
        // The lowest bit of the byte.
        DataType::Boolean => {
            let value = BooleanBuffer::new(bytes.clone(), place.start * 8, 1);
            Ok(Arc::new(BooleanArray::new(value, None)))
        }
        DataType::Utf8 => Ok(Arc::new(StringArray::try_new(ends(), alone(), None)?)),
        DataType::Binary => Ok(Arc::new(BinaryArray::try_new(ends(), alone(), None)?)),
        DataType::FixedSizeBinary(width) => {
            Ok(Arc::new(FixedSizeBinaryArray::try_new(*width, alone(), None)?))
        }
        other => Err(ArrowError::InvalidArgumentError(format!("a {other}"))),
    }
}

fn number<T: ArrowPrimitiveType>(
    bytes: &Buffer,
    begin: usize,
    data_type: &DataType,
) -> PrimitiveArray<T> {
    let value = ScalarBuffer::new(bytes.clone(), begin / size_of::<T::Native>(), 1);
    PrimitiveArray::new(value, None).with_data_type(data_type.clone())
}
