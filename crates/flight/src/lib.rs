//! Arrow Flight SQL over sessions of `lazybase-query`: what ADBC, JDBC and polars connect to.
//!
//! ```text
//!   listener -> admission: how long a message may be, before it is known whose it is
//!   service: headers -> sessions  -> whose session, with which settings for this call
//!      GetFlightInfo, CreatePrepared.. -> statements -> a handle: what is to be run, or was
//!      DoGet   -> answers   -> batches as the query makes them, then the stamp
//!              -> watched   -> what is given up is dropped, whether its client reads or not
//!      DoPut   -> updates   -> rows of parameters, or of an ingest, as one atomic batch
//!      DoAction -> actions  -> transactions, savepoints, cancel, session options
//!      catalog commands -> catalog, info
//! ```
//!
//! It knows Flight's messages and the order in which clients send them; what a statement means is
//! the session's. Nothing of an answer or of what is ingested is held but a few batches.

#![recursion_limit = "256"]

mod actions;
mod admission;
mod allowance;
mod answers;
mod calls;
mod catalog;
mod clock;
mod failure;
pub mod fuzz;
mod info;
mod input;
mod options;
mod peer;
mod server;
mod service;
mod sessions;
mod statements;
mod stream;
mod updates;
mod watched;
mod words;

pub use server::{Options, Server};
