//! Ingest as a whole: what was acknowledged is there, whole, once, whatever happens.

#[path = "tests/crash.rs"]
mod crash;
#[path = "tests/faults.rs"]
mod faults;
#[path = "tests/gone.rs"]
mod gone;
#[path = "tests/order.rs"]
mod order;
#[path = "tests/prepared.rs"]
mod prepared;
#[path = "tests/world.rs"]
mod world;
