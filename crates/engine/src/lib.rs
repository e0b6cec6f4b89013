//! What happens to the bytes: stages, segments, the manifest and reads; no DataFusion, no
//! runtime, no clock of its own.
//!
//! ```text
//!   batches -> stages/ingest -> log ----+        (durable, acknowledged, open SCU, sealed)
//!                                       |
//!              stages/sort   -> runs ---+        (one run a view and SCU)
//!              stages/merge  -> runs ---+        (joined spans)
//!              stages/authority -> base-+        (plain rows)
//!                                       |
//!              manifest  <--------------+        (names all of it, one edit at a time)
//!                                       |
//!              read: freshness -> sources -> prune -> reconcile -> rows
//! ```
//!
//! Kernels take and give [`change_batch::ChangeBatch`]es and do no I/O. Everything that touches
//! the world goes through [`env::Env`], so that a simulation can replace it.

pub mod backup;
pub mod change_batch;
pub mod describe;
pub mod env;
mod framed_json;
pub mod fuzz;
pub mod ipc;
pub mod key;
pub mod manifest;
pub mod read;
pub mod schema;
pub mod segment;
pub mod stages;
pub mod ttl;
