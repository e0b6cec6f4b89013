//! Manifests as text, so that the tests of choices and policies read as states.
//!
//! ```text
//!   sealed 110 sorted 109             how far sealing and sorting have come (needed, first)
//!   table t after 0                   a table, and the boundary it was created after
//!   table u target 20                 one that should be 20 seconds stale at most
//!     sorted 109 a..z:600K            before the first range: a run in every range
//!     range ..m                       a range, by its least and greatest key
//!       base 1..=100 64M              one segment over the whole range
//!       merged 101..=108 a..f:3M f..m:2M old=7 ct=105
//!     range m..
//!       base 1..=108 none
//! ```
//!
//! Each run takes the next id, from 1; `old=7` is superseded after 7 seconds, `ct` its newest
//! change (the span's last SCU if not given), `part=1` its part. SCU n is acknowledged from second
//! n on, in ten batches within 900 ms; times are kept of the newest 600.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use lazybase_model::table::Table;
use lazybase_model::{
    Column, DatabaseId, Error, Result, SchemaVersion, ScuNumber, Span, TableId, ViewId,
};

use super::{
    KeyRange, Manifest, RangeState, Run, RunId, RunKind, RunRef, ScuEntry, ScuTime, SegmentFormat,
    SegmentMeta, TableState,
};
use crate::key::Key;

const SECOND: i64 = 1_000_000;

/// Reads a manifest from text.
///
/// # Errors
/// `Invalid`, naming the line.
pub fn manifest(text: &str) -> Result<Manifest> {
    let mut reader = Reader::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        reader
            .line(line)
            .ok_or_else(|| Error::invalid(format!("not a line of a manifest: {line:?}")))?;
    }
    Ok(reader.finish())
}

/// A key of these letters.
pub fn key(text: &str) -> Key {
    Key::new(text.as_bytes())
}

struct Reader {
    manifest: Manifest,
    tables: Vec<TableState>,
    /// Runs of the table that stand before its first range.
    shared: Vec<RunRef>,
}

