//! Collection: what the manifest may forget, and which files may then be removed (section 3.3 of
//! the paper: inputs of a merge go once nothing needs them).
//!
//! ```text
//!   retirable(manifest, ...)   -> Edit::Retire      superseded runs, logs of sorted SCUs, times
//!   Sweep::unreferenced(...)   -> names of files    that no manifest in use names, past grace
//! ```
//!
//! What of the retention goes before its time, where superseded files take too much, is decided by
//! [`super::superseded`].
//!
//! Why superseded runs may go once the retention has passed. A run superseded at time T serves,
//! beyond what its successor serves, only boundaries before the successor's `changes_through`.
//! That SCU was sealed before T. So at any such boundary the database was in that state for the
//! last time before T, and `AS OF` a time in the retention never asks for it. Best effort still
//! might, while other ranges lag: the runs of a cheapest path to the common boundary stay.
//!
//! Pure; the store's listing is a parameter.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lazybase_model::limits::LOG_KEPT_BYTES_MAX;
use lazybase_model::{Error, ErrorKind, ScuNumber, TableId, ViewId};

use super::edit::{Edit, RetiredRun};
use super::graph::Edge;
use super::state::{Manifest, RangeState, Run, RunId, RunKind};
use crate::env::planted::{Planted, is_planted};
use crate::read::damaged::DamagedFiles;
use crate::read::paths::{ReadIndex, segments_in};
use crate::read::views::needed_runs;

/// What must have been read back in full and checked before its inputs may go.
#[derive(Debug, Clone, Copy)]
pub struct Verified<'v> {
    /// The runs of all SCUs up to here that sorting wrote are checked.
    pub sorted_through: ScuNumber,
    /// Merged and base runs that are not checked yet.
    pub unchecked_runs: &'v BTreeSet<RunId>,
    /// Runs with damaged files that are still to be made again: what they were made of stays.
    pub unhealed_runs: &'v BTreeSet<RunId>,
    /// Logs among these files are of no use.
    pub damaged: &'v DamagedFiles,
    /// SCUs whose logs snapshots read in the place of damaged runs, healed or not since.
    pub read_instead: &'v BTreeSet<ScuNumber>,
    /// Boundaries that secondary views of these tables are being brought to.
    pub views: &'v [(TableId, ScuNumber)],
    /// The manifest's paths that need none of the damaged files, where they are known.
    pub index: Option<&'v ReadIndex>,
}

impl Default for Verified<'_> {
    /// Everything is checked, nothing is damaged.
    fn default() -> Self {
        static NO_RUNS: BTreeSet<RunId> = BTreeSet::new();
        static NO_FILES: DamagedFiles = DamagedFiles::new();
        static NO_SCUS: BTreeSet<ScuNumber> = BTreeSet::new();
        Verified {
            sorted_through: ScuNumber(u64::MAX),
            unchecked_runs: &NO_RUNS,
            unhealed_runs: &NO_RUNS,
            damaged: &NO_FILES,
            read_instead: &NO_SCUS,
            views: &[],
            index: None,
        }
    }
}

/// Times alone are worth an edit only when there are as many to forget.
const TIMES_PER_EDIT: usize = 64;

/// The edit that forgets all that may be forgotten at `now_micros` on the coordinator's clock;
/// `None` when that is nothing.
pub fn retirable(
    manifest: &Manifest,
    now_micros: i64,
    retention: Duration,
    verified: Verified<'_>,
) -> Option<Edit> {
    let kept_micros = match is_planted(Planted::RetentionShort) {
        true => 0,
        false => i64::try_from(retention.as_micros()).unwrap_or(i64::MAX),
    };
    let before_micros = now_micros.saturating_sub(kept_micros);
    let made;
    let index = match verified.index {
        Some(index) => index,
        None => {
            made = ReadIndex::avoiding(manifest, verified.damaged);
            &made
        }
    };
    let common = index.common_horizon();
    let runs = retirable_runs(manifest, before_micros, index, verified);
    let runs: Vec<RetiredRun> = runs.into_iter().map(|(run, _)| run).collect();
    let scus = retirable_logs(manifest, before_micros, verified);
    let times_before = oldest_boundary(manifest, before_micros).min(common);
    let times = manifest.times.range(..times_before).count();
    let forgets = !runs.is_empty() || !scus.is_empty() || times > TIMES_PER_EDIT;
    forgets.then_some(Edit::Retire {
        runs,
        scus,
        times_before,
    })
}

