//! The server as clients meet it: `tokio-postgres` as the driver, and bytes where a driver would
//! never send them, against a server on a port of its own.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests make their own worlds, and fail where they stand"
)]

mod catalog;
mod copying;
mod extended;
mod hostile;
mod lifecycle;
mod served;
mod simple;
mod values;
mod ycsb;
