//! The corpus in `fuzz/corpus`, and what it becomes with a few bytes changed: nothing panics.
#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;

use super::{TARGETS, Target};

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

/// The input with some bytes changed, drawn from a seed.
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
        let at = roll(bytes.len());
        let values = [0, 1, 0x7f, 0x80, 0xff, roll(256) as u8];
        match roll(5) {
            0 if at < bytes.len() => bytes.truncate(at),
            1 => bytes.insert(at, values[roll(6)]),
            _ if at < bytes.len() => bytes[at] = values[roll(6)],
            _ => {}
        }
    }
    bytes
}

fn run(name: &str, target: Target) {
    let inputs = corpus(name);
    assert!(!inputs.is_empty(), "{name} has no corpus");
    for (path, input) in inputs {
        let change = |seed: Option<u64>| match seed {
            Some(seed) => mutated(&input, seed),
            None => input.clone(),
        };
        for seed in std::iter::once(None).chain((0..40).map(Some)) {
            let bytes = change(seed);
            let done = std::panic::catch_unwind(|| target(&bytes));
            assert!(
                done.is_ok(),
                "{name}: {path}, changed by {seed:?}: {bytes:?}"
            );
        }
    }
}

#[test]
fn no_bytes_of_the_corpus_panic() {
    for (name, target) in TARGETS {
        run(name, target);
    }
}

/// The first numbers of what follows claim gigabytes: they are refused before any are taken.
#[test]
fn lengths_are_believed_only_as_far_as_bytes_are_there() {
    let mut extent = vec![1, 0, 1, 0];
    extent.extend_from_slice(&u32::MAX.to_le_bytes());
    extent.extend_from_slice(&[0; 40]);
    for (_, target) in TARGETS {
        target(&extent);
    }
    extent[0] = 2;
    super::read_extents(&extent);
    super::read_log(&[2, 1, 62, 0, 0, 0, 0, 0, 0, 0, 0]);
    super::read_log(&[3, 1, 200, 0, 0, 0, 0, 0, 0, 0, 0]);
}
