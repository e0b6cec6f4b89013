//! Keys as the kernels compare them: for each row a number, and the encoded bytes only where the
//! number can't decide.
//!
//! Reads the key columns of batches; the order it gives is that of `key::KeyCodec`, for both sort
//! and merge rely on what other readers will find. Keys whose columns are numbers (or short fixed
//! bytes) of at most 16 bytes together become one number each and are never encoded at all.
//!
//! Invariant KEYS-1: the order of prefixes never contradicts the order of encoded keys, and equal
//! prefixes mean equal keys where no bytes are kept.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, SchemaRef};
use lazybase_model::{Error, Result};

use crate::key::{KeyCodec, Keys, Partitioner};

#[cfg(test)]
mod tests;

/// The number that stands for a key, or for the first 16 bytes of its encoding.
pub(crate) trait Prefix: Copy + Ord + Send + Sync + 'static {
    /// The low bits of `wide`.
    fn of(wide: u128) -> Self;
    /// This number moved up by `bits`, fewer than it has, and `low` below it.
    fn append(self, bits: u32, low: Self) -> Self;
}

impl Prefix for u64 {
    #[inline]
    fn of(wide: u128) -> u64 {
        wide as u64
    }

    #[inline]
    fn append(self, bits: u32, low: u64) -> u64 {
        self << bits | low
    }
}

impl Prefix for u128 {
    #[inline]
    fn of(wide: u128) -> u128 {
        wide
    }

    #[inline]
    fn append(self, bits: u32, low: u128) -> u128 {
        self << bits | low
    }
}

/// The keys of a batch's rows.
#[derive(Debug)]
pub(crate) struct BatchKeys<P> {
    pub(crate) prefixes: Vec<P>,
    /// The encoded keys, where equal prefixes don't mean equal keys.
    pub(crate) encoded: Option<Keys>,
}

impl<P: Prefix> BatchKeys<P> {
    /// How the key of row `row` stands to that of row `other_row` of `other`.
    #[inline]
    pub(crate) fn compare(&self, row: usize, other: &BatchKeys<P>, other_row: usize) -> Ordering {
        let by_prefix = self.prefixes[row].cmp(&other.prefixes[other_row]);
        match (by_prefix, &self.encoded, &other.encoded) {
            (Ordering::Equal, Some(mine), Some(theirs)) => {
                mine.row(row).cmp(&theirs.row(other_row))
            }
            _ => by_prefix,
        }
    }

