//! The runs of a key range as edges between SCU boundaries, and the cheapest way to each of them.
//!
//! A run is an edge from the boundary before its span to any boundary from its newest change to
//! the end of its span; parts of one SCU are one edge. An answer at a boundary takes a path of
//! edges from nothing to it. [`ReadIndex`] finds, once for each manifest, the path of least work
//! and the path of fewest runs to every boundary of every range:
//!
//! 1. Boundaries are cut into stretches that the same edges reach.
//! 2. The stretches are visited from oldest to newest. An edge begins before the stretches that it
//!    reaches, so that what its own start costs is known when it comes up.
//! 3. Each stretch keeps the best edge that ends in it; a path is followed back from there.
//!
//! An index takes over from an earlier one what did not change since, and goes on from there where
//! runs came behind those that a range had, as a sorted SCU does in every range of its table.
//!
//! Edges with a damaged file are passed over, so that an earlier representation answers in their
//! place: the runs that they were made of, or for a sorted SCU its log, if it is still kept.
//!
//! Reads a [`Manifest`]; no I/O, no clock. Invariant PATH-1: each path holds every change of its
//! range up to its boundary once, and none after it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use lazybase_model::limits::BEST_EFFORT_RUNS_MAX;
use lazybase_model::{Error, ErrorKind, ScuNumber, Span, TableId, ViewId};

use super::common_horizon;
use super::damaged::DamagedFiles;
use crate::key::Key;
use crate::manifest::{
    Became, KeyRange, Manifest, RangeState, Run, RunId, RunKind, RunRef, ScuEntry, ScuTime,
    SegmentMeta, TableState, Unchanged,
};
use sweep::{Rank, Reach, Step, lookup, sweep, sweep_on};

mod sweep;

#[cfg(test)]
mod tests;

/// Work that opening one more run costs, in bytes of the authority that could be read instead.
pub const RUN_OPEN_WORK: u64 = 256 << 10;
/// Work of a byte in a run after the base, in bytes of the authority: it is reconciled by key.
pub const RECONCILE_WORK: u64 = 2;
/// Works that differ by no more than this, or by an eighth, are equal: estimates are no better.
pub const WORK_PRECISION: u64 = 1 << 20;
/// Work of an unsorted byte, in bytes of the authority: it is sorted first.
pub const UNSORTED_WORK: u64 = 4;

/// What a run holds for one key range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Segments that overlap the range.
    pub segments: usize,
    /// Bytes that a reader of the range reads, as stored. A segment that reaches over several
    /// ranges counts in equal parts.
    pub bytes: u64,
}

/// The segments of a run that overlap a key range.
pub fn segments_in<'a>(run: &'a Run, range: &KeyRange) -> &'a [Arc<SegmentMeta>] {
    let segments = run.segments.as_slice();
    let begin = match &range.low {
        Some(low) => segments.partition_point(|segment| segment.max_key < *low),
        None => 0,
    };
    let end = match &range.high {
        Some(high) => segments.partition_point(|segment| segment.min_key < *high),
        None => segments.len(),
    };
    &segments[begin.min(end)..end]
}

/// What `run` holds for the range at position `at` of its view's ranges.
pub fn share_of(run: &Run, ranges: &[Arc<RangeState>], at: usize) -> Share {
    let range = &ranges[at].range;
    let segments = segments_in(run, range);
    let bytes = segments.iter().map(|segment| {
        if range.encloses(segment.min_key.as_bytes(), segment.max_key.as_bytes()) {
            return segment.bytes;
        }
        let of_key = |key: &Key| {
            ranges.partition_point(|range| range.range.low.as_ref().is_none_or(|low| low <= key))
        };
        let (first, last) = (of_key(&segment.min_key), of_key(&segment.max_key));
        // A range that begins with the segment's greatest key holds that one row of it.
        if first < last && ranges[last - 1].range.low.as_ref() == Some(&segment.max_key) {
            match at + 1 == last {
                true => 0,
                false => segment.bytes / (last - first) as u64,
            }
        } else {
            segment.bytes / (last + 1 - first) as u64
        }
    });
    Share {
        segments: segments.len(),
        bytes: bytes.sum(),
    }
}

