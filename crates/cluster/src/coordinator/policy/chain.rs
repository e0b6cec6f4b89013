//! A key range as the merge policy sees it: the chain of its current runs, oldest first.
//!
//! Parts of one sorted SCU are one link; so are the inputs of a running merge, which count as the
//! one run that they will be. What a chain is asked at every look, it knows from the first time on:
//! most chains are those of the look before (`look.rs`). Reads a manifest; pure.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use lazybase_engine::key::Key;
use lazybase_engine::manifest::{
    Manifest, RangeState, Run, RunId, RunKind, SegmentMeta, TableState,
};
use lazybase_engine::read::paths::{segments_in, share_of};
use lazybase_engine::ttl::Expiry;
use lazybase_model::{ScuNumber, Span, ViewId};

use super::RunningTask;

/// One run, the parts of one SCU, or the inputs of one running merge.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) runs: Vec<RunId>,
    pub(super) kind: RunKind,
    /// The SCUs of its runs.
    span: Span,
    /// The newest SCU that changed anything: an answer can end here.
    pub(super) changes_through: ScuNumber,
    /// How many runs with data in the range a reader meets.
    pub(super) sources: usize,
    /// Bytes in the range.
    pub(super) bytes: u64,
    /// Whether a running task reads it.
    pub(super) busy: bool,
    segments: Vec<Arc<SegmentMeta>>,
}

impl Link {
    fn of(run: &Run, ranges: &[Arc<RangeState>], at: usize) -> Link {
        let share = share_of(run, ranges, at);
        Link {
            runs: vec![run.id],
            kind: run.kind,
            span: run.span,
            changes_through: run.changes_through,
            sources: usize::from(share.segments > 0),
            bytes: share.bytes,
            busy: false,
            segments: match share.segments {
                0 => Vec::new(),
                _ => segments_in(run, &ranges[at].range).to_vec(),
            },
        }
    }

    fn join(&mut self, other: Link) {
        self.runs.extend(other.runs);
        self.span.last = other.span.last;
        self.changes_through = self.changes_through.max(other.changes_through);
        self.sources += other.sources;
        self.bytes += other.bytes;
        self.segments.extend(other.segments);
    }

    /// The inputs of a running merge count as the run that comes of them.
    fn count_merge_as_one(&mut self) {
        if self.busy {
            self.sources = self.sources.min(1);
            self.runs.clear();
        }
    }

    /// The greatest key that it holds.
    fn max_key(&self) -> Option<&Key> {
        self.segments.iter().map(|segment| &segment.max_key).max()
    }
}

/// The chain of one key range.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) view: ViewId,
    pub(super) low: Option<Key>,
    high: Option<Key>,
    /// Whether it is the last one of its table, or of its partition.
    is_last: bool,
    pub(super) links: Vec<Link>,
    /// How many runs with data in the range there are, each input of a running merge among them.
    pub(super) runs: usize,
    /// The inputs of each merge that runs in it.
    merging: Vec<Vec<RunId>>,
    /// For each link the newest change of it and of those before it.
    changed_through: Vec<ScuNumber>,
    /// For each link the sources before it, and at last those of all.
    sources_before: Vec<usize>,
    front: ScuNumber,
    newest_change: ScuNumber,
    bytes: u64,
    bytes_after_base: u64,
    is_busy: bool,
    middle_of_all: OnceLock<Option<Key>>,
    /// What a merge of all links rewrites, and for which least bytes of a segment that is moved.
    rewritten_by_all: OnceLock<(u64, u64)>,
}

impl Chain {
    /// The chains of a table's ranges, in the order of keys.
    pub(super) fn of_table(
        manifest: &Manifest,
        table: &TableState,
        running: &[RunningTask],
    ) -> Vec<Arc<Chain>> {
        let ranges = 0..table.ranges.len();
        ranges
            .map(|at| Arc::new(Chain::of(manifest, table, at, running)))
            .collect()
    }

    /// The chain of the range at position `at` of a table's ranges.
    pub(super) fn of(
        manifest: &Manifest,
        table: &TableState,
        at: usize,
        running: &[RunningTask],
    ) -> Chain {
        let view = table.table.primary.id;
        let rules = table.table.partitioning.as_ref();
        // The beginning of a partition is its bare prefix, which all keys in it are longer than.
        let prefix = rules.map(|rules| 1 + rules.prefix_bytes());
        let ends = |high: &Key| Some(high.as_bytes().len()) == prefix;
        let range = &table.ranges[at].range;
        let merging = merges_in(running, view, range.low.as_ref());
        let merging: Vec<Vec<RunId>> = merging.cloned().collect();
        let mut links = links_of(manifest, &table.ranges, at, &tasks_of(&merging));
        let runs: usize = links.iter().map(|link| link.sources).sum();
        links.iter_mut().for_each(Link::count_merge_as_one);
        let mut changed_through = Vec::with_capacity(links.len());
        let mut sources_before = Vec::with_capacity(links.len() + 1);
        let (mut newest, mut sources) = (ScuNumber::ZERO, 0);
        sources_before.push(sources);
        for link in &links {
            newest = newest.max(link.changes_through);
            changed_through.push(newest);
            sources += link.sources;
            sources_before.push(sources);
        }
        let merged = |link: &&Link| link.kind != RunKind::Sorted || link.busy;
        let fronts = links.iter().filter(merged).map(|link| link.changes_through);
        let segments = links.iter().flat_map(|link| &link.segments);
        let after_base = links.iter().filter(|link| link.kind != RunKind::Base);
        Chain {
            view,
            low: range.low.clone(),
            high: range.high.clone(),
            is_last: range.high.as_ref().is_none_or(ends),
            runs,
            merging,
            changed_through,
            sources_before,
            front: fronts.max().unwrap_or(ScuNumber::ZERO),
            newest_change: segments
                .map(|segment| segment.newest_scu)
                .max()
                .unwrap_or(ScuNumber::ZERO),
            bytes: links.iter().map(|link| link.bytes).sum(),
            bytes_after_base: after_base.map(|link| link.bytes).sum(),
            is_busy: links.iter().any(|link| link.busy),
            middle_of_all: OnceLock::new(),
            rewritten_by_all: OnceLock::new(),
            links,
        }
    }

