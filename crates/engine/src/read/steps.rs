//! From overlapping sources to the steps of a scan: where one source alone holds a key stretch its
//! extents are taken as they are; where several meet they are reconciled. Pure; looks at bounds
//! only.
//!
//! Pieces that overlap, directly or through others, form one cluster. Clusters are disjoint, so
//! their steps follow each other in key order.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::scan::SourceDescription;
use super::source::{Source, Stretch, intersection};
use crate::key::Key;
use crate::manifest::KeyRange;

#[cfg(test)]
mod tests;
mod weights;

pub(super) use weights::Weights;

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

    /// What it reads, and of it which keys.
    fn read(&self) -> (&[Stretch], &KeyRange) {
        match self {
            ReadStep::Alone { stretch, range, .. } => (std::slice::from_ref(stretch), range),
            ReadStep::Reconcile { stretches, range } => (stretches.as_slice(), range),
        }
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
    let (stretches, range) = step.read();
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
    /// How many of the rows lie in files, and in how many bytes.
    pub(super) stored: (u64, u64),
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
        stored: (0, 0),
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
    if matches!(source, Source::Run { .. }) {
        sums.stored.0 += rows;
        sums.stored.1 += bytes;
    }
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

/// Deals weights out to parts of a scan, each of which gets about as much as any other, in the
/// order in which they are read.
#[derive(Debug)]
pub(super) struct Shares {
    parts: u64,
    /// What all parts get together, and what was dealt out so far.
    weight: u64,
    dealt: u64,
    /// Whether no piece of a step's largest source may be read by two parts.
    keeps_pieces: bool,
}

impl Shares {
    /// So many parts of a scan of so much weight.
    pub(super) fn new(weight: u64, parts: usize) -> Shares {
        Shares {
            parts: parts.max(1) as u64,
            weight: weight.max(1),
            dealt: 0,
            keeps_pieces: false,
        }
    }

    /// The same where parts may differ, but are never cut inside of the pieces that they mostly
    /// consist of.
    pub(super) fn between_pieces(weight: u64, parts: usize) -> Shares {
        Shares {
            keeps_pieces: true,
            ..Shares::new(weight, parts)
        }
    }

    /// The part that gets the next weight: the one in which its middle lies.
    fn deal(&mut self, weight: u64) -> u64 {
        let middle = u128::from(self.dealt) + u128::from(weight / 2);
        let part = middle * u128::from(self.parts) / u128::from(self.weight);
        self.dealt += weight;
        u64::try_from(part).map_or(self.parts - 1, |part| part.min(self.parts - 1))
    }

    /// How many parts so much weight fills, at least one.
    fn filled_by(&self, weight: u64) -> u64 {
        let parts = u128::from(weight) * u128::from(self.parts) / u128::from(self.weight);
        u64::try_from(parts).unwrap_or(self.parts).max(1)
    }
}

/// The steps of one part, and what they weigh.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) steps: Vec<ReadStep>,
    pub(super) weight: u64,
}

/// Cuts steps into parts, each of the pieces that are dealt out to it. Steps of one part that
/// follow each other stay together.
pub(super) fn cut(
    sources: &[Source],
    steps: Vec<ReadStep>,
    weights: &Weights,
    shares: &mut Shares,
) -> Vec<Cut> {
    let mut parts: Vec<(u64, Cut)> = Vec::new();
    for step in steps {
        for Dealt { part, step, weight } in cut_step(sources, step, weights, shares) {
            match parts.last_mut() {
                Some((last, cut)) if *last == part => {
                    cut.steps.push(step);
                    cut.weight += weight;
                }
                _ => {
                    let steps = vec![step];
                    parts.push((part, Cut { steps, weight }));
                }
            }
        }
    }
    parts.into_iter().map(|(_, cut)| cut).collect()
}

/// A step, or some of it, of one part.
struct Dealt {
    part: u64,
    step: ReadStep,
    weight: u64,
}

fn cut_step(
    sources: &[Source],
    step: ReadStep,
    weights: &Weights,
    shares: &mut Shares,
) -> Vec<Dealt> {
    if shares.parts == 1 {
        let weight = weights.step(sources, &step);
        let part = shares.deal(weight);
        return vec![Dealt { part, step, weight }];
    }
    match step {
        ReadStep::Alone {
            stretch,
            range,
            whole,
        } => {
            let source = &sources[stretch.source];
            let mut cuts: Vec<Dealt> = Vec::new();
            for piece in stretch.pieces.clone() {
                let weight = weights.inside(source, stretch.segment, piece, &range);
                let part = shares.deal(weight);
                if let Some(last) = cuts.last_mut()
                    && last.part == part
                    && let ReadStep::Alone { stretch, .. } = &mut last.step
                {
                    stretch.pieces.end = piece + 1;
                    last.weight += weight;
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
                cuts.push(Dealt { part, step, weight });
            }
            cuts
        }
        ReadStep::Reconcile { stretches, range } => {
            cut_reconcile(sources, stretches, range, weights, shares)
        }
    }
}

/// Where a step may be cut: a key, the source of it, and what that has from there to its next one.
type Keyed<'s> = (Cow<'s, [u8]>, usize, u64);