/// A damaged file that keeps a run from being read.
#[derive(Debug, Clone)]
pub struct Damage {
    /// What was seen; names the file.
    pub error: Error,
    /// The SCUs of the run.
    pub span: Span,
}

impl Damage {
    /// What a reader is told who can't do without the file.
    pub(super) fn lost(&self, table: &str, view: ViewId) -> Error {
        let place = format!("table {table:?}, view {view}, SCUs {}", self.span);
        // A disk that refused once may read the file the next time.
        let hint = match self.error.kind() {
            ErrorKind::Unavailable => {
                "the file is read again meanwhile: try again; if the disk goes on refusing it, \
                 restore the file from a backup; other tables can be read"
            }
            _ => "restore the file from a backup; other tables can be read",
        };
        self.error
            .clone()
            .with_detail(format!("{place}: no earlier stage holds these rows"))
            .with_hint(hint)
    }
}

/// The log entry of a sorted run's SCU, if the SCU can be sorted once more.
pub(super) fn log_of<'m>(
    manifest: &'m Manifest,
    run: &Run,
    damaged: &DamagedFiles,
) -> Option<&'m Arc<ScuEntry>> {
    let entry = manifest.scus.get(&run.span.first)?;
    let pieces = entry.log.iter().map(|piece| &piece.file);
    let whole = |file: &String| !damaged.contains_key(file);
    // A secondary view's runs come from its table, and not from a log.
    let sorted = run.kind == RunKind::Sorted && !manifest.is_view(run.view);
    (sorted && pieces.chain(&entry.files).all(whole)).then_some(entry)
}

/// The first damaged file of a run in a key range.
pub(super) fn damage_in<'d>(
    run: &Run,
    range: &KeyRange,
    damaged: &'d DamagedFiles,
) -> Option<&'d Error> {
    if damaged.is_empty() {
        return None;
    }
    let mut segments = segments_in(run, range).iter();
    segments.find_map(|segment| damaged.get(&segment.file))
}

/// One run, or the parts of one sorted SCU, between SCU boundaries.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    pub(super) from: u64,
    pub(super) to_min: u64,
    pub(super) to_max: u64,
    /// The runs that hold anything for the range, in the order of parts.
    pub(super) runs: Vec<RunId>,
    /// The runs that hold nothing for it.
    without: Vec<RunId>,
    work: u64,
    superseded: bool,
    /// Why it can't be read.
    pub(super) damage: Option<Damage>,
}

/// Boundaries that are reached alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reachable {
    /// The oldest of them.
    pub first: ScuNumber,
    /// The newest of them.
    pub last: ScuNumber,
    /// The fewest runs with data in the range that make an answer there.
    pub runs: u32,
    /// The work of those runs.
    pub work: u64,
}

/// The paths of one key range.
#[derive(Debug)]
pub struct RangePaths {
    low: Option<Key>,
    edges: Vec<Edge>,
    cheapest: Vec<Step>,
    fewest: Vec<Step>,
    /// The cheapest paths if no file were damaged; nothing where none is.
    undamaged: Vec<Step>,
}

impl RangePaths {
    /// The paths of the range at position `at` of a table's ranges that need no damaged file.
    pub fn new(
        manifest: &Manifest,
        table: &TableState,
        at: usize,
        damaged: &DamagedFiles,
    ) -> RangePaths {
        let RangeState { range, runs } = &*table.ranges[at];
        let share = |run: &Run| share_of(run, &table.ranges, at);
        let edges = edges_of(manifest, runs, share, range, damaged);
        let empty_through = table.created_after.0;
        let whole = |edge: &Edge| edge.damage.is_none();
        RangePaths {
            low: range.low.clone(),
            cheapest: sweep(&edges, empty_through, Reach::by_work, whole),
            fewest: sweep(&edges, empty_through, Reach::by_runs, whole),
            undamaged: match edges.iter().all(whole) {
                true => Vec::new(),
                false => sweep(&edges, empty_through, Reach::by_work, |_| true),
            },
            edges,
        }
    }

