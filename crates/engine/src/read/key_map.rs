//! Many keys at once in a stored key map: each run is galloped through in key order, so that the
//! cost follows the keys and not the map.
//!
//! ```text
//!   keys in order --> run's segments --> filter --> extents that may hold some --> merge-join
//! ```
//!
//! Reads indexes and extents of the map's runs; of an SCU whose run is damaged, the log, for every
//! key: a run that is whole and wrong may lack some at its ends. Where no log is left, such a run
//! does not even say that a key is new. A key stands in one run only: maps only grow, and never
//! change a row. A sorted SCU that is read from its log finds the map as it was before, where that
//! is kept: what was made of the SCU's own run may be as wrong as that.

use std::cmp::{Ordering, Reverse};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, DynComparator, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::Int64Type;
use lazybase_model::{Error, Result, ScuNumber};

use super::damaged::DamagedFiles;
use super::identify::Identifier;
use super::paths::{damage_in, log_of, segments_in};
use super::remedy::answered_by;
use super::snapshot::Reader;
use crate::change_batch::ChangeBatch;
use crate::key::Key;
use crate::manifest::{KeyRange, Manifest, Run, RunKind, ScuEntry, SegmentMeta, TableState};
use crate::segment::{ReadCounters, RowLayout, Segment};
use crate::stages::remap::Known;
use crate::stages::remap::sorted_keys::{SortedKeys, gallop};

/// What the runs of a key map that reach back before `scu` hold of these keys, at their places
/// among `count`.
///
/// # Errors
/// `Corrupt` when a run is damaged, and nothing else leads to the same boundary, nor is its log
/// left.
pub(super) async fn find_in_map(
    ids: &Identifier,
    map: &TableState,
    scu: ScuNumber,
    keys: &SortedKeys,
    count: usize,
) -> Result<Vec<Option<Known>>> {
    let mut known = Found {
        known: vec![None; count],
        is_found: vec![false; keys.len()],
    };
    let damaged = &ids.reader.damaged;
    loop {
        let avoided = damaged.version();
        let found = find(ids, (map, scu), keys, &mut known).await;
        match found {
            // Other runs may lead there without the file that was just found damaged, or its log.
            Err(error) if error.damaged_file().is_some() && damaged.version() > avoided => {}
            found => return found.map(|()| known.known),
        }
    }
}

/// What was found so far.
struct Found {
    /// By the keys' places.
    known: Vec<Option<Known>>,
    /// Whether there is one, by the order of keys.
    is_found: Vec<bool>,
}

async fn find(
    ids: &Identifier,
    (map, scu): (&TableState, ScuNumber),
    keys: &SortedKeys,
    found: &mut Found,
) -> Result<()> {
    let (reader, manifest) = (&ids.reader, &ids.manifest);
    let (_, damaged) = reader.damaged.files();
    let mut wrong = damaged.as_ref().clone();
    wrong.retain(|file, _| reader.damaged.is_condemned(file));
    let lookup = Lookup {
        ids,
        map,
        reader,
        layout: reader.layout(&map.table)?,
        id_at: map.table.key_map_id(),
        keys,
        wrong,
    };
    for (at, range) in map.ranges.iter().enumerate() {
        let bound = |bound: &Option<Key>| {
            let bound = bound.as_ref()?;
            Some(keys.first_from(0, bound.as_bytes()))
        };
        let from = bound(&range.range.low).unwrap_or(0);
        let to = bound(&range.range.high).unwrap_or(keys.len());
        if from >= to {
            continue;
        }
        let mut runs = runs_of(reader, manifest, map, (at, scu.previous()));
        runs.retain(|run| run.span.first < scu || run.span.is_empty());
        let log = |run: &Run| {
            let is_whole = damage_in(run, &range.range, &damaged).is_none();
            if is_whole && !lookup.is_wrong(run) {
                return None;
            }
            log_of(manifest, run, &damaged)
        };
        // Most keys are in the largest run: the others are then asked for what is left, and logs,
        // which are read as a whole, come last.
        runs.sort_by_key(|run| (log(run).is_some(), Reverse(run.bytes())));
        for run in &runs {
            match log(run) {
                Some(entry) => lookup.in_log(entry, from..to, found).await?,
                None => lookup.in_run(run, from..to, found).await?,
            }
        }
        for run in runs.iter().filter(|run| log(run).is_none()) {
            let segments = match run.kind {
                // Those of other key ranges too: a key that a sort lacks can belong to any.
                RunKind::Sorted => run.segments.as_slice(),
                RunKind::Merged | RunKind::Base => segments_in(run, &range.range),
            };
            lookup.refuse_wrong(segments, run.kind, from..to, found)?;
        }
    }
    Ok(())
}

