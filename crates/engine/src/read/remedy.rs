//! How a run with damaged files is made again: by the stage that made it, from what is left.
//!
//! ```text
//!   run a..=b, file damaged in keys k  --edges of k from a-1 to where the run ends--> merge them
//!   sorted run of SCU n                --log of n, while it is kept-----------------> sort it
//! ```
//!
//! Reads a manifest and the set of damaged files; no I/O, no clock. Invariant HEAL-1: what a
//! remedy reads holds, for the damaged keys, every change of the run once and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_model::{Error, ScuNumber};

use super::damaged::DamagedFiles;
use super::paths::{Edge, Share, edges_of, log_of, segments_in};
use super::source::intersection;
use crate::env::planted::{Planted, is_planted};
use crate::key::Key;
use crate::manifest::{
    KeyRange, Manifest, RangeState, Run, RunId, RunKind, RunRef, SegmentMeta, TableState,
};

#[cfg(test)]
mod tests;

/// How the damaged files of a run are made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// By merging what their rows were made of: a piece for each file and key range; none for keys
    /// of which there are no rows, or that nobody reads the run for.
    Merge(Vec<Piece>),
    /// By sorting an SCU again: all its parts, in their order.
    Sort {
        /// The SCU.
        scu: ScuNumber,
        /// The runs.
        parts: Vec<RunId>,
    },
}

/// Keys of a damaged file, and the runs whose changes make its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The damaged file.
    pub file: String,
    /// The keys.
    pub range: KeyRange,
    /// Adjacent runs, oldest first.
    pub inputs: Vec<RunId>,
}

/// The files of a run that are damaged.
pub fn damaged_files<'r>(run: &'r Run, damaged: &DamagedFiles) -> Vec<&'r str> {
    let files = run.segments.iter().map(|segment| segment.file.as_str());
    files.filter(|file| damaged.contains_key(*file)).collect()
}

/// How the damaged files of a run are made again; `None` when nothing that is left holds their
/// rows.
pub fn remedy(manifest: &Manifest, run: &Run, damaged: &DamagedFiles) -> Option<Remedy> {
    if run.kind == RunKind::Sorted {
        let entry = log_of(manifest, run, damaged);
        let entry = entry.filter(|_| !is_planted(Planted::GivenUpEarly))?;
        return Some(Remedy::Sort {
            scu: entry.scu,
            parts: parts_of(manifest, run),
        });
    }
    let table = manifest.table_of_view(run.view)?;
    let mut pieces = Vec::new();
    for segment in &run.segments {
        if !damaged.contains_key(&segment.file) {
            continue;
        }
        let keys = KeyRange {
            low: Some(segment.min_key.clone()),
            high: Some(Key::after(segment.max_key.as_bytes())),
        };
        let named = |range: &&Arc<RangeState>| range.runs.iter().any(|entry| entry.id == run.id);
        for range in table.ranges.iter().filter(named) {
            let Some(keys) = intersection(&range.range, &keys) else {
                continue;
            };
            let inputs = inputs(manifest, table, range, run, &keys, damaged)?;
            if !inputs.is_empty() {
                pieces.push(Piece {
                    file: segment.file.clone(),
                    inputs,
                    range: keys,
                });
            } else if keys.contains(&segment.min_key) || keys.contains(&segment.max_key) {
                // There is a row of these keys: something else made it.
                return None;
            }
        }
    }
    let mut files = run.segments.iter().map(|segment| &segment.file);
    let is_damaged = files.any(|file| damaged.contains_key(file));
    is_damaged.then_some(Remedy::Merge(pieces))
}

/// All parts of the sort that a run is of, in their order. The ranges of a dropped partition name
/// copies of the runs that were cut off for them: what is sorted again fills the parts that one
/// range names, and the copies once more.
fn parts_of(manifest: &Manifest, run: &Run) -> Vec<RunId> {
    let table = manifest.table_of_view(run.view);
    let ranges = table.into_iter().flat_map(|table| &table.ranges);
    let named = |range: &&Arc<RangeState>| range.runs.iter().any(|entry| entry.id == run.id);
    let entries = ranges.filter(named).flat_map(|range| &range.runs);
    let runs = entries.filter_map(|entry| manifest.runs.get(&entry.id));
    let of_scu =
        |part: &&Arc<Run>| part.kind == RunKind::Sorted && part.span.first == run.span.first;
    let parts: BTreeSet<(u32, RunId)> = runs
        .filter(of_scu)
        .map(|part| (part.part, part.id))
        .collect();
    parts.into_iter().map(|(_, id)| id).collect()
}

/// What becomes of runs with damaged files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Runs that can be made again, or built anew, in an order in which each finds what it is made
    /// of.
    pub healable: Vec<RunId>,
    /// Runs that nothing is left to make again, oldest first.
    pub lost: Vec<RunId>,
}

/// What becomes of all runs with damaged files: what is made again serves to make others again.
pub fn outlook(manifest: &Manifest, damaged: &DamagedFiles) -> Outlook {
    let mut left = damaged.clone();
    let mut healable = Vec::new();
    loop {
        let is_broken = |run: &&Arc<Run>| !damaged_files(run, &left).is_empty();
        let broken: Vec<&Arc<Run>> = manifest.runs.values().filter(is_broken).collect();
        let heals =
            |run: &&&Arc<Run>| manifest.is_view(run.view) || remedy(manifest, run, &left).is_some();
        let Some(run) = broken.iter().find(heals) else {
            let lost = broken.iter().map(|run| run.id).collect();
            return Outlook { healable, lost };
        };
        healable.push(run.id);
        for segment in &run.segments {
            left.remove(&segment.file);
        }
    }
}

