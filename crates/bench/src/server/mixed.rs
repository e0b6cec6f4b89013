//! Reads while rows come in over Flight at a steady rate: points, ranges of 10,000 rows and a scan
//! of wide columns of all that was there before, each at best effort and at `FRESHNESS 0`, beside
//! their medians when nothing comes; and how stale best effort is meanwhile.
//!
//! Most of what comes in has keys after all others, the rest are new values of rows that are read.
//! So every read has the same rows in both, which have to be looked for in what came last.

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
use crate::ingest::PAUSED;
use crate::report::median;

/// Keys of new rows begin here.
pub(super) const FIRST_NEW_ID: i64 = 1 << 40;
/// A batch is sent so often.
const BATCHES_S: u64 = 10;
/// Rows of a range.
const RANGE_ROWS: u64 = 10_000;
/// How often best effort's staleness is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// One row of this many that come in is a row that was there before, with other values.
const UPDATE_ONE_OF: u64 = 20;
/// A median has settled where it is no farther than this part from that of the look before.
const STEADY: f64 = 0.2;
/// Looks until all have, at most.
const WARM_LOOKS_MAX: usize = 5;
/// Under load, looks are so many times as long as a rate is measured: two minutes, so that best
/// effort has the time to get staler than it may be.
const LOADED_TIMES: u32 = 6;
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
            Kind::Scan => {
                "sum(length(text)), sum(length(author_description)), sum(length(reply_text)), \
                 sum(length(urls)), sum(likes), sum(views) FROM events WHERE id < $1"
            }
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
    let time = world.args.time();
    let figure = |name: &str, value| world.goals.figure(name, value);
    let mut reader = Reader::new(world)?;
    figure("mixed_idle_warm_s", reader.warm(time / 4)?);
    let (_, cores) = reader.scans(BOUNDS[0].0, time / 2)?;
    figure("mixed_scan_idle_cores", cores);
    let idle = reader.look(time)?;
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (loaded, stalenesses) = thread::scope(|scope| {
        let writer = scope.spawn(|| write(world, FIRST_NEW_ID, &stop, &sent));
        let watcher = scope.spawn(|| watch(world, &stop));
        let loaded = reader.under_load(time, &sent);
        stop.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| "the writer panicked")??;
        let seen = watcher.join().map_err(|_| "the watcher panicked")??;
        Outcome::Ok((loaded?, seen))
    })?;
    let offered = world.args.rate() as f64;
    figure("mixed_warm_s", loaded.warm_s);
    figure("mixed_offered_rows_s", offered);
    figure("mixed_rows_s", loaded.rows_s);
    figure("mixed_offered_ratio", loaded.rows_s / offered);
    for ((name, idle), (_, loaded)) in idle.iter().zip(&loaded.medians) {
        figure(&format!("mixed_{name}_idle_us"), *idle);
        figure(&format!("mixed_{name}_us"), *loaded);
        figure(&format!("mixed_{name}_ratio"), loaded / idle);
    }
    let most = stalenesses.iter().copied().fold(0.0, f64::max);
    figure("mixed_staleness_median_s", median(&mut stalenesses.clone()));
    figure("mixed_staleness_max_s", most);
    reader.over_changes(time / 4)?;
    // Nothing of it shall go on while others are measured.
    let begun = Instant::now();
    reader.socket.query("SETTLE")?;
    figure("mixed_settle_s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// The medians of a look, in microseconds, by kind and bound.
type Medians = Vec<(String, f64)>;

/// Whether no median is far from what it was.
fn are_steady(before: &[(String, f64)], now: &[(String, f64)]) -> bool {
    let mut pairs = before.iter().zip(now);
    pairs.all(|((_, before), (_, now))| (now / before - 1.0).abs() <= STEADY)
}

/// What reads had while rows came in.
struct Loaded {
    warm_s: f64,
    rows_s: f64,
    medians: Medians,
}

/// A connection that reads.
struct Reader<'w> {
    world: &'w World<'w>,
    socket: Socket,
    rows: u64,
    seeded: Seeded,
}

