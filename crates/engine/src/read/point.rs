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
use crate::segment::{FoundRows, RowLayout, key_hash};
use crate::stages::merge::{MergeMode, MergeShape, Merger, OutputSize, Step};
use crate::ttl::Expiry;

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

    async fn get_in(
        &self,
        table: TableId,
        keys: &[Key],
        (projection, form): (&[usize], Form),
        buffered: &[OwnChanges],
    ) -> Result<RecordBatch> {
        let layout = self.layout(table)?;
        if has_hidden(&layout, projection) {
            return Err(Error::internal("hidden columns are read by a scan"));
        }
        let schema = output_schema(&layout, projection, form)?;
        let expiry = self.expiry(&layout.table);
        let mut rows = Vec::new();
        for key in keys {
            if let Some((batch, at)) = self.whole_row(&layout, key, buffered).await? {
                let ended = |expiry: &Expiry| {
                    let moments = batch.data.column(expiry.column()).slice(at, 1);
                    expiry.alive(&moments).is_some()
                };
                if expiry.as_ref().is_some_and(ended) {
                    continue;
                }
                let cell = |column: &usize| {
                    let values = batch.data.column(*column).slice(at, 1);
                    let (table, declared) = (&layout.table, &layout.table.columns[*column]);
                    if form == Form::Stored || *values.data_type() == declared.data_type {
                        return Ok(values);
                    }
                    let (row, key) = (batch.data.slice(at, 1), Some(layout.codec.indices()));
                    declared_column(&table.name, declared, &values, &row, key)
                };
                rows.push(projection.iter().map(cell).collect::<Result<Vec<_>>>()?);
            }
        }
        self.check_pin()?;
        joined(&schema, &rows)
    }

    /// The row of a key at the snapshot's horizon, from whatever is whole: a batch, and where in
    /// it.
    async fn whole_row(
        &self,
        layout: &Arc<RowLayout>,
        key: &Key,
        buffered: &[OwnChanges],
    ) -> Result<Option<(Arc<ChangeBatch>, usize)>> {
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
    ) -> Result<Option<(Arc<ChangeBatch>, usize)>> {
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

    pub(super) fn note_unsorted(&self, scu: u64, batches: u32, sealed: bool) {
        let mut opened = self.inner.opened.lock();
        match sealed {
            true => opened.unsorted_scus += 1,
            false => opened.open_batches += u64::from(batches),
        }
        opened.newest_scu_opened = opened.newest_scu_opened.max(scu);
    }
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
    FoundRows { rows, at }
}

/// Whether a change makes all older ones of its key void.
fn is_total(change: &FoundRows) -> bool {
    let kind = change.rows.kind(change.at.start);
    change.at.len() == 1 && (kind.is_total() || is_planted(Planted::NewestAlone))
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

/// The row that a key's changes make, newest first, of nothing: a batch, and where in it.
fn settle(
    layout: &RowLayout,
    mut changes: Vec<FoundRows>,
) -> Result<Option<(Arc<ChangeBatch>, usize)>> {
    match changes.first() {
        None => return Ok(None),
        Some(newest) if is_total(newest) => {
            let row = newest.rows.kind(newest.at.start).makes_row();
            return Ok(row.then(|| (Arc::clone(&newest.rows), newest.at.start)));
        }
        Some(_) => {}
    }
    changes.reverse();
    let shape = MergeShape::of(layout);
    let rows = |change: FoundRows| change.rows.slice(change.at.start, change.at.len());
    let mut sources: Vec<Option<ChangeBatch>> = changes
        .into_iter()
        .map(|change| Some(rows(change)))
        .collect();
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
            Step::Output(rows) if rows.rows() > 0 => return Ok(Some((Arc::new(rows), 0))),
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
