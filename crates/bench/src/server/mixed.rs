//! Reads while rows come in over Flight at a steady rate: points, ranges of 10,000 rows and a scan
//! of all that was there before, each at best effort and at `FRESHNESS 0`, beside their medians
//! when nothing comes; and how stale best effort is meanwhile.
//!
//! What comes in has keys after all others, so that every read has the same rows in both.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow_flight::decode::DecodedPayload;
use futures::TryStreamExt;

use super::World;
use super::copying::TABLE;
use super::flight::{Client, connect, runtime, send};
use super::socket::Socket;
use crate::Outcome;
use crate::data::Seeded;
use crate::report::median;

/// Keys of what comes in.
const FIRST_NEW_ID: i64 = 1 << 40;
/// A batch is sent so often.
const BATCHES_S: u64 = 10;
/// Rows of a range.
const RANGE_ROWS: u64 = 10_000;
/// How often best effort's staleness is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// What comes in before anything is measured is a part of the whole time.
const WARM_PART: u32 = 4;
const BOUNDS: [(&str, &str); 2] = [("best_effort", "'best effort'"), ("fresh", "0")];
const KINDS: [Kind; 3] = [Kind::Point, Kind::Range, Kind::Scan];

#[derive(Debug, Clone, Copy)]
enum Kind {
    Point,
    Range,
    Scan,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Point => "point",
            Kind::Range => "range",
            Kind::Scan => "scan",
        }
    }

    fn sql(self, bound: &str) -> String {
        let what = match self {
            Kind::Point => "* FROM events WHERE id = $1",
            Kind::Range => "* FROM events WHERE id >= $1 AND id < $2",
            Kind::Scan => "sum(likes), sum(views) FROM events WHERE id < $1",
        };
        format!("SELECT {what} FRESHNESS {bound}").replace("events", TABLE)
    }

    /// So many of a kind are one look: short ones more often.
    fn times(self) -> usize {
        match self {
            Kind::Point => 50,
            Kind::Range => 5,
            Kind::Scan => 1,
        }
    }
}

/// Measures idle, then under load.
pub(super) fn measure(world: &World<'_>) -> Outcome<()> {
    let time = world.args.time() * 3;
    let mut reader = Reader::new(world)?;
    reader.look(time / 10)?;
    let idle = reader.look(time / 3)?;
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (loaded, rate, stalenesses) = thread::scope(|scope| {
        let writer = scope.spawn(|| write(world, &stop, &sent));
        let watcher = scope.spawn(|| watch(world, &stop));
        thread::sleep(time / WARM_PART);
        let (begun, before) = (Instant::now(), sent.load(Ordering::Relaxed));
        let loaded = reader.look(time);
        let came = sent.load(Ordering::Relaxed) - before;
        let rate = came as f64 / begun.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| "the writer panicked")??;
        let seen = watcher.join().map_err(|_| "the watcher panicked")??;
        Outcome::Ok((loaded?, rate, seen))
    })?;
    let figure = |name: &str, value| world.goals.figure(name, value);
    figure("mixed_offered_rows_s", world.args.rate() as f64);
    figure("mixed_rows_s", rate);
    for ((name, idle), (_, loaded)) in idle.iter().zip(&loaded) {
        figure(&format!("mixed_{name}_idle_us"), *idle);
        figure(&format!("mixed_{name}_us"), *loaded);
        figure(&format!("mixed_{name}_ratio"), loaded / idle);
    }
    let most = stalenesses.iter().copied().fold(0.0, f64::max);
    figure("mixed_staleness_median_s", median(&mut stalenesses.clone()));
    figure("mixed_staleness_max_s", most);
    Ok(())
}

/// A connection that reads.
struct Reader {
    socket: Socket,
    rows: u64,
    seeded: Seeded,
}

impl Reader {
    fn new(world: &World<'_>) -> Outcome<Reader> {
        let mut socket = Socket::connect(&world.lazybase.address)?;
        for kind in KINDS {
            for (name, bound) in BOUNDS {
                socket.prepare(&format!("{}_{name}", kind.name()), &kind.sql(bound))?;
            }
        }
        Ok(Reader {
            socket,
            rows: world.rows.count,
            seeded: Seeded::new(5),
        })
    }