    /// The paths of the range at position `at` of a table's ranges, where these are those of its
    /// first `known` runs, and no file is damaged. `None` where one of the other runs leads to a
    /// boundary that some of those lead to, or to an older one.
    fn longer(
        &self,
        manifest: &Manifest,
        table: &TableState,
        at: usize,
        known: usize,
    ) -> Option<RangePaths> {
        let RangeState { range, runs } = &*table.ranges[at];
        let share = |run: &Run| share_of(run, &table.ranges, at);
        let others = edges_of(manifest, &runs[known..], share, range, &DamagedFiles::new());
        // The last step begins where all edges have ended.
        let end = self.cheapest.last()?.at;
        if others.iter().any(|edge| edge.to_min < end) {
            return None;
        }
        let edges: Vec<Edge> = self.edges.iter().cloned().chain(others).collect();
        let sweep = |steps: &[Step], rank: fn(&Reach) -> Rank| {
            let edges = (edges.as_slice(), self.edges.len());
            sweep_on(steps.to_vec(), edges, table.created_after.0, rank, |_| true)
        };
        Some(RangePaths {
            low: range.low.clone(),
            cheapest: sweep(&self.cheapest, Reach::by_work),
            fewest: sweep(&self.fewest, Reach::by_runs),
            undamaged: Vec::new(),
            edges,
        })
    }

    /// The paths that begin at the boundary `from`, to newer ones: what changed since then. Nothing
    /// leads anywhere if merges have joined what came before it with what came after.
    pub(crate) fn since(
        manifest: &Manifest,
        table: &TableState,
        at: usize,
        from: ScuNumber,
        damaged: &DamagedFiles,
    ) -> RangePaths {
        let RangeState { range, runs } = &*table.ranges[at];
        let share = |run: &Run| share_of(run, &table.ranges, at);
        let all = edges_of(manifest, runs, share, range, damaged);
        // Boundaries between which nothing changed in the range are one.
        let (mut low, mut high) = (from.0, from.0);
        loop {
            let reaching = all
                .iter()
                .filter(|edge| edge.to_min <= high && low <= edge.to_max);
            let (least, most) = reaching.fold((low, high), |(least, most), edge| {
                (least.min(edge.to_min), most.max(edge.to_max))
            });
            if (least, most) == (low, high) {
                break;
            }
            (low, high) = (least, most);
        }
        let later = |entry: &&RunRef| {
            let run = manifest.runs.get(&entry.id);
            run.is_some_and(|run| run.kind != RunKind::Base && run.span.start().0 >= low)
        };
        let later: Vec<RunRef> = runs.iter().filter(later).copied().collect();
        let mut edges = edges_of(manifest, &later, share, range, damaged);
        // With one of its parts damaged, the others do not hold all changes of an SCU.
        let is_damaged = |id: &RunId| {
            let run = manifest.runs.get(id);
            run.is_some_and(|run| damage_in(run, range, damaged).is_some())
        };
        edges.retain(|edge| !edge.runs.iter().any(is_damaged));
        RangePaths {
            low: range.low.clone(),
            cheapest: sweep(&edges, high, Reach::by_runs, |_| true),
            fewest: Vec::new(),
            undamaged: Vec::new(),
            edges,
        }
    }

