//! A seeded simulator of the whole database: the real coordinator, workers, ingest, manifest,
//! readers and collector in one thread, on a simulated clock, random and store. Writers, readers
//! and an operator use it; every answer is compared with a naive model.
//!
//! ```text
//!   seed -> story -> lives: open, actors, crash | close | rest -> outcome: violation? marks, hash
//!                      |                  |
//!              world, store         model: batches in order, rows at any horizon
//! ```
//!
//! One seed is one run, byte for byte: the hash of everything that happened tells two runs apart.

mod alter;
mod clock;
mod damage;
pub mod dice;
mod life;
pub mod marks;
mod mixes;
pub mod model;
mod names;
mod operator;
mod reader;
mod rows;
pub mod run;
pub mod schema;
mod sequences;
pub mod shrink;
pub mod store;
pub mod story;
pub mod sweep;
mod taker;
mod trim;
pub mod violation;
pub mod world;
mod writer;

pub use life::Tally;
pub use mixes::Mixes;
