//! The whole way: rows come in at a steady rate while everything acknowledged before them is
//! sorted, merged and brought to the authority, and best-effort reads look on once a second.
//!
//! ```text
//!   writer (this thread)  --batches-->  database  --snapshots-->  observer (once a second)
//!        paced, waits where the database makes it wait             staleness, lag, stamps
//! ```

mod feed;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use lazybase_cluster::SettleTo;
use lazybase_model::Freshness;

use crate::Outcome;
use crate::base::{self, Base, Running};
use crate::data::{Pool, Seeded, data_bytes};
use crate::machine::{Watch, disk_bytes, process_cpu, process_written};
use crate::points;
use crate::report::Report;
use feed::Feed;
pub(crate) use feed::FeedKind;

/// How often the end of a run says what is going on.
const NOTE_SECONDS: u64 = 2;

/// One run of the whole way.
pub(crate) struct Load {
    /// What comes in.
    pub(crate) kind: FeedKind,
    /// How long rows come in.
    pub(crate) minutes: f64,
    /// Rows a second that the writer offers; zero for as many as back pressure admits.
    pub(crate) rate: f64,
}

/// Runs it over a settled table and leaves the table settled.
pub(crate) fn measure(report: &Report, pool: &Pool, base: &Base, load: &Load) -> Outcome<()> {
    let running = base.open(base::settings())?;
    let watch = Watch::start(&base.folder);
    let before = base::bytes_written(&running.instance);
    let (cpu, given) = (process_cpu(), process_written());
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let (written, seen) = std::thread::scope(|scope| -> Outcome<(WriterTotals, Seen)> {
        let observer = scope.spawn(|| observe(&running, base.rows, &stop));
        let written = write(pool, &running, base.rows, load);
        stop.store(true, Ordering::Relaxed);
        let seen = observer.join().map_err(|_| "the observer panicked")??;
        Ok((written?, seen))
    })?;
    let accepted = start.elapsed().as_secs_f64();
    settle(report, &running)?;
    let settled = start.elapsed().as_secs_f64();
    let used = match (cpu, process_cpu()) {
        (Some(before), Some(after)) => after.saturating_sub(before).as_secs_f64() / settled,
        _ => f64::NAN,
    };
    let bytes_written = (base::bytes_written(&running.instance) - before) as f64;
    let given = process_written() - given;
    base::wait_for_collection(&running.instance)?;
    let settled_bytes = disk_bytes(&base.folder);
    running.close()?;

    let infix = load.kind.infix();
    let figure = |name: &str, unit: &str, value: f64| {
        report.figure(base.shape, &format!("{name}{infix}{unit}"), value);
    };
    let rows = written.rows as f64;
    figure("pipeline", "_rows_s", rows / settled);
    figure("pipeline_accepted", "_rows_s", rows / accepted);
    figure("pipeline_settle", "_s", settled - accepted);
    figure("pipeline_cores_used", "", used);
    figure("pipeline_writer_waited", "_s", written.waited.as_secs_f64());
    let accepted_bytes = written.bytes as f64;
    figure("write_amplification", "", bytes_written / accepted_bytes);
    figure("process_write_amplification", "", given / accepted_bytes);
    figure("staleness", "_max_s", seen.staleness_max());
    figure("staleness", "_median_s", seen.staleness_median());
    figure("authority_lag_max", "_s", seen.authority_lag_max());
    figure(
        "authority_lag_growth",
        "_s_min",
        seen.growth(|look| look.authority_lag),
    );
    figure("lag_growth", "_s_min", seen.growth(|look| look.staleness));
    figure("past_horizon", "_reads", seen.past_horizon as f64);
    figure("best_effort", "_reads", seen.reads as f64);
    figure("pipeline_rss_max", "_mib", watch.memory_mib());
    let peak = watch.disk_bytes().max(settled_bytes);
    figure(
        "pipeline_disk",
        "_ratio",
        peak as f64 / settled_bytes as f64,
    );
    Ok(())
}

/// Waits until everything is in the authority, and notes what is worked on meanwhile.
fn settle(report: &Report, running: &Running) -> Outcome<()> {
    let start = Instant::now();
    let noted = AtomicU64::new(0);
    let progress = |share: f64| {
        let second = start.elapsed().as_secs();
        if noted.load(Ordering::Relaxed) + NOTE_SECONDS <= second {
            noted.store(second, Ordering::Relaxed);
            let status = running.instance.status();
            let work = status.running.iter().map(|task| {
                let seconds = (status.now_micros - task.started_micros) as f64 / 1e6;
                format!(
                    "{} {} MB {seconds:.1} s",
                    task.stage.name(),
                    task.bytes >> 20
                )
            });
            let work: Vec<String> = work.collect();
            report.note(&format!(
                "settling: {second} s, {:.0} %, {}",
                share * 100.0,
                work.join(", ")
            ));
        }
    };
    block_on(
        running
            .instance
            .settle(None, SettleTo::Authority, &progress),
    )?;
    Ok(())
}