/// The runs of a range that together hold what is sorted up to a boundary, or else all that is
/// sorted; none of them damaged if that can be.
fn runs_of<'m>(
    reader: &Reader,
    manifest: &'m Arc<Manifest>,
    map: &TableState,
    (at, boundary): (usize, ScuNumber),
) -> Vec<&'m Arc<Run>> {
    let index = reader.index(manifest);
    let sorted = manifest.sorted_through;
    let whole = index.ranges(map.table.id).and_then(|ranges| {
        let range = ranges.get(at)?;
        let before = range.cheapest(boundary.min(sorted));
        before.or_else(|| range.cheapest(sorted))
    });
    let current = || {
        let entries = &map.ranges[at].runs;
        let current = entries.iter().filter(|run| run.is_current());
        current.map(|run| run.id).collect()
    };
    let runs = whole.unwrap_or_else(current);
    runs.into_iter().map(|run| manifest.run(run)).collect()
}

struct Lookup<'l> {
    ids: &'l Identifier,
    map: &'l TableState,
    reader: &'l Reader,
    layout: Arc<RowLayout>,
    id_at: usize,
    keys: &'l SortedKeys,
    /// Files that are whole and wrong.
    wrong: DamagedFiles,
}

/// The keys that one segment may hold.
struct InSegment<'s> {
    segment: &'s Arc<Segment>,
    /// Whether extents are kept for the next reader: not where the run would flush the cache.
    caching: bool,
    /// Positions of keys in their order, each with its extent.
    keys: Vec<(usize, usize)>,
    /// The same keys as columns.
    columns: Vec<ArrayRef>,
}

