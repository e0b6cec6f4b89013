//! One batch that is larger than all memory budgets together: accepted, acknowledged, sorted and
//! merged in bounded memory; and what is larger than the limit is refused before it costs anything.
//!
//! A child process writes the batch and ends without closing; a second one recovers it and settles
//! it. Both watch their own memory. Sizes: `LAZYBASE_BIG_BATCH_MB`; where it is written:
//! `LAZYBASE_BIG_BATCH_DIR`.

#![allow(
    clippy::disallowed_methods,
    reason = "a process of its own, its memory and its time are what is measured here"
)]

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use futures::TryStreamExt;
use futures::executor::block_on;
use lazybase_cluster::{Instance, Settings, SettleTo};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::env::local::LocalStore;
use lazybase_engine::env::memory::MemoryStore;
use lazybase_engine::read::ScanRequest;
use lazybase_model::{ErrorKind, Freshness};

use crate::harness::{close_whole, create, fresh, open, scan, settings};

/// The batch of `cargo test`, in megabytes.
const SHARE_MB: u64 = 200;
/// From this size on the shipped budgets apply; below, small ones do.
const SHIPPED_BUDGETS_MB: u64 = 2_000;

const PHASE: &str = "LAZYBASE_BIG_BATCH_PHASE";
const FOLDER: &str = "LAZYBASE_BIG_BATCH_FOLDER";

/// Bytes of a row's text.
const NOTE_BYTES: usize = 1000;
/// Rows that are appended at once.
const CHUNK_ROWS: u64 = 4096;

fn megabytes() -> u64 {
    let set = std::env::var("LAZYBASE_BIG_BATCH_MB").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(SHARE_MB)
}

fn rows() -> u64 {
    megabytes() * 1_000_000 / (NOTE_BYTES as u64 + 16)
}

fn budgets() -> Settings {
    let limit = Settings {
        batch_bytes_max: u64::MAX,
        retention: Duration::ZERO,
        ..Settings::default()
    };
    match megabytes() >= SHIPPED_BUDGETS_MB {
        true => limit,
        false => Settings {
            unsorted_memory: 8 << 20,
            sort_memory: 8 << 20,
            cache_bytes: 8 << 20,
            merge_task_bytes: 32 << 20,
            range_split_bytes: 32 << 20,
            log_file_bytes: 16 << 20,
            ..limit
        },
    }
}

/// What a phase may hold in anonymous memory: the budgets, twice, and what a process takes anyway.
fn anonymous_max(settings: &Settings) -> u64 {
    let workers = settings.workers as u64;
    let budgets = settings.unsorted_memory
        + workers * settings.sort_memory
        + settings.cache_bytes
        + lazybase_model::limits::COMMIT_QUEUE_BYTES_MAX.min(settings.unsorted_memory * 4);
    2 * budgets + (48 << 20)
}

/// Keys in no order, each once: parts of a sort overlap all over.
fn key(at: u64) -> i64 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1) as i64
}

fn chunk(numbers: std::ops::Range<u64>, pool: &str) -> ChangeBatch {
    let note = |at: u64| {
        let from = (at as usize).wrapping_mul(7919) % (pool.len() - NOTE_BYTES);
        &pool[from..from + NOTE_BYTES]
    };
    let ids: Int64Array = numbers.clone().map(key).collect::<Vec<_>>().into();
    let counts: Int64Array = numbers
        .clone()
        .map(|at| at as i64)
        .collect::<Vec<_>>()
        .into();
    let notes = StringArray::from_iter_values(numbers.map(note));
    let data = RecordBatch::try_from_iter([
        ("id", Arc::new(ids) as _),
        ("count", Arc::new(counts) as _),
        ("note", Arc::new(notes) as _),
    ]);
    ChangeBatch::upserts(data.unwrap(), 0)
}

/// Text that does not repeat for a while.
fn pool() -> String {
    let word = |at: u64| format!("{:016x}", (at + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93));
    (0..64 << 10).map(word).collect()
}

/// A value of this process's memory, in bytes.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.and_then(|text| text.parse().ok()).unwrap_or(0) << 10
}

/// Runs a phase and tells the most anonymous memory that was seen meanwhile.
fn watched(phase: impl FnOnce()) -> u64 {
    let (peak, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                peak.fetch_max(memory("RssAnon:"), Ordering::SeqCst);
                thread::sleep(Duration::from_millis(10));
            }
        });
        phase();
        done.store(true, Ordering::SeqCst);
    });
    peak.into_inner()
}

fn say(line: &str) {
    std::io::stderr()
        .write_all(format!("big batch: {line}\n").as_bytes())
        .unwrap();
}

