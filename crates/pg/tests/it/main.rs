//! The server as clients meet it: `tokio-postgres` as the driver, and bytes where a driver would
//! never send them, against a server on a port of its own.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests make their own worlds, and fail where they stand"
)]

mod activity;
mod advisory;
mod catalog;
mod chains;
mod copying;
mod cursors;
mod encrypted;
mod entry;
mod extended;
mod formats;
mod heavy;
#[path = "../../../../tests/held.rs"]
mod held;
mod hostile;
mod json;
mod lifecycle;
mod load;
mod notices;
mod pipelines;
mod positions;
mod producers;
mod raw;
mod served;
mod settings;
mod simple;
#[path = "../../../../tests/skips.rs"]
mod skips;
mod temporary;
mod tools;
mod values;
mod ycsb;
