//! The nouns of LazyBase as types, and the algebra of changes; no I/O, no clock, no async.
//!
//! ```text
//!   scu        SCU numbers, spans, horizons: the total order of batches
//!   change     what happens to one row, and how changes compose
//!   access     roles, grants, and what they come to
//!   table      tables, columns, views and their stable numeric ids
//!   sequence   numbers that are given out one after the other
//!   id_key     numbers for natural keys, and how they are given out
//!   label      who may read a row or a cell, as an expression
//!   freshness  the bound a query sets on staleness, and what to do when it can't be met
//!   moment     a moment as people write it
//!   stamp      what every answer says about itself
//!   token      an acknowledgement's horizon, portable between clients
//!   limits     every bound of the system, in one place
//!   error      what went wrong, by what the caller does next
//!   text_place where in a statement's text
//! ```

pub mod access;
pub mod change;
pub mod error;
pub mod freshness;
pub mod id_key;
pub mod label;
pub mod limits;
pub mod moment;
pub mod partition;
pub mod scu;
pub mod sequence;
pub mod stamp;
pub mod table;
pub mod text_place;
pub mod token;

pub use error::{Error, ErrorKind, Result};
pub use freshness::{Freshness, OnMiss};
pub use id_key::{IdKeyColumn, KeyMap, NextIds};
pub use partition::{PartitionChange, Partitioning, RangeBounds};
pub use scu::{BatchCount, Horizon, ScuNumber, Span};
pub use sequence::{Sequence, SequenceId};
pub use stamp::{SourceCounts, Stage, Stamp};
pub use table::TimeToLive;
pub use table::{
    CellBytes, Column, ColumnDefault, ColumnId, IdentityKind, LabelRole, Layout, MergeOperator,
    SchemaVersion, Table, TableId, TableName, UsedColumn, UsedTable, View, ViewId, ViewQuery,
};
pub use text_place::TextPlace;
pub use token::{DatabaseId, Token};
