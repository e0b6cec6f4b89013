//! The binary as users meet it: arguments, output, exit status, on a real folder.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests make their own files, and fail where they stand"
)]

mod backup;
mod commands;
mod demo;
mod documents;
mod encrypted;
mod flight;
mod group;
#[path = "../../../../tests/http.rs"]
mod http;
mod limits;
mod load;
mod load_types;
mod loaded;
mod logged;
mod monitored;
mod planted;
mod prometheus;
mod refused;
mod repair;
mod role;
mod run;
mod serve;
mod server;
#[path = "../../../../tests/skips.rs"]
mod skips;
mod terminal;
mod traced;
mod url;
