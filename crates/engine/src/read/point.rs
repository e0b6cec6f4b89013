//! Point reads: all of a primary key given. Past the planner: newest source first, its filter,
//! its extent index, one extent; back to the first total change.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use async_recursion::async_recursion as boxed;
use lazybase_model::{Error, Result, Stage, TableId};

use super::arrow_internal;
use super::declared::declared_column;
use super::instead::{Covering, Stored};
use super::own::{OwnChanges, find_own};
use super::scan::{Form, has_hidden, output_schema};
use super::snapshot::Snapshot;
use crate::change_batch::ChangeBatch;
use crate::env::planted::{Planted, is_planted};
use crate::key::Key;
use crate::manifest::{Run, RunKind, ScuEntry, SegmentMeta};
use crate::segment::{FoundRows, PackedRow, RowLayout, key_hash};
use crate::stages::merge::{MergeMode, MergeShape, Merger, OutputSize, Step};

impl Snapshot {
    /// The rows of these keys, in the order of the keys, absent ones left out; `projection` names
    /// positions in the table's columns. `buffered` holds a transaction's own changes of the
    /// table, oldest first.
    ///
    /// # Errors
    /// `Corrupt` when a file is damaged; `SnapshotTooOld` when the pin was lost.
    #[boxed]
    pub async fn get(
        &self,
        table: TableId,
        keys: &[Key],
        projection: &[usize],
        buffered: &[OwnChanges],
    ) -> Result<RecordBatch> {
        let asked = (projection, Form::Declared);
        self.get_in(table, keys, asked, buffered).await
    }

    /// As [`Snapshot::get`], with the columns as they are stored.
    pub(super) async fn get_stored(
        &self,
        table: TableId,
        keys: &[Key],
        projection: &[usize],
        buffered: &[OwnChanges],
    ) -> Result<RecordBatch> {
        let asked = (projection, Form::Stored);
        self.get_in(table, keys, asked, buffered).await
    }

    /// The row of one key, as [`Snapshot::get`] gives it, or as it is kept.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    #[boxed]
    pub async fn get_one(
        &self,
        table: TableId,
        key: &Key,
        projection: &[usize],
        buffered: &[OwnChanges],
    ) -> Result<OneRow> {
        let layout = self.layout(table)?;
        let schema = asked_schema(&layout, (projection, Form::Declared))?;
        let row = self.live_row(&layout, key, buffered).await?;
        self.check_pin()?;
        if let Some(WholeRow::Packed(row)) = &row
            && !projection.iter().any(|at| is_sum(&layout, *at))
        {
            return Ok(OneRow::Packed(row.clone()));
        }
        let cells = row.map(|row| row.cells(&layout, (projection, Form::Declared)));
        let rows: Vec<_> = cells.transpose()?.into_iter().collect();
        joined(&schema, &rows).map(OneRow::Rows)
    }

    async fn get_in(
        &self,
        table: TableId,
        keys: &[Key],
        asked: (&[usize], Form),
        buffered: &[OwnChanges],
    ) -> Result<RecordBatch> {
        let layout = self.layout(table)?;
        let schema = asked_schema(&layout, asked)?;
        let mut rows = Vec::new();
        for key in keys {
            if let Some(row) = self.live_row(&layout, key, buffered).await? {
                rows.push(row.cells(&layout, asked)?);
            }
        }
        self.check_pin()?;
        joined(&schema, &rows)
    }

    /// The row of a key at the snapshot's horizon, unless it has ended.
    async fn live_row(
        &self,
        layout: &Arc<RowLayout>,
        key: &Key,
        buffered: &[OwnChanges],
    ) -> Result<Option<WholeRow>> {
        let row = self.whole_row(layout, key, buffered).await?;
        let has_ended = match (&row, self.expiry(&layout.table)) {
            (Some(row), Some(expiry)) => expiry.alive(&row.cell(expiry.column())?).is_some(),
            _ => false,
        };
        Ok(row.filter(|_| !has_ended))
    }

    /// The row of a key at the snapshot's horizon, from whatever is whole.
    async fn whole_row(
        &self,
        layout: &Arc<RowLayout>,
        key: &Key,
        buffered: &[OwnChanges],
    ) -> Result<Option<WholeRow>> {
        if self.is_emptied_at(layout.table.id, key) {
            let found = find_own(layout, buffered, key)?;
            return settle(layout, found.into_iter().map(alone).collect());
        }
        loop {
            let covering = self.inner.covering(layout.table.id)?;
            match self.row(layout, key, buffered, &covering).await {
                Err(error) if self.may_read_instead(&error, covering.avoids) => {}
                row => return row.map_err(|error| self.placed(error)),
            }
        }
    }

