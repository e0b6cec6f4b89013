//! Authority: the base run and the runs after it become the new base run (section 3.3 of the
//! paper: the least that must be read for an answer).
//!
//! It is a merge whose span begins at SCU 1, so every change meets its row or none: the base run,
//! being the oldest source, holds all rows that there are. Reads: sorted change batches of the
//! base run and of the adjacent runs after it, clipped to one key range. Writes: plain rows, that
//! is whole-row upserts with the SCUs of their cells; deletes vanish, and so do updates of rows
//! that are not there.
//!
//! Where `stages::merge::plan` finds a stretch of the base that no later run touches, it stays as
//! it is, without being read. A stretch of a later run alone may stand in the base only if it
//! holds whole-row upserts and nothing else.
//!
//! Invariant AUTHORITY-1: a row's SCU and the SCUs of its columns in the base are those that
//! applying every change of SCUs 1..=last one by one would leave.

use lazybase_model::Result;

use crate::stages::merge::{MergeMode, MergeShape, Merger, OutputSize};

#[cfg(test)]
mod tests;

/// The merger of a base run, source 0, and `later_runs` runs after it, older ones first.
///
/// # Errors
/// `Invalid` when a key column's type has no order.
pub fn base_merger(shape: &MergeShape, later_runs: usize, size: OutputSize) -> Result<Merger> {
    Merger::new(shape, 1 + later_runs, MergeMode::Rows, size)
}
