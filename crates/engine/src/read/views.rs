//! Reads of secondary views (section 3.2 of the paper; trap 2 of the design, section 5).
//!
//! A view's runs hold its entries up to a boundary of its own. A read at a newer horizon takes the
//! entries in range, without those whose rows changed since, and the entries of the changed rows
//! ([`super::delta`]): the same rows as the table has at that horizon, whatever stage the changes
//! are in. Where the view can't be read so, or only dearly, its table answers.
//!
//! The plans of views are scan plans like those of tables; VIEW-1 is kept by a filter behind the
//! reconciling.

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::compute::take_record_batch;
use async_recursion::async_recursion as boxed;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use lazybase_model::{Error, Result, ScuNumber, Stage, TableId};

use super::arrow_internal;
use super::delta::{DELTA_BYTES_MAX, Delta, Route, Since, ViewColumns, table_key_in};
use super::paths::{RangePaths, TablePath, TablePaths};
use super::point::stage_of;
use super::scan::{Form, ScanPlan, ScanRequest};
use super::snapshot::Snapshot;
use super::source::{Source, intersection};
use super::steps;
use crate::change_batch::ChangeBatch;
use crate::key::{Key, KeyCodec};
use crate::manifest::{KeyRange, Manifest, RunId, TableState};
use crate::read::damaged::DamagedFiles;
use crate::segment::RowLayout;
use crate::stages::sort::sort_changes;

/// How many older ends of a view are tried where the newest lies after the horizon.
const ENDS_TRIED: usize = 16;

/// Whether the changes of a table after a boundary can be told from those before it: what brings
/// a view from `from` to `to`.
pub fn leads_on(manifest: &Manifest, table: &TableState, from: ScuNumber, to: ScuNumber) -> bool {
    let whole = DamagedFiles::new();
    (0..table.ranges.len()).all(|at| {
        let paths = RangePaths::since(manifest, table, at, from, &whole);
        paths.cheapest(to).is_some()
    })
}

/// The runs of one range of a table that readers and builders of views that end at `from` need,
/// so that they may not be retired.
pub(crate) fn needed_runs(
    manifest: &Manifest,
    table: &TableState,
    at: usize,
    from: ScuNumber,
) -> Vec<RunId> {
    let whole = DamagedFiles::new();
    let paths = RangePaths::since(manifest, table, at, from, &whole);
    let Some(mut needed) = paths.all_runs(manifest.sorted_through) else {
        // Nothing leads on from there: the view will be built anew.
        return Vec::new();
    };
    let before = RangePaths::new(manifest, table, at, &whole);
    needed.extend(before.runs_to(from, usize::MAX));
    needed
}

/// How many of how many columns are read.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// The columns read.
    pub columns: usize,
    /// All that there are.
    pub of: usize,
}

impl Share {
    /// About the part of `bytes` that a read of the columns takes: extents are read whole, but
    /// the authority of most tables column by column.
    fn part(self, bytes: u64) -> u64 {
        let (columns, of) = (self.columns.max(1) as u64, self.of.max(1) as u64);
        (bytes / of).saturating_mul(columns.min(of))
    }
}

/// Whether reading a view takes clearly less than reading its table: each with the bytes in the
/// range, and the share of columns.
pub fn is_cheaper(view: (u64, Share), table: (u64, Share)) -> bool {
    let (view, table) = (view.1.part(view.0), table.1.part(table.0));
    view.saturating_add(view / 4) < table
}

/// A view at a boundary, and the way from there to the snapshot's.
struct Start {
    end: ScuNumber,
    path: Arc<TablePath>,
    route: Route,
}

/// How the rows of a view's scan are told from entries that are out of date.
#[derive(Debug)]
pub(super) struct ViewRead {
    /// What changed since the view's boundary.
    pub(super) delta: Arc<Delta>,
    /// The scan of the table that gives the same rows, in another order.
    pub(super) of_table: ScanRequest,
    pub(super) table: Arc<RowLayout>,
}

impl Snapshot {
    /// A secondary view that the snapshot knows, by the id of its rows' definition.
    pub fn view(&self, view: TableId) -> Option<&Arc<TableState>> {
        self.manifest().views.get(&view)
    }

    /// Plans a scan of a view, as [`Snapshot::plan_scan`] does for a table: `request.table` names
    /// the view, its projection and range are the view's, its buffered changes the table's. `None`
    /// where only the table can answer, or answers for less.
    ///
    /// # Errors
    /// `Corrupt` when an index or a log frame is damaged; the store's errors.
    #[boxed]
    pub async fn plan_view_scan(&self, request: &ScanRequest) -> Result<Option<ScanPlan>> {
        self.plan_view_in(request, Form::Declared).await
    }

