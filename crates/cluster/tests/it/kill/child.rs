//! The process that gets killed: opens the folder, checks what it finds, then writes and reads
//! until its end. What it says goes line by line to standard error, unbuffered.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use lazybase_cluster::{BatchNumber, Instance};
use lazybase_engine::env::Env;
use lazybase_engine::env::local::LocalStore;
use lazybase_engine::key::{Key, KeyCodec};
use lazybase_model::{ErrorKind, Freshness, Table};

use super::story::{self, Marks, NAMED, Seen, Tables, WRITERS};
use super::watched::Watched;
use super::{SCRATCH_ROWS, SCRATCH_STATES, read_scratch, say, settings};
use crate::harness::{Change, changes, fresh, rows_of, scan, spec};

type Checked<T> = std::result::Result<T, String>;

/// What the threads know of each other's progress.
#[derive(Default)]
struct Progress {
    /// The number of the batch that each writer has begun last.
    begun: [AtomicU64; WRITERS],
    /// When each writer heard of which batch.
    heard: [Heard; WRITERS],
}

/// The numbers that a writer heard of, each with the moment.
#[derive(Default)]
struct Heard(Mutex<Vec<(Instant, u64)>>);

impl Heard {
    fn push(&self, number: u64) {
        self.0.lock().unwrap().push((Instant::now(), number));
    }

    /// The newest number heard of at or before a moment.
    fn at(&self, moment: Instant) -> u64 {
        let list = self.0.lock().unwrap();
        let count = list.partition_point(|(heard, _)| *heard <= moment);
        list[..count].last().map_or(0, |(_, number)| *number)
    }
}

/// Runs until killed; whatever is not as it must be ends the process with a line that says so.
pub(super) fn run(folder: &Path, bases: &Marks) {
    if let Err(problem) = live(folder, bases) {
        say(format_args!("bad {problem}"));
        std::process::exit(1);
    }
}

fn live(folder: &Path, bases: &Marks) -> Checked<()> {
    let failed = |what: &'static str| move |error| format!("{what}: {error}");
    let store = LocalStore::open(folder).map_err(failed("lock"))?;
    let env = Env::system(Arc::new(Watched(store)));
    let opened = block_on(Instance::open(env, settings()));
    let instance = opened.map_err(failed("open"))?;
    let tables = tables(&instance)?;
    let seen = see(&instance, Freshness::ZERO, &tables)?;
    let marks = seen.check(bases)?;
    let scratch = read_scratch(&instance)?;
    let report = block_on(instance.verify(&|_| {})).map_err(failed("verify"))?;
    if !report.problems.is_empty() {
        return Err(format!("verify: {:?}", report.problems));
    }
    let mut sessions = Vec::new();
    for (writer, mark) in marks.iter().enumerate().take(NAMED) {
        let opened = block_on(instance.open_producer(&format!("writer {writer}")));
        let (epoch, known) = opened.map_err(failed("open a producer"))?;
        let known = known.map_or(0, |mark| mark.number);
        if known != *mark {
            return Err(format!("writer {writer} is at {known}, its rows at {mark}"));
        }
        sessions.push(epoch);
    }
    let [a, b, c, d] = marks;
    say(format_args!("opened {a} {b} {c} {d} {scratch}"));
    let progress = Progress::default();
    for (writer, mark) in marks.iter().enumerate() {
        progress.begun[writer].store(*mark, Ordering::SeqCst);
        progress.heard[writer].push(*mark);
    }
    say(format_args!("writing"));
    thread::scope(|scope| {
        let (instance, tables, progress) = (&instance, &tables, &progress);
        for writer in 0..WRITERS {
            let epoch = sessions.get(writer).copied();
            let work = move || write(instance, tables, progress, writer, epoch);
            scope.spawn(move || or_end(work()));
        }
        scope.spawn(|| or_end(read(instance, tables, progress, bases)));
        scope.spawn(|| or_end(define(instance, scratch)));
        scope.spawn(|| observe(instance));
    });
    Ok(())
}

/// A thread that has found something wrong ends the process.
fn or_end(outcome: Checked<()>) {
    if let Err(problem) = outcome {
        say(format_args!("bad {problem}"));
        std::process::exit(1);
    }
}

fn tables(instance: &Instance) -> Checked<Tables> {
    let table = |name: &str, key: &[&str]| {
        let made = block_on(instance.create_table(spec(name, key), true));
        made.and_then(|_| instance.table(name))
            .map_err(|error| format!("create {name}: {error}"))
    };
    Ok(Tables {
        left: table("left", &["id"])?,
        right: table("right", &["id"])?,
        journal: table("journal", &[])?,
    })
}

/// One answer over all three tables.
pub(super) fn see(instance: &Instance, freshness: Freshness, tables: &Tables) -> Checked<Seen> {
    let snapshot = fresh(instance, freshness);
    let rows = |table: &Table| {
        scan(&snapshot, table).map_err(|error| format!("scan of {}: {error}", table.name))
    };
    Ok(Seen {
        left: rows(&tables.left)?,
        right: rows(&tables.right)?,
        journal: rows(&tables.journal)?,
    })
}