    /// Whether the same merges as these tasks say run in the range.
    pub(super) fn is_merged_by(&self, running: &[RunningTask]) -> bool {
        let merging = merges_in(running, self.view, self.low.as_ref());
        self.merging.iter().eq(merging)
    }

    /// How many links end at or before `boundary`.
    pub(super) fn links_to(&self, boundary: ScuNumber) -> usize {
        self.changed_through
            .partition_point(|newest| *newest <= boundary)
    }

    /// How many links must go to the base so that it reaches `through`; nothing where it does,
    /// where a running merge has some of the range, and where the range's runs end before.
    pub(super) fn links_to_reach(&self, through: ScuNumber) -> Option<usize> {
        if self.is_busy() {
            return None;
        }
        let base = self.base()?;
        let begins = |link: &&Link| link.span.first <= through;
        let links = self.links.iter().take_while(begins).count();
        let last = self.links[..links].last()?;
        (base.span.last < through && through <= last.span.last).then_some(links)
    }

    /// How many runs a reader that ends at `boundary` meets, running merges done.
    pub(super) fn sources_to(&self, boundary: ScuNumber) -> usize {
        self.sources_before[self.links_to(boundary)]
    }

    /// The newest boundary up to which a reader meets at most so many runs, running merges done;
    /// `newest` where that is all of them.
    pub(super) fn boundary_with(&self, sources_max: usize, newest: ScuNumber) -> ScuNumber {
        let mut sources = 0;
        for link in &self.links {
            sources += link.sources;
            if sources > sources_max {
                return ScuNumber(link.changes_through.0.saturating_sub(1));
            }
        }
        newest
    }

    /// The newest boundary before which an answer can't end any more, once running merges are done
    /// and their inputs gone.
    pub(super) fn front(&self) -> ScuNumber {
        self.front
    }

    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// The base, where it is not being merged.
    pub(super) fn base(&self) -> Option<&Link> {
        self.links
            .first()
            .filter(|link| link.kind == RunKind::Base && !link.busy)
    }

    /// The base, where it is free and segments of it have ended at its boundary.
    pub(super) fn expired(&self, manifest: &Manifest) -> Option<&Link> {
        let state = manifest.table_of_view(self.view)?;
        state.table.ttl?;
        let base = self.base()?;
        let run = manifest.runs.get(base.runs.first()?)?;
        let expiry = Expiry::of(&state.table, manifest.as_of_at_least(run.span.last)?)?;
        let mut segments = base.segments.iter();
        segments
            .any(|segment| expiry.ends_all(segment))
            .then_some(base)
    }

    /// The newest SCU that changed a row of the range. Runs end later where the merges that made
    /// them took in SCUs that changed nothing here.
    pub(super) fn newest_change(&self) -> ScuNumber {
        self.newest_change
    }

    /// The bytes of all runs in the range.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes after the base.
    pub(super) fn bytes_after_base(&self) -> u64 {
        self.bytes_after_base
    }

    /// How eager the range is to go to its authority, in eighths: 6 to 12, by its place among the
    /// keys, so that neighbours do not go at once.
    pub(super) fn eighths(&self) -> u64 {
        let bytes = self.low.iter().flat_map(|low| low.as_bytes());
        let mixed = bytes.fold(1u64, |mixed, byte| {
            (mixed ^ u64::from(*byte))
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(29)
        });
        6 + (mixed + 1) % 7
    }

    /// What a merge of the oldest links, before `end`, rewrites of the first of them.
    pub(super) fn rewritten_of_first(&self, end: usize, move_bytes_min: u64) -> u64 {
        let rewritten = || self.rewritten(0, end, move_bytes_min);
        if end < self.links.len() {
            return rewritten();
        }
        let known = &self.rewritten_by_all;
        match known.get_or_init(|| (move_bytes_min, rewritten())) {
            (least, known) if *least == move_bytes_min => *known,
            _ => rewritten(),
        }
    }

