//! Numbers from a seed (SplitMix64): the same seed and the same calls give the same numbers.

/// The increment of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A source of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(STEP) ^ STEP.rotate_left(17))
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number in `0..sides`; 0 where there are none.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        ((u128::from(self.bits()) * sides as u128) >> 64) as usize
    }

    /// A number in `low..=high`.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.roll((high - low + 1) as usize) as i64
    }

    /// True once in so many cases.
    pub(crate) fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    /// One of them.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.roll(from.len())]
    }

    /// One of them, if there are any.
    pub(crate) fn choose<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.roll(from.len()))
    }

    /// Some of them, in their order; each with one chance in `sides`.
    pub(crate) fn some<T: Clone>(&mut self, from: &[T], sides: usize) -> Vec<T> {
        from.iter()
            .filter(|_| self.one_in(sides))
            .cloned()
            .collect()
    }

    pub(crate) fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            all.swap(at, self.roll(at + 1));
        }
    }
}
