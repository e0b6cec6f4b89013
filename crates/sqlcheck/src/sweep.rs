//! Many stories on several threads, and what came of them.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

use crate::plain::Plain;
use crate::plant::Plant;
use crate::run::{Outcome, Tally, Violation, tell};
use crate::story::Story;

/// A sweep ends once so many stories have failed.
pub(crate) const VIOLATIONS_MAX: usize = 10;

/// Planning recurses, deeper in builds that are not optimised.
const STACK_BYTES: usize = 16 << 20;

/// What is to be told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// The first seed.
    pub(crate) from: u64,
    /// Stories are told until so many statements were sent.
    pub(crate) statements: u64,
    /// And no longer than this.
    pub(crate) time_max: Duration,
    /// How many stories at once.
    pub(crate) threads: usize,
    /// A mistake that is made on purpose.
    pub(crate) plant: Option<Plant>,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) stories: u64,
    pub(crate) tally: Tally,
    pub(crate) violations: Vec<(u64, Violation)>,
    pub(crate) elapsed: Duration,
}

impl Report {
    pub(crate) fn per_second(&self) -> f64 {
        self.tally.statements() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// A report with fewer statements is not asked for shares of them.
const STATEMENTS_JUDGED: u64 = 1_000;

impl Report {
    /// What was asked for and is not there, or is there too often.
    pub(crate) fn shortfalls(&self, plan: &Plan) -> Vec<String> {
        let (tally, all) = (&self.tally, self.tally.statements());
        let mut found = Vec::new();
        if all < plan.statements {
            found.push(format!(
                "{all} statements were sent, not {}",
                plan.statements
            ));
        }
        if all < STATEMENTS_JUDGED {
            return found;
        }
        // Each with how many statements there may be for one of it, or must be.
        let too_many = [
            ("statements were refused on both sides", tally.refused, 10),
            ("failed on one side alone", tally.of_rows(), 100),
            ("answers are the planner's own", tally.planner, 1_000),
        ];
        for (what, count, share) in too_many {
            if count > all / share {
                found.push(format!("{count} of {all} {what}"));
            }
        }
        let too_few = [
            ("came from several stages", tally.mixed, 10),
            ("left batches out", tally.stale, 1_000),
            ("were asked again", tally.again, 100),
            ("changed tables", tally.defined, 1_000),
            ("were of what is not there", tally.absent, 50_000),
            ("were read later", tally.slow, 2_000),
            ("were restored backups", tally.restored, 20_000),
            ("named hidden columns", tally.hidden, 100),
            ("were told by hand", tally.by_hand, 50),
        ];
        for (what, count, share) in too_few {
            if count < all / share {
                found.push(format!("only {count} of {all} {what}"));
            }
        }
        found
    }
}

/// Tells stories, one at a time.
pub(crate) struct Teller {
    runtime: Runtime,
    plain: Plain,
    plant: Option<Plant>,
}

impl Teller {
    /// One that makes a mistake on purpose, or none.
    pub(crate) fn new(plant: Option<Plant>) -> io::Result<Teller> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()?;
        Ok(Teller {
            runtime,
            plain: Plain::new().map_err(io::Error::other)?,
            plant,
        })
    }

    /// Tells a story; a panic is a violation.
    pub(crate) fn tell(&self, story: &Story) -> Outcome {
        let told = || {
            let story = tell(&self.plain, story, self.plant);
            self.runtime.block_on(story)
        };
        catch_unwind(AssertUnwindSafe(told)).unwrap_or_else(|panic| Outcome {
            violation: Some(Violation(format!("a panic: {}", message(&*panic)))),
            ..Outcome::default()
        })
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message")
}

/// Tells stories; `heard` is told how many statements there were, after each.
///
/// # Errors
/// When no threads are to be had.
#[expect(
    clippy::disallowed_methods,
    reason = "measures, and spreads stories over threads"
)]
pub(crate) fn sweep(plan: Plan, heard: fn(u64)) -> io::Result<Report> {
    let begun = Instant::now();
    let next = AtomicU64::new(plan.from);
    let enough = AtomicBool::new(false);
    let report = Mutex::new(Report::default());
    let told = |teller: &Teller| {
        while !enough.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let outcome = teller.tell(&Story::draw(seed));
            let mut report = report.lock();
            report.stories += 1;
            report.tally.add(&outcome.tally);
            report
                .violations
                .extend(outcome.violation.map(|what| (seed, what)));
            heard(report.tally.statements());
            let done = report.tally.statements() >= plan.statements
                || report.violations.len() >= VIOLATIONS_MAX
                || begun.elapsed() > plan.time_max;
            enough.fetch_or(done, Ordering::Relaxed);
        }
    };
    let tellers: io::Result<Vec<Teller>> = (0..plan.threads.max(1))
        .map(|_| Teller::new(plan.plant))
        .collect();
    let tellers = tellers?;
    std::thread::scope(|scope| {
        for teller in &tellers {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, || told(teller))?;
        }
        io::Result::Ok(())
    })?;
    let mut report = report.into_inner();
    report.elapsed = begun.elapsed();
    report.violations.sort_by_key(|(seed, _)| *seed);
    Ok(report)
}

/// Does something on a thread with a stack for planning.
///
/// # Errors
/// When no thread is to be had.
#[expect(
    clippy::disallowed_methods,
    reason = "the main thread's stack is small"
)]
pub(crate) fn with_stack<T: Send>(what: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let done = thread.spawn_scoped(scope, what)?.join();
        done.map_err(|panic| io::Error::other(message(&*panic).to_owned()))
    })
}
