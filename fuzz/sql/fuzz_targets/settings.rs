//! Fuzzes `lazybase_query::fuzz::read_settings`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lazybase_query::fuzz::read_settings(bytes));
