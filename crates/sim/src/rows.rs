//! Between the model's numbers and the engine's batches: changes as they are written, rows as they
//! are read.
//!
//! Pure.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch};
use lazybase_engine::change_batch::{ChangeBatch, Kinds, Scus, masks};
use lazybase_engine::segment::RowLayout;
use lazybase_model::change::StoredKind;
use lazybase_model::{MergeOperator, Table};

use crate::model::{Cell, Change, Key, OnRow, Row};
use crate::schema::TableDraw;

/// A table as the database knows it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// Its definition.
    pub table: Arc<Table>,
    /// How its rows are stored.
    pub layout: Arc<RowLayout>,
}

impl Known {
    /// What is known of a table.
    ///
    /// # Errors
    /// What is wrong with the definition.
    pub(crate) fn of(table: Arc<Table>) -> Result<Known, String> {
        let layout = RowLayout::primary(&table).map_err(|error| error.to_string())?;
        Ok(Known {
            table,
            layout: Arc::new(layout),
        })
    }
}

/// The key of a row.
pub(crate) fn key_of(table: &TableDraw, row: &[Cell]) -> Key {
    let cell = |at: usize| match at < table.keys {
        true => row[at].unwrap_or_default(),
        false => 0,
    };
    [cell(0), cell(1)]
}

/// The stored rows of some changes.
struct Stored {
    cells: Vec<Vec<Cell>>,
    kinds: Vec<u8>,
    masks: Vec<Option<Vec<u8>>>,
}

/// Changes as a batch.
///
/// # Errors
/// What Arrow says; a mistake of the simulator.
pub(crate) fn encode(
    draw: &TableDraw,
    known: &Known,
    changes: &[Change],
) -> Result<ChangeBatch, String> {
    let mut stored = Stored {
        cells: Vec::new(),
        kinds: Vec::new(),
        masks: Vec::new(),
    };
    changes.iter().for_each(|change| stored.push(draw, change));
    let columns = draw.columns.iter().enumerate().map(|(at, column)| {
        let wide = column.merge == Some(MergeOperator::Sum);
        column
            .kind
            .array(wide, stored.cells.iter().map(|row| row[at]))
    });
    let columns: Vec<ArrayRef> = columns.collect();
    let data = RecordBatch::try_new(Arc::clone(&known.layout.schema), columns);
    let masked = stored.masks.iter().any(Option::is_some);
    let first = stored
        .kinds
        .first()
        .copied()
        .unwrap_or(StoredKind::UPSERT.bits());
    let uniform = stored.kinds.iter().all(|kind| *kind == first);
    Ok(ChangeBatch {
        data: data.map_err(|error| error.to_string())?,
        kinds: match StoredKind::try_from(first) {
            Ok(kind) if uniform => Kinds::Uniform(kind),
            _ => Kinds::Each(stored.kinds.into()),
        },
        masks: masked.then(|| {
            let masks = stored.masks.iter().map(Option::as_deref);
            masks.collect::<BinaryArray>()
        }),
        scus: Scus::Uniform(0),
        column_scus: None,
    })
}

impl Stored {
    fn push(&mut self, draw: &TableDraw, change: &Change) {
        let width = draw.columns.len();
        let key_only = || -> Vec<Cell> {
            let keys = change.key.iter().take(draw.keys).map(|cell| Some(*cell));
            keys.chain(std::iter::repeat(None)).take(width).collect()
        };
        match (&change.on_row, &change.on_absent) {
            (OnRow::Replace, None) => self.row(key_only(), StoredKind::DELETE, None),
            (OnRow::Replace, Some(row)) => self.row(row.to_vec(), StoredKind::UPSERT, None),
            (OnRow::Keep(sets), None) => {
                let mut cells = key_only();
                for (column, cell, _) in sets {
                    cells[*column] = *cell;
                }
                self.row(cells, StoredKind::UPDATE, Some(mask(sets, width)));
            }
            (OnRow::Keep(sets), Some(row)) => {
                let agrees = sets.iter().all(|(column, cell, _)| row[*column] == *cell);
                if agrees {
                    return self.row(row.to_vec(), StoredKind::BOTH, Some(mask(sets, width)));
                }
                self.row(row.to_vec(), StoredKind::SPLIT, None);
                let mut cells = key_only();
                for (column, cell, _) in sets {
                    cells[*column] = *cell;
                }
                self.row(cells, StoredKind::UPDATE, Some(mask(sets, width)));
            }
        }
    }

