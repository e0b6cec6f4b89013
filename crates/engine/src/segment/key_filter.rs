//! A filter over encoded keys, so that a point read opens only extents that hold the key
//! (section 3.8 of the paper).
//!
//! A split-block Bloom filter: blocks of 32 bytes, eight 32-bit words each, of which a key sets
//! one bit a word. One filter an extent, about ten bits a key, so that an extent that is copied
//! as bytes carries its filter along undecoded. Invariant KF-1: a filter never denies a key that
//! was put in. The hash is persisted by its effect: `docs/formats/segment-extent.md`.

use twox_hash::XxHash3_64;

#[cfg(test)]
mod tests;

/// Bits that a filter spends on a key.
const BITS_PER_KEY: usize = 10;
const BLOCK_BYTES: usize = 32;
const SALTS: [u32; 8] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];

/// The hash of an encoded key that filters use: XXH3-64 without a seed.
pub fn key_hash(key: &[u8]) -> u64 {
    XxHash3_64::oneshot(key)
}

fn block_of(hash: u64, blocks: usize) -> usize {
    (((hash >> 32) * blocks as u64) >> 32) as usize
}

fn bit_of(hash: u64, salt: u32) -> u32 {
    1 << ((hash as u32).wrapping_mul(salt) >> 27)
}

/// A filter that holds the keys of these hashes.
pub fn build(hashes: &[u64]) -> Vec<u8> {
    let blocks = (hashes.len() * BITS_PER_KEY)
        .div_ceil(BLOCK_BYTES * 8)
        .max(1);
    let mut words = vec![[0u32; 8]; blocks];
    for hash in hashes {
        let block = &mut words[block_of(*hash, blocks)];
        for (word, salt) in block.iter_mut().zip(SALTS) {
            *word |= bit_of(*hash, salt);
        }
    }
    let mut bytes = Vec::with_capacity(blocks * BLOCK_BYTES);
    for word in words.iter().flatten() {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Whether the key of this hash may have been put into `filter`. An empty filter denies nothing.
pub fn may_contain(filter: &[u8], hash: u64) -> bool {
    let (blocks, _) = filter.as_chunks::<BLOCK_BYTES>();
    if blocks.is_empty() {
        return true;
    }
    let block = &blocks[block_of(hash, blocks.len())];
    let (words, _) = block.as_chunks::<4>();
    words
        .iter()
        .zip(SALTS)
        .all(|(word, salt)| u32::from_le_bytes(*word) & bit_of(hash, salt) != 0)
}
