//! Keys of whole numbers, and of what is stored as such (dates, times, moments), encoded one at a
//! time: where few keys of a batch are looked at, no arrays are made of them.
//!
//! Invariant KEY-3: the bytes are those that [`super::KeyCodec::encode`] gives.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;

/// The columns of keys, and room for one key.
#[derive(Debug)]
pub(crate) struct NumberKeys {
    columns: Vec<Numbers>,
    rows: usize,
    key: Vec<u8>,
}

/// A column of numbers without NULL, as they lie in memory.
#[derive(Debug)]
struct Numbers {
    bytes: Buffer,
    width: usize,
    is_signed: bool,
}

impl Numbers {
    fn of(column: &ArrayRef) -> Option<Numbers> {
        use DataType as T;
        let (width, is_signed) = match column.data_type() {
            T::Int8 => (1, true),
            T::Int16 => (2, true),
            T::Int32 | T::Date32 | T::Time32(_) => (4, true),
            T::Int64 | T::Date64 | T::Time64(_) | T::Timestamp(..) | T::Duration(_) => (8, true),
            T::UInt8 => (1, false),
            T::UInt16 => (2, false),
            T::UInt32 => (4, false),
            T::UInt64 => (8, false),
            _ => return None,
        };
        if column.null_count() > 0 {
            return None;
        }
        let data = column.to_data();
        let (first, bytes) = (data.offset() * width, data.len() * width);
        Some(Numbers {
            bytes: data.buffers().first()?.slice_with_length(first, bytes),
            width,
            is_signed,
        })
    }

    /// A byte that says that there is a value; then the most significant byte first, its highest
    /// bit turned where there are negative numbers.
    fn append(&self, row: usize, key: &mut Vec<u8>) {
        key.push(1);
        let first = key.len();
        let value = &self.bytes.as_slice()[row * self.width..][..self.width];
        key.extend_from_slice(value);
        if cfg!(target_endian = "little") {
            key[first..].reverse();
        }
        if self.is_signed {
            key[first] ^= 0x80;
        }
    }
}

impl NumberKeys {
    /// The keys that columns make, most significant first; `None` where any of them holds anything
    /// else, or NULL.
    pub(super) fn of(columns: &[&ArrayRef]) -> Option<NumberKeys> {
        let rows = columns.first()?.len();
        let columns: Option<Vec<Numbers>> = columns.iter().map(|of| Numbers::of(of)).collect();
        Some(NumberKeys {
            columns: columns?,
            rows,
            key: Vec::new(),
        })
    }

    /// The encoded key of a row.
    pub(crate) fn key(&mut self, row: usize) -> &[u8] {
        self.key.clear();
        for column in &self.columns {
            column.append(row, &mut self.key);
        }
        &self.key
    }

    /// The first row whose key is not less than `bound`; the rows are sorted by key.
    pub(crate) fn first_from(&mut self, bound: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle) < bound {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}