    /// The first row from `from` on whose key is not below that of row `bound_row` of `bound`,
    /// by steps that double: near rows are found at once, far ones in logarithmic time.
    #[inline]
    pub(crate) fn gallop(&self, from: usize, bound: &BatchKeys<P>, bound_row: usize) -> usize {
        let below = |row: usize| self.compare(row, bound, bound_row) == Ordering::Less;
        let end = self.prefixes.len();
        if from >= end || !below(from) {
            return from;
        }
        let (mut low, mut step) = (from, 1);
        while low + step < end && below(low + step) {
            low += step;
            step *= 2;
        }
        let mut high = end.min(low + step);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            match below(middle) {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    }
}

/// What a key column's values are to the comparison.
#[derive(Debug, Clone, Copy)]
enum Lane {
    /// Signed integers of so many bytes.
    Signed(usize),
    /// Unsigned integers of so many bytes.
    Unsigned(usize),
    Float32,
    Float64,
    /// So many bytes, compared as they stand.
    Bytes(usize),
}

impl Lane {
    fn of(data_type: &DataType) -> Option<Lane> {
        Some(match data_type {
            DataType::Int8 => Lane::Signed(1),
            DataType::Int16 => Lane::Signed(2),
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) => Lane::Signed(4),
            DataType::Decimal32(..) => Lane::Signed(4),
            DataType::Int64 | DataType::Date64 | DataType::Time64(_) => Lane::Signed(8),
            DataType::Timestamp(..) | DataType::Duration(_) => Lane::Signed(8),
            DataType::Decimal64(..) => Lane::Signed(8),
            DataType::Decimal128(..) => Lane::Signed(16),
            DataType::UInt8 => Lane::Unsigned(1),
            DataType::UInt16 => Lane::Unsigned(2),
            DataType::UInt32 => Lane::Unsigned(4),
            DataType::UInt64 => Lane::Unsigned(8),
            DataType::Float32 => Lane::Float32,
            DataType::Float64 => Lane::Float64,
            DataType::FixedSizeBinary(width @ 1..=16) => Lane::Bytes(*width as usize),
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Lane::Signed(bytes) | Lane::Unsigned(bytes) | Lane::Bytes(bytes) => bytes,
            Lane::Float32 => 4,
            Lane::Float64 => 8,
        }
    }
}

/// How the keys of a shape are read.
#[derive(Debug)]
pub(crate) enum KeyReader {
    /// Numbers of at most 8 bytes together.
    Narrow(Packer),
    /// Numbers of at most 16 bytes together.
    Wide(Packer),
    /// Anything else: encoded, with the first 16 bytes as a number.
    Long(KeyCodec),
}

impl KeyReader {
    pub(crate) fn new(
        schema: &SchemaRef,
        indices: &[usize],
        partitioner: Option<&Arc<Partitioner>>,
    ) -> Result<KeyReader> {
        let may_hold_null = |index: usize| schema.field(index).is_nullable();
        KeyReader::knowing(schema, indices, partitioner, may_hold_null)
    }

