//! Rows as changes: whole-row upserts, updates of some columns, inserts if absent, deletes
//! (section 3.2 of the paper; `lazybase_model::change` is the algebra).
//!
//! Reads checked columns of a table; gives [`ChangeBatch`]es in the form that the engine stores.
//! Invariant CHG-1: the data has all columns of the table in their order, null where a row does
//! not carry them, and key columns always valued.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryBuilder, RecordBatch, RecordBatchOptions, UInt8Array,
    UInt32Array, new_null_array,
};
use arrow::compute::{cast, take};
use arrow::datatypes::{Field, Schema, SchemaRef};
use lazybase_engine::change_batch::masks::mask_combining;
use lazybase_engine::change_batch::{ChangeBatch, Kinds, Scus};
use lazybase_engine::stages::ingest::whole_rows_only;
use lazybase_model::change::StoredKind;
use lazybase_model::{Error, LabelRole, Result, Table};

#[cfg(test)]
mod tests;

/// The schema of changes of a table: all columns nullable but the key's, sums in 128 bits.
///
/// `columns` of the table's columns take part: all, or all but the hidden key.
pub(crate) fn change_schema(table: &Table, columns: usize) -> SchemaRef {
    let key = table.key_indices();
    let fields: Vec<Field> = table.columns[..columns]
        .iter()
        .enumerate()
        .map(|(at, column)| Field::new(&column.name, column.stored_type(), !key.contains(&at)))
        .collect();
    Arc::new(Schema::new(fields))
}

/// A mask over `columns` columns, with the bits of `set`, least significant bit first.
pub(crate) fn mask(columns: usize, set: &[usize]) -> Vec<u8> {
    let mut mask = vec![0_u8; columns.div_ceil(8)];
    for column in set {
        mask[column / 8] |= 1 << (column % 8);
    }
    mask
}

/// Whole-row upserts of checked columns: all that the table shows.
pub(crate) fn upserts(table: &Table, columns: Vec<ArrayRef>) -> Result<ChangeBatch> {
    let data = record_batch(change_schema(table, columns.len()), columns)?;
    Ok(ChangeBatch::upserts(data, 0))
}

/// What INSERT makes of checked columns, of which the statement gave the columns `given`.
///
/// In a table with merge operators a row that is there stays: its columns are set, those with an
/// operator combined, or left where no value was given for them. Otherwise a whole-row upsert.
pub(crate) fn inserts(
    table: &Table,
    columns: Vec<ArrayRef>,
    given: &[usize],
) -> Result<ChangeBatch> {
    let has_operator = |at: &usize| table.columns[*at].merge.is_some();
    let all = 0..columns.len();
    if !all.clone().any(|at| has_operator(&at)) {
        return upserts(table, columns);
    }
    let (width, is_given) = (columns.len(), |at: &usize| given.contains(at));
    // A row that is there was made before: its key is not set anew.
    let key = table.key_indices();
    let touched = all.filter(|at| !key.contains(at) && (!has_operator(at) || is_given(at)));
    let touched: Vec<usize> = touched.collect();
    let combined: Vec<usize> = touched.iter().copied().filter(has_operator).collect();
    let mask = mask_combining(&touched, &combined, width);
    let data = record_batch(change_schema(table, width), columns)?;
    Ok(masked(data, StoredKind::BOTH, &mask))
}

/// Rows that are inserted where there is none; where there is one, the columns `set` are set to
/// the values that the row carries.
pub(crate) fn insert_or_set(
    table: &Table,
    columns: Vec<ArrayRef>,
    set: &[usize],
) -> Result<ChangeBatch> {
    let set = &with_labels(table, set)?;
    if are_whole(table, set, columns.len()) {
        // Setting every column to what the absent row holds is a whole-row upsert, and of tables
        // that take no others the only form; so the key has the time of this change.
        return upserts(table, columns);
    }
    if table.takes_whole_rows_only() {
        return Err(whole_rows_only(table));
    }
    let mask = mask(columns.len(), set);
    let data = record_batch(change_schema(table, columns.len()), columns)?;
    Ok(masked(data, StoredKind::BOTH, &mask))
}

