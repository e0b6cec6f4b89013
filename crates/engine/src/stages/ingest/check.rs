//! What a batch must be to be accepted: the columns of its table, keys without NULL, texts no
//! longer than their columns take, kinds and masks that agree.
//!
//! Pure. A batch that fails is refused whole with an error that names table, column and row, and
//! nothing else is touched.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions,
};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::array_value_to_string;
use lazybase_model::change::{StoredError, StoredKind};
use lazybase_model::limits::{CELL_BYTES_MAX, KEY_BYTES_MAX};
use lazybase_model::table::{Column, ColumnId, Table};
use lazybase_model::{Error, Result};

use super::frame::data::stored_fields;
use crate::change_batch::{ChangeBatch, Kinds, Scus};
use crate::key::Partitioner;

mod labels;
#[cfg(test)]
mod tests;

pub use labels::first_no_label;

/// The batch as ingest keeps it: checked, with the hidden key left out where no row gives one.
///
/// # Errors
/// `Invalid`, naming table, column and row.
pub(crate) fn accept(table: &Table, changes: ChangeBatch) -> Result<ChangeBatch> {
    let mut changes = changes;
    if changes.column_scus.is_some() || !matches!(changes.scus, Scus::Uniform(_)) {
        return Err(Error::internal("ingest takes changes that have no SCU yet"));
    }
    check_kinds(&changes.kinds, changes.masks.as_ref())
        .map_err(|error| Error::invalid(format!("table {:?}: {error}", table.name)))?;
    let given = changes.data.num_columns();
    let hidden_left_out = table.hidden_key && given + 1 == table.columns.len();
    if given != table.columns.len() && !hidden_left_out {
        let wanted = table.columns.len();
        return Err(Error::invalid(format!(
            "a batch for table {:?} has {given} columns, the table has {wanted}",
            table.name
        )));
    }
    if table.hidden_key && !hidden_left_out {
        let last = changes.data.column(given - 1);
        if last.null_count() == last.len() {
            changes.data.remove_column(given - 1);
        }
    }
    for (index, values) in changes.data.columns().iter().enumerate() {
        check_column(table, index, values, &changes)?;
    }
    check_partitions(table, changes.data.columns(), 0)?;
    check_whole_rows(table, &changes.kinds)?;
    labels::check_masks(table, &changes)?;
    under_stored_schema(table, changes)
}

/// The batch under the schema that ingest stores, so that batches from anywhere fit together.
fn under_stored_schema(table: &Table, changes: ChangeBatch) -> Result<ChangeBatch> {
    let schema = changes.data.schema();
    let fits = |(field, column): (&Arc<Field>, &Column)| {
        let nullable = table.hidden_key || !table.primary.key.contains(&column.id);
        let plain = field.metadata().is_empty() && field.is_nullable() == nullable;
        plain && *field.name() == column.name
    };
    if schema.metadata().is_empty() && schema.fields().iter().zip(&table.columns).all(fits) {
        return Ok(changes);
    }
    let fields = stored_fields(table, changes.data.num_columns());
    let options = RecordBatchOptions::new().with_row_count(Some(changes.rows()));
    let columns = changes.data.columns().to_vec();
    let schema = Arc::new(Schema::new(fields));
    let data = RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|error| Error::internal(error.to_string()))?;
    Ok(ChangeBatch { data, ..changes })
}

fn check_column(
    table: &Table,
    index: usize,
    values: &ArrayRef,
    changes: &ChangeBatch,
) -> Result<()> {
    let column = &table.columns[index];
    let wanted = column.stored_type();
    if *values.data_type() != wanted {
        let given = values.data_type();
        return Err(
            in_column(table, column, Error::invalid("the type is wrong"))
                .with_detail(format!("{given} given, {wanted} wanted"))
                .with_sqlstate("42804"),
        );
    }
    let key = table.primary.key.contains(&column.id);
    let hidden = table.hidden_key && key;
    if values.null_count() > 0 && !hidden {
        if key {
            let row = first_null(values, |_| true);
            refuse_null(table, column, row)?;
        } else if !column.nullable {
            let row = first_null(values, |row| gives_value(changes, row, index));
            refuse_null(table, column, row)?;
        }
    }
    if let Some(row) = first_too_long(column, values, |row| gives_value(changes, row, index)) {
        let characters_max = column.characters_max.unwrap_or_default();
        let error = Error::invalid(format!(
            "the text in row {row} has more than {characters_max} characters"
        ));
        return Err(in_column(table, column, error).with_sqlstate("22001"));
    }
    if column.holds_labels()
        && let Some((row, error)) = first_no_label(values, |row| gives_value(changes, row, index))
    {
        return Err(in_column(table, column, error.within(format!("row {row}"))));
    }
    let cell_bytes_max = if key { KEY_BYTES_MAX } else { CELL_BYTES_MAX };
    match first_longer(values, cell_bytes_max) {
        Some(row) => Err(in_column(
            table,
            column,
            Error::invalid(format!(
                "the value in row {row} is longer than {cell_bytes_max} bytes"
            ))
            .with_sqlstate("54000"),
        )),
        None => Ok(()),
    }
}

