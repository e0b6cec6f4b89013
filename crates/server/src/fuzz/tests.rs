//! The corpus in `fuzz/corpus`, and what it becomes with a few bytes changed: nothing panics.

use lazybase_query::fuzz::{changes, is_survived};

use super::TARGETS;

#[test]
fn no_bytes_of_the_corpus_panic() {
    for (name, target) in TARGETS {
        is_survived(name, target, changes(300));
    }
}
