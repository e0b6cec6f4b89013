//! Runs as edges of a graph whose nodes are SCU boundaries (section 3.3 of the paper: the merge
//! tree, and what may be read of it).
//!
//! ```text
//!   boundary   0 ----- base 1..=4 ----> 4 -- 5 -> 5 -- 6 -> 6        current: tiles 1..=6
//!              0 - 1 -> 1 - 2 -> 2 - 3..=4 ---> 4                    superseded: still readable
//! ```
//!
//! An edge leads from the boundary before its span to any boundary from `changes_through` to the
//! span's end. An answer at a boundary reads the edges of one path from 0 to it. Pure; reads a
//! manifest, writes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use lazybase_model::{ScuNumber, Span};

use super::state::{Manifest, RangeState, Run, RunKind, RunRef};

/// One edge of a range: a run, or all parts of one sort.
#[derive(Debug, Clone)]
pub struct Edge<'m> {
    /// What it holds.
    pub span: Span,
    /// A path may leave it at any boundary from here to the span's end.
    pub changes_through: ScuNumber,
    /// When it was superseded in the range; `None` while it is current.
    pub superseded_micros: Option<i64>,
    /// Its runs; more than one are the parts of one sort, in their order.
    pub runs: Vec<&'m Arc<Run>>,
}

impl<'m> Edge<'m> {
    fn of(run: &'m Arc<Run>, entry: RunRef) -> Edge<'m> {
        Edge {
            span: run.span,
            changes_through: run.changes_through,
            superseded_micros: entry.superseded_micros,
            runs: vec![run],
        }
    }

    /// Whether `run` is the next part of the sort whose parts this edge holds.
    fn takes(&self, run: &Run, entry: RunRef) -> bool {
        let last = self.runs[self.runs.len() - 1];
        last.kind == RunKind::Sorted
            && run.kind == RunKind::Sorted
            && self.span == run.span
            && self.superseded_micros == entry.superseded_micros
            && last.part + 1 == run.part
    }

    /// Whether the range's newest answers are made of it.
    pub fn is_current(&self) -> bool {
        self.superseded_micros.is_none()
    }

    /// Whether a path may leave the edge at `boundary`.
    pub fn reaches(&self, boundary: ScuNumber) -> bool {
        self.changes_through <= boundary && boundary <= self.span.last
    }
}

impl Manifest {
    /// The edges of a range, current and superseded, by (first, last).
    pub fn edges<'m>(&'m self, range: &RangeState) -> Vec<Edge<'m>> {
        let mut edges: Vec<Edge<'m>> = Vec::with_capacity(range.runs.len());
        for entry in &range.runs {
            let run = self.run(entry.id);
            match edges.last_mut() {
                Some(edge) if edge.takes(run, *entry) => edge.runs.push(run),
                _ => edges.push(Edge::of(run, *entry)),
            }
        }
        edges
    }
}

/// What a path costs: runs first, then how many of its edges are superseded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    runs: usize,
    superseded: usize,
}

/// Cheapest paths through the edges of one range.
#[derive(Debug)]
pub struct Paths<'e, 'm> {
    edges: &'e [Edge<'m>],
    /// For each edge the cost of a cheapest path that ends with it, and the edge before it.
    best: Vec<Option<(Cost, Option<usize>)>>,
}

impl<'e, 'm> Paths<'e, 'm> {
    /// The cheapest paths through `edges`, which stand by (first, last).
    pub fn new(edges: &'e [Edge<'m>]) -> Paths<'e, 'm> {
        let mut paths = Paths {
            edges,
            best: Vec::with_capacity(edges.len()),
        };
        for (at, edge) in edges.iter().enumerate() {
            let own = |before: Cost| Cost {
                runs: before.runs + edge.runs.len(),
                superseded: before.superseded + usize::from(!edge.is_current()),
            };
            let start = edge.span.start();
            let best = if start == ScuNumber::ZERO {
                let nothing = Cost {
                    runs: 0,
                    superseded: 0,
                };
                Some((own(nothing), None))
            } else {
                let before = paths.last_edge(start, at);
                before.map(|(cost, edge)| (own(cost), Some(edge)))
            };
            paths.best.push(best);
        }
        paths
    }

    /// The cheapest path's cost and last edge that ends at `boundary`, of the first `known` edges.
    fn last_edge(&self, boundary: ScuNumber, known: usize) -> Option<(Cost, usize)> {
        (0..known)
            .filter(|edge| self.edges[*edge].reaches(boundary))
            .filter_map(|edge| self.best[edge].map(|(cost, _)| (cost, edge)))
            .min()
    }

    /// How many runs a read that ends at `boundary` meets at least; `None` when no path ends
    /// there.
    pub fn runs_at(&self, boundary: ScuNumber) -> Option<usize> {
        self.last_edge(boundary, self.edges.len())
            .map(|(cost, _)| cost.runs)
    }

    /// The edges, by position, of a path with the fewest runs that ends at `boundary`; current
    /// edges rather than superseded ones. `None` when no path ends there.
    pub fn path_to(&self, boundary: ScuNumber) -> Option<Vec<usize>> {
        let (_, last) = self.last_edge(boundary, self.edges.len())?;
        let mut path = vec![last];
        while let Some((_, Some(before))) = self.best[path[path.len() - 1]] {
            path.push(before);
        }
        path.reverse();
        Some(path)
    }
}

/// The newest boundary at which every range of every view can end with at most `runs_max` runs;
/// `None` when there is none. Without a limit it is `sorted_through`.
pub fn common_boundary(manifest: &Manifest, runs_max: usize) -> Option<ScuNumber> {
    let ranges: Vec<Vec<Edge<'_>>> = manifest
        .primary_ranges()
        .map(|(_, range)| manifest.edges(range))
        .collect();
    let paths: Vec<Paths<'_, '_>> = ranges.iter().map(|edges| Paths::new(edges)).collect();
    let mut ends: BTreeSet<ScuNumber> = BTreeSet::from([manifest.sorted_through]);
    ends.extend(ranges.iter().flatten().map(|edge| edge.span.last));
    let can_end = |boundary: ScuNumber| {
        paths
            .iter()
            .all(|paths| paths.runs_at(boundary).is_some_and(|runs| runs <= runs_max))
    };
    ends.into_iter().rev().find(|boundary| can_end(*boundary))
}

#[cfg(test)]
mod tests;
