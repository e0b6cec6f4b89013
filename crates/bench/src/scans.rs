//! Reads of ranges and of whole tables: beside a bare read of the same segments, and beside
//! DataFusion alone on the same rows as plain Parquet files.

#[cfg(feature = "plain-parquet")]
mod sql;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{RecordBatch, new_null_array};
use futures::TryStreamExt;
use futures::executor::block_on;
use lazybase_cluster::SettleTo;
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::key::Key;
use lazybase_engine::manifest::{KeyRange, Run, RunKind};
use lazybase_engine::read::{ScanRequest, Snapshot};
use lazybase_engine::segment::{ReadCounters, RowLayout, Segment};
use lazybase_model::Freshness;
use lazybase_model::change::StoredKind;

use crate::Outcome;
use crate::base::{self, Base, Running};
use crate::data::{Pool, Seeded};
use crate::points::request;
use crate::report::{Report, median};

/// The rows of a measured range.
const RANGE_ROWS: u64 = 10_000;

/// Measures ranges, then SQL, then SQL over updates that no merge has reached. Leaves the table
/// settled, with the updates in it.
pub(crate) fn measure(report: &Report, pool: &Pool, base: &Base, quick: bool) -> Outcome<()> {
    base.warm()?;
    let running = base.open(base::settings())?;
    block_on(running.instance.settle(None, SettleTo::Authority, &|_| {}))?;
    ranges(report, base, &running, if quick { 20 } else { 200 })?;
    range_bytes(report, base, &running)?;
    beside_plain_files(report, pool, base, running)?;
    let running = base.open(base::settings())?;
    block_on(running.instance.settle(None, SettleTo::Authority, &|_| {}))?;
    running.close()?;
    Ok(())
}

/// SQL beside DataFusion alone.
#[cfg(feature = "plain-parquet")]
fn beside_plain_files(report: &Report, pool: &Pool, base: &Base, running: Running) -> Outcome<()> {
    let plain = base.folder.join("plain");
    block_on(sql::write_plain(&running, &plain))?;
    running.close()?;
    let clean = sql::measure(report, base, &plain, None)?;
    clean.say(report, base.shape, "sql_scan");
    let updated = sql::measure(report, base, &plain, Some(pool))?;
    updated.say(report, base.shape, "sql_scan_updated");
    std::fs::remove_dir_all(&plain)?;
    Ok(())
}

#[cfg(not(feature = "plain-parquet"))]
fn beside_plain_files(report: &Report, _: &Pool, _: &Base, running: Running) -> Outcome<()> {
    report.note("SQL is not measured: this was built without the feature plain-parquet");
    running.close()
}

fn range_of(running: &Running, first: u64, rows: u64) -> Outcome<KeyRange> {
    let bounds = base::keys(&running.table, &[first as i64, (first + rows) as i64])?;
    let [low, high] = &bounds[..] else {
        return Err("two ids have two keys".into());
    };
    Ok(KeyRange {
        low: Some(low.clone()),
        high: Some(high.clone()),
    })
}

fn ranges(report: &Report, base: &Base, running: &Running, times: usize) -> Outcome<()> {
    let rows = RANGE_ROWS.min(base.rows / 4).max(1);
    let mut seeded = Seeded::new(7);
    let mut bare = Bare::new(running)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    // Ranges before the first measured one open the segments' indexes.
    let warmth = times / 2;
    for turn in 0..warmth + times {
        let range = range_of(running, seeded.below(base.rows - rows), rows)?;
        let time_of = |read: &mut dyn FnMut() -> Outcome<u64>| -> Outcome<f64> {
            let start = Instant::now();
            let read = read()?;
            let micros = start.elapsed().as_secs_f64() * 1e6;
            match read >= rows {
                true => Ok(micros),
                false => Err(format!("a range of {rows} rows gave {read}").into()),
            }
        };
        let mut scan = || block_on(scan(running, &range)).map(|(rows, _)| rows);
        let mut bare = || block_on(bare.read(&range));
        // Whoever comes second finds the bytes in the processor's caches: they take turns.
        let (our, their) = match turn % 2 {
            0 => (time_of(&mut scan)?, time_of(&mut bare)?),
            _ => {
                let their = time_of(&mut bare)?;
                (time_of(&mut scan)?, their)
            }
        };
        if turn >= warmth {
            ours.push(our);
            theirs.push(their);
        }
    }
    let (our, their) = (median(&mut ours), median(&mut theirs));
    report.figure(base.shape, "range_median_us", our);
    report.figure(base.shape, "range_bare_median_us", their);
    report.figure(base.shape, "range_ratio", our / their);
    Ok(())
}

/// Reads a range through a snapshot of its own, all columns.
pub(crate) async fn scan(running: &Running, range: &KeyRange) -> Outcome<(u64, Snapshot)> {
    scan_at(running, range, Freshness::ZERO).await
}

