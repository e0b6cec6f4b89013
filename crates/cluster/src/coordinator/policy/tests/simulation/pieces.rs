//! What runs of the modelled pipeline hold: densities of rows over keys, and the segments that they
//! fill.

use std::sync::Arc;

use lazybase_engine::key::Key;
use lazybase_engine::manifest::{KeyRange, Run, RunKind, SegmentFormat, SegmentMeta};
use lazybase_model::ScuNumber;
use lazybase_model::limits::SEGMENT_BYTES;

use super::RATIO;

/// A stretch of keys with evenly spread rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) low: u64,
    pub(super) high: u64,
    /// Bytes of rows that are new here.
    pub(super) rows: f64,
    /// Bytes of changes to rows that are there.
    pub(super) changes: f64,
}

impl Piece {
    pub(super) fn part(&self, low: u64, high: u64) -> Option<Piece> {
        let (from, to) = (self.low.max(low), self.high.min(high));
        let share = to.checked_sub(from).filter(|width| *width > 0)? as f64;
        let share = share / (self.high - self.low) as f64;
        Some(Piece {
            low: from,
            high: to,
            rows: self.rows * share,
            changes: self.changes * share,
        })
    }

    pub(super) fn bytes(&self) -> f64 {
        self.rows + self.changes
    }
}

pub(super) fn join(contents: &[&[Piece]], low: u64, high: u64, base: bool) -> Vec<Piece> {
    let mut cuts: Vec<u64> = contents
        .iter()
        .flat_map(|pieces| pieces.iter())
        .flat_map(|piece| [piece.low, piece.high])
        .map(|key| key.clamp(low, high))
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut joined: Vec<Piece> = Vec::new();
    for cut in cuts.windows(2) {
        let mut sum = Piece {
            low: cut[0],
            high: cut[1],
            rows: 0.0,
            changes: 0.0,
        };
        for piece in contents.iter().flat_map(|pieces| pieces.iter()) {
            if let Some(part) = piece.part(cut[0], cut[1]) {
                sum.rows += part.rows;
                sum.changes += part.changes;
            }
        }
        if base {
            sum.rows = if sum.rows > 0.0 {
                sum.rows
            } else {
                sum.changes
            };
            sum.changes = 0.0;
        }
        if sum.bytes() > 0.0 {
            joined.push(sum);
        }
    }
    // Neighbours are made one where there are many: what is lost is only where exactly rows lie.
    while joined.len() > 64 {
        joined = joined
            .chunks(2)
            .map(|pair| match pair {
                [left, right] if left.high == right.low => Piece {
                    low: left.low,
                    high: right.high,
                    rows: left.rows + right.rows,
                    changes: left.changes + right.changes,
                },
                _ => pair[0],
            })
            .collect();
    }
    joined
}

fn encoded(key: u64) -> Key {
    Key::new(key.to_be_bytes().as_slice())
}

pub(super) fn decoded(key: Option<&Key>, open: u64) -> u64 {
    key.map_or(open, |key| {
        u64::from_be_bytes(
            key.as_bytes()
                .try_into()
                .expect("keys here have eight bytes"),
        )
    })
}

/// Segments of at most the size that segments aim at, over pieces in the order of keys.
pub(super) fn segments(
    pieces: &[Piece],
    run: &Run,
    newest: ScuNumber,
    files: &mut u64,
) -> Vec<Arc<SegmentMeta>> {
    let mut segments = Vec::new();
    let mut from = None;
    let mut bytes = 0.0;
    let mut close = |from: u64, to: u64, bytes: f64| {
        *files += 1;
        let bytes = (bytes as u64).max(1);
        segments.push(Arc::new(SegmentMeta {
            file: format!("segments/{files}.ext"),
            format: SegmentFormat::Extent,
            rows: 1 + bytes / 500,
            bytes,
            raw_bytes: bytes * RATIO,
            index_offset: 0,
            index_crc: 0,
            min_key: encoded(from),
            max_key: encoded(to - 1),
            all_upserts: run.kind == RunKind::Base,
            newest_scu: newest,
            moments_through: None,
        }));
    };
    for piece in pieces {
        let mut low = piece.low;
        from.get_or_insert(low);
        loop {
            let rest = piece.part(low, piece.high).map_or(0.0, |rest| rest.bytes());
            let room = SEGMENT_BYTES as f64 - bytes;
            if rest < room {
                bytes += rest;
                break;
            }
            let width = ((piece.high - low) as f64 * room / rest) as u64;
            let cut = (low + width.max(1)).min(piece.high);
            close(from.unwrap_or(low), cut, SEGMENT_BYTES as f64);
            (low, bytes) = (cut, 0.0);
            from = (cut < piece.high).then_some(cut);
            if from.is_none() {
                break;
            }
        }
    }
    if let (Some(from), Some(last)) = (from, pieces.last())
        && bytes > 0.0
    {
        close(from, last.high, bytes);
    }
    segments
}

/// Large segments that no other input overlaps and that lie in the range.
pub(super) fn moved(
    runs: &[Arc<Run>],
    range: &KeyRange,
    (kind, bytes_min): (RunKind, u64),
) -> Vec<Arc<SegmentMeta>> {
    let within = |segment: &SegmentMeta| {
        range.low.as_ref().is_none_or(|low| *low <= segment.min_key)
            && range
                .high
                .as_ref()
                .is_none_or(|high| segment.max_key < *high)
    };
    let mut moved = Vec::new();
    for run in runs {
        let others = || {
            let others = runs.iter().filter(|other| other.id != run.id);
            others.flat_map(|other| other.segments.iter())
        };
        let alone = |segment: &&Arc<SegmentMeta>| {
            within(segment)
                && segment.bytes >= bytes_min
                && (kind != RunKind::Base || segment.all_upserts)
                && !others().any(|other| {
                    other.min_key <= segment.max_key && segment.min_key <= other.max_key
                })
        };
        moved.extend(run.segments.iter().filter(alone).cloned());
    }
    moved.sort_by(|left, right| left.min_key.cmp(&right.min_key));
    moved
}
