//! An attempt at bringing a secondary view to a newer boundary (section 3.2 of the paper: every
//! update reaches all views of its table).
//!
//! ```text
//!   keys changed between the boundaries, in order
//!     -> their entries at the old boundary:  deleted where they moved or went
//!     -> their entries at the new boundary:  upserted where they are new or differ
//!     -> sorted by the view's key in parts that fit the memory
//! ```
//!
//! While a part is sorted and written, the next one is gathered: two cores share a view's work.
//! Each entry is in one part only, so that the parts are one edge of the view. A view that holds
//! nothing is built the same way from all rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{and, take_record_batch};
use futures::TryStreamExt;
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::env::planted::{Planted, is_planted};
use lazybase_engine::key::Key;
use lazybase_engine::manifest::SegmentMeta;
use lazybase_engine::read::Snapshot;
use lazybase_engine::segment::RowLayout;
use lazybase_model::change::StoredKind;
use lazybase_model::{Error, Result};
use tokio::sync::oneshot;

use super::sort::sort_part;
use super::{Traffic, WorkerContext};
use crate::task::{Advance, Output};

pub(super) async fn attempt(
    context: &WorkerContext,
    traffic: &Traffic,
    advance: &Advance,
) -> Result<Output> {
    let mut parts = Parts {
        context,
        traffic,
        advance,
        held: Vec::new(),
        held_bytes: 0,
        sorting: None,
        made: Vec::new(),
    };
    let gathered = match &advance.old {
        None => everything(&mut parts, advance).await,
        Some(old) => follow(&mut parts, advance, old).await,
    };
    // Nothing goes on behind an attempt that has failed.
    let sorted = parts.sorted().await;
    gathered?;
    sorted?;
    parts.last_part().await?;
    for snapshot in advance.old.iter().chain([&advance.new]) {
        traffic.read(snapshot.stamp().sources.bytes_read);
    }
    Ok(Output::Advanced {
        view: advance.layout.table.primary.id,
        from: advance.from,
        to: advance.to,
        parts: parts.made,
        whole: advance.empty,
    })
}

/// All entries of a view that holds nothing yet.
async fn everything(parts: &mut Parts<'_>, advance: &Advance) -> Result<()> {
    let rows = advance.new.all_entries(&advance.layout, advance.table);
    let mut rows = rows.await?;
    while let Some(rows) = rows.try_next().await? {
        parts.push(ChangeBatch::upserts(rows, advance.to.0)).await?;
    }
    Ok(())
}

/// The changes of the entries whose rows changed between two boundaries.
async fn follow(parts: &mut Parts<'_>, advance: &Advance, old: &Snapshot) -> Result<()> {
    let Advance {
        layout, table, new, ..
    } = advance;
    let changed = new.keys_changed_since(*table, advance.from).await?;
    let Some(mut changed) = changed else {
        let what = "what a view lacks can't be told from what it has any more";
        return Err(Error::conflict(what));
    };
    while let Some(mut keys) = changed.try_next().await? {
        if is_planted(Planted::RangeForgotten) {
            let state = new.manifest().tables.get(table);
            let first = state.and_then(|state| state.ranges.first());
            keys.retain(|key| first.is_some_and(|first| first.range.contains(key)));
        }
        parts.traffic.went_on();
        old.check_pin()?;
        new.check_pin()?;
        let before = old.entries_of(layout, *table, &keys).await?;
        let after = new.entries_of(layout, *table, &keys).await?;
        for changes in differences(layout, &before, &after, advance.to.0)? {
            parts.push(changes).await?;
        }
    }
    Ok(())
}

/// Entries with the keys of their rows in the table, which rise.
type Entries = (Vec<Key>, RecordBatch);

