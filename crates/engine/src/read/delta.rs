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
//! What the runs say is made in layers, the newest of which that knows a key decides it: sorted
//! SCUs that come in later add a layer of their own, and small neighbours are joined. So a reader
//! at a new horizon pays for what is new.
//!
//! Invariant VIEW-1: every entry that the changes of a delta can have touched is decided by the
//! delta alone: the view's own entry of a changed key counts for nothing.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use futures::TryStreamExt;
use futures::stream::{self, BoxStream, StreamExt};
use lazybase_model::change::StoredKind;
use lazybase_model::{ColumnId, Error, Result, ScuNumber};

use super::arrow_internal;
use super::own::{OwnChanges, changes_of};
use super::paths::RangePaths;
use super::scan::{codec_of, key_codec};
use super::snapshot::Snapshot;
use super::source::{Chunk, PieceReader, Source};
use super::steps;
use crate::change_batch::{ChangeBatch, Projection, masks};
use crate::env::planted::{Planted, is_planted};
use crate::key::{Key, KeyCodec};
use crate::manifest::{RunId, TableState};
use crate::segment::RowLayout;
use crate::stages::merge::{MergeMode, MergeShape, Merger, OutputSize, drive};
use crate::stages::sort::sort_changes;

mod kept;

pub(super) use kept::{KeptDeltas, Since};

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

/// What became of the keys that changed in a stretch of the order.
#[derive(Debug)]
pub(super) struct Layer {
    /// Their entries, in the order of the view.
    entries: Arc<Vec<Chunk>>,
    /// The keys, each with the key of its entry, if it has one.
    changed: HashMap<Box<[u8]>, Option<Box<[u8]>>>,
}

/// Two neighbouring layers are joined once the newer has at least a quarter of the older's keys: so
/// a change is gone through a logarithmic number of times.
const LAYER_RATIO: usize = 4;

/// What became of the keys that changed since a boundary: layers, older ones first.
#[derive(Debug, Default)]
pub(super) struct Delta {
    layers: Vec<Arc<Layer>>,
}

impl Delta {
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
            match self.entry(of_table.row(row).as_ref()) {
                None => true,
                Some(entry) => entry == Some(of_view.row(row).as_ref()),
            }
        };
        let kept: Vec<u32> = (0..rows.rows() as u32).filter(counts).collect();
        match kept.len() == rows.rows() {
            true => Ok(rows),
            false => rows.take(&UInt32Array::from(kept)),
        }
    }

    /// The key of the entry that a changed key has, if it has one; `None` for other keys.
    fn entry(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        let mut newest_first = self.layers.iter().rev();
        let decided = newest_first.find_map(|layer| layer.changed.get(key));
        decided.map(Option::as_deref)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.layers.iter().all(|layer| layer.changed.is_empty())
    }

    /// The entries of each layer that has some, older ones first.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<Vec<Chunk>>> {
        let entries = self.layers.iter().map(|layer| &layer.entries);
        entries.filter(|entries| !entries.is_empty())
    }
}

impl Layer {
    /// About how many bytes it takes.
    fn bytes(&self) -> usize {
        let entries = self.entries.iter().map(|chunk| chunk.rows.memory_bytes());
        let key = |entry: &Option<Box<[u8]>>| entry.as_ref().map_or(0, |key| key.len());
        let changed = self.changed.iter();
        let changed = changed.map(|(row, entry)| 48 + row.len() + key(entry));
        entries.chain(changed).sum()
    }

    /// This one and the next newer one as one.
    fn joined(&self, newer: &Layer, view: &RowLayout, table: &RowLayout) -> Result<Layer> {
        let all: Vec<usize> = (0..view.table.columns.len()).collect();
        let codec = codec_of(view, &table_key_in(view, table)?, None, &all)?;
        let codec = codec.ok_or_else(|| Error::internal("a view lacks its table's key"))?;
        let mut entries = Vec::new();
        for chunk in self.entries.iter() {
            let keys = codec.encode(&chunk.rows.data)?;
            let stays = |row: &u32| !newer.changed.contains_key(keys.row(*row as usize).as_ref());
            let kept = (0..chunk.rows.rows() as u32).filter(stays);
            entries.push(chunk.rows.take(&UInt32Array::from_iter_values(kept))?);
        }
        entries.extend(
            newer
                .entries
                .iter()
                .map(|chunk| chunk.rows.as_ref().clone()),
        );
        let mut changed = self.changed.clone();
        let newer = newer.changed.iter();
        changed.extend(newer.map(|(key, entry)| (key.clone(), entry.clone())));
        Layer::new(view, &entries, changed)
    }

    fn new(
        view: &RowLayout,
        entries: &[ChangeBatch],
        changed: HashMap<Box<[u8]>, Option<Box<[u8]>>>,
    ) -> Result<Layer> {
        let sorted = sort_changes(view, entries)?;
        let chunks = sorted.into_iter().map(|rows| Chunk::new(view, rows));
        Ok(Layer {
            entries: Arc::new(chunks.collect::<Result<_>>()?),
            changed,
        })
    }
}

