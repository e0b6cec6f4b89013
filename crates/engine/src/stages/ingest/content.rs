//! The hash of a batch's content, by which a producer's repeated batch is told from another one
//! of the same number.
//!
//! Pure. It depends on the values and their order alone: neither on how the batch was cut into
//! pieces, nor on compression, nor on what lies in the buffers under NULLs. It is persisted in
//! producers' marks, so its definition is part of the log's format.
//!
//! Values that the database generated (`DEFAULT now()`) are left out: whoever sends a statement
//! again for want of an acknowledgement sends the same, and the database makes other values of it.
//! Which rows have them counts instead.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, OffsetSizeTrait};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use arrow_row::{RowConverter, SortField};
use lazybase_model::{Error, Result, SchemaVersion, TableId};
use twox_hash::XxHash3_64;

use crate::change_batch::{ChangeBatch, Kinds};

#[cfg(test)]
mod tests;

/// Hashes the changes of one batch as they come.
#[derive(Default)]
pub(crate) struct ContentHasher {
    tables: BTreeMap<TableId, TableHasher>,
}

impl std::fmt::Debug for ContentHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContentHasher").finish_non_exhaustive()
    }
}

struct TableHasher {
    version: SchemaVersion,
    rows: u64,
    kinds: BytesHasher,
    columns: BTreeMap<usize, ColumnHasher>,
}

/// So many bytes are hashed together.
const FEW_BYTES: usize = 1024;

/// The XXH3 of bytes that come in pieces. While they are few they are kept: what hashes an endless
/// stream is larger than most columns of most batches.
#[derive(Default)]
struct BytesHasher {
    few: Vec<u8>,
    many: Option<Box<XxHash3_64>>,
}

impl BytesHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(many) = &mut self.many {
            return many.write(bytes);
        }
        if self.few.len() + bytes.len() <= FEW_BYTES {
            return self.few.extend_from_slice(bytes);
        }
        let many = self.many.insert(Box::default());
        many.write(&std::mem::take(&mut self.few));
        many.write(bytes);
    }

    fn finish(&self) -> u64 {
        match &self.many {
            Some(many) => many.finish(),
            None => XxHash3_64::oneshot(&self.few),
        }
    }
}

/// The ordinal under which masks are hashed, beside the columns.
const MASKS: usize = usize::MAX;

impl ContentHasher {
    /// Takes the next changes of a table, of which the columns at the places `generated` have
    /// values that the database made: these don't count.
    ///
    /// # Errors
    /// `Invalid` when a nested column has a type that can't be hashed.
    pub(crate) fn add(
        &mut self,
        table: TableId,
        version: SchemaVersion,
        changes: &ChangeBatch,
        generated: &[usize],
    ) -> Result<()> {
        let hasher = self.tables.entry(table).or_insert_with(|| TableHasher {
            version,
            rows: 0,
            kinds: BytesHasher::default(),
            columns: BTreeMap::new(),
        });
        hasher.add(changes, generated)
    }

    /// The hash of everything that was taken.
    pub(crate) fn finish(self) -> u64 {
        let mut all = BytesHasher::default();
        for (table, hasher) in self.tables {
            all.write(&table.0.to_le_bytes());
            all.write(&hasher.version.0.to_le_bytes());
            all.write(&hasher.rows.to_le_bytes());
            all.write(&hasher.kinds.finish().to_le_bytes());
            for (ordinal, column) in hasher.columns {
                all.write(&(ordinal as u64).to_le_bytes());
                let generated = column.generated.finish();
                for part in [column.values, column.lengths, column.nulls] {
                    all.write(&part.finish().to_le_bytes());
                }
                // Columns that were given whole have the hash that they always had.
                if let Some(generated) = generated {
                    all.write(&generated.to_le_bytes());
                }
            }
        }
        all.finish()
    }
}

impl TableHasher {
    fn add(&mut self, changes: &ChangeBatch, generated: &[usize]) -> Result<()> {
        match &changes.kinds {
            Kinds::Uniform(kind) => {
                let bytes = [kind.bits(); 256];
                let mut left = changes.rows();
                while left > 0 {
                    let some = left.min(bytes.len());
                    self.kinds.write(&bytes[..some]);
                    left -= some;
                }
            }
            Kinds::Each(kinds) => self.kinds.write(kinds.values()),
        }
        let first_row = self.rows;
        let next_row = first_row + changes.rows() as u64;
        for (ordinal, values) in changes.data.columns().iter().enumerate() {
            let column = self.columns.entry(ordinal).or_default();
            match generated.contains(&ordinal) {
                true => column.generated.add(first_row..next_row),
                false => column.add(values, first_row)?,
            }
        }
        let masks = changes.masks.as_ref();
        if let Some(masks) = masks.filter(|masks| masks.null_count() < masks.len()) {
            let column = self.columns.entry(MASKS).or_default();
            column.add_values(masks, first_row)?;
        }
        self.rows = next_row;
        Ok(())
    }
}

