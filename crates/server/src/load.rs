//! `lazybase load`: files into a table, as a stream of atomic batches in bounded memory.
//!
//! ```text
//!   file --source--> pieces (rows, and how far the file is read) --columns--> the table's types
//!        --ops--> upserts and deletes --> batch, with the mark of its producer --> commit
//! ```
//!
//! Invariant LOAD-1: a producer's mark is written in the batch whose rows it speaks of, so that
//! rows and mark are both there or neither. A file is added once, however often the load is
//! stopped and repeated.

mod file;
mod marks;
mod ops;
mod progress;
mod target;

use std::path::{Path, PathBuf};
use std::time::Duration;

use lazybase_model::{Error, Result, Token};
use lazybase_query::Database;
use serde_json::json;

use crate::cli::{LoadArgs, OnError};
use crate::failure;
use crate::figures::{bytes, counted, per_second, thousands};
use crate::names::{system_table, table_name};
use crate::open::{self, Missing};
use crate::source::{FileFormat, shown};
use crate::wall::Stopwatch;
use file::FileLoad;
use progress::Progress;

pub(crate) use target::create_table;

/// What a load has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Loaded {
    rows: u64,
    batches: u64,
    bytes: u64,
    files: u64,
    /// Files of which there was nothing new.
    unchanged: u64,
    /// What of the files its producer had loaded before.
    skipped_bytes: u64,
    rejected: u64,
    token: Option<Token>,
    /// Whether the table was made from the file that is being loaded, and has no row yet.
    made: bool,
}

/// Runs the command.
pub(crate) async fn run(db: Option<PathBuf>, mut args: LoadArgs) -> Result<()> {
    if system_table(&args.table).is_some() {
        let message = format!("{} is a system table: it can only be read", args.table);
        return Err(Error::invalid(message).with_sqlstate("42809"));
    }
    refuse_idle_options(&args)?;
    args.table = table_name(&args.table);
    let database = open::database(db, Missing::Create).await?;
    let stopwatch = Stopwatch::start();
    let progress = Progress::new(total_bytes(&args.files));
    let mut loaded = Loaded::default();
    let work = load_files(&database, &args, &progress, &mut loaded);
    let outcome = tokio::select! {
        outcome = work => outcome,
        _ = tokio::signal::ctrl_c() => Err(failure::cancelled().with_hint(interrupted(&args))),
    };
    progress.finish();
    let outcome = match outcome {
        Err(error) => Err(unmade(&database, &args, &mut loaded, error).await),
        done => done,
    };
    let outcome = open::close(&database, outcome).await;
    let told = match outcome.is_ok() || loaded.batches > 0 {
        true => failure::write_data(&format!(
            "{}\n",
            summary(&loaded, &args, stopwatch.elapsed())
        )),
        false => Ok(()),
    };
    if let Some(producer) = args
        .producer
        .as_deref()
        .filter(|_| loaded.skipped_bytes > 0)
    {
        failure::note(&skipped(&loaded, &args.table, producer));
    }
    outcome.and(told)?;
    match loaded.rejected {
        0 => Ok(()),
        n => Err(Error::invalid(format!("{} rejected", counted(n, "file")))),
    }
}

/// Refuses options of CSV where no file is one, before the first is taken.
fn refuse_idle_options(args: &LoadArgs) -> Result<()> {
    let option = match (args.delimiter, &args.null) {
        (Some(_), _) => "--delimiter",
        (None, Some(_)) => "--null",
        (None, None) => return Ok(()),
    };
    // Where nothing says the format, the file's own turn tells so.
    let is_none = |path: &&PathBuf| {
        let format = format_of(path, args.format);
        matches!(format, Ok(FileFormat::Parquet | FileFormat::Jsonl))
    };
    let nones = args.files.iter().filter(is_none);
    match args.files.first() {
        Some(first) if nones.count() == args.files.len() => {
            let fact = format!("{option} is for CSV: {} is none", shown(first));
            Err(Error::invalid(fact).with_hint(format!(
                "leave {option} out, or say --format csv or --format tsv"
            )))
        }
        _ => Ok(()),
    }
}