    /// The bytes of the link `at` that a merge with the links after it, before `end`, rewrites:
    /// segments that another overlaps, and those below `move_bytes_min`.
    pub(super) fn rewritten(&self, at: usize, end: usize, move_bytes_min: u64) -> u64 {
        let link = &self.links[at];
        let total: u64 = link.segments.iter().map(|segment| segment.bytes).sum();
        let others = || {
            self.links[at + 1..end]
                .iter()
                .flat_map(|link| &link.segments)
        };
        let met = |segment: &&Arc<SegmentMeta>| {
            segment.bytes < move_bytes_min
                || others().any(|other| {
                    other.min_key <= segment.max_key && segment.min_key <= other.max_key
                })
        };
        let rewritten: u64 = link
            .segments
            .iter()
            .filter(met)
            .map(|segment| segment.bytes)
            .sum();
        // Segments that reach beyond the range count with the range's share of them.
        match total {
            0 => 0,
            total => (u128::from(link.bytes) * u128::from(rewritten) / u128::from(total)) as u64,
        }
    }

    /// Where to cut the range so that its base falls in two near equal parts.
    pub(super) fn middle(&self) -> Option<Key> {
        let segments = self.base()?.segments.iter();
        self.balanced(segments).map(|(_, key)| key)
    }

    /// Where to cut the range so that all its runs together fall in two near equal parts; nothing
    /// if one part would be small.
    pub(super) fn middle_of_all(&self) -> Option<Key> {
        let middle = self.middle_of_all.get_or_init(|| self.find_middle_of_all());
        middle.clone()
    }

    fn find_middle_of_all(&self) -> Option<Key> {
        let segments = self.links.iter().flat_map(|link| &link.segments);
        let total: u64 = segments.clone().map(|segment| segment.bytes).sum();
        let (off, key) = self.balanced(segments)?;
        (off <= total / 2).then_some(key)
    }

    /// The start of the segment that parts these segments best, and by how many bytes the parts
    /// differ.
    fn balanced<'s>(
        &self,
        segments: impl Iterator<Item = &'s Arc<SegmentMeta>>,
    ) -> Option<(u64, Key)> {
        let mut starts: Vec<(&Key, u64)> = segments
            .map(|segment| (&segment.min_key, segment.bytes))
            .collect();
        starts.sort_unstable();
        let total: u64 = starts.iter().map(|(_, bytes)| bytes).sum();
        let mut before: u64 = 0;
        let mut best: Option<(u64, &Key)> = None;
        for (start, bytes) in starts {
            let off = before.abs_diff(total - before);
            let inside = self.low.as_ref().is_none_or(|low| low < start) && before > 0;
            if inside && best.is_none_or(|(least, _)| off < least) {
                best = Some((off, start));
            }
            before += bytes;
        }
        best.map(|(off, key)| (off, key.clone()))
    }

    /// For keys that rise: the end of the base of a last range, if newer runs go on behind it. New
    /// rows then come into a range of their own, and the range before it is left in peace.
    pub(super) fn rising_edge(&self) -> Option<Key> {
        if !self.is_last {
            return None;
        }
        let end = self.base()?.max_key()?;
        // What reaches beyond the range says nothing of it.
        let inside = |key: &Key| self.high.as_ref().is_none_or(|high| key < high);
        let rising = self.links[1..]
            .iter()
            .filter_map(Link::max_key)
            .any(|key| key > end && inside(key));
        let cuts = self.low.as_ref().is_none_or(|low| low < end);
        (rising && cuts).then(|| end.clone())
    }
}

/// The inputs of each merge that runs in a range.
fn merges_in<'r>(
    running: &'r [RunningTask],
    view: ViewId,
    low: Option<&'r Key>,
) -> impl Iterator<Item = &'r Vec<RunId>> {
    running.iter().filter_map(move |task| match task {
        RunningTask::Merge {
            view: of,
            low: at,
            inputs,
        } if *of == view && at.as_ref() == low => Some(inputs),
        _ => None,
    })
}

/// Which merge takes each run.
fn tasks_of(merging: &[Vec<RunId>]) -> BTreeMap<RunId, usize> {
    let merges = merging.iter().enumerate();
    merges
        .flat_map(|(number, inputs)| inputs.iter().map(move |input| (*input, number)))
        .collect()
}

fn links_of(
    manifest: &Manifest,
    ranges: &[Arc<RangeState>],
    at: usize,
    tasks: &BTreeMap<RunId, usize>,
) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let mut last: Option<(&Run, Option<usize>)> = None;
    let current = ranges[at].runs.iter().filter(|entry| entry.is_current());
    for run in current.filter_map(|entry| manifest.runs.get(&entry.id)) {
        let task = tasks.get(&run.id).copied();
        let joins = last.is_some_and(|(before, of)| {
            (task.is_some() && of == task)
                || (before.kind == RunKind::Sorted
                    && run.kind == RunKind::Sorted
                    && before.span == run.span)
        });
        let mut link = Link::of(run, ranges, at);
        link.busy = task.is_some();
        match links.last_mut() {
            Some(before) if joins => before.join(link),
            _ => links.push(link),
        }
        last = Some((run, task));
    }
    links
}