/// The rows of a column whose values the database made, as stretches that don't depend on how
/// the batch was cut.
#[derive(Default)]
struct GeneratedRows {
    /// Those that ended.
    ended: BytesHasher,
    /// The last one, which may go on; it is empty while there is none.
    last: Range<u64>,
}

impl GeneratedRows {
    fn add(&mut self, rows: Range<u64>) {
        if self.last.end == rows.start {
            self.last.end = rows.end;
            return;
        }
        self.end_last();
        self.last = rows;
    }

    fn end_last(&mut self) {
        if !self.last.is_empty() {
            self.ended.write(&self.last.start.to_le_bytes());
            self.ended.write(&self.last.end.to_le_bytes());
        }
    }

    /// The hash of the stretches, if there is any.
    fn finish(mut self) -> Option<u64> {
        self.end_last();
        (!self.last.is_empty()).then(|| self.ended.finish())
    }
}

#[derive(Default)]
struct ColumnHasher {
    values: BytesHasher,
    lengths: BytesHasher,
    nulls: BytesHasher,
    generated: GeneratedRows,
    nested: Option<RowConverter>,
}

impl ColumnHasher {
    fn add(&mut self, values: &ArrayRef, first_row: u64) -> Result<()> {
        if let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) {
            for row in (!nulls.inner()).set_indices() {
                self.nulls.write(&(first_row + row as u64).to_le_bytes());
            }
        }
        self.add_values(values, first_row)
    }

    fn add_values(&mut self, values: &dyn Array, first_row: u64) -> Result<()> {
        match values.data_type() {
            DataType::Boolean => self.add_bools(values.as_boolean(), first_row),
            DataType::Utf8 => {
                let text = values.as_string::<i32>();
                self.add_bytes(text.value_offsets(), text.value_data(), values.nulls());
            }
            DataType::LargeUtf8 => {
                let text = values.as_string::<i64>();
                self.add_bytes(text.value_offsets(), text.value_data(), values.nulls());
            }
            DataType::Binary => {
                let bytes = values.as_binary::<i32>();
                self.add_bytes(bytes.value_offsets(), bytes.value_data(), values.nulls());
            }
            DataType::LargeBinary => {
                let bytes = values.as_binary::<i64>();
                self.add_bytes(bytes.value_offsets(), bytes.value_data(), values.nulls());
            }
            other => match fixed_width(other) {
                Some(width) => self.add_fixed(values, width),
                None => return self.add_nested(values),
            },
        }
        Ok(())
    }

    fn add_bools(&mut self, values: &BooleanArray, first_row: u64) {
        let set = match values.nulls() {
            Some(nulls) => values.values() & nulls.inner(),
            None => values.values().clone(),
        };
        for row in set.set_indices() {
            self.values.write(&(first_row + row as u64).to_le_bytes());
        }
    }

    fn add_bytes<O: OffsetSizeTrait>(
        &mut self,
        offsets: &[O],
        data: &[u8],
        nulls: Option<&NullBuffer>,
    ) {
        let mut lengths = Vec::new();
        for (start, end) in valid_slices(nulls, offsets.len() - 1) {
            let stretch = offsets[start].as_usize()..offsets[end].as_usize();
            self.values.write(&data[stretch]);
            lengths.clear();
            for pair in offsets[start..=end].windows(2) {
                let length = (pair[1].as_usize() - pair[0].as_usize()) as u32;
                lengths.extend_from_slice(&length.to_le_bytes());
            }
            self.lengths.write(&lengths);
        }
    }

    fn add_fixed(&mut self, values: &dyn Array, width: usize) {
        let data = values.to_data();
        let bytes = data.buffers()[0].as_slice();
        let offset = data.offset();
        for (start, end) in valid_slices(values.nulls(), values.len()) {
            self.values
                .write(&bytes[(offset + start) * width..(offset + end) * width]);
        }
    }

    /// Views and nested types: by the bytes of their row encoding, which depends on values alone.
    fn add_nested(&mut self, values: &dyn Array) -> Result<()> {
        let refused = |error: arrow::error::ArrowError| {
            Error::invalid("a column of this type can't be numbered by a producer")
                .with_detail(error.to_string())
        };
        let converter = match self.nested.take() {
            Some(converter) => converter,
            None => RowConverter::new(vec![SortField::new(values.data_type().clone())])
                .map_err(refused)?,
        };
        let array = arrow::array::make_array(values.to_data());
        let rows = converter.convert_columns(&[array]).map_err(refused)?;
        for row in &rows {
            self.values.write(row.as_ref());
            self.lengths
                .write(&(row.as_ref().len() as u32).to_le_bytes());
        }
        self.nested = Some(converter);
        Ok(())
    }
}

/// The bytes of one value where all values of the type take equally many whole bytes.
fn fixed_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    }
}

/// The stretches of rows that are not NULL.
fn valid_slices(nulls: Option<&NullBuffer>, rows: usize) -> Vec<(usize, usize)> {
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => nulls.valid_slices().collect(),
        None => vec![(0, rows)],
    }
}