    pub(super) async fn plan_view_in(
        &self,
        request: &ScanRequest,
        form: Form,
    ) -> Result<Option<ScanPlan>> {
        let Some((state, of)) = self.view_and_table(request.table) else {
            return Ok(None);
        };
        let Ok(start) = self.view_start(state, of) else {
            return Ok(None);
        };
        let table = self.layout(of.table.id)?;
        let view = self.inner.reader.layout(&state.table)?;
        let planned = self.plan_from(&start, state, &view, &table, (request, form));
        match planned.await {
            Ok(plan) => Ok(Some(plan)),
            // The table answers; the view is made again from it.
            Err(error) if error.damaged_file().is_some() && self.check_pin().is_ok() => {
                self.inner.reader.damaged.note(&error);
                Ok(None)
            }
            Err(error) => Err(self.placed(error)),
        }
    }

    async fn plan_from(
        &self,
        start: &Start,
        state: &TableState,
        view: &Arc<RowLayout>,
        table: &Arc<RowLayout>,
        (request, form): (&ScanRequest, Form),
    ) -> Result<ScanPlan> {
        let Start { end, path, route } = start;
        let runs = path.ranges.iter().flat_map(|range| &range.runs);
        let since = Since {
            view: view.table.id,
            runs: runs.copied().collect(),
            end: *end,
        };
        let buffered = &request.buffered;
        let delta = self
            .delta_since(&since, table, view, route, buffered)
            .await?;
        let stage = match buffered.is_empty() {
            true => self.stage_since(table.table.id, route),
            false => Stage::Open,
        };
        let source = |entries: &Arc<_>| Source::Memory {
            stage,
            name: format!("changes of {:?} since then", table.table.name),
            chunks: Arc::clone(entries),
            own: false,
        };
        let memory: Vec<Source> = delta.entries().map(source).collect();
        let mut pieces = Vec::new();
        for (range, chosen) in state.ranges.iter().zip(&start.path.ranges) {
            let Some(clip) = intersection(&range.range, &request.range) else {
                continue;
            };
            let mut sources = Vec::new();
            for run in chosen
                .runs
                .iter()
                .filter_map(|id| self.manifest().runs.get(id))
            {
                sources.push(self.run_source(view, run, &clip).await?);
            }
            sources.extend(memory.iter().cloned());
            let steps = steps::decompose(&sources, &clip);
            pieces.push((sources, steps, clip));
        }
        self.check_pin()?;
        let columns = ViewColumns::new(table, view)?;
        let read = ViewRead {
            delta,
            of_table: ScanRequest {
                table: table.table.id,
                projection: columns.of_table,
                range: Default::default(),
                ..request.clone()
            },
            table: Arc::clone(table),
        };
        self.assemble_view(view, (request, form), pieces, memory.len(), read)
    }

    /// About how many bytes a scan of a view reads, those of its table's changes included; `None`
    /// where it can't be read. Reads indexes only.
    ///
    /// # Errors
    /// As [`Snapshot::plan_view_scan`].
    #[boxed]
    pub async fn view_bytes(&self, request: &ScanRequest) -> Result<Option<u64>> {
        let Some((state, of)) = self.view_and_table(request.table) else {
            return Ok(None);
        };
        let Ok(start) = self.view_start(state, of) else {
            return Ok(None);
        };
        let view = self.inner.reader.layout(&state.table)?;
        let mut bytes = self.lag_bytes(of, &start);
        for (range, chosen) in state.ranges.iter().zip(&start.path.ranges) {
            let Some(clip) = intersection(&range.range, &request.range) else {
                continue;
            };
            for run in chosen
                .runs
                .iter()
                .filter_map(|id| self.manifest().runs.get(id))
            {
                let source = match self.run_source(&view, run, &clip).await {
                    Err(error) if error.damaged_file().is_some() => return Ok(None),
                    source => source?,
                };
                for stretch in steps::stretches_of(&source, 0, &clip) {
                    let of = |piece| steps::weigh_in(&source, stretch.segment, piece, &clip);
                    bytes += stretch.pieces.clone().map(of).sum::<u64>();
                }
            }
        }
        Ok(Some(bytes))
    }

    /// About how many bytes of its table's changes a view lacks; `None` where it can't be read.
    pub fn view_lag_bytes(&self, view: TableId) -> Option<u64> {
        let (state, of) = self.view_and_table(view)?;
        let start = self.view_start(state, of).ok()?;
        Some(self.lag_bytes(of, &start))
    }

