//! Writes: INSERT, UPDATE and DELETE as changes that read nothing they need not read (design
//! section 4).
//!
//! ```text
//!   insert   rows with defaults, checked     -> whole-row upserts, or the halves of ON CONFLICT
//!   change   WHERE names full keys           -> changes of these keys, nothing read
//!            any other WHERE                 -> a query finds the keys, changes are written blind
//!   matches  UPDATE ... FROM other           -> of the rows that match one key, the first
//!   moved    SET of the key, where it is all -> deletes of the keys found, rows of the new ones
//!   sink     one batch a statement, or the transaction's buffer
//!   returning  what is told of rows, once they are kept: as they are written, or as found
//!   values_query  rows of VALUES that only a query can give
//!   places   constants that are no values    -> where they stand in the text
//! ```

pub(crate) mod change;
pub(crate) mod defaults;
pub(crate) mod insert;
mod matches;
pub(crate) mod moved;
mod places;
pub(crate) mod returning;
pub(crate) mod sink;
mod values_query;
