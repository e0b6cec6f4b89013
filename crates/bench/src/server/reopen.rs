//! Opening again after a crash under load: the server is killed while rows come in and merges run,
//! started again over the same folder, and asked for what it acknowledged last.
//!
//! Nothing is emptied between: the files are in the page cache, as they are on a machine whose
//! process died.

use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use super::flight::{connect, run as run_sql, runtime, send};
use super::goals::{Goals, OF_REOPEN};
use super::hosts::{self, LazyBase};
use super::rows::Rows;
use super::socket::Socket;
use crate::Outcome;
use crate::report::median;

/// What `reopen` is asked for.
#[derive(Debug, Args)]
pub(crate) struct ReopenArgs {
    /// Rows that are there before the first crash; a gigabyte is some 900,000.
    #[arg(long, default_value_t = 9_200_000)]
    rows: u64,
    /// How often it crashes.
    #[arg(long, default_value_t = 5)]
    times: usize,
    /// How long rows come in before each crash, in seconds.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// The server's program [default: `lazybase` beside this one].
    #[arg(long)]
    lazybase: Option<PathBuf>,
    /// Where to write; the data goes into a folder of its own there, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The last line is one JSON object with all figures.
    #[arg(long)]
    json: bool,
    /// Fail when a figure misses its goal.
    #[arg(long)]
    pub(crate) check: bool,
}

const TABLE: &str = "kept";
/// Rows of an atomic batch.
const BATCH_ROWS: u64 = 7_000;

/// What was acknowledged: rows with ids from 0 on, and how many more were sent at most.
#[derive(Debug, Default, Clone, Copy)]
struct Sent {
    acknowledged: u64,
    in_flight: u64,
}

/// Loads, crashes and opens again; whether every figure meets its goal.
pub(crate) fn run(args: &ReopenArgs) -> Outcome<bool> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&parent)?;
    let folder = tempfile::Builder::new()
        .prefix("lazybase-reopen-")
        .tempdir_in(&parent)?;
    let served = folder.path().join("served");
    let program = hosts::binary(args.lazybase.as_deref())?;
    let goals = Goals::new(OF_REOPEN);
    let rows = Rows::new(args.rows)?;
    let sent = Mutex::new(Sent::default());
    let mut server = LazyBase::start(&program, &served)?;
    goals.note(&format!("{} rows come in", args.rows));
    write(&server, &rows, &sent, true, |now| {
        now.acknowledged >= args.rows
    })?;
    let (mut ready, mut answered, mut checked) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.times.max(1) {
        let end = Instant::now() + Duration::from_secs(args.seconds);
        thread::scope(|scope| {
            let writer = scope.spawn(|| write(&server, &rows, &sent, false, |_| false));
            thread::sleep(end.saturating_duration_since(Instant::now()));
            server.kill()?;
            // Its connection is gone, which is an error that was asked for.
            let _ = writer.join().map_err(|_| "the writer panicked")?;
            Outcome::Ok(())
        })?;
        let before = *sent.lock().expect("no holder panics");
        let begun = Instant::now();
        server = LazyBase::start(&program, &served)?;
        ready.push(begun.elapsed().as_secs_f64() * 1e3);
        let last = before.acknowledged - 1;
        expect(&server, &format!("WHERE id = {last}"), 1..=1)?;
        answered.push(begun.elapsed().as_secs_f64() * 1e3);
        let whole = before.acknowledged..=before.acknowledged + before.in_flight;
        let there = expect(&server, "", whole)?;
        checked.push(begun.elapsed().as_secs_f64() * 1e3);
        // What was on its way is there as a whole, or not at all.
        if there != before.acknowledged && there != before.acknowledged + before.in_flight {
            return Err(format!("{there} rows are there: a part of a batch").into());
        }
        *sent.lock().expect("no holder panics") = Sent {
            acknowledged: there,
            in_flight: 0,
        };
    }
    let rows_at_end = sent.lock().expect("no holder panics").acknowledged;
    goals.figure("reopen_rows", rows_at_end as f64);
    goals.figure("reopen_ready_ms", median(&mut ready.clone()));
    goals.figure("reopen_ready_max_ms", ready.into_iter().fold(0.0, f64::max));
    goals.figure("reopen_answer_ms", median(&mut answered.clone()));
    goals.figure(
        "reopen_answer_max_ms",
        answered.into_iter().fold(0.0, f64::max),
    );
    goals.figure("reopen_count_ms", median(&mut checked));
    server.stop()?;
    goals.tell(args.json);
    Ok(goals.all_met())
}

/// Sends batches until `done`, or until the server is gone; brings them to the authority where
/// nothing crashes yet.
fn write(
    server: &LazyBase,
    rows: &Rows,
    sent: &Mutex<Sent>,
    create: bool,
    done: impl Fn(Sent) -> bool,
) -> Outcome<()> {
    runtime()?.block_on(async {
        let mut client = connect(server.flight).await?;
        if create {
            run_sql(&mut client, &Rows::create_table(TABLE)).await?;
        }
        loop {
            let first = {
                let mut now = sent.lock().expect("no holder panics");
                if done(*now) {
                    return Ok(());
                }
                now.in_flight = BATCH_ROWS;
                now.acknowledged
            };
            let batches = rows.batches(first as i64, BATCH_ROWS);
            send(&mut client, TABLE, batches).await?;
            *sent.lock().expect("no holder panics") = Sent {
                acknowledged: first + BATCH_ROWS,
                in_flight: 0,
            };
        }
    })
}

/// How many rows are there at `FRESHNESS 0`, which must be so many.
fn expect(
    server: &LazyBase,
    condition: &str,
    whole: std::ops::RangeInclusive<u64>,
) -> Outcome<u64> {
    let sql = format!("SELECT count(*) FROM {TABLE} {condition} FRESHNESS 0");
    let there: u64 = Socket::connect(&server.address)?.value(&sql)?.parse()?;
    match whole.contains(&there) {
        true => Ok(there),
        false => Err(format!("{there} rows are there {condition}, not {whole:?}").into()),
    }
}
