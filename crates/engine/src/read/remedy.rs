//! How a run with damaged files is made again: by the stage that made it, from what is left.
//!
//! ```text
//!   run a..=b, file damaged in keys k  --edges of k from a-1 to where the run ends--> merge them
//!   sorted run of SCU n                --log of n, while it is kept-----------------> sort it
//! ```
//!
//! Reads a manifest and the set of damaged files; no I/O, no clock. Invariant HEAL-1: what a
//! remedy reads holds, for the damaged keys, every change of the run once and no other.

use lazybase_model::ScuNumber;

use super::damaged::DamagedFiles;
use super::paths::{Edge, Share, edges_of, log_of, segments_in};
use super::source::intersection;
use crate::key::Key;
use crate::manifest::{KeyRange, Manifest, RangeState, Run, RunId, RunKind, RunRef, TableState};

#[cfg(test)]
mod tests;

/// How the damaged files of a run are made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// By merging what their rows were made of: a piece for each file and key range.
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
        let entry = log_of(manifest, run, damaged)?;
        let of_scu = |part: &&Run| {
            part.view == run.view
                && part.kind == RunKind::Sorted
                && part.span.first == run.span.first
        };
        let runs = manifest.runs.values().map(AsRef::as_ref);
        let mut parts: Vec<&Run> = runs.filter(of_scu).collect();
        parts.sort_by_key(|part| part.part);
        return Some(Remedy::Sort {
            scu: entry.scu,
            parts: parts.iter().map(|part| part.id).collect(),
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
        let named = |range: &&RangeState| range.runs.iter().any(|entry| entry.id == run.id);
        for range in table.ranges.iter().filter(named) {
            let Some(keys) = intersection(&range.range, &keys) else {
                continue;
            };
            pieces.push(Piece {
                file: segment.file.clone(),
                inputs: inputs(manifest, table, range, run, &keys, damaged)?,
                range: keys,
            });
        }
    }
    (!pieces.is_empty()).then_some(Remedy::Merge(pieces))
}

/// The runs with data on a path of other edges that begins and ends as the run does.
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
    let inputs: Vec<RunId> = path.iter().flat_map(|edge| edge.runs.clone()).collect();
    (!inputs.is_empty()).then_some(inputs)
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
