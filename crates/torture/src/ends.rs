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
    /// Files can only be read for a while.
    ReadOnlyAndGoOn,
    ReadOnlyAndKill,
    /// The disk fails for good.
    FailAndKill,
    Stop,
}

/// Each of them, and how often it comes beside the others.
const ENDS: [(End, u32); 9] = [
    (End::Kill, 44),
    (End::FreezeAndGoOn, 8),
    (End::FreezeAndKill, 8),
    (End::FillAndGoOn, 6),
    (End::FillAndKill, 4),
    (End::ReadOnlyAndGoOn, 6),
    (End::ReadOnlyAndKill, 4),
    (End::FailAndKill, 7),
    (End::Stop, 13),
];

/// What can be done to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DiskCan {
    /// There is none of our own.
    Nothing,
    /// It can be filled, and read alone.
    Refuse,
    Fail,
}

impl End {
    fn needs(self) -> DiskCan {
        match self {
            End::Kill | End::FreezeAndGoOn | End::FreezeAndKill | End::Stop => DiskCan::Nothing,
            End::FillAndGoOn | End::FillAndKill => DiskCan::Refuse,
            End::ReadOnlyAndGoOn | End::ReadOnlyAndKill => DiskCan::Refuse,
            End::FailAndKill => DiskCan::Fail,
        }
    }
}

/// The ends of a run's rounds: each of them once, in any order, then by chance.
pub(crate) struct Ends {
    possible: Vec<(End, u32)>,
    due: Vec<End>,
}

impl Ends {
    /// Those that can be had.
    pub(crate) fn of(disk: DiskCan) -> Ends {
        let possible = ENDS.into_iter().filter(|(end, _)| end.needs() <= disk);
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

    use super::{DiskCan, End, Ends};

    fn drawn(ends: &mut Ends, count: usize) -> Vec<End> {
        let mut dice = SmallRng::seed_from_u64(7);
        (0..count).map(|_| ends.draw(&mut dice)).collect()
    }

    #[test]
    fn each_end_comes_before_any_comes_again() {
        let mut ends = Ends::of(DiskCan::Fail);
        let possible = ends.possible.len();
        let first: BTreeSet<End> = drawn(&mut ends, possible).into_iter().collect();
        assert_eq!(first.len(), possible);
        let others: BTreeSet<End> = drawn(&mut ends, 1_000).into_iter().collect();
        assert_eq!(others, first);
    }

    #[test]
    fn nothing_is_done_that_the_disk_can_not() {
        for disk in [DiskCan::Nothing, DiskCan::Refuse] {
            let drawn = drawn(&mut Ends::of(disk), 1_000);
            assert!(drawn.iter().all(|end| end.needs() <= disk), "{drawn:?}");
        }
    }
}
