//! A process that is killed at random moments, again and again in one folder: every batch that it
//! acknowledged is there, whole, once; no batch is there in part; all files verify.
//!
//! ```text
//!   this test                       the child: this binary again, see `child`
//!   spawn ------------------------> open, check, verify          "opened 17 4 ..."
//!   wait a random time              write, read, define tables   "ack 0 18", "+ segment" ...
//!   SIGSTOP, SIGCONT (sometimes)
//!   SIGKILL ----------------------> x
//!   next round: what the child finds is what its predecessors acknowledged
//! ```
//!
//! Nobody closes the folder between kills. Rounds: `LAZYBASE_KILLS`; another run of the same
//! delays: `LAZYBASE_SEED`. The folder of a failure stays, as the process left it that failed.

#![allow(
    clippy::disallowed_methods,
    reason = "processes, threads and delays of the machine's own are what is tested here"
)]

mod child;
mod story;
mod watched;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use lazybase_cluster::{Instance, Settings, SettleTo};
use lazybase_engine::env::Random;
use lazybase_engine::env::local::LocalStore;
use lazybase_engine::env::system::SystemRandom;
use lazybase_model::Freshness;

use crate::harness::{fresh, open, scan};
use story::{Marks, WRITERS};

/// The rounds of `cargo test`; CI does some hundreds.
const KILLS_SHARE: u64 = 12;
/// How many rounds more there may be until every writer has written.
const KILLS_MORE_MAX: u64 = 100;
/// Between so many rounds the folder is opened, checked, settled and closed in peace.
const CALM_EVERY: u64 = 40;
/// A child that says nothing for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The scratch table is absent, empty, or filled.
const SCRATCH_STATES: usize = 3;
const SCRATCH_ROWS: i64 = 10;

const CHILD_FOLDER: &str = "LAZYBASE_KILL_FOLDER";
const CHILD_BASES: &str = "LAZYBASE_KILL_BASES";

/// Small sizes: all stages, log files, checkpoints and deletions come up within milliseconds.
fn settings() -> Settings {
    Settings {
        seal_age: Duration::from_millis(30),
        seal_bytes: 256 << 10,
        retention: Duration::from_millis(100),
        sort_memory: 24 << 10,
        cache_bytes: 1 << 20,
        unsorted_memory: 64 << 10,
        merge_fan_in: 3,
        merge_task_bytes: 512 << 10,
        range_split_bytes: 256 << 10,
        log_file_bytes: 1 << 20,
        ..Settings::default()
    }
}

/// Says a line to whoever started this process, in one write.
fn say(line: fmt::Arguments<'_>) {
    // Nobody listens any more when the parent is gone.
    let _ = std::io::stderr().write_all(format!("@ {line}\n").as_bytes());
}

/// How far the scratch table has come.
fn read_scratch(instance: &Instance) -> Result<usize, String> {
    let Ok(table) = instance.table("scratch") else {
        return Ok(0);
    };
    let rows =
        scan(&fresh(instance, Freshness::ZERO), &table).map_err(|error| error.to_string())?;
    match rows.len() as i64 {
        0 => Ok(1),
        SCRATCH_ROWS => Ok(2),
        other => Err(format!("the scratch table has {other} rows")),
    }
}

/// Random numbers that a seed gives again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_micros(1000 * from + self.below(1000 * (to - from)))
    }
}

/// What is known of the folder's content from what children said.
#[derive(Default)]
struct Known {
    marks: Marks,
    /// What the table without a key was emptied at.
    bases: Marks,
    scratch: usize,
    /// In the middle of what the children were killed, and how often.
    tally: BTreeMap<String, u64>,
    opened: u64,
    acknowledged: u64,
}

impl Known {
    /// A child found so much when it opened the folder: all that was acknowledged, and of each
    /// writer at most the batch that was on its way.
    fn found(&mut self, marks: Marks, scratch: usize) {
        for (writer, found) in marks.iter().enumerate() {
            let known = self.marks[writer];
            assert!(
                *found == known || *found == known + 1,
                "writer {writer}: {known} acknowledged, {found} found"
            );
        }
        let next = (self.scratch + 1) % SCRATCH_STATES;
        assert!(
            scratch == self.scratch || scratch == next,
            "the scratch table: state {} acknowledged, {scratch} found",
            self.scratch
        );
        self.marks = marks;
        self.scratch = scratch;
        self.opened += 1;
    }

    /// Takes all that a child said, from its start to its end.
    fn digest(&mut self, lines: &[String]) {
        let mut doing: BTreeMap<String, i64> = BTreeMap::new();
        let mut stages = "";
        for line in lines {
            let Some(said) = line.strip_prefix("@ ") else {
                continue;
            };
            let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
            let mut numbers = rest.split(' ').map_while(|word| word.parse::<u64>().ok());
            match word {
                "+" => *doing.entry(rest.to_owned()).or_default() += 1,
                "-" => *doing.entry(rest.to_owned()).or_default() -= 1,
                "stages" => stages = rest,
                "opened" => {
                    let marks = std::array::from_fn(|_| numbers.next().unwrap());
                    self.found(marks, numbers.next().unwrap() as usize);
                }
                "ack" => {
                    let writer = numbers.next().unwrap() as usize;
                    assert_eq!(numbers.next(), Some(self.marks[writer] + 1), "{line}");
                    self.marks[writer] += 1;
                    self.acknowledged += 1;
                }
                "defined" => self.scratch = numbers.next().unwrap() as usize,
                "bad" => panic!("{}", lines.join("\n")),
                _ => {}
            }
        }
        let stage = match lines.iter().any(|line| line.starts_with("@ writing")) {
            false => vec!["opening".to_owned()],
            true => stages.split_whitespace().map(str::to_owned).collect(),
        };
        let unfinished = doing.into_iter().filter(|(_, count)| *count > 0);
        for what in stage.into_iter().chain(unfinished.map(|(what, _)| what)) {
            *self.tally.entry(what).or_default() += 1;
        }
    }
}

