//! The simulator through its command line, and its power to find what is planted; and stories in
//! its world that are about one thing, told step by step.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command;
mod harness;
mod planted;
mod refusals;
mod staleness;
#[cfg(feature = "planted-faults")]
mod told;
