//! The corpus in `fuzz/corpus`, and what it becomes with a few bytes changed: nothing panics.
#![allow(clippy::disallowed_methods)]

use super::{STACK_BYTES, TARGETS, changes, is_survived};

#[test]
fn no_bytes_of_the_corpus_panic() {
    let threads = TARGETS.map(|(name, target)| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let all = move || is_survived(name, target, changes(6));
        thread.spawn(all).unwrap()
    });
    for thread in threads {
        thread.join().unwrap();
    }
}
