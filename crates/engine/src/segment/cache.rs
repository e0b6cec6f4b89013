//! What is kept of segments in memory: their indexes and decoded extents, in one bounded cache;
//! and counters of what a read took from the store.
//!
//! Invariant SC-1: the cache's weight counts the bytes of indexes and decoded rows and never
//! passes its bound by more than what is being inserted. What other readers' indexes take is lent
//! to them: so much less is kept, down to a quarter. Files are immutable and their names never
//! used again, so nothing here is ever stale.

use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{Either, select};
use lazybase_model::{Error, Result, SchemaVersion};
use parking_lot::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use super::RowLayout;
use super::key_filter::key_hash;
use super::reader::{Part, Segment};
use super::row_page::{PackedRow, RowPage};
use crate::change_batch::ChangeBatch;
use crate::env::{Clock, Env};
use crate::key::{KeyCodec, Keys};
use crate::manifest::SegmentMeta;

/// What reads took, counted as they run; shown in an answer's stamp.
#[derive(Debug, Default)]
pub struct ReadCounters {
    bytes_read: AtomicU64,
    extents_read: AtomicU64,
    extents_cached: AtomicU64,
    pages_read: AtomicU64,
}

impl ReadCounters {
    pub(super) fn add_bytes(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn add_extent(&self) {
        self.extents_read.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_pages(&self, pages: usize) {
        self.pages_read.fetch_add(pages as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_hit(&self) {
        self.extents_cached.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes that came from the store.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Extents that were read from the store and decoded, whole or in part.
    pub fn extents_read(&self) -> u64 {
        self.extents_read.load(Ordering::Relaxed)
    }

    /// Parquet pages that were read from the store, dictionaries included.
    pub fn pages_read(&self) -> u64 {
        self.pages_read.load(Ordering::Relaxed)
    }

    /// Extents that were found decoded in the cache.
    pub fn extents_cached(&self) -> u64 {
        self.extents_cached.load(Ordering::Relaxed)
    }
}

/// What an array weighs beside its values.
const COLUMN_BYTES: usize = 256;

/// The decoded rows of an extent, and their keys once somebody asked for them.
#[derive(Debug)]
pub struct DecodedExtent {
    rows: Arc<ChangeBatch>,
    keys: OnceLock<Keys>,
    bytes: usize,
}

impl DecodedExtent {
    /// The rows.
    pub fn rows(&self) -> &Arc<ChangeBatch> {
        &self.rows
    }

    fn of(segment: &Segment, extent: usize, rows: Arc<ChangeBatch>) -> Arc<DecodedExtent> {
        let info = segment.extents().info(extent);
        let count = rows.rows();
        // Columns of pages have buffers of their own; those of an extent hold all of it.
        let held = match segment.has_pages() {
            true => rows.memory_bytes(),
            false => info.raw_len as usize / info.rows.max(1) as usize * count,
        };
        let keys = count * (info.max_key.len() + size_of::<usize>());
        let columns = rows.data.num_columns() * COLUMN_BYTES;
        Arc::new(DecodedExtent {
            rows,
            keys: OnceLock::new(),
            bytes: held + keys + columns,
        })
    }

    fn found(&self, codec: &KeyCodec, key: &[u8]) -> Result<Option<FoundRows>> {
        let at = self.find(codec, key)?;
        let rows = Arc::clone(&self.rows);
        Ok((!at.is_empty()).then_some(FoundRows::In { rows, at }))
    }

    /// The encoded keys of all rows; the extent must have been read with all key columns.
    ///
    /// # Errors
    /// `Internal` when the rows are not of the codec's schema.
    pub fn keys(&self, codec: &KeyCodec) -> Result<&Keys> {
        if let Some(keys) = self.keys.get() {
            return Ok(keys);
        }
        let keys = codec.encode(&self.rows.data)?;
        Ok(self.keys.get_or_init(|| keys))
    }

    /// The stored rows of a key: none, one, or the two of a split pair.
    ///
    /// # Errors
    /// As [`DecodedExtent::keys`].
    pub fn find(&self, codec: &KeyCodec, key: &[u8]) -> Result<Range<usize>> {
        Ok(rows_of_key(self.keys(codec)?, key))
    }
}

/// Where a key stands among sorted keys.
pub(super) fn rows_of_key(keys: &Keys, key: &[u8]) -> Range<usize> {
    let (mut low, mut high) = (0, keys.num_rows());
    while low < high {
        let middle = low + (high - low) / 2;
        match keys.row(middle).data() < key {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    let same = (low..keys.num_rows()).take_while(|row| keys.row(*row).data() == key);
    low..low + same.count()
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum CacheKey {
    /// By the hash of the file's name; the name itself is compared on a hit. And by the version of
    /// the table that its rows are given in.
    Index(u64, SchemaVersion),
    Extent {
        segment: u128,
        extent: usize,
        /// Which rows and columns; `None` for all.
        part: Option<Part>,
    },
    /// What point reads come back to, by the first row: of a Parquet row group rows that share
    /// pages, else all of an extent.
    Page {
        segment: u128,
        extent: usize,
        first_row: usize,
    },
}

impl CacheKey {
    /// All of an extent.
    fn whole(segment: &Segment, extent: usize) -> CacheKey {
        CacheKey::Extent {
            segment: segment.id(),
            extent,
            part: None,
        }
    }
}

#[derive(Debug, Clone)]
enum CacheValue {
    Index(Arc<Segment>),
    Extent(Arc<DecodedExtent>),
    /// Rows of a page, one behind the other.
    Page(Arc<RowPage>),
    /// How often single rows were read from a page that is not kept.
    Touches(Arc<AtomicU32>),
}

/// A page is decoded whole and kept, one row behind the other where it can be, at this many point
/// reads. Fewer would fill the cache with pages of which one row was wanted once.
const TOUCHES_TO_KEEP: u32 = 4;
/// In so many steps a cache gives up memory that it lends.
const LENT_STEPS: u64 = 64;
/// A cache keeps this share, whatever it lends: one part of so many.
const KEPT_SHARE: u64 = 4;
/// What reads of less than this share of a cache decode is kept: one part of so many.
const READ_SHARE: u64 = 4;
/// What an entry without rows weighs.
const ENTRY_BYTES: u64 = 96;

/// The stored rows of one key; those of Parquet may lack their versions.
#[derive(Debug, Clone)]
pub enum FoundRows {
    /// Among others.
    In {
        /// The batch that holds them.
        rows: Arc<ChangeBatch>,
        /// Where in the batch: one row, or the two of a split pair.
        at: Range<usize>,
    },
    /// A whole row.
    Packed(PackedRow),
}

impl FoundRows {
    /// The rows and nothing else.
    ///
    /// # Errors
    /// `Internal` when what is kept of them is no row.
    pub fn alone(&self) -> Result<ChangeBatch> {
        match self {
            FoundRows::In { rows, at } => Ok(rows.slice(at.start, at.len())),
            FoundRows::Packed(row) => Ok(ChangeBatch::upserts(row.batch()?, 0)),
        }
    }
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<CacheKey, CacheValue> for ByBytes {
    fn weight(&self, _: &CacheKey, value: &CacheValue) -> u64 {
        match value {
            CacheValue::Index(segment) => segment.memory_bytes() as u64,
            CacheValue::Extent(extent) => extent.bytes as u64,
            CacheValue::Page(page) => page.memory_bytes() as u64 + ENTRY_BYTES,
            CacheValue::Touches(_) => ENTRY_BYTES,
        }
    }
}

type Hasher = BuildHasherDefault<DefaultHasher>;

/// How long a read waits for another one that loads the same.
const PATIENCE: Duration = Duration::from_secs(1);

/// Open segments and decoded extents, shared by all reads.
pub struct SegmentCache {
    cache: Cache<CacheKey, CacheValue, ByBytes, Hasher>,
    clock: Arc<dyn Clock>,
    bytes_max: u64,
    lent: Mutex<u64>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Memory beside a cache that counts as the cache's own, for as long as this lives.
#[derive(Debug)]
pub struct Lent {
    cache: Arc<SegmentCache>,
    bytes: u64,
}

impl Lent {
    /// So many bytes are in use now.
    pub fn set(&mut self, bytes: u64) {
        self.cache.change_lent(self.bytes, bytes);
        self.bytes = bytes;
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// How a cache is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheUsage {
    /// What was found in it since the opening.
    pub hits: u64,
    /// What had to be read and decoded.
    pub misses: u64,
    /// The bytes that are kept, and those that are lent.
    pub bytes: u64,
    /// The bytes that may be.
    pub bytes_max: u64,
}

impl fmt::Debug for SegmentCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentCache")
            .field("usage", &self.usage())
            .finish_non_exhaustive()
    }
}

impl SegmentCache {
    /// A cache of at most `bytes`.
    pub fn new(clock: Arc<dyn Clock>, bytes: u64) -> SegmentCache {
        let items = (bytes / 64_000).clamp(64, 1 << 20) as usize;
        let options = OptionsBuilder::new()
            .estimated_items_capacity(items)
            .weight_capacity(bytes)
            .build()
            .expect("both capacities are given");
        let lifecycle = DefaultLifecycle::default();
        SegmentCache {
            cache: Cache::with_options(options, ByBytes, Hasher::default(), lifecycle),
            clock,
            bytes_max: bytes,
            lent: Mutex::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The bytes that are kept, and those that are lent.
    pub fn bytes(&self) -> u64 {
        self.cache.weight() + *self.lent.lock()
    }

    /// Lends memory; none of it is in use yet.
    pub fn lend(self: &Arc<Self>) -> Lent {
        let cache = Arc::clone(self);
        Lent { cache, bytes: 0 }
    }

    fn change_lent(&self, before: u64, after: u64) {
        let mut lent = self.lent.lock();
        let old = self.left_of(*lent);
        *lent = lent.saturating_sub(before) + after;
        let left = self.left_of(*lent);
        if left != old {
            self.cache.set_capacity(left);
        }
    }

    /// What may be kept while so much is lent, in steps: each asks the whole cache.
    fn left_of(&self, lent: u64) -> u64 {
        let step = (self.bytes_max / LENT_STEPS).max(1);
        let lent = lent.div_ceil(step) * step;
        let least = self.bytes_max / KEPT_SHARE;
        self.bytes_max.saturating_sub(lent).max(least)
    }

    /// Whether what a read of so many bytes decodes is kept for the next one: not where it would
    /// flush what others left, however little that is now.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        self.has_room_beside(bytes, 0)
    }

    /// The same for a read that has itself been lent so many bytes: what it keeps there is no
    /// reason to keep nothing for it.
    pub(crate) fn has_room_beside(&self, bytes: u64, own: u64) -> bool {
        let of_others = self.lent.lock().saturating_sub(own);
        bytes < self.left_of(of_others) / READ_SHARE
    }

    /// How it is used: extents and pages, not the indexes of segments.
    pub fn usage(&self) -> CacheUsage {
        CacheUsage {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            bytes: self.bytes(),
            bytes_max: self.bytes_max,
        }
    }

    fn hit(&self, counters: &ReadCounters) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        counters.add_hit();
    }

    fn miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// What is kept, or what `load` gives, which then is. Whoever comes while another one loads it
    /// waits for that one, but not for ever: a read that hangs holds up nobody else.
    async fn get_or_load(
        &self,
        key: &CacheKey,
        load: impl Future<Output = Result<CacheValue>>,
    ) -> Result<CacheValue> {
        if let Some(found) = self.cache.get(key) {
            return Ok(found);
        }
        let waiting = pin!(self.cache.get_value_or_guard_async(key));
        match select(waiting, self.clock.sleep(PATIENCE)).await {
            Either::Left((Ok(found), _)) => Ok(found),
            Either::Left((Err(place), _)) => {
                let loaded = load.await?;
                // Where it was taken out meanwhile, it is not kept.
                let _ = place.insert(loaded.clone());
                Ok(loaded)
            }
            Either::Right(_) => {
                let loaded = load.await?;
                // In the place of what hangs: nobody waits for that any more.
                self.cache.insert(key.clone(), loaded.clone());
                Ok(loaded)
            }
        }
    }

    /// Opens a segment, or takes it from the cache.
    ///
    /// # Errors
    /// As [`Segment::open`].
    pub async fn open(
        &self,
        env: &Env,
        layout: &Arc<RowLayout>,
        meta: &Arc<SegmentMeta>,
        counters: &ReadCounters,
    ) -> Result<Arc<Segment>> {
        let opening = || Segment::open(env, layout, Arc::clone(meta), counters);
        let key = CacheKey::Index(key_hash(meta.file.as_bytes()), layout.table.version);
        let load = async { Ok::<_, Error>(CacheValue::Index(opening().await?)) };
        match self.get_or_load(&key, load).await? {
            CacheValue::Index(found) if found.meta().file == meta.file => Ok(found),
            _ => opening().await,
        }
    }

    /// Reads an extent, or takes it from the cache.
    ///
    /// # Errors
    /// As [`Segment::read_extent`].
    pub async fn extent(
        &self,
        segment: &Segment,
        extent: usize,
        counters: &ReadCounters,
    ) -> Result<Arc<DecodedExtent>> {
        self.cached(segment, extent, None, counters).await
    }

    /// Reads a part of an extent, or takes it from the cache, if the same part was read before.
    ///
    /// # Errors
    /// As [`Segment::read_part`].
    pub async fn extent_part(
        &self,
        segment: &Segment,
        extent: usize,
        part: Part,
        counters: &ReadCounters,
    ) -> Result<Arc<DecodedExtent>> {
        self.cached(segment, extent, Some(part), counters).await
    }

    async fn cached(
        &self,
        segment: &Segment,
        extent: usize,
        part: Option<Part>,
        counters: &ReadCounters,
    ) -> Result<Arc<DecodedExtent>> {
        let key = CacheKey::Extent {
            segment: segment.id(),
            extent,
            part: part.clone(),
        };
        if let Some(CacheValue::Extent(found)) = self.cache.get(&key) {
            self.hit(counters);
            return Ok(found);
        }
        self.miss();
        let load = async {
            let rows = match part {
                None => segment.read_extent(extent, counters).await?,
                Some(part) => segment.read_part(extent, part, counters).await?,
            };
            Ok::<_, Error>(CacheValue::Extent(DecodedExtent::of(segment, extent, rows)))
        };
        match self.get_or_load(&key, load).await? {
            CacheValue::Extent(found) => Ok(found),
            _ => Err(Error::internal(
                "the cache holds something else for an extent",
            )),
        }
    }

    /// The stored rows of a key in the extent that [`Segment::may_contain`] named: from the cache,
    /// or with as little as the format allows.
    ///
    /// # Errors
    /// As [`Segment::read_extent`].
    pub async fn point(
        &self,
        segment: &Segment,
        extent: usize,
        key: &[u8],
        counters: &ReadCounters,
    ) -> Result<Option<FoundRows>> {
        let codec = &segment.layout().codec;
        let rows = segment.rows_around(extent, key);
        let page = CacheKey::Page {
            segment: segment.id(),
            extent,
            first_row: rows.start,
        };
        let touches = match self.cache.get(&page) {
            Some(CacheValue::Page(kept)) => {
                self.hit(counters);
                return Ok(kept.find(key).map(FoundRows::Packed));
            }
            Some(CacheValue::Extent(kept)) => {
                self.hit(counters);
                return kept.found(codec, key);
            }
            Some(CacheValue::Touches(touches)) => touches.fetch_add(1, Ordering::Relaxed) + 1,
            _ => {
                let first = CacheValue::Touches(Arc::new(AtomicU32::new(1)));
                self.cache.insert(page.clone(), first);
                1
            }
        };
        let is_kept = touches >= TOUCHES_TO_KEEP;
        let read = match segment.has_pages() {
            false => self.extent(segment, extent, counters).await?,
            true => {
                self.miss();
                if !is_kept {
                    return segment.read_point(extent, key, counters).await;
                }
                let read = segment.read_rows(extent, rows, None, counters).await?;
                DecodedExtent::of(segment, extent, read)
            }
        };
        if is_kept {
            let kept = match RowPage::pack(&read.rows, read.keys(codec)?) {
                Some(packed) => CacheValue::Page(Arc::new(packed)),
                None => CacheValue::Extent(Arc::clone(&read)),
            };
            self.cache.insert(page, kept);
            if !segment.has_pages() {
                // In the place of what reading it has kept: not both.
                self.cache.remove(&CacheKey::whole(segment, extent));
            }
        }
        read.found(codec, key)
    }
}