/// What of ranges may go, and when it was superseded there.
pub(super) fn retirable_runs(
    manifest: &Manifest,
    before_micros: i64,
    index: &ReadIndex,
    verified: Verified<'_>,
) -> Vec<(RetiredRun, i64)> {
    let mut runs = Vec::new();
    let heals = |range: &RangeState| {
        let mut entries = range.runs.iter();
        !verified.unhealed_runs.is_empty()
            && entries.any(|entry| verified.unhealed_runs.contains(&entry.id))
    };
    for (view, range) in manifest.all_ranges().filter(|(_, range)| !heals(range)) {
        retire_from(
            manifest,
            view,
            range,
            index,
            before_micros,
            verified,
            &mut runs,
        );
    }
    runs
}

/// Logs of sorted SCUs: kept, as earlier representations are, for the retention, so that a damaged
/// run can be sorted again. Of those whose runs merges have replaced, which only the past needs, no
/// more than a bound.
pub(super) fn retirable_logs(
    manifest: &Manifest,
    before_micros: i64,
    verified: Verified<'_>,
) -> Vec<ScuNumber> {
    let unhealed = verified.unhealed_runs.iter();
    let needed: BTreeSet<ScuNumber> = unhealed
        .filter_map(|id| Some(manifest.runs.get(id)?.span.first))
        .chain(verified.read_instead.iter().copied())
        .collect();
    // Somebody may restore the log: then what was lost can still be sorted.
    let lost: BTreeSet<ScuNumber> = manifest.lost_runs().map(|(scu, _)| scu).collect();
    let sorted = manifest.sorted_through.min(verified.sorted_through);
    let unmerged = LazyCell::new(|| unmerged_scus(manifest));
    let mut kept_bytes = 0;
    let mut retirable = Vec::new();
    for (scu, entry) in manifest.scus.range(..=sorted).rev() {
        kept_bytes += entry.raw_bytes;
        let time = manifest.times.get(scu);
        let old = time.is_none_or(|time| time.last_ack_micros <= before_micros);
        let pieces = entry.log.iter().map(|piece| &piece.file);
        let mut files = pieces.chain(&entry.files);
        // One that the disk refuses to read may be read later.
        let is_useless = |error: &Error| error.kind() == ErrorKind::Corrupt;
        let useless = files.any(|file| verified.damaged.get(file).is_some_and(is_useless));
        let spare = old || (kept_bytes > LOG_KEPT_BYTES_MAX && !unmerged.contains(scu));
        if !lost.contains(scu) && (useless || (spare && !needed.contains(scu))) {
            retirable.push(*scu);
        }
    }
    retirable.reverse();
    retirable
}

/// The SCUs of which the newest answers of some range need rows of a sorted run: nothing but the
/// log holds the same rows.
fn unmerged_scus(manifest: &Manifest) -> BTreeSet<ScuNumber> {
    let mut unmerged = BTreeSet::new();
    for (_, range) in manifest.primary_ranges() {
        let current = range.runs.iter().filter(|entry| entry.is_current());
        for run in current.filter_map(|entry| manifest.runs.get(&entry.id)) {
            if run.kind == RunKind::Sorted && !segments_in(run, &range.range).is_empty() {
                unmerged.insert(run.span.first);
            }
        }
    }
    unmerged
}

/// The oldest boundary that an answer may still be asked for: the newest one that was complete
/// when the retention began. (`AS OF` a time rounds down to it.)
fn oldest_boundary(manifest: &Manifest, before_micros: i64) -> ScuNumber {
    let complete = |time: &super::state::ScuTime| time.last_ack_micros <= before_micros;
    let retained = manifest
        .times
        .iter()
        .rev()
        .find(|(_, time)| complete(time))
        .map_or(ScuNumber::ZERO, |(scu, _)| *scu);
    retained.min(manifest.oldest_base_end())
}