/// Whether the table takes changes of these kinds.
fn check_whole_rows(table: &Table, kinds: &Kinds) -> Result<()> {
    let fits = |kind: StoredKind| kind == StoredKind::UPSERT || kind == StoredKind::DELETE;
    let all = match kinds {
        Kinds::Uniform(kind) => fits(*kind),
        Kinds::Each(kinds) => kinds
            .values()
            .iter()
            .all(|kind| *kind == StoredKind::UPSERT.bits() || *kind == StoredKind::DELETE.bits()),
    };
    match all || !table.takes_whole_rows_only() {
        true => Ok(()),
        false => Err(whole_rows_only(table)),
    }
}

/// The table takes whole rows and deletes only.
pub fn whole_rows_only(table: &Table) -> Error {
    Error::invalid(format!(
        "table {:?} takes whole rows and deletes only",
        table.name
    ))
    .with_detail("its rows end by a column outside of the primary key")
    .with_hint("INSERT the whole row, which replaces it; or put ttl_column into the key")
    .with_sqlstate("0A000")
}

/// Whether each row lies in a partition that takes rows; the columns are the table's, the first
/// row has the number `first_row` in the error.
///
/// # Errors
/// `Invalid` (23514), naming table, columns and row.
pub fn check_partitions(table: &Table, columns: &[ArrayRef], first_row: u64) -> Result<()> {
    let Some(partitioner) = Partitioner::of(table)? else {
        return Ok(());
    };
    let key = table.key_indices();
    let of_key: Vec<ArrayRef> = key
        .iter()
        .map(|index| Arc::clone(&columns[*index]))
        .collect();
    let Some(row) = partitioner.first_outside(&of_key)? else {
        return Ok(());
    };
    let rule = table
        .partitioning
        .as_ref()
        .and_then(|rules| rules.range.as_ref());
    let ids = rule.map_or(&[][..], |rule| &rule.columns);
    let named = |id: &ColumnId| table.columns.iter().position(|column| column.id == *id);
    let places: Vec<usize> = ids.iter().filter_map(named).collect();
    let cell = |index: &usize| array_value_to_string(&columns[*index], row).unwrap_or_default();
    let names: Vec<&str> = places
        .iter()
        .map(|at| table.columns[*at].name.as_str())
        .collect();
    let values: Vec<String> = places.iter().map(cell).collect();
    Err(Error::invalid(format!(
        "table {:?}, column {:?}, row {}: no range partition takes the value {}",
        table.name,
        names.join(", "),
        first_row + row as u64,
        values.join(", "),
    ))
    .with_hint("ALTER TABLE ... ADD RANGE PARTITION makes room for it")
    .with_sqlstate("23514"))
}

/// The first row that matters whose text has more characters than the column takes.
pub fn first_too_long(
    column: &Column,
    values: &ArrayRef,
    matters: impl Fn(usize) -> bool,
) -> Option<usize> {
    let characters_max = column.characters_max? as usize;
    let texts = values.as_string_opt::<i32>()?;
    // A text has at most as many characters as bytes: few are counted.
    let is_longer =
        |text: &str| text.len() > characters_max && text.chars().nth(characters_max).is_some();
    (0..texts.len())
        .find(|row| texts.is_valid(*row) && is_longer(texts.value(*row)) && matters(*row))
}

/// Whether a row of a batch says what the column holds.
fn gives_value(changes: &ChangeBatch, row: usize, column: usize) -> bool {
    let kind = changes.kind(row);
    if kind.makes_row() {
        return true;
    }
    let masks = changes.masks.as_ref().filter(|masks| masks.is_valid(row));
    masks.is_some_and(|masks| {
        let byte = masks.value(row).get(column / 8);
        byte.is_some_and(|byte| byte & (1 << (column % 8)) != 0)
    })
}

