//! A batch of changes as columns: what every kernel takes and gives (section 3.2 of the paper:
//! delete markers and times beside the data).
//!
//! A row is the stored form of a change (`lazybase_model::change::StoredKind`). What is the same
//! for all rows is kept once, so that whole-row upserts of one SCU cost nothing beyond their data.
//!
//! Key columns are columns like the others to the algebra, with one exception: every stored row
//! has its key's values, also those that carry no cell there.
//!
//! Invariant CB-1: the first row of a split pair is directly followed, in the same batch, by the
//! second. Invariant CB-2: masks are null exactly where the row itself sets no columns of a row
//! that is there: kinds 0, 2 and 7. Invariant CB-3: a row's SCU is the newest among its cells,
//! and among those of its mask, unless the mask is empty. (The changes of a key come in the order
//! of their SCUs; so composing them never needs to look for the newest cell.)

use std::ops::Range;

use arrow::array::{
    Array, BinaryArray, BinaryBuilder, RecordBatch, UInt8Array, UInt32Array, UInt64Array,
};
use arrow::compute::take;
use lazybase_model::change::StoredKind;
use lazybase_model::{Error, Result};

use crate::key::{KeyCodec, Keys};
use crate::manifest::KeyRange;
use crate::stages::merge::MergeMode;

mod bytes;
mod combine;
pub(crate) mod gather;
pub mod masks;
mod projection;
#[cfg(test)]
mod tests;

pub(crate) use bytes::sliced_bytes;
pub use projection::Projection;

use gather::{Gather, Input, settled_bytes, settled_kinds, settled_scus};

/// So many keys are encoded together where few of a batch's are needed.
pub(crate) const KEYS_TOGETHER: usize = 64;

/// The kinds of a batch's rows.
#[derive(Debug, Clone)]
pub enum Kinds {
    /// All rows are of one kind.
    Uniform(StoredKind),
    /// One kind a row.
    Each(UInt8Array),
}

/// The SCU that last changed each row.
#[derive(Debug, Clone)]
pub enum Scus {
    /// All rows are of one SCU.
    Uniform(u64),
    /// One SCU number a row.
    Each(UInt64Array),
}

/// Changes of one table as columns, in the order of the table's schema. For columns that a row
/// does not carry (a delete's values, columns outside an update's mask) the cell is null.
#[derive(Debug, Clone)]
pub struct ChangeBatch {
    /// The cells. All fields but the key's are nullable here, whatever the table says.
    pub data: RecordBatch,
    /// What each row does.
    pub kinds: Kinds,
    /// For rows that keep: which columns they set or combine, one bit a column of `data`, least
    /// significant bit first; in a projected batch, and where columns are combined, more bits (see
    /// [`masks`]). Null for rows that set none by themselves (CB-2). `None` when all rows are such.
    pub masks: Option<BinaryArray>,
    /// The row's version: the newest SCU among its cells.
    pub scus: Scus,
    /// For rows whose cells come from several SCUs: one LEB128 number a column of `data`, how far
    /// the column's SCU lies before the row's. Null where all cells have the row's SCU. `None`
    /// when that holds for all rows.
    pub column_scus: Option<BinaryArray>,
}

impl ChangeBatch {
    /// Whole-row upserts of one SCU: the common case, which carries nothing beside its data.
    pub fn upserts(data: RecordBatch, scu: u64) -> ChangeBatch {
        ChangeBatch {
            data,
            kinds: Kinds::Uniform(StoredKind::UPSERT),
            masks: None,
            scus: Scus::Uniform(scu),
            column_scus: None,
        }
    }

    /// Changes of one kind, one mask and one SCU: what one statement makes. `sets` are the columns
    /// that a row has set, `None` for a kind without a mask.
    pub fn alike(
        data: RecordBatch,
        kind: StoredKind,
        sets: Option<&[usize]>,
        scu: u64,
    ) -> ChangeBatch {
        let masks = sets.map(|sets| {
            let mask = masks::mask_of(sets.iter().copied(), data.num_columns());
            BinaryArray::from_iter_values(std::iter::repeat_n(mask, data.num_rows()))
        });
        ChangeBatch {
            data,
            kinds: Kinds::Uniform(kind),
            masks,
            scus: Scus::Uniform(scu),
            column_scus: None,
        }
    }

    /// How many stored rows the batch has; a split pair counts twice.
    pub fn rows(&self) -> usize {
        self.data.num_rows()
    }

