//! Some keys of a [`KeyTable`] in their order, side by side in memory: a table of millions is read
//! once in its own order, and each run of a key map then meets its keys one after the other.
//!
//! Pure.

use super::key_table::KeyTable;

/// Encoded keys in order, each with its hash and its place in the table.
#[derive(Debug, Default)]
pub(crate) struct SortedKeys {
    bytes: Vec<u8>,
    /// Where each key ends; the first begins at 0.
    ends: Vec<usize>,
    hashes: Vec<u64>,
    places: Vec<u32>,
}

impl SortedKeys {
    /// The keys at these places of a table.
    pub(crate) fn new(table: &KeyTable, mut places: Vec<u32>) -> SortedKeys {
        table.sort(&mut places);
        let mut sorted = SortedKeys {
            ends: Vec::with_capacity(places.len()),
            hashes: Vec::with_capacity(places.len()),
            ..SortedKeys::default()
        };
        for place in &places {
            let place = *place as usize;
            sorted.bytes.extend_from_slice(table.key(place));
            sorted.ends.push(sorted.bytes.len());
            sorted.hashes.push(table.hash(place));
        }
        sorted.places = places;
        sorted
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The key at a position in the order.
    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    /// Its hash.
    pub(crate) fn hash(&self, at: usize) -> u64 {
        self.hashes[at]
    }

    /// Its place in the table.
    pub(crate) fn place(&self, at: usize) -> u32 {
        self.places[at]
    }

    /// The first position in `from..` whose key is not less than `bound`.
    pub(crate) fn first_from(&self, from: usize, bound: &[u8]) -> usize {
        gallop(self.len(), from, |at| self.key(at) < bound)
    }
}

/// The first of `count` positions, at or after `from`, that is not before what is wanted: in steps
/// that double, so that the cost follows the distance.
pub(crate) fn gallop(count: usize, from: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high, mut step) = (from, from, 1);
    while high < count && before(high) {
        low = high + 1;
        high += step;
        step *= 2;
    }
    high = high.min(count);
    while low < high {
        let middle = low + (high - low) / 2;
        match before(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests;
