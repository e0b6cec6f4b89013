//! Sources of a read: runs on disk, and sorted chunks in memory. Either is a list of pieces (an
//! extent, a chunk) in key order whose bounds are known before they are read.

use std::ops::Range;
use std::sync::Arc;

use arrow::compute::take_record_batch;
use futures::stream::{self, BoxStream, StreamExt};
use lazybase_model::{Error, Result, Stage};

use super::arrow_internal;
use crate::change_batch::ChangeBatch;
use crate::key::{Key, KeyCodec};
use crate::manifest::{KeyRange, SegmentFormat};
use crate::segment::{ReadCounters, RowLayout, Segment, SegmentCache};

/// Sorted changes in memory, with the bounds of their keys.
#[derive(Debug, Clone)]
pub(super) struct Chunk {
    pub(super) rows: Arc<ChangeBatch>,
    pub(super) min_key: Key,
    pub(super) max_key: Key,
}

impl Chunk {
    /// A chunk of sorted rows; there is at least one.
    pub(super) fn new(layout: &RowLayout, rows: ChangeBatch) -> Result<Chunk> {
        let ends = arrow::array::UInt32Array::from(vec![0, rows.rows() as u32 - 1]);
        let keys = layout
            .codec
            .encode(&take_record_batch(&rows.data, &ends).map_err(arrow_internal)?)?;
        Ok(Chunk {
            rows: Arc::new(rows),
            min_key: Key::new(keys.row(0).data()),
            max_key: Key::new(keys.row(1).data()),
        })
    }
}

/// One source of a range, older sources before newer ones.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// The segments of one run (or part of one), in key order.
    Run {
        stage: Stage,
        name: String,
        segments: Vec<Arc<Segment>>,
    },
    /// Sorted chunks of unsorted SCUs, or of a transaction's own changes.
    Memory {
        stage: Stage,
        name: String,
        chunks: Arc<Vec<Chunk>>,
    },
}

impl Source {
    pub(super) fn stage(&self) -> Stage {
        match self {
            Source::Run { stage, .. } | Source::Memory { stage, .. } => *stage,
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Source::Run { name, .. } | Source::Memory { name, .. } => name,
        }
    }
}

/// A stretch of a source: pieces of one of its segments; of a memory source, its chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) source: usize,
    pub(super) segment: usize,
    pub(super) pieces: Range<usize>,
}

/// What reading a piece needs.
#[derive(Debug, Clone)]
pub(super) struct PieceReader {
    pub(super) cache: Arc<SegmentCache>,
    pub(super) counters: Arc<ReadCounters>,
    /// The key among the columns that are read, where all of it is.
    pub(super) codec: Option<Arc<KeyCodec>>,
    /// Whether pieces are kept for the next reader: not when the read would flush the cache.
    pub(super) caching: bool,
    /// The columns to read, in the order of the table.
    pub(super) columns: Arc<[usize]>,
}

impl PieceReader {
    async fn piece(&self, source: &Source, segment: usize, piece: usize) -> Result<ChangeBatch> {
        match source {
            Source::Memory { chunks, .. } => chunks[piece].rows.project(&self.columns),
            Source::Run { segments, .. } => self.extent(&segments[segment], piece).await,
        }
    }

    async fn extent(&self, segment: &Arc<Segment>, extent: usize) -> Result<ChangeBatch> {
        let counters = &self.counters;
        match (segment.meta().format, self.caching) {
            (SegmentFormat::Extent, true) => {
                // Kept whole: the next reader may want other columns.
                let whole = self.cache.extent(segment, extent, counters).await?;
                whole.rows().project(&self.columns)
            }
            (SegmentFormat::Extent, false) => segment
                .read_extent(extent, counters)
                .await?
                .project(&self.columns),
            (SegmentFormat::Parquet, true) => {
                let columns = &self.columns;
                let read = self
                    .cache
                    .extent_columns(segment, extent, columns, counters)
                    .await?;
                Ok(plain(read.rows()))
            }
            (SegmentFormat::Parquet, false) => {
                let read = segment
                    .read_extent_columns(extent, &self.columns, counters)
                    .await?;
                Ok(plain(&read))
            }
        }
    }

    /// The rows of some stretches of one source, in key order, clipped to `range`.
    pub(super) fn stream(
        self,
        source: Source,
        stretches: Vec<Stretch>,
        range: KeyRange,
    ) -> BoxStream<'static, Result<ChangeBatch>> {
        let places = stretches
            .into_iter()
            .flat_map(|stretch| stretch.pieces.map(move |piece| (stretch.segment, piece)));
        let reader = Arc::new(self);
        let source = Arc::new(source);
        stream::iter(places)
            .then(move |(segment, piece)| {
                let reader = Arc::clone(&reader);
                let source = Arc::clone(&source);
                let range = range.clone();
                async move {
                    let rows = reader.piece(&source, segment, piece).await?;
                    let inside = match &*source {
                        Source::Run { segments, .. } => {
                            let extents = segments[segment].extents();
                            range.encloses(extents.min_key(piece), extents.max_key(piece))
                        }
                        Source::Memory { chunks, .. } => {
                            let chunk = &chunks[piece];
                            range.encloses(chunk.min_key.as_bytes(), chunk.max_key.as_bytes())
                        }
                    };
                    if inside {
                        return Ok(rows);
                    }
                    let codec = reader.codec.as_ref().ok_or_else(|| {
                        Error::internal("rows are to be clipped, but their keys were not read")
                    })?;
                    rows.clip(codec, &range)
                }
            })
            .boxed()
    }
}

/// Plain rows of the authority. Readers ask for no hidden columns, so the distances of the columns'
/// SCUs, which speak of all columns, stay behind.
fn plain(rows: &Arc<ChangeBatch>) -> ChangeBatch {
    ChangeBatch {
        column_scus: None,
        ..rows.as_ref().clone()
    }
}

/// The part of the key space in both ranges; `None` where they don't meet.
pub(super) fn intersection(one: &KeyRange, other: &KeyRange) -> Option<KeyRange> {
    let low = one.low.clone().max(other.low.clone());
    let high = match (&one.high, &other.high) {
        (Some(a), Some(b)) => Some(a.min(b).clone()),
        (a, b) => a.clone().or_else(|| b.clone()),
    };
    match (&low, &high) {
        (Some(low), Some(high)) if low >= high => None,
        _ => Some(KeyRange { low, high }),
    }
}