fn start(folder: &Path) -> Instance {
    open(Arc::new(LocalStore::open(folder).unwrap()), budgets()).unwrap()
}

fn write(folder: &Path) {
    let instance = start(folder);
    let table = create(&instance, "t");
    let pool = pool();
    let mut batch = instance.begin(None);
    let mut at = 0;
    while at < rows() {
        let end = (at + CHUNK_ROWS).min(rows());
        block_on(batch.append(&table, chunk(at..end, &pool))).unwrap();
        at = end;
    }
    let done = block_on(batch.commit()).unwrap();
    assert_eq!(done.rows, rows());
}

fn settle(folder: &Path) {
    let instance = start(folder);
    let began = Instant::now();
    block_on(instance.settle(None, SettleTo::Authority, &|_| {})).unwrap();
    say(&format!("settled in {:.1?}", began.elapsed()));
    let table = instance.table("t").unwrap();
    let snapshot = fresh(&instance, Freshness::ZERO);
    let (mut count, mut sum, mut last) = (0, 0, i64::MIN);
    block_on(async {
        let request = ScanRequest {
            table: table.id,
            projection: vec![0, 1],
            range: Default::default(),
            buffered: Vec::new(),
            batch_rows: 8192,
            parts: 1,
        };
        for part in &snapshot.plan_scan(request).await.unwrap().parts {
            let mut stream = part.stream();
            while let Some(rows) = stream.try_next().await.unwrap() {
                for id in rows.column(0).as_primitive::<Int64Type>().values() {
                    assert!(*id > last, "keys rise");
                    last = *id;
                }
                let counts = rows.column(1).as_primitive::<Int64Type>();
                sum += counts.values().iter().sum::<i64>();
                count += rows.num_rows() as u64;
            }
        }
    });
    assert_eq!(count, rows());
    assert_eq!(sum as u64, (0..rows()).sum::<u64>());
    close_whole(&instance);
}

#[test]
fn a_batch_larger_than_all_budgets_takes_bounded_memory() {
    let folder = match std::env::var_os("LAZYBASE_BIG_BATCH_DIR") {
        Some(parent) => tempfile::tempdir_in(parent).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    for phase in ["write", "settle"] {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "big_batch::child_process", "--nocapture"])
            .env(PHASE, phase)
            .env(FOLDER, folder.path())
            .status();
        assert!(status.unwrap().success(), "{phase}");
    }
}

/// Not a test: a phase of the test above, in a process of its own.
#[test]
fn child_process() {
    let (Some(folder), Ok(phase)) = (std::env::var_os(FOLDER), std::env::var(PHASE)) else {
        return;
    };
    let began = Instant::now();
    let peak = watched(|| match phase.as_str() {
        "write" => write(Path::new(&folder)),
        _ => settle(Path::new(&folder)),
    });
    say(&format!(
        "{} MB: {phase} took {:.1?}; anonymous memory at most {} MB, all at most {} MB",
        megabytes(),
        began.elapsed(),
        peak / 1_000_000,
        memory("VmHWM:") / 1_000_000,
    ));
    let most = anonymous_max(&budgets());
    assert!(peak <= most, "{phase}: {peak} bytes, at most {most}");
    // Without closing: what was acknowledged needs no farewell.
    std::process::exit(0);
}

#[test]
fn a_batch_beyond_the_limit_is_refused_early_and_leaves_nothing() {
    let limit = Settings {
        batch_bytes_max: 1 << 20,
        ..settings()
    };
    let instance = open(Arc::new(MemoryStore::without_history()), limit).unwrap();
    let table = create(&instance, "t");
    let pool = pool();
    let mut at_once = instance.begin(None);
    let refused = block_on(at_once.append(&table, chunk(0..2000, &pool))).unwrap_err();
    assert_eq!(instance.status().log_bytes_written, 0);
    let mut in_pieces = instance.begin(None);
    let mut pieces = 0;
    let later = loop {
        let rows = chunk(pieces * 100..pieces * 100 + 100, &pool);
        match block_on(in_pieces.append(&table, rows)) {
            Ok(()) => pieces += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(pieces, 10);
    for error in [refused, later] {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.sqlstate(), "54000");
        assert!(error.message().contains("1048576"), "{error}");
        assert!(error.hint().unwrap().contains("batch_bytes_max"));
    }
    drop((at_once, in_pieces));
    let mut good = instance.begin(None);
    block_on(good.append(&table, chunk(0..10, &pool))).unwrap();
    block_on(good.commit()).unwrap();
    let rows = scan(&fresh(&instance, Freshness::ZERO), &table).unwrap();
    assert_eq!(rows.len(), 10);
    block_on(instance.close()).unwrap();
}
