//! The corpus in `fuzz/corpus`, and what it becomes with a few bytes changed: nothing panics.
#![allow(clippy::disallowed_methods)]

use super::{STACK_BYTES, TARGETS, is_survived};

#[test]
fn no_bytes_of_the_corpus_panic() {
    let all = || {
        for (name, target) in TARGETS {
            is_survived(name, target, 6);
        }
    };
    let thread = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(all)
        .unwrap();
    thread.join().unwrap();
}
