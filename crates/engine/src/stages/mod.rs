//! The stages, in the order of the flow (section 3.3 of the paper).
//!
//! ```text
//!   ingest -> remap -> sort -> merge -> authority
//! ```
//!
//! Each is a pure kernel over change batches, wrapped by code that fetches, runs, writes and
//! reports. Running an attempt twice is harmless: outputs get fresh names and count only when a
//! manifest edit adopts them.

pub mod authority;
pub mod ingest;
pub mod merge;
pub mod remap;
pub mod sort;
