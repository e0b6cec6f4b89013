//! `lazybase demo`: a year of flights streams through the pipeline while readers ask at four
//! freshness levels; at the end the answers are checked against the source files.
//!
//! ```text
//!   files --timeline--> replay (one writer) --> database <-- readers (each freshness in turn)
//!                                                 ^
//!                          sampler, live view ----+         --> stats --> table, JSON, report
//!   files --expected-------------------------------------------> check <-- settled database
//! ```

mod check;
mod data;
mod desk;
mod expected;
mod folder;
mod live;
mod questions;
mod readers;
mod replay;
mod report;
mod sampler;
mod shared;
mod stats;
mod tables;
mod timeline;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lazybase_cluster::{Settings, SettleTo};
use lazybase_model::{Error, Result};
use lazybase_query::Database;
use serde_json::json;

use crate::cli::DemoArgs;
use crate::failure;
use crate::figures::{counted, micros, per_second, thousands};
use crate::open::{self, Missing};
use crate::wall;
use check::Check;
use data::Source;
use desk::Desk;
use expected::Expected;
use live::{View, say};
use readers::{FlightKeys, Reader};
use replay::{Rate, Replay};
use report::Report;
use shared::Shared;
use stats::LevelSummary;
use tables::Observations;
use timeline::Timeline;

/// What a demo found out.
struct Outcome {
    shared: Arc<Shared>,
    replayed: Duration,
    settled: Duration,
    checks: Vec<Check>,
}

/// Runs the command.
pub(crate) async fn run(db: Option<PathBuf>, args: DemoArgs) -> Result<()> {
    let rate: Rate = args.rate.parse()?;
    let scu_age = args.scu_age.map_or(Ok(rate.scu_age()), positive_seconds)?;
    let source = Source::read(args.days)?;
    let expected = expected::expected(&source)?;
    let folder = folder::prepare(args.dir.clone().or(db)).await?;
    say(&format!(
        "replaying {} of 2013 into {}",
        counted(source.flights.num_rows() as u64, "flight"),
        folder.display()
    ));
    let settings = Settings {
        seal_age: scu_age,
        ..Settings::default()
    };
    let database = open::database_with(Some(folder.clone()), Missing::Create, settings).await?;
    if !args.keep {
        folder::mark_replaceable(&folder)?;
    }
    let work = perform(&database, &source, &expected, rate, args.readers);
    let outcome = tokio::select! {
        outcome = work => outcome,
        _ = tokio::signal::ctrl_c() => Err(failure::cancelled()),
    };
    let outcome = open::close(&database, outcome).await?;
    let setup = format!(
        "Rate {}, SCUs of {}, {}; LazyBase {}{}.",
        rate,
        micros(crate::figures::as_micros(scu_age)),
        counted(args.readers as u64, "reader"),
        env!("CARGO_PKG_VERSION"),
        if cfg!(debug_assertions) {
            ", a debug build: a release build is faster"
        } else {
            ""
        },
    );
    tell(&outcome, &folder, &setup, args.json)
}

fn positive_seconds(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|age| !age.is_zero())
        .ok_or_else(|| Error::invalid(format!("--scu-age {seconds:?} is no number of seconds")))
}

/// Replays the source while readers ask, and holds the answers at the end to what is expected.
async fn perform(
    database: &Database,
    source: &Source,
    expected: &[Expected],
    rate: Rate,
    readers: usize,
) -> Result<Outcome> {
    let observations = Arc::new(Observations::of(source)?);
    let timeline = Arc::new(Timeline::of(source, rate.step_minutes())?);
    observations.create_tables(database).await?;
    let shared = Arc::new(Shared::new(Replay::total(&observations, &timeline)));
    let view = View::new(shared.total);
    let sampling = sampler::run(database.clone(), Arc::clone(&shared), view);
    let sampling = wall::spawn(sampling);
    let reading = start_readers(database, &observations, &shared, readers)?;
    let replay = Replay {
        database: database.clone(),
        observations,
        timeline,
        shared: Arc::clone(&shared),
        rate,
    };
    let desk = wall::spawn(replay.run());
    let desk = joined(desk.await);
    let replayed = shared.start.elapsed();
    shared.done.store(true, Ordering::Release);
    let mut read = Ok(());
    for reader in reading {
        read = read.and(joined(reader.await));
    }
    let mut view = joined(sampling.await.map(Ok))?;
    let desk: Desk = desk?;
    read?;
    view.note("everything is written; waiting until all of it is in the authority");
    let settled = settle(database, &shared).await?.saturating_sub(replayed);
    sampler::look(database, &shared, &mut view);
    view.end();
    let checks = check::run(database, expected, &desk).await?;
    Ok(Outcome {
        shared,
        replayed,
        settled,
        checks,
    })
}

type Reading = tokio::task::JoinHandle<Result<()>>;

