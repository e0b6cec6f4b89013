//! The manifest: the numbered, immutable value that names every SCU, run and segment.
//!
//! ```text
//!   Edit  --apply-->  Manifest  --check(old, new)-->  commit: manifest/{number} put-if-absent
//! ```
//!
//! The log of edits is the truth; checkpoints make opening quick. Readers pin a manifest, and
//! collection deletes only what no pinned or retained manifest names.
//!
//! | module | holds |
//! | --- | --- |
//! | `state`, `edit` | the value, and what can happen to it |
//! | `apply`, `check`, `partitions` | edit by edit, under named invariants |
//! | `graph`, `cut` | which runs answer at which boundary; the manifest of an earlier one |
//! | `file`, `load`, `store`, `verify` | the bytes, opening, committing, looking at every file |
//! | `due` | when a checkpoint is written |
//! | `pins`, `collect`, `superseded` | who reads what, what may go, and what must |
//! | `unchanged` | what became of the ranges that an earlier manifest had |

mod apply;
pub mod check;
pub mod collect;
mod cut;
mod due;
pub mod edit;
pub mod file;
pub mod graph;
pub mod history;
pub mod literal;
mod load;
mod partitions;
pub mod pins;
pub mod state;
pub mod store;
pub mod superseded;
mod unchanged;
mod verify;

pub(crate) use apply::view_fits;
pub use collect::Sweep;
pub use edit::{Ddl, Edit, HealedRun, RetiredRun, VersionStep};
pub use graph::Edge;
pub use partitions::Repartitioned;
pub use pins::{Pin, PinStatus, PinnedManifest, Pins};
pub use state::{
    DdlBatch, KeyRange, LogPiece, Manifest, OlderTable, ProducerMark, RangeState, Run, RunId,
    RunKind, RunRef, ScuEntry, ScuTime, SegmentFormat, SegmentMeta, SequenceState, TableState,
};
pub use store::{ManifestStore, Tended};
pub use unchanged::{Became, Unchanged};
pub use verify::verify_files;

#[cfg(test)]
pub(crate) mod testing;
