//! Point reads, each with a snapshot of its own, on one thread: of all keys with the segments'
//! indexes open and the files in the page cache, of a hot set in the cache of decoded extents, and
//! of the same hot keys at `FRESHNESS 0` while rows come in.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use lazybase_cluster::{Settings, SnapshotRequest};
use lazybase_engine::key::Key;
use lazybase_engine::read::Snapshot;
use lazybase_model::{Freshness, Layout};

use crate::Outcome;
use crate::base::{self, Base, Running};
use crate::data::{Pool, Seeded};
use crate::report::{Report, median};

/// The rows of the hot set, and the cache that it is read through.
const HOT_ROWS: u64 = 200_000;
const HOT_CACHE_BYTES: u64 = 512 << 20;
/// A segment holds more rows than this.
const INDEX_STEP: usize = 10_000;
/// How many rows a second come in while hot keys are read.
const FRESH_ROWS_PER_SECOND: f64 = 50_000.0;
/// Keys that are encoded beforehand, to be read in turn.
const KEYS: usize = 100_000;

/// Measures the table in its layout.
pub(crate) fn measure(
    report: &Report,
    pool: &Pool,
    base: &Base,
    layout: Layout,
    quick: bool,
) -> Outcome<()> {
    base.warm()?;
    let turn = Duration::from_secs(if quick { 1 } else { 5 });
    let by_layout = |scan: &'static str, point: &'static str| match layout {
        Layout::Scan => scan,
        Layout::Point => point,
    };
    let running = base.open(base::settings())?;
    // One read of each stretch of keys opens the segments' indexes.
    let spread: Vec<i64> = (0..base.rows as i64).step_by(INDEX_STEP).collect();
    for key in base::keys(&running.table, &spread)? {
        block_on(read(&running, &key, Freshness::ZERO))?;
    }
    let cold = random_keys(&running, 0..base.rows)?;
    let all = read_for(&running, &cold, turn, Freshness::ZERO)?;
    report.figure(
        base.shape,
        by_layout("point_uncached_s", "point_layout_s"),
        all.per_second(),
    );
    let name = by_layout("point_uncached_median_us", "point_layout_median_us");
    report.figure(base.shape, name, all.median_us());
    let (extents, bytes) = cost_of_reads(&running, &cold)?;
    report.figure(
        base.shape,
        by_layout("point_extents_a_run", "point_layout_extents_a_run"),
        extents,
    );
    report.figure(
        base.shape,
        by_layout("point_bytes", "point_layout_bytes"),
        bytes,
    );
    running.close()?;

    let hot_settings = Settings {
        cache_bytes: HOT_CACHE_BYTES,
        ..base::settings()
    };
    let running = base.open(hot_settings)?;
    let middle = base.rows / 2;
    let hot = middle..base.rows.min(middle + HOT_ROWS);
    let warmth: Vec<i64> = (hot.start as i64..hot.end as i64).step_by(8).collect();
    for key in base::keys(&running.table, &warmth)? {
        block_on(read(&running, &key, Freshness::ZERO))?;
    }
    let keys = random_keys(&running, hot)?;
    let idle = read_for(&running, &keys, turn, Freshness::ZERO)?;
    let name = by_layout("point_cached_scan_layout_s", "point_cached_s");
    report.figure(base.shape, name, idle.per_second());
    let fresh = read_while_writing(pool, &running, &keys, turn, base.rows as i64)?;
    let name = by_layout("point_fresh_scan_layout_ratio", "point_fresh_ratio");
    report.figure(base.shape, name, fresh.reads.median_us() / idle.median_us());
    let name = by_layout(
        "point_fresh_scan_layout_written_rows_s",
        "point_fresh_written_rows_s",
    );
    report.figure(base.shape, name, fresh.written_rows_s);
    running.close()?;
    Ok(())
}

/// Keys of the range, at random.
fn random_keys(running: &Running, ids: std::ops::Range<u64>) -> Outcome<Vec<Key>> {
    let mut seeded = Seeded::new(5);
    let rows = ids.end - ids.start;
    let ids: Vec<i64> = (0..KEYS)
        .map(|_| (ids.start + seeded.below(rows)) as i64)
        .collect();
    base::keys(&running.table, &ids)
}

