//! Parquet segments: plain rows that any tool can read, with our own index inside the file
//! (`docs/formats/segment-parquet.md`).
//!
//! A row group is an extent. Between the last row group and Parquet's own indexes lies a block
//! that standard readers skip: what the rows are, the extent index with keys and filters, and for
//! each row group the CRC-32C of every page and the first key of every stretch of rows. The
//! manifest's checksum covers that block, the page index and the footer.
//!
//! Invariant PQ-1: all rows are whole-row upserts. Invariant PQ-2: a page is verified before
//! Parquet's decoder sees it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, IntervalMonthDayNanoArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{
    DataType, Field, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    Schema, SchemaRef,
};
use bytes::Bytes;
use lazybase_model::{Error, Result};
use parquet::arrow::ArrowSchemaConverter;

use super::RowLayout;
use super::extent_format::RowsOf;
use super::extent_index::ExtentIndex;
use super::le::{Front, put_u32, put_u64};

pub(super) mod read;
pub(super) mod write;

/// The first eight bytes of our block inside the file.
pub const MAGIC: [u8; 8] = *b"LAZYPQT\n";
/// The version that this code writes and reads.
pub const VERSION: u32 = 1;
/// The bytes before the first row group: Parquet's magic.
pub(super) const FIRST_GROUP: u64 = 4;
const HAS_COLUMN_SCUS: u32 = 1;

/// What our block says about one row group beside its entry in the extent index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GroupPart {
    /// For each leaf column, the CRC-32C of its dictionary page, if any, and of each data page.
    pub(super) crcs: Vec<Vec<u32>>,
    /// How many rows lie from one of `first_keys` to the next.
    pub(super) stride: u32,
    /// The encoded key of every `stride`-th row.
    pub(super) first_keys: Vec<Bytes>,
}

impl GroupPart {
    fn put(&self, out: &mut Vec<u8>) {
        put_u32(out, self.stride);
        put_u32(out, self.first_keys.len() as u32);
        for key in &self.first_keys {
            put_u32(out, key.len() as u32);
            out.extend_from_slice(key);
        }
        put_u32(out, self.crcs.len() as u32);
        for column in &self.crcs {
            put_u32(out, column.len() as u32);
            column.iter().for_each(|crc| put_u32(out, *crc));
        }
    }

    fn parse(front: &mut Front<'_>, whole: &Bytes) -> Result<GroupPart> {
        let stride = front.u32()?;
        let keys = front.length()?;
        let mut first_keys = Vec::new();
        for _ in 0..keys {
            let length = front.length()?;
            first_keys.push(whole.slice_ref(front.take(length)?));
        }
        let columns = front.length()?;
        let mut crcs = Vec::new();
        for _ in 0..columns {
            let pages = front.length()?;
            let numbers: Result<Vec<u32>> = (0..pages).map(|_| front.u32()).collect();
            crcs.push(numbers?);
        }
        match stride == 0 || first_keys.is_empty() {
            true => Err(Error::corrupt("a row group without keys")),
            false => Ok(GroupPart {
                crcs,
                stride,
                first_keys,
            }),
        }
    }

    fn memory_bytes(&self) -> usize {
        let keys: usize = self.first_keys.iter().map(|key| key.len() + 32).sum();
        keys + self
            .crcs
            .iter()
            .map(|crcs| crcs.len() * 4 + 24)
            .sum::<usize>()
    }
}

/// Our block of a file.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) has_column_scus: bool,
    pub(super) index: ExtentIndex,
    pub(super) groups: Vec<GroupPart>,
}

/// Our block as stored.
fn block_bytes(
    layout: &RowLayout,
    has_column_scus: bool,
    index: &[u8],
    groups: &[GroupPart],
) -> Vec<u8> {
    let rows_of = RowsOf::bytes_of(layout);
    let mut parts = Vec::new();
    groups.iter().for_each(|group| group.put(&mut parts));
    let mut out = MAGIC.to_vec();
    put_u32(&mut out, VERSION);
    put_u32(&mut out, if has_column_scus { HAS_COLUMN_SCUS } else { 0 });
    put_u64(&mut out, rows_of.len() as u64);
    put_u64(&mut out, index.len() as u64);
    put_u64(&mut out, parts.len() as u64);
    out.extend_from_slice(rows_of);
    out.extend_from_slice(index);
    out.extend_from_slice(&parts);
    out
}

impl Block {
    /// Reads our block from the front of the verified bytes that begin with it, and the layout of
    /// the file's rows.
    fn parse(bytes: &Bytes, layout: &Arc<RowLayout>) -> Result<(Block, Arc<RowLayout>)> {
        let (rows_of, block) = Block::parse_alone(bytes)?;
        Ok((block, RowsOf::stored_layout(&rows_of, layout)?))
    }

