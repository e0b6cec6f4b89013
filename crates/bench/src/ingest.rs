//! Ingest by itself: one writer of this process gives Arrow batches and waits for each to be
//! durable. Sorting and merging are paused meanwhile, so that the figure is about the log alone;
//! what they take away from it is in the figures of the whole way.

use std::path::Path;
use std::time::Instant;

use futures::executor::block_on;
use lazybase_cluster::{Settings, StageName};
use lazybase_model::Layout;

use crate::Outcome;
use crate::base::{self, Running};
use crate::data::Pool;
use crate::limits::SmallSyncs;
use crate::report::{Report, median};

/// Measures large batches, then batches of one row.
pub(crate) fn measure(report: &Report, pool: &Pool, folder: &Path, quick: bool) -> Outcome<()> {
    let megabytes = if quick { 256.0 } else { 2_000.0 };
    // Nothing is sorted meanwhile, so writers must not wait for it.
    let settings = Settings {
        unsorted_bytes_max: 1 << 40,
        ..base::settings()
    };
    let instance = base::open(folder, settings)?;
    for stage in [StageName::Sort, StageName::Merge, StageName::Authority] {
        block_on(instance.pause(stage))?;
    }
    let table = base::create(&instance, pool.shape(), Layout::Scan)?;
    let running = Running { instance, table };
    report.note("ingest: sort, merge and authority are paused");
    large_batches(report, pool, &running, megabytes)?;
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

fn large_batches(report: &Report, pool: &Pool, running: &Running, megabytes: f64) -> Outcome<()> {
    let rows = pool.rows();
    let batch_mb = rows as f64 * pool.row_bytes() / 1e6;
    let batches = ((megabytes / batch_mb) as usize).max(8);
    let mut next = 0;
    let mut ids = || {
        next += rows as i64;
        (next - rows as i64..next).collect::<Vec<i64>>()
    };
    for at in 0..4 {
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
    let shape = pool.shape();
    report.figure(shape, "ingest_batch_mb", batch_mb);
    report.figure(shape, "ingest_rows_s", (batches * rows) as f64 / seconds);
    report.figure(shape, "ingest_mb_s", batches as f64 * batch_mb / seconds);
    report.figure(shape, "ingest_batch_median_ms", median(&mut millis));
    Ok(())
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