/// Whether rows that set these columns of a row that is there, to what they carry, replace it.
///
/// # Errors
/// `Invalid` (0A000) for the label of a cell that is not set.
pub(crate) fn sets_whole_rows(table: &Table, set: &[usize]) -> Result<bool> {
    let set = with_labels(table, set)?;
    Ok(are_whole(table, &set, table.written_columns()))
}

/// Whether the key and the columns `set` are all of `columns` columns, and not the key alone.
fn are_whole(table: &Table, set: &[usize], columns: usize) -> bool {
    let key = table.key_indices();
    let sets_all = (0..columns).all(|at| key.contains(&at) || set.contains(&at));
    sets_all && !key.is_empty() && columns > key.len()
}

/// Rows that are inserted where there is none; where there is one, the columns `set` are set to
/// `values`, which need not be what the inserted row holds.
pub(crate) fn insert_or_set_other(
    table: &Table,
    columns: &[ArrayRef],
    set: &[(usize, ArrayRef)],
) -> Result<ChangeBatch> {
    if table.takes_whole_rows_only() {
        return Err(whole_rows_only(table));
    }
    let mut set = set.to_vec();
    // A cell that is set has the label that the row holds for it.
    for at in with_labels(table, &places(&set))?.split_off(set.len()) {
        set.push((at, Arc::clone(&columns[at])));
    }
    let rows = columns.first().map_or(0, Array::len);
    let key = table.key_indices();
    // Rows come in pairs: the absent half, then the update of the same key.
    let first = UInt32Array::from_iter_values((0..rows as u32).map(|row| row * 2));
    let interleaved: Result<Vec<ArrayRef>> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let update: ArrayRef = match set.iter().find(|(column, _)| *column == at) {
                Some((_, values)) => Arc::clone(values),
                None if key.contains(&at) => Arc::clone(column),
                None => new_null_array(column.data_type(), rows),
            };
            pairs(column, &update)
        })
        .collect();
    let data = record_batch(change_schema(table, columns.len()), interleaved?)?;
    if table.takes_whole_rows_only() {
        return Err(whole_rows_only(table));
    }
    let mask = mask(columns.len(), &places(&set));
    let mut masks = BinaryBuilder::new();
    for _ in 0..first.len() {
        masks.append_null();
        masks.append_value(&mask);
    }
    let kinds = UInt8Array::from_iter_values(
        (0..rows).flat_map(|_| [StoredKind::SPLIT.bits(), StoredKind::UPDATE.bits()]),
    );
    Ok(ChangeBatch {
        data,
        kinds: Kinds::Each(kinds),
        masks: Some(masks.finish()),
        scus: Scus::Uniform(0),
        column_scus: None,
    })
}

/// Rows of two arrays by turns.
fn pairs(first: &ArrayRef, second: &ArrayRef) -> Result<ArrayRef> {
    let order: Vec<(usize, usize)> = (0..first.len())
        .flat_map(|row| [(0, row), (1, row)])
        .collect();
    arrow::compute::interleave(&[first.as_ref(), second.as_ref()], &order)
        .map_err(|error| Error::internal(error.to_string()))
}

/// Updates of the columns `set` of the rows of `keys`, which are the key's columns in the key's
/// order.
pub(crate) fn updates(
    table: &Table,
    keys: &[ArrayRef],
    set: &[(usize, ArrayRef)],
) -> Result<ChangeBatch> {
    let set = labelled(table, set)?;
    let mask = mask(table.columns.len(), &places(&set));
    let data = sparse(table, keys, &set)?;
    Ok(masked(data, StoredKind::UPDATE, &mask))
}

