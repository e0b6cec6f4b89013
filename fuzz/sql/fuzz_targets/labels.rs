//! Fuzzes `lazybase_query::fuzz::read_label`.
#![no_main]

use lazybase_query::fuzz::memory;
use lazybase_query::fuzz::read_label;

#[global_allocator]
static COUNTED: memory::Counted = memory::Counted;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memory::bounded(bytes, read_label));
