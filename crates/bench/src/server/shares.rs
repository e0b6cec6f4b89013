//! How ingest, stages and queries share the cores: what each of them reaches while the others take
//! all that they can get, over what it reaches alone.
//!
//! ```text
//!   ingest     rows over Flight, each batch waited for, while all later stages are paused
//!   stages     the same rows, until all of them are in the authority, while nothing comes in
//!   queries    heavy statements of which some always wait for their turn, and points by key, one
//!              after the other over more connections than two cores can serve
//! ```
//!
//! Ingest and stages take turns, first alone, then beside the queries: so each has a figure of its
//! own, in which nothing of the other's back pressure is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;

use super::World;
use super::connections::read_one;
use super::copying::TABLE;
use super::flight::{self, connect, run, runtime};
use super::socket::Socket;
use crate::Outcome;
use crate::data::Seeded;
use crate::ingest::WARM_BATCHES;
use crate::report::median;

/// Connections that ask heavily: more than two cores have turns for.
const HEAVY: u64 = 12;
/// Connections that read points.
const POINTS: u64 = 16;
/// A heavy statement that reads no table, and its value.
const HEAVY_SQL: &str = "SELECT count(*) FROM generate_series(1, 5000000) AS s (x) WHERE x % 7 = 3";
const HEAVY_VALUE: &str = "714286";
/// How often somebody looks whether statements have ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Measures each alone, then all of them together.
pub(super) fn measure(world: &World<'_>) -> Outcome<()> {
    let alone = writes(world)?;
    let load = Load::default();
    let (asked_alone, beside, asked) = thread::scope(|scope| {
        let load = &load;
        let mut threads = Vec::new();
        for _ in 0..HEAVY {
            threads.push(scope.spawn(move || load.ended(load.ask_heavily(world))));
        }
        for seed in 0..POINTS {
            threads.push(scope.spawn(move || load.ended(load.read_points(world, seed))));
        }
        let measured = load.measure(world);
        load.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread
                .join()
                .map_err(|_| "a connection's thread panicked")??;
        }
        measured
    })?;
    let share = |name: &str, unit: &str, alone: f64, beside: f64| {
        let figure = |name: String, value| world.goals.figure(&name, value);
        figure(format!("share_{name}_alone_{unit}"), alone);
        figure(format!("share_{name}_{unit}"), beside);
        figure(format!("share_{name}_ratio"), beside / alone);
    };
    share("ingest", "rows_s", alone.ingest, beside.ingest);
    share("stages", "rows_s", alone.stages, beside.stages);
    share("heavy", "s", asked_alone[0], asked[0]);
    share("point", "s", asked_alone[1], asked[1]);
    Ok(())
}

/// Rows a second.
struct Writes {
    ingest: f64,
    stages: f64,
}

/// The medians of several turns.
fn writes(world: &World<'_>) -> Outcome<Writes> {
    let count = world.rows.count.min(flight::PAUSED_ROWS_MAX);
    let batches = world.rows.batches(0, count);
    let (mut ingest, mut stages) = (Vec::new(), Vec::new());
    for _ in 0..world.args.times() {
        let turn = write(world, &batches)?;
        ingest.push(turn.ingest);
        stages.push(turn.stages);
    }
    Ok(Writes {
        ingest: median(&mut ingest),
        stages: median(&mut stages),
    })
}

/// Ingest's turn, then that of the stages.
fn write(world: &World<'_>, batches: &[RecordBatch]) -> Outcome<Writes> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    runtime()?.block_on(async {
        let mut client = connect(world.lazybase.flight).await?;
        let warm = batches.iter().take(WARM_BATCHES).cloned().collect();
        flight::begin_paused(&mut client, warm).await?;
        let puts = batches.iter().map(|batch| vec![batch.clone()]).collect();
        let ingest = flight::put_all(&mut client, puts).await?;
        let begun = Instant::now();
        flight::resume(&mut client).await?;
        run(&mut client, "SETTLE").await?;
        let stages = rows as f64 / begun.elapsed().as_secs_f64();
        flight::end(&mut client).await?;
        Outcome::Ok(Writes { ingest, stages })
    })
}

/// How many statements of each kind end in a second: heavy ones, and points.
type Asked = [f64; 2];

/// Queries that take all that they can get, until they are told to stop.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    heavy: AtomicU64,
    points: AtomicU64,
}

impl Load {
    /// The queries by themselves, then beside writes.
    fn measure(&self, world: &World<'_>) -> Outcome<(Asked, Writes, Asked)> {
        let time = world.args.time();
        self.go_on(time / 4);
        let ((), alone) = self.beside(|| {
            self.go_on(time);
            Ok(())
        })?;
        let (writes, beside) = self.beside(|| writes(world))?;
        Ok((alone, writes, beside))
    }

    /// What comes of some work, and the queries that end meanwhile.
    fn beside<T>(&self, work: impl FnOnce() -> Outcome<T>) -> Outcome<(T, Asked)> {
        let (begun, before) = (Instant::now(), self.counts());
        let done = work()?;
        let seconds = begun.elapsed().as_secs_f64();
        let after = self.counts();
        let asked = [0, 1].map(|at| (after[at] - before[at]) as f64 / seconds);
        Ok((done, asked))
    }

    /// Waits for so long, and until a query of each kind has ended.
    fn go_on(&self, time: Duration) {
        let (begun, before) = (Instant::now(), self.counts());
        let has_risen = || {
            let now = self.counts();
            now[0] > before[0] && now[1] > before[1]
        };
        while !self.is_over() && (begun.elapsed() < time || !has_risen()) {
            thread::sleep(LOOK_EVERY);
        }
    }

    fn counts(&self) -> [u64; 2] {
        [&self.heavy, &self.points].map(|count| count.load(Ordering::Relaxed))
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whoever ends, ends all: nobody waits for queries that have failed.
    fn ended(&self, done: Outcome<()>) -> Outcome<()> {
        self.stop.store(true, Ordering::Relaxed);
        done
    }

    fn ask_heavily(&self, world: &World<'_>) -> Outcome<()> {
        let mut socket = Socket::connect(&world.lazybase.address)?;
        while !self.is_over() {
            let value = socket.value(HEAVY_SQL)?;
            if value != HEAVY_VALUE {
                return Err(format!("{HEAVY_SQL} gave {value}").into());
            }
            self.heavy.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn read_points(&self, world: &World<'_>, seed: u64) -> Outcome<()> {
        let mut socket = Socket::connect(&world.lazybase.address)?;
        socket.prepare("point", &format!("SELECT * FROM {TABLE} WHERE id = $1"))?;
        let mut seeded = Seeded::new(seed);
        while !self.is_over() {
            read_one(&mut socket, seeded.below(world.rows.count) as i64)?;
            self.points.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
