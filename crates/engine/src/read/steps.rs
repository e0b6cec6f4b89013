//! From overlapping sources to the steps of a scan: where one source alone holds a key stretch its
//! extents are taken as they are; where several meet they are reconciled. Pure; looks at bounds
//! only.
//!
//! Pieces that overlap, directly or through others, form one cluster. Clusters are disjoint, so
//! their steps follow each other in key order.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::scan::SourceDescription;
use super::source::{Source, Stretch, intersection};
use crate::key::Key;
use crate::manifest::KeyRange;

/// One step of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReadStep {
    /// Plain rows of one source, as they are; `whole` when no row needs clipping.
    Alone {
        stretch: Stretch,
        range: KeyRange,
        whole: bool,
    },
    /// Stretches that meet, or that hold other changes than whole rows.
    Reconcile {
        stretches: Vec<Stretch>,
        range: KeyRange,
    },
}

impl ReadStep {
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, ReadStep::Alone { whole: true, .. })
    }
}

/// A piece of a source: an extent, or a chunk in memory.
#[derive(Debug, Clone, Copy)]
struct Piece<'s> {
    source: usize,
    segment: usize,
    piece: usize,
    min: &'s [u8],
    max: &'s [u8],
}

impl Piece<'_> {
    fn stretch(&self) -> Stretch {
        Stretch {
            source: self.source,
            segment: self.segment,
            pieces: self.piece..self.piece + 1,
        }
    }
}

/// Rows, bytes and whether all rows are plain, of a piece.
pub(super) fn weigh(source: &Source, segment: usize, piece: usize) -> (u64, u64, bool) {
    match source {
        Source::Run { segments, .. } => {
            let info = segments[segment].extents().info(piece);
            (
                u64::from(info.rows),
                u64::from(info.stored_len),
                info.all_upserts,
            )
        }
        Source::Memory { chunks, .. } => {
            let rows = &chunks[piece].rows;
            (
                rows.rows() as u64,
                rows.memory_bytes() as u64,
                rows.all_upserts(),
            )
        }
    }
}

/// About how many bytes of a piece a read of a range takes: of some formats, less than all.
pub(super) fn weigh_in(source: &Source, segment: usize, piece: usize, range: &KeyRange) -> u64 {
    let (rows, bytes, _) = weigh(source, segment, piece);
    let Source::Run { segments, .. } = source else {
        return bytes;
    };
    let low = range.low.as_ref().map(Key::as_bytes);
    let high = range.high.as_ref().map(Key::as_bytes);
    let inside = segments[segment].rows_between(piece, low, high).len() as u128;
    (u128::from(bytes) * inside / u128::from(rows.max(1))) as u64
}

/// The pieces of a source's segment that overlap a range.
fn overlapping(source: &Source, segment: usize, range: &KeyRange) -> Range<usize> {
    let low = range.low.as_ref().map(Key::as_bytes);
    let high = range.high.as_ref().map(Key::as_bytes);
    match source {
        Source::Run { segments, .. } => segments[segment].extents_overlapping(low, high),
        Source::Memory { chunks, .. } => {
            let before = |bound: &[u8]| chunks.partition_point(|c| c.max_key.as_bytes() < bound);
            let until = |bound: &[u8]| chunks.partition_point(|c| c.min_key.as_bytes() < bound);
            let from = low.map_or(0, before);
            from..high.map_or(chunks.len(), until).max(from)
        }
    }
}

fn segments(source: &Source) -> usize {
    match source {
        Source::Run { segments, .. } => segments.len(),
        Source::Memory { .. } => 1,
    }
}

fn bounds(source: &Source, segment: usize, piece: usize) -> (&[u8], &[u8]) {
    match source {
        Source::Run { segments, .. } => {
            let extents = segments[segment].extents();
            (extents.min_key(piece), extents.max_key(piece))
        }
        Source::Memory { chunks, .. } => (
            chunks[piece].min_key.as_bytes(),
            chunks[piece].max_key.as_bytes(),
        ),
    }
}

/// All pieces in the range, by least key, older sources first.
fn pieces<'s>(sources: &'s [Source], range: &KeyRange) -> Vec<Piece<'s>> {
    let mut pieces = Vec::new();
    for (source, of) in sources.iter().enumerate() {
        for segment in 0..segments(of) {
            for piece in overlapping(of, segment, range) {
                let (min, max) = bounds(of, segment, piece);
                pieces.push(Piece {
                    source,
                    segment,
                    piece,
                    min,
                    max,
                });
            }
        }
    }
    pieces.sort_by(|a, b| a.min.cmp(b.min).then(a.source.cmp(&b.source)));
    pieces
}

/// The keys of a step: its rows at a horizon are those of the table there, from whatever sources.
pub(super) fn keys_of(sources: &[Source], step: &ReadStep) -> Option<KeyRange> {
    let (stretches, range) = match step {
        ReadStep::Alone { stretch, range, .. } => (std::slice::from_ref(stretch), range),
        ReadStep::Reconcile { stretches, range } => (stretches.as_slice(), range),
    };
    let bound =
        |stretch: &Stretch, piece: usize| bounds(&sources[stretch.source], stretch.segment, piece);
    let least = stretches.iter().map(|of| bound(of, of.pieces.start).0);
    let greatest = stretches.iter().map(|of| bound(of, of.pieces.end - 1).1);
    let keys = KeyRange {
        low: least.min().map(Key::new),
        high: greatest.max().map(Key::after),
    };
    intersection(&keys, range)
}

