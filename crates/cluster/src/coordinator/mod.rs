//! The coordinator: numbers SCUs, decides stage work, and is the only one that commits edits
//! (section 3.3 and 3.4 of the paper).
//!
//! ```text
//!   sealed SCUs --+
//!   reports ------+--> one loop over one enum of events --> edits --> manifest
//!   commands -----+                                     \-> tasks --> workers
//!   ticks --------+
//! ```
//!
//! Deciding is in [`policy`] (plain functions); this module and its children act.
//!
//! Invariant COORD-1: SCUs are sealed and sorts adopted in the order of their numbers.
//! Invariant COORD-2: no two running merges share an input run. Invariant COORD-3: a transaction's
//! DDL and batch are there once its edit is in the manifest's log, both, and not before.

mod check;
mod ddl;
mod event;
mod failed;
mod heal;
mod housekeeping;
mod numbers;
pub mod policy;
mod run;
mod silent;
mod table_spec;
mod tasks;
mod views;

pub(crate) use ddl::{DdlRequest, no_table};
pub use ddl::{Unchanged, check_views};
pub(crate) use event::{Command, Event};
pub(crate) use run::{Coordinator, CoordinatorParts};
pub use table_spec::{BoundsSpec, CutSpec, PartitionSpec, TableSpec, ViewSpec, range_bounds};
pub(crate) use table_spec::{define, define_view};
