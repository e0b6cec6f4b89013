//! How rounds end.

use rand::Rng;
use rand::rngs::SmallRng;

/// How a round ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Kill,
    FreezeAndGoOn,
    FreezeAndKill,
    FillAndGoOn,
    FillAndKill,
    Stop,
}

/// Each of them, and how often it comes beside the others.
const ENDS: [(End, u32); 6] = [
    (End::Kill, 55),
    (End::FreezeAndGoOn, 10),
    (End::FreezeAndKill, 10),
    (End::FillAndGoOn, 7),
    (End::FillAndKill, 5),
    (End::Stop, 13),
];

impl End {
    fn needs_disk(self) -> bool {
        matches!(self, End::FillAndGoOn | End::FillAndKill)
    }
}

/// The ends of a run's rounds: each of them once, in any order, then by chance.
pub(crate) struct Ends {
    possible: Vec<(End, u32)>,
    due: Vec<End>,
}

impl Ends {
    /// Those that can be had where there is a disk of our own, or none.
    pub(crate) fn of(has_disk: bool) -> Ends {
        let possible = ENDS
            .into_iter()
            .filter(|(end, _)| has_disk || !end.needs_disk());
        let possible: Vec<_> = possible.collect();
        Ends {
            due: possible.iter().map(|(end, _)| *end).collect(),
            possible,
        }
    }

    /// The next one.
    pub(crate) fn draw(&mut self, dice: &mut SmallRng) -> End {
        if !self.due.is_empty() {
            let at = dice.random_range(0..self.due.len());
            return self.due.swap_remove(at);
        }
        let all: u32 = self.possible.iter().map(|(_, weight)| weight).sum();
        let mut left = dice.random_range(0..all);
        for (end, weight) in &self.possible {
            match left.checked_sub(*weight) {
                Some(less) => left = less,
                None => return *end,
            }
        }
        End::Kill
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::{End, Ends};

    fn drawn(ends: &mut Ends, count: usize) -> Vec<End> {
        let mut dice = SmallRng::seed_from_u64(7);
        (0..count).map(|_| ends.draw(&mut dice)).collect()
    }

    #[test]
    fn each_end_comes_before_any_comes_again() {
        let mut ends = Ends::of(true);
        let possible = ends.possible.len();
        let first: BTreeSet<End> = drawn(&mut ends, possible).into_iter().collect();
        assert_eq!(first.len(), possible);
        let others: BTreeSet<End> = drawn(&mut ends, 1_000).into_iter().collect();
        assert_eq!(others, first);
    }

    #[test]
    fn without_a_disk_nothing_is_done_to_one() {
        let drawn = drawn(&mut Ends::of(false), 1_000);
        assert!(!drawn.iter().any(|end| end.needs_disk()), "{drawn:?}");
    }
}