/// One writer. A named one first sends its last batch again, which must count once.
fn write(
    instance: &Instance,
    tables: &Tables,
    progress: &Progress,
    writer: usize,
    epoch: Option<u64>,
) -> Checked<()> {
    let send = |number: u64, content: u64| {
        let name = epoch.map(|epoch| BatchNumber {
            name: format!("writer {writer}"),
            epoch,
            number,
        });
        block_on(async {
            let mut batch = instance.begin(name);
            story::append(&mut batch, tables, writer, content).await?;
            batch.commit().await
        })
    };
    let mut number = progress.begun[writer].load(Ordering::SeqCst);
    if epoch.is_some() && number > 0 {
        let again = send(number, number).map_err(|error| format!("batch sent again: {error}"))?;
        if !again.duplicate {
            return Err(format!("batch {number} of writer {writer} counts twice"));
        }
        match send(number, number + 1) {
            Err(error) if error.kind() == ErrorKind::Invalid => {}
            other => return Err(format!("other content under a number: {other:?}")),
        }
    }
    loop {
        number += 1;
        progress.begun[writer].store(number, Ordering::SeqCst);
        let done = send(number, number).map_err(|error| format!("batch {number}: {error}"))?;
        if done.duplicate {
            return Err(format!("batch {number} of writer {writer} is no duplicate"));
        }
        progress.heard[writer].push(number);
        say(format_args!("ack {writer} {number}"));
    }
}

/// Reads at several bounds: every answer holds whole batches, and those that its bound demands.
fn read(instance: &Instance, tables: &Tables, progress: &Progress, bases: &Marks) -> Checked<()> {
    let bounds = [
        Freshness::ZERO,
        Freshness::BestEffort,
        Freshness::Within(Duration::from_millis(20)),
        Freshness::Within(Duration::from_millis(120)),
    ];
    for freshness in bounds.into_iter().cycle() {
        let asked = Instant::now();
        let moment = match freshness {
            Freshness::Within(bound) => asked.checked_sub(bound),
            Freshness::BestEffort => None,
        };
        let least = |writer: usize| moment.map_or(0, |at| progress.heard[writer].at(at));
        let least: [u64; WRITERS] = std::array::from_fn(least);
        let seen = see(instance, freshness, tables)?;
        let most: [u64; WRITERS] =
            std::array::from_fn(|writer| progress.begun[writer].load(Ordering::SeqCst));
        let marks = seen
            .check(bases)
            .map_err(|problem| format!("freshness {freshness}: {problem}"))?;
        for writer in 0..WRITERS {
            if marks[writer] < least[writer] || marks[writer] > most[writer] {
                return Err(format!(
                    "freshness {freshness}: an answer with {marks:?}, from {least:?} to {most:?}"
                ));
            }
        }
        point(instance, tables, progress)?;
    }
    Ok(())
}

/// A read by key is as fresh as a scan.
fn point(instance: &Instance, tables: &Tables, progress: &Progress) -> Checked<()> {
    let codec = KeyCodec::primary(&tables.left).map_err(|error| error.to_string())?;
    let asked: Vec<Change> = (0..WRITERS)
        .map(|writer| Change::Delete(story::head(writer)))
        .collect();
    let rows = changes(&tables.left, &asked).data;
    let keys = codec.encode(&rows).map_err(|error| error.to_string())?;
    let now = Instant::now();
    let least: [u64; WRITERS] = std::array::from_fn(|writer| progress.heard[writer].at(now));
    let snapshot = fresh(instance, Freshness::ZERO);
    for (writer, least) in least.iter().enumerate() {
        let key = Key::new(keys.row(writer).data());
        let found = block_on(snapshot.get(tables.left.id, &[key], &[0, 1, 2], &[]));
        let found = rows_of(&found.map_err(|error| format!("get: {error}"))?);
        let number = found.first().and_then(|row| row.1).unwrap_or(0) as u64;
        if number < *least {
            return Err(format!("get: writer {writer} at {number}, not at {least}"));
        }
    }
    Ok(())
}

/// A table comes, is filled by one batch, and goes, again and again.
fn define(instance: &Instance, mut state: usize) -> Checked<()> {
    loop {
        thread::sleep(Duration::from_millis(25));
        let done = match state {
            0 => block_on(instance.create_table(spec("scratch", &["id"]), false)).map(drop),
            1 => block_on(async {
                let table = instance.table("scratch")?;
                let rows: Vec<_> = (0..SCRATCH_ROWS).map(|id| (id, None, None)).collect();
                let mut batch = instance.begin(None);
                batch.append(&table, story::upserts(&rows)).await?;
                batch.commit().await.map(drop)
            }),
            _ => block_on(instance.drop_table("scratch", false)).map(drop),
        };
        done.map_err(|error| format!("definition {state}: {error}"))?;
        state = (state + 1) % SCRATCH_STATES;
        say(format_args!("defined {state}"));
    }
}

/// Says which stages are at work, whenever that changes.
fn observe(instance: &Instance) {
    let mut last = String::new();
    loop {
        let status = instance.status();
        let mut stages: Vec<&str> = status
            .running
            .iter()
            .map(|task| task.stage.name())
            .collect();
        stages.sort_unstable();
        stages.dedup();
        let mut now = stages.join(" ");
        if status.open_batches > 0 {
            now += " open";
        }
        if status.sealed_through > status.sorted_through {
            now += " unsorted";
        }
        if now != last {
            say(format_args!("stages {now}"));
            last = now;
        }
        thread::sleep(Duration::from_millis(2));
    }
}
