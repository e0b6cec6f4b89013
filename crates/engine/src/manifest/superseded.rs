//! What superseded files take, and what of the past goes before its time where that is too much
//! (section 3.3 of the paper: inputs of a merge go once nothing needs them; here, once they can't
//! be afforded).
//!
//! ```text
//!   what the newest answers need    counts for nothing, and never goes
//!   what the retention keeps        takes half of the bound: the oldest goes first
//!   that, and what snapshots keep   take all of it: the oldest snapshot ends first
//! ```
//!
//! With halves neither lives at the other's expense: a snapshot that stands still takes no past
//! from anybody, and a long past leaves each snapshot room for what is superseded after it.
//!
//! [`shorten`] decides, and knows neither manifests nor pins; [`superseded_files`] is what it
//! decides on. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lazybase_model::ScuNumber;

use super::collect::{Verified, retirable_logs, retirable_runs};
use super::state::{Manifest, Run, RunId, SegmentMeta};
use crate::read::paths::ReadIndex;

/// A superseded file: a segment, or the log of an SCU that is sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SupersededFile {
    /// What it takes.
    pub bytes: u64,
    /// While the retention keeps it: when it was superseded, in microseconds since 1970 on the
    /// coordinator's clock.
    pub retained: Option<i64>,
    /// The pinned manifests that name it, by their places; the oldest has place 0.
    pub holders: Vec<usize>,
}

/// What goes before its time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shortening {
    /// The retention keeps no longer what was superseded up to this moment.
    pub before_micros: Option<i64>,
    /// The pinned manifests whose snapshots end, by their places.
    pub ended: BTreeSet<usize>,
}

/// What must go so that superseded files take `bytes_max` at most, as far as that can be had:
/// `may_end` says of each pinned manifest whether its snapshots may end.
pub fn shorten(files: &[SupersededFile], may_end: &[bool], bytes_max: u64) -> Shortening {
    let before_micros = past_to_go(files, bytes_max / 2);
    let is_retained = |file: &&SupersededFile| {
        let began = before_micros.unwrap_or(i64::MIN);
        file.retained.is_some_and(|at| at > began)
    };
    let retained = files.iter().filter(is_retained);
    let mut bytes: u64 = retained.map(|file| file.bytes).sum();
    // A file goes with the last snapshot that holds it, if all of them may end.
    let mut going: Vec<(usize, &SupersededFile)> = Vec::new();
    for file in files.iter().filter(|file| !is_retained(file)) {
        let Some(last) = file.holders.iter().max() else {
            continue;
        };
        bytes += file.bytes;
        if file.holders.iter().all(|holder| may_end[*holder]) {
            going.push((*last, file));
        }
    }
    going.sort_by_key(|(last, _)| *last);
    let mut ended = BTreeSet::new();
    for together in going.chunk_by(|(one, _), (other, _)| one == other) {
        if bytes <= bytes_max {
            break;
        }
        for (_, file) in together {
            bytes -= file.bytes;
            ended.extend(&file.holders);
        }
    }
    Shortening {
        before_micros,
        ended,
    }
}

/// The moment up to which the retention keeps nothing any more, so that it keeps `bytes_max` at
/// most; `None` where it does not keep more.
fn past_to_go(files: &[SupersededFile], bytes_max: u64) -> Option<i64> {
    let mut retained: Vec<(i64, u64)> = files
        .iter()
        .filter_map(|file| Some((file.retained?, file.bytes)))
        .collect();
    retained.sort_unstable();
    let mut bytes: u64 = retained.iter().map(|(_, bytes)| bytes).sum();
    let mut before = None;
    for (at, taken) in retained {
        if bytes <= bytes_max {
            break;
        }
        bytes -= taken;
        before = Some(at);
    }
    before
}

/// The superseded files that may go, at `now_micros` on the coordinator's clock, with who keeps
/// them: the retention, which begins at `before_micros`, and pinned manifests, the oldest first.
pub fn superseded_files(
    current: &Manifest,
    pinned: &[Arc<Manifest>],
    now_micros: i64,
    before_micros: i64,
    verified: Verified<'_>,
) -> Vec<SupersededFile> {
    let superseded = superseded_runs(current, now_micros, verified);
    let of_needed = current
        .runs
        .values()
        .filter(|run| !superseded.contains_key(&run.id));
    let needed: BTreeSet<&str> = of_needed.flat_map(segments).map(name).collect();
    let mut files: BTreeMap<&str, SupersededFile> = BTreeMap::new();
    let is_spare = |segment: &&SegmentMeta| !needed.contains(name(segment));
    for (id, at) in &superseded {
        let retained = Some(*at).filter(|at| *at > before_micros);
        for segment in segments(current.run(*id)).filter(is_spare) {
            let file = noted(&mut files, segment);
            // Runs share files: what moved from one to another goes with the last.
            file.retained = file.retained.max(retained);
        }
    }
    for (place, manifest) in pinned.iter().enumerate() {
        for segment in manifest.runs.values().flat_map(segments).filter(is_spare) {
            let file = noted(&mut files, segment);
            if file.holders.last() != Some(&place) {
                file.holders.push(place);
            }
        }
    }
    let mut files: Vec<SupersededFile> = files.into_values().collect();
    files.extend(superseded_logs(
        current,
        pinned,
        now_micros,
        before_micros,
        verified,
    ));
    files
}