fn retire_from(
    manifest: &Manifest,
    view: ViewId,
    range: &RangeState,
    index: &ReadIndex,
    before_micros: i64,
    verified: Verified<'_>,
    retired: &mut Vec<(RetiredRun, i64)>,
) {
    let is_old = |superseded: Option<i64>| superseded.is_some_and(|at| at <= before_micros);
    let entries = &range.runs;
    if !entries.iter().any(|entry| is_old(entry.superseded_micros)) {
        return;
    }
    let edges = manifest.edges(range);
    let mut kept = index.best_effort_runs(view, range.range.low.as_ref());
    kept.extend(needed_by_views(manifest, view, range, verified.views));
    for edge in &edges {
        let Some(at) = edge.superseded_micros.filter(|at| *at <= before_micros) else {
            continue;
        };
        let kept = edge.runs.iter().any(|run| kept.contains(&run.id));
        if !kept && is_replaced(edge, &edges, verified.unchecked_runs) {
            let entry = |run: &&Arc<Run>| RetiredRun {
                view,
                low: range.range.low.clone(),
                run: run.id,
            };
            retired.extend(edge.runs.iter().map(|run| (entry(run), at)));
        }
    }
}

/// The runs of a table's range that its secondary views are read and brought on with: those that
/// lead from each view's end to the newest boundary, and those that lead to it.
fn needed_by_views(
    manifest: &Manifest,
    view: ViewId,
    range: &RangeState,
    coming: &[(TableId, ScuNumber)],
) -> Vec<RunId> {
    let Some(state) = manifest.table_of_view(view) else {
        return Vec::new();
    };
    let table = state.table.id;
    let mut ends: BTreeSet<ScuNumber> = manifest
        .views_of(table)
        .map(|view| manifest.view_end(view))
        .collect();
    ends.extend(
        coming
            .iter()
            .filter(|(of, _)| *of == table)
            .map(|(_, end)| *end),
    );
    let mut ranges = state.ranges.iter();
    let at = ranges.position(|other| other.range.low == range.range.low);
    let at = at.unwrap_or_default();
    let needed = ends
        .into_iter()
        .flat_map(|end| needed_runs(manifest, state, at, end));
    needed.collect()
}

/// Whether no run that was made of the edge, or of what was made of it, is unchecked.
fn is_replaced(edge: &Edge<'_>, edges: &[Edge<'_>], unchecked: &BTreeSet<RunId>) -> bool {
    let mut successors = edges.iter().filter(|other| {
        other.span.first <= edge.span.first
            && edge.changes_through <= other.span.last
            && other.runs[0].id > edge.runs[0].id
    });
    !successors.any(|other| other.runs.iter().any(|run| unchecked.contains(&run.id)))
}

/// The files that a manifest names: segments, logs of SCUs, and times of older ones.
pub fn files_of(manifest: &Manifest) -> impl Iterator<Item = &str> {
    let segments = manifest.runs.values().flat_map(|run| run.segments.iter());
    let logs = manifest.scus.values().flat_map(|entry| {
        let pieces = entry.log.iter().map(|piece| piece.file.as_str());
        pieces.chain(entry.files.iter().map(String::as_str))
    });
    let times = manifest
        .history
        .files
        .iter()
        .map(|times| times.file.as_str());
    segments
        .map(|segment| segment.file.as_str())
        .chain(logs)
        .chain(times)
}

/// Remembers since when files are named by nobody.
///
/// To be fed in this order, or a file may be taken for garbage between two of them:
/// 1. the store's listing of `segments/` and `log/`;
/// 2. the files of running attempts and open logs;
/// 3. the current manifest;
/// 4. the pinned ones ([`super::pins::Pins::manifests`]).
#[derive(Debug, Default)]
pub struct Sweep {
    since: BTreeMap<String, Duration>,
}

impl Sweep {
    /// A sweep that has seen nothing.
    pub fn new() -> Sweep {
        Sweep::default()
    }

    /// The listed files that neither `manifests` (current and pinned) nor `running` name, and
    /// that no earlier call within `grace` found named: they may be removed. `now` is the
    /// monotonic clock.
    pub fn unreferenced(
        &mut self,
        listing: &[(String, u64)],
        running: &BTreeSet<String>,
        manifests: &[Arc<Manifest>],
        now: Duration,
        grace: Duration,
    ) -> Vec<String> {
        let named: BTreeSet<&str> = manifests.iter().flat_map(|m| files_of(m)).collect();
        let loose = listing
            .iter()
            .map(|(name, _)| name)
            .filter(|name| !named.contains(name.as_str()) && !running.contains(*name));
        let since: BTreeMap<String, Duration> = loose
            .map(|name| (name.clone(), *self.since.get(name).unwrap_or(&now)))
            .collect();
        self.since = since;
        let past = |since: Duration| now.saturating_sub(since) >= grace;
        let old = self.since.iter().filter(|(_, since)| past(**since));
        old.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