    async fn row(
        &self,
        layout: &Arc<RowLayout>,
        key: &Key,
        buffered: &[OwnChanges],
        covering: &Covering,
    ) -> Result<Option<WholeRow>> {
        let mut changes = Vec::new();
        let own = find_own(layout, buffered, key)?;
        if take_total(&mut changes, own.map(alone)) {
            return settle(layout, changes);
        }
        let logged = self.log_layout(layout)?;
        for (scu, batches) in self.inner.unsorted.iter().rev() {
            let unsorted = &self.inner.reader.unsorted;
            let found = unsorted
                .find(self.inner.ids(), &logged, scu, *batches, key.as_bytes())
                .await
                .map_err(|error| Snapshot::of_scu(error, layout, scu.scu()))?;
            if found.is_some() {
                self.note_unsorted(scu.scu().0, *batches, scu.is_sealed());
            }
            if take_total(&mut changes, found.map(alone)) {
                return settle(layout, changes);
            }
        }
        let hash = key_hash(key.as_bytes());
        let stored = self.inner.stored_at(layout.table.id, key, covering)?;
        for source in stored.into_iter().rev() {
            let is_total = match source {
                Stored::Run(run) => take_total(
                    &mut changes,
                    self.find_in_run(layout, run, key, hash).await?,
                ),
                Stored::Log(entry) => {
                    let found = self.find_in_log(layout, entry, key).await?;
                    take_total(&mut changes, found.map(alone))
                }
            };
            if is_total {
                break;
            }
        }
        settle(layout, changes)
    }

    /// The change of a key in a run: at most one extent is read.
    async fn find_in_run(
        &self,
        layout: &Arc<RowLayout>,
        run: &Arc<Run>,
        key: &Key,
        hash: u64,
    ) -> Result<Option<FoundRows>> {
        let Some(meta) = segment_of(run, key) else {
            return Ok(None);
        };
        let inner = &self.inner;
        let cache = &inner.reader.cache;
        let segment = cache
            .open(&inner.reader.env, layout, meta, &inner.counters)
            .await?;
        let Some(extent) = segment.may_contain(key.as_bytes(), hash) else {
            self.note_pruned(1);
            return Ok(None);
        };
        self.note_run(run);
        cache
            .point(&segment, extent, key.as_bytes(), &inner.counters)
            .await
    }

    /// What the changes of a key in a sorted SCU come to, from its log.
    async fn find_in_log(
        &self,
        layout: &Arc<RowLayout>,
        entry: &ScuEntry,
        key: &Key,
    ) -> Result<Option<ChangeBatch>> {
        let scu = self.log_instead(layout, entry).await?;
        let (ids, key) = (self.inner.ids().of_log(), key.as_bytes());
        let unsorted = &self.inner.reader.unsorted;
        let logged = self.log_layout(layout)?;
        unsorted.find(&ids, &logged, &scu, entry.batches, key).await
    }

    pub(super) fn note_run(&self, run: &Run) {
        let mut opened = self.inner.opened.lock();
        match run.kind {
            RunKind::Sorted => opened.sorted_runs += 1,
            RunKind::Merged => opened.merged_runs += 1,
            RunKind::Base => opened.authority_runs += 1,
        }
        opened.newest_scu_opened = opened.newest_scu_opened.max(run.changes_through.0);
    }

    /// An index or a filter told that nothing in so many extents is wanted.
    pub(super) fn note_pruned(&self, extents: u64) {
        self.inner.opened.lock().extents_pruned += extents;
    }

    pub(super) fn note_unsorted(&self, scu: u64, batches: u32, sealed: bool) {
        let mut opened = self.inner.opened.lock();
        match sealed {
            true => opened.unsorted_scus += 1,
            false => opened.open_batches += u64::from(batches),
        }
        opened.newest_scu_opened = opened.newest_scu_opened.max(scu);
    }
}

/// What a read of one key finds.
#[derive(Debug, Clone)]
pub enum OneRow {
    /// The row as it is kept, with all columns of the table; the snapshot's reader may read it.
    Packed(PackedRow),
    /// The columns that were asked for: of the row, or of none where there is none.
    Rows(RecordBatch),
}

/// The row of a key.
#[derive(Debug, Clone)]
enum WholeRow {
    /// In a batch, and where in it.
    In(Arc<ChangeBatch>, usize),
    Packed(PackedRow),
}

impl WholeRow {
    /// A cell as it is stored, as an array of one.
    fn cell(&self, column: usize) -> Result<ArrayRef> {
        match self {
            WholeRow::In(batch, at) => Ok(batch.data.column(column).slice(*at, 1)),
            WholeRow::Packed(row) => row.array(column),
        }
    }

