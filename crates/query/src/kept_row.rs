//! A row that was read by its key, as it is kept in memory: who sends it cell by cell needs no
//! batch of it.
//!
//! Reads memory only. Rows are given so only where nothing of their table may be hidden from the
//! session (invariant LBL-2).

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use lazybase_engine::segment::{Cell, PackedRow};
use lazybase_model::{Error, Result};

use crate::scan::shown_column;

/// The only row of an answer.
#[derive(Debug)]
pub struct KeptRow {
    row: PackedRow,
    /// The positions in the table of the columns that are wanted.
    columns: Arc<[usize]>,
}

impl KeptRow {
    /// These columns of a row.
    pub(crate) fn new(row: PackedRow, columns: Arc<[usize]>) -> KeptRow {
        KeptRow { row, columns }
    }

    /// How many cells are wanted.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// A cell as it is stored, which for the types that it names is how SQL shows it.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn cell(&self, at: usize) -> Cell<'_> {
        self.row.cell(self.columns[at])
    }

    /// A cell as SQL shows it, as an array of one.
    ///
    /// # Errors
    /// `Internal` when it is no value of its type.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn column(&self, at: usize) -> Result<ArrayRef> {
        Ok(shown_column(&self.row.array(self.columns[at])?))
    }

    /// The row as SQL shows it.
    pub(crate) fn batch(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        let columns = (0..self.width()).map(|at| self.column(at));
        RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_>>()?)
            .map_err(|error| Error::internal(error.to_string()))
    }
}