/// All stretches of a source in a range, in key order.
pub(super) fn stretches_of(source: &Source, at: usize, range: &KeyRange) -> Vec<Stretch> {
    let in_segment = |segment| Stretch {
        source: at,
        segment,
        pieces: overlapping(source, segment, range),
    };
    let all = (0..segments(source)).map(in_segment);
    all.filter(|stretch| !stretch.pieces.is_empty()).collect()
}

/// The steps that read a range.
pub(super) fn decompose(sources: &[Source], range: &KeyRange) -> Vec<ReadStep> {
    let pieces = pieces(sources, range);
    let mut steps: Vec<ReadStep> = Vec::new();
    let mut at = 0;
    while at < pieces.len() {
        let mut end = at + 1;
        let mut reach = pieces[at].max;
        while end < pieces.len() && pieces[end].min <= reach {
            reach = reach.max(pieces[end].max);
            end += 1;
        }
        push(&mut steps, sources, &pieces[at..end], range);
        at = end;
    }
    steps
}

/// Adds a cluster's step; neighbours of one kind are joined, so that steps stay few.
fn push(steps: &mut Vec<ReadStep>, sources: &[Source], cluster: &[Piece<'_>], range: &KeyRange) {
    let alone = match cluster {
        [only] => weigh(&sources[only.source], only.segment, only.piece).2,
        _ => false,
    };
    if !alone {
        let stretches = cluster.iter().map(Piece::stretch);
        return match steps.last_mut() {
            Some(ReadStep::Reconcile {
                stretches: last, ..
            }) => last.extend(stretches),
            _ => steps.push(ReadStep::Reconcile {
                stretches: stretches.collect(),
                range: range.clone(),
            }),
        };
    }
    let only = &cluster[0];
    let inside = range.encloses(only.min, only.max);
    if let Some(ReadStep::Alone { stretch, whole, .. }) = steps.last_mut() {
        let follows = stretch.source == only.source
            && stretch.segment == only.segment
            && stretch.pieces.end == only.piece
            && *whole == inside;
        if follows {
            stretch.pieces.end += 1;
            return;
        }
    }
    let stretch = only.stretch();
    steps.push(ReadStep::Alone {
        stretch,
        range: range.clone(),
        whole: inside,
    });
}

/// What the steps of all ranges come to.
pub(super) struct Sums {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// What a read takes of them, about.
    pub(super) taken: u64,
    pub(super) reconciled: usize,
    pub(super) alone: usize,
    pub(super) sources: Vec<SourceDescription>,
}

impl Sums {
    /// How many extents of the sources the ranges leave out.
    pub(super) fn pruned(&self) -> u64 {
        let sources = self.sources.iter();
        sources.map(|source| source.extents_pruned as u64).sum()
    }
}

/// Sums up steps: rows and bytes at most, and each source in words.
pub(super) fn sum_up(ranges: &[(Vec<Source>, Vec<ReadStep>, KeyRange)]) -> Sums {
    let mut sums = Sums {
        rows: 0,
        bytes: 0,
        taken: 0,
        reconciled: 0,
        alone: 0,
        sources: Vec::new(),
    };
    let mut counted = Counted::new();
    for (sources, steps, clip) in ranges {
        for step in steps {
            match step {
                ReadStep::Alone { .. } => sums.alone += 1,
                ReadStep::Reconcile { .. } => sums.reconciled += 1,
            }
        }
        for source in sources {
            describe(&mut sums, &mut counted, source, clip);
        }
    }
    sums
}

/// The extents that earlier ranges found in each segment: one that reaches over several ranges is
/// described once.
type Counted<'s> = BTreeMap<(&'s str, &'s str, usize), Vec<Range<usize>>>;

/// Tells segments of all sources apart: files by their names, chunks in memory by their place.
fn identity(source: &Source, segment: usize) -> (&str, &str, usize) {
    match source {
        Source::Run { name, segments, .. } => {
            (name.as_str(), segments[segment].meta().file.as_str(), 0)
        }
        Source::Memory { name, chunks, .. } => (name.as_str(), "", Arc::as_ptr(chunks).addr()),
    }
}

fn describe<'s>(sums: &mut Sums, counted: &mut Counted<'s>, source: &'s Source, clip: &KeyRange) {
    let (mut files, mut extents, mut all, mut bytes, mut rows) = (0, 0, 0, 0, 0);
    for segment in 0..segments(source) {
        let inside = overlapping(source, segment, clip);
        let before = counted.entry(identity(source, segment)).or_default();
        if before.is_empty() {
            files += 1;
            all += overlapping(source, segment, &KeyRange::default()).len();
        }
        let is_new = |piece: &usize| !before.iter().any(|range| range.contains(piece));
        extents += inside.clone().filter(is_new).count();
        before.push(inside.clone());
        for piece in inside {
            let (piece_rows, piece_bytes, _) = weigh(source, segment, piece);
            rows += piece_rows;
            bytes += piece_bytes;
            sums.taken += weigh_in(source, segment, piece, clip);
        }
    }
    sums.rows += rows;
    sums.bytes += bytes;
    let known = sums
        .sources
        .iter_mut()
        .find(|known| known.name == source.name());
    match known {
        Some(known) => {
            known.segments += files;
            known.extents += extents;
            known.extents_pruned = known.extents_pruned + all - extents;
            known.bytes += bytes;
        }
        None => sums.sources.push(SourceDescription {
            stage: source.stage(),
            name: source.name().to_owned(),
            segments: files,
            extents,
            extents_pruned: all - extents,
            bytes,
        }),
    }
}

