//! Sources of a read: runs on disk, and sorted chunks in memory. Either is a list of pieces (an
//! extent, a chunk) in key order whose bounds are known before they are read.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::compute::take_record_batch;
use futures::stream::{self, BoxStream, StreamExt};
use lazybase_model::{Error, Result, Stage};

use super::arrow_internal;
use crate::change_batch::{ChangeBatch, KEYS_TOGETHER, Projection};
use crate::key::{Key, KeyCodec};
use crate::manifest::{KeyRange, SegmentFormat};
use crate::segment::{Part, ReadCounters, RowLayout, Segment, SegmentCache};

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
        // Few rows are encoded as they are: to take two of them is dearer.
        let keys = match rows.rows() <= KEYS_TOGETHER {
            true => layout.codec.encode(&rows.data)?,
            false => {
                let ends = UInt32Array::from(vec![0, rows.rows() as u32 - 1]);
                let ends = take_record_batch(&rows.data, &ends).map_err(arrow_internal)?;
                layout.codec.encode(&ends)?
            }
        };
        Ok(Chunk {
            rows: Arc::new(rows),
            min_key: Key::new(keys.row(0).data()),
            max_key: Key::new(keys.row(keys.num_rows() - 1).data()),
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
        /// Whether it is a transaction's own.
        own: bool,
    },
}

impl Source {
    pub(super) fn stage(&self) -> Stage {
        match self {
            Source::Run { stage, .. } | Source::Memory { stage, .. } => *stage,
        }
    }

    pub(super) fn is_own(&self) -> bool {
        matches!(self, Source::Memory { own: true, .. })
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
    pub(super) projection: Arc<Projection>,
    /// Whether rows are read with their versions.
    pub(super) versions: bool,
    /// Whether texts may come as views. Neither keys nor changes can be compared then.
    pub(super) views: bool,
}

impl PieceReader {
    /// The columns that are read, in the order of the table.
    pub(super) fn columns(&self) -> &Arc<[usize]> {
        self.projection.columns()
    }

    /// The rows of an extent of a run, all columns of them.
    async fn extent(&self, segment: &Segment, extent: usize) -> Result<Arc<ChangeBatch>> {
        let counters = &self.counters;
        match self.caching {
            // Kept whole: the next reader may want other columns.
            true => {
                let kept = self.cache.extent(segment, extent, counters).await?;
                Ok(Arc::clone(kept.rows()))
            }
            false => segment.read_extent(extent, counters).await,
        }
    }

    /// The rows of an extent in Parquet that may lie in `range`, of them the columns to read.
    async fn extent_part(
        &self,
        segment: &Arc<Segment>,
        extent: usize,
        range: &KeyRange,
    ) -> Result<Arc<ChangeBatch>> {
        let counters = &self.counters;
        let low = range.low.as_ref().map(Key::as_bytes);
        let high = range.high.as_ref().map(Key::as_bytes);
        let part = Part {
            rows: segment.rows_between(extent, low, high),
            columns: Arc::clone(self.columns()),
            versions: self.versions,
            views: self.views,
        };
        match self.caching {
            true => {
                let kept = self.cache.extent_part(segment, extent, part, counters);
                Ok(Arc::clone(kept.await?.rows()))
            }
            false => segment.read_part(extent, part, counters).await,
        }
    }

    /// A piece's rows in `range`.
    async fn piece(
        &self,
        source: &Source,
        (segment, piece): (usize, usize),
        range: &KeyRange,
    ) -> Result<ChangeBatch> {
        match source {
            Source::Memory { chunks, .. } => {
                let chunk = &chunks[piece];
                let bounds = (chunk.min_key.as_bytes(), chunk.max_key.as_bytes());
                self.seen(&chunk.rows, bounds, range)
            }
            Source::Run { segments, .. } => {
                let segment = &segments[segment];
                let extents = segment.extents();
                let bounds = (extents.min_key(piece), extents.max_key(piece));
                match segment.meta().format {
                    SegmentFormat::Extent => {
                        let whole = self.extent(segment, piece).await?;
                        self.seen(&whole, bounds, range)
                    }
                    SegmentFormat::Parquet => {
                        let rows = self.extent_part(segment, piece, range).await?;
                        match range.encloses(bounds.0, bounds.1) {
                            true => Ok(rows.as_ref().clone()),
                            false => rows.clip(self.key()?, range),
                        }
                    }
                }
            }
        }
    }

    /// Rows with all columns between two keys, as they are read, in `range`: several parts of a
    /// scan may take a few rows of many each.
    fn seen(
        &self,
        rows: &ChangeBatch,
        (least, greatest): (&[u8], &[u8]),
        range: &KeyRange,
    ) -> Result<ChangeBatch> {
        match range.encloses(least, greatest) {
            true => self.projection.of(rows),
            false => self.projection.clipped(rows, self.key()?, range),
        }
    }

    /// What tells the keys of what is read.
    fn key(&self) -> Result<&KeyCodec> {
        let codec = self.codec.as_deref();
        codec.ok_or_else(|| Error::internal("rows are to be clipped, but their keys were not read"))
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
                async move { reader.piece(&source, (segment, piece), &range).await }
            })
            .boxed()
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