impl Lookup<'_> {
    async fn in_run(&self, run: &Run, keys: Range<usize>, found: &mut Found) -> Result<()> {
        let counters = ReadCounters::default();
        let (env, cache) = (&self.reader.env, &self.reader.cache);
        let bytes: u64 = run.segments.iter().map(|segment| segment.raw_bytes).sum();
        let mut from = keys.start;
        for meta in &run.segments {
            let (low, high) = (meta.min_key.as_bytes(), meta.max_key.as_bytes());
            from = self.keys.first_from(from, low).min(keys.end);
            let within = |at| self.keys.key(at) <= high;
            let inside = from..gallop(keys.end, from, within);
            from = inside.end;
            if inside.is_empty() || self.wrong.contains_key(&meta.file) {
                continue;
            }
            let segment = cache.open(env, &self.layout, meta, &counters).await;
            let segment = segment.inspect_err(|error| self.note(error))?;
            let keys = self.possible(&segment, inside, &found.is_found);
            let columns = self.columns(&keys)?;
            let in_segment = InSegment {
                segment: &segment,
                caching: cache.has_room_for(bytes),
                keys,
                columns,
            };
            self.in_segment(&in_segment, found, &counters).await?;
        }
        Ok(())
    }

    /// Whether a run has a file that is whole and wrong, be it for another key range.
    fn is_wrong(&self, run: &Run) -> bool {
        let mut files = run.segments.iter().map(|segment| &segment.file);
        files.any(|file| self.wrong.contains_key(file))
    }

    /// What a run should hold of the keys that were found nowhere is not known where its file for
    /// them is whole and wrong.
    fn refuse_wrong(
        &self,
        segments: &[Arc<SegmentMeta>],
        kind: RunKind,
        keys: Range<usize>,
        found: &Found,
    ) -> Result<()> {
        for (at, segment) in segments.iter().enumerate() {
            let Some(error) = self.wrong.get(&segment.file) else {
                continue;
            };
            // Keys that a sort lacks can belong to any of its files.
            let answered = match kind {
                RunKind::Sorted => KeyRange::default(),
                RunKind::Merged | RunKind::Base => answered_by(segments, at),
            };
            let place = |key: Key| self.keys.first_from(0, key.as_bytes());
            let low = answered.low.map_or(keys.start, place).max(keys.start);
            let high = answered.high.map_or(keys.end, place).min(keys.end);
            if (low..high).any(|at| !found.is_found[at]) {
                return Err(error.clone());
            }
        }
        Ok(())
    }

    /// The keys that are not known yet, in the log of the SCU of a damaged run.
    async fn in_log(&self, entry: &ScuEntry, keys: Range<usize>, found: &mut Found) -> Result<()> {
        let open: Vec<usize> = keys.filter(|at| !found.is_found[*at]).collect();
        if open.is_empty() {
            return Ok(());
        }
        let scu = self.ids.logged(self.map, entry).await;
        let scu = scu.inspect_err(|error| self.note(error))?;
        let state = scu.remap.lock().await;
        let Some(assigned) = state.get(&self.map.table.id) else {
            return Ok(());
        };
        for at in open {
            if let Some(id) = assigned.fresh(self.keys.hash(at), self.keys.key(at)) {
                found.is_found[at] = true;
                let scu = entry.scu.0;
                found.known[self.keys.place(at) as usize] = Some(Known { id, scu });
            }
        }
        Ok(())
    }

    /// Which of the keys at `inside` a segment may hold, each with its extent.
    fn possible(
        &self,
        segment: &Segment,
        inside: Range<usize>,
        is_found: &[bool],
    ) -> Vec<(usize, usize)> {
        let extents = segment.extents();
        let mut possible = Vec::with_capacity(inside.len());
        let mut extent = 0;
        for at in inside {
            if is_found[at] {
                continue;
            }
            let key = self.keys.key(at);
            extent = gallop(extents.len(), extent, |extent| {
                extents.max_key(extent) < key
            });
            if extent < extents.len() && extents.may_hold(extent, key, self.keys.hash(at)) {
                possible.push((extent, at));
            }
        }
        possible
    }

    fn note(&self, error: &Error) {
        self.reader.damaged.note(error);
    }

    /// Keys as columns, to be compared with those of rows.
    fn columns(&self, keys: &[(usize, usize)]) -> Result<Vec<ArrayRef>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let keys = keys.iter().map(|(_, at)| self.keys.key(*at));
        self.layout.codec.decode_bytes(keys)
    }

    /// Keys of one extent are looked for together.
    async fn in_segment(
        &self,
        wanted: &InSegment<'_>,
        found: &mut Found,
        counters: &ReadCounters,
    ) -> Result<()> {
        let mut first = 0;
        while let Some((extent, _)) = wanted.keys.get(first) {
            let same = gallop(wanted.keys.len(), first, |at| wanted.keys[at].0 == *extent);
            let rows = self.extent(wanted, *extent, counters).await;
            let rows = rows.inspect_err(|error| self.note(error))?;
            self.join(wanted, first..same, &rows, found)?;
            first = same;
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
        found: &mut Found,
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
        let mut row = 0;
        for wanted in wanted {
            row = gallop(rows.rows(), row, |row| compare(row, wanted).is_lt());
            if row < rows.rows() && compare(row, wanted).is_eq() {
                let (_, at) = keys.keys[wanted];
                found.is_found[at] = true;
                found.known[self.keys.place(at) as usize] = Some(Known {
                    id: ids.value(row),
                    scu: rows.scu(row),
                });
            }
        }
        Ok(())
    }
}
