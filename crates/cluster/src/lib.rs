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
mod backup;
mod condemned;
pub mod coordinator;
mod instance;
pub mod lag;
mod manifest_files;
mod parts;
mod repair;
mod sequences;
mod settings;
mod shared;
mod status;
mod task;
mod trace;
mod verify;
mod verify_table;
mod worker;

pub use backup::{
    BackupReport, ListedBackup, PruneReport, PruneRequest, RestoreReport, RestoreRequest,
    list_backups, open_to_prune, open_to_restore, prune_backups, restore, verify_backups,
};
pub use coordinator::{
    BoundsSpec, CutSpec, PartitionSpec, TableSpec, Unchanged, ViewSpec, check_views, range_bounds,
};
pub use instance::{Acknowledgement, AsOf, BatchWriter, Instance, SettleTo, SnapshotRequest};
pub use lazybase_engine::segment::CacheUsage;
pub use lazybase_engine::stages::ingest::{
    BatchNumber, IngestStatus, LogCompression, WaitingWriter,
};
pub use repair::{Damage, Examination, SetAside, examine, finish_set_aside, set_aside};
pub use settings::Settings;
pub use shared::{
    DamageState, DamageStatus, FinishedTask, SilentAttempts, SparseWork, StageTotals, StageWork,
    Trouble,
};
pub use status::{HeldPin, StageHoldings, Status, SupersededStatus};
pub use task::{StageName, TaskId, TaskStatus};
pub use trace::SPAN_LINKS_MAX;
pub use verify::VerifyReport;
pub use verify_table::{Outcome, StageCheck, TableReport};
