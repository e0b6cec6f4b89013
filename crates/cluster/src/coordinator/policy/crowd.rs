//! How many runs of each key range wait to be merged. Ranges that an edit left alone are not
//! counted again. Pure.

use std::collections::BTreeMap;

use lazybase_engine::manifest::{Manifest, RangeState, SeenRanges};
use lazybase_engine::read::paths::segments_in;
use lazybase_model::TableId;

use super::PolicySettings;

/// The runs with data of the ranges of all tables.
#[derive(Debug)]
pub(crate) struct Crowd {
    seen: SeenRanges,
    /// By table and the range's place.
    runs: BTreeMap<TableId, Vec<usize>>,
    /// Why writers have to wait for merges, if they have to.
    pub(crate) why: Option<String>,
}

impl Crowd {
    /// That of a manifest, with the counts of an `earlier` one where they are the same.
    pub(crate) fn after(
        earlier: Option<&Crowd>,
        manifest: &Manifest,
        settings: &PolicySettings,
    ) -> Crowd {
        let earlier = earlier.map(|crowd| (crowd, crowd.seen.beside(manifest)));
        let tables = manifest.tables.iter().map(|(id, state)| {
            let known = earlier.as_ref().and_then(|(crowd, unchanged)| {
                let runs = crowd.runs.get(id)?;
                Some((unchanged.ranges_of(state), runs))
            });
            let count = |(at, range): (usize, &RangeState)| match &known {
                Some((same, runs)) if same.get(at) == Some(&true) => runs[at],
                _ => with_data(manifest, range),
            };
            let ranges = state.ranges.iter().enumerate();
            let counts: Vec<usize> = ranges.map(count).collect();
            (*id, counts)
        });
        let runs: BTreeMap<TableId, Vec<usize>> = tables.collect();
        Crowd {
            why: too_many(manifest, &runs, settings.runs_per_range_max),
            seen: SeenRanges::of(manifest),
            runs,
        }
    }
}

/// The current runs of a range that hold anything for it.
fn with_data(manifest: &Manifest, range: &RangeState) -> usize {
    let current = range.runs.iter().filter(|entry| entry.is_current());
    let runs = current.filter_map(|entry| manifest.runs.get(&entry.id));
    runs.filter(|run| !segments_in(run, &range.range).is_empty())
        .count()
}

fn too_many(
    manifest: &Manifest,
    runs: &BTreeMap<TableId, Vec<usize>>,
    most: usize,
) -> Option<String> {
    let counts = manifest.tables.iter().filter_map(|(id, state)| {
        let most = runs.get(id)?.iter().max()?;
        Some((*most, state.table.name.as_str()))
    });
    let (runs, name) = counts.max()?;
    (runs > most).then(|| {
        format!("a key range of table {name:?} has {runs} runs to be merged, {most} may wait")
    })
}
