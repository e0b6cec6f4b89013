//! Fuzzes `lazybase_pg::fuzz::read_messages`.
#![no_main]

use lazybase_pg::fuzz::memory;
use lazybase_pg::fuzz::read_messages;

#[global_allocator]
static COUNTED: memory::Counted = memory::Counted;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memory::bounded(bytes, read_messages));
