//! `lazybase bench`: what this machine does, in a minute: writing, settling, scanning, reading by
//! key, on narrow rows that are made beforehand.
//!
//! Uses a database of its own, which goes in the end: beside the folder that `--db` names, to
//! measure its disk and touch nothing of it, or among temporary files. The workspace's benchmarks
//! measure far more; this answers "is my disk slow?".

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use lazybase_cluster::SettleTo;
use lazybase_model::{Error, Result};
use lazybase_query::{Database, Op};
use serde::Serialize;

use crate::cli::BenchArgs;
use crate::failure;
use crate::figures::{bytes, counted, micros, per_second, quantile, thousands};
use crate::load::create_table;
use crate::open::{self, Missing};
use crate::wall::Stopwatch;

const TABLE: &str = "bench";
const BATCH_ROWS: u64 = 65_536;

#[derive(Debug, Default, Serialize)]
struct Figures {
    rows: u64,
    raw_bytes: u64,
    write_rows_s: f64,
    write_bytes_s: f64,
    settle_s: f64,
    scan_rows_s: f64,
    single_write_median_us: u64,
    point_median_us: u64,
    point_p99_us: u64,
}

/// Runs the command.
pub(crate) async fn run(db: Option<PathBuf>, args: BenchArgs) -> Result<()> {
    if args.rows == 0 {
        return Err(Error::invalid("--rows must be 1 or more"));
    }
    let place = db.map_or_else(std::env::temp_dir, |db| beside(&db));
    let temporary = tempfile::Builder::new()
        .prefix("lazybase-bench-")
        .tempdir_in(&place);
    let temporary = temporary.map_err(|error| failure::io(place.display(), &error))?;
    let folder = temporary.path().join("db");
    let database = open::database(Some(folder), Missing::Create).await?;
    let measured = measure(&database, &args).await;
    let figures = open::close(&database, measured).await?;
    failure::write_data(&format!("{}\n", text(&figures, args.json)))
}

/// The folder that a path lies in.
fn beside(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        Some(_) => PathBuf::from("."),
        // The root has nothing beside it.
        None => path.to_owned(),
    }
}

async fn measure(database: &Database, args: &BenchArgs) -> Result<Figures> {
    let fields =
        ["id", "a", "b"]
            .into_iter()
            .zip([DataType::Int64, DataType::Int32, DataType::Int32]);
    let fields: Vec<Field> = fields
        .map(|(name, of)| Field::new(name, of, true))
        .collect();
    create_table(database, TABLE, &Schema::new(fields), &["id".to_owned()]).await?;
    let mut figures = Figures {
        rows: args.rows,
        ..Figures::default()
    };
    write(database, &mut figures).await?;
    let stopwatch = Stopwatch::start();
    database
        .instance()
        .settle(None, SettleTo::Authority, &|_| {})
        .await?;
    figures.settle_s = stopwatch.elapsed().as_secs_f64();
    scan(database, &mut figures).await?;
    points(database, args.reads, &mut figures).await?;
    singles(database, &mut figures).await?;
    Ok(figures)
}

async fn write(database: &Database, figures: &mut Figures) -> Result<()> {
    let starts = (0..figures.rows).step_by(BATCH_ROWS as usize);
    let batches: Result<Vec<RecordBatch>> = starts
        .map(|start| rows(start, BATCH_ROWS.min(figures.rows - start)))
        .collect();
    let batches = batches?;
    figures.raw_bytes = figures.rows * 16;
    let stopwatch = Stopwatch::start();
    for batch in &batches {
        append(database, batch).await?;
    }
    figures.write_rows_s = per_second(figures.rows, stopwatch.elapsed());
    figures.write_bytes_s = per_second(figures.raw_bytes, stopwatch.elapsed());
    Ok(())
}

async fn append(database: &Database, batch: &RecordBatch) -> Result<()> {
    let mut appender = database.appender();
    appender.append(TABLE, batch, Op::Upsert).await?;
    appender.commit().await.map(drop)
}