    /// All runs of the cheapest path to a boundary, those that hold nothing for the range
    /// included; `None` if no path ends there.
    pub(crate) fn all_runs(&self, boundary: ScuNumber) -> Option<Vec<RunId>> {
        lookup(&self.cheapest, boundary.0)?;
        let edges = self.follow(&self.cheapest, boundary)?;
        let runs = edges
            .iter()
            .flat_map(|edge| edge.runs.iter().chain(&edge.without));
        Some(runs.copied().collect())
    }

    /// The damage without which a path would end at a boundary; `None` where one does, or would
    /// not anyway.
    pub fn damage_at(&self, boundary: ScuNumber) -> Option<&Damage> {
        if lookup(&self.cheapest, boundary.0).is_some() {
            return None;
        }
        let path = self.follow(&self.undamaged, boundary)?;
        path.into_iter().rev().find_map(|edge| edge.damage.as_ref())
    }

    /// The least work of an answer at a boundary; `None` if no path ends there.
    pub fn least_work(&self, boundary: ScuNumber) -> Option<u64> {
        lookup(&self.cheapest, boundary.0).map(|reach| reach.work)
    }

    /// Whether current runs alone lead to a boundary, after the table began.
    pub(super) fn is_current(&self, boundary: ScuNumber) -> bool {
        let reach = lookup(&self.cheapest, boundary.0);
        reach.is_some_and(|reach| reach.edge.is_some() && reach.superseded == 0)
    }

    /// The fewest runs of an answer at a boundary; `None` if no path ends there.
    pub fn fewest_runs(&self, boundary: ScuNumber) -> Option<u32> {
        lookup(&self.fewest, boundary.0).map(|reach| reach.runs)
    }

    /// The runs of the cheapest answer at a boundary, oldest first, without those that hold
    /// nothing for the range.
    pub fn cheapest(&self, boundary: ScuNumber) -> Option<Vec<RunId>> {
        Some(runs_with_data(self.follow(&self.cheapest, boundary)?))
    }

    /// The same with as few runs as can be.
    pub fn fewest(&self, boundary: ScuNumber) -> Option<Vec<RunId>> {
        Some(runs_with_data(self.follow(&self.fewest, boundary)?))
    }

    /// Every boundary at which the range can end, oldest first, in stretches.
    pub fn boundaries(&self) -> Vec<Reachable> {
        let ends = self.fewest.iter().skip(1).map(|step| step.at - 1);
        self.fewest
            .iter()
            .zip(ends)
            .filter_map(|(step, end)| {
                step.reach.map(|reach| Reachable {
                    first: ScuNumber(step.at),
                    last: ScuNumber(end),
                    runs: reach.runs,
                    work: reach.work,
                })
            })
            .collect()
    }

    /// The newest boundaries of its stretches: where nothing is as cheap and fresher.
    pub(super) fn stretch_ends(&self) -> impl Iterator<Item = u64> + '_ {
        let ends = |steps: &'_ [Step]| {
            let ends: Vec<u64> = steps.iter().skip(1).map(|step| step.at - 1).collect();
            ends
        };
        ends(&self.cheapest).into_iter().chain(ends(&self.fewest))
    }

    /// The fewest runs of an answer at a boundary, and the boundary before its stretch: the next
    /// older one that is reached otherwise.
    pub(super) fn fewest_and_before(&self, boundary: u64) -> (Option<u32>, Option<u64>) {
        let after = self.fewest.partition_point(|step| step.at <= boundary);
        let step = self.fewest[..after].last();
        let runs = step.and_then(|step| step.reach).map(|reach| reach.runs);
        (runs, step.and_then(|step| step.at.checked_sub(1)))
    }

    /// All runs of the answer that best effort takes at a boundary: the cheapest, or the fewest
    /// where those are too many; runs that hold nothing for the range included.
    pub(super) fn runs_to(&self, boundary: ScuNumber, runs_max: usize) -> Vec<RunId> {
        let few = |edges: &Vec<&Edge>| {
            edges.iter().map(|edge| edge.runs.len()).sum::<usize>() <= runs_max
        };
        let edges = self.follow(&self.cheapest, boundary).filter(few);
        let edges = edges
            .or_else(|| self.follow(&self.fewest, boundary))
            .unwrap_or_default();
        let runs = edges
            .iter()
            .flat_map(|edge| edge.runs.iter().chain(&edge.without));
        runs.copied().collect()
    }

    fn follow(&self, steps: &[Step], boundary: ScuNumber) -> Option<Vec<&Edge>> {
        let mut reach = lookup(steps, boundary.0)?;
        let mut edges = Vec::new();
        while let Some(edge) = reach.edge {
            let edge = &self.edges[edge];
            edges.push(edge);
            reach = lookup(steps, edge.from)?;
        }
        edges.reverse();
        Some(edges)
    }
}

