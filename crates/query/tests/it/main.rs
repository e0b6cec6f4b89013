//! SQL as text: every file of `tests/slt` at every stage that the data can be in.
//!
//! The same file must give the same answers whether its rows are in the open SCU, unsorted, half
//! sorted, partly merged, or all in the authority. So each file runs five times, on a fresh
//! database, with the pipeline driven between its statements. `SLT=part-of-a-name` chooses files,
//! `SLT_TRACE=1` prints each statement before it runs.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod api;
mod combine;
mod combined_times;
mod crash;
mod definitions;
mod grants;
mod guide;
mod labels;
mod limits;
mod mixed;
mod partitions;
mod plain_views;
mod primary_key;
mod producers;
mod roles;
mod sequences;
mod shared_parts;
mod stages;
mod ttl;
mod types;
mod views;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use lazybase_cluster::Settings;
use lazybase_engine::env::Env;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_model::TextPlace;
use lazybase_query::{Database, OpenOptions, Session};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

use crate::stages::{Mix, Pipeline};

/// An error with its SQLSTATE before it and its place behind it, so that one expression can match
/// all of them.
#[derive(Debug)]
struct Failed(lazybase_model::Error);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.sqlstate(), self.0)?;
        match self.0.place() {
            Some(TextPlace { line, column }) => write!(f, " @{line}:{column}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failed {}

/// A connection of a file: a session, beside the pipeline that all connections share.
struct Connection {
    session: Session,
    pipeline: Arc<Pipeline>,
}

#[async_trait]
impl AsyncDB for Connection {
    type Error = Failed;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failed> {
        if std::env::var_os("SLT_TRACE").is_some() {
            eprintln!("{sql}");
        }
        self.pipeline
            .before(self.session.in_transaction())
            .await
            .map_err(Failed)?;
        let mut answers = self.session.execute(sql).await.map_err(Failed)?;
        self.pipeline
            .after(self.session.in_transaction())
            .await
            .map_err(Failed)?;
        let answer = answers.pop().expect("the runner gives statements");
        if !answer.returns_rows {
            return Ok(DBOutput::StatementComplete(answer.rows));
        }
        let types = vec![DefaultColumnType::Any; answer.schema.fields().len()];
        let rows = answer.batches.iter().flat_map(texts).collect();
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "lazybase"
    }

    fn error_sql_state(error: &Failed) -> Option<String> {
        Some(error.0.sqlstate().to_owned())
    }
}

/// The cells of a batch as the files write them.
fn texts(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<ArrayFormatter<'_>> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    (0..batch.num_rows())
        .map(|row| {
            columns
                .iter()
                .map(|column| match column.value(row).to_string() {
                    text if text.is_empty() => "(empty)".to_owned(),
                    text => text,
                })
                .collect()
        })
        .collect()
}

/// The rows of a statement's last answer.
async fn rows(session: &Session, sql: &str) -> Vec<Vec<String>> {
    let answers = session.execute(sql).await;
    let answers = answers.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let last = answers.last().expect("there is a statement");
    last.batches.iter().flat_map(texts).collect()
}

/// A database in memory. Most tests ask what SQL means, which no disk has a say in: over one they
/// would wait for it to sync more than for anything else.
async fn in_memory(settings: Settings) -> Database {
    let env = Env::system(Arc::new(MemoryStore::without_history()));
    Database::open_env(env, settings).await.unwrap()
}

/// A database in a folder, which may be opened again. Its log files are small: they are filled with
/// zeros ahead of time, for which a test would wait.
async fn open_in(folder: &Path) -> Database {
    let mut options = OpenOptions::default();
    options.settings.log_file_bytes = 1 << 20;
    let opened = Database::open_with(folder.join("db"), options).await;
    opened.unwrap()
}

fn files() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "slt"))
        .collect();
    files.sort();
    files
}

async fn run_all(mix: Mix) {
    let wanted = std::env::var("SLT").unwrap_or_default();
    let mut failures = Vec::new();
    for file in files()
        .into_iter()
        .filter(|f| f.to_string_lossy().contains(&wanted))
    {
        let database = in_memory(mix.settings()).await;
        let pipeline = Arc::new(Pipeline::new(database.clone(), mix));
        pipeline.start().await.unwrap();
        let mut runner = Runner::new(|| async {
            Ok::<_, Failed>(Connection {
                session: database.session(),
                pipeline: Arc::clone(&pipeline),
            })
        });
        if let Err(error) = runner.run_file_async(&file).await {
            failures.push(format!("{} at {mix:?}: {error}", file.display()));
        }
        database.close().await.unwrap();
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_scu_only() {
    run_all(Mix::Open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsorted() {
    run_all(Mix::Unsorted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sorted() {
    run_all(Mix::HalfSorted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partly_merged() {
    run_all(Mix::PartlyMerged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authority() {
    run_all(Mix::Authority).await;
}

/// Waits for a merge in table t, which begins by itself, and tells in how many of how many key
/// ranges there was one.
async fn merged_ranges(pipeline: &Pipeline) -> (usize, usize) {
    for _ in 0..6000 {
        let (merged, all) = pipeline.merged_ranges("t");
        if merged > 0 {
            return (merged, all);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nothing was merged");
}

/// The mixes are what they say: an answer's stamp tells the stages that were read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mix_reads_the_stages_that_it_is_named_for() {
    use lazybase_model::Stage::{Authority, Ingested, Merged, Open, Sorted};
    // Texts that no codec makes small, so that the base is cut where the keys go on behind it.
    let text = |key: u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
    let first: Vec<String> = (0..1000)
        .map(|key| format!("({key}, '{:016x}')", text(key)))
        .collect();
    for (mix, stages) in [
        (Mix::Open, vec![Open]),
        (Mix::Unsorted, vec![Ingested]),
        (Mix::HalfSorted, vec![Ingested, Sorted]),
        (Mix::PartlyMerged, vec![Ingested, Sorted, Merged, Authority]),
        (Mix::Authority, vec![Authority]),
    ] {
        let database = in_memory(mix.settings()).await;
        let pipeline = Arc::new(Pipeline::new(database.clone(), mix));
        pipeline.start().await.unwrap();
        let mut connection = Connection {
            session: database.session(),
            pipeline: Arc::clone(&pipeline),
        };
        connection
            .run("CREATE TABLE t (k INT PRIMARY KEY, v TEXT)")
            .await
            .unwrap();
        // Odd turns sort, and turn 3 goes on to the authority. Six more sorted runs and the base
        // are too many on turn 9; two of the six stay as they are. Turn 10 leaves its row unsorted.
        let next = (1000..1009).map(|key| format!("({key}, 'next')"));
        for rows in [first.join(", ")].into_iter().chain(next) {
            connection
                .run(&format!("INSERT INTO t VALUES {rows}"))
                .await
                .unwrap();
        }
        if mix == Mix::PartlyMerged {
            // Nothing came into the range of the first rows.
            let (merged, all) = merged_ranges(&pipeline).await;
            assert!(merged < all, "all {all} ranges are merged");
        }
        connection.run("SELECT k FROM t").await.unwrap();
        let stamp = connection.session.last_stamp().unwrap();
        assert_eq!(stamp.sources.stages(), stages, "{mix:?}: {stamp}");
        database.close().await.unwrap();
    }
}
