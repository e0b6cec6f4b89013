//! Many keys at once in a stored key map: each run is galloped through in key order, so that the
//! cost follows the keys and not the map.
//!
//! ```text
//!   keys in order --> run's segments --> filter --> extents that may hold some --> merge-join
//! ```
//!
//! Reads indexes and extents of the map's runs. A key stands in one run only: maps only grow, and
//! never change a row.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, DynComparator, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::Int64Type;
use lazybase_model::{Error, Result, ScuNumber};

use super::snapshot::Reader;
use crate::change_batch::ChangeBatch;
use crate::key::Key;
use crate::manifest::{Manifest, RangeState, Run, TableState};
use crate::segment::{ReadCounters, RowLayout, Segment};
use crate::stages::remap::Known;
use crate::stages::remap::key_table::KeyTable;

/// What the runs of a key map that reach back before `scu` hold of the keys at `places`, which
/// are in key order.
///
/// # Errors
/// `Corrupt` when a run is damaged, and nothing else leads to the same boundary.
pub(super) async fn find_in_map(
    reader: &Reader,
    manifest: &Manifest,
    map: &TableState,
    scu: ScuNumber,
    keys: &KeyTable,
    places: &[u32],
) -> Result<Vec<Option<Known>>> {
    let mut known = vec![None; keys.len()];
    loop {
        let avoided = reader.damaged.version();
        let found = find(reader, manifest, (map, scu), (keys, places), &mut known).await;
        match found {
            // Other runs may lead there without the file that was just found damaged.
            Err(error) if error.damaged_file().is_some() && reader.damaged.version() > avoided => {}
            found => return found.map(|()| known),
        }
    }
}

async fn find(
    reader: &Reader,
    manifest: &Manifest,
    (map, scu): (&TableState, ScuNumber),
    (keys, places): (&KeyTable, &[u32]),
    known: &mut [Option<Known>],
) -> Result<()> {
    let lookup = Lookup {
        reader,
        layout: reader.layout(&map.table)?,
        id_at: map.table.key_map_id(),
        keys,
    };
    let key = |place: &u32| keys.key(*place as usize);
    for (at, range) in map.ranges.iter().enumerate() {
        let bound = |bound: &Option<Key>| {
            let bound = bound.as_ref()?;
            Some(places.partition_point(|place| key(place) < bound.as_bytes()))
        };
        let from = bound(&range.range.low).unwrap_or(0);
        let to = bound(&range.range.high).unwrap_or(places.len());
        if from >= to {
            continue;
        }
        for run in runs_of(reader, manifest, map, at, range) {
            if run.span.first < scu || run.span.is_empty() {
                lookup.in_run(run, &places[from..to], known).await?;
            }
        }
    }
    Ok(())
}

/// The runs of a range that together hold what is sorted, none of them damaged if that can be.
fn runs_of<'m>(
    reader: &Reader,
    manifest: &'m Manifest,
    map: &TableState,
    at: usize,
    range: &RangeState,
) -> Vec<&'m Arc<Run>> {
    let index = reader.index(manifest);
    let whole = index.ranges(map.table.id).and_then(|ranges| {
        let range = ranges.get(at)?;
        range.cheapest(manifest.sorted_through)
    });
    let current = || {
        let current = range.runs.iter().filter(|run| run.is_current());
        current.map(|run| run.id).collect()
    };
    let runs = whole.unwrap_or_else(current);
    runs.into_iter().map(|run| manifest.run(run)).collect()
}

struct Lookup<'l> {
    reader: &'l Reader,
    layout: Arc<RowLayout>,
    id_at: usize,
    keys: &'l KeyTable,
}

/// The keys that one segment may hold.
struct InSegment<'s> {
    segment: &'s Arc<Segment>,
    /// Whether extents are kept for the next reader: not where the run would flush the cache.
    caching: bool,
    /// Places of keys, in key order, each with its extent.
    places: Vec<(usize, u32)>,
    /// The same keys as columns.
    columns: Vec<ArrayRef>,
}

