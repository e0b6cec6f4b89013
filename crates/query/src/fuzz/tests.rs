//! The corpus in `fuzz/corpus`, and what it becomes with a few bytes changed: nothing panics.
#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;

use super::{STACK_BYTES, TARGETS, Target};

/// The inputs of a target, with their names.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(folder.join(target)).unwrap() {
        let path = entry.unwrap().path();
        inputs.push((path.display().to_string(), std::fs::read(path).unwrap()));
    }
    inputs.sort();
    inputs
}

/// The input with some bytes gone, doubled or changed, drawn from a seed.
fn mutated(input: &[u8], seed: u64) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1;
    let mut roll = |sides: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % sides.max(1)
    };
    for _ in 0..1 + roll(3) {
        let (from, length) = (roll(bytes.len()), roll(8));
        let to = (from + length).min(bytes.len());
        match roll(4) {
            0 => drop(bytes.drain(from..to)),
            1 => bytes.extend_from_within(from..to),
            2 => bytes.insert(from, b"(),;'\"\\-0\n$\xff"[roll(12)]),
            _ if from < bytes.len() => bytes[from] = roll(256) as u8,
            _ => {}
        }
    }
    bytes
}

fn run(name: &str, target: Target) {
    let inputs = corpus(name);
    assert!(!inputs.is_empty(), "{name} has no corpus");
    for (path, input) in inputs {
        for seed in std::iter::once(None).chain((0..6).map(Some)) {
            let bytes = seed.map_or_else(|| input.clone(), |seed| mutated(&input, seed));
            let done = std::panic::catch_unwind(|| target(&bytes));
            let text = String::from_utf8_lossy(&bytes);
            assert!(
                done.is_ok(),
                "{name}: {path}, changed by {seed:?}: {text:?}"
            );
        }
    }
}

#[test]
fn no_bytes_of_the_corpus_panic() {
    let all = || TARGETS.iter().for_each(|(name, target)| run(name, *target));
    let thread = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(all)
        .unwrap();
    thread.join().unwrap();
}
