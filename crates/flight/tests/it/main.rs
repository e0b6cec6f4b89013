//! The server as clients meet it: arrow-flight's own client for Flight SQL, and messages that no
//! client would send, against a server on a port of its own.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests make their own worlds, and fail where they stand"
)]

mod activity;
mod catalog;
mod encrypted;
#[path = "../../../../tests/held.rs"]
mod held;
mod hostile;
mod ingest;
mod load;
mod prepared;
mod queries;
mod roles;
mod served;
mod sessions;
mod types;
mod unread;