fn first_null(values: &ArrayRef, matters: impl Fn(usize) -> bool) -> Option<usize> {
    (0..values.len()).find(|row| values.is_null(*row) && matters(*row))
}

fn refuse_null(table: &Table, column: &Column, row: Option<usize>) -> Result<()> {
    match row {
        None => Ok(()),
        Some(row) => {
            let error = Error::invalid(format!("NULL in row {row} where a value is needed"));
            Err(in_column(table, column, error).with_sqlstate("23502"))
        }
    }
}

fn in_column(table: &Table, column: &Column, error: Error) -> Error {
    error.within(format!("table {:?}, column {:?}", table.name, column.name))
}

/// The first row whose value is longer than `bytes`; looks at rows only where the whole column is.
fn first_longer(values: &ArrayRef, bytes: usize) -> Option<usize> {
    match values.data_type() {
        DataType::Utf8 => first_longer_offsets(values.as_string::<i32>().value_offsets(), bytes),
        DataType::LargeUtf8 => {
            first_longer_offsets(values.as_string::<i64>().value_offsets(), bytes)
        }
        DataType::Binary => first_longer_offsets(values.as_binary::<i32>().value_offsets(), bytes),
        DataType::LargeBinary => {
            first_longer_offsets(values.as_binary::<i64>().value_offsets(), bytes)
        }
        DataType::Utf8View => values
            .as_string_view()
            .views()
            .iter()
            .position(|view| *view as u32 as usize > bytes),
        DataType::BinaryView => values
            .as_binary_view()
            .views()
            .iter()
            .position(|view| *view as u32 as usize > bytes),
        _ => None,
    }
}

fn first_longer_offsets<O: OffsetSizeTrait>(offsets: &[O], bytes: usize) -> Option<usize> {
    let first = offsets.first()?.as_usize();
    if offsets.last()?.as_usize() - first <= bytes {
        return None;
    }
    offsets
        .windows(2)
        .position(|pair| pair[1].as_usize() - pair[0].as_usize() > bytes)
}

/// Whether kinds and masks are those of whole changes: known kinds, masks exactly where rows keep,
/// both rows of every split pair.
///
/// # Errors
/// What the first wrong row is.
pub(crate) fn check_kinds(kinds: &Kinds, masks: Option<&BinaryArray>) -> Result<(), StoredError> {
    match kinds {
        Kinds::Uniform(kind) if kind.is_split() => Err(not_one_change(&[kind.bits()])),
        Kinds::Uniform(kind) => check_masks_uniform(*kind, masks),
        Kinds::Each(bytes) => {
            let mut split = false;
            for (row, byte) in bytes.values().iter().enumerate() {
                let kind = StoredKind::try_from(*byte)?;
                if split && kind != StoredKind::UPDATE {
                    return Err(not_one_change(&[StoredKind::SPLIT.bits(), *byte]));
                }
                split = kind.is_split();
                let masked = masks.is_some_and(|masks| masks.is_valid(row));
                check_mask(kind, masked)?;
            }
            match split {
                true => Err(not_one_change(&[StoredKind::SPLIT.bits()])),
                false => Ok(()),
            }
        }
    }
}

fn check_masks_uniform(kind: StoredKind, masks: Option<&BinaryArray>) -> Result<(), StoredError> {
    match masks {
        None => check_mask(kind, false),
        Some(masks) if masks.is_empty() => Ok(()),
        Some(masks) if masks.null_count() == 0 => check_mask(kind, true),
        Some(masks) if masks.null_count() == masks.len() => check_mask(kind, false),
        Some(_) => check_mask(kind, !needs_mask(kind)),
    }
}

fn needs_mask(kind: StoredKind) -> bool {
    kind.keeps_row() && !kind.is_split()
}

fn check_mask(kind: StoredKind, masked: bool) -> Result<(), StoredError> {
    match (needs_mask(kind), masked) {
        (true, false) => Err(StoredError::MaskMissing(kind)),
        (false, true) => Err(StoredError::MaskUnexpected(kind)),
        _ => Ok(()),
    }
}

fn not_one_change(kinds: &[u8]) -> StoredError {
    StoredError::NotOneChange {
        kinds: kinds.to_vec(),
    }
}
