//! What else holds the rows of a damaged file, where a manifest shows it plainly: the log of its
//! SCU, other runs that lead over the same SCUs, or the table of a view.
//! And of which SCU the log is gone though nothing else holds its rows.
//!
//! Pure. It may miss a holder that the database knows of; what it names can serve.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazybase_engine::key::Key;
use lazybase_engine::manifest::{KeyRange, Manifest, RangeState, Run, RunId, RunKind, SegmentMeta};
use lazybase_model::ScuNumber;

/// Whether a file can be read.
type IsWhole<'w> = &'w dyn Fn(&str) -> bool;

/// What holds the rows of a file, in words; nothing where one of the runs that name it has no
/// holder, or none names it.
pub(super) fn holder(manifest: &Manifest, file: &str, is_whole: IsWhole<'_>) -> Option<String> {
    let mut holder = None;
    for run in manifest.runs.values() {
        let segment = run.segments.iter().find(|segment| segment.file == file);
        if let Some(segment) = segment {
            holder = Some(holder_in(manifest, run, segment, is_whole)?);
        }
    }
    holder
}

/// What holds the rows of a run's file.
fn holder_in(
    manifest: &Manifest,
    run: &Run,
    segment: &SegmentMeta,
    is_whole: IsWhole<'_>,
) -> Option<String> {
    let state = manifest.table_of_view(run.view)?;
    if manifest.is_view(run.view) {
        return Some(format!("the table of view {:?}", state.table.name));
    }
    if run.kind == RunKind::Sorted {
        let kept = is_logged(manifest, run, is_whole);
        return kept.then(|| format!("the log of SCU {}", run.span.first));
    }
    let keys = keys_of(segment);
    let names = |range: &&Arc<RangeState>| range.runs.iter().any(|entry| entry.id == run.id);
    let ranges = state.ranges.iter().filter(names);
    let mut holders = Vec::new();
    for range in ranges.filter(|range| range.range.meets(&keys)) {
        let edges = edges_of(manifest, range, run, &keys, is_whole);
        let begin = run.span.start().0;
        let empty_through = match begin {
            0 => state.created_after.0,
            begin => begin,
        };
        holders.extend(led_over(&edges, (begin, empty_through), run)?);
    }
    (!holders.is_empty()).then(|| format!("table {:?}: {holders:?}", state.table.name))
}

/// Whether the log of a sorted SCU is kept, and can be read.
fn is_logged(manifest: &Manifest, run: &Run, is_whole: IsWhole<'_>) -> bool {
    let entry = manifest.scus.get(&run.span.first);
    entry.is_some_and(|entry| {
        let pieces = entry.log.iter().map(|piece| &piece.file);
        pieces.chain(&entry.files).all(|file| is_whole(file))
    })
}

/// A sorted SCU of which the newest answers of some range need rows, and no log is kept, though its
/// last batch came after `began_micros`.
pub(super) fn unlogged(manifest: &Manifest, began_micros: i64) -> Option<ScuNumber> {
    for (_, range) in manifest.primary_ranges() {
        let current = range.runs.iter().filter(|entry| entry.is_current());
        let runs = current.filter_map(|entry| manifest.runs.get(&entry.id));
        for run in runs.filter(|run| run.kind == RunKind::Sorted) {
            let scu = run.span.first;
            let time = manifest.times.get(&scu);
            let is_recent = time.is_some_and(|time| time.last_ack_micros > began_micros);
            let mut segments = run.segments.iter();
            let has_rows = segments.any(|segment| keys_of(segment).meets(&range.range));
            if is_recent && has_rows && !manifest.scus.contains_key(&scu) {
                return Some(scu);
            }
        }
    }
    None
}

/// The keys that a file may hold rows of.
fn keys_of(segment: &SegmentMeta) -> KeyRange {
    KeyRange {
        low: Some(segment.min_key.clone()),
        high: Some(Key::after(segment.max_key.as_bytes())),
    }
}

/// A run, or all parts of a sorted SCU: from a boundary to those at which it may end.
#[derive(Debug)]
struct Edge {
    from: u64,
    to: (u64, u64),
    runs: Vec<RunId>,
    is_whole: bool,
    has_rows: bool,
}

/// What the other runs of a range hold of some keys.
fn edges_of(
    manifest: &Manifest,
    range: &RangeState,
    run: &Run,
    keys: &KeyRange,
    is_whole: IsWhole<'_>,
) -> Vec<Edge> {
    let mut edges: BTreeMap<(u64, u64, RunKind, Option<RunId>), Edge> = BTreeMap::new();
    let others = range.runs.iter().filter(|entry| entry.id != run.id);
    for other in others.filter_map(|entry| manifest.runs.get(&entry.id)) {
        let segments = other.segments.iter().filter(|segment| {
            let held = keys_of(segment);
            held.meets(keys) && held.meets(&range.range)
        });
        let segments: Vec<_> = segments.collect();
        let is_sorted = other.kind == RunKind::Sorted;
        let mut files = segments.iter();
        let can_be_read = files.all(|segment| !segment.is_lost() && is_whole(&segment.file));
        let from = other.span.start().0;
        let part = Edge {
            from,
            to: (other.changes_through.0.max(from + 1), other.span.last.0),
            runs: vec![other.id],
            is_whole: can_be_read || (is_sorted && is_logged(manifest, other, is_whole)),
            has_rows: !segments.is_empty(),
        };
        // The parts of an SCU are one.
        let alone = (!is_sorted).then_some(other.id);
        let edge = edges.entry((from, part.to.1, other.kind, alone));
        let edge = edge.and_modify(|edge| {
            edge.to.0 = edge.to.0.max(part.to.0);
            edge.runs.extend(&part.runs);
            edge.is_whole &= part.is_whole;
            edge.has_rows |= part.has_rows;
        });
        edge.or_insert(part);
    }
    edges
        .into_values()
        .filter(|edge| edge.to.0 <= edge.to.1)
        .collect()
}

/// Whole edges, in the order of where they begin, one after the other from some boundaries to where
/// a run may end; nothing if there are none, or they hold no rows.
fn led_over(edges: &[Edge], begin: (u64, u64), run: &Run) -> Option<Vec<RunId>> {
    let mut reached = vec![begin];
    let mut taken: Vec<&Edge> = Vec::new();
    for edge in edges.iter().filter(|edge| edge.is_whole) {
        // One that leads to where another begins began before it.
        if reached
            .iter()
            .any(|(low, high)| (*low..=*high).contains(&edge.from))
        {
            reached.push(edge.to);
            taken.push(edge);
        }
    }
    let ends = |edge: &&Edge| edge.to.0 <= run.span.last.0 && run.changes_through.0 <= edge.to.1;
    let is_led_over = taken.iter().any(ends) && taken.iter().any(|edge| edge.has_rows);
    is_led_over.then(|| taken.iter().flat_map(|edge| edge.runs.clone()).collect())
}

#[cfg(test)]
mod tests;
