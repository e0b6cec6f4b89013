//! Sort and merge on one core, through the functions that the stages' attempts call: from change
//! batches in memory to durable segments, and from segments to segments.
//!
//! Writes segments in the folder given. Rates are of wall time, so that waiting for the disk
//! counts; `_cpu_` figures beside them are of the thread's processor time.

use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::env::Env;
use lazybase_engine::env::local::LocalStore;
use lazybase_engine::manifest::{SegmentFormat, SegmentMeta};
use lazybase_engine::segment::{
    ReadCounters, RowLayout, Segment, SegmentWriter, WriteOptions, verify_segment,
};
use lazybase_engine::stages::merge::{MergeMode, MergeShape, Merger, OutputSize, drive};
use lazybase_engine::stages::sort::sort_changes;
use lazybase_model::Result;
use lazybase_model::limits::MERGE_FAN_IN;

use crate::Outcome;
use crate::data::{Pool, Seeded, Shape};
use crate::limits::megabytes;
use crate::machine::{Spent, spent};
use crate::report::{Report, median};

/// Each measurement is taken this often; its median counts.
const TIMES: usize = 3;

/// A view's layout and where its segments go.
struct Bench<'b> {
    env: Env,
    layout: Arc<RowLayout>,
    report: &'b Report,
    pool: &'b Pool,
}

/// Measures both kernels.
pub(crate) fn measure(report: &Report, pool: &Pool, folder: &Path, quick: bool) -> Outcome<()> {
    let shape = pool.shape();
    let bench = Bench {
        env: Env::system(Arc::new(LocalStore::open(folder)?)),
        layout: Arc::new(RowLayout::primary(&shape.table())?),
        report,
        pool,
    };
    let rows = match (shape, quick) {
        (Shape::Wide, false) => 160_000,
        (Shape::Wide, true) => 40_000,
        (Shape::Narrow, false) => 6_000_000,
        (Shape::Narrow, true) => 1_000_000,
    };
    bench.sort("sort", &shuffled(rows))?;
    bench.sort("sort_rising", &(0..rows as i64).collect::<Vec<_>>())?;
    let each = rows / 4;
    let interleaved = |run: i64| move |at: i64| at * MERGE_FAN_IN as i64 + run;
    let runs = bench.runs(each, |run| Box::new(interleaved(run)))?;
    bench.merge("merge", &runs, SegmentFormat::Extent, MergeMode::Changes)?;
    bench.merge(
        "merge_to_parquet",
        &runs,
        SegmentFormat::Parquet,
        MergeMode::Rows,
    )?;
    let disjoint = |run: i64| move |at: i64| run * each as i64 + at;
    let runs = bench.runs(each, |run| Box::new(disjoint(run)))?;
    bench.merge_disjoint(&runs)?;
    Ok(())
}

/// The numbers from 0, in an order that tells nothing.
fn shuffled(rows: usize) -> Vec<i64> {
    let mut ids: Vec<i64> = (0..rows as i64).collect();
    let mut seeded = Seeded::new(3);
    for at in (1..rows).rev() {
        ids.swap(at, seeded.below(at as u64 + 1) as usize);
    }
    ids
}

type Run = Vec<Arc<SegmentMeta>>;