/// Runs that nothing but the retention and snapshots keep: when the last range superseded each.
fn superseded_runs(
    current: &Manifest,
    now_micros: i64,
    verified: Verified<'_>,
) -> BTreeMap<RunId, i64> {
    let made;
    let index = match verified.index {
        Some(index) => index,
        None => {
            made = ReadIndex::avoiding(current, verified.damaged);
            &made
        }
    };
    let mut superseded: BTreeMap<RunId, (usize, i64)> = BTreeMap::new();
    for (entry, at) in retirable_runs(current, now_micros, index, verified) {
        let (entries, last) = superseded.entry(entry.run).or_insert((0, at));
        *entries += 1;
        *last = at.max(*last);
    }
    // A run goes with the last range that has it.
    for entry in current.all_ranges().flat_map(|(_, range)| &range.runs) {
        if let Some((entries, _)) = superseded.get_mut(&entry.id) {
            match entries.checked_sub(1) {
                Some(left) => *entries = left,
                None => {
                    superseded.remove(&entry.id);
                }
            }
        }
    }
    let whole = superseded.into_iter();
    whole.map(|(id, (_, last))| (id, last)).collect()
}

/// The logs of sorted SCUs that nothing but the retention and snapshots keep. A snapshot reads the
/// log of what was not sorted when it was taken.
fn superseded_logs(
    current: &Manifest,
    pinned: &[Arc<Manifest>],
    now_micros: i64,
    before_micros: i64,
    verified: Verified<'_>,
) -> Vec<SupersededFile> {
    let verified = Verified {
        sorted_through: current.sorted_through,
        ..verified
    };
    let old = retirable_logs(current, before_micros, verified);
    let old: BTreeSet<ScuNumber> = old.into_iter().collect();
    let spare = retirable_logs(current, now_micros, verified).into_iter();
    let file = |scu: ScuNumber| {
        let entry = current.scus.get(&scu)?;
        let time = current.times.get(&scu).map(|time| time.last_ack_micros);
        let places = pinned.iter().enumerate();
        let reading = places.filter(|(_, manifest)| manifest.sorted_through < scu);
        Some(SupersededFile {
            bytes: entry.raw_bytes,
            retained: time.filter(|_| !old.contains(&scu)),
            holders: reading.map(|(place, _)| place).collect(),
        })
    };
    spare.filter_map(file).collect()
}

/// About what superseded files take: what the retention keeps of it, and all. A quick look, and
/// seldom too low: a file that moved from run to run counts for each of them.
pub fn superseded_at_most(current: &Manifest, pinned: &[Arc<Manifest>]) -> (u64, u64) {
    let needed = current.current_runs();
    let superseded = current.runs.values();
    let superseded = superseded.filter(|run| !needed.contains(&run.id));
    let retained = superseded.map(|run| run.bytes()).sum::<u64>() + sorted_log_bytes(current);
    let held: BTreeMap<RunId, u64> = pinned
        .iter()
        .flat_map(|manifest| manifest.runs.values())
        .filter(|run| !current.runs.contains_key(&run.id))
        .map(|run| (run.id, run.bytes()))
        .collect();
    (retained, retained + held.values().sum::<u64>())
}

/// The bytes of files that the newest answers don't need, and the retention, pinned manifests or
/// what lags behind keeps: segments, and logs of SCUs that are sorted.
pub fn superseded_bytes(current: &Manifest, pinned: &[Arc<Manifest>]) -> u64 {
    let needed = current.current_runs();
    let (newest, superseded): (Vec<_>, Vec<_>) = current
        .runs
        .values()
        .partition(|run| needed.contains(&run.id));
    let newest: BTreeSet<&str> = newest.into_iter().flat_map(segments).map(name).collect();
    let pinned = pinned.iter().flat_map(|manifest| manifest.runs.values());
    let kept: BTreeMap<&str, u64> = superseded
        .into_iter()
        .chain(pinned)
        .flat_map(segments)
        .filter(|segment| !newest.contains(name(segment)))
        .map(|segment| (name(segment), segment.bytes))
        .collect();
    kept.values().sum::<u64>() + sorted_log_bytes(current)
}

fn sorted_log_bytes(manifest: &Manifest) -> u64 {
    let sorted = manifest.scus.range(..=manifest.sorted_through);
    sorted.map(|(_, entry)| entry.raw_bytes).sum()
}

/// What is known of a segment's file.
fn noted<'f, 'm>(
    files: &'f mut BTreeMap<&'m str, SupersededFile>,
    segment: &'m SegmentMeta,
) -> &'f mut SupersededFile {
    let file = files.entry(name(segment)).or_default();
    file.bytes = segment.bytes;
    file
}

fn segments(run: &Arc<Run>) -> impl Iterator<Item = &SegmentMeta> {
    run.segments.iter().map(|segment| &**segment)
}

fn name(segment: &SegmentMeta) -> &str {
    &segment.file
}

#[cfg(test)]
mod tests;
