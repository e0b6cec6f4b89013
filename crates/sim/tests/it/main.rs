//! The simulator through its command line, and its power to find what is planted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod command;
mod planted;
