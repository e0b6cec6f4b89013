//! The running database, tested through its handle: random batches over random stages against a
//! naive model, crashes, kills, full disks, batches larger than memory, and what operators do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alter;
mod backup;
mod big_batch;
mod crash;
mod damage;
mod ddl;
mod failed_sync;
mod hang;
mod hang_reads;
mod harness;
mod heal;
mod id_keys;
mod kept_rows;
mod kill;
mod model;
mod mounts;
mod power_cut;
mod prune;
mod repair;
mod retention;
mod sequences;
mod settle;
#[path = "../../../../tests/skips.rs"]
mod skips;
mod sparse;
mod stages;
mod superseded;
mod verify_table;
mod world;
