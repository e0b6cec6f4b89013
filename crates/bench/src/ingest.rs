//! Ingest by itself: one writer of this process gives Arrow batches and waits for each to be
//! durable. Sorting and merging are paused meanwhile, so that the figure is about the log alone;
//! what they take away from it is in the figures of the whole way. The benchmark of the server
//! measures its own ingest against the same.

use std::path::Path;
use std::time::Instant;

use arrow::array::RecordBatch;
use futures::executor::block_on;
use lazybase_cluster::{Settings, StageName};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_model::Layout;

use crate::Outcome;
use crate::base::{self, Running};
use crate::data::{Pool, Shape};
use crate::limits::SmallSyncs;
use crate::report::{Report, median};

/// Batches that come before the clock runs.
pub(crate) const WARM_BATCHES: usize = 4;
/// The stages that are paused meanwhile.
pub(crate) const PAUSED: [StageName; 3] = [StageName::Sort, StageName::Merge, StageName::Authority];

/// Measures large batches, then batches of one row.
pub(crate) fn measure(report: &Report, pool: &Pool, folder: &Path, quick: bool) -> Outcome<()> {
    let megabytes = if quick { 256.0 } else { 2_000.0 };
    let running = log_alone(folder, pool.shape())?;
    report.note("ingest: sort, merge and authority are paused");
    let reached = large_batches(pool, &running, megabytes)?;
    let figure = |name: &str, value| report.figure(pool.shape(), name, value);
    figure("ingest_batch_mb", reached.batch_mb);
    figure("ingest_rows_s", reached.rows_s);
    figure("ingest_mb_s", reached.mb_s);
    figure("ingest_batch_median_ms", reached.batch_median_ms);
    single_rows(
        report,
        pool,
        &running,
        folder,
        if quick { 100 } else { 500 },
    )?;
    running.close()?;
    Ok(())
}

/// A database with a table of such rows, in which nothing but ingest works.
pub(crate) fn log_alone(folder: &Path, shape: Shape) -> Outcome<Running> {
    // Nothing is sorted meanwhile, so writers must not wait for it.
    let settings = Settings {
        unsorted_bytes_max: 1 << 40,
        ..base::settings()
    };
    let instance = base::open(folder, settings)?;
    for stage in PAUSED {
        block_on(instance.pause(stage))?;
    }
    let table = base::create(&instance, shape, Layout::Scan)?;
    Ok(Running { instance, table })
}

/// What one writer reached that waited for each of its batches.
pub(crate) struct LargeBatches {
    batch_mb: f64,
    pub(crate) rows_s: f64,
    mb_s: f64,
    batch_median_ms: f64,
}

/// Appends full batches of the pool, so many megabytes, after some that warm up.
pub(crate) fn large_batches(
    pool: &Pool,
    running: &Running,
    megabytes: f64,
) -> Outcome<LargeBatches> {
    let rows = pool.rows();
    let batch_mb = rows as f64 * pool.row_bytes() / 1e6;
    let batches = ((megabytes / batch_mb) as usize).max(8);
    let mut next = 0;
    let mut ids = || {
        next += rows as i64;
        (next - rows as i64..next).collect::<Vec<i64>>()
    };
    for at in 0..WARM_BATCHES {
        block_on(base::append(running, pool, at, ids()))?;
    }
    let mut millis = Vec::with_capacity(batches);
    let start = Instant::now();
    for at in 0..batches {
        let begun = Instant::now();
        block_on(base::append(running, pool, at, ids()))?;
        millis.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(LargeBatches {
        batch_mb,
        rows_s: (batches * rows) as f64 / seconds,
        mb_s: batches as f64 * batch_mb / seconds,
        batch_median_ms: median(&mut millis),
    })
}

/// The seconds until these rows are durable, appended as one batch.
pub(crate) fn one_batch(running: &Running, parts: Vec<RecordBatch>) -> Outcome<f64> {
    let start = Instant::now();
    block_on(async {
        let mut batch = running.instance.begin(None);
        for rows in parts {
            let rows = ChangeBatch::upserts(rows, 0);
            batch.append(&running.table, rows).await?;
        }
        batch.commit().await?;
        Outcome::Ok(())
    })?;
    Ok(start.elapsed().as_secs_f64())
}

/// One row after the other. The disk's mood changes from second to second, so each commit is
/// followed by a bare sync, and the two are compared with each other.
fn single_rows(
    report: &Report,
    pool: &Pool,
    running: &Running,
    folder: &Path,
    times: usize,
) -> Outcome<()> {
    let mut syncs = SmallSyncs::new(folder, times)?;
    let (mut commits, mut controls) = (Vec::new(), Vec::new());
    for at in 0..times {
        let start = Instant::now();
        block_on(base::append(running, pool, at, vec![-1 - at as i64]))?;
        commits.push(start.elapsed().as_secs_f64() * 1e6);
        controls.push(syncs.next_micros()?);
    }
    let (commit, control) = (median(&mut commits), median(&mut controls));
    let figure = |name: &str, value| report.figure(pool.shape(), name, value);
    figure("commit_one_row_median_us", commit);
    figure("commit_one_row_beside_sync_us", control);
    figure("commit_one_row_fdatasync_ratio", commit / control);
    Ok(())
}
