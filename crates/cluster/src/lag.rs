//! How far each stage is behind what is sealed, for the whole database and for each table: plain
//! functions of a manifest.
//!
//! A table lags by the age of its oldest change that a stage has not reached. A key range whose
//! data stands in one run holds nothing up: nothing is left to be joined there.

use lazybase_engine::manifest::{Manifest, RangeState, Run, RunKind, TableState};
use lazybase_engine::read::paths::segments_in;
use lazybase_model::ScuNumber;

/// How far a stage has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lag {
    /// The table; `None` for the whole database.
    pub table: Option<String>,
    /// The stage, by what was done: sealed, remapped, sorted, merged, authority.
    pub stage: &'static str,
    /// All SCUs up to here have reached it.
    pub through: ScuNumber,
    /// The sealed SCUs after that.
    pub scus_behind: u64,
    /// The age of the first acknowledgement that has not reached it, in microseconds.
    pub micros_behind: u64,
}

/// The stages of the whole database.
pub fn of_stages(manifest: &Manifest, now_micros: i64) -> Vec<Lag> {
    let stages = [
        ("sealed", manifest.sealed_through),
        ("remapped", manifest.remapped_through()),
        ("sorted", manifest.sorted_through),
        ("authority", authority_of(manifest)),
    ];
    let lag = |(stage, through)| lag(manifest, now_micros, None, stage, through);
    stages.into_iter().map(lag).collect()
}

/// The stages of each table, in the order of their ids.
pub fn of_tables(manifest: &Manifest, now_micros: i64) -> Vec<Lag> {
    let mut lags = Vec::new();
    for state in manifest.tables.values() {
        let sorted = sorted_of(manifest, state);
        let reached = |kinds: &[RunKind]| {
            let ranges = state.ranges.iter();
            let waiting = ranges.filter_map(|range| first_waiting(manifest, range, kinds));
            waiting
                .min()
                .map_or(sorted, |first| sorted.min(before(first)))
        };
        let stages = [
            ("sorted", sorted),
            ("merged", reached(&[RunKind::Sorted])),
            ("authority", reached(&[RunKind::Sorted, RunKind::Merged])),
        ];
        for (stage, through) in stages {
            let name = Some(state.table.name.clone());
            lags.push(lag(manifest, now_micros, name, stage, through));
        }
    }
    lags
}

fn lag(
    manifest: &Manifest,
    now_micros: i64,
    table: Option<String>,
    stage: &'static str,
    through: ScuNumber,
) -> Lag {
    Lag {
        table,
        stage,
        through,
        scus_behind: manifest.sealed_through.0.saturating_sub(through.0),
        micros_behind: micros_behind(manifest, now_micros, through),
    }
}

/// The age of the first acknowledgement after a boundary, in microseconds.
pub(crate) fn micros_behind(manifest: &Manifest, now_micros: i64, through: ScuNumber) -> u64 {
    let mut waiting = manifest.times.range(through.next()..);
    let first = waiting.next().filter(|_| through < manifest.sealed_through);
    let age = first.map(|(_, time)| now_micros.saturating_sub(time.first_ack_micros));
    age.map_or(0, |age| u64::try_from(age).unwrap_or(0))
}

/// The newest boundary that the authority of every table reaches.
pub(crate) fn authority_of(manifest: &Manifest) -> ScuNumber {
    let tables = of_tables(manifest, 0).into_iter();
    let authority = tables.filter(|lag| lag.stage == "authority");
    let through = authority.map(|lag| lag.through).min();
    through.unwrap_or(manifest.sealed_through)
}

/// The boundary up to which the table's changes are sorted.
pub(crate) fn sorted_of(manifest: &Manifest, state: &TableState) -> ScuNumber {
    let mut waiting = manifest.scus.range(manifest.sorted_through.next()..);
    let first = waiting.find(|(_, entry)| entry.tables.contains_key(&state.table.id));
    first.map_or(manifest.sealed_through, |(scu, _)| before(*scu))
}

/// The first SCU of the runs of these kinds that hold data of the range.
fn first_waiting(manifest: &Manifest, range: &RangeState, kinds: &[RunKind]) -> Option<ScuNumber> {
    if is_at_rest(manifest, range) {
        return None;
    }
    let waiting = runs_with_data(manifest, range).filter(|run| kinds.contains(&run.kind));
    waiting.map(|run| run.span.first).min()
}

/// Whether all data of a range stands in one run, or none, and the newest SCUs did not change it.
pub fn is_at_rest(manifest: &Manifest, range: &RangeState) -> bool {
    let mut with_data = runs_with_data(manifest, range);
    let one = with_data.next();
    with_data.next().is_none()
        && one.is_none_or(|run| run.changes_through < manifest.sorted_through)
}

fn runs_with_data<'m>(
    manifest: &'m Manifest,
    range: &'m RangeState,
) -> impl Iterator<Item = &'m Run> {
    let current = range.runs.iter().filter(|run| run.is_current());
    current
        .filter_map(|run| manifest.runs.get(&run.id))
        .filter(|run| !segments_in(run, &range.range).is_empty())
        .map(|run| &**run)
}

fn before(scu: ScuNumber) -> ScuNumber {
    ScuNumber(scu.0.saturating_sub(1))
}
