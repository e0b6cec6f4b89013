//! Many seeds, on all cores, and the report on them.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::life::Tally;
use crate::marks::Marks;
use crate::run::{Outcome, run_caught};
use crate::story::Trim;

/// A sweep ends once so many seeds have failed, unless its plan says otherwise.
pub const VIOLATIONS_MAX: usize = 20;

/// So many whole stories meet every mark.
pub const MARKS_SEEDS: u64 = 10_000;

/// What a sweep found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Seeds that ran.
    pub seeds: u64,
    /// Seeds with all that makes them count.
    pub counted: u64,
    /// Seeds that failed, with what was wrong.
    pub violations: Vec<(u64, String)>,
    /// Marks that were met.
    pub marks: Marks,
    /// What was done in all of them.
    pub tally: Tally,
    /// How long it took.
    pub elapsed: Duration,
    /// Simulated time.
    pub simulated: Duration,
    /// Polls.
    pub steps: u64,
}

impl Report {
    /// Seeds a second.
    pub fn seeds_per_s(&self) -> f64 {
        self.seeds as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Whether marks were not met that had to be: by so many whole stories, or by any where
    /// somebody asks for it.
    pub fn lacks_marks(&self, whole: Trim, is_asked: bool) -> bool {
        let many = self.seeds >= MARKS_SEEDS && whole == Trim::NOTHING;
        (is_asked || many) && !self.marks.missing().is_empty()
    }

    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.counted += u64::from(outcome.counts());
        self.marks.add(&outcome.marks);
        self.simulated += outcome.elapsed;
        self.steps += outcome.steps;
        let (sum, one) = (&mut self.tally, &outcome.tally);
        sum.batches += one.batches;
        sum.queries += one.queries;
        sum.crashes += one.crashes;
        sum.restarts += one.restarts;
        sum.mixes.add(&one.mixes);
        sum.authority_merges += one.authority_merges;
        if let Some(what) = outcome.violation {
            self.violations.push((outcome.seed, what));
        }
    }
}

/// Which seeds run, and how.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The first.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// How many threads run them.
    pub threads: usize,
    /// After how many violations the sweep ends.
    pub violations_max: usize,
    /// What is left out of every story.
    pub trim: Trim,
}

/// Runs seeds; `told` hears of each, and how many are done with it, one after the other.
#[expect(
    clippy::disallowed_methods,
    reason = "the command line measures, and spreads whole runs over cores; no run sees it"
)]
pub fn sweep(plan: Plan, told: &(dyn Fn(&Outcome, u64) + Sync)) -> Report {
    let Plan {
        from,
        seeds,
        threads,
        violations_max,
        trim,
    } = plan;
    let begun = Instant::now();
    let next = AtomicU64::new(from);
    let enough = AtomicBool::new(false);
    let report = Mutex::new(Report::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // The counter goes on behind the last number with the first.
                    if !(from..from.saturating_add(seeds)).contains(&seed) {
                        break;
                    }
                    let outcome = run_caught(seed, trim, false);
                    let mut report = report.lock();
                    told(&outcome, report.seeds + 1);
                    report.add(outcome);
                    if report.violations.len() >= violations_max {
                        enough.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut report = report.into_inner();
    report.violations.sort();
    report.elapsed = begun.elapsed();
    report
}

/// How many threads there can be at once.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

#[cfg(test)]
mod tests;