/// As [`scan`], under a bound.
pub(crate) async fn scan_at(
    running: &Running,
    range: &KeyRange,
    freshness: Freshness,
) -> Outcome<(u64, Snapshot)> {
    let snapshot = running
        .instance
        .snapshot(request(running, freshness))
        .await?;
    let plan = snapshot
        .plan_scan(ScanRequest {
            table: running.table.id,
            projection: (0..running.table.columns.len()).collect(),
            range: range.clone(),
            buffered: Vec::new(),
            batch_rows: 8192,
            parts: 1,
        })
        .await?;
    let mut rows = 0;
    for part in &plan.parts {
        let mut stream = part.stream();
        while let Some(batch) = stream.try_next().await? {
            rows += batch.num_rows() as u64;
        }
    }
    Ok((rows, snapshot))
}

/// The least that a range can cost: the rows of its extents among which it lies, read and decoded,
/// and nothing else.
struct Bare<'b> {
    running: &'b Running,
    layout: Arc<RowLayout>,
    /// The base run of each of the table's key ranges.
    bases: Vec<(KeyRange, Arc<Run>)>,
    open: HashMap<String, Arc<Segment>>,
}

impl<'b> Bare<'b> {
    fn new(running: &'b Running) -> Outcome<Bare<'b>> {
        let manifest = running.instance.manifest();
        let state = manifest
            .tables
            .get(&running.table.id)
            .ok_or("the table is not there")?;
        let mut bases = Vec::new();
        for range in &state.ranges {
            let current = range
                .runs
                .iter()
                .filter(|run| run.superseded_micros.is_none());
            for run in current.filter_map(|run| manifest.runs.get(&run.id)) {
                if run.kind != RunKind::Base {
                    return Err("the table is not settled".into());
                }
                bases.push((range.range.clone(), Arc::clone(run)));
            }
        }
        let layout = Arc::new(RowLayout::primary(&running.table)?);
        Ok(Bare {
            running,
            layout,
            bases,
            open: HashMap::new(),
        })
    }

    async fn read(&mut self, wanted: &KeyRange) -> Outcome<u64> {
        let counters = ReadCounters::default();
        let mut rows = 0;
        for (range, run) in &self.bases {
            let low = range.low.as_ref().max(wanted.low.as_ref());
            let high = match (&range.high, &wanted.high) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.as_ref().or(b.as_ref()),
            };
            for meta in &run.segments {
                let before = low.is_some_and(|low| meta.max_key < *low);
                if before || high.is_some_and(|high| meta.min_key >= *high) {
                    continue;
                }
                if !self.open.contains_key(&meta.file) {
                    let env = self.running.instance.env();
                    let segment = Segment::open(env, &self.layout, Arc::clone(meta), &counters);
                    self.open.insert(meta.file.clone(), segment.await?);
                }
                let segment = &self.open[&meta.file];
                let (low, high) = (low.map(Key::as_bytes), high.map(Key::as_bytes));
                for extent in segment.extents_overlapping(low, high) {
                    let around = segment.rows_between(extent, low, high);
                    let read = segment.read_rows(extent, around, None, &counters).await?;
                    rows += read.rows() as u64;
                }
            }
        }
        Ok(rows)
    }
}

/// What share of the table's stored bytes a read of a thousandth of its rows fetches.
fn range_bytes(report: &Report, base: &Base, running: &Running) -> Outcome<()> {
    let rows = (base.rows / 1_000).max(1);
    let manifest = running.instance.manifest();
    let total: u64 = manifest.runs.values().map(|run| run.bytes()).sum();
    let mut shares = Vec::new();
    let mut seeded = Seeded::new(11);
    for _ in 0..20 {
        let range = range_of(running, seeded.below(base.rows - rows), rows)?;
        let (_, snapshot) = block_on(scan_at(running, &range, Freshness::BestEffort))?;
        shares.push(snapshot.stamp().sources.bytes_read as f64 / total.max(1) as f64);
    }
    report.figure(base.shape, "range_bytes_ratio", median(&mut shares));
    Ok(())
}

/// Updates that set the shape's counters and nothing else.
pub(crate) fn counter_updates(pool: &Pool, at: usize, ids: Vec<i64>) -> ChangeBatch {
    let counters = pool.shape().counters();
    let full = pool.batch(at, ids);
    let rows = full.num_rows();
    let columns = full
        .columns()
        .iter()
        .enumerate()
        .map(|(at, column)| match at {
            at if at == 0 || counters.contains(&at) => Arc::clone(column),
            _ => new_null_array(column.data_type(), rows),
        });
    let columns: Vec<_> = columns.collect();
    let data = RecordBatch::try_new(full.schema(), columns);
    let data = data.expect("columns follow the schema");
    ChangeBatch::alike(data, StoredKind::UPDATE, Some(&counters), 0)
}