    fn lag_bytes(&self, table: &TableState, start: &Start) -> u64 {
        let unsorted = self.inner.unsorted.iter();
        let unsorted = unsorted.map(|(scu, _)| scu.table_totals(table.table.id).raw_bytes);
        self.route_bytes(&start.route) + unsorted.sum::<u64>()
    }

    /// The earliest stage that any of the changes of a table after a view's boundary is in.
    fn stage_since(&self, table: TableId, route: &Route) -> Stage {
        let unsorted = self.inner.unsorted.iter();
        let unsorted = unsorted.filter(|(scu, _)| scu.table_totals(table).raw_bytes > 0);
        let unsorted = unsorted.map(|(scu, _)| match scu.is_sealed() {
            true => Stage::Ingested,
            false => Stage::Open,
        });
        let runs = route.iter().flatten();
        let runs = runs.filter_map(|run| self.manifest().runs.get(run));
        let stages = unsorted.chain(runs.map(|run| stage_of(run.kind)));
        stages.min().unwrap_or(Stage::Authority)
    }

    /// A view of the snapshot and its table, where stored rows of it count.
    fn view_and_table(&self, view: TableId) -> Option<(&Arc<TableState>, &Arc<TableState>)> {
        let state = self.view(view)?;
        let of = state.table.view_of.filter(|of| !self.has_own(*of))?;
        // A horizon of the past has the table's columns of then.
        let then = self.definition(of).ok()?;
        let shows = crate::manifest::view_fits(&then, &state.table);
        shows.then_some((state, self.manifest().tables.get(&of)?))
    }

    /// Why a view can't be read by itself here.
    pub fn why_unread(&self, view: TableId) -> &'static str {
        let Some((state, of)) = self.view_and_table(view) else {
            return "its table has other columns at this horizon";
        };
        match self.view_start(state, of) {
            Err(why) => why,
            // Its runs would do, and reading them met damage.
            Ok(_) => "a file of it is damaged",
        }
    }

    /// The newest boundary at or before the snapshot's that the view can be read at and from
    /// which the table's changes lead on; or why there is none.
    fn view_start(&self, view: &TableState, table: &TableState) -> Result<Start, &'static str> {
        let manifest = self.manifest();
        let sorted = self.inner.choice.sorted;
        let (_, damaged) = self.inner.reader.damaged.files();
        let paths = TablePaths::new(manifest, view, &damaged);
        let mut ends = vec![manifest.view_end(view).0];
        if ends[0] > sorted.0 {
            ends = paths
                .ranges
                .iter()
                .flat_map(|range| range.stretch_ends())
                .collect();
            ends.push(sorted.0);
            ends.retain(|end| *end <= sorted.0);
            ends.sort_unstable_by(|a, b| b.cmp(a));
            ends.dedup();
        }
        // A view that was built from all rows at a boundary knows nothing of what was before.
        let begun = view.created_after.0;
        ends.retain(|end| begun == 0 || *end > begun);
        let mut why = None;
        for end in ends.into_iter().take(ENDS_TRIED).map(ScuNumber) {
            match self.start_at(end, &paths, table) {
                Ok(start) => return Ok(start),
                // The newest boundary's reason counts: older ones lack more.
                Err(reason) => why = why.or(Some(reason)),
            }
        }
        Err(why.unwrap_or("it begins after this horizon"))
    }

    /// A boundary of a view, and the ways to it and on from it; or what is missing.
    fn start_at(
        &self,
        end: ScuNumber,
        paths: &TablePaths,
        table: &TableState,
    ) -> Result<Start, &'static str> {
        // It begins with nothing, which is right up to where its table begins.
        let is_built = end > table.created_after;
        let missing = |what: &'static str| match is_built {
            true => what,
            false => "it is not built yet",
        };
        let path = paths.cheapest(end);
        let path = path.ok_or_else(|| missing("a file of it is damaged"))?;
        let route = self.route(table, end);
        let route = route.ok_or_else(|| missing("what it lacks is not kept by itself"))?;
        match self.route_bytes(&route) <= DELTA_BYTES_MAX {
            true => Ok(Start { end, path, route }),
            false => Err(missing("it lacks too much of what changed in its table")),
        }
    }

    /// Whether the keys of a table that changed after `from` can be told: not while a file with
    /// some of them is damaged.
    pub fn tells_changes_since(&self, table: TableId, from: ScuNumber) -> bool {
        let state = self.manifest().tables.get(&table);
        state.is_some_and(|state| self.route(state, from).is_some())
    }

    /// The keys of a table that changed after `from`, in their order; `None` if they can't be told
    /// from those before.
    ///
    /// # Errors
    /// As a scan.
    pub async fn keys_changed_since(
        &self,
        table: TableId,
        from: ScuNumber,
    ) -> Result<Option<BoxStream<'static, Result<Vec<Key>>>>> {
        let state = self.manifest().tables.get(&table);
        let Some(state) = state else {
            return Ok(None);
        };
        let Some(route) = self.route(state, from) else {
            return Ok(None);
        };
        let layout = self.layout(table)?;
        let mut columns = layout.codec.indices().to_vec();
        columns.sort_unstable();
        let codec = super::scan::key_codec(&layout, &columns)?
            .ok_or_else(|| Error::internal("keys are read without their columns"))?;
        let changes = self.changes(&layout, &route, &[], &columns).await?;
        Ok(Some(
            changes
                .map(move |changes| {
                    let changes = changes?;
                    let keys = codec.encode(&changes.data)?;
                    let second = |row: usize| row > 0 && changes.kind(row - 1).is_split();
                    let rows = (0..changes.rows()).filter(|row| !second(*row));
                    Ok(rows.map(|row| Key::new(keys.row(row).as_ref())).collect())
                })
                .boxed(),
        ))
    }

    /// The entries that a view has for the rows of these keys, which rise strictly: upserts in the
    /// form of the view's stored rows, in the order of the table's keys, which come beside them.
    ///
    /// # Errors
    /// As a scan.
    pub async fn entries_of(
        &self,
        view: &RowLayout,
        table: TableId,
        keys: &[Key],
    ) -> Result<(Vec<Key>, arrow::array::RecordBatch)> {
        let layout = self.layout(table)?;
        let columns = ViewColumns::new(&layout, view)?;
        let rows = self.rows_of(&layout, keys, &columns.of_table, &[]).await?;
        let codec = super::scan::key_codec(&layout, &columns.of_table)?
            .ok_or_else(|| Error::internal("a view lacks its table's key"))?;
        let encoded = codec.encode(&rows)?;
        let keys = encoded.iter().map(|key| Key::new(key.as_ref())).collect();
        Ok((keys, columns.entries(view, &rows)?))
    }

    /// All entries that a view has for its table's rows, in the order of the table.
    ///
    /// # Errors
    /// As a scan.
    pub async fn all_entries(
        &self,
        view: &Arc<RowLayout>,
        table: TableId,
    ) -> Result<BoxStream<'static, Result<arrow::array::RecordBatch>>> {
        let layout = self.layout(table)?;
        let columns = ViewColumns::new(&layout, view)?;
        let request = ScanRequest {
            table,
            projection: columns.of_table.clone(),
            range: Default::default(),
            buffered: Vec::new(),
            batch_rows: 8192,
            parts: 1,
        };
        let plan = self.plan_stored(&request).await?;
        let view = Arc::clone(view);
        let rows = futures::stream::iter(plan.parts).flat_map(|part| part.stream());
        Ok(rows.map(move |rows| columns.entries(&view, &rows?)).boxed())
    }
}

