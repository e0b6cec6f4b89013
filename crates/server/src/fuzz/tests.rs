//! The corpus in `fuzz/corpus`, and what it becomes with a few bytes changed: nothing panics.

use lazybase_query::fuzz::{changes, is_survived};

use super::TARGETS;

#[test]
fn no_bytes_of_the_corpus_panic() {
    for (name, target) in TARGETS {
        // A few bytes of Parquet can stand for very many rows.
        let often = match name {
            "load-parquet" => changes(300) / 10,
            _ => changes(300),
        };
        is_survived(name, target, often);
    }
}
