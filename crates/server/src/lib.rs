//! What can be had of `lazybase` without the binary: its configuration, and errors as the command
//! line shows them; so that what reads a file of the user's can be fuzzed. Everything else is the
//! binary's own, in `main.rs`.

pub mod config;
pub mod failure;
pub mod fuzz;
mod memory;