impl Lookup<'_> {
    fn key(&self, place: u32) -> &[u8] {
        self.keys.key(place as usize)
    }

    async fn in_run(&self, run: &Run, places: &[u32], known: &mut [Option<Known>]) -> Result<()> {
        let counters = ReadCounters::default();
        let (env, cache) = (&self.reader.env, &self.reader.cache);
        let bytes: u64 = run.segments.iter().map(|segment| segment.raw_bytes).sum();
        let mut rest = places;
        for meta in &run.segments {
            let (low, high) = (meta.min_key.as_bytes(), meta.max_key.as_bytes());
            rest = &rest[rest.partition_point(|place| self.key(*place) < low)..];
            let inside = &rest[..rest.partition_point(|place| self.key(*place) <= high)];
            if inside.is_empty() {
                continue;
            }
            let segment = cache.open(env, &self.layout, meta, &counters).await;
            let segment = segment.inspect_err(|error| self.note(error))?;
            let may = inside.iter().filter_map(|place| {
                let at = *place as usize;
                let unknown = known[at].is_none();
                let extent = || segment.may_contain(self.keys.key(at), self.keys.hash(at));
                let extent = unknown.then(extent).flatten()?;
                Some((extent, *place))
            });
            let places: Vec<(usize, u32)> = may.collect();
            let columns = self.columns(&places)?;
            let in_segment = InSegment {
                segment: &segment,
                caching: bytes < cache.bytes() / 4,
                places,
                columns,
            };
            self.in_segment(&in_segment, known, &counters).await?;
        }
        Ok(())
    }

    fn note(&self, error: &Error) {
        self.reader.damaged.note(error);
    }

    /// Keys as columns, to be compared with those of rows.
    fn columns(&self, places: &[(usize, u32)]) -> Result<Vec<ArrayRef>> {
        let keys = places.iter().map(|(_, place)| Key::new(self.key(*place)));
        let keys: Vec<Key> = keys.collect();
        match keys.is_empty() {
            true => Ok(Vec::new()),
            false => self.layout.codec.decode(&keys),
        }
    }

    /// Keys of one extent are looked for together.
    async fn in_segment(
        &self,
        keys: &InSegment<'_>,
        known: &mut [Option<Known>],
        counters: &ReadCounters,
    ) -> Result<()> {
        let mut first = 0;
        while let Some((extent, _)) = keys.places.get(first) {
            let same = keys.places[first..].partition_point(|(of, _)| of == extent);
            let rows = self.extent(keys, *extent, counters).await;
            let rows = rows.inspect_err(|error| self.note(error))?;
            self.join(keys, first..first + same, &rows, known)?;
            first += same;
        }
        Ok(())
    }

    async fn extent(
        &self,
        keys: &InSegment<'_>,
        extent: usize,
        counters: &ReadCounters,
    ) -> Result<Arc<ChangeBatch>> {
        if keys.caching {
            let cache = &self.reader.cache;
            let decoded = cache.extent(keys.segment, extent, counters).await?;
            return Ok(Arc::clone(decoded.rows()));
        }
        keys.segment.read_extent(extent, counters).await
    }

    /// Gallops through the rows of an extent.
    fn join(
        &self,
        keys: &InSegment<'_>,
        wanted: Range<usize>,
        rows: &ChangeBatch,
        known: &mut [Option<Known>],
    ) -> Result<()> {
        let columns = self.layout.codec.indices().iter().zip(&keys.columns);
        let comparators: Result<Vec<DynComparator>> = columns
            .map(|(at, wanted)| {
                let options = SortOptions::new(false, true);
                let made = make_comparator(rows.data.column(*at), wanted, options);
                made.map_err(|error| Error::internal(error.to_string()))
            })
            .collect();
        let comparators = comparators?;
        let compare = |row: usize, wanted: usize| {
            let mut orders = comparators.iter().map(|compare| compare(row, wanted));
            let unequal = orders.find(|order| order.is_ne());
            unequal.unwrap_or(Ordering::Equal)
        };
        let ids = rows.data.column(self.id_at).as_primitive::<Int64Type>();
        let mut at = 0;
        for wanted in wanted {
            at = gallop(rows.rows(), at, |row| compare(row, wanted).is_lt());
            if at < rows.rows() && compare(at, wanted).is_eq() {
                let (_, place) = keys.places[wanted];
                known[place as usize] = Some(Known {
                    id: ids.value(at),
                    scu: rows.scu(at),
                });
            }
        }
        Ok(())
    }
}

/// The first row of `rows` at or after `from` that is not before what is wanted.
fn gallop(rows: usize, from: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high, mut step) = (from, from, 1);
    while high < rows && before(high) {
        low = high + 1;
        high += step;
        step *= 2;
    }
    high = high.min(rows);
    while low < high {
        let middle = low + (high - low) / 2;
        match before(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests;