    /// What row `row` does.
    pub fn kind(&self, row: usize) -> StoredKind {
        match &self.kinds {
            Kinds::Uniform(kind) => *kind,
            Kinds::Each(kinds) => StoredKind::from_checked(kinds.value(row)),
        }
    }

    /// The SCU that last changed row `row`.
    pub fn scu(&self, row: usize) -> u64 {
        match &self.scus {
            Scus::Uniform(scu) => *scu,
            Scus::Each(scus) => scus.value(row),
        }
    }

    /// Whether every row is a whole-row upsert.
    pub fn all_upserts(&self) -> bool {
        match &self.kinds {
            Kinds::Uniform(kind) => *kind == StoredKind::UPSERT,
            Kinds::Each(kinds) => kinds
                .values()
                .iter()
                .all(|k| *k == StoredKind::UPSERT.bits()),
        }
    }

    /// A view of `length` rows from `offset`. The caller keeps split pairs together.
    #[must_use]
    pub fn slice(&self, offset: usize, length: usize) -> ChangeBatch {
        ChangeBatch {
            data: self.data.slice(offset, length),
            kinds: match &self.kinds {
                Kinds::Uniform(kind) => Kinds::Uniform(*kind),
                Kinds::Each(kinds) => Kinds::Each(kinds.slice(offset, length)),
            },
            masks: self.masks.as_ref().map(|masks| masks.slice(offset, length)),
            scus: match &self.scus {
                Scus::Uniform(scu) => Scus::Uniform(*scu),
                Scus::Each(scus) => Scus::Each(scus.slice(offset, length)),
            },
            column_scus: self
                .column_scus
                .as_ref()
                .map(|scus| scus.slice(offset, length)),
        }
    }

    /// The mask of row `row`; empty where the row has none.
    pub fn mask(&self, row: usize) -> &[u8] {
        match &self.masks {
            Some(masks) if masks.is_valid(row) => masks.value(row),
            _ => &[],
        }
    }

    /// The encoded column SCUs of row `row`, where its cells come from several SCUs.
    pub fn column_scus_of(&self, row: usize) -> Option<&[u8]> {
        let column_scus = self.column_scus.as_ref()?;
        column_scus.is_valid(row).then(|| column_scus.value(row))
    }

    /// The SCU that last set each row's cell in `column`; the row's own where it carries none.
    ///
    /// # Errors
    /// `Corrupt` when the column SCUs can't be decoded.
    pub fn scus_of_column(&self, column: usize) -> Result<UInt64Array> {
        let mut distances = Vec::new();
        let scus = (0..self.rows()).map(|row| {
            let Some(bytes) = self.column_scus_of(row) else {
                return Ok(self.scu(row));
            };
            distances.clear();
            masks::decode_distances(bytes, self.data.num_columns(), &mut distances)?;
            let before = |distance: &u64| self.scu(row).checked_sub(*distance);
            let scu = distances.get(column).and_then(before);
            scu.ok_or_else(|| Error::corrupt("a cell's SCU lies before the first"))
        });
        scus.collect()
    }

    /// These rows in this order, any row any number of times. The caller keeps split pairs
    /// together.
    ///
    /// # Errors
    /// `Internal` when the text of one column would pass 2 GiB.
    pub fn take(&self, rows: &UInt32Array) -> Result<ChangeBatch> {
        let mut gather = Gather::new(self.data.schema(), MergeMode::Changes);
        let input = gather.input(&Input::unmeasured(self.clone()));
        for &row in rows.values() {
            gather.push(input, row as usize, 1);
        }
        gather.finish()
    }

    /// The rows but for deletes: what a fault plants that filters before it reconciles.
    pub(crate) fn without_deletes(&self) -> Result<ChangeBatch> {
        let stays = |row: &u32| self.kind(*row as usize) != StoredKind::DELETE;
        self.take(&UInt32Array::from_iter_values(
            (0..self.rows() as u32).filter(stays),
        ))
    }

    /// Rows of several batches: each pick is a batch's position in `inputs` and a row of it.
    /// Picks that follow each other in a batch are copied together. The caller keeps split pairs
    /// together.
    ///
    /// # Errors
    /// `Internal` when there is no input, when the inputs' schemas differ, or when the text of one
    /// column would pass 2 GiB.
    pub fn interleave(inputs: &[&ChangeBatch], picks: &[(u32, u32)]) -> Result<ChangeBatch> {
        let mut gather = gather_of(inputs)?;
        for &(input, row) in picks {
            gather.push(input, row as usize, 1);
        }
        gather.finish()
    }

