//! Filters never deny a key that is there, and mostly deny those that are not.

use super::*;

#[test]
fn no_false_negative_and_few_false_positives() {
    for keys in [1u64, 2, 55, 2730, 8192] {
        let hashes: Vec<u64> = (0..keys).map(|key| key_hash(&key.to_be_bytes())).collect();
        let filter = build(&hashes);
        assert!(hashes.iter().all(|hash| may_contain(&filter, *hash)));
        let others = (keys..keys + 20_000).map(|key| key_hash(&key.to_be_bytes()));
        let wrong = others.filter(|hash| may_contain(&filter, *hash)).count();
        assert!(wrong < 600, "{wrong} of 20,000 with {keys} keys");
    }
}

#[test]
fn persisted_bits_never_change() {
    assert_eq!(key_hash(b"flight"), 10_546_899_814_576_122_986);
    let filter = build(&[key_hash(b"flight")]);
    assert_eq!(crc32c::crc32c(&filter), 4_130_262_334);
}