fn runs_with_data(edges: Vec<&Edge>) -> Vec<RunId> {
    edges
        .iter()
        .flat_map(|edge| edge.runs.iter().copied())
        .collect()
}

/// The edges that runs make for a key range, with the parts of one SCU joined; `share` says what
/// each run holds of it.
pub(super) fn edges_of(
    manifest: &Manifest,
    runs: &[RunRef],
    share: impl Fn(&Run) -> Share,
    range: &KeyRange,
    damaged: &DamagedFiles,
) -> Vec<Edge> {
    let mut parts: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    let mut edges: Vec<Edge> = Vec::new();
    for entry in runs {
        let Some(run) = manifest.runs.get(&entry.id) else {
            continue;
        };
        let mut edge = edge_of(run, share(run), !entry.is_current());
        if let Some(error) = damage_in(run, range, damaged) {
            match log_of(manifest, run, damaged) {
                Some(_) => edge.work = edge.work.saturating_mul(UNSORTED_WORK),
                None => {
                    edge.damage = Some(Damage {
                        error: error.clone(),
                        span: run.span,
                    });
                }
            }
        }
        if run.kind == RunKind::Sorted {
            if let Some(known) = parts.get(&(edge.from, edge.to_max)) {
                let known = &mut edges[*known];
                known.to_min = known.to_min.max(edge.to_min);
                known.runs.append(&mut edge.runs);
                known.without.append(&mut edge.without);
                known.work += edge.work;
                known.superseded |= edge.superseded;
                known.damage = known.damage.take().or(edge.damage);
                continue;
            }
            parts.insert((edge.from, edge.to_max), edges.len());
        }
        edges.push(edge);
    }
    // An edge that ends where it begins leads nowhere: an empty base before the first SCU.
    edges.retain(|edge| edge.to_min <= edge.to_max);
    edges
}

fn edge_of(run: &Run, share: Share, superseded: bool) -> Edge {
    let from = run.span.first.previous().0;
    // A run that is not the authority and holds nothing for the range changes nothing in it. The
    // authority keeps no trace of what was deleted: it says itself how far it came.
    let to_min = match run.kind != RunKind::Base && share.segments == 0 {
        true => from + 1,
        false => run.changes_through.0.max(from + 1),
    };
    let work = match (share.segments, run.kind) {
        (0, _) => 0,
        (_, RunKind::Base) => RUN_OPEN_WORK + share.bytes,
        _ => RUN_OPEN_WORK + share.bytes * RECONCILE_WORK,
    };
    let (runs, without) = match share.segments {
        0 => (Vec::new(), vec![run.id]),
        _ => (vec![run.id], Vec::new()),
    };
    Edge {
        from,
        to_min,
        to_max: run.span.last.0,
        runs,
        without,
        work,
        superseded,
        damage: None,
    }
}

/// The runs of one key range that an answer reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangePath {
    /// The range's least key, which names it.
    pub low: Option<Key>,
    /// Its runs, oldest first; parts of one SCU one after another, in their order. Runs that hold
    /// nothing for the range are left out.
    pub runs: Vec<RunId>,
}

