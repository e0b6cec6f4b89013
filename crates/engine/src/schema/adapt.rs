//! Rows of one definition of a table as rows of another.
//!
//! A change that was written before a column existed carries no cell for it: its mask does not name
//! the column, so a row that is there keeps what it holds. A row that such a change *makes* holds
//! the value that was fixed when the column was added, set by the same change: the key's cell tells
//! which SCU that was, for nothing but the making of a row sets a key. A label that its cell has
//! not had before is the empty one, and set wherever the cell is: the two are set together. A cell
//! of a dropped column is gone, and the row's SCU is the newest among the cells that are left
//! (CB-3).

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryBuilder, RecordBatch, RecordBatchOptions, UInt32Array,
    UInt64Array, new_null_array,
};
use arrow::compute::{CastOptions, cast_with_options, take};
use arrow::datatypes::{DataType, SchemaRef};
use lazybase_model::table::{Column, Table};
use lazybase_model::{ColumnId, Error, LabelRole, Result};

use super::{Widening, decode_cell, widening};
use crate::change_batch::{ChangeBatch, Kinds, Scus, masks};
use crate::segment::RowLayout;

/// Where a wanted column comes from.
#[derive(Debug)]
enum Origin {
    /// A stored column, as it is.
    Same(usize),
    /// A stored column, cast.
    Cast(usize, DataType),
    /// Nothing that is stored: the one value that older rows hold.
    Fixed(ArrayRef),
    /// Nothing that is stored: the empty label, of the cells of a stored column.
    Label {
        /// The column of the cells.
        of: usize,
        /// The empty label.
        value: ArrayRef,
    },
}

impl Origin {
    fn stored(&self) -> Option<usize> {
        match self {
            Origin::Same(at) | Origin::Cast(at, _) => Some(*at),
            Origin::Fixed(_) | Origin::Label { .. } => None,
        }
    }

    /// The stored column that a change sets if it sets this one.
    fn set_with(&self) -> Option<usize> {
        match self {
            Origin::Label { of, .. } => Some(*of),
            other => other.stored(),
        }
    }
}

/// From the columns that rows are stored with to those of a layout.
#[derive(Debug)]
pub struct Adapter {
    origins: Vec<Origin>,
    /// How many columns are stored.
    width: usize,
    /// The stored position of the key's first column.
    key: usize,
    /// Whether a stored column is not wanted.
    drops: bool,
    schema: SchemaRef,
}

impl Adapter {
    /// From rows of `from` to those of `to`; `None` where they are the same rows.
    ///
    /// # Errors
    /// `Corrupt` when `from` is no earlier definition of the same rows.
    pub fn between(from: &Table, to: &RowLayout) -> Result<Option<Adapter>> {
        let stored: Vec<(ColumnId, DataType)> = from
            .columns
            .iter()
            .map(|column| (column.id, column.stored_type()))
            .collect();
        Adapter::of_columns(&stored, from.primary.key[0], to)
    }

    /// The same, of columns by their ids and types, where `key` is the first of the key's.
    ///
    /// # Errors
    /// As [`Adapter::between`].
    pub(crate) fn of_columns(
        stored: &[(ColumnId, DataType)],
        key: ColumnId,
        to: &RowLayout,
    ) -> Result<Option<Adapter>> {
        let wanted = &to.table.columns;
        let same = |((id, data_type), column): (&(ColumnId, DataType), &Column)| {
            *id == column.id && *data_type == column.stored_type()
        };
        if stored.len() == wanted.len() && stored.iter().zip(wanted).all(same) {
            return Ok(None);
        }
        let place = |id: ColumnId| stored.iter().position(|(known, _)| *known == id);
        let origins = wanted.iter().map(|column| {
            let wanted = column.stored_type();
            let Some(at) = place(column.id) else {
                let value = decode_cell(column.older.as_ref(), &column.data_type)?;
                let value = widened(&value, &wanted)?;
                let of = match column.label {
                    Some(LabelRole::OfCells(cells)) => place(cells),
                    _ => None,
                };
                return Ok(match of {
                    Some(of) => Origin::Label { of, value },
                    None => Origin::Fixed(value),
                });
            };
            match widening(&stored[at].1, &wanted) {
                Widening::Same => Ok(Origin::Same(at)),
                Widening::Cast => Ok(Origin::Cast(at, wanted)),
                Widening::Refused(why) => Err(Error::corrupt(format!(
                    "column {:?} is stored as {}, not as {wanted}: {why}",
                    column.name, stored[at].1
                ))),
            }
        });
        let origins = origins.collect::<Result<Vec<Origin>>>()?;
        let kept = origins.iter().filter_map(Origin::stored).count();
        let key = place(key).ok_or_else(|| Error::corrupt("its rows have no key"))?;
        Ok(Some(Adapter {
            drops: kept < stored.len(),
            origins,
            width: stored.len(),
            key,
            schema: Arc::clone(&to.schema),
        }))
    }