    /// The same with no table to compare the rows with: what they are, as stored.
    pub(super) fn parse_alone(bytes: &Bytes) -> Result<(Bytes, Block)> {
        let mut front = Front(bytes);
        if front.take(MAGIC.len())? != MAGIC {
            return Err(Error::corrupt("it is not a Parquet segment"));
        }
        let version = front.u32()?;
        if version != VERSION {
            return Err(
                Error::corrupt(format!("it has version {version} of the format"))
                    .with_detail(format!("this program reads version {VERSION}")),
            );
        }
        let flags = front.u32()?;
        let (rows_of, index) = (front.u64()? as usize, front.u64()? as usize);
        let parts = front.u64()? as usize;
        let rows_of = bytes.slice_ref(front.take(rows_of)?);
        let index = ExtentIndex::parse(&bytes.slice_ref(front.take(index)?))?;
        let mut parts = Front(front.take(parts)?);
        let groups: Result<Vec<GroupPart>> = (0..index.len())
            .map(|_| GroupPart::parse(&mut parts, bytes))
            .collect();
        match parts.0.is_empty() {
            true => {
                let block = Block {
                    has_column_scus: flags & HAS_COLUMN_SCUS != 0,
                    index,
                    groups: groups?,
                };
                Ok((rows_of, block))
            }
            false => Err(Error::corrupt("it describes more row groups than it has")),
        }
    }

    fn memory_bytes(&self) -> usize {
        self.groups.iter().map(GroupPart::memory_bytes).sum()
    }
}

fn is_nanosecond_interval(data_type: &DataType) -> bool {
    *data_type == DataType::Interval(IntervalUnit::MonthDayNano)
}

/// The columns of a file: the table's, then the versions. Parquet has no interval with
/// nanoseconds: it is kept as 16 bytes (months, days, nanoseconds; little-endian).
fn file_schema(schema: &SchemaRef, has_column_scus: bool) -> SchemaRef {
    let mut fields: Vec<FieldRef> = schema.fields().iter().map(stored_field).collect();
    fields.push(Arc::new(Field::new("_scu", DataType::UInt64, false)));
    if has_column_scus {
        fields.push(Arc::new(Field::new("_column_scus", DataType::Binary, true)));
    }
    Arc::new(Schema::new(fields))
}

/// Why Parquet can't hold a column, if it can't.
pub(super) fn refused(field: &FieldRef) -> Option<String> {
    let schema = Schema::new(vec![stored_field(field)]);
    let converted = ArrowSchemaConverter::new().convert(&schema);
    converted.err().map(|error| error.to_string())
}

fn stored_field(field: &FieldRef) -> FieldRef {
    match is_nanosecond_interval(field.data_type()) {
        true => Arc::new(
            field
                .as_ref()
                .clone()
                .with_data_type(DataType::FixedSizeBinary(16)),
        ),
        false => Arc::clone(field),
    }
}

fn to_stored(column: &ArrayRef) -> ArrayRef {
    match is_nanosecond_interval(column.data_type()) {
        true => {
            let intervals = column.as_primitive::<IntervalMonthDayNanoType>();
            let mut bytes = Vec::with_capacity(intervals.len() * 16);
            for value in intervals.values() {
                bytes.extend_from_slice(&value.months.to_le_bytes());
                bytes.extend_from_slice(&value.days.to_le_bytes());
                bytes.extend_from_slice(&value.nanoseconds.to_le_bytes());
            }
            let nulls = intervals.nulls().cloned();
            Arc::new(FixedSizeBinaryArray::new(
                16,
                Buffer::from_vec(bytes),
                nulls,
            ))
        }
        false => Arc::clone(column),
    }
}

/// The column as the table has it; `None` when the stored bytes are not of its type.
fn from_stored(column: &ArrayRef, data_type: &DataType) -> Option<ArrayRef> {
    if !is_nanosecond_interval(data_type) {
        return (column.data_type() == data_type).then(|| Arc::clone(column));
    }
    let bytes = column.as_fixed_size_binary_opt()?;
    let (values, rest) = bytes.value_data().as_chunks::<16>();
    if !rest.is_empty() || values.len() != bytes.len() {
        return None;
    }
    let value = |bytes: &[u8; 16]| {
        let all = u128::from_le_bytes(*bytes);
        IntervalMonthDayNano::new(all as i32, (all >> 32) as i32, (all >> 64) as i64)
    };
    let values: Vec<IntervalMonthDayNano> = values.iter().map(value).collect();
    let nulls = bytes.nulls().cloned();
    Some(Arc::new(IntervalMonthDayNanoArray::new(
        values.into(),
        nulls,
    )))
}