fn places(set: &[(usize, ArrayRef)]) -> Vec<usize> {
    set.iter().map(|(at, _)| *at).collect()
}

/// The columns that a change sets, and behind them the labels of their cells: a cell never keeps
/// the label of the value that was there before.
///
/// # Errors
/// `Invalid` (0A000) for the label of a cell that is not set.
fn with_labels(table: &Table, set: &[usize]) -> Result<Vec<usize>> {
    let mut all = set.to_vec();
    for at in set {
        if let Some(label) = table.cell_label(*at)?
            && !set.contains(&label)
        {
            all.push(label);
        }
        let column = &table.columns[*at];
        if let Some(LabelRole::OfCells(id)) = column.label
            && !set.iter().any(|at| table.columns[*at].id == id)
        {
            return Err(Error::invalid(format!(
                "table {:?}: {} is set without its cell",
                table.name, column.name
            ))
            .with_detail("a label is a part of its cell, and is written with it")
            .with_hint("set both")
            .with_sqlstate("0A000"));
        }
    }
    Ok(all)
}

/// The values that an update sets, with the labels of the cells: the empty one where none is given.
///
/// # Errors
/// `Invalid` (0A000) for the label of a cell that is not set.
pub(crate) fn labelled(table: &Table, set: &[(usize, ArrayRef)]) -> Result<Vec<(usize, ArrayRef)>> {
    let mut all = set.to_vec();
    let rows = set.first().map_or(0, |(_, values)| values.len());
    for at in with_labels(table, &places(set))?.split_off(set.len()) {
        all.push((at, new_null_array(&table.columns[at].data_type, rows)));
    }
    Ok(all)
}

/// Deletes of the rows of `keys`.
pub(crate) fn deletes(table: &Table, keys: &[ArrayRef]) -> Result<ChangeBatch> {
    Ok(ChangeBatch {
        data: sparse(table, keys, &[])?,
        kinds: Kinds::Uniform(StoredKind::DELETE),
        masks: None,
        scus: Scus::Uniform(0),
        column_scus: None,
    })
}

/// Rows with the key and some columns, the others null.
fn sparse(table: &Table, keys: &[ArrayRef], set: &[(usize, ArrayRef)]) -> Result<RecordBatch> {
    let rows = keys.first().map_or(0, Array::len);
    let key = table.key_indices();
    let columns: Vec<ArrayRef> = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let in_key = key.iter().position(|index| *index == at);
            let in_set = set.iter().find(|(column, _)| *column == at);
            match (in_key, in_set) {
                (Some(place), _) => Arc::clone(&keys[place]),
                (None, Some((_, values))) => Arc::clone(values),
                (None, None) => new_null_array(&column.data_type, rows),
            }
        })
        .collect();
    record_batch(change_schema(table, table.columns.len()), columns)
}

fn masked(data: RecordBatch, kind: StoredKind, mask: &[u8]) -> ChangeBatch {
    let masks = BinaryArray::from_iter_values((0..data.num_rows()).map(|_| mask));
    ChangeBatch {
        data,
        kinds: Kinds::Uniform(kind),
        masks: Some(masks),
        scus: Scus::Uniform(0),
        column_scus: None,
    }
}

/// A value repeated for each of `rows` rows.
pub(crate) fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    let indices = UInt32Array::from(vec![0_u32; rows]);
    take(value, &indices, None).map_err(|error| Error::internal(error.to_string()))
}

fn record_batch(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let rows = columns.first().map_or(0, Array::len);
    let stored = |(column, field): (ArrayRef, &Arc<Field>)| {
        match column.data_type() == field.data_type() {
            true => Ok(column),
            // Only sums differ, and 128 bits hold all that they are declared as.
            false => {
                cast(&column, field.data_type()).map_err(|error| Error::internal(error.to_string()))
            }
        }
    };
    let columns = columns.into_iter().zip(schema.fields()).map(stored);
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|error| Error::internal(format!("columns do not make rows: {error}")))
}
