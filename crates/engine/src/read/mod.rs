//! Reads: from a freshness bound to plain rows (section 3.7 of the paper).
//!
//! ```text
//!   bound --freshness--> horizon + covering runs + unsorted SCUs     (pure)
//!         --scan-------> parts in key order, disjoint                (extent indexes only)
//!         --reconcile--> plain rows, where more than one source overlaps
//!   key   --point------> filter, index, one extent a run
//!   view  --delta------> its entries up to a boundary, and the table's changes since
//! ```
//!
//! A read that meets damage goes on, at the same horizon, with an earlier representation of the
//! same changes, or fails and names what is lost (`instead`).
//!
//! Invariant READ-1: a read opens no source past its horizon. Invariant READ-2: a row is dropped
//! or counted before reconciling only where one source alone holds its key range.

pub mod common_horizon;
pub mod damaged;
mod declared;
mod delta;
pub mod freshness;
mod hidden;
mod identify;
mod instead;
mod kept_rows;
mod key_map;
mod key_places;
mod keyed;
mod own;
pub mod paths;
mod point;
pub mod recompute;
pub mod remedy;
mod scan;
mod snapshot;
mod source;
mod steps;
mod turns;
mod unsorted;
mod view_check;
pub mod views;

use lazybase_model::Error;

pub use damaged::{Damaged, DamagedFiles};
pub use hidden::{HiddenColumn, read_times};
pub use identify::{Identifier, NextOfMaps, Place};
pub use own::OwnChanges;
pub use point::OneRow;
pub use scan::{ScanPart, ScanPlan, ScanRequest, SourceDescription};
pub use snapshot::{AsOf, OwnTable, Reader, ReaderParts, Snapshot, SnapshotAsk, summary};
pub use unsorted::UnsortedCache;
pub use view_check::ViewCheck;

/// Arrow refused what the engine knows to be well formed.
fn arrow_internal(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("rows can't be arranged: {error}"))
}