    /// All rows of all batches.
    ///
    /// # Errors
    /// As [`ChangeBatch::interleave`].
    pub fn concat(inputs: &[&ChangeBatch]) -> Result<ChangeBatch> {
        let mut gather = gather_of(inputs)?;
        for (at, input) in inputs.iter().enumerate() {
            gather.push(at as u32, 0, input.rows());
        }
        gather.finish()
    }

    /// The changes as seen through some of the columns, as [`Projection::of`] shows those of many
    /// batches.
    ///
    /// # Errors
    /// `Internal` for a column that is not there; `Corrupt` for undecodable column SCUs.
    pub fn project(&self, columns: &[usize]) -> Result<ChangeBatch> {
        Projection::new(self.data.schema_ref(), columns)?.of(self)
    }

    /// The rows whose keys lie in `range`; the rows are sorted by key.
    ///
    /// # Errors
    /// `Internal` when the columns are not of the codec's types.
    pub fn clip(&self, codec: &KeyCodec, range: &KeyRange) -> Result<ChangeBatch> {
        if range.low.is_none() && range.high.is_none() {
            return Ok(self.clone());
        }
        let rows = self.rows_in(codec, range)?;
        Ok(self.slice(rows.start, rows.len()))
    }

    /// Where the rows whose keys lie in `range` stand; the rows are sorted by key.
    fn rows_in(&self, codec: &KeyCodec, range: &KeyRange) -> Result<Range<usize>> {
        let mut numbers = codec.numbers(&self.data);
        let mut first_from = |bound: &[u8]| match &mut numbers {
            Some(numbers) => Ok(numbers.first_from(bound)),
            None => self.first_from(codec, bound),
        };
        let start = match &range.low {
            Some(key) => first_from(key.as_bytes())?,
            None => 0,
        };
        let end = match &range.high {
            Some(key) => first_from(key.as_bytes())?,
            None => self.rows(),
        };
        Ok(start..end.max(start))
    }

    /// The keys of some rows.
    ///
    /// # Errors
    /// `Internal` when the columns are not of the codec's types.
    pub(crate) fn keys_at(&self, codec: &KeyCodec, rows: &UInt32Array) -> Result<Keys> {
        let columns = codec.indices().iter().map(|index| {
            let taken = take(self.data.column(*index), rows, None);
            taken.map_err(|error| Error::internal(error.to_string()))
        });
        codec.encode_columns(&columns.collect::<Result<Vec<_>>>()?)
    }

    /// The first row whose key is not less than `bound`: few keys are encoded to find it.
    fn first_from(&self, codec: &KeyCodec, bound: &[u8]) -> Result<usize> {
        let (mut low, mut high) = (0, self.rows());
        loop {
            let step = (high - low).div_ceil(KEYS_TOGETHER).max(1);
            let at: Vec<u32> = (low as u32..high as u32).step_by(step).collect();
            let keys = match step {
                1 => {
                    let columns = codec.indices().iter();
                    let columns = columns.map(|index| self.data.column(*index));
                    let columns = columns.map(|column| column.slice(low, high - low));
                    codec.encode_columns(&columns.collect::<Vec<_>>())?
                }
                _ => self.keys_at(codec, &UInt32Array::from(at.clone()))?,
            };
            let before = keys.iter().take_while(|key| key.as_ref() < bound).count();
            low = before
                .checked_sub(1)
                .map_or(low, |last| at[last] as usize + 1);
            high = at.get(before).map_or(high, |first| *first as usize);
            if step == 1 || low == high {
                return Ok(low);
            }
        }
    }

    /// Whether the hidden columns are in order: known kinds, CB-1 and CB-2. Readers call this once
    /// for what they load.
    ///
    /// # Errors
    /// `Corrupt`, saying what is wrong.
    pub fn check(&self) -> Result<()> {
        let damaged =
            |row: usize, what: &str| Err(Error::corrupt(format!("stored row {row} {what}")));
        if self.all_upserts() && self.masks.is_none() {
            return Ok(());
        }
        let mut in_pair = false;
        for row in 0..self.rows() {
            let kind = match &self.kinds {
                Kinds::Uniform(kind) => *kind,
                Kinds::Each(kinds) => StoredKind::try_from(kinds.value(row))
                    .map_err(|error| Error::corrupt(error.to_string()))?,
            };
            let has_mask = self.masks.as_ref().is_some_and(|masks| masks.is_valid(row));
            if has_mask != (kind.keeps_row() && !kind.is_split()) {
                return damaged(row, "has a mask but should not, or lacks one");
            }
            if in_pair && kind != StoredKind::UPDATE {
                return damaged(row, "is not the second half that should be there");
            }
            in_pair = kind.is_split();
        }
        match in_pair {
            true => damaged(self.rows() - 1, "lacks its second half"),
            false => Ok(()),
        }
    }

