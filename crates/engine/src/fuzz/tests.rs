//! The corpus in `fuzz/corpus`, and what it becomes with a few bytes changed: nothing panics, and
//! nothing takes more memory than its bytes pay for.

use super::memory::{Counted, most_held};
use super::{TARGETS, corpus};

#[global_allocator]
static COUNTED: Counted = Counted;

/// What few bytes may take, whatever they claim: a store in memory, a manifest, a schema.
const FEW_BYTES_TAKE: usize = 2 << 20;

#[test]
fn no_bytes_of_the_corpus_panic_or_take_what_they_do_not_pay_for() {
    for (name, target) in TARGETS {
        corpus::every(name, 40, |bytes| {
            let held = most_held(|| target(bytes));
            match held > FEW_BYTES_TAKE + (bytes.len() << 10) {
                true => Err(format!("{} bytes take {held}", bytes.len())),
                false => Ok(()),
            }
        });
    }
}

#[test]
fn what_is_taken_is_counted() {
    let held = most_held(|| drop(Vec::<u8>::with_capacity(10 << 20)));
    assert!(held >= 10 << 20, "{held}");
}

/// The first numbers of what follows claim gigabytes: they are refused before any are taken.
#[test]
fn lengths_are_believed_only_as_far_as_bytes_are_there() {
    let mut extent = vec![1, 0, 1, 0];
    extent.extend_from_slice(&u32::MAX.to_le_bytes());
    extent.extend_from_slice(&[0; 40]);
    let few = |what: &str, target: fn(&[u8]), bytes: &[u8]| {
        let held = most_held(|| target(bytes));
        assert!(held < FEW_BYTES_TAKE, "{what}: {held} bytes are taken");
    };
    for (name, target) in TARGETS {
        few(name, target, &extent);
    }
    extent[0] = 2;
    few("extents", super::read_extents, &extent);
    few("log", super::read_log, &[2, 1, 62, 0, 0, 0, 0, 0, 0, 0, 0]);
    few("log", super::read_log, &[3, 1, 200, 0, 0, 0, 0, 0, 0, 0, 0]);
}
