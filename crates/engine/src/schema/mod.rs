//! Schema changes: a table's next definition, and rows of one definition seen through another
//! (section 3.2 of the paper: typed columns; the design's section 3: DDL has a place in the order).
//!
//! ```text
//!   Alteration --altered--> the next definition --edit--> the manifest; nothing is rewritten
//!   rows under an older one (file, log frame, buffer) --Adapter--> rows under a newer one
//! ```
//!
//! Files say by id and type what their columns are, log frames by schema version. Whoever reads or
//! merges adapts: a column that a file does not know holds the value that was fixed when the column
//! was added, one that the definition does not have is left out, one that was widened is cast.
//!
//! Invariant SCH-1: adapting changes of a key and composing them gives what composing them and
//! adapting gives, SCUs included. Pure: no store, no clock.

mod adapt;
mod alter;
mod cell;
mod widen;

#[cfg(test)]
mod tests;

pub use adapt::Adapter;
pub use alter::{Alteration, altered, check_succession};
pub use cell::{decode_cell, encode_cell};
pub use widen::{Widening, widening};