    fn row(&mut self, cells: Vec<Cell>, kind: StoredKind, mask: Option<Vec<u8>>) {
        self.cells.push(cells);
        self.kinds.push(kind.bits());
        self.masks.push(mask);
    }
}

fn mask(sets: &[(usize, Cell, bool)], width: usize) -> Vec<u8> {
    let columns: Vec<usize> = sets.iter().map(|(column, _, _)| *column).collect();
    let combined = sets.iter().filter(|(_, _, combine)| *combine);
    let combined: Vec<usize> = combined.map(|(column, _, _)| *column).collect();
    masks::mask_combining(&columns, &combined, width)
}

/// A row of the ledger.
///
/// # Errors
/// What Arrow says; a mistake of the simulator.
pub(crate) fn ledger_row(known: &Known, batch: usize) -> Result<ChangeBatch, String> {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![batch as i64]));
    let columns = known
        .layout
        .schema
        .project(&[0])
        .map_err(|error| error.to_string())?;
    let data = RecordBatch::try_new(Arc::new(columns), vec![number]);
    Ok(ChangeBatch::upserts(
        data.map_err(|error| error.to_string())?,
        0,
    ))
}

/// The ledger's rows: SCU, row in it, number of the batch.
///
/// # Errors
/// What is wrong with a row.
pub(crate) fn ledger_rows(batch: &RecordBatch) -> Result<Vec<(u64, u64, i64)>, String> {
    let numbers = batch.column(0).as_any().downcast_ref::<Int64Array>();
    let numbers = numbers.ok_or("the ledger's numbers are no numbers")?;
    let keys = hidden_keys(batch.column(1))?;
    let half = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let row = |(at, key): (usize, &[u8])| match key.len() {
        16 => Ok((half(&key[..8]), half(&key[8..]), numbers.value(at))),
        other => Err(format!("a hidden key has {other} bytes")),
    };
    keys.into_iter().enumerate().map(row).collect()
}

fn hidden_keys(column: &ArrayRef) -> Result<Vec<&[u8]>, String> {
    use arrow::array::FixedSizeBinaryArray;
    let any = column.as_any();
    if let Some(keys) = any.downcast_ref::<BinaryArray>() {
        return Ok((0..keys.len()).map(|at| keys.value(at)).collect());
    }
    if let Some(keys) = any.downcast_ref::<FixedSizeBinaryArray>() {
        return Ok((0..keys.len()).map(|at| keys.value(at)).collect());
    }
    Err(format!("hidden keys are of type {}", column.data_type()))
}

/// Rows as they were read: the columns at these positions of the table's.
///
/// # Errors
/// The first cell that spells no number.
pub(crate) fn decode(
    draw: &TableDraw,
    columns: &[usize],
    batch: &RecordBatch,
    into: &mut Vec<Vec<Cell>>,
) -> Result<(), String> {
    if batch.num_columns() != columns.len() {
        return Err(format!(
            "{} columns were asked for, {} came",
            columns.len(),
            batch.num_columns()
        ));
    }
    for row in 0..batch.num_rows() {
        let cells = columns.iter().zip(batch.columns());
        let cells = cells.map(|(at, column)| draw.columns[*at].kind.number(column, row));
        into.push(cells.collect::<Result<_, _>>()?);
    }
    Ok(())
}

/// The columns of rows, in another order.
pub(crate) fn project(row: &Row, columns: &[usize]) -> Vec<Cell> {
    columns.iter().map(|at| row[*at]).collect()
}