/// The runs of one table's primary view that an answer reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePath {
    /// The table.
    pub table: TableId,
    /// Its ranges, in the order of keys.
    pub ranges: Vec<RangePath>,
    /// The work of reading all of them, in bytes of the authority.
    pub work: u64,
}

/// The paths of one table.
#[derive(Debug)]
pub(super) struct TablePaths {
    table: TableId,
    view: ViewId,
    pub(super) name: String,
    pub(super) created_after: ScuNumber,
    pub(super) ranges: Vec<Arc<RangePaths>>,
    /// Work and runs at `sorted_through` and at the common horizon, which nearly all reads use:
    /// known once somebody has asked.
    newest: OnceLock<Option<Arc<TablePath>>>,
    common: OnceLock<Option<Arc<TablePath>>>,
}

impl TablePaths {
    /// The paths of a table that need no damaged file.
    pub(super) fn new(
        manifest: &Manifest,
        state: &TableState,
        damaged: &DamagedFiles,
    ) -> TablePaths {
        TablePaths::with(&[], manifest, state, damaged)
    }

    /// The same, where the paths of some ranges are known, by their place.
    fn with(
        known: &[Option<Arc<RangePaths>>],
        manifest: &Manifest,
        state: &TableState,
        damaged: &DamagedFiles,
    ) -> TablePaths {
        let new = |at| Arc::new(RangePaths::new(manifest, state, at, damaged));
        let ranges = 0..state.ranges.len();
        TablePaths {
            table: state.table.id,
            view: state.table.primary.id,
            name: state.table.name.clone(),
            created_after: state.created_after,
            ranges: ranges
                .map(|at| known.get(at).cloned().flatten().unwrap_or_else(|| new(at)))
                .collect(),
            newest: OnceLock::new(),
            common: OnceLock::new(),
        }
    }

    /// The runs of the cheapest answer at a boundary.
    pub(super) fn cheapest(&self, boundary: ScuNumber) -> Option<Arc<TablePath>> {
        self.path(boundary, |range| range.cheapest(boundary))
    }

    /// What a reader is told who needs a boundary that only damage keeps from it.
    pub(super) fn lost_at(&self, boundary: ScuNumber) -> Option<Error> {
        let mut ranges = self.ranges.iter();
        let damage = ranges.find_map(|range| range.damage_at(boundary))?;
        Some(damage.lost(&self.name, self.view))
    }

    /// The least work of an answer at a boundary; `None` if some range can't end there.
    pub(super) fn least_work(&self, boundary: ScuNumber) -> Option<u64> {
        self.ranges
            .iter()
            .map(|range| range.least_work(boundary))
            .sum()
    }

    fn path(
        &self,
        boundary: ScuNumber,
        of: impl Fn(&RangePaths) -> Option<Vec<RunId>>,
    ) -> Option<Arc<TablePath>> {
        let ranges: Option<Vec<RangePath>> = self
            .ranges
            .iter()
            .map(|range| {
                of(range).map(|runs| RangePath {
                    low: range.low.clone(),
                    runs,
                })
            })
            .collect();
        Some(Arc::new(TablePath {
            table: self.table,
            ranges: ranges?,
            work: self.least_work(boundary)?,
        }))
    }
}

/// What reads need of a manifest, computed once for it: the paths to every boundary, the common
/// horizon, the times of SCUs.
#[derive(Debug)]
pub struct ReadIndex {
    pub(super) sealed_through: ScuNumber,
    pub(super) sorted_through: ScuNumber,
    pub(super) common: ScuNumber,
    pub(super) tables: BTreeMap<TableId, TablePaths>,
    /// Times by SCU, oldest first.
    pub(super) times: Vec<(ScuNumber, ScuTime)>,
    /// Whether its paths pass over no damaged file: they are made of ranges and runs alone.
    is_whole: bool,
}

