//! Who runs which stage when (sections 3.3 and 3.4 of the paper): ingest, coordinator and workers
//! of one process behind one handle.
//!
//! ```text
//!   BatchWriter -> ingest -> sealed SCUs -> coordinator --tasks--> workers
//!                                             |   ^                  |
//!                                             v   +-----reports------+
//!                                          manifest -> Snapshot
//! ```
//!
//! Deciding is apart from acting: [`coordinator::policy`] and `adopt` are plain functions.

mod adopt;
pub mod coordinator;
mod instance;
mod settings;
mod shared;
mod status;
mod task;
mod verify;
mod worker;

pub use coordinator::{BoundsSpec, CutSpec, PartitionSpec, TableSpec, ViewSpec, range_bounds};
pub use instance::{Acknowledgement, AsOf, BatchWriter, Instance, SettleTo, SnapshotRequest};
pub use lazybase_engine::stages::ingest::{BatchNumber, LogCompression, WaitingWriter};
pub use settings::Settings;
pub use shared::{DamageState, DamageStatus, FinishedTask, StageTotals, Trouble};
pub use status::{HeldPin, StageHoldings, Status};
pub use task::{StageName, TaskId, TaskStatus};
pub use verify::VerifyReport;
