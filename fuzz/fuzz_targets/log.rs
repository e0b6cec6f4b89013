//! Fuzzes `lazybase_engine::fuzz::read_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lazybase_engine::fuzz::read_log(bytes));