/// Cuts steps into parts of about `budget` bytes each.
pub(super) fn cut(sources: &[Source], steps: Vec<ReadStep>, budget: u64) -> Vec<Vec<ReadStep>> {
    let mut parts: Vec<Vec<ReadStep>> = Vec::new();
    let mut filled = u64::MAX;
    for step in steps
        .into_iter()
        .flat_map(|step| cut_step(sources, step, budget))
    {
        let bytes = step_bytes(sources, &step);
        match parts.last_mut() {
            Some(part) if filled + bytes <= budget => {
                part.push(step);
                filled += bytes;
            }
            _ => {
                parts.push(vec![step]);
                filled = bytes;
            }
        }
    }
    parts
}

fn step_bytes(sources: &[Source], step: &ReadStep) -> u64 {
    let bytes = |stretch: &Stretch| -> u64 {
        let source = &sources[stretch.source];
        stretch
            .pieces
            .clone()
            .map(|piece| weigh(source, stretch.segment, piece).1)
            .sum()
    };
    match step {
        ReadStep::Alone { stretch, .. } => bytes(stretch),
        ReadStep::Reconcile { stretches, .. } => stretches.iter().map(bytes).sum(),
    }
}

fn cut_step(sources: &[Source], step: ReadStep, budget: u64) -> Vec<ReadStep> {
    if step_bytes(sources, &step) <= budget {
        return vec![step];
    }
    match step {
        ReadStep::Alone {
            stretch,
            range,
            whole,
        } => {
            let source = &sources[stretch.source];
            let mut cuts = Vec::new();
            let (mut start, mut bytes) = (stretch.pieces.start, 0);
            for piece in stretch.pieces.clone() {
                bytes += weigh(source, stretch.segment, piece).1;
                if bytes >= budget || piece + 1 == stretch.pieces.end {
                    let stretch = Stretch {
                        pieces: start..piece + 1,
                        ..stretch.clone()
                    };
                    cuts.push(ReadStep::Alone {
                        stretch,
                        range: range.clone(),
                        whole,
                    });
                    (start, bytes) = (piece + 1, 0);
                }
            }
            cuts
        }
        ReadStep::Reconcile { stretches, range } => {
            cut_reconcile(sources, stretches, &range, budget)
        }
    }
}

/// Cuts at the least keys of pieces, so that each cut holds about the budget.
fn cut_reconcile(
    sources: &[Source],
    stretches: Vec<Stretch>,
    range: &KeyRange,
    budget: u64,
) -> Vec<ReadStep> {
    let mut keyed: Vec<(&[u8], u64)> = Vec::new();
    for stretch in &stretches {
        let source = &sources[stretch.source];
        for piece in stretch.pieces.clone() {
            let (min, _) = bounds(source, stretch.segment, piece);
            keyed.push((min, weigh(source, stretch.segment, piece).1));
        }
    }
    keyed.sort_unstable();
    let mut cuts = Vec::new();
    let mut low = range.low.clone();
    let mut filled = 0;
    for (min, bytes) in keyed {
        let key = Key::new(min);
        if filled >= budget && low.as_ref().is_none_or(|low| *low < key) {
            let high = Some(key.clone());
            cuts.push(KeyRange {
                low: low.replace(key),
                high,
            });
            filled = 0;
        }
        filled += bytes;
    }
    cuts.push(KeyRange {
        low,
        high: range.high.clone(),
    });
    cuts.into_iter()
        .filter_map(|cut| {
            let stretches = restrict(sources, &stretches, &cut);
            let range = intersection(&cut, range)?;
            (!stretches.is_empty()).then_some(ReadStep::Reconcile { stretches, range })
        })
        .collect()
}

/// The parts of stretches that overlap a range.
fn restrict(sources: &[Source], stretches: &[Stretch], range: &KeyRange) -> Vec<Stretch> {
    let inside = |stretch: &Stretch| {
        let pieces = overlapping(&sources[stretch.source], stretch.segment, range);
        let start = pieces.start.max(stretch.pieces.start);
        let end = pieces.end.min(stretch.pieces.end);
        (start < end).then(|| Stretch {
            pieces: start..end,
            ..stretch.clone()
        })
    };
    stretches.iter().filter_map(inside).collect()
}
