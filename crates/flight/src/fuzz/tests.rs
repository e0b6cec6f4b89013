//! The corpus in `fuzz/corpus`, and what it becomes with a few bytes changed: nothing panics.
#![allow(clippy::disallowed_methods)]

use std::path::Path;

use lazybase_query::fuzz::{STACK_BYTES, changes, is_survived};

use super::TARGETS;
use super::calls::answered;

/// Statements are planned, which takes stack.
fn on_a_stack(work: fn()) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    thread.spawn(work).unwrap().join().unwrap();
}

#[test]
fn no_bytes_of_the_corpus_panic() {
    on_a_stack(|| {
        for (name, target) in TARGETS {
            // Calls plan statements, which takes long where nothing is optimised.
            let often = match name {
                "calls" => changes(200) / 10,
                _ => changes(200),
            };
            is_survived(name, target, often);
        }
    });
}

/// What is refused from the first byte on would try nothing.
#[test]
fn calls_of_the_corpus_are_answered() {
    on_a_stack(|| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/calls");
        for file in std::fs::read_dir(Path::new(folder)).unwrap() {
            let path = file.unwrap().path();
            let (calls, well) = answered(&std::fs::read(&path).unwrap());
            assert!(calls > 1 && well == calls, "{path:?}: {well} of {calls}");
        }
    });
}
