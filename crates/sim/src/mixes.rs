//! Answers by the stages that they came from: which mixes of stages a run has read.

use std::fmt;

use lazybase_model::Stage;

/// How many sets of stages there are.
const SETS: usize = 1 << Stage::ALL.len();

/// How many answers came from each set of stages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mixes([u64; SETS]);

impl Default for Mixes {
    fn default() -> Mixes {
        Mixes([0; SETS])
    }
}

impl Mixes {
    /// Counts an answer that came from these.
    pub fn count(&mut self, stages: &[Stage]) {
        let bits = stages.iter().map(|stage| 1_usize << (*stage as usize));
        self.0[bits.fold(0, |set, bit| set | bit)] += 1;
    }

    /// Adds those of other runs.
    pub fn add(&mut self, other: &Mixes) {
        let counts = self.0.iter_mut().zip(other.0);
        counts.for_each(|(count, other)| *count += other);
    }

    /// Answers that came from several stages.
    pub fn of_several(&self) -> u64 {
        let sets = self.sets().filter(|(set, _)| set.count_ones() >= 2);
        sets.map(|(_, count)| count).sum()
    }

    /// Each set that an answer came from, by the names of its stages, and how many answers did:
    /// `open+sorted`, or `nothing` where a table had no rows.
    pub fn named(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.sets().map(|(set, count)| {
            let stages = Stage::ALL.into_iter();
            let stages = stages.filter(|stage| set >> (*stage as usize) & 1 == 1);
            let names: Vec<&str> = stages.map(Stage::name).collect();
            match names.is_empty() {
                true => ("nothing".to_owned(), count),
                false => (names.join("+"), count),
            }
        })
    }

    /// The sets that answers came from, a bit a stage.
    fn sets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let sets = self.0.iter().copied().enumerate();
        sets.filter(|(_, count)| *count > 0)
    }
}

impl fmt::Display for Mixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self
            .named()
            .map(|(stages, count)| format!("{stages} {count}"))
            .collect();
        f.write_str(&named.join(", "))
    }
}

impl fmt::Debug for Mixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

#[cfg(test)]
mod tests;