fn interrupted(args: &LoadArgs) -> &'static str {
    match args.producer {
        Some(_) => "run the same command again: it goes on where it stopped",
        None => {
            "the finished batches stay, and perhaps the one that was being written; with \
             --producer NAME a load can go on"
        }
    }
}

async fn load_files(
    database: &Database,
    args: &LoadArgs,
    progress: &Progress,
    loaded: &mut Loaded,
) -> Result<()> {
    if let Some(producer) = &args.producer {
        marks::prepare(database, producer).await?;
    }
    for path in &args.files {
        let load = FileLoad::new(database, args, path, progress);
        let before = *loaded;
        match load.run(loaded).await {
            Ok(()) => {
                loaded.files += 1;
                // It was made from a whole file, if one without rows.
                loaded.made = false;
            }
            Err(error) if args.on_error == OnError::RejectFile => {
                let error = unmade(database, args, loaded, error).await;
                *loaded = before;
                loaded.rejected += 1;
                progress.suspend(|| failure::print(&error.within("rejected")));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Takes back the table that a load has made and brought no row into: its types were guessed from
/// a file that could not be taken.
async fn unmade(database: &Database, args: &LoadArgs, loaded: &mut Loaded, error: Error) -> Error {
    if !std::mem::take(&mut loaded.made) {
        return error;
    }
    match database.instance().drop_table(&args.table, true).await {
        Ok(_) => error,
        Err(left) => error.with_hint(format!(
            "table {:?} was made, and could not be dropped: {left}",
            args.table
        )),
    }
}

fn total_bytes(files: &[PathBuf]) -> u64 {
    let length = |path: &PathBuf| std::fs::metadata(path).map_or(0, |data| data.len());
    files.iter().map(length).sum()
}

/// What was not loaded, for whoever misses it: nothing tells where rows have gone since.
fn skipped(loaded: &Loaded, table: &str, producer: &str) -> String {
    format!(
        "note: {} skipped: producer {producer:?} had loaded them into {table} before\n\
         hint: rows that went since, by DELETE or TRUNCATE, do not come back so; another \
         --producer loads all anew\n",
        counted(loaded.skipped_bytes, "byte")
    )
}

fn summary(loaded: &Loaded, args: &LoadArgs, took: Duration) -> String {
    if args.json {
        let figures = json!({
            "table": args.table,
            "rows": loaded.rows,
            "batches": loaded.batches,
            "files": loaded.files,
            "files_unchanged": loaded.unchanged,
            "files_rejected": loaded.rejected,
            "bytes": loaded.bytes,
            "bytes_skipped": loaded.skipped_bytes,
            "seconds": took.as_secs_f64(),
            "token": loaded.token.map(|token| token.to_string()),
        });
        return figures.to_string();
    }
    let mut text = format!(
        "loaded {} into {} from {} in {}, {:.2} s ({} rows/s, {}/s)",
        counted(loaded.rows, "row"),
        args.table,
        counted(loaded.files, "file"),
        counted(loaded.batches, "batch"),
        took.as_secs_f64(),
        thousands(per_second(loaded.rows, took) as u64),
        bytes(per_second(loaded.bytes, took) as u64),
    );
    if loaded.unchanged > 0 {
        text += &format!(", {} had nothing new", counted(loaded.unchanged, "file"));
    }
    if let Some(token) = loaded.token {
        text += &format!(", token {token}");
    }
    text
}

/// The format that a file's name says, unless the user does.
pub(crate) fn format_of(path: &Path, given: Option<FileFormat>) -> Result<FileFormat> {
    if let Some(format) = given {
        return Ok(format);
    }
    let ending = path
        .extension()
        .map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("parquet" | "pq") => Ok(FileFormat::Parquet),
        Some("csv" | "txt") => Ok(FileFormat::Csv),
        Some("tsv") => Ok(FileFormat::Tsv),
        Some("jsonl" | "ndjson" | "json") => Ok(FileFormat::Jsonl),
        _ => Err(Error::invalid(format!(
            "{}: the name does not say the format",
            path.display()
        ))
        .with_hint("give --format parquet, csv, tsv or jsonl")),
    }
}