impl<'w> Reader<'w> {
    fn new(world: &'w World<'w>) -> Outcome<Reader<'w>> {
        let mut socket = Socket::connect(&world.lazybase.address)?;
        for kind in KINDS {
            for (name, bound) in BOUNDS {
                socket.prepare(&format!("{}_{name}", kind.name()), &kind.sql(bound))?;
            }
        }
        Ok(Reader {
            world,
            socket,
            rows: world.rows.count,
            seeded: Seeded::new(5),
        })
    }

    /// Looks, each time for so long, until all medians have settled; the seconds that took.
    fn warm(&mut self, time: Duration) -> Outcome<f64> {
        let begun = Instant::now();
        let mut before = self.look(time)?;
        let mut settled = false;
        for _ in 1..WARM_LOOKS_MAX {
            let now = self.look(time)?;
            settled = are_steady(&before, &now);
            before = now;
            if settled {
                break;
            }
        }
        if !settled {
            self.world.goals.note("not all medians have settled");
        }
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Warms up while rows come in, then looks.
    fn under_load(&mut self, time: Duration, sent: &AtomicU64) -> Outcome<Loaded> {
        let warm_s = self.warm(time)?;
        let (begun, before) = (Instant::now(), sent.load(Ordering::Relaxed));
        let medians = self.look(time * LOADED_TIMES)?;
        let came = sent.load(Ordering::Relaxed) - before;
        Ok(Loaded {
            warm_s,
            rows_s: came as f64 / begun.elapsed().as_secs_f64(),
            medians,
        })
    }

    /// One scan after the other at a bound: their median, in microseconds, and how many cores the
    /// server kept busy with them; NaN where the system does not tell.
    fn scans(&mut self, bound: &str, time: Duration) -> Outcome<(f64, f64)> {
        let (begun, before) = (Instant::now(), self.world.lazybase.cpu());
        let mut micros = Vec::new();
        while begun.elapsed() < time || micros.is_empty() {
            micros.push(self.read(Kind::Scan, bound)?);
        }
        let took = begun.elapsed().as_secs_f64();
        let cores = match (before, self.world.lazybase.cpu()) {
            (Some(before), Some(after)) => after.saturating_sub(before).as_secs_f64() / took,
            _ => f64::NAN,
        };
        Ok((median(&mut micros), cores))
    }

    /// Scans over changes that are on their way, once nothing comes in and no stage takes them
    /// farther: what reconciling costs by itself.
    fn over_changes(&mut self, time: Duration) -> Outcome<()> {
        self.tell_stages("PAUSE")?;
        for (bound, _) in BOUNDS {
            let (micros, cores) = self.scans(bound, time)?;
            let name = |what: &str| format!("mixed_scan_{bound}_over_changes_{what}");
            self.world.goals.figure(&name("us"), micros);
            self.world.goals.figure(&name("cores"), cores);
        }
        self.tell_stages("RESUME")
    }

    fn tell_stages(&mut self, verb: &str) -> Outcome<()> {
        for stage in PAUSED {
            self.socket
                .query(&format!("{verb} STAGE {}", stage.name()))?;
        }
        Ok(())
    }

    /// The median of each kind and bound: in turns, for a time, once at least.
    fn look(&mut self, time: Duration) -> Outcome<Medians> {
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

/// Sends batches at the rate that is asked for, until it is told to stop: new rows with ids from
/// `first_new` on, and new values of rows that were there.
pub(super) fn write(
    world: &World<'_>,
    first_new: i64,
    stop: &AtomicBool,
    sent: &AtomicU64,
) -> Outcome<()> {
    let rows = (world.args.rate() / BATCHES_S).max(1);
    let updated = rows / UPDATE_ONE_OF;
    let new = rows - updated;
    let mut seeded = Seeded::new(9);
    runtime()?.block_on(async {
        let mut client = connect(world.lazybase.flight).await?;
        let begun = Instant::now();
        for number in 0_u64.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let first = first_new + (number * new) as i64;
            let mut batches = world.rows.batches(first, new);
            let ids = (0..updated).map(|_| seeded.below(world.rows.count) as i64);
            let ids: Vec<i64> = ids.collect();
            batches.extend(world.rows.with_ids(number as usize, &ids));
            send(&mut client, TABLE, batches).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_have_settled_where_none_has_changed_much() {
        let medians = |point, scan| vec![("point".to_owned(), point), ("scan".to_owned(), scan)];
        let before = medians(100.0, 1_000.0);
        assert!(are_steady(&before, &medians(115.0, 850.0)));
        assert!(!are_steady(&before, &medians(100.0, 1_300.0)));
        assert!(!are_steady(&before, &medians(70.0, 1_000.0)));
    }
}