/// Cuts at keys of pieces: their least ones, and those of their marks. Where one source is most of
/// the step these are its own least ones, so that none of its pieces, which are the large ones, is
/// read by two parts, and so that all scans cut it at the same keys, whatever lies over it.
fn cut_reconcile(
    sources: &[Source],
    stretches: Vec<Stretch>,
    range: KeyRange,
    weights: &Weights,
    shares: &mut Shares,
) -> Vec<Dealt> {
    let leading = leading_source(sources, &stretches, &range, weights, shares);
    let keyed = keyed(sources, &stretches, &range, weights, leading);
    let first = keyed.first().map(|(key, ..)| Key::new(&key[..]));
    let mut parts: Vec<(u64, KeyRange, u64)> = Vec::new();
    let (mut low, mut present, mut weight) = (range.low.clone(), None, 0);
    for (key, source, own) in keyed {
        let part = shares.deal(own);
        let before = *present.get_or_insert(part);
        let may_cut = leading.is_none_or(|leading| leading == source);
        if part != before && may_cut {
            let key = Key::new(&key[..]);
            // There is something on both sides of it.
            if low.as_ref().max(first.as_ref()) < Some(&key) {
                let high = Some(key.clone());
                let low = low.replace(key);
                parts.push((before, KeyRange { low, high }, weight));
                (present, weight) = (Some(part), 0);
            }
        }
        weight += own;
    }
    let part = present.unwrap_or(0);
    if parts.is_empty() {
        let step = ReadStep::Reconcile { stretches, range };
        return vec![Dealt { part, step, weight }];
    }
    let high = range.high.clone();
    parts.push((part, KeyRange { low, high }, weight));
    let step = |(part, cut, weight): (u64, KeyRange, u64)| {
        let stretches = restrict(sources, &stretches, &cut);
        let range = intersection(&cut, &range)?;
        let step = ReadStep::Reconcile { stretches, range };
        (!is_empty(&step)).then_some(Dealt { part, step, weight })
    };
    parts.into_iter().filter_map(step).collect()
}

/// What a step has from each key on that it may be cut at, or that something begins at, by rising
/// keys.
fn keyed<'s>(
    sources: &'s [Source],
    stretches: &[Stretch],
    range: &'s KeyRange,
    weights: &Weights,
    leading: Option<usize>,
) -> Vec<Keyed<'s>> {
    let mut keyed: Vec<Keyed<'s>> = Vec::new();
    for stretch in stretches {
        let (at, segment) = (stretch.source, stretch.segment);
        let source = &sources[at];
        for piece in stretch.pieces.clone() {
            if leading == Some(at) {
                let (min, _) = bounds(source, segment, piece);
                let weight = weights.inside(source, segment, piece, range);
                keyed.push((Cow::Borrowed(min), at, weight));
                continue;
            }
            let marks = weights.marks(source, segment, piece, range);
            keyed.extend(marks.into_iter().map(|mark| (mark.key, at, mark.weight)));
        }
    }
    keyed.sort_unstable();
    keyed
}

fn is_empty(step: &ReadStep) -> bool {
    matches!(step, ReadStep::Reconcile { stretches, .. } if stretches.is_empty())
}

/// The source that most of a step lies in, if it has so many pieces that cuts between them make
/// parts of about one size, or if they must lie there.
fn leading_source(
    sources: &[Source],
    stretches: &[Stretch],
    range: &KeyRange,
    weights: &Weights,
    shares: &Shares,
) -> Option<usize> {
    let mut of_sources: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    let mut all = 0_u64;
    for stretch in stretches {
        let (of_source, pieces) = of_sources.entry(stretch.source).or_default();
        let weight = weights.stretches(sources, std::slice::from_ref(stretch), range);
        *of_source += weight;
        *pieces += stretch.pieces.len() as u64;
        all += weight;
    }
    let most = of_sources
        .into_iter()
        .max_by_key(|(_, (weight, _))| *weight);
    let (source, (weight, pieces)) = most?;
    let leads = weight.saturating_mul(2) > all && pieces >= PIECES_MIN * shares.filled_by(all);
    (leads || shares.keeps_pieces).then_some(source)
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
