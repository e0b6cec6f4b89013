//! Numbers from a seed. Each actor and each part of a story has dice of its own, so that leaving
//! one of them out changes nothing that the others draw.
//!
//! Pure: the same seed and the same calls give the same numbers (SplitMix64).

/// The increment of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A source of numbers.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The dice of one purpose in one seed's run.
    pub fn of(seed: u64, purpose: u64) -> Dice {
        Dice(mixed(seed ^ mixed(purpose.wrapping_mul(STEP))))
    }

    /// Sixty-four bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// A number in `0..limit`; 0 where the limit is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        match limit {
            0 => 0,
            _ => ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64,
        }
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// An index in `0..length`.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True in about so many cases of a thousand.
    pub fn permille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }

    /// True in about so many cases of a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.permille(chance * 10)
    }

    /// One of them, each as often as its weight says.
    pub fn weigh<'a, T>(&mut self, from: &'a [(u64, T)]) -> &'a T {
        let mut at = self.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, value) in from {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return value,
            }
        }
        &from[0].1
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }
}

/// Stirs the bits of a number.
pub(crate) fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests;
