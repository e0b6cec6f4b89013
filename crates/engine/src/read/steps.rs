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

#[cfg(test)]
mod tests;

/// A source is cut between its own pieces where a part of a scan has at least so many of them.
const PIECES_MIN: u64 = 4;

/// One step of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReadStep {
    /// Plain rows of one source, as they are; `whole` when no row needs clipping.
    Alone {
        stretch: Stretch,
        range: KeyRange,
        whole: bool,
    },
    /// Stretches that meet, or that hold other changes than whole rows: all that any source has in
    /// the range, which is no other step's.
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

    /// Joins the piece to the stretch that it follows. Of a step's pieces those of one segment
    /// follow each other, whatever other pieces lie between them: so its stretches are few.
    fn join(&self, stretches: &mut Vec<Stretch>) {
        let is_before = |stretch: &&mut Stretch| {
            let of_same = (stretch.source, stretch.segment) == (self.source, self.segment);
            of_same && stretch.pieces.end == self.piece
        };
        match stretches.iter_mut().find(is_before) {
            Some(before) => before.pieces.end += 1,
            None => stretches.push(self.stretch()),
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
        push(&mut steps, sources, &pieces, at..end, range);
        at = end;
    }
    steps
}

/// Adds the step of a cluster, which is some of the pieces; neighbours of one kind are joined, so
/// that steps stay few.
fn push(
    steps: &mut Vec<ReadStep>,
    sources: &[Source],
    pieces: &[Piece<'_>],
    of_cluster: Range<usize>,
    range: &KeyRange,
) {
    let cluster = &pieces[of_cluster.clone()];
    let alone = match cluster {
        [only] => weigh(&sources[only.source], only.segment, only.piece).2,
        _ => false,
    };
    if !alone {
        // From its least key to that of the next one, so that ranges of steps never meet.
        let high = match pieces.get(of_cluster.end) {
            Some(next) => Some(Key::new(next.min)),
            None => range.high.clone(),
        };
        if !matches!(steps.last(), Some(ReadStep::Reconcile { .. })) {
            let low = match of_cluster.start {
                0 => range.low.clone(),
                _ => Some(Key::new(cluster[0].min)),
            };
            steps.push(ReadStep::Reconcile {
                stretches: Vec::new(),
                range: KeyRange { low, high: None },
            });
        }
        if let Some(ReadStep::Reconcile { stretches, range }) = steps.last_mut() {
            range.high = high;
            cluster.iter().for_each(|piece| piece.join(stretches));
        }
        return;
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

/// Deals bytes out to parts of a scan, each of which gets about as many as any other, in the order
/// in which they are read.
#[derive(Debug)]
pub(super) struct Shares {
    parts: u64,
    /// What all parts get together, and what was dealt out so far.
    bytes: u64,
    dealt: u64,
}

impl Shares {
    /// So many parts of so many bytes.
    pub(super) fn new(bytes: u64, parts: usize) -> Shares {
        Shares {
            parts: parts.max(1) as u64,
            bytes: bytes.max(1),
            dealt: 0,
        }
    }

    /// The part that gets the next bytes: the one in which their middle lies.
    fn deal(&mut self, bytes: u64) -> u64 {
        let middle = u128::from(self.dealt) + u128::from(bytes / 2);
        let part = middle * u128::from(self.parts) / u128::from(self.bytes);
        self.dealt += bytes;
        u64::try_from(part).map_or(self.parts - 1, |part| part.min(self.parts - 1))
    }

    /// How many parts so many bytes fill, at least one.
    fn filled_by(&self, bytes: u64) -> u64 {
        let parts = u128::from(bytes) * u128::from(self.parts) / u128::from(self.bytes);
        u64::try_from(parts).unwrap_or(self.parts).max(1)
    }
}

/// Cuts steps into parts, each of the pieces that are dealt out to it. Steps of one part that
/// follow each other stay together.
pub(super) fn cut(
    sources: &[Source],
    steps: Vec<ReadStep>,
    shares: &mut Shares,
) -> Vec<Vec<ReadStep>> {
    let mut parts: Vec<(u64, Vec<ReadStep>)> = Vec::new();
    for step in steps {
        for (part, step) in cut_step(sources, step, shares) {
            match parts.last_mut() {
                Some((last, steps)) if *last == part => steps.push(step),
                _ => parts.push((part, vec![step])),
            }
        }
    }
    parts.into_iter().map(|(_, steps)| steps).collect()
}

/// The stored bytes of the pieces that a step reads, those that it clips included.
pub(super) fn step_bytes(sources: &[Source], step: &ReadStep) -> u64 {
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

fn cut_step(sources: &[Source], step: ReadStep, shares: &mut Shares) -> Vec<(u64, ReadStep)> {
    match step {
        ReadStep::Alone {
            stretch,
            range,
            whole,
        } => {
            let source = &sources[stretch.source];
            let mut cuts: Vec<(u64, ReadStep)> = Vec::new();
            for piece in stretch.pieces.clone() {
                let part = shares.deal(weigh(source, stretch.segment, piece).1);
                if let Some((last, ReadStep::Alone { stretch, .. })) = cuts.last_mut()
                    && *last == part
                {
                    stretch.pieces.end = piece + 1;
                    continue;
                }
                let stretch = Stretch {
                    pieces: piece..piece + 1,
                    ..stretch.clone()
                };
                let range = range.clone();
                let step = ReadStep::Alone {
                    stretch,
                    range,
                    whole,
                };
                cuts.push((part, step));
            }
            cuts
        }
        ReadStep::Reconcile { stretches, range } => {
            cut_reconcile(sources, stretches, range, shares)
        }
    }
}

/// A piece of a step: its least key, its source, its bytes.
type Keyed<'s> = (&'s [u8], usize, u64);

/// Cuts at the least keys of pieces. Where one source is most of the step these are its own, so
/// that none of its pieces, which are the large ones, is read by two parts, and so that all scans
/// cut it at the same keys, whatever lies over it.
fn cut_reconcile(
    sources: &[Source],
    stretches: Vec<Stretch>,
    range: KeyRange,
    shares: &mut Shares,
) -> Vec<(u64, ReadStep)> {
    let mut keyed: Vec<Keyed<'_>> = Vec::new();
    for stretch in &stretches {
        let source = &sources[stretch.source];
        for piece in stretch.pieces.clone() {
            let (min, _) = bounds(source, stretch.segment, piece);
            let bytes = weigh(source, stretch.segment, piece).1;
            keyed.push((min, stretch.source, bytes));
        }
    }
    keyed.sort_unstable();
    let leading = leading_source(&keyed, shares);
    let mut parts: Vec<(u64, KeyRange)> = Vec::new();
    let (mut low, mut present) = (range.low.clone(), None);
    for (min, source, bytes) in keyed {
        let part = shares.deal(bytes);
        let before = *present.get_or_insert(part);
        let may_cut = leading.is_none_or(|leading| leading == source);
        if part == before || !may_cut {
            continue;
        }
        let key = Key::new(min);
        if low.as_ref().is_none_or(|low| *low < key) {
            let high = Some(key.clone());
            let low = low.replace(key);
            parts.push((before, KeyRange { low, high }));
            present = Some(part);
        }
    }
    let last = present.unwrap_or(0);
    if parts.is_empty() {
        return vec![(last, ReadStep::Reconcile { stretches, range })];
    }
    let high = range.high.clone();
    parts.push((last, KeyRange { low, high }));
    let step = |(part, cut): (u64, KeyRange)| {
        let stretches = restrict(sources, &stretches, &cut);
        let range = intersection(&cut, &range)?;
        let step = ReadStep::Reconcile { stretches, range };
        Some((part, step)).filter(|(_, step)| !is_empty(step))
    };
    parts.into_iter().filter_map(step).collect()
}

fn is_empty(step: &ReadStep) -> bool {
    matches!(step, ReadStep::Reconcile { stretches, .. } if stretches.is_empty())
}

/// The source that has most of the bytes, if it has so many pieces that cuts between them make
/// parts of about one size.
fn leading_source(keyed: &[Keyed<'_>], shares: &Shares) -> Option<usize> {
    let mut of_sources: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    let mut all = 0_u64;
    for (_, source, bytes) in keyed {
        let (of_source, pieces) = of_sources.entry(*source).or_default();
        *of_source += bytes;
        *pieces += 1;
        all += bytes;
    }
    let most = of_sources.into_iter().max_by_key(|(_, (bytes, _))| *bytes);
    let (source, (bytes, pieces)) = most?;
    let leads = bytes.saturating_mul(2) > all && pieces >= PIECES_MIN * shares.filled_by(all);
    leads.then_some(source)
}

/// A stretch of keys around one piece of a source, and what is read there: all that any source has.
#[derive(Debug)]
pub(super) struct Tile {
    pub(super) range: KeyRange,
    pub(super) stretches: Vec<Stretch>,
    /// The stored rows of the piece.
    pub(super) rows: usize,
    /// Whether all of the piece is read.
    pub(super) whole: bool,
}

/// A step that reconciles, cut at the least key of each piece of one of its sources.
pub(super) fn tiles(
    sources: &[Source],
    stretches: &[Stretch],
    range: &KeyRange,
    source: usize,
) -> Vec<Tile> {
    let of_source = stretches.iter().filter(|stretch| stretch.source == source);
    let pieces = of_source.flat_map(|of| of.pieces.clone().map(|piece| (of.segment, piece)));
    let pieces: Vec<(usize, usize)> = pieces.collect();
    let least = |(segment, piece): (usize, usize)| bounds(&sources[source], segment, piece).0;
    let tile = |(at, (segment, piece)): (usize, &(usize, usize))| {
        let low = match at {
            0 => range.low.clone(),
            _ => Some(Key::new(least((*segment, *piece)))),
        };
        let high = match pieces.get(at + 1) {
            Some(next) => Some(Key::new(least(*next))),
            None => range.high.clone(),
        };
        let tile = KeyRange { low, high };
        let (min, max) = bounds(&sources[source], *segment, *piece);
        Tile {
            stretches: restrict(sources, stretches, &tile),
            rows: weigh(&sources[source], *segment, *piece).0 as usize,
            whole: range.encloses(min, max),
            range: tile,
        }
    };
    pieces.iter().enumerate().map(tile).collect()
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