    /// The cells that are asked for, in the form that is.
    fn cells(
        &self,
        layout: &RowLayout,
        (projection, form): (&[usize], Form),
    ) -> Result<Vec<ArrayRef>> {
        let cell = |column: &usize| {
            let values = self.cell(*column)?;
            let (table, declared) = (&layout.table, &layout.table.columns[*column]);
            if form == Form::Stored || *values.data_type() == declared.data_type {
                return Ok(values);
            }
            let row = match self {
                WholeRow::In(batch, at) => batch.data.slice(*at, 1),
                WholeRow::Packed(row) => row.batch()?,
            };
            let key = Some(layout.codec.indices());
            declared_column(&table.name, declared, &values, &row, key)
        };
        projection.iter().map(cell).collect()
    }
}

/// Whether a column is stored as another type than its table declares.
fn is_sum(layout: &RowLayout, column: usize) -> bool {
    layout.schema.field(column).data_type() != layout.declared.field(column).data_type()
}

/// The schema of the columns that are asked for.
fn asked_schema(layout: &RowLayout, (projection, form): (&[usize], Form)) -> Result<SchemaRef> {
    if has_hidden(layout, projection) {
        return Err(Error::internal("hidden columns are read by a scan"));
    }
    output_schema(layout, projection, form)
}

/// The stage that a run belongs to.
pub(super) fn stage_of(kind: RunKind) -> Stage {
    match kind {
        RunKind::Sorted => Stage::Sorted,
        RunKind::Merged => Stage::Merged,
        RunKind::Base => Stage::Authority,
    }
}

/// The change of one key that a batch holds and nothing else.
fn alone(rows: ChangeBatch) -> FoundRows {
    let at = 0..rows.rows();
    let rows = Arc::new(rows);
    FoundRows::In { rows, at }
}

/// Whether a change makes all older ones of its key void.
fn is_total(change: &FoundRows) -> bool {
    match change {
        FoundRows::Packed(_) => true,
        FoundRows::In { rows, at } => {
            let is_total = rows.kind(at.start).is_total();
            at.len() == 1 && (is_total || is_planted(Planted::NewestAlone))
        }
    }
}

/// Adds what an older source holds of the key (newest first); whether nothing before matters.
fn take_total(changes: &mut Vec<FoundRows>, found: impl IntoIterator<Item = FoundRows>) -> bool {
    for change in found {
        let total = is_total(&change);
        changes.push(change);
        if total {
            return true;
        }
    }
    false
}

/// The row that a key's changes make, newest first, of nothing.
fn settle(layout: &RowLayout, mut changes: Vec<FoundRows>) -> Result<Option<WholeRow>> {
    match changes.first() {
        None => return Ok(None),
        Some(FoundRows::Packed(row)) => return Ok(Some(WholeRow::Packed(row.clone()))),
        Some(newest @ FoundRows::In { rows, at }) if is_total(newest) => {
            let is_row = rows.kind(at.start).makes_row();
            return Ok(is_row.then(|| WholeRow::In(Arc::clone(rows), at.start)));
        }
        Some(_) => {}
    }
    changes.reverse();
    let shape = MergeShape::of(layout);
    let sources = changes.iter().map(|change| change.alone().map(Some));
    let mut sources: Vec<Option<ChangeBatch>> = sources.collect::<Result<_>>()?;
    let mut merger = Merger::new(
        &shape,
        sources.len(),
        MergeMode::Values,
        OutputSize::default(),
    )?;
    loop {
        match merger.step()? {
            Step::Need(source) => {
                let next = sources.get_mut(source).and_then(Option::take);
                merger.supply(source, next)?;
            }
            Step::Output(rows) if rows.rows() > 0 => {
                return Ok(Some(WholeRow::In(Arc::new(rows), 0)));
            }
            Step::Output(_) => {}
            Step::Done => return Ok(None),
        }
    }
}

/// The segment of a run that may hold a key.
fn segment_of<'r>(run: &'r Run, key: &Key) -> Option<&'r Arc<SegmentMeta>> {
    let at = run
        .segments
        .partition_point(|segment| segment.max_key < *key);
    run.segments
        .get(at)
        .filter(|segment| segment.min_key <= *key)
}

/// One batch of rows, each given as its cells.
fn joined(schema: &SchemaRef, rows: &[Vec<ArrayRef>]) -> Result<RecordBatch> {
    let columns = match rows {
        [] => return Ok(RecordBatch::new_empty(Arc::clone(schema))),
        [row] => row.clone(),
        rows => (0..schema.fields().len())
            .map(|column| {
                let cells: Vec<&dyn Array> = rows.iter().map(|row| &*row[column]).collect();
                arrow::compute::concat(&cells).map_err(arrow_internal)
            })
            .collect::<Result<_>>()?,
    };
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(arrow_internal)
}