impl Reader {
    fn new() -> Reader {
        let database = DatabaseId {
            database: 1,
            history: 1,
        };
        Reader {
            manifest: Manifest {
                epoch: 1,
                ..Manifest::created(database, 0)
            },
            tables: Vec::new(),
            shared: Vec::new(),
        }
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["sealed", sealed, "sorted", sorted] => {
                self.manifest.sealed_through = ScuNumber(sealed.parse().ok()?);
                self.manifest.sorted_through = ScuNumber(sorted.parse().ok()?);
            }
            ["table", name] => self.table(name, 0, None),
            ["table", name, "after", boundary] => self.table(name, boundary.parse().ok()?, None),
            ["table", name, "target", seconds] => {
                let seconds: u64 = seconds.parse().ok()?;
                self.table(name, 0, Some(seconds * SECOND as u64));
            }
            ["range", range] => {
                let (low, high) = range.split_once("..")?;
                let bound = |text: &str| (!text.is_empty()).then(|| key(text));
                let state = RangeState {
                    range: KeyRange {
                        low: bound(low),
                        high: bound(high),
                    },
                    runs: self.shared.clone(),
                };
                self.tables.last_mut()?.ranges.push(Arc::new(state));
            }
            [kind, span, rest @ ..] => self.run(kind, span, rest)?,
            _ => return None,
        }
        Some(())
    }

    fn table(&mut self, name: &str, after: u64, freshness_target_micros: Option<u64>) {
        let id = self.manifest.next_table;
        self.manifest.next_table += 1;
        self.manifest.next_view += 1;
        self.shared.clear();
        let columns = vec![Column::new("k", DataType::Utf8)];
        self.tables.push(TableState {
            table: Arc::new(Table {
                version: SchemaVersion(1),
                freshness_target_micros,
                ..Table::new(TableId(id), ViewId(id), name, columns, &[0])
            }),
            older: Vec::new(),
            created_after: ScuNumber(after),
            ranges: Vec::new(),
        });
    }

    fn run(&mut self, kind: &str, span: &str, rest: &[&str]) -> Option<()> {
        let (first, last) = span.split_once("..=").unwrap_or((span, span));
        let span = Span {
            first: ScuNumber(first.parse().ok()?),
            last: ScuNumber(last.parse().ok()?),
        };
        let table = self.tables.last_mut()?;
        let range = table.ranges.last().map(|state| state.range.clone());
        let mut run = Run {
            id: RunId(self.manifest.next_run),
            view: table.table.primary.id,
            kind: match kind {
                "base" => RunKind::Base,
                "merged" => RunKind::Merged,
                "sorted" => RunKind::Sorted,
                _ => return None,
            },
            span,
            changes_through: span.last,
            segments: Vec::new(),
            part: 0,
        };
        self.manifest.next_run += 1;
        let mut entry = RunRef::current(run.id);
        // What is said of the run counts for its segments, wherever it stands.
        let (said, segments): (Vec<&str>, Vec<&str>) =
            rest.iter().partition(|word| word.contains('='));
        for word in said.into_iter().chain(segments) {
            match word.split_once('=') {
                Some(("ct", scu)) => run.changes_through = ScuNumber(scu.parse().ok()?),
                Some(("part", part)) => run.part = part.parse().ok()?,
                Some(("old", at)) => {
                    entry.superseded_micros = Some(at.parse::<i64>().ok()? * SECOND);
                }
                Some(_) => return None,
                None if word == "none" => {}
                None => {
                    let number = run.segments.len();
                    let range = range.clone().unwrap_or_default();
                    run.segments.push(segment(word, &range, &run, number)?);
                }
            }
        }
        self.manifest.runs.insert(run.id, Arc::new(run));
        match table.ranges.last_mut() {
            Some(state) => Arc::make_mut(state).runs.push(entry),
            None => self.shared.push(entry),
        }
        Some(())
    }

    fn finish(mut self) -> Manifest {
        let manifest = &mut self.manifest;
        for mut state in self.tables {
            for range in &mut state.ranges {
                Arc::make_mut(range).runs.sort_by_key(|entry| {
                    let run = &manifest.runs[&entry.id];
                    (run.span.first, run.span.last, run.part, run.id)
                });
            }
            manifest.tables.insert(state.table.id, Arc::new(state));
        }
        let sealed = manifest.sealed_through.0;
        for scu in (sealed.saturating_sub(600) + 1)..=sealed {
            let second = scu as i64 * SECOND;
            let time = ScuTime {
                first_ack_micros: second,
                last_ack_micros: second + 900_000,
                batches_through: scu * 10,
            };
            manifest.times.insert(ScuNumber(scu), time);
        }
        for scu in manifest.sorted_through.0 + 1..=sealed {
            let entry = ScuEntry {
                scu: ScuNumber(scu),
                batches: 10,
                rows: 1000,
                raw_bytes: 1 << 20,
                tables: BTreeMap::new(),
                log: Vec::new(),
                files: Vec::new(),
                ddl_batch: None,
            };
            manifest.scus.insert(ScuNumber(scu), Arc::new(entry));
        }
        self.manifest
    }
}

/// `64M` over the whole range, or `a..f:64M` between two keys.
fn segment(word: &str, range: &KeyRange, run: &Run, number: usize) -> Option<Arc<SegmentMeta>> {
    let (min_key, max_key, size) = match word.split_once(':') {
        Some((keys, size)) => {
            let (min, max) = keys.split_once("..")?;
            (key(min), key(max), size)
        }
        None => {
            let min = range.low.clone().unwrap_or_else(|| key("a"));
            let max = match &range.high {
                // The greatest two-byte key before the range's end, near enough.
                Some(high) => before(high)?,
                None => key("zz"),
            };
            (min, max, word)
        }
    };
    let digits = size.trim_end_matches(['K', 'M', 'G']);
    let unit = match &size[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    let bytes = digits.parse::<u64>().ok()? * unit;
    Some(Arc::new(SegmentMeta {
        file: format!("segments/{}-{number}.ext", run.id.0),
        format: SegmentFormat::Extent,
        rows: bytes / 500,
        bytes,
        raw_bytes: bytes * 2,
        index_offset: 0,
        index_crc: 0,
        min_key,
        max_key,
        all_upserts: run.kind == RunKind::Base,
        newest_scu: run.changes_through,
        moments_through: None,
    }))
}

/// A key right before `high`: its last byte less one, then a greatest byte.
fn before(high: &Key) -> Option<Key> {
    let (last, start) = high.as_bytes().split_last()?;
    let mut bytes = start.to_vec();
    bytes.extend([last.checked_sub(1)?, u8::MAX]);
    Some(Key::new(bytes))
}
