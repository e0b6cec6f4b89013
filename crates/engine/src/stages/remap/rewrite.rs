//! What an SCU holds once its numbers are known: ID columns with numbers, rows of the key map, and
//! rows of the owner for new keys that references mention.
//!
//! Pure; all rows at once, column by column.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array,
    new_null_array,
};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Int64Type};
use lazybase_model::change::StoredKind;
use lazybase_model::id_key::{Mention, place_of};
use lazybase_model::table::{Column, Table};
use lazybase_model::{Error, Result, TableId};

use super::assign::Assigned;
use super::mention::with_columns;
use crate::change_batch::ChangeBatch;
use crate::env::planted::{Planted, is_planted};
use crate::key::normalised;
use crate::schema::decode_cell;
use crate::stages::ingest::data_schema;

/// The changes with numbers in place of temporary IDs. `ids` gives the numbers of a map's keys
/// that the batch mentions, by their places.
pub(crate) fn with_numbers<'i>(
    table: &Table,
    changes: ChangeBatch,
    ids: impl Fn(TableId) -> Option<&'i [i64]>,
) -> Result<ChangeBatch> {
    let width = changes.data.num_columns();
    let mut columns = Vec::new();
    for (at, id_key) in table.id_keys().filter(|(at, _)| *at < width) {
        let cells = changes.data.column(at).as_primitive::<Int64Type>();
        if cells.values().iter().all(|id| *id >= 0) {
            continue;
        }
        let ids = ids(id_key.map).unwrap_or(&[]);
        let mut numbers = Vec::with_capacity(cells.len());
        let mut wrong = false;
        for id in cells.values() {
            numbers.push(match place_of(*id) {
                None => *id,
                Some(place) => ids.get(place).copied().unwrap_or_else(|| {
                    wrong = true;
                    0
                }),
            });
        }
        if wrong {
            let name = &table.columns[at].name;
            return Err(Error::corrupt(format!(
                "table {:?}, column {name:?} names a key that the batch does not mention",
                table.name
            )));
        }
        let numbers = Int64Array::new(numbers.into(), cells.nulls().cloned());
        columns.push((at, Arc::new(numbers) as ArrayRef));
    }
    with_columns(changes, columns)
}

/// The mentions of one part of a batch: rows of a key map as they stand in the log, and where in
/// the SCU the first of them stands.
pub(crate) struct MentionRows<'m> {
    pub(crate) map: &'m Table,
    pub(crate) rows: &'m ChangeBatch,
    pub(crate) first: u64,
}

impl MentionRows<'_> {
    /// The rows that gave new keys their numbers.
    fn new_rows(&self, assigned: &Assigned) -> (UInt32Array, Int64Array) {
        let first = self.first as u32;
        let end = first + self.rows.rows() as u32;
        let from = assigned.new.partition_point(|at| *at < first);
        let to = assigned.new.partition_point(|at| *at < end);
        let places = &assigned.new[from..to];
        let rows = UInt32Array::from_iter_values(places.iter().map(|at| at - first));
        let ids = places.iter().map(|at| assigned.ids[*at as usize]);
        (rows, Int64Array::from_iter_values(ids))
    }

    /// The rows of the key map: new keys with their numbers.
    pub(crate) fn of_map(&self, assigned: &Assigned) -> Result<ChangeBatch> {
        let (rows, ids) = self.new_rows(assigned);
        let key = self.map.key_map_id();
        let columns = self.map.columns.iter().enumerate().map(|(at, column)| {
            if at < key {
                // So that equal keys have equal cells, and lookups may compare cells.
                return taken(&normalised(self.rows.data.column(at)), &rows);
            }
            Ok(match at == key {
                true => Arc::new(ids.clone()) as ArrayRef,
                false => new_null_array(&column.data_type, rows.len()),
            })
        });
        let columns = columns.collect::<Result<_>>()?;
        let data = rows_of(self.map, columns, rows.len())?;
        let scus = self.rows.scus.clone();
        Ok(ChangeBatch {
            scus,
            ..ChangeBatch::upserts(data, 0)
        })
    }

    /// The rows of the owner for new keys that a reference mentioned first, if there are any.
    pub(crate) fn of_owner(
        &self,
        owner: &Table,
        assigned: &Assigned,
    ) -> Result<Option<ChangeBatch>> {
        let (rows, ids) = self.new_rows(assigned);
        let codes = self.rows.data.column(self.map.key_map_id());
        let codes = codes.as_primitive::<Int64Type>();
        let (mut kept, mut kept_ids) = (Vec::new(), Vec::new());
        for (row, id) in rows.values().iter().zip(ids.values()) {
            let by_reference = Mention::Reference.has_code(codes.value(*row as usize));
            if by_reference && !is_planted(Planted::ReferenceForgotten) {
                kept.push(*row);
                kept_ids.push(*id);
            }
        }
        if kept.is_empty() {
            return Ok(None);
        }
        let kept = UInt32Array::from(kept);
        let mentioned = arrow::compute::take_record_batch(&self.rows.data, &kept);
        let mentioned = mentioned.map_err(|error| Error::internal(error.to_string()))?;
        let ids = Int64Array::from(kept_ids);
        let made = rows_of_owner(owner, self.map, &mentioned, ids)?;
        let scus = self.rows.scus.clone();
        Ok(Some(ChangeBatch { scus, ..made }))
    }
}

/// Rows of an owner that are inserted where there is none: of these rows of its key map, with
/// these numbers.
///
/// # Errors
/// `Internal` when the rows are not of the map.
pub fn rows_of_owner(
    owner: &Table,
    map: &Table,
    mentioned: &RecordBatch,
    ids: Int64Array,
) -> Result<ChangeBatch> {
    let rows = mentioned.num_rows();
    let ids = Arc::new(ids) as ArrayRef;
    let columns = owner.columns.iter().map(|column| {
        if owner.owns(column) {
            return Ok(Arc::clone(&ids));
        }
        match map.columns.iter().position(|of_map| of_map.id == column.id) {
            Some(at) => cast_to(mentioned.column(at), &column.stored_type()),
            None => of_older(column, rows),
        }
    });
    let data = rows_of(owner, columns.collect::<Result<_>>()?, rows)?;
    Ok(ChangeBatch::alike(data, StoredKind::BOTH, Some(&[]), 0))
}

/// What a column that was added after the key map was made holds in rows that give it nothing.
fn of_older(column: &Column, rows: usize) -> Result<ArrayRef> {
    let stored = column.stored_type();
    match &column.older {
        None => Ok(new_null_array(&stored, rows)),
        cell => {
            let value = decode_cell(cell.as_ref(), &column.data_type)?;
            taken(
                &cast_to(&value, &stored)?,
                &UInt32Array::from(vec![0; rows]),
            )
        }
    }
}

/// Cells of a type that a schema change has widened since, or that is stored wider.
fn cast_to(cells: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    match cells.data_type() == data_type {
        true => Ok(Arc::clone(cells)),
        false => cast(cells, data_type).map_err(|error| Error::internal(error.to_string())),
    }
}

fn taken(column: &ArrayRef, rows: &UInt32Array) -> Result<ArrayRef> {
    take(column, rows, None).map_err(|error| Error::internal(error.to_string()))
}

fn rows_of(table: &Table, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(data_schema(table), columns, &options)
        .map_err(|error| Error::internal(error.to_string()))
}
