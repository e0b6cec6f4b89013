//! What can be had of `lazybase` without the binary, so that what reads bytes of others can be
//! fuzzed: its configuration, the files that it loads, its pages over HTTP, and errors as the
//! command line shows them. Everything else is the binary's own, in `main.rs`.

pub mod config;
pub mod failure;
pub mod fuzz;
mod memory;
pub mod pages;
pub mod source;
pub mod type_names;
pub mod wall;
