//! Few changes of a base's extent: its rows stay, and only the columns that are touched are made
//! anew (section 3.8 of the paper copies extents that nothing changed; this copies the columns that
//! nothing changed).
//!
//! ```text
//!   changes of the extent's keys   -> the columns that they touch, if all of them keep rows
//!   rows and changes, both thin    -> the rows patched; nothing if there is a row more
//! ```
//!
//! A thin batch has columns of nothing in place of those that stay as they are stored: masks and
//! column SCUs still speak of all columns of the table, so that versions come out right. Pure.
//!
//! Invariant PATCH-1: the patched rows, and those columns that stay, are together what a merge of
//! whole rows gives.

use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use lazybase_model::{Error, Result};

use super::{MergeMode, MergeShape, Merger, OutputSize, Step};
use crate::change_batch::{ChangeBatch, Kinds, masks};

#[cfg(test)]
mod tests;

/// The columns that the changes set or combine, rising; nothing if one of them may remove or
/// replace a whole row.
pub fn touched(changes: &[ChangeBatch]) -> Option<Vec<usize>> {
    let mut union = Vec::new();
    let mut width = 0;
    for batch in changes {
        width = batch.data.num_columns();
        let keep = match &batch.kinds {
            Kinds::Uniform(kind) => kind.keeps_row(),
            Kinds::Each(_) => (0..batch.rows()).all(|row| batch.kind(row).keeps_row()),
        };
        if !keep {
            return None;
        }
        (0..batch.rows()).for_each(|row| masks::union(&mut union, batch.mask(row)));
    }
    let columns = masks::bits(&union).take_while(|column| *column < width);
    Some(columns.collect())
}

/// The schema of thin batches that keep these columns.
fn thin_schema(schema: &SchemaRef, kept: &[usize]) -> SchemaRef {
    let thin = |(at, field): (usize, &FieldRef)| match kept.contains(&at) {
        true => Arc::clone(field),
        false => Arc::new(Field::new(field.name(), DataType::Null, true)),
    };
    let fields = schema.fields().iter().enumerate().map(thin);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Thin rows from the columns that are kept, in the order of the table.
///
/// # Errors
/// `Internal` when the columns are not of the schema's types.
pub(crate) fn thin_rows(
    schema: &SchemaRef,
    kept: &[usize],
    columns: &[ArrayRef],
    rows: usize,
) -> Result<RecordBatch> {
    let nothing: ArrayRef = Arc::new(NullArray::new(rows));
    let mut all = vec![nothing; schema.fields().len()];
    for (place, column) in kept.iter().zip(columns) {
        let slot = all.get_mut(*place);
        *slot.ok_or_else(|| Error::internal("a column that the table lacks"))? = Arc::clone(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(thin_schema(schema, kept), all, &options)
        .map_err(|error| Error::internal(format!("rows can't be made thin: {error}")))
}

/// Changes with only these columns, which are rising.
///
/// # Errors
/// `Internal` for a column that is not there.
pub fn thin(changes: &ChangeBatch, kept: &[usize]) -> Result<ChangeBatch> {
    let columns: Option<Vec<ArrayRef>> = kept
        .iter()
        .map(|at| changes.data.columns().get(*at).cloned())
        .collect();
    let columns = columns.ok_or_else(|| Error::internal("a column that the changes lack"))?;
    let data = thin_rows(&changes.data.schema(), kept, &columns, changes.rows())?;
    Ok(ChangeBatch {
        data,
        ..changes.clone()
    })
}

/// The rows after the changes, both thin and keeping `kept`, the key's columns among them; `None`
/// if the changes make rows that were not there.
///
/// # Errors
/// As [`Merger::step`].
pub fn patch(
    shape: &MergeShape,
    kept: &[usize],
    rows: &ChangeBatch,
    changes: &[ChangeBatch],
) -> Result<Option<ChangeBatch>> {
    let shape = MergeShape {
        schema: thin_schema(&shape.schema, kept),
        ..shape.clone()
    };
    let all_at_once = OutputSize {
        rows: usize::MAX / 8,
        bytes: usize::MAX / 8,
    };
    let mut merger = Merger::new(&shape, 2, MergeMode::Rows, all_at_once)?;
    let mut sources = [std::slice::from_ref(rows).iter(), changes.iter()];
    let mut patched = None;
    loop {
        match merger.step()? {
            Step::Need(source) => merger.supply(source, sources[source].next().cloned())?,
            Step::Output(batch) if patched.is_none() => patched = Some(batch),
            Step::Output(_) => return Err(Error::internal("an extent was patched in parts")),
            Step::Done => break,
        }
    }
    Ok(patched.filter(|patched| patched.rows() == rows.rows()))
}