/// What makes the entries `after` of the entries `before`.
fn differences(
    layout: &RowLayout,
    before: &Entries,
    after: &Entries,
    scu: u64,
) -> Result<Vec<ChangeBatch>> {
    let (old_keys, old) = (&before.0, layout.codec.encode(&before.1)?);
    let (new_keys, new) = (&after.0, layout.codec.encode(&after.1)?);
    let mut gone: Vec<u32> = Vec::new();
    let mut made: Vec<u32> = Vec::new();
    // Entries that stayed where they were, by their places before and after.
    let mut stayed: (Vec<u32>, Vec<u32>) = Default::default();
    let (mut at_old, mut at_new) = (0, 0);
    while at_old < old_keys.len() || at_new < new_keys.len() {
        let order = match (old_keys.get(at_old), new_keys.get(at_new)) {
            (Some(old), Some(new)) => old.cmp(new),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        let both = order.is_eq() && old.row(at_old) == new.row(at_new);
        if both {
            stayed.0.push(at_old as u32);
            stayed.1.push(at_new as u32);
        } else {
            let goes = order.is_le() && !is_planted(Planted::ViewEntryKept);
            gone.extend(goes.then_some(at_old as u32));
            made.extend(order.is_ge().then_some(at_new as u32));
        }
        at_old += usize::from(order.is_le());
        at_new += usize::from(order.is_ge());
    }
    let same = alike(
        &taken(&before.1, stayed.0)?,
        &taken(&after.1, stayed.1.clone())?,
    )?;
    let differs = stayed
        .1
        .iter()
        .zip(&same)
        .filter(|(_, same)| *same != Some(true));
    made.extend(differs.map(|(row, _)| *row));
    made.sort_unstable();
    let mut changes = Vec::new();
    if !gone.is_empty() {
        let keys = bare_keys(layout, &taken(&before.1, gone)?)?;
        changes.push(ChangeBatch::alike(keys, StoredKind::DELETE, None, scu));
    }
    if !made.is_empty() {
        changes.push(ChangeBatch::upserts(taken(&after.1, made)?, scu));
    }
    Ok(changes)
}

fn taken(rows: &RecordBatch, places: Vec<u32>) -> Result<RecordBatch> {
    take_record_batch(rows, &UInt32Array::from(places)).map_err(arranging)
}

fn arranging(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("entries of a view can't be arranged: {error}"))
}

/// Which rows are the same in both; values that have no comparison count as different.
fn alike(one: &RecordBatch, other: &RecordBatch) -> Result<BooleanArray> {
    let mut same = BooleanArray::from(vec![true; one.num_rows()]);
    for (left, right) in one.columns().iter().zip(other.columns()) {
        if left.data_type().is_nested() {
            return Ok(BooleanArray::from(vec![false; one.num_rows()]));
        }
        let equal = not_distinct(left, right).map_err(arranging)?;
        same = and(&same, &equal).map_err(arranging)?;
    }
    Ok(same)
}

/// Rows of which only the view's key is left.
fn bare_keys(layout: &RowLayout, rows: &RecordBatch) -> Result<RecordBatch> {
    let column = |(at, column): (usize, &ArrayRef)| match layout.codec.indices().contains(&at) {
        true => Arc::clone(column),
        false => new_null_array(column.data_type(), column.len()),
    };
    let columns = rows.columns().iter().enumerate().map(column);
    RecordBatch::try_new(rows.schema(), columns.collect()).map_err(arranging)
}

/// The files of a part.
type Part = Vec<Arc<SegmentMeta>>;

/// Sorts changes of a view in parts that fit the memory.
struct Parts<'a> {
    context: &'a WorkerContext,
    traffic: &'a Traffic,
    advance: &'a Advance,
    held: Vec<ChangeBatch>,
    held_bytes: u64,
    /// The part before those that are held.
    sorting: Option<oneshot::Receiver<Result<Part>>>,
    made: Vec<Part>,
}

impl Parts<'_> {
    async fn push(&mut self, changes: ChangeBatch) -> Result<()> {
        self.traffic.went_on();
        if changes.rows() == 0 {
            return Ok(());
        }
        let bytes = changes.memory_bytes() as u64;
        // One part is held while another one is sorted.
        let memory = self.context.settings.sort_memory / 2;
        if self.held_bytes > 0 && self.held_bytes.saturating_add(bytes) > memory {
            self.end_part().await?;
        }
        self.held_bytes += bytes;
        self.held.push(changes);
        Ok(())
    }

    /// Has what is held sorted while more is gathered.
    async fn end_part(&mut self) -> Result<()> {
        self.sorted().await?;
        let held = self.taken();
        let (context, traffic) = (self.context.clone(), self.traffic.clone());
        let layout = Arc::clone(&self.advance.layout);
        let (done, sorting) = oneshot::channel();
        let sort = async move {
            let part = sort_part(&context, &traffic, &layout, held).await;
            // Nobody waits any more for an attempt that was dropped.
            let _ = done.send(part);
        };
        let spawner = &self.context.env.spawner;
        drop(spawner.spawn("worker-part", Box::pin(sort)));
        self.sorting = Some(sorting);
        Ok(())
    }

    /// Waits for the part that is being sorted, if there is one.
    async fn sorted(&mut self) -> Result<()> {
        if let Some(sorting) = self.sorting.take() {
            let part = sorting.await;
            let part = part.map_err(|_| Error::internal("sorting a part of a view broke off"))?;
            self.made.push(part?);
        }
        Ok(())
    }

    async fn last_part(&mut self) -> Result<()> {
        let held = self.taken();
        if !held.is_empty() {
            let layout = &self.advance.layout;
            let part = sort_part(self.context, self.traffic, layout, held).await?;
            self.made.push(part);
        }
        Ok(())
    }

    fn taken(&mut self) -> Vec<ChangeBatch> {
        self.held_bytes = 0;
        std::mem::take(&mut self.held)
    }
}
