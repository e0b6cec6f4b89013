//! The corpus in `fuzz/corpus`, and what it becomes with a few bytes changed: for the tests that
//! `cargo test` runs of every target.

use std::panic::{RefUnwindSafe, catch_unwind};
use std::path::PathBuf;

use super::Target;

/// The inputs of a target, with their names.
fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut inputs = Vec::new();
    let listed = std::fs::read_dir(folder.join(target)).expect("each target has a folder");
    for entry in listed {
        let path = entry.expect("the folder can be listed").path();
        let bytes = std::fs::read(&path).expect("inputs can be read");
        inputs.push((path.display().to_string(), bytes));
    }
    inputs.sort();
    inputs
}

/// How often each input is changed: as usual, or as often as `LAZYBASE_FUZZ_CHANGES` says.
///
/// # Panics
/// When that is no number.
pub fn changes(usual: u64) -> u64 {
    match std::env::var("LAZYBASE_FUZZ_CHANGES") {
        Ok(asked) => asked.parse().expect("LAZYBASE_FUZZ_CHANGES is a number"),
        Err(_) => usual,
    }
}

/// What often stands where a parser looks.
const MARKS: [u8; 18] = *b"(),;'\"\\-0\n$\x00\x01\x7f\x80\xff{[";

/// The input with some bytes gone, doubled, cut off or changed, drawn from a seed.
fn mutated(input: &[u8], seed: u64) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1;
    let mut roll = |sides: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % sides.max(1)
    };
    for _ in 0..1 + roll(4) {
        let (at, length) = (roll(bytes.len()), roll(8));
        let to = (at + length).min(bytes.len());
        match roll(8) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, MARKS[roll(MARKS.len())]),
            2 => drop(bytes.drain(at..to)),
            3 => bytes.extend_from_within(at..to),
            4 if at < bytes.len() => bytes[at] = roll(256) as u8,
            _ if at < bytes.len() => bytes[at] = MARKS[roll(MARKS.len())],
            _ => {}
        }
    }
    bytes
}

/// Every input of the corpus as it is, then changed so often.
///
/// # Panics
/// When there is no input, or `fits` says of one what is wrong, or panics itself.
pub fn every(
    target: &str,
    changes: u64,
    fits: impl Fn(&[u8]) -> Result<(), String> + RefUnwindSafe,
) {
    let inputs = inputs(target);
    assert!(!inputs.is_empty(), "{target} has no corpus");
    for (path, input) in inputs {
        for seed in std::iter::once(None).chain((0..changes).map(Some)) {
            let bytes = seed.map_or_else(|| input.clone(), |seed| mutated(&input, seed));
            let done = catch_unwind(|| fits(&bytes));
            let text = String::from_utf8_lossy(&bytes);
            match done {
                Ok(Ok(())) => {}
                Ok(Err(what)) => panic!("{target}: {path}, changed by {seed:?}: {what}: {text:?}"),
                Err(_) => panic!("{target}: {path}, changed by {seed:?}, panics: {text:?}"),
            }
        }
    }
}

/// Nothing in the corpus makes a target panic.
///
/// # Panics
/// When something does.
pub fn is_survived(name: &str, target: Target, changes: u64) {
    every(name, changes, |bytes| {
        target(bytes);
        Ok(())
    });
}
