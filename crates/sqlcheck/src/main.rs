//! Random SQL against LazyBase and against plain tables in memory: the second harness.
//!
//! ```text
//!   seed -> story: tables, views, changes, stages, queries (`story.rs`)
//!             |
//!             +-> LazyBase over a store in memory, stages driven one by one
//!             +-> rows in maps (`rows.rs`), which DataFusion reads as plain tables (`plain.rs`)
//!                   -> every answer compared, at the horizon that its stamp names (`run.rs`)
//! ```
//!
//! Both sides plan with DataFusion: what is tested is what LazyBase adds below and around it, from
//! the parser's clauses to pruning, views and reconciling at every mix of stages. What both plan
//! wrongly, queries show whose answers are told by hand (`by_hand.rs`).

#![recursion_limit = "256"]

mod by_hand;
mod change;
mod compare;
mod define;
mod dice;
mod excuse;
mod expr;
mod filter;
mod hidden;
mod kind;
mod plain;
mod plant;
mod query;
mod ranges;
mod rows;
mod run;
mod schema;
mod shrink;
mod story;
mod sweep;
#[cfg(test)]
mod tests;
mod words;

use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;

use crate::plant::Plant;
use crate::run::{Outcome, Violation};
use crate::story::Story;
use crate::sweep::{Plan, Report, Teller, sweep, with_stack};

/// Sends random SQL to LazyBase, and compares with the same rows in plain tables.
#[derive(Debug, Parser)]
#[command(name = "lazybase-sqlcheck")]
struct Arguments {
    /// Tells stories until so many statements were sent.
    #[arg(long, default_value_t = 20_000)]
    statements: u64,
    /// Ends after so many minutes in any case.
    #[arg(long, default_value_t = 600)]
    minutes: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many stories at once.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Prints one line of JSON in place of the report.
    #[arg(long)]
    json: bool,
    /// Tells the story of this seed alone, and prints every statement.
    #[arg(long)]
    show: Option<u64>,
    /// Makes this mistake on purpose: it has to be found.
    #[arg(long)]
    plant: Option<Plant>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.show {
        Some(seed) => {
            let teller = Teller::new(arguments.plant);
            teller.and_then(|teller| with_stack(|| show(&teller, seed)))
        }
        None => check(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn show(teller: &Teller, seed: u64) -> ExitCode {
    let outcome = teller.tell(&Story::draw(seed));
    outcome.lines.iter().for_each(|line| println!("{line};"));
    println!("-- seed {seed}: {:?}", outcome.tally);
    match outcome.violation {
        None => ExitCode::SUCCESS,
        Some(Violation(what)) => {
            println!("-- violated: {what}");
            ExitCode::FAILURE
        }
    }
}

/// After so many statements a line says how far it has come.
const STATEMENTS_TOLD: u64 = 50_000;

fn tell_progress(statements: u64) {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    let share = statements / STATEMENTS_TOLD;
    if TOLD.fetch_max(share, Ordering::Relaxed) < share {
        eprintln!("{statements} statements");
    }
}

fn check(arguments: &Arguments) -> io::Result<ExitCode> {
    let plan = Plan {
        from: arguments.from,
        statements: arguments.statements,
        time_max: Duration::from_secs(arguments.minutes * 60),
        threads: arguments.threads,
        plant: arguments.plant,
    };
    let report = sweep(plan, tell_progress)?;
    let shortfalls = match report.violations.is_empty() {
        true => report.shortfalls(&plan),
        false => Vec::new(),
    };
    match arguments.json {
        true => println!("{}", as_json(&report, &shortfalls)),
        false => print(&report),
    }
    for what in &shortfalls {
        eprintln!("too little to pass: {what}");
    }
    let Some((seed, _)) = report.violations.first() else {
        return Ok(match shortfalls.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        });
    };
    let teller = Teller::new(arguments.plant)?;
    with_stack(|| explain(&teller, *seed))?;
    Ok(ExitCode::FAILURE)
}

fn as_json(report: &Report, shortfalls: &[String]) -> String {
    let tally = &report.tally;
    let seeds: Vec<u64> = report.violations.iter().map(|(seed, _)| *seed).collect();
    serde_json::json!({
        "stories": report.stories,
        "statements": tally.statements(),
        "statements_per_s": report.per_second().round(),
        "violations": seeds.len(),
        "violated_seeds": seeds,
        "shortfalls": shortfalls,
        "compared": tally.compared,
        "planner": tally.planner,
        "again": tally.again,
        "changes": tally.changes,
        "defined": tally.defined,
        "absent": tally.absent,
        "mixed": tally.mixed,
        "stale": tally.stale,
        "slow": tally.slow,
        "by_hand": tally.by_hand,
        "hidden": tally.hidden,
        "times": tally.times,
        "restored": tally.restored,
        "refused": tally.refused,
        "of_arithmetic": tally.of_arithmetic,
        "of_casts": tally.of_casts,
        "rows": tally.rows,
    })
    .to_string()
}

/// So much of each violation stands in the report.
const LINES_SHOWN: usize = 12;

fn print(report: &Report) {
    let tally = &report.tally;
    println!(
        "{} statements of {} stories in {:.0} s: {:.0} a second",
        tally.statements(),
        report.stories,
        report.elapsed.as_secs_f64(),
        report.per_second(),
    );
    println!(
        "{} answers compared, with {} rows; {} to queries that had been asked before, {} from \
         several stages, {} that left batches out",
        tally.compared, tally.rows, tally.again, tally.mixed, tally.stale,
    );
    println!(
        "{} answers to queries that name hidden columns, and {} times of SCUs; {} answers that \
         were told by hand too",
        tally.hidden, tally.times, tally.by_hand,
    );
    println!(
        "{} changes, {} of tables; {} statements that both refused, {} that failed on one side \
         for what they compute of rows, {} for casts",
        tally.changes + tally.defined,
        tally.defined,
        tally.refused,
        tally.of_arithmetic,
        tally.of_casts,
    );
    println!(
        "{} answers with mistakes that the planner is known to make over plain tables too",
        tally.planner,
    );
    println!("{} violations", report.violations.len());
    for (seed, Violation(what)) in &report.violations {
        let first: Vec<&str> = what.lines().take(LINES_SHOWN).collect();
        println!("  seed {seed}: {}", first.join("\n    "));
    }
}

/// Shows a failure as small as it can be made.
fn explain(teller: &Teller, seed: u64) {
    let story = Story::draw(seed);
    let (small, outcome) = shrink::shrink(teller, &story);
    let Outcome {
        lines, violation, ..
    } = outcome;
    eprintln!(
        "-- seed {seed}, {} steps of {}:",
        small.steps.len(),
        story.steps.len()
    );
    lines.iter().for_each(|line| eprintln!("{line};"));
    match violation {
        Some(Violation(what)) => eprintln!("-- violated: {what}"),
        None => eprintln!("-- it did not fail again: the stages ran freely"),
    }
    eprintln!(
        "-- `lazybase-sqlcheck --show {}` prints the whole story",
        story.seed
    );
}
