//! The command line of the simulator: runs seeds, tells how many failed, and shows the first
//! failure of each kind as small as it can be made.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use clap::Parser;
use lazybase_engine::env::planted::{Planted, can_be_planted};
use lazybase_sim::run::{Outcome, run_caught};
use lazybase_sim::shrink::shrink;
use lazybase_sim::story::{Story, Trim};
use lazybase_sim::sweep::{Plan, Report, VIOLATIONS_MAX, cores, sweep};
use lazybase_sim::violation::{kind_of, note_panics};

/// A run makes thousands of small arrays and maps: a third of its time would be the system's
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The last lines of a failure that are shown; all of them with `--log`.
const LINES_SHOWN: usize = 120;

/// Runs the database in a simulated world, seed by seed, against a naive model.
#[derive(Debug, Parser)]
#[command(name = "lazybase-sim")]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Prints one line of JSON in place of the report.
    #[arg(long)]
    json: bool,
    /// Marks that no seed has met are a failure, however few seeds run.
    #[arg(long)]
    require_marks: bool,
    /// How many runs at once; as many as there are cores if not given.
    #[arg(long)]
    threads: Option<usize>,
    /// Prints a line for each seed too: what was done in it.
    #[arg(long)]
    each: bool,
    /// Runs this seed alone and prints everything that happens.
    #[arg(long)]
    show: Option<u64>,
    /// Makes the database make this mistake, by its name in the code, in builds in which it can.
    #[arg(long)]
    plant: Option<String>,
    /// Leaves this out of each story, NAME=VALUE,...: what is told of a failure made small.
    #[arg(long)]
    trim: Option<Trim>,
    /// Prints all events of the failures that are shown, not the last ones alone.
    #[arg(long)]
    log: bool,
}