    /// Changes with all their stored columns as changes of the layout.
    ///
    /// # Errors
    /// `Corrupt` when the changes are not of the stored columns.
    pub fn adapt(&self, changes: &ChangeBatch) -> Result<ChangeBatch> {
        if changes.data.num_columns() != self.width {
            let what = format!("{} columns, not {}", changes.data.num_columns(), self.width);
            return Err(Error::corrupt(what));
        }
        let making = Making::of(changes);
        let columns = self.origins.iter().map(|origin| match origin {
            Origin::Same(at) => Ok(Arc::clone(changes.data.column(*at))),
            Origin::Cast(at, to) => widened(changes.data.column(*at), to),
            Origin::Fixed(value) | Origin::Label { value, .. } => making.filled(value),
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(changes.rows()));
        let data = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::corrupt(format!("rows of another schema: {error}")))?;
        let masks = changes.masks.as_ref().map(|masks| self.masks(masks));
        let adapted = ChangeBatch {
            data,
            kinds: changes.kinds.clone(),
            masks,
            scus: changes.scus.clone(),
            column_scus: None,
        };
        match &changes.column_scus {
            None => Ok(adapted),
            Some(column_scus) => self.with_scus(changes, adapted, column_scus),
        }
    }

    /// Changes of the definition `from` as changes of a layout of the same table.
    ///
    /// # Errors
    /// `Corrupt` when `from` is no earlier definition, or the changes are not of it.
    pub fn under(from: &Table, to: &RowLayout, changes: ChangeBatch) -> Result<ChangeBatch> {
        if let Some(adapter) = Adapter::between(from, to)? {
            return adapter.adapt(&changes);
        }
        let columns = changes.data.columns().to_vec();
        let options = RecordBatchOptions::new().with_row_count(Some(changes.rows()));
        let schema = Arc::clone(&to.schema);
        let data = RecordBatch::try_new_with_options(schema, columns, &options)
            .map_err(|error| Error::corrupt(format!("rows of another schema: {error}")))?;
        Ok(ChangeBatch { data, ..changes })
    }

    /// The stored columns that these columns of the layout need, rising; never none, so that rows
    /// can be counted.
    pub(crate) fn stored_columns(&self, wanted: &[usize]) -> Vec<usize> {
        let stored = wanted.iter().filter_map(|at| self.origins[*at].stored());
        let mut stored: Vec<usize> = stored.collect();
        if stored.is_empty() {
            stored.push(self.key);
        }
        stored.sort_unstable();
        stored.dedup();
        stored
    }