fn rows(start: u64, count: u64) -> Result<RecordBatch> {
    let ids = start..start + count;
    let mixed = |id: u64, by: u64| (id.wrapping_mul(by) >> 33) as i32;
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(
        ids.clone().map(|id| id as i64),
    ));
    let a = ids.clone().map(|id| mixed(id, 0x9e37_79b9_7f4a_7c15));
    let a: ArrayRef = Arc::new(Int32Array::from_iter_values(a));
    let b = ids.map(|id| mixed(id, 0xbf58_476d_1ce4_e5b9));
    let b: ArrayRef = Arc::new(Int32Array::from_iter_values(b));
    RecordBatch::try_from_iter([("id", id), ("a", a), ("b", b)])
        .map_err(|error| failure::arrow("bench", &error))
}

async fn scan(database: &Database, figures: &mut Figures) -> Result<()> {
    let session = database.session();
    let sql = format!("SELECT sum(a), sum(b) FROM {TABLE} FRESHNESS 'best effort'");
    let stopwatch = Stopwatch::start();
    session.execute(&sql).await?;
    figures.scan_rows_s = per_second(figures.rows, stopwatch.elapsed());
    Ok(())
}

async fn points(database: &Database, reads: u32, figures: &mut Figures) -> Result<()> {
    let session = database.session();
    let mut latencies = Vec::with_capacity(reads as usize);
    for read in 0..u64::from(reads) {
        let id = read.wrapping_mul(0x9e37_79b9_7f4a_7c15) % figures.rows;
        let sql = format!("SELECT a, b FROM {TABLE} WHERE id = {id} FRESHNESS 'best effort'");
        let stopwatch = Stopwatch::start();
        let answers = session.execute(&sql).await?;
        latencies.push(stopwatch.micros());
        if answers.iter().map(|answer| answer.rows).sum::<u64>() != 1 {
            return Err(Error::internal(format!(
                "row {id} was written and is not there"
            )));
        }
    }
    figures.point_median_us = quantile(&mut latencies, 0.5);
    figures.point_p99_us = quantile(&mut latencies, 0.99);
    Ok(())
}

/// Batches of one row with nobody else writing: what an acknowledgement costs.
async fn singles(database: &Database, figures: &mut Figures) -> Result<()> {
    let mut latencies = Vec::new();
    for id in 0..200 {
        let row = rows(id % figures.rows, 1)?;
        let stopwatch = Stopwatch::start();
        append(database, &row).await?;
        latencies.push(stopwatch.micros());
    }
    figures.single_write_median_us = quantile(&mut latencies, 0.5);
    Ok(())
}

fn text(figures: &Figures, as_json: bool) -> String {
    if as_json {
        return serde_json::json!(figures).to_string();
    }
    format!(
        "write    {} rows/s, {}/s ({}, durable)\n\
         settle   {:.2} s until all of it is in the authority\n\
         scan     {} rows/s (two sums over the authority)\n\
         by key   {} (99 of 100 within {})\n\
         one row  acknowledged in {}",
        thousands(figures.write_rows_s as u64),
        bytes(figures.write_bytes_s as u64),
        counted(figures.rows, "row"),
        figures.settle_s,
        thousands(figures.scan_rows_s as u64),
        micros(figures.point_median_us),
        micros(figures.point_p99_us),
        micros(figures.single_write_median_us),
    )
}

#[cfg(test)]
mod tests {
    use super::{Figures, rows, text};

    #[test]
    fn rows_are_the_same_each_time() {
        assert_eq!(rows(5, 10).unwrap(), rows(5, 10).unwrap());
        assert_eq!(rows(5, 10).unwrap().num_rows(), 10);
    }

    #[test]
    fn figures_are_shown_both_ways() {
        assert!(text(&Figures::default(), false).contains("rows/s"));
        assert!(text(&Figures::default(), true).starts_with('{'));
    }
}
