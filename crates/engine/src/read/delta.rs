//! What changed in a table since a boundary, and what became of the changed rows: with it a
//! secondary view that ends at the boundary is read at a newer horizon (trap 2 of the design,
//! section 5).
//!
//! ```text
//!   runs after the boundary, unsorted SCUs, own changes --compose--> one change a key
//!        fixes the row whatever was there   -> the entry it makes, or none
//!        leaves the view's columns alone    -> nothing
//!        anything else                      -> the row, completed from the table by its key
//! ```
//!
//! Invariant VIEW-1: every entry that the changes of a delta can have touched is decided by the
//! delta alone: the view's own entry of a changed key counts for nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use futures::TryStreamExt;
use futures::stream::{self, BoxStream, StreamExt};
use lazybase_model::change::StoredKind;
use lazybase_model::{Error, Horizon, Result, ScuNumber, TableId};
use parking_lot::Mutex;

use super::arrow_internal;
use super::paths::RangePaths;
use super::scan::{codec_of, key_codec};
use super::snapshot::Snapshot;
use super::source::{Chunk, PieceReader, Source};
use super::steps;
use crate::change_batch::{ChangeBatch, masks};
use crate::key::{Key, KeyCodec};
use crate::manifest::{RunId, TableState};
use crate::segment::RowLayout;
use crate::stages::merge::{MergeMode, MergeShape, Merger, OutputSize, drive};
use crate::stages::sort::sort_changes;

/// A delta that reads more bytes of runs than this is dearer than the table.
pub(super) const DELTA_BYTES_MAX: u64 = 64 << 20;

/// How the columns of a view stand among those of its table.
#[derive(Debug, Clone)]
pub(super) struct ViewColumns {
    /// Positions in the table's columns, rising: what is read of it.
    pub(super) of_table: Vec<usize>,
    /// Where each column of the view stands among those.
    pub(super) places: Vec<usize>,
}

impl ViewColumns {
    pub(super) fn new(table: &RowLayout, view: &RowLayout) -> Result<ViewColumns> {
        let columns = &table.table.columns;
        let position = |id| columns.iter().position(|column| column.id == id);
        let in_table: Option<Vec<usize>> = view
            .table
            .columns
            .iter()
            .map(|column| position(column.id))
            .collect();
        let in_table =
            in_table.ok_or_else(|| Error::internal("a view has a column that its table lacks"))?;
        let mut of_table = in_table.clone();
        of_table.sort_unstable();
        let places = in_table
            .iter()
            .map(|column| of_table.partition_point(|other| other < column))
            .collect();
        Ok(ViewColumns { of_table, places })
    }

    /// Stored rows with the columns `of_table` as rows of the view.
    pub(super) fn entries(&self, view: &RowLayout, rows: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.places.iter().map(|at| Arc::clone(rows.column(*at)));
        RecordBatch::try_new(Arc::clone(&view.schema), columns.collect())
            .map_err(|error| Error::corrupt(format!("rows do not fit their view: {error}")))
    }
}

/// The keys that changed since a boundary, each with the key of its entry now, if it has one.
#[derive(Debug)]
pub(super) struct Changed {
    entries: HashMap<Box<[u8]>, Option<Box<[u8]>>>,
}

