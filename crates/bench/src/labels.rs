//! What labels cost: the same rows with and without them, taken in, settled, and scanned by who
//! sees all and by who sees some.
//!
//! ```text
//!   tables:  plain | labels declared and left empty | labels of cells | labels of rows
//!   each:    append -> settle -> SELECT over everything, warm, several times
//! ```
//!
//! Rows and labels come from a seed and are made while no clock runs. Each ratio is to the table
//! without labels.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use clap::Args;
use lazybase_query::{Database, Op, Session};

use crate::Outcome;
use crate::report::median;

/// What `labels` is asked for.
#[derive(Debug, Args)]
pub(crate) struct LabelsArgs {
    /// Rows of each table.
    #[arg(long, default_value_t = 1_000_000)]
    rows: usize,
    /// How often each scan is taken.
    #[arg(long, default_value_t = 5)]
    times: usize,
    /// How many labels there are.
    #[arg(long, default_value_t = 16)]
    labels: usize,
    /// Where to write; the data goes into a folder of its own there, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Rows of one batch.
const BATCH_ROWS: usize = 65_536;

/// A table's name, what its column says, what it says itself, and which labels its rows have.
const TABLES: [(&str, &str, &str, Option<&str>); 4] = [
    ("plain", "", "", None),
    ("unused", "WITH LABELS", "WITH (row_labels = true)", None),
    ("cells", "WITH LABELS", "", Some("_label(value)")),
    ("rows", "", "WITH (row_labels = true)", Some("_label")),
];

const SCAN: &str = "SELECT count(value), sum(value), max(part) FROM";

/// Runs the measurement; the figures as lines.
pub(crate) fn run(args: &LabelsArgs) -> Outcome<()> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&parent)?;
    let folder = tempfile::Builder::new()
        .prefix("lazybase-labels-")
        .tempdir_in(&parent)?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let database = Database::open(folder.path().join("db")).await?;
        let mut of_plain = None;
        for table in TABLES {
            let took = measure(args, &database, table).await?;
            let base = of_plain.get_or_insert_with(|| took.clone());
            for ((what, seconds), (_, plain)) in took.iter().zip(base.iter()) {
                let (name, ratio) = (table.0, seconds / plain);
                eprintln!("{name:<8} {what:<24} {seconds:>9.3} s   {ratio:>6.2} of plain");
            }
        }
        database.close().await?;
        Ok(())
    })
}

/// Seconds by what took them.
type Took = Vec<(&'static str, f64)>;

async fn measure(
    args: &LabelsArgs,
    database: &Database,
    (name, of_column, of_table, labels): (&str, &str, &str, Option<&str>),
) -> Outcome<Took> {
    let session = database.session();
    let create = format!(
        "CREATE TABLE {name} (id BIGINT PRIMARY KEY, part BIGINT, value BIGINT {of_column}) \
         {of_table}"
    );
    session.execute(&create).await?;
    let batches = batches(args, labels)?;
    let started = Instant::now();
    for batch in &batches {
        let mut appender = database.appender();
        appender.append(name, batch, Op::Upsert).await?;
        appender.commit().await?;
    }
    let appended = started.elapsed().as_secs_f64();
    let started = Instant::now();
    session.execute("SETTLE").await?;
    let settled = started.elapsed().as_secs_f64();
    let all = scan(args, &session, name, "*").await?;
    // Half of the labels, and the rest of the cells or rows hidden.
    let half: Vec<String> = (0..args.labels / 2).map(label).collect();
    let some = scan(args, &session, name, &half.join(",")).await?;
    Ok(vec![
        ("append", appended),
        ("settle", settled),
        ("scan, all may be read", all),
        ("scan, half may be read", some),
    ])
}

/// The median time of a scan by whoever uses these authorizations.
async fn scan(
    args: &LabelsArgs,
    session: &Session,
    table: &str,
    authorizations: &str,
) -> Outcome<f64> {
    let set = format!("SET lazybase.authorizations = '{authorizations}'");
    session.execute(&set).await?;
    let sql = format!("{SCAN} {table}");
    session.execute(&sql).await?;
    let mut took = Vec::with_capacity(args.times);
    for _ in 0..args.times.max(1) {
        let started = Instant::now();
        session.execute(&sql).await?;
        took.push(started.elapsed().as_secs_f64());
    }
    session.execute("RESET lazybase.authorizations").await?;
    Ok(median(&mut took))
}

fn label(number: usize) -> String {
    format!("group{number}")
}

/// The rows, with their labels where they have any.
fn batches(args: &LabelsArgs, labels: Option<&str>) -> Outcome<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for first in (0..args.rows).step_by(BATCH_ROWS) {
        let rows = || first..(first + BATCH_ROWS).min(args.rows);
        let numbers = |of: fn(usize) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows().map(of)))
        };
        let mut columns = vec![
            ("id", numbers(|row| row as i64)),
            ("part", numbers(|row| (row % 1000) as i64)),
            ("value", numbers(|row| scattered(row) as i64 >> 1)),
        ];
        if let Some(name) = labels {
            let of_rows = rows().map(|row| label(scattered(row) as usize % args.labels.max(1)));
            let of_rows: ArrayRef = Arc::new(StringArray::from_iter_values(of_rows));
            columns.push((name, of_rows));
        }
        batches.push(RecordBatch::try_from_iter(columns)?);
    }
    Ok(batches)
}

/// A number that looks like chance, the same for each run.
fn scattered(row: usize) -> u64 {
    let mixed = (row as u64 ^ 0x9E37_79B9).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ (mixed >> 31)) >> 20
}
