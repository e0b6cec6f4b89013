//! The best way over the edges of a key range to every boundary: stretch by stretch, from oldest to
//! newest. Pure.

use std::collections::BTreeSet;

use super::Edge;

/// How a boundary is reached best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    /// The path's last edge; `None` where nothing came before.
    pub(super) edge: Option<usize>,
    pub(super) work: u64,
    pub(super) runs: u32,
    /// How many of the path's edges are superseded.
    pub(super) superseded: u32,
    edges: u32,
}

impl Reach {
    /// Current runs are preferred whatever they cost: superseded ones are about to go, and an
    /// idle database is read from its authority alone. Of equal paths the one with fewer edges.
    pub(super) fn by_work(&self) -> Rank {
        [self.superseded.into(), self.work, self.edges.into()]
    }

    pub(super) fn by_runs(&self) -> Rank {
        [self.runs.into(), self.superseded.into(), self.work]
    }
}

pub(super) type Rank = [u64; 3];

/// From boundary `at` on, up to the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: u64,
    pub(super) reach: Option<Reach>,
}

/// Finds the best way over `passable` edges to every boundary: the least `rank`. The table is
/// empty up to `empty_through`.
pub(super) fn sweep(
    edges: &[Edge],
    empty_through: u64,
    rank: fn(&Reach) -> Rank,
    passable: impl Fn(&Edge) -> bool,
) -> Vec<Step> {
    sweep_on(Vec::new(), (edges, 0), empty_through, rank, passable)
}

/// The same, where the `steps` over the first `known` edges are known, and no other edge leads to a
/// boundary before the last of those steps: none of the known edges leads to where others do.
pub(super) fn sweep_on(
    mut steps: Vec<Step>,
    (edges, known): (&[Edge], usize),
    empty_through: u64,
    rank: fn(&Reach) -> Rank,
    passable: impl Fn(&Edge) -> bool,
) -> Vec<Step> {
    let new = edges.len() - known;
    let mut begins: Vec<(u64, usize)> = Vec::with_capacity(new);
    let mut ends: Vec<(u64, usize)> = Vec::with_capacity(new);
    let mut points = match steps.is_empty() {
        true => vec![0, empty_through + 1],
        false => Vec::new(),
    };
    let others = edges.iter().enumerate().skip(known);
    for (number, edge) in others.filter(|(_, edge)| passable(edge)) {
        begins.push((edge.to_min, number));
        ends.push((edge.to_max + 1, number));
        points.extend([edge.to_min, edge.to_max + 1]);
    }
    begins.sort_unstable();
    ends.sort_unstable();
    points.sort_unstable();
    points.dedup();
    let (mut begins, mut ends) = (begins.into_iter().peekable(), ends.into_iter().peekable());
    let nothing = Reach {
        edge: None,
        work: 0,
        runs: 0,
        superseded: 0,
        edges: 0,
    };
    steps.reserve(points.len());
    let mut ranks: Vec<Option<Reach>> = vec![None; edges.len()];
    let mut open: BTreeSet<(Rank, usize)> = BTreeSet::new();
    for at in points {
        while let Some((_, number)) = ends.next_if(|(end, _)| *end == at) {
            if let Some(reach) = &ranks[number] {
                open.remove(&(rank(reach), number));
            }
        }
        while let Some((_, number)) = begins.next_if(|(begin, _)| *begin == at) {
            let edge = &edges[number];
            // The edge begins before `at`, so that the way to its start is known.
            let Some(start) = lookup(&steps, edge.from) else {
                continue;
            };
            let reach = Reach {
                edge: Some(number),
                work: start.work + edge.work,
                runs: start.runs + edge.runs.len() as u32,
                superseded: start.superseded + u32::from(edge.superseded),
                edges: start.edges + 1,
            };
            open.insert((rank(&reach), number));
            ranks[number] = Some(reach);
        }
        let reach = match open.first() {
            _ if at <= empty_through => Some(nothing),
            Some((_, number)) => ranks[*number],
            None => None,
        };
        // Where the known edges have ended, others may begin.
        if steps.last().is_some_and(|step| step.at == at) {
            steps.pop();
        }
        steps.push(Step { at, reach });
    }
    steps
}

/// How a boundary is reached.
pub(super) fn lookup(steps: &[Step], boundary: u64) -> Option<Reach> {
    let after = steps.partition_point(|step| step.at <= boundary);
    steps[..after].last()?.reach
}
