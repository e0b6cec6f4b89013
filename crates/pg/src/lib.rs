//! The PostgreSQL protocol over sessions of `lazybase-query`: what psql, drivers and dashboards
//! connect to.
//!
//! ```text
//!   listener -> connection: startup -> TLS -> entry: who it is -> messages, one by one
//!                 Query                   -> simple   -> statements, one after the other
//!                 Parse Bind Execute Sync -> extended -> prepared statements, portals
//!                 CopyData                -> copy     -> a thread that reads rows from a pipe
//!               rows: Arrow batches -> cells -> text or binary, a few batches in memory
//! ```
//!
//! It knows the messages (those of the crate `pgwire`), the formats of values and the order in
//! which clients want their answers. It knows nothing of SQL but a few first words: what a
//! statement means is the session's.

#![recursion_limit = "256"]

mod cells;
mod connection;
mod copy;
mod cursors;
mod decimal;
mod entry;
mod extended;
mod failure;
pub mod fuzz;
mod input;
mod messages;
mod parameters;
mod pipe;
mod server;
mod simple;
mod startup;
mod types;
mod words;

pub use lazybase_tls::{Descriptors, Tls, TlsFiles};
pub use server::{Options, Server};