/// A child and the lines that it says.
struct Victim {
    process: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Victim {
    fn spawn(folder: &Path, bases: &Marks) -> Victim {
        let bases: Vec<String> = bases.iter().map(u64::to_string).collect();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child_process", "--nocapture"])
            .env(CHILD_FOLDER, folder)
            .env(CHILD_BASES, bases.join(" "))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pipe = BufReader::new(process.stderr.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in pipe.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Victim {
            process,
            lines,
            said: Vec::new(),
        }
    }

    /// Takes lines until a moment, or until one begins so.
    fn listen(&mut self, until: Instant, line: Option<&str>) {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(said) => {
                    let found = line.is_some_and(|line| said.starts_with(line));
                    self.said.push(said);
                    if found {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) if line.is_none() => return,
                Err(error) => {
                    let _ = self.process.kill();
                    panic!("the child {error} after\n{}", self.said.join("\n"));
                }
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{name} {pid}")])
            .status();
        assert!(sent.unwrap().success());
    }

    /// SIGKILL, and all that it had said.
    fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let mut said = std::mem::take(&mut self.said);
        said.extend(self.lines.iter());
        said
    }
}

impl Drop for Victim {
    /// Nobody writes to a folder that is to be looked at.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One round: a child lives for a random time.
fn round(folder: &Path, known: &mut Known, dice: &mut Dice, number: u64) {
    let mut child = Victim::spawn(folder, &known.bases);
    let started = Instant::now();
    // Deleting files begins when nothing has named them for some seconds.
    let long = number % 25 == 7;
    if !long && dice.below(5) == 0 {
        child.listen(started + dice.millis(1, 120), None);
    } else {
        child.listen(started + SILENCE_MAX, Some("@ writing"));
        let delay = match long {
            true => dice.millis(2300, 3000),
            false => dice.millis(5, 300),
        };
        if dice.below(4) == 0 {
            child.listen(Instant::now() + delay / 2, None);
            child.signal("STOP");
            thread::sleep(dice.millis(5, 80));
            // Sometimes it is killed as it stands.
            if dice.below(3) > 0 {
                child.signal("CONT");
                child.listen(Instant::now() + delay / 2, None);
            }
        } else {
            child.listen(Instant::now() + delay, None);
        }
    }
    let said = child.kill();
    known.digest(&said);
}

/// Opens the folder in this process, checks it at every stage, and closes it.
fn calm(folder: &Path, known: &mut Known) {
    let store = Arc::new(LocalStore::open(folder).unwrap());
    let instance = open(store, settings()).unwrap();
    let tables = story::Tables {
        left: instance.table("left").unwrap(),
        right: instance.table("right").unwrap(),
        journal: instance.table("journal").unwrap(),
    };
    let check = |freshness| {
        let seen = child::see(&instance, freshness, &tables).unwrap();
        seen.check(&known.bases).unwrap()
    };
    let marks = check(Freshness::ZERO);
    let scratch = read_scratch(&instance).unwrap();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    assert_eq!(check(Freshness::BestEffort), marks);
    let report = block_on(instance.verify(&|_| {})).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    block_on(instance.truncate_table("journal")).unwrap();
    block_on(instance.close()).unwrap();
    known.found(marks, scratch);
    known.bases = marks;
}

#[test]
fn what_a_killed_process_acknowledged_is_there_once_and_whole() {
    let read = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let kills = read("LAZYBASE_KILLS").unwrap_or(KILLS_SHARE);
    let seed = read("LAZYBASE_SEED").unwrap_or_else(|| SystemRandom.next_u64());
    println!("LAZYBASE_KILLS={kills} LAZYBASE_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let lived = catch_unwind(AssertUnwindSafe(|| lives(folder.path(), kills, seed)));
    if let Err(panic) = lived {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        panic!(
            "{}\nLAZYBASE_SEED={seed}; the folder is kept: {}",
            text.unwrap_or("it panicked"),
            folder.keep().display()
        );
    }
}

/// All rounds in one folder.
fn lives(folder: &Path, kills: u64, seed: u64) {
    let mut dice = Dice(seed.max(1));
    let mut known = Known::default();
    // Where a disk takes long for a batch, more lives are needed until all have written one.
    let has_silent = |known: &Known| known.marks.contains(&0);
    let mut number = 0;
    while number < kills || (has_silent(&known) && number < kills + KILLS_MORE_MAX) {
        round(folder, &mut known, &mut dice, number);
        if number % CALM_EVERY == CALM_EVERY - 1 {
            calm(folder, &mut known);
        }
        number += 1;
    }
    calm(folder, &mut known);
    let Known {
        marks,
        acknowledged,
        tally,
        opened,
        ..
    } = &known;
    println!("{number} kills, {opened} openings, {acknowledged} batches acknowledged {marks:?}");
    println!("killed in the middle of: {tally:?}");
    assert!(marks.iter().all(|mark| *mark > 0), "every writer wrote");
}

/// Not a test: what the test above starts and kills.
#[test]
fn child_process() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else {
        return;
    };
    let bases = std::env::var(CHILD_BASES).unwrap();
    let mut bases = bases.split(' ').map(|word| word.parse().unwrap());
    let bases: [u64; WRITERS] = std::array::from_fn(|_| bases.next().unwrap());
    child::run(Path::new(&folder), &bases);
}
