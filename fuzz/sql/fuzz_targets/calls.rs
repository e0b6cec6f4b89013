//! Fuzzes `lazybase_flight::fuzz::read_calls`.
#![no_main]

use lazybase_flight::fuzz::memory;
use lazybase_flight::fuzz::{forgive_caught_panics, read_calls};

#[global_allocator]
static COUNTED: memory::Counted = memory::Counted;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    forgive_caught_panics();
    memory::bounded(bytes, read_calls)
});