fn start_readers(
    database: &Database,
    observations: &Observations,
    shared: &Arc<Shared>,
    readers: usize,
) -> Result<Vec<Reading>> {
    let flights = Arc::new(FlightKeys::of(observations.flight_keys())?);
    let reader = |number| Reader {
        database: database.clone(),
        flights: Arc::clone(&flights),
        shared: Arc::clone(shared),
        number,
    };
    Ok((0..readers)
        .map(|number| wall::spawn(stopping(reader(number))))
        .collect())
}

/// A reader whose error ends the replay too.
async fn stopping(reader: Reader) -> Result<()> {
    let shared = Arc::clone(&reader.shared);
    let outcome = reader.run().await;
    if outcome.is_err() {
        shared.done.store(true, Ordering::Release);
    }
    outcome
}

fn joined<T>(outcome: Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    outcome.unwrap_or_else(|error| Err(Error::internal(format!("the demo stopped: {error}"))))
}

/// Waits until everything is in the authority; gives when it was, since the start.
async fn settle(database: &Database, shared: &Shared) -> Result<Duration> {
    let progress = |_share: f64| {};
    database
        .instance()
        .settle(None, SettleTo::Authority, &progress)
        .await?;
    Ok(shared.start.elapsed())
}

/// Prints the figures, writes the report, fails if a check did.
fn tell(outcome: &Outcome, folder: &Path, setup: &str, as_json: bool) -> Result<()> {
    let shared = &outcome.shared;
    let (failed, failures) = shared.failures();
    let samples = shared.samples();
    let pipeline = shared.pipeline();
    let levels = stats::summarise(&samples);
    let changes = shared.changes.load(Ordering::Acquire);
    let headline = headline(outcome, changes, samples.len() as u64);
    let command = format!("lazybase --db {} sql", folder.display());
    let report = Report {
        headline: &headline,
        setup,
        command: &command,
        levels: &levels,
        samples: &samples,
        pipeline: &pipeline,
        checks: &outcome.checks,
        failures: &failures,
    };
    let path = folder.join("report.html");
    wall::write_file(&path, report.html()?.as_bytes())?;
    let wrong = outcome.checks.iter().filter(|check| !check.passed).count() as u64;
    if as_json {
        let figures = json!({
            "changes": changes,
            "batches": shared.batches.load(Ordering::Relaxed),
            "replay_seconds": outcome.replayed.as_secs_f64(),
            "changes_per_second": per_second(changes, outcome.replayed),
            "settle_seconds": outcome.settled.as_secs_f64(),
            "queries": samples.len(),
            "levels": levels,
            "checks": outcome.checks,
            "failures": failed,
            "failure_texts": failures,
            "passed": wrong == 0 && failed == 0,
            "dir": folder.display().to_string(),
            "report": path.display().to_string(),
        });
        failure::write_data(&format!("{figures}\n"))?;
    } else {
        failure::write_data(&format!(
            "{}\nreport: {}\nlook around: {command}\n",
            closing(&headline, &levels, outcome),
            path.display()
        ))?;
    }
    for failure in &failures {
        say(&format!("failed: {failure}"));
    }
    match (wrong, failed) {
        (0, 0) => Ok(()),
        (wrong, failed) => Err(Error::internal(format!(
            "{} of the answers and {} of the sums are wrong",
            thousands(failed),
            thousands(wrong)
        ))),
    }
}

/// What a run says in the end: what happened, what freshness cost, what was read, what was checked.
fn closing(headline: &str, levels: &[LevelSummary], outcome: &Outcome) -> String {
    format!(
        "{headline}\n\nWhat freshness cost\n{}\nWhat was read: the share of answers that read \
         each stage\n{}\n{}\n{}",
        stats::cost_table(levels),
        stats::read_table(levels),
        stats::price(levels).unwrap_or_default(),
        checks_text(outcome),
    )
}

fn headline(outcome: &Outcome, changes: u64, queries: u64) -> String {
    format!(
        "{} in {}, {:.1} s ({} changes/s);\n{} meanwhile; all of it in the authority {} after \
         the last write",
        counted(changes, "change"),
        counted(
            outcome.shared.batches.load(Ordering::Relaxed),
            "atomic batch"
        ),
        outcome.replayed.as_secs_f64(),
        thousands(per_second(changes, outcome.replayed) as u64),
        counted(queries, "answer"),
        micros(crate::figures::as_micros(outcome.settled)),
    )
}

fn checks_text(outcome: &Outcome) -> String {
    let wrong: Vec<&Check> = outcome
        .checks
        .iter()
        .filter(|check| !check.passed)
        .collect();
    if wrong.is_empty() {
        return format!(
            "{} against sums taken straight from the source files: all passed",
            counted(outcome.checks.len() as u64, "check")
        );
    }
    let line = |check: &&Check| format!("FAILED {}: {}", check.name, check.found);
    wrong.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
