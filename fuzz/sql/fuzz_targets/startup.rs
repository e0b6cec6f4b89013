//! Fuzzes `lazybase_pg::fuzz::read_startup`.
#![no_main]

use lazybase_pg::fuzz::memory;
use lazybase_pg::fuzz::read_startup;

#[global_allocator]
static COUNTED: memory::Counted = memory::Counted;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memory::bounded(bytes, read_startup));