impl Arguments {
    /// What is left out, and the mistake that is made.
    fn whole(&self) -> Result<Trim, String> {
        let trim = self.trim.unwrap_or(Trim::NOTHING);
        let Some(name) = &self.plant else {
            return Ok(trim);
        };
        if !can_be_planted() {
            return Err("this build has no planted faults: build with the feature".to_owned());
        }
        let mut all = Planted::ALL.iter();
        let planted = all.find(|fault| format!("{fault:?}").eq_ignore_ascii_case(name));
        let known = || format!("there is no fault {name:?}; there are {:?}", Planted::ALL);
        Ok(Trim {
            planted: Some(*planted.ok_or_else(known)?),
            ..trim
        })
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    note_panics();
    let trim = match arguments.whole() {
        Ok(trim) => trim,
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::from(2);
        }
    };
    if let Some(seed) = arguments.show {
        return show(seed, trim);
    }
    let tell = |outcome: &Outcome, done: u64| {
        if arguments.each {
            println!("{}", one_line(outcome, arguments.json));
        }
        if !arguments.json && done.is_multiple_of(1000) {
            eprintln!("{done} seeds");
        }
    };
    let plan = Plan {
        from: arguments.from,
        seeds: arguments.seeds,
        threads: arguments.threads.unwrap_or_else(cores),
        violations_max: match trim.planted {
            Some(_) => 1,
            None => VIOLATIONS_MAX,
        },
        trim,
    };
    let report = sweep(plan, &tell);
    match arguments.json {
        true => println!("{}", as_json(&report)),
        false => print(&report),
    }
    if !report.violations.is_empty() {
        let mut kinds = BTreeSet::new();
        for (seed, violation) in &report.violations {
            if kinds.insert(kind_of(violation)) {
                explain(*seed, violation, trim, arguments.log);
            }
        }
        return ExitCode::FAILURE;
    }
    match report.lacks_marks(trim, arguments.require_marks) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// What was done in a run.
fn one_line(outcome: &Outcome, as_json: bool) -> String {
    let Outcome { seed, tally, .. } = outcome;
    let several = tally.mixes.of_several();
    if as_json {
        let stages: BTreeMap<String, u64> = tally.mixes.named().collect();
        return serde_json::json!({
            "seed": seed,
            "counted": outcome.counts(),
            "violation": outcome.violation,
            "writers": outcome.writers,
            "batches": tally.batches,
            "queries": tally.queries,
            "queries_of_several_stages": several,
            "answers_by_stages": stages,
            "crashes": tally.crashes,
            "restarts": tally.restarts,
            "authority_merges": tally.authority_merges,
        })
        .to_string();
    }
    format!(
        "seed {seed}: {} batches of {} writers, {} queries ({several} from several stages), \
         {} crashes, {} restarts, {} merges to the authority; answers from {}{}",
        tally.batches,
        outcome.writers,
        tally.queries,
        tally.crashes,
        tally.restarts,
        tally.authority_merges,
        tally.mixes,
        match (&outcome.violation, outcome.counts()) {
            (Some(_), _) => ", violated",
            (None, true) => "",
            (None, false) => ", not counted",
        },
    )
}

fn as_json(report: &Report) -> String {
    let seeds: Vec<u64> = report.violations.iter().map(|(seed, _)| *seed).collect();
    let stages: BTreeMap<String, u64> = report.tally.mixes.named().collect();
    serde_json::json!({
        "seeds": report.seeds,
        "counted": report.counted,
        "violations": report.violations.len(),
        "seeds_per_s": (report.seeds_per_s() * 10.0).round() / 10.0,
        "marks_missing": report.marks.missing(),
        "violated_seeds": seeds,
        "batches": report.tally.batches,
        "queries": report.tally.queries,
        "answers_by_stages": stages,
        "crashes": report.tally.crashes,
        "restarts": report.tally.restarts,
        "simulated_s": report.simulated.as_secs(),
    })
    .to_string()
}

fn print(report: &Report) {
    let Report { tally, .. } = report;
    println!(
        "{} seeds in {:.1} s: {:.1} a second; {} counted",
        report.seeds,
        report.elapsed.as_secs_f64(),
        report.seeds_per_s(),
        report.counted,
    );
    println!(
        "{} batches, {} queries ({} from several stages), {} crashes, {} restarts, {} s simulated",
        tally.batches,
        tally.queries,
        tally.mixes.of_several(),
        tally.crashes,
        tally.restarts,
        report.simulated.as_secs(),
    );
    println!("answers from {}", tally.mixes);
    let missing = report.marks.missing();
    if !missing.is_empty() {
        println!("{} marks were not met:", missing.len());
        missing.iter().for_each(|mark| println!("  {mark}"));
    }
    println!("{} violations", report.violations.len());
    for (seed, what) in &report.violations {
        println!("  seed {seed}: {what}");
    }
}

/// Runs one seed and prints everything that happens.
fn show(seed: u64, trim: Trim) -> ExitCode {
    let outcome = run_caught(seed, trim, true);
    outcome.lines.iter().for_each(|line| println!("{line}"));
    finish(&outcome)
}

fn finish(outcome: &Outcome) -> ExitCode {
    let Outcome {
        seed, hash, steps, ..
    } = outcome;
    println!(
        "seed {seed}: {steps} polls, hash {hash:016x}, {:?}",
        outcome.tally
    );
    match &outcome.violation {
        None => ExitCode::SUCCESS,
        Some(what) => {
            println!("violated: {what}");
            ExitCode::FAILURE
        }
    }
}

/// Shows a failure as small as it can be made: its story, what happened in it, and how both are
/// told again.
fn explain(seed: u64, violation: &str, whole: Trim, all: bool) {
    let (trim, outcome) = shrink(seed, whole, violation);
    eprintln!("seed {seed}, made small: {:#?}", Story::of(seed, trim));
    let first = match all {
        true => 0,
        false => outcome.lines.len().saturating_sub(LINES_SHOWN),
    };
    if first > 0 {
        eprintln!("what happened before, {first} lines, is shown with `--log`");
    }
    outcome.lines[first..]
        .iter()
        .for_each(|line| eprintln!("{line}"));
    if let Some(what) = &outcome.violation {
        eprintln!("violated: {what}");
    }
    eprintln!("again: {}", trim.command(seed));
    eprintln!("whole: {}", whole.command(seed));
}