    /// The wanted columns of plain rows that were read with the columns `stored` alone.
    ///
    /// # Errors
    /// `Corrupt` when the rows are of other columns.
    pub(crate) fn plain(
        &self,
        rows: &RecordBatch,
        stored: &[usize],
        wanted: &[usize],
    ) -> Result<RecordBatch> {
        let wrong = || Error::corrupt("a column that is needed was not read");
        let read = |at: &usize| {
            let place = stored.binary_search(at).map_err(|_| wrong())?;
            rows.columns().get(place).ok_or_else(wrong)
        };
        let columns = wanted.iter().map(|column| match &self.origins[*column] {
            Origin::Same(at) => read(at).cloned(),
            Origin::Cast(at, to) => widened(read(at)?, to),
            Origin::Fixed(value) | Origin::Label { value, .. } => repeated(value, rows.num_rows()),
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let schema = self.schema.project(wanted);
        let schema = Arc::new(schema.map_err(|error| Error::internal(error.to_string()))?);
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(schema, columns, &options)
            .map_err(|error| Error::corrupt(format!("rows of another schema: {error}")))
    }

    /// The bits of the layout's columns.
    fn mask(&self, stored: &[u8]) -> Vec<u8> {
        let (mut touched, mut combined) = (Vec::new(), Vec::new());
        for (at, origin) in self.origins.iter().enumerate() {
            let from = origin.set_with();
            let Some(from) = from.filter(|from| masks::has_bit(stored, *from)) else {
                continue;
            };
            touched.push(at);
            if masks::combines_column(stored, from, self.width) {
                combined.push(at);
            }
        }
        masks::mask_combining(&touched, &combined, self.origins.len())
    }

    fn masks(&self, stored: &BinaryArray) -> BinaryArray {
        let mut adapted = BinaryBuilder::with_capacity(stored.len(), stored.len());
        for mask in stored {
            match mask {
                None => adapted.append_null(),
                Some(mask) => adapted.append_value(self.mask(mask)),
            }
        }
        adapted.finish()
    }

    /// Adds the SCUs of the cells that are left.
    fn with_scus(
        &self,
        stored: &ChangeBatch,
        adapted: ChangeBatch,
        column_scus: &BinaryArray,
    ) -> Result<ChangeBatch> {
        let mut scus = Vec::with_capacity(stored.rows());
        let mut encoded = BinaryBuilder::with_capacity(stored.rows(), stored.rows());
        let (mut before, mut after, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for row in 0..stored.rows() {
            if column_scus.is_null(row) {
                scus.push(stored.scu(row));
                encoded.append_null();
                continue;
            }
            before.clear();
            masks::decode_distances(column_scus.value(row), self.width, &mut before)?;
            let newer = self.distances(&adapted, row, &before, &mut after);
            scus.push(stored.scu(row).saturating_sub(newer));
            if after.iter().all(|distance| *distance == 0) {
                encoded.append_null();
                continue;
            }
            bytes.clear();
            masks::encode_distances(&after, &mut bytes);
            encoded.append_value(&bytes);
        }
        Ok(ChangeBatch {
            scus: Scus::Each(UInt64Array::from(scus)),
            column_scus: Some(encoded.finish()),
            ..adapted
        }
        .settled())
    }

    /// Fills in how far each cell lies behind the row's newest that is left; gives how far that
    /// one lies behind the newest that there was.
    fn distances(
        &self,
        adapted: &ChangeBatch,
        row: usize,
        before: &[u64],
        after: &mut Vec<u64>,
    ) -> u64 {
        let makes = adapted.kind(row).makes_row();
        let carries = |at: usize| makes || masks::has_bit(adapted.mask(row), at);
        let distance = |at: usize| match self.origins[at].set_with() {
            _ if !carries(at) => None,
            Some(from) => Some(before[from]),
            None => Some(before[self.key]),
        };
        let places = 0..self.origins.len();
        let newer = match self.drops {
            true => places.clone().filter_map(distance).min().unwrap_or(0),
            false => 0,
        };
        after.clear();
        after.extend(places.map(|at| distance(at).map_or(0, |far| far - newer)));
        newer
    }
}

/// Which rows make a row where there is none.
enum Making {
    All(usize),
    Some(UInt32Array),
}

impl Making {
    fn of(changes: &ChangeBatch) -> Making {
        let rows = changes.rows();
        match &changes.kinds {
            Kinds::Uniform(kind) if kind.makes_row() => Making::All(rows),
            _ => {
                let first = |row| changes.kind(row).makes_row().then_some(0_u32);
                Making::Some((0..rows).map(first).collect())
            }
        }
    }

    /// A column that holds the value where a row is made, and no cell elsewhere.
    fn filled(&self, value: &ArrayRef) -> Result<ArrayRef> {
        match self {
            Making::All(rows) => repeated(value, *rows),
            Making::Some(rows) if value.is_null(0) => {
                Ok(new_null_array(value.data_type(), rows.len()))
            }
            Making::Some(rows) => taken(value, rows),
        }
    }
}

/// The value in each of `rows` rows.
fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    match value.is_null(0) {
        true => Ok(new_null_array(value.data_type(), rows)),
        false => taken(value, &UInt32Array::from(vec![0; rows])),
    }
}

fn taken(value: &ArrayRef, rows: &UInt32Array) -> Result<ArrayRef> {
    take(value, rows, None)
        .map_err(|error| Error::internal(format!("a value can't be repeated: {error}")))
}

fn widened(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(values, to, &options)
        .map_err(|error| Error::corrupt(format!("a stored value is of no wider type: {error}")))
}