/// Where the columns of a table's key stand in a view.
pub(super) fn table_key_in(view: &RowLayout, table: &RowLayout) -> Result<Vec<usize>> {
    let columns = &view.table.columns;
    let place = |id: &ColumnId| columns.iter().position(|column| column.id == *id);
    let key = table.table.primary.key.iter().map(place);
    let key: Option<Vec<usize>> = key.collect();
    key.ok_or_else(|| Error::internal("a view lacks its table's key"))
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
            projection: Arc::new(Projection::new(&layout.schema, columns)?),
            versions: false,
            views: false,
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

    /// What became of everything that changed in a table since a view's end, where `route` begins,
    /// as the view shows it; with what was made of it before, if that is kept.
    pub(super) async fn delta_since(
        &self,
        since: &Since,
        layout: &Arc<RowLayout>,
        view: &Arc<RowLayout>,
        route: &Route,
        buffered: &[OwnChanges],
    ) -> Result<Arc<Delta>> {
        let kept = &self.inner.reader.deltas;
        let own = !buffered.is_empty();
        if let Some(delta) = kept.at(since, self.horizon()).filter(|_| !own) {
            return Ok(delta);
        }
        let mut layers = self.sorted_layers(since, layout, view, route).await?;
        let memory = self.memory_sources(layout, &changes_of(buffered)).await?;
        if !memory.is_empty() {
            let nothing = vec![Vec::new(); route.len()];
            let newest = self.layer(layout, view, &nothing, &memory, buffered);
            layers.push(Arc::new(newest.await?));
        }
        let delta = Arc::new(Delta { layers });
        if !own {
            kept.keep_at(since, self.inner.choice.sorted, self.horizon(), &delta);
        }
        Ok(delta)
    }

    /// The layers of what is sorted: those that are kept, and one of what is newer.
    async fn sorted_layers(
        &self,
        since: &Since,
        layout: &Arc<RowLayout>,
        view: &Arc<RowLayout>,
        route: &Route,
    ) -> Result<Vec<Arc<Layer>>> {
        let kept = &self.inner.reader.deltas;
        let sorted = self.inner.choice.sorted;
        let table = self.inner.manifest.tables.get(&layout.table.id);
        let (older, mut layers, route) = match kept.usable(since, sorted, self.horizon()) {
            Some((older, layers)) if older == sorted => return Ok(layers),
            Some((older, layers)) => match table.and_then(|table| self.route(table, older)) {
                Some(route) => (Some(older), layers, Cow::Owned(route)),
                None => (None, Vec::new(), Cow::Borrowed(route)),
            },
            None => (None, Vec::new(), Cow::Borrowed(route)),
        };
        let newest = self.layer(layout, view, &route, &[], &[]).await?;
        if !newest.changed.is_empty() {
            layers.push(Arc::new(newest));
        }
        while let [.., one, other] = layers.as_slice()
            && other.changed.len() * LAYER_RATIO >= one.changed.len()
        {
            let joined = Arc::new(one.joined(other, view, layout)?);
            layers.truncate(layers.len() - 2);
            layers.push(joined);
        }
        kept.keep(since, older, (sorted, self.horizon()), &layers);
        Ok(layers)
    }

    /// What became of the keys that a route and `memory` after it change, at this horizon.
    async fn layer(
        &self,
        layout: &Arc<RowLayout>,
        view: &Arc<RowLayout>,
        route: &Route,
        memory: &[Source],
        buffered: &[OwnChanges],
    ) -> Result<Layer> {
        let columns = ViewColumns::new(layout, view)?;
        let lacking = || Error::internal("a view lacks its table's key");
        let order = key_codec(layout, &columns.of_table)?.ok_or_else(lacking)?;
        let rows = codec_of(layout, layout.codec.indices(), None, &columns.of_table)?;
        let mut maker = LayerMaker {
            view,
            columns: &columns,
            codec: rows.ok_or_else(lacking)?,
            order,
            entries: Vec::new(),
            changed: HashMap::new(),
        };
        let mut changes = self
            .changes(layout, route, memory, &columns.of_table)
            .await?;
        while let Some(changes) = changes.try_next().await? {
            self.check_pin()?;
            let incomplete = maker.take(&changes)?;
            let rows = self
                .rows_of(layout, &incomplete, &columns.of_table, buffered)
                .await?;
            maker.add(&rows)?;
        }
        Layer::new(view, &maker.entries, maker.changed)
    }
}

/// Gathers a layer, batch by batch.
struct LayerMaker<'a> {
    view: &'a Arc<RowLayout>,
    columns: &'a ViewColumns,
    /// Tells rows apart, as the filter of the view's entries does.
    codec: Arc<KeyCodec>,
    /// The keys that the table is sorted by.
    order: Arc<KeyCodec>,
    entries: Vec<ChangeBatch>,
    changed: HashMap<Box<[u8]>, Option<Box<[u8]>>>,
}

impl LayerMaker<'_> {
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
            } else if kind.is_total() && is_planted(Planted::ViewChangeMissed) {
                // The view's own entry of the key goes on to count.
            } else if kind.is_total() {
                self.changed.insert(key.into(), None);
            } else if is_planted(Planted::UnplacedMissed) {
                // So do the values that it shows.
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
}

/// Whether a mask has a bit of one of the first `width` columns.
fn sets_any(mask: &[u8], width: usize) -> bool {
    masks::bits(mask).next().is_some_and(|first| first < width)
}