/// The files that were made of what is in these files, each with an error that says so: those of
/// all newer runs of the same keys over the same SCUs.
pub fn made_of(manifest: &Manifest, files: &BTreeSet<String>) -> BTreeMap<String, Error> {
    let mut made = BTreeMap::new();
    for run in manifest.runs.values() {
        let wrong: Vec<usize> = (0..run.segments.len())
            .filter(|at| files.contains(&run.segments[*at].file))
            .collect();
        let (Some(first), Some(last)) = (wrong.first(), wrong.last()) else {
            continue;
        };
        // A sort is made again as a whole: keys that it lacks can belong to any of its files.
        let keys = match run.kind {
            RunKind::Sorted => KeyRange::default(),
            _ => KeyRange {
                low: answered_by(&run.segments, *first).low,
                high: answered_by(&run.segments, *last).high,
            },
        };
        let table = manifest.table_of_view(run.view);
        let ranges = table.into_iter().flat_map(|table| &table.ranges);
        let named = |range: &&Arc<RangeState>| range.runs.iter().any(|entry| entry.id == run.id);
        for range in ranges.filter(named) {
            for entry in &range.runs {
                let Some(newer) = manifest.runs.get(&entry.id) else {
                    continue;
                };
                if newer.id <= run.id || newer.kind == RunKind::Sorted || !overlap(run, newer) {
                    continue;
                }
                let segments = segments_in(newer, &range.range);
                for (at, segment) in segments.iter().enumerate() {
                    let of_keys = intersection(&answered_by(segments, at), &keys).is_some();
                    if of_keys && !files.contains(&segment.file) {
                        let message = format!(
                            "{} was made of SCUs {} as {} holds them, which is wrong",
                            segment.file, run.span, run.segments[*first].file
                        );
                        let error = Error::corrupt(message).with_file(&segment.file);
                        made.entry(segment.file.clone()).or_insert(error);
                    }
                }
            }
        }
    }
    made
}

/// The keys that a file of a run answers for: from its own least key, or from all before it where
/// it is the first, to the next file's.
pub(super) fn answered_by(segments: &[Arc<SegmentMeta>], at: usize) -> KeyRange {
    let next = segments.get(at + 1);
    KeyRange {
        low: (at > 0).then(|| segments[at].min_key.clone()),
        high: next.map(|next| next.min_key.clone()),
    }
}

fn overlap(a: &Run, b: &Run) -> bool {
    let is_empty = a.span.is_empty() || b.span.is_empty();
    !is_empty && a.span.first <= b.span.last && b.span.first <= a.span.last
}

/// The runs with data on a path of other edges that begins and ends as the run does; `None` when
/// there is no such path.
fn inputs(
    manifest: &Manifest,
    table: &TableState,
    range: &RangeState,
    run: &Run,
    keys: &KeyRange,
    damaged: &DamagedFiles,
) -> Option<Vec<RunId>> {
    let others: Vec<RunRef> = range
        .runs
        .iter()
        .filter(|entry| entry.id != run.id)
        .copied()
        .collect();
    let share = |other: &Run| {
        let segments = segments_in(other, keys);
        Share {
            segments: segments.len(),
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
        }
    };
    let mut edges = edges_of(manifest, &others, share, keys, damaged);
    // A merge reads files: a log stands in for a run only once the run is made again from it.
    edges.retain(|edge| {
        let runs = edge.runs.iter().filter_map(|id| manifest.runs.get(id));
        edge.damage.is_none()
            && runs
                .flat_map(|run| segments_in(run, keys))
                .all(|segment| !damaged.contains_key(&segment.file))
    });
    edges.sort_by_key(|edge| (edge.from, edge.to_max));
    let begin = run.span.first.previous().0;
    let empty_through = match begin {
        0 => table.created_after.0,
        begin => begin,
    };
    let path = path(&edges, begin..=empty_through, run)?;
    Some(path.iter().flat_map(|edge| edge.runs.clone()).collect())
}

/// The path with the fewest edges from one of the `starts` to a boundary where the run may end.
fn path<'e>(
    edges: &'e [Edge],
    starts: std::ops::RangeInclusive<u64>,
    run: &Run,
) -> Option<Vec<&'e Edge>> {
    // For each edge how many lead to its end, and the one before it.
    let mut known: Vec<Option<(usize, Option<usize>)>> = Vec::with_capacity(edges.len());
    for (at, edge) in edges.iter().enumerate() {
        let leads_here = |before: &usize| {
            let before = &edges[*before];
            before.from < edge.from && before.to_min <= edge.from && edge.from <= before.to_max
        };
        let before = (0..at)
            .filter(leads_here)
            .filter_map(|before| Some((known[before]?.0, before)))
            .min();
        known.push(match (starts.contains(&edge.from), before) {
            (true, _) => Some((1, None)),
            (false, Some((edges, before))) => Some((edges + 1, Some(before))),
            (false, None) => None,
        });
    }
    let ends = |edge: &Edge| edge.to_min <= run.span.last.0 && run.changes_through.0 <= edge.to_max;
    let last = (0..edges.len())
        .filter(|at| ends(&edges[*at]))
        .filter_map(|at| Some((known[at]?.0, at)))
        .min();
    let mut path = Vec::new();
    let mut next = last.map(|(_, at)| at);
    while let Some(at) = next {
        path.push(&edges[at]);
        next = known[at].and_then(|(_, before)| before);
    }
    path.reverse();
    (!path.is_empty()).then_some(path)
}
