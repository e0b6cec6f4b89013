//! What the system counts.

#![allow(clippy::unwrap_used)]

use std::io::Write;

use super::process_written;

#[test]
fn what_is_written_counts() {
    let before = process_written();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![7; 100_000]).unwrap();
    // Other tests write meanwhile; where the system does not count there is nothing to compare.
    let written = process_written() - before;
    assert!(written.is_nan() || written >= 100_000.0, "{written}");
}
