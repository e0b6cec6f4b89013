//! Fuzzes `lazybase_engine::fuzz::read_backup`.
#![no_main]

use lazybase_engine::fuzz::memory;
use lazybase_engine::fuzz::read_backup;

#[global_allocator]
static COUNTED: memory::Counted = memory::Counted;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memory::bounded(bytes, read_backup));