/// Reads one row, all columns, at a snapshot of its own.
pub(crate) async fn read(running: &Running, key: &Key, freshness: Freshness) -> Outcome<Snapshot> {
    let snapshot = running
        .instance
        .snapshot(request(running, freshness))
        .await?;
    let projection: Vec<usize> = (0..running.table.columns.len()).collect();
    let rows = snapshot
        .get(
            running.table.id,
            std::slice::from_ref(key),
            &projection,
            &[],
        )
        .await?;
    match rows.num_rows() {
        1 => Ok(snapshot),
        rows => Err(format!("a key that is there gave {rows} rows").into()),
    }
}

/// What a read of the table asks for.
pub(crate) fn request(running: &Running, freshness: Freshness) -> SnapshotRequest {
    let tables = Some(vec![running.table.id]);
    SnapshotRequest {
        freshness,
        tables,
        owner: "bench".to_owned(),
        ..SnapshotRequest::default()
    }
}

/// The times of a number of reads.
struct Reads {
    micros: Vec<f64>,
    elapsed: Duration,
}

impl Reads {
    fn per_second(&self) -> f64 {
        self.micros.len() as f64 / self.elapsed.as_secs_f64()
    }

    fn median_us(&self) -> f64 {
        median(&mut self.micros.clone())
    }
}

fn read_for(
    running: &Running,
    keys: &[Key],
    turn: Duration,
    freshness: Freshness,
) -> Outcome<Reads> {
    let start = Instant::now();
    let mut micros = Vec::new();
    for key in keys.iter().cycle() {
        let begun = Instant::now();
        if begun - start >= turn {
            break;
        }
        block_on(read(running, key, freshness))?;
        micros.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Reads {
        micros,
        elapsed: start.elapsed(),
    })
}

/// Extents for each run that was opened, and bytes for each read, at best effort.
fn cost_of_reads(running: &Running, keys: &[Key]) -> Outcome<(f64, f64)> {
    let (mut extents, mut runs, mut bytes) = (0, 0, 0);
    for key in keys.iter().take(1_000) {
        let sources = block_on(read(running, key, Freshness::BestEffort))?
            .stamp()
            .sources;
        extents += sources.extents_read + sources.cache_hits;
        runs += sources.sorted_runs + sources.merged_runs + sources.authority_runs;
        bytes += sources.bytes_read;
    }
    Ok((
        extents as f64 / runs.max(1) as f64,
        bytes as f64 / keys.len().min(1_000) as f64,
    ))
}

/// Reads beside a writer.
struct Fresh {
    reads: Reads,
    written_rows_s: f64,
}

/// Reads while a second thread appends new rows at a steady rate.
fn read_while_writing(
    pool: &Pool,
    running: &Running,
    keys: &[Key],
    turn: Duration,
    first_id: i64,
) -> Outcome<Fresh> {
    let stop = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_steadily(pool, running, first_id, &stop, &written));
        // The stream shall be in its steady state before it counts.
        std::thread::sleep(Duration::from_secs(2));
        let before = written.load(Ordering::Relaxed);
        let reads = read_for(running, keys, turn, Freshness::ZERO);
        let rows = written.load(Ordering::Relaxed) - before;
        stop.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| "the writer panicked")??;
        let reads = reads?;
        let written_rows_s = rows as f64 / reads.elapsed.as_secs_f64();
        Ok(Fresh {
            reads,
            written_rows_s,
        })
    })
}

fn write_steadily(
    pool: &Pool,
    running: &Running,
    first_id: i64,
    stop: &AtomicBool,
    written: &AtomicU64,
) -> Outcome<()> {
    const ROWS: i64 = 1_000;
    let start = Instant::now();
    let mut next = first_id;
    for at in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        block_on(base::append(
            running,
            pool,
            at,
            (next..next + ROWS).collect(),
        ))?;
        next += ROWS;
        let rows = written.fetch_add(ROWS as u64, Ordering::Relaxed) + ROWS as u64;
        let due = Duration::from_secs_f64(rows as f64 / FRESH_ROWS_PER_SECOND);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
    Ok(())
}