    /// The median of each kind and bound, in microseconds: in turns, for a time, once at least.
    fn look(&mut self, time: Duration) -> Outcome<Vec<(String, f64)>> {
        let begun = Instant::now();
        let mut micros = vec![Vec::new(); KINDS.len() * BOUNDS.len()];
        while begun.elapsed() < time || micros[0].is_empty() {
            let mut lists = micros.iter_mut();
            for kind in KINDS {
                for (bound, _) in BOUNDS {
                    let list = lists.next().ok_or("a list for each kind")?;
                    for _ in 0..kind.times() {
                        list.push(self.read(kind, bound)?);
                    }
                }
            }
        }
        let names = KINDS
            .iter()
            .flat_map(|kind| BOUNDS.map(|(bound, _)| format!("{}_{bound}", kind.name())));
        Ok(names
            .zip(&mut micros)
            .map(|(name, list)| (name, median(list)))
            .collect())
    }

    fn read(&mut self, kind: Kind, bound: &str) -> Outcome<f64> {
        let range = RANGE_ROWS.min(self.rows / 2);
        let below = |seeded: &mut Seeded, end: u64| seeded.below(end.max(1)) as i64;
        let (values, expected) = match kind {
            Kind::Point => (vec![below(&mut self.seeded, self.rows)], 1),
            Kind::Range => {
                let first = below(&mut self.seeded, self.rows - range);
                (vec![first, first + range as i64], range)
            }
            Kind::Scan => (vec![self.rows as i64], 1),
        };
        let begun = Instant::now();
        let name = format!("{}_{bound}", kind.name());
        let told = self.socket.execute(&name, &values)?;
        let took = begun.elapsed().as_secs_f64() * 1e6;
        match told.rows == expected {
            true => Ok(took),
            false => Err(format!("{name} gave {} rows, not {expected}", told.rows).into()),
        }
    }
}

/// Sends batches at the rate that is asked for, until it is told to stop.
pub(super) fn write(world: &World<'_>, stop: &AtomicBool, sent: &AtomicU64) -> Outcome<()> {
    let rows = (world.args.rate() / BATCHES_S).max(1);
    runtime()?.block_on(async {
        let mut client = connect(world.lazybase.flight).await?;
        let begun = Instant::now();
        for number in 0_u64.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let first = FIRST_NEW_ID + (number * rows) as i64;
            send(&mut client, TABLE, world.rows.batches(first, rows)).await?;
            sent.fetch_add(rows, Ordering::Relaxed);
            let due = Duration::from_secs_f64((number + 1) as f64 / BATCHES_S as f64);
            tokio::time::sleep(due.saturating_sub(begun.elapsed())).await;
        }
        Outcome::Ok(())
    })
}

/// Looks at the staleness of best effort, in seconds, until it is told to stop.
fn watch(world: &World<'_>, stop: &AtomicBool) -> Outcome<Vec<f64>> {
    runtime()?.block_on(async {
        let mut client = connect(world.lazybase.flight).await?;
        let mut seen = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            seen.push(staleness(&mut client).await?);
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Outcome::Ok(seen)
    })
}

async fn staleness(client: &mut Client) -> Outcome<f64> {
    let sql = format!("SELECT id FROM {TABLE} WHERE id = 0 FRESHNESS 'best effort'");
    let info = client.execute(sql, None).await?;
    let ticket = info.endpoint.first().and_then(|at| at.ticket.clone());
    let rows = client.do_get(ticket.ok_or("there is no ticket")?).await?;
    let mut messages = rows.into_inner();
    let (mut told, mut rows) = (None, 0);
    while let Some(message) = messages.try_next().await? {
        let metadata = message.app_metadata();
        if let Ok(answer) = serde_json::from_slice::<serde_json::Value>(&metadata) {
            told = answer["stamp"]["staleness_ms"].as_f64().or(told);
        }
        if let DecodedPayload::RecordBatch(batch) = message.payload {
            rows += batch.num_rows();
        }
    }
    match (told, rows) {
        (Some(millis), 1) => Ok(millis / 1e3),
        other => Err(format!("an answer without its stamp, or its row: {other:?}").into()),
    }
}