impl Bench<'_> {
    fn changes(&self, ids: &[i64]) -> Vec<ChangeBatch> {
        let batches = ids.chunks(self.pool.rows()).enumerate();
        let batch =
            |(at, ids): (usize, &[i64])| ChangeBatch::upserts(self.pool.batch(at, ids.to_vec()), 1);
        batches.map(batch).collect()
    }

    fn writer(&self, format: SegmentFormat) -> Result<SegmentWriter> {
        SegmentWriter::create(&self.env, &self.layout, format, WriteOptions::default())
    }

    fn sort(&self, name: &str, ids: &[i64]) -> Outcome<()> {
        let changes = self.changes(ids);
        let mut runs = Vec::new();
        for _ in 0..TIMES {
            let (run, spent) = spent(|| block_on(self.sort_once(&changes)));
            runs.push((run?, spent));
        }
        self.say_rates(
            name,
            ids.len(),
            &runs.iter().map(|run| run.1).collect::<Vec<_>>(),
        );
        let (verified, checking) = spent(|| block_on(self.verify(&runs[0].0)));
        verified?;
        if name == "sort" {
            let rate = ids.len() as f64 / checking.cpu.as_secs_f64();
            self.report.figure(self.pool.shape(), "verify_rows_s", rate);
        }
        for (run, _) in runs {
            block_on(self.remove(&run))?;
        }
        Ok(())
    }

    async fn sort_once(&self, changes: &[ChangeBatch]) -> Result<Run> {
        let mut writer = self.writer(SegmentFormat::Extent)?;
        for batch in sort_changes(&self.layout, changes)? {
            writer.push(batch).await?;
        }
        Ok(writer.finish().await?.into_iter().map(Arc::new).collect())
    }

    async fn verify(&self, run: &Run) -> Result<()> {
        for meta in run {
            verify_segment(&self.env, &self.layout, meta).await?;
        }
        Ok(())
    }

    async fn remove(&self, run: &Run) -> Result<()> {
        for meta in run {
            self.env.store.delete(&meta.file).await?;
        }
        Ok(())
    }

    /// As many runs as a merge joins, of `rows` rows each, their keys by place in the run.
    fn runs(
        &self,
        rows: usize,
        id_of: impl Fn(i64) -> Box<dyn Fn(i64) -> i64>,
    ) -> Outcome<Vec<Run>> {
        let mut runs = Vec::new();
        for run in 0..MERGE_FAN_IN as i64 {
            let ids: Vec<i64> = (0..rows as i64).map(id_of(run)).collect();
            runs.push(block_on(self.sort_once(&self.changes(&ids)))?);
        }
        Ok(runs)
    }

    fn merge(
        &self,
        name: &str,
        runs: &[Run],
        format: SegmentFormat,
        mode: MergeMode,
    ) -> Outcome<()> {
        let rows: u64 = runs.iter().flatten().map(|meta| meta.rows).sum();
        let mut times = Vec::new();
        for _ in 0..TIMES {
            let (joined, spent) = spent(|| block_on(self.merge_once(runs, format, mode)));
            let joined = joined?;
            let out: u64 = joined.iter().map(|meta| meta.rows).sum();
            if out != rows {
                return Err(format!("a merge of {rows} rows gave {out}").into());
            }
            block_on(self.remove(&joined))?;
            times.push(spent);
        }
        self.say_rates(name, rows as usize, &times);
        Ok(())
    }

    async fn merge_once(
        &self,
        runs: &[Run],
        format: SegmentFormat,
        mode: MergeMode,
    ) -> Result<Run> {
        let shape = MergeShape::of(&self.layout);
        let merger = Merger::new(&shape, runs.len(), mode, OutputSize::default())?;
        let mut sources = Vec::new();
        for run in runs {
            sources.push(self.source(run).await?);
        }
        let mut writer = self.writer(format)?;
        let mut output = std::pin::pin!(drive(merger, sources));
        while let Some(batch) = output.try_next().await? {
            writer.push(batch).await?;
        }
        Ok(writer.finish().await?.into_iter().map(Arc::new).collect())
    }

    async fn source(&self, run: &Run) -> Result<BoxStream<'static, Result<ChangeBatch>>> {
        let mut extents = Vec::new();
        for segment in self.open(run).await? {
            extents.extend((0..segment.extents().len()).map(|at| (Arc::clone(&segment), at)));
        }
        let read = |(segment, at): (Arc<Segment>, usize)| async move {
            let rows = segment.read_extent(at, &ReadCounters::default()).await?;
            Ok(Arc::unwrap_or_clone(rows))
        };
        Ok(stream::iter(extents).then(read).boxed())
    }

    async fn open(&self, run: &Run) -> Result<Vec<Arc<Segment>>> {
        let counters = ReadCounters::default();
        let mut segments = Vec::new();
        for meta in run {
            let opened = Segment::open(&self.env, &self.layout, Arc::clone(meta), &counters);
            segments.push(opened.await?);
        }
        Ok(segments)
    }

    /// Runs whose key ranges don't meet: their extents go on as bytes.
    fn merge_disjoint(&self, runs: &[Run]) -> Outcome<()> {
        let rows: u64 = runs.iter().flatten().map(|meta| meta.rows).sum();
        let raw_bytes = rows as f64 * self.pool.row_bytes();
        let stored: u64 = runs.iter().flatten().map(|meta| meta.bytes).sum();
        let mut seconds = Vec::new();
        for _ in 0..TIMES {
            let (joined, spent) = spent(|| block_on(self.copy_extents(runs)));
            block_on(self.remove(&joined?))?;
            seconds.push(spent.wall.as_secs_f64());
        }
        let seconds = median(&mut seconds);
        let shape = self.pool.shape();
        self.report
            .figure(shape, "merge_disjoint_mb_s", raw_bytes / 1e6 / seconds);
        let stored = megabytes(stored as usize) / seconds;
        self.report
            .figure(shape, "merge_disjoint_stored_mb_s", stored);
        Ok(())
    }

    async fn copy_extents(&self, runs: &[Run]) -> Result<Run> {
        let counters = ReadCounters::default();
        let mut writer = self.writer(SegmentFormat::Extent)?;
        for run in runs {
            for segment in self.open(run).await? {
                for at in 0..segment.extents().len() {
                    writer
                        .push_encoded(segment.read_encoded(at, &counters).await?)
                        .await?;
                }
            }
        }
        Ok(writer.finish().await?.into_iter().map(Arc::new).collect())
    }

    fn say_rates(&self, name: &str, rows: usize, times: &[Spent]) {
        let rate = |of: fn(&Spent) -> f64| {
            let mut seconds: Vec<f64> = times.iter().map(of).collect();
            rows as f64 / median(&mut seconds)
        };
        let shape = self.pool.shape();
        let wall = rate(|spent| spent.wall.as_secs_f64());
        self.report.figure(shape, &format!("{name}_rows_s"), wall);
        let cpu = rate(|spent| spent.cpu.as_secs_f64());
        self.report
            .figure(shape, &format!("{name}_cpu_rows_s"), cpu);
    }
}