    /// The mean size of a row's cells, in bytes; at least 1.
    pub fn row_bytes(&self) -> usize {
        let columns = self.data.columns().iter();
        let bytes: usize = columns
            .map(|column| {
                let sliced = sliced_bytes(column);
                sliced.unwrap_or_else(|_| column.get_array_memory_size())
            })
            .sum();
        (bytes / self.rows().max(1)).max(1)
    }

    /// The batch with hidden columns that say nothing dropped, and equal values kept once.
    #[must_use]
    pub fn settled(self) -> ChangeBatch {
        ChangeBatch {
            data: self.data,
            kinds: match self.kinds {
                Kinds::Each(kinds) => settled_kinds(kinds),
                uniform => uniform,
            },
            masks: self.masks.and_then(settled_bytes),
            scus: match self.scus {
                Scus::Each(scus) => settled_scus(scus),
                uniform => uniform,
            },
            column_scus: self.column_scus.and_then(settled_bytes),
        }
    }

    /// The memory that the batch's buffers take, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let kinds = match &self.kinds {
            Kinds::Each(kinds) => kinds.get_array_memory_size(),
            Kinds::Uniform(_) => 0,
        };
        let scus = match &self.scus {
            Scus::Each(scus) => scus.get_array_memory_size(),
            Scus::Uniform(_) => 0,
        };
        self.data.get_array_memory_size()
            + kinds
            + scus
            + self
                .masks
                .as_ref()
                .map_or(0, |masks| masks.get_array_memory_size())
            + self
                .column_scus
                .as_ref()
                .map_or(0, |scus| scus.get_array_memory_size())
    }
}

/// A gather with these inputs, in their order.
fn gather_of(inputs: &[&ChangeBatch]) -> Result<Gather> {
    let first = inputs
        .first()
        .ok_or_else(|| Error::internal("no batches to take rows from"))?;
    let mut gather = Gather::new(first.data.schema(), MergeMode::Changes);
    for input in inputs {
        gather.input(&Input::unmeasured((*input).clone()));
    }
    Ok(gather)
}

/// An empty array with room for as much as another one shows, whatever that lies in.
fn room_for(all: &BinaryArray) -> BinaryBuilder {
    let offsets = all.value_offsets();
    let bytes = offsets[all.len()] - offsets[0];
    BinaryBuilder::with_capacity(all.len(), bytes as usize)
}

/// Masks one by one; neighbours are mostly equal, and are then projected once.
fn project_masks(all: &BinaryArray, project: impl Fn(&[u8]) -> Vec<u8>) -> BinaryArray {
    let mut projected = room_for(all);
    let mut last: Option<(&[u8], Vec<u8>)> = None;
    for mask in all {
        match (mask, &last) {
            (None, _) => projected.append_null(),
            (Some(mask), Some((of, same))) if *of == mask => projected.append_value(same),
            (Some(mask), _) => {
                let (_, new) = last.insert((mask, project(mask)));
                projected.append_value(new);
            }
        }
    }
    projected.finish()
}

pub(crate) fn project_column_scus(
    all: &BinaryArray,
    columns: &[usize],
    width: usize,
) -> Result<Option<BinaryArray>> {
    let (mut distances, mut chosen, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut projected = room_for(all);
    for encoded in all {
        distances.clear();
        chosen.clear();
        bytes.clear();
        if let Some(encoded) = encoded {
            masks::decode_distances(encoded, width, &mut distances)?;
            chosen.extend(columns.iter().map(|column| distances[*column]));
        }
        if chosen.iter().all(|distance| *distance == 0) {
            projected.append_null();
        } else {
            masks::encode_distances(&chosen, &mut bytes);
            projected.append_value(&bytes);
        }
    }
    Ok(settled_bytes(projected.finish()))
}