impl ViewRead {
    /// Whether all rows count: nothing changed since the view's boundary.
    pub(super) fn counts_all(&self) -> bool {
        self.delta.is_empty()
    }

    /// The rows that count.
    pub(super) fn filter(
        &self,
        rows: ChangeBatch,
        view_key: &KeyCodec,
        table_key: &KeyCodec,
    ) -> Result<ChangeBatch> {
        self.delta.filter(rows, table_key, view_key)
    }

    /// Where the columns of the table's key stand in the view.
    pub(super) fn table_key(&self, view: &RowLayout) -> Result<Vec<usize>> {
        table_key_in(view, &self.table)
    }

    /// The view's rows in a range of its keys, from the table: what is read in place of a damaged
    /// file of the view.
    pub(super) async fn rows_of_table(
        &self,
        snapshot: &Snapshot,
        view: &Arc<RowLayout>,
        keys: &KeyRange,
    ) -> Result<Vec<ChangeBatch>> {
        let columns = ViewColumns::new(&self.table, view)?;
        let plan = Box::pin(snapshot.plan_stored(&self.of_table)).await?;
        let mut entries = Vec::new();
        for part in plan.parts {
            let mut rows = part.stream();
            while let Some(rows) = rows.try_next().await? {
                let rows = columns.entries(view, &rows)?;
                let encoded = view.codec.encode(&rows)?;
                let inside = |row: &u32| {
                    let key = encoded.row(*row as usize);
                    keys.encloses(key.as_ref(), key.as_ref())
                };
                let inside: Vec<u32> = (0..rows.num_rows() as u32).filter(inside).collect();
                let rows = take_record_batch(&rows, &UInt32Array::from(inside));
                entries.push(ChangeBatch::upserts(rows.map_err(arrow_internal)?, 0));
            }
        }
        sort_changes(view, &entries)
    }
}