    /// A reader of keys of which it is known which columns may hold NULL.
    pub(crate) fn knowing(
        schema: &SchemaRef,
        indices: &[usize],
        partitioner: Option<&Arc<Partitioner>>,
        may_hold_null: impl Fn(usize) -> bool,
    ) -> Result<KeyReader> {
        // NULL has no number: keys of views may hold it.
        let lane = |index: &usize| {
            let data_type = schema.field(*index).data_type();
            (!may_hold_null(*index))
                .then(|| Lane::of(data_type))
                .flatten()
        };
        let lanes: Option<Vec<Lane>> = indices.iter().map(lane).collect();
        let indices = indices.to_vec();
        let long = |indices| {
            let partitioner = partitioner.cloned();
            KeyCodec::partitioned(schema, indices, partitioner).map(KeyReader::Long)
        };
        let Some(lanes) = lanes else {
            return long(indices);
        };
        let prefix = partitioner.map(|partitioner| Lane::of(&partitioner.data_type()));
        let in_front = prefix.flatten().map_or(0, Lane::bytes);
        let bytes: usize = lanes.iter().map(|lane| lane.bytes()).sum();
        let packer = Packer {
            indices,
            lanes,
            partitioner: partitioner.cloned(),
        };
        match in_front + bytes {
            1..=8 => Ok(KeyReader::Narrow(packer)),
            9..=16 => Ok(KeyReader::Wide(packer)),
            _ => long(packer.indices),
        }
    }
}

/// Packs the numbers of a key's columns into one.
#[derive(Debug)]
pub(crate) struct Packer {
    indices: Vec<usize>,
    lanes: Vec<Lane>,
    partitioner: Option<Arc<Partitioner>>,
}

impl Packer {
    pub(crate) fn read<P: Prefix>(&self, rows: &RecordBatch) -> Result<BatchKeys<P>> {
        let mut prefixes = Vec::new();
        if let Some(partitioner) = &self.partitioner {
            let key = self.indices.iter().map(|index| rows.column(*index).clone());
            let partitions = partitioner.prefix_column(&key.collect::<Vec<_>>())?;
            let lane = Lane::of(partitions.data_type())
                .ok_or_else(|| Error::internal("a partition's name is too long"))?;
            add_column(&partitions, lane, &mut prefixes);
        }
        for (&index, &lane) in self.indices.iter().zip(&self.lanes) {
            let column = rows.column(index);
            if column.null_count() > 0 || Lane::of(column.data_type()).is_none() {
                return Err(Error::internal(format!("key column {index} holds no keys")));
            }
            add_column(column, lane, &mut prefixes);
        }
        Ok(BatchKeys {
            prefixes,
            encoded: None,
        })
    }
}

/// The encoded keys of `rows`, and their first bytes as numbers.
pub(crate) fn read_long(codec: &KeyCodec, rows: &RecordBatch) -> Result<BatchKeys<u128>> {
    let encoded = codec.encode(rows)?;
    let prefixes = encoded.iter().map(|key| {
        let key = key.as_ref();
        let mut first = [0; 16];
        let length = key.len().min(16);
        first[..length].copy_from_slice(&key[..length]);
        u128::from_be_bytes(first)
    });
    Ok(BatchKeys {
        prefixes: prefixes.collect(),
        encoded: Some(encoded),
    })
}

fn add_column<P: Prefix>(column: &ArrayRef, lane: Lane, prefixes: &mut Vec<P>) {
    macro_rules! numbers {
        ($native:ty, $unsigned:ty, $flip:expr) => {{
            let flip = |value: &$native| P::of(u128::from((*value as $unsigned) ^ $flip));
            let bits = <$unsigned>::BITS;
            append(prefixes, bits, native::<$native>(column).iter().map(flip));
        }};
    }
    // One spelling for each value, as in `key::KeyCodec`: no negative zero, one NaN.
    macro_rules! floats {
        ($native:ty, $unsigned:ty) => {{
            let sign: $unsigned = 1 << (<$unsigned>::BITS - 1);
            let number = |value: &$native| {
                let bits = match *value {
                    value if value == 0.0 => 0,
                    value if value.is_nan() => <$native>::NAN.to_bits() & !sign,
                    value => value.to_bits(),
                };
                let flip = if bits & sign == 0 {
                    sign
                } else {
                    <$unsigned>::MAX
                };
                P::of(u128::from(bits ^ flip))
            };
            let bits = <$unsigned>::BITS;
            append(prefixes, bits, native::<$native>(column).iter().map(number));
        }};
    }
    match lane {
        Lane::Signed(1) => numbers!(i8, u8, 1 << 7),
        Lane::Signed(2) => numbers!(i16, u16, 1 << 15),
        Lane::Signed(4) => numbers!(i32, u32, 1 << 31),
        Lane::Signed(8) => numbers!(i64, u64, 1 << 63),
        Lane::Signed(_) => numbers!(i128, u128, 1 << 127),
        Lane::Unsigned(1) => numbers!(u8, u8, 0),
        Lane::Unsigned(2) => numbers!(u16, u16, 0),
        Lane::Unsigned(4) => numbers!(u32, u32, 0),
        Lane::Unsigned(_) => numbers!(u64, u64, 0),
        Lane::Float32 => floats!(f32, u32),
        Lane::Float64 => floats!(f64, u64),
        Lane::Bytes(bytes) => {
            let values = column.as_fixed_size_binary();
            let number = |row: usize| {
                let bytes = values.value(row).iter();
                P::of(bytes.fold(0u128, |number, byte| number << 8 | u128::from(*byte)))
            };
            append(prefixes, bytes as u32 * 8, (0..values.len()).map(number));
        }
    }
}

/// The values of a column without nulls whose type has this native form.
fn native<T: ArrowNativeType>(column: &ArrayRef) -> ScalarBuffer<T> {
    let data = column.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// Puts the numbers of one more column below those of the columns before it.
fn append<P: Prefix>(prefixes: &mut Vec<P>, bits: u32, values: impl Iterator<Item = P>) {
    if prefixes.is_empty() {
        prefixes.extend(values);
        return;
    }
    for (prefix, value) in prefixes.iter_mut().zip(values) {
        *prefix = prefix.append(bits, value);
    }
}