impl Changed {
    /// The rows of a view that count: those of unchanged keys, and the delta's own. The codecs
    /// read the table's key and the view's.
    pub(super) fn filter(
        &self,
        rows: ChangeBatch,
        table_key: &KeyCodec,
        view_key: &KeyCodec,
    ) -> Result<ChangeBatch> {
        let of_table = table_key.encode(&rows.data)?;
        let of_view = view_key.encode(&rows.data)?;
        let counts = |row: &u32| {
            let row = *row as usize;
            match self.entries.get(of_table.row(row).as_ref()) {
                None => true,
                Some(entry) => entry.as_deref() == Some(of_view.row(row).as_ref()),
            }
        };
        let kept: Vec<u32> = (0..rows.rows() as u32).filter(counts).collect();
        match kept.len() == rows.rows() {
            true => Ok(rows),
            false => rows.take(&UInt32Array::from(kept)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// What became of the keys that changed since a boundary.
#[derive(Debug)]
pub(super) struct Delta {
    /// Their entries, in the order of the view.
    pub(super) entries: Arc<Vec<Chunk>>,
    pub(super) changed: Arc<Changed>,
}

impl Delta {
    /// About how many bytes it takes.
    fn bytes(&self) -> usize {
        let entries = self.entries.iter().map(|chunk| chunk.rows.memory_bytes());
        let key = |entry: &Option<Box<[u8]>>| entry.as_ref().map_or(0, |key| key.len());
        let changed = self.changed.entries.iter();
        let changed = changed.map(|(row, entry)| 48 + row.len() + key(entry));
        entries.chain(changed).sum()
    }
}

/// Of which view, since which boundary, at which horizon: the same delta whatever stage its
/// changes are in.
type DeltaOf = (TableId, ScuNumber, Horizon);

/// The deltas that were made last: a query at the same horizon needs no new one.
#[derive(Debug, Default)]
pub(super) struct KeptDeltas(Mutex<VecDeque<(DeltaOf, usize, Arc<Delta>)>>);

/// All deltas that are kept take at most so many bytes.
const KEPT_BYTES_MAX: usize = 64 << 20;

impl KeptDeltas {
    fn get(&self, of: DeltaOf) -> Option<Arc<Delta>> {
        let kept = self.0.lock();
        let mut kept = kept.iter();
        kept.find(|(known, ..)| *known == of)
            .map(|(.., delta)| Arc::clone(delta))
    }

    fn keep(&self, of: DeltaOf, delta: &Arc<Delta>) {
        let mut kept = self.0.lock();
        kept.retain(|(known, ..)| *known != of);
        kept.push_back((of, delta.bytes(), Arc::clone(delta)));
        let mut bytes: usize = kept.iter().map(|(_, bytes, _)| bytes).sum();
        while bytes > KEPT_BYTES_MAX {
            bytes -= kept.pop_front().map_or(bytes, |(_, bytes, _)| bytes);
        }
    }
}

/// The runs that lead from a boundary to a newer one, for each range of a table.
pub(super) type Route = Vec<Vec<RunId>>;

impl Snapshot {
    /// The runs with what changed in a table after `from`, up to the snapshot's boundary of
    /// sorted data; `None` if they can't be told from what came before.
    pub(super) fn route(&self, table: &TableState, from: ScuNumber) -> Option<Route> {
        let manifest = &self.inner.manifest;
        let (_, damaged) = self.inner.reader.damaged.files();
        let to = self.inner.choice.sorted;
        let range = |at| RangePaths::since(manifest, table, at, from, &damaged).cheapest(to);
        (0..table.ranges.len()).map(range).collect()
    }

    /// The bytes that the runs of a route hold.
    pub(super) fn route_bytes(&self, route: &Route) -> u64 {
        let mut runs: Vec<RunId> = route.iter().flatten().copied().collect();
        runs.sort_unstable();
        runs.dedup();
        let runs = runs
            .iter()
            .filter_map(|id| self.inner.manifest.runs.get(id));
        runs.map(|run| run.bytes()).sum()
    }

    /// The changes of a route and of `memory` after it, one a key, in the order of keys; of these
    /// columns, which rise and hold the key's.
    pub(super) async fn changes(
        &self,
        layout: &Arc<RowLayout>,
        route: &Route,
        memory: &[Source],
        columns: &[usize],
    ) -> Result<BoxStream<'static, Result<ChangeBatch>>> {
        let manifest = &self.inner.manifest;
        let table = manifest.tables.get(&layout.table.id);
        let table = table.ok_or_else(|| Error::internal("a table left its snapshot"))?;
        let shape = MergeShape::of(layout);
        let reader = PieceReader {
            cache: Arc::clone(&self.inner.reader.cache),
            counters: Arc::clone(&self.inner.counters),
            codec: key_codec(layout, columns)?,
            caching: true,
            columns: columns.into(),
            versions: false,
        };
        let mut ranges = Vec::new();
        for (state, runs) in table.ranges.iter().zip(route) {
            let mut sources = Vec::new();
            for run in runs.iter().filter_map(|id| manifest.runs.get(id)) {
                sources.push(self.run_source(layout, run, &state.range).await?);
            }
            sources.extend(memory.iter().cloned());
            let mut inputs = Vec::new();
            for source in sources {
                let stretches = steps::stretches_of(&source, 0, &state.range);
                if !stretches.is_empty() {
                    let range = state.range.clone();
                    inputs.push(reader.clone().stream(source, stretches, range));
                }
            }
            if !inputs.is_empty() {
                let size = OutputSize::default();
                let shape = shape.clone().within(&state.range).project(columns)?;
                let merger = Merger::new(&shape, inputs.len(), MergeMode::Changes, size)?;
                ranges.push(drive(merger, inputs).boxed());
            }
        }
        Ok(stream::iter(ranges).flatten().boxed())
    }

    /// What became of everything that changed in a table after `from`, where `route` begins, as a
    /// view of it shows it; from what was made of it before, if that is kept.
    pub(super) async fn delta_since(
        &self,
        from: ScuNumber,
        layout: &Arc<RowLayout>,
        view: &Arc<RowLayout>,
        route: &Route,
        buffered: &[ChangeBatch],
    ) -> Result<Arc<Delta>> {
        let kept = &self.inner.reader.deltas;
        let of = (view.table.id, from, self.horizon());
        if let Some(delta) = kept.get(of).filter(|_| buffered.is_empty()) {
            return Ok(delta);
        }
        let delta = Arc::new(self.delta(layout, view, route, buffered).await?);
        if buffered.is_empty() {
            kept.keep(of, &delta);
        }
        Ok(delta)
    }

    async fn delta(
        &self,
        layout: &Arc<RowLayout>,
        view: &Arc<RowLayout>,
        route: &Route,
        buffered: &[ChangeBatch],
    ) -> Result<Delta> {
        let memory = self.memory_sources(layout, buffered).await?;
        let columns = ViewColumns::new(layout, view)?;
        let lacking = || Error::internal("a view lacks its table's key");
        let order = key_codec(layout, &columns.of_table)?.ok_or_else(lacking)?;
        let rows = codec_of(layout, layout.codec.indices(), None, &columns.of_table)?;
        let mut maker = DeltaMaker {
            view,
            columns: &columns,
            codec: rows.ok_or_else(lacking)?,
            order,
            entries: Vec::new(),
            changed: HashMap::new(),
        };
        let mut changes = self
            .changes(layout, route, &memory, &columns.of_table)
            .await?;
        while let Some(changes) = changes.try_next().await? {
            self.check_pin()?;
            let incomplete = maker.take(&changes)?;
            let rows = self
                .rows_of(layout, &incomplete, &columns.of_table, buffered)
                .await?;
            maker.add(&rows)?;
        }
        maker.finish()
    }
}

/// Gathers a delta, batch by batch.
struct DeltaMaker<'a> {
    view: &'a Arc<RowLayout>,
    columns: &'a ViewColumns,
    /// Tells rows apart, as the filter of the view's entries does.
    codec: Arc<KeyCodec>,
    /// The keys that the table is sorted by.
    order: Arc<KeyCodec>,
    entries: Vec<ChangeBatch>,
    changed: HashMap<Box<[u8]>, Option<Box<[u8]>>>,
}

impl DeltaMaker<'_> {
    /// Takes what is decided by the changes themselves; gives the keys of the rest.
    fn take(&mut self, changes: &ChangeBatch) -> Result<Vec<Key>> {
        let keys = self.codec.encode(&changes.data)?;
        let width = changes.data.num_columns();
        let (mut rows, mut incomplete) = (Vec::new(), Vec::new());
        let mut row = 0;
        while row < changes.rows() {
            let kind = changes.kind(row);
            let key = keys.row(row);
            let key = key.as_ref();
            if kind == StoredKind::UPSERT {
                rows.push(row as u32);
            } else if kind.is_total() {
                self.changed.insert(key.into(), None);
            } else if kind != StoredKind::UPDATE || sets_any(changes.mask(row), width) {
                incomplete.push(row as u32);
                self.changed.insert(key.into(), None);
            }
            row += 1 + usize::from(kind.is_split());
        }
        let taken = |rows| {
            let rows = take_record_batch(&changes.data, &UInt32Array::from(rows));
            rows.map_err(arrow_internal)
        };
        self.add(&taken(rows)?)?;
        let keys = self.order.encode(&taken(incomplete)?)?;
        Ok(keys.iter().map(|key| Key::new(key.as_ref())).collect())
    }

    /// Adds the rows that keys have now.
    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let keys = self.codec.encode(rows)?;
        let entries = self.columns.entries(self.view, rows)?;
        let of_view = self.view.codec.encode(&entries)?;
        for row in 0..rows.num_rows() {
            let entry = Some(of_view.row(row).as_ref().into());
            self.changed.insert(keys.row(row).as_ref().into(), entry);
        }
        self.entries.push(ChangeBatch::upserts(entries, 0));
        Ok(())
    }

    fn finish(self) -> Result<Delta> {
        let sorted = sort_changes(self.view, &self.entries)?;
        let chunk = |rows| Chunk::new(self.view, rows);
        let chunks: Result<Vec<Chunk>> = sorted.into_iter().map(chunk).collect();
        Ok(Delta {
            entries: Arc::new(chunks?),
            changed: Arc::new(Changed {
                entries: self.changed,
            }),
        })
    }
}

/// Whether a mask has a bit of one of the first `width` columns.
fn sets_any(mask: &[u8], width: usize) -> bool {
    masks::bits(mask).next().is_some_and(|first| first < width)
}
