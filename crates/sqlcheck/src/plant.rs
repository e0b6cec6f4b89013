//! Mistakes that are made on purpose in what is heard of LazyBase, to see that they are found.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use clap::ValueEnum;
use lazybase_model::{Error, Result};
use lazybase_query::Answer;

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plant {
    /// Answers lose a row.
    LostRow,
    /// A row of an answer comes twice.
    RowTwice,
    /// Rows come in the other order.
    OtherOrder,
    /// A cell of one row stands in another one.
    WrongCell,
    /// Queries fail for what rows hold.
    Failure,
    /// Both sides lose all rows, as if the planner were wrong.
    BothSides,
    /// One row more is told to be changed.
    WrongCount,
    /// Changes are acknowledged as those of the next SCU.
    WrongScu,
    /// SCUs are said to be a second younger, when their times are asked for.
    WrongTime,
}

impl Plant {
    /// What is heard in the place of an answer.
    pub(crate) fn heard(self, answer: Result<Answer>) -> Result<Answer> {
        let mut answer = answer?;
        let batches = &mut answer.batches;
        match self {
            Plant::LostRow => {
                if let Some(last) = batches.last_mut() {
                    *last = last.slice(0, last.num_rows().saturating_sub(1));
                }
            }
            Plant::RowTwice => batches.extend(batches.first().cloned().map(|one| one.slice(0, 1))),
            Plant::OtherOrder => {
                let rows = batches.iter().rev().flat_map(|batch| {
                    let rows = (0..batch.num_rows()).rev();
                    rows.map(move |row| batch.slice(row, 1))
                });
                *batches = rows.collect();
            }
            Plant::WrongCell => {
                for batch in batches {
                    if batch.num_rows() > 1 {
                        *batch = with_wrong_cell(batch)?;
                    }
                }
            }
            Plant::Failure => {
                return Err(Error::invalid("planted").with_sqlstate("22003"));
            }
            Plant::BothSides => batches.clear(),
            Plant::WrongCount | Plant::WrongScu | Plant::WrongTime => {}
        }
        Ok(answer)
    }
}

/// The first two rows have the first column of each other.
fn with_wrong_cell(batch: &RecordBatch) -> Result<RecordBatch> {
    let told = |error| Error::internal(format!("a planted cell: {error}"));
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    let first = &columns[0];
    let parts = [
        first.slice(1, 1),
        first.slice(0, 1),
        first.slice(2, first.len() - 2),
    ];
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    columns[0] = concat(&parts).map_err(told)?;
    RecordBatch::try_new(Arc::clone(&batch.schema()), columns).map_err(told)
}
