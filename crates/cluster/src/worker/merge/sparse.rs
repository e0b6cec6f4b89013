//! A stretch of the authority that little changes: its extents one by one.
//!
//! ```text
//!   newer runs -> one change a key -> those of an extent's keys
//!     none                    -> the extent is copied as bytes
//!     they keep its rows      -> the columns that they touch are patched, the others copied
//!     rows come or go         -> its rows are merged, and written as one extent again
//! ```
//!
//! So are the rows of an extent that is much smaller than others, or would become much larger as it
//! is patched: row groups stay about as large as those that are written anew, however often few
//! changes are merged into them.
//!
//! Invariant SPARSE-1: what is written is what merging all rows of the stretch gives. Invariant
//! SPARSE-2: memory is bounded by one extent, as bytes and as rows, and the changes of its keys,
//! which are a small part of what a merge task reads.

use std::sync::Arc;

use futures::TryStreamExt;
use futures::stream::{self, BoxStream, StreamExt};
use lazybase_engine::change_batch::ChangeBatch;
use lazybase_engine::env::planted::{Planted, is_planted};
use lazybase_engine::key::{Key, KeyCodec};
use lazybase_engine::manifest::KeyRange;
use lazybase_engine::segment::{EncodedExtent, Segment};
use lazybase_engine::stages::merge::plan::MergePart;
use lazybase_engine::stages::merge::{MergeMode, MergeShape, Merger, OutputSize, drive, patch};
use lazybase_model::Result;

use super::Attempt;

type Batches = BoxStream<'static, Result<ChangeBatch>>;

/// An extent as it is stored: read once, whatever becomes of it.
struct Stored {
    segment: Arc<Segment>,
    extent: usize,
    encoded: EncodedExtent,
}

/// Changes that rise by key, taken piece by piece.
struct Rising {
    changes: Batches,
    next: Option<ChangeBatch>,
}

impl Rising {
    /// Those of keys before `end`.
    async fn take_before(&mut self, codec: &KeyCodec, end: &Key) -> Result<Vec<ChangeBatch>> {
        let before = KeyRange {
            low: None,
            high: Some(end.clone()),
        };
        let mut taken = Vec::new();
        loop {
            if self.next.is_none() {
                self.next = self.changes.try_next().await?;
            }
            let Some(batch) = self.next.take() else {
                return Ok(taken);
            };
            let piece = batch.clip(codec, &before)?;
            let (rows, all) = (piece.rows(), batch.rows());
            if rows > 0 {
                taken.push(piece);
            }
            if rows < all {
                self.next = Some(batch.slice(rows, all - rows));
                return Ok(taken);
            }
        }
    }

    /// All that are left.
    fn rest(self) -> Batches {
        stream::iter(self.next.map(Ok)).chain(self.changes).boxed()
    }
}

impl Attempt<'_> {
    /// Merges a stretch whose newer parts are small.
    pub(super) async fn merge_sparse(
        &mut self,
        parts: &[MergePart],
        range: &KeyRange,
    ) -> Result<()> {
        let base = parts.partition_point(|part| part.input == 0);
        let (base, newer) = parts.split_at(base);
        let sources = self.sources(newer, range);
        let shape = MergeShape::of(self.layout).within(range);
        let size = OutputSize::default();
        let merger = Merger::new(&shape, sources.len(), MergeMode::Changes, size)?;
        let mut changes = Rising {
            changes: drive(merger, sources).boxed(),
            next: None,
        };
        for (segment, extent) in self.places(base) {
            self.traffic.went_on();
            let end = Key::after(segment.extents().max_key(extent));
            let here = changes.take_before(&self.layout.codec, &end).await?;
            let encoded = segment.read_encoded(extent, &self.counters).await?;
            let stored = Stored {
                segment,
                extent,
                encoded,
            };
            if !self.copy_or_patch(&stored, &here, range).await? {
                self.merge_extent(&stored, here, range).await?;
            }
        }
        self.merge_rows(vec![changes.rest()], range).await
    }

    /// Whether the extent's rows stay, all of them, so that it was copied as bytes, or all but the
    /// columns that the changes touch.
    async fn copy_or_patch(
        &mut self,
        stored: &Stored,
        changes: &[ChangeBatch],
        range: &KeyRange,
    ) -> Result<bool> {
        let (segment, encoded) = (&stored.segment, &stored.encoded);
        let (rows, bytes) = (encoded.rows as usize, encoded.raw_len as usize);
        let is_small = self.options.is_small_group(rows, bytes);
        let whole = range.encloses(&encoded.min_key, &encoded.max_key);
        if !whole || is_small || !self.writer()?.is_between_extents() {
            return Ok(false);
        }
        if changes.is_empty() || is_planted(Planted::ChangedCopied) {
            let writer = self.writer()?;
            writer.push_copied(encoded.clone(), segment.meta()).await?;
            self.traffic.copied_group();
            return Ok(true);
        }
        let Some(touched) = patch::touched(changes) else {
            return Ok(false);
        };
        let codec = &self.layout.codec;
        let mut kept: Vec<usize> = codec.indices().iter().chain(&touched).copied().collect();
        kept.sort_unstable();
        kept.dedup();
        if kept.len() == self.layout.schema.fields().len() {
            return Ok(false);
        }
        let Some(rows) = segment.thin_rows(stored.extent, encoded, &kept)? else {
            return Ok(false);
        };
        let changes = changes.iter().map(|changes| patch::thin(changes, &kept));
        let changes = changes.collect::<Result<Vec<_>>>()?;
        let shape = MergeShape::of(self.layout).within(range);
        let Some(patched) = patch::patch(&shape, &kept, &rows, &changes)? else {
            return Ok(false);
        };
        let both = (&rows, &patched);
        let writer = self.writer()?;
        if !writer.is_still_one(encoded, both) {
            return Ok(false);
        }
        let push = writer.push_patched(encoded.clone(), segment.meta(), both, &touched);
        push.await?;
        self.traffic.patched_group();
        Ok(true)
    }

    /// Merges the rows of an extent inside the range with their changes, and those between it and
    /// the extent before.
    async fn merge_extent(
        &mut self,
        stored: &Stored,
        changes: Vec<ChangeBatch>,
        range: &KeyRange,
    ) -> Result<()> {
        let rows = stored.segment.rows_of(stored.extent, &stored.encoded)?;
        let rows = rows.clip(&self.layout.codec, range)?;
        let sources = [vec![rows], changes].map(|batches| {
            let batches = batches.into_iter().map(Ok);
            stream::iter(batches).boxed()
        });
        let shape = MergeShape::of(self.layout).within(range);
        let merger = Merger::new(&shape, 2, self.target.mode, OutputSize::default())?;
        let merged = drive(merger, sources.into()).try_collect().await?;
        self.writer()?.push_together(merged).await?;
        self.traffic.merged_group();
        Ok(())
    }
}
