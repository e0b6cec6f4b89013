//! Distinct encoded keys, numbered in the order in which they came: an open-addressing table over
//! one arena of bytes, so that millions of keys cost three allocations.
//!
//! Pure. Hashes are given by the caller, who needs them besides.

/// Distinct keys and their places.
#[derive(Debug, Clone, Default)]
pub struct KeyTable {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    hashes: Vec<u64>,
    /// Half a hash above a place plus one, or 0: most slots of other keys are told apart without
    /// looking at the keys. A power of two of them, at most half of them filled.
    slots: Vec<u64>,
}

/// The first bytes of a key as a number that orders as they do.
fn first_bytes(key: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let count = key.len().min(16);
    bytes[..count].copy_from_slice(&key[..count]);
    u128::from_be_bytes(bytes)
}

const SLOTS_MIN: usize = 64;

/// What stands in the slot of a key.
fn slot_of(hash: u64, place: u32) -> u64 {
    (hash & !u64::from(u32::MAX)) | u64::from(place + 1)
}

/// The place that a slot names, if it is taken.
fn place_in(slot: u64) -> Option<u32> {
    (slot as u32).checked_sub(1)
}

impl KeyTable {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The key at a place.
    pub fn key(&self, place: usize) -> &[u8] {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[place]]
    }

    /// The hash of the key at a place.
    pub fn hash(&self, place: usize) -> u64 {
        self.hashes[place]
    }

    /// The place of a key.
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        place_in(self.slots[self.slot(hash, key)])
    }

    /// The place of a key, and whether it is new.
    pub fn insert(&mut self, hash: u64, key: &[u8]) -> (u32, bool) {
        if self.slots.len() < 2 * (self.len() + 1) {
            self.grow();
        }
        let slot = self.slot(hash, key);
        if let Some(place) = place_in(self.slots[slot]) {
            return (place, false);
        }
        let place = self.hashes.len() as u32;
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.hashes.push(hash);
        self.slots[slot] = slot_of(hash, place);
        (place, true)
    }

    /// Puts places into the order of their keys.
    pub fn sort(&self, places: &mut [u32]) {
        let mut keyed: Vec<(u128, u32)> = places
            .iter()
            .map(|place| (first_bytes(self.key(*place as usize)), *place))
            .collect();
        keyed.sort_unstable_by(|(a, one), (b, other)| {
            let keys = || self.key(*one as usize).cmp(self.key(*other as usize));
            a.cmp(b).then_with(keys)
        });
        for (place, (_, sorted)) in places.iter_mut().zip(keyed) {
            *place = sorted;
        }
    }

    /// The memory that the table takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + 16 * self.ends.len() + 8 * self.slots.len()
    }

    /// Where the key is, or where it belongs.
    fn slot(&self, hash: u64, key: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while let Some(place) = place_in(self.slots[slot]) {
            if self.slots[slot] == slot_of(hash, place) && self.key(place as usize) == key {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let count = (4 * (self.len() + 1)).next_power_of_two().max(SLOTS_MIN);
        self.slots = vec![0; count];
        for (place, hash) in (0..).zip(&self.hashes) {
            let mut slot = *hash as usize & (count - 1);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (count - 1);
            }
            self.slots[slot] = slot_of(*hash, place);
        }
    }
}
