//! The policy alone against a modelled pipeline: SCUs of given sizes at given rates, workers of
//! given speeds, the real manifest with its edits and invariants, and no data.
//!
//! What a run holds is a density of rows over keys: rows that are new, and changes to rows that
//! are there. Merging adds densities; in the authority changes vanish into the rows they change.

use pieces::Piece;
use pipeline::Pipeline;

mod pieces;
mod pipeline;

const STEP_MICROS: i64 = 10_000;
const SECOND: i64 = 1_000_000;
/// Uncompressed bytes for one stored byte.
const RATIO: u64 = 2;

/// Keys are numbered by time: `stride` a microsecond.
const STRIDE: u64 = 1 << 10;
/// The first key that the stream adds.
const FIRST: u64 = 1 << 40;

/// New rows with rising keys, `changed` of them changes to the rows of the last minute.
fn rising(rows_s: u64, row_bytes: u64, changed: f64) -> impl FnMut(i64) -> Vec<Piece> {
    let bytes = (rows_s * row_bytes / RATIO) as f64 / (SECOND / STEP_MICROS) as f64;
    let key = |micros: i64| FIRST + micros.max(0) as u64 * STRIDE;
    let mut start = None;
    move |now| {
        let start = *start.get_or_insert(now - STEP_MICROS);
        let new = Piece {
            low: key(now - STEP_MICROS),
            high: key(now),
            rows: bytes * (1.0 - changed),
            changes: 0.0,
        };
        let oldest = key((now - 60 * SECOND).max(start));
        let old = Piece {
            low: oldest,
            high: key(now),
            rows: 0.0,
            changes: bytes * changed,
        };
        let pieces = [new, old].into_iter();
        pieces.filter(|piece| piece.bytes() > 0.0).collect()
    }
}

fn uniform(rows_s: u64, row_bytes: u64, keys: u64) -> impl FnMut(i64) -> Vec<Piece> {
    let bytes = (rows_s * row_bytes / RATIO) as f64 / (SECOND / STEP_MICROS) as f64;
    move |_| {
        vec![Piece {
            low: 0,
            high: keys,
            rows: 0.0,
            changes: bytes,
        }]
    }
}

fn nothing(_: i64) -> Vec<Piece> {
    Vec::new()
}

#[test]
fn a_fast_stream_with_rising_keys_is_written_less_than_four_times() {
    let mut pipeline = Pipeline::new(10_000_000 * 1100 / RATIO, FIRST);
    let before = pipeline.in_authority();
    pipeline.run(180.0, rising(80_000, 1100, 0.05));
    pipeline.report("rising, 80,000 rows/s");
    let reached = pipeline.in_authority() - before;
    assert!(
        reached * RATIO > pipeline.accepted / 5,
        "the authority follows the stream: {reached}"
    );
    assert!(pipeline.write_amplification() < 4.0);
    assert!(pipeline.stalest_micros < 60 * SECOND);
    assert!(pipeline.runs_max < 32);
    pipeline.run(90.0, nothing);
    pipeline.is_settled();
    pipeline.report("and settled");
    assert!(
        pipeline.stalest_micros < 20 * SECOND,
        "settling makes nothing stale"
    );
    assert!(pipeline.write_amplification() < 4.0);
}

#[test]
fn a_slow_stream_is_never_staler_than_five_seconds() {
    let mut pipeline = Pipeline::new(0, FIRST);
    pipeline.run(300.0, rising(1000, 1100, 0.05));
    pipeline.report("rising, 1,000 rows/s");
    assert!(
        pipeline.stalest_micros < 5 * SECOND,
        "{}",
        pipeline.stalest_micros
    );
    assert!(pipeline.runs_max <= 9, "{}", pipeline.runs_max);
    assert!(pipeline.write_amplification() < 10.0);
}

#[test]
fn a_slow_stream_onto_a_large_table_is_fresh_too() {
    for keys in [FIRST, FIRST / 2] {
        let mut pipeline = Pipeline::new(10_000_000 * 1100 / RATIO, FIRST);
        pipeline.run(120.0, uniform(1000, 1100, keys));
        pipeline.report("uniform, 1,000 rows/s");
        assert!(
            pipeline.stalest_micros < 5 * SECOND,
            "{}",
            pipeline.stalest_micros
        );
        assert!(pipeline.runs_max <= 9, "{}", pipeline.runs_max);
    }
}

#[test]
fn uniform_changes_to_a_large_table_keep_up() {
    let mut pipeline = Pipeline::new(10_000_000 * 1100 / RATIO, FIRST);
    pipeline.run(180.0, uniform(20_000, 1100, FIRST));
    pipeline.report("uniform, 20,000 rows/s");
    let early = std::mem::take(&mut pipeline.stalest_micros);
    pipeline.runs_max = 0;
    pipeline.run(120.0, uniform(20_000, 1100, FIRST));
    pipeline.report("and later");
    assert!(pipeline.stalest_micros < 120 * SECOND);
    assert!(
        pipeline.stalest_micros < early + 60 * SECOND,
        "the lag grows"
    );
    assert!(pipeline.runs_max < 64);
}

#[test]
fn an_idle_database_has_everything_in_the_authority_three_seconds_later() {
    for (rows_s, seconds) in [(1000, 30.0), (10, 3.5), (5000, 60.0), (1, 0.01)] {
        let mut pipeline = Pipeline::new(0, FIRST);
        pipeline.run(seconds, rising(rows_s, 1100, 0.05));
        pipeline.run(3.0, nothing);
        pipeline.report(&format!("{rows_s} rows/s, then idle"));
        pipeline.is_settled();
        let tasks = pipeline.tasks;
        pipeline.run(30.0, nothing);
        assert_eq!(pipeline.tasks, tasks, "a settled state stays as it is");
    }
}

#[test]
fn a_writer_that_comes_and_goes_is_served_each_time() {
    let mut pipeline = Pipeline::new(100 << 20, FIRST);
    let mut load = uniform(200, 1100, FIRST);
    pipeline.run(120.0, |now| match now % (2 * SECOND) < SECOND * 6 / 10 {
        true => load(now),
        false => Vec::new(),
    });
    pipeline.report("a writer that comes and goes");
    assert!(pipeline.stalest_micros < 5 * SECOND);
    assert!(
        pipeline.write_amplification() < 20.0,
        "pauses are not worth the authority"
    );
    pipeline.run(3.0, nothing);
    pipeline.is_settled();
}
