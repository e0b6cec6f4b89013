//! What a machine has no means for: said around the test harness, which keeps what passing tests
//! print, and noted for whoever runs all suites, who says it once more at the end.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a note beside the tests is no data"
)]

use std::io::Write;

/// Says that something is not tried, and why.
pub(crate) fn skip(what: &str) {
    let word = format!("SKIPPED: {what}\n");
    std::io::stderr().write_all(word.as_bytes()).unwrap();
    if let Some(notes) = std::env::var_os("LAZYBASE_SKIPPED") {
        let mut options = std::fs::OpenOptions::new();
        let mut notes = options.create(true).append(true).open(notes).unwrap();
        notes.write_all(word.as_bytes()).unwrap();
    }
}
