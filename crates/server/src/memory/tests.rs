//! Tests of `memory`.

use super::*;

#[test]
fn queries_get_what_other_budgets_leave() {
    let settings = Settings::default();
    assert_eq!(left_of(1 << 30, &settings), QUERY_MEMORY_BYTES_MIN);
    let large = left_of(64 << 30, &settings);
    assert!(large > 36 << 30 && large < 39 << 30, "{large}");
}

#[test]
fn the_machines_memory_is_read() {
    let text = "MemTotal:       16384 kB\nMemFree:  12 kB\n";
    assert_eq!(total_of(text), Some(16 << 20));
    assert_eq!(total_of("nothing"), None);
}