impl ReadIndex {
    /// The index of a manifest whose files are whole.
    pub fn new(manifest: &Manifest) -> ReadIndex {
        ReadIndex::avoiding(manifest, &DamagedFiles::new())
    }

    /// The index of a manifest without the damaged ones of its files.
    pub fn avoiding(manifest: &Manifest, damaged: &DamagedFiles) -> ReadIndex {
        ReadIndex::after(None, manifest, damaged)
    }

    /// The same, with the paths of another manifest's index where nothing changed that they are
    /// made of.
    pub fn after(
        earlier: Option<(&Manifest, &ReadIndex)>,
        manifest: &Manifest,
        damaged: &DamagedFiles,
    ) -> ReadIndex {
        let is_whole = damaged.is_empty();
        let earlier = earlier.filter(|(_, index)| is_whole && index.is_whole);
        let earlier = earlier.map(|(before, index)| (index, Unchanged::between(before, manifest)));
        let known = |state: &TableState| -> Vec<Option<Arc<RangePaths>>> {
            let Some((index, unchanged)) = &earlier else {
                return Vec::new();
            };
            let ranges = index.ranges(state.table.id).unwrap_or_default();
            let known = unchanged.ranges_of(state).into_iter().zip(ranges);
            let known = known.enumerate().map(|(at, (became, paths))| match became {
                Became::Same => Some(Arc::clone(paths)),
                Became::Longer(known) => paths.longer(manifest, state, at, known).map(Arc::new),
                Became::Other => None,
            });
            known.collect()
        };
        let tables = manifest.tables.iter().map(|(id, state)| {
            let paths = TablePaths::with(&known(state), manifest, state, damaged);
            (*id, paths)
        });
        let mut index = ReadIndex {
            sealed_through: manifest.sealed_through,
            sorted_through: manifest.sorted_through,
            common: ScuNumber::ZERO,
            tables: tables.collect(),
            times: manifest
                .times
                .iter()
                .map(|(scu, time)| (*scu, *time))
                .collect(),
            is_whole,
        };
        index.common = common_horizon::newest_common(&index);
        index
    }

    /// The newest boundary at which every range of every table can end with few sorted runs: where
    /// best-effort answers stand. See [`common_horizon`].
    pub fn common_horizon(&self) -> ScuNumber {
        self.common
    }

    /// All runs of a range that lead to the common horizon, those that hold nothing for the range
    /// included: what must stay for it, superseded or not.
    pub fn best_effort_runs(&self, view: ViewId, low: Option<&Key>) -> Vec<RunId> {
        let mut tables = self.tables.values();
        let table = tables.find(|table| table.view == view);
        let range = table.and_then(|table| {
            let at = table
                .ranges
                .binary_search_by(|range| range.low.as_ref().cmp(&low));
            at.ok().map(|at| &table.ranges[at])
        });
        range.map_or(Vec::new(), |range| {
            range.runs_to(self.common, BEST_EFFORT_RUNS_MAX)
        })
    }

    /// SCUs up to here are sorted.
    pub fn sorted_through(&self) -> ScuNumber {
        self.sorted_through
    }

    /// The paths of a table's ranges, in the order of keys.
    pub fn ranges(&self, table: TableId) -> Option<&[Arc<RangePaths>]> {
        self.tables.get(&table).map(|table| table.ranges.as_slice())
    }

    /// The runs of a table's answer at a boundary: the cheapest; at the common horizon no more
    /// than best effort allows, where that can be.
    pub(super) fn path(&self, table: &TablePaths, boundary: ScuNumber) -> Option<Arc<TablePath>> {
        if boundary == self.sorted_through {
            let newest = table.newest.get_or_init(|| table.cheapest(boundary));
            return newest.clone();
        }
        if boundary == self.common {
            let few = |range: &RangePaths| common_horizon::few_runs(range, boundary);
            let common = table.common.get_or_init(|| table.path(boundary, few));
            return common.clone();
        }
        table.cheapest(boundary)
    }
}
