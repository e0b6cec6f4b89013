//! Remap: from natural keys to numbers (sections 3.2 and 3.4 of the paper; design 0007).
//!
//! ```text
//!   ingest   natural keys of a batch, each once --> rows of the key map without a number
//!            ID columns: -1 - place of the key among them      (nobody is asked)
//!   remap    mentions of an SCU --distinct--> known in the map? --no--> the next number
//!            the same for the worker, and for readers that come earlier
//!   sort     ID columns: places --> numbers; rows of the map: the new keys;
//!            rows of the owner: where a reference mentioned a new key
//! ```
//!
//! Pure. Numbers follow from the map and the next numbers before the SCU, and from the order of
//! mentions in it (`lazybase_model::id_key`). Invariant ID-1: the numbers of the first k batches
//! are the same whatever comes after them, so that a reader of the open SCU is told what the
//! worker will write. Invariant ID-2: no temporary ID leaves this module for a sort or a reader.

pub(crate) mod assign;
pub mod key_table;
pub(crate) mod mention;
pub(crate) mod rewrite;
pub(crate) mod sorted_keys;

pub(crate) use assign::{Assigned, Known, Mentions, RemapState};
pub(crate) use mention::BatchKeys;
pub use mention::{KeyedChanges, MentionedKeys};
pub use rewrite::rows_of_owner;

#[cfg(test)]
mod tests;
