//! Merge: 2..k adjacent runs of one view and key range become one run of the joined span
//! (section 3.3 of the paper: the merge tree; section 3.8: extents that are copied).
//!
//! ```text
//!   plan: which segments move, which extents are copied as bytes, which key stretches need work
//!     -> per stretch: sorted change batches of each run -> Merger -> one sorted stream
//! ```
//!
//! Reads: per source, batches of stored changes, sorted by key, one change a key (a split pair is
//! one change), keys rising from batch to batch. Writes: the same, with the changes of a key from
//! several sources composed, oldest source first. [`MergeMode::Rows`] composes onto "no row": plain
//! rows come out, deletes vanish, and so do updates of rows that are not there. The authority
//! stage writes that. [`MergeMode::Values`], the same without versions, is the reconciling of every
//! read.
//!
//! The kernel is synchronous and does no I/O: [`Merger::step`] says which source it needs a batch
//! of. [`drive`] connects it with asynchronous sources.
//!
//! Invariant MERGE-1: the result is the same, as functions, for any grouping of a span into
//! merges. Invariant MERGE-2: what a merger holds is bounded by one batch a source and one output.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use lazybase_model::{Error, MergeOperator, Result};

use crate::change_batch::ChangeBatch;
use crate::key::Partitioner;
use crate::manifest::KeyRange;
use crate::segment::RowLayout;

pub(crate) mod compose;
pub(crate) mod keys;
mod merger;
pub mod patch;
pub mod plan;
#[cfg(test)]
pub(crate) mod tests;

pub use merger::{Merger, Step};

/// What a merge makes of the changes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MergeMode {
    /// One change: their composition. For runs whose span does not begin at SCU 1.
    Changes,
    /// The plain row that they make of no row, if they make one. For base runs; the sources must
    /// reach back to the base.
    Rows,
    /// As [`MergeMode::Rows`], without the SCUs that set the rows and their cells. For reads, whose
    /// rows then stay in place in their batch where single cells of them are updated.
    Values,
}

impl MergeMode {
    /// Whether plain rows come out, and not changes.
    pub(crate) fn makes_rows(self) -> bool {
        self != MergeMode::Changes
    }
}

/// How large output batches get: whichever is reached first ends one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputSize {
    /// Stored rows.
    pub rows: usize,
    /// Bytes, estimated from the mean row of each input batch.
    pub bytes: usize,
}

impl Default for OutputSize {
    fn default() -> OutputSize {
        OutputSize {
            rows: 8192,
            bytes: 4 << 20,
        }
    }
}

/// The columns of the batches that kernels see, and which of them are the key.
#[derive(Debug, Clone)]
pub struct MergeShape {
    /// The columns.
    pub schema: SchemaRef,
    /// The positions of the key's columns in `schema`, most significant first.
    pub key: Vec<usize>,
    /// What tells the partitions of keys apart, where the kernel sees several of them.
    pub partitioner: Option<Arc<Partitioner>>,
    /// The columns' merge operators.
    pub operators: Operators,
}

/// The merge operators of columns, by position; empty where no column has one.
pub type Operators = Arc<[Option<MergeOperator>]>;

/// The operators of a table's columns.
pub(crate) fn operators_of(operators: impl Iterator<Item = Option<MergeOperator>>) -> Operators {
    let operators: Vec<Option<MergeOperator>> = operators.collect();
    match operators.iter().any(Option::is_some) {
        true => operators.into(),
        false => Operators::default(),
    }
}

impl MergeShape {
    /// All columns of a view.
    pub fn of(layout: &RowLayout) -> MergeShape {
        MergeShape {
            schema: layout.schema.clone(),
            key: layout.codec.indices().to_vec(),
            partitioner: layout.codec.partitioner().cloned(),
            operators: Arc::clone(&layout.operators),
        }
    }

    /// The shape of batches whose keys all lie in `range`: inside one partition, the columns of
    /// the key decide alone.
    pub fn within(mut self, range: &KeyRange) -> MergeShape {
        self.partitioner
            .take_if(|partitioner| partitioner.holds_all_of(range));
        self
    }

    /// The shape of batches that went through [`ChangeBatch::project`] with the same columns,
    /// among which the key's must be: rows meet by key. Masks and column SCUs then have one entry
    /// for each projected column, and the merged rows still have the SCUs of whole rows.
    ///
    /// # Errors
    /// `Internal` when a column is not there or a key column is not chosen.
    pub fn project(&self, columns: &[usize]) -> Result<MergeShape> {
        let schema = self.schema.project(columns);
        let schema = schema.map_err(|error| Error::internal(error.to_string()))?;
        let place = |key: &usize| columns.iter().position(|column| column == key);
        let key: Option<Vec<usize>> = self.key.iter().map(place).collect();
        let operator = |column: &usize| self.operators.get(*column).copied().flatten();
        Ok(MergeShape {
            schema: schema.into(),
            key: key.ok_or_else(|| Error::internal("a projection lacks a key column"))?,
            partitioner: self.partitioner.clone(),
            operators: operators_of(columns.iter().map(operator)),
        })
    }
}

/// Feeds a merger from its sources, oldest first, and gives what it puts out.
///
/// A source is polled only when its rows are needed next; wrap sources that should read ahead.
pub fn drive(
    merger: Merger,
    sources: Vec<BoxStream<'static, Result<ChangeBatch>>>,
) -> impl Stream<Item = Result<ChangeBatch>> + Send + 'static {
    stream::try_unfold((merger, sources), |(mut merger, mut sources)| async move {
        loop {
            match merger.step()? {
                Step::Done => return Ok(None),
                Step::Output(batch) => return Ok(Some((batch, (merger, sources)))),
                Step::Need(source) => {
                    let next = match sources.get_mut(source) {
                        Some(source) => source.try_next().await?,
                        None => None,
                    };
                    merger.supply(source, next)?;
                }
            }
        }
    })
}

/// The rows that a snapshot holds, without versions: what its sources make of no row, oldest source
/// first.
///
/// This is how a read joins the base run, later runs, and freshly sorted batches of SCUs that no
/// stage has reached. The sources yield batches of `shape`, clipped to the key range at hand; the
/// oldest ones must reach back to the base. A range with one source of plain rows needs no merge.
///
/// A filter on anything but the key comes after this, never before: a source's row that fails it
/// may hide an older one that passes.
///
/// # Errors
/// `Internal` when the key's columns have no order; the stream's own errors are those of the
/// sources, and `Corrupt` for hidden columns that can't be decoded.
pub fn reconcile(
    shape: &MergeShape,
    sources: Vec<BoxStream<'static, Result<ChangeBatch>>>,
    size: OutputSize,
) -> Result<BoxStream<'static, Result<ChangeBatch>>> {
    let merger = Merger::new(shape, sources.len(), MergeMode::Values, size)?;
    Ok(drive(merger, sources).boxed())
}

/// The same, with the versions of the rows and of their cells.
///
/// # Errors
/// As [`reconcile`].
pub fn reconcile_versions(
    shape: &MergeShape,
    sources: Vec<BoxStream<'static, Result<ChangeBatch>>>,
    size: OutputSize,
) -> Result<BoxStream<'static, Result<ChangeBatch>>> {
    let merger = Merger::new(shape, sources.len(), MergeMode::Rows, size)?;
    Ok(drive(merger, sources).boxed())
}
