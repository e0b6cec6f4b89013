//! SQL that scans and aggregates: LazyBase against DataFusion alone on plain Parquet files.

mod answers;

use std::path::Path;
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use futures::TryStreamExt;
use lazybase_cluster::{SettleTo, StageName};
use lazybase_engine::manifest::KeyRange;
use lazybase_engine::read::ScanRequest;
use lazybase_model::Freshness;
use lazybase_query::{Database, OpenOptions, Session};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::counter_updates;
use crate::Outcome;
use crate::base::{self, Base, Running, TABLE};
use crate::data::{Pool, Shape};
use crate::points::request;
use crate::report::{Report, median};
use answers::difference;

/// One row of this many is updated before the second round of SQL.
const UPDATED_ONE_OF: u64 = 20;
/// Rows of a plain file.
const FILE_ROWS: usize = 2_000_000;
/// How often each query runs, on each side.
const TIMES: usize = 5;

/// Queries with `{}` for the table.
fn queries(shape: Shape) -> &'static [&'static str] {
    match shape {
        Shape::Wide => &[
            "SELECT count(*), sum(likes), max(views) FROM {}",
            "SELECT language, count(*), avg(followers) FROM {} GROUP BY language",
            "SELECT count(*), min(id) FROM {} WHERE text LIKE '%abc%'",
            "SELECT verified, avg(latitude), avg(longitude) FROM {} WHERE shares > 50000 \
             GROUP BY verified",
        ],
        Shape::Narrow => &[
            "SELECT count(*), sum(value), max(at) FROM {}",
            "SELECT sensor, count(*), avg(value) FROM {} GROUP BY sensor",
            "SELECT count(*), min(id) FROM {} WHERE value > 1000000",
        ],
    }
}

/// Writes the table's rows, as they are now, the way any tool would: default properties, but the
/// codec that the authority uses too.
pub(super) async fn write_plain(running: &Running, folder: &Path) -> Outcome<()> {
    std::fs::create_dir_all(folder)?;
    let snapshot = running
        .instance
        .snapshot(request(running, Freshness::ZERO))
        .await?;
    let plan = snapshot
        .plan_scan(ScanRequest {
            table: running.table.id,
            projection: (0..running.table.columns.len()).collect(),
            range: KeyRange::default(),
            buffered: Vec::new(),
            batch_rows: 8192,
            parts: 1,
        })
        .await?;
    let mut file = None;
    let (mut files, mut rows) = (0, 0);
    for part in &plan.parts {
        let mut stream = part.stream();
        while let Some(batch) = stream.try_next().await? {
            let writer = match &mut file {
                Some(writer) => writer,
                None => file.insert(plain_file(folder, files, &batch)?),
            };
            writer.write(&batch)?;
            rows += batch.num_rows();
            if rows >= FILE_ROWS
                && let Some(full) = file.take()
            {
                full.close()?;
                (files, rows) = (files + 1, 0);
            }
        }
    }
    if let Some(last) = file {
        last.close()?;
    }
    Ok(())
}

fn plain_file(
    folder: &Path,
    number: usize,
    batch: &RecordBatch,
) -> Outcome<ArrowWriter<std::fs::File>> {
    let file = std::fs::File::create(folder.join(format!("{number:03}.parquet")))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .build();
    Ok(ArrowWriter::try_new(
        file,
        batch.schema(),
        Some(properties),
    )?)
}

/// Median milliseconds of each query on either side.
pub(super) struct Times {
    ours: Vec<f64>,
    plain: Vec<f64>,
}

impl Times {
    /// Gives the ratio of all queries together, and of the worst one.
    pub(super) fn say(&self, report: &Report, shape: Shape, name: &str) {
        let sum = |times: &[f64]| times.iter().sum::<f64>();
        report.figure(shape, &format!("{name}_ms"), sum(&self.ours));
        report.figure(shape, &format!("{name}_plain_ms"), sum(&self.plain));
        report.figure(
            shape,
            &format!("{name}_ratio"),
            sum(&self.ours) / sum(&self.plain),
        );
        let ratios = self
            .ours
            .iter()
            .zip(&self.plain)
            .map(|(our, plain)| our / plain);
        report.figure(
            shape,
            &format!("{name}_worst_ratio"),
            ratios.fold(0.0, f64::max),
        );
    }
}

/// Runs the queries over the settled table, where both sides must give the same answers; or with
/// `updates` from a pool, that are made first and not merged, where they can't.
pub(super) fn measure(
    report: &Report,
    base: &Base,
    plain: &Path,
    updates: Option<&Pool>,
) -> Outcome<Times> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let options = OpenOptions {
            settings: base::settings(),
            ..OpenOptions::default()
        };
        let database = Database::open_with(&base.folder, options).await?;
        if let Some(pool) = updates {
            let instance = database.instance().clone();
            let table = instance.table(TABLE)?;
            update_some(pool, base.rows, &Running { instance, table }).await?;
        }
        let session = database.session();
        let context = SessionContext::new();
        let path = plain.to_str().ok_or("the folder's name is not text")?;
        context
            .register_parquet("plain", path, ParquetReadOptions::default())
            .await?;
        let mut times = Times {
            ours: Vec::new(),
            plain: Vec::new(),
        };
        for query in queries(base.shape) {
            let same = updates.is_none();
            let (our, their) = one_query(&session, &context, query, same).await?;
            report.note(&format!("{our:.1} ms, plain {their:.1} ms: {query}"));
            times.ours.push(our);
            times.plain.push(their);
        }
        drop(session);
        database.close().await?;
        Ok(times)
    })
}

/// Median milliseconds on either side, after one run each that does not count.
async fn one_query(
    session: &Session,
    context: &SessionContext,
    query: &str,
    same: bool,
) -> Outcome<(f64, f64)> {
    let ours = query.replace("{}", TABLE);
    let plain = query.replace("{}", "plain");
    let (mut our_times, mut plain_times) = (Vec::new(), Vec::new());
    for turn in 0..=TIMES {
        let start = Instant::now();
        let answers = session.execute(&ours).await?;
        let our_time = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        let batches = context.sql(&plain).await?.collect().await?;
        let plain_time = start.elapsed().as_secs_f64() * 1e3;
        match turn {
            0 if same => {
                let ours = answers.last().map(|answer| answer.batches.as_slice());
                if let Some(difference) = difference(ours.unwrap_or_default(), &batches)? {
                    return Err(format!("{query}: {difference}").into());
                }
            }
            0 => {}
            _ => {
                our_times.push(our_time);
                plain_times.push(plain_time);
            }
        }
    }
    Ok((median(&mut our_times), median(&mut plain_times)))
}

/// Updates some columns of one row in twenty, spread over the whole table, and lets nothing but
/// sorts work on them.
async fn update_some(pool: &Pool, rows: u64, running: &Running) -> Outcome<()> {
    running.instance.pause(StageName::Merge).await?;
    running.instance.pause(StageName::Authority).await?;
    let ids: Vec<i64> = (0..rows as i64).step_by(UPDATED_ONE_OF as usize).collect();
    for (at, ids) in ids.chunks(pool.rows()).enumerate() {
        let mut batch = running.instance.begin(None);
        batch
            .append(&running.table, counter_updates(pool, at, ids.to_vec()))
            .await?;
        batch.commit().await?;
    }
    running
        .instance
        .settle(None, SettleTo::Sorted, &|_| {})
        .await?;
    Ok(())
}