/// What the writer did.
struct WriterTotals {
    rows: u64,
    /// The bytes of the cells that were accepted.
    bytes: u64,
    /// How long commits took together.
    waited: Duration,
}

fn write(pool: &Pool, running: &Running, keys: u64, load: &Load) -> Outcome<WriterTotals> {
    let mut feed = Feed::new(load.kind, keys);
    let start = Instant::now();
    let end = Duration::from_secs_f64(load.minutes * 60.0);
    let mut totals = WriterTotals {
        rows: 0,
        bytes: 0,
        waited: Duration::ZERO,
    };
    while start.elapsed() < end {
        let changes = feed.next(pool, start.elapsed());
        totals.bytes += changes
            .iter()
            .map(|part| data_bytes(&part.data) as u64)
            .sum::<u64>();
        let begun = Instant::now();
        let rows = block_on(async {
            let mut batch = running.instance.begin(None);
            for changes in changes {
                batch.append(&running.table, changes).await?;
            }
            batch.commit().await.map(|acknowledged| acknowledged.rows)
        })?;
        totals.waited += begun.elapsed();
        totals.rows += rows;
        if load.rate > 0.0 {
            let due = Duration::from_secs_f64(totals.rows as f64 / load.rate);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }
    Ok(totals)
}

/// One look at the database.
struct Look {
    /// Since the start, in seconds.
    at: f64,
    /// How stale the best-effort answer was, in seconds.
    staleness: f64,
    /// How far the authority lay behind, in seconds.
    authority_lag: f64,
}

/// What the observer saw.
#[derive(Default)]
struct Seen {
    looks: Vec<Look>,
    reads: u64,
    /// Best-effort reads whose stamp names a source past their horizon.
    past_horizon: u64,
}

fn observe(running: &Running, keys: u64, stop: &AtomicBool) -> Outcome<Seen> {
    let mut seen = Seen::default();
    let mut seeded = Seeded::new(13);
    let start = Instant::now();
    for turn in 1_u32.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let ids: Vec<i64> = (0..16).map(|_| seeded.below(keys) as i64).collect();
        let mut staleness: f64 = 0.0;
        for key in base::keys(&running.table, &ids)? {
            let stamp = block_on(points::read(running, &key, Freshness::BestEffort))?.stamp();
            let boundary = stamp.horizon.is_boundary();
            let open = stamp.sources.open_batches > 0 && boundary;
            let past = stamp.sources.newest_scu_opened > stamp.horizon.scu.0;
            seen.past_horizon += u64::from(open || past);
            seen.reads += 1;
            staleness = staleness.max(stamp.staleness.as_secs_f64());
        }
        let lags = running.instance.status().lag_micros;
        let authority_lag = lags.get("authority").copied().unwrap_or(0) as f64 / 1e6;
        seen.looks.push(Look {
            at: start.elapsed().as_secs_f64(),
            staleness,
            authority_lag,
        });
        std::thread::sleep(Duration::from_secs(turn.into()).saturating_sub(start.elapsed()));
    }
    Ok(seen)
}

impl Seen {
    fn staleness_max(&self) -> f64 {
        self.looks
            .iter()
            .map(|look| look.staleness)
            .fold(0.0, f64::max)
    }

    fn staleness_median(&self) -> f64 {
        let mut all: Vec<f64> = self.looks.iter().map(|look| look.staleness).collect();
        crate::report::median(&mut all)
    }

    fn authority_lag_max(&self) -> f64 {
        self.looks
            .iter()
            .map(|look| look.authority_lag)
            .fold(0.0, f64::max)
    }

    /// By how many seconds a minute a lag grew over the second half of the run, of ten minutes the
    /// last five: the slope of a line through all looks.
    fn growth(&self, lag: impl Fn(&Look) -> f64) -> f64 {
        let half = &self.looks[self.looks.len() / 2..];
        slope(half.iter().map(|look| (look.at, lag(look)))) * 60.0
    }
}

/// The slope of the line with the least squares; zero where there is no line.
fn slope(points: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let count = points.clone().count() as f64;
    let mean_x = points.clone().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.clone().map(|(_, y)| y).sum::<f64>() / count;
    let above: f64 = points
        .clone()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum();
    let below: f64 = points.map(|(x, _)| (x - mean_x).powi(2)).sum();
    if below > 0.0 { above / below } else { 0.0 }
}

#[cfg(test)]
mod tests;
