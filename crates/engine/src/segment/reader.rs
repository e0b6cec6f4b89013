//! Reads segments: the index once, then extents one by one, each verified before it is decoded
//! (invariant SEG-1).
//!
//! An error of damage names the file, the table and the extent; the caller knows view and SCU
//! span and adds them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use lazybase_model::{Error, Result, SchemaVersion};
use twox_hash::XxHash3_128;

use super::RowLayout;
use super::cache::{FoundRows, ReadCounters, rows_of_key};
use super::encode::{EncodedExtent, decode_extent};
use super::extent_format::parse_index_part;
use super::extent_index::{ExtentIndex, ExtentInfo};
use super::parquet_format::read::{ParquetParts, Source};
use crate::change_batch::ChangeBatch;
use crate::env::planted::{Planted, is_planted};
use crate::env::{Env, Store};
use crate::key::Keys;
use crate::manifest::{SegmentFormat, SegmentMeta};
use crate::schema::Adapter;

/// Some rows of an extent, and of them some columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Part {
    /// Which rows.
    pub rows: Range<usize>,
    /// Positions in the table's columns, in the order wanted.
    pub columns: Arc<[usize]>,
    /// Whether the rows come with their versions.
    pub versions: bool,
    /// Whether texts come as views, where that saves their copy: from Parquet of the definition
    /// that is read, without versions. Elsewhere they come as they are.
    pub views: bool,
}

/// An open segment: its index in memory, its extents in the store.
#[derive(Debug)]
pub struct Segment {
    id: u128,
    store: Arc<dyn Store>,
    /// The layout of the rows that it gives.
    layout: Arc<RowLayout>,
    /// The layout of the rows that it stores: that of the definition they were written under.
    stored: Arc<RowLayout>,
    /// From the stored rows to those that it gives, where they differ.
    adapter: Option<Adapter>,
    meta: Arc<SegmentMeta>,
    body: Body,
}

/// What is held of a segment in memory.
#[derive(Debug)]
enum Body {
    Extents(ExtentIndex),
    Parquet(Box<ParquetParts>),
}

impl Body {
    fn index(&self) -> &ExtentIndex {
        match self {
            Body::Extents(index) => index,
            Body::Parquet(parts) => parts.index(),
        }
    }
}

fn id_of(file: &str, version: SchemaVersion) -> u128 {
    XxHash3_128::oneshot_with_seed(u64::from(version.0), file.as_bytes())
}

impl Segment {
    /// Opens a segment: reads its index part, verifies it, and only then parses it.
    ///
    /// # Errors
    /// `Corrupt` when the file is missing, has another length, or its index is damaged; the
    /// store's errors.
    pub async fn open(
        env: &Env,
        layout: &Arc<RowLayout>,
        meta: Arc<SegmentMeta>,
        counters: &ReadCounters,
    ) -> Result<Arc<Segment>> {
        let opened = Segment::load(env, layout, meta, counters).await?;
        Ok(Arc::new(opened))
    }

    /// Opens a segment to read its rows as they are stored, whatever the table's definition is by
    /// now: what checks the file needs.
    ///
    /// # Errors
    /// As [`Segment::open`].
    pub(super) async fn open_stored(
        env: &Env,
        layout: &Arc<RowLayout>,
        meta: Arc<SegmentMeta>,
        counters: &ReadCounters,
    ) -> Result<Segment> {
        let opened = Segment::load(env, layout, meta, counters).await?;
        Ok(Segment {
            id: id_of(&opened.meta.file, opened.stored.table.version),
            layout: Arc::clone(&opened.stored),
            adapter: None,
            ..opened
        })
    }

    async fn load(
        env: &Env,
        layout: &Arc<RowLayout>,
        meta: Arc<SegmentMeta>,
        counters: &ReadCounters,
    ) -> Result<Segment> {
        let store = Arc::clone(&env.store);
        let opened = Segment::load_index(&*store, layout, &meta, counters).await;
        let opened = opened.and_then(|(body, stored)| {
            let adapter = match Arc::ptr_eq(&stored, layout) {
                true => None,
                false => Adapter::between(&stored.table, layout)?,
            };
            Ok((body, stored, adapter))
        });
        let (body, stored, adapter) = opened.map_err(|error| named(error, layout, &meta))?;
        Ok(Segment {
            id: id_of(&meta.file, layout.table.version),
            body,
            store,
            layout: Arc::clone(layout),
            stored,
            adapter,
            meta,
        })
    }

    async fn load_index(
        store: &dyn Store,
        layout: &Arc<RowLayout>,
        meta: &SegmentMeta,
        counters: &ReadCounters,
    ) -> Result<(Body, Arc<RowLayout>)> {
        if meta.is_lost() {
            return Err(Error::corrupt(
                "the log that held these rows was damaged before they were sorted",
            ));
        }
        let length = store.len(&meta.file).await?;
        if length != meta.bytes || meta.index_offset > length {
            return Err(Error::corrupt(format!(
                "the file has {length} bytes and not {}",
                meta.bytes
            )));
        }
        let part = store.read(&meta.file, meta.index_offset..length).await?;
        counters.add_bytes(part.len());
        if crc32c::crc32c(&part) != meta.index_crc {
            return Err(Error::corrupt("its index is damaged: checksum mismatch"));
        }
        let (body, stored) = match meta.format {
            SegmentFormat::Extent => {
                let parsed = parse_index_part(&part, layout, meta.index_offset, meta.rows)?;
                (Body::Extents(parsed.0), parsed.1)
            }
            SegmentFormat::Parquet => {
                let parsed = ParquetParts::parse(&part, layout, meta)?;
                (Body::Parquet(Box::new(parsed.0)), parsed.1)
            }
        };
        let index = body.index();
        let last = index.len().checked_sub(1);
        let ends = last.map(|last| (index.min_key(0), index.max_key(last)));
        match ends == Some((meta.min_key.as_bytes(), meta.max_key.as_bytes())) {
            true => Ok((body, stored)),
            false => Err(Error::corrupt(
                "its keys are not those that the manifest names",
            )),
        }
    }

    /// Tells it from every other segment in the cache, without comparing names: the XXH3-128 of
    /// its file and of the version that it gives its rows in. The same in each run, so that what a
    /// full cache gives up is the same, too.
    pub(crate) fn id(&self) -> u128 {
        self.id
    }

    /// What the manifest says about it.
    pub fn meta(&self) -> &Arc<SegmentMeta> {
        &self.meta
    }

    /// The layout of the rows that it gives.
    pub fn layout(&self) -> &Arc<RowLayout> {
        &self.layout
    }

    /// Whether its extents, as bytes, may stand in a new file of its layout.
    pub fn may_be_copied(&self) -> bool {
        let same = self.adapter.is_none();
        match &self.body {
            Body::Extents(_) => same,
            Body::Parquet(parts) => same && parts.has_names_of(&self.layout),
        }
    }

    /// Its extents in key order.
    pub fn extents(&self) -> &ExtentIndex {
        self.body.index()
    }

    /// The extent that may hold a key; `hash` is [`super::key_hash`] of it.
    pub fn may_contain(&self, key: &[u8], hash: u64) -> Option<usize> {
        self.body.index().may_contain(key, hash)
    }

    /// The extents that hold keys from `low` (included) to `high` (excluded).
    pub fn extents_overlapping(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Range<usize> {
        self.body.index().extents_overlapping(low, high)
    }

    /// Reads one extent whole.
    ///
    /// # Errors
    /// `Corrupt` when its bytes are damaged; the store's errors.
    pub async fn read_extent(
        &self,
        extent: usize,
        counters: &ReadCounters,
    ) -> Result<Arc<ChangeBatch>> {
        self.read_projected(extent, None, counters).await
    }

    async fn read_projected(
        &self,
        extent: usize,
        projection: Option<&[usize]>,
        counters: &ReadCounters,
    ) -> Result<Arc<ChangeBatch>> {
        let info = self.body.index().info(extent);
        counters.add_extent();
        let rows = match &self.body {
            Body::Extents(_) => {
                let stored = self.read_verified(extent, &info, counters).await?;
                self.decoded(&stored, projection)
            }
            Body::Parquet(parts) => {
                let all = 0..info.rows as usize;
                self.read_group(parts, extent, all, projection, counters)
                    .await
            }
        };
        self.all_there(extent, rows).map(Arc::new)
    }

    /// The rows of an extent, if they are as many as its index says.
    fn all_there(&self, extent: usize, rows: Result<ChangeBatch>) -> Result<ChangeBatch> {
        let rows = rows.map_err(|error| self.damaged(extent, error))?;
        if rows.rows() != self.body.index().info(extent).rows as usize {
            let error = Error::corrupt("it has another number of rows than its index says");
            return Err(self.damaged(extent, error));
        }
        Ok(rows)
    }

    /// The rows of an extent's bytes.
    fn decoded(&self, stored: &[u8], projection: Option<&[usize]>) -> Result<ChangeBatch> {
        let Some(adapter) = &self.adapter else {
            return decode_extent(stored, &self.stored.schema, projection);
        };
        let rows = adapter.adapt(&decode_extent(stored, &self.stored.schema, None)?)?;
        let Some(columns) = projection else {
            return Ok(rows);
        };
        let data = rows.data.project(columns);
        let data = data.map_err(|error| Error::internal(error.to_string()))?;
        Ok(ChangeBatch { data, ..rows })
    }

    /// Rows of a Parquet row group: as they are, or only some columns of them, without versions.
    async fn read_group(
        &self,
        parts: &ParquetParts,
        group: usize,
        rows: Range<usize>,
        projection: Option<&[usize]>,
        counters: &ReadCounters,
    ) -> Result<ChangeBatch> {
        let source = self.source(counters);
        match (&self.adapter, projection) {
            (None, _) => parts.read_rows(&source, group, rows, projection).await,
            (Some(adapter), None) => {
                let stored = parts.read_rows(&source, group, rows, None).await?;
                adapter.adapt(&stored)
            }
            (Some(adapter), Some(wanted)) => {
                let columns = adapter.stored_columns(wanted);
                let stored = parts
                    .read_rows(&source, group, rows, Some(&columns))
                    .await?;
                let data = adapter.plain(&stored.data, &columns, wanted)?;
                Ok(ChangeBatch { data, ..stored })
            }
        }
    }

    fn source<'s>(&'s self, counters: &'s ReadCounters) -> Source<'s> {
        Source {
            store: &*self.store,
            file: &self.meta.file,
            length: self.meta.bytes,
            layout: &self.stored,
            counters,
        }
    }

    /// The rows of an extent among which a key lies, if the extent holds it. In Parquet these are
    /// one page of each column.
    pub fn rows_around(&self, extent: usize, key: &[u8]) -> Range<usize> {
        match &self.body {
            Body::Extents(index) => 0..index.info(extent).rows as usize,
            Body::Parquet(parts) => parts.rows_around(extent, key),
        }
    }

    /// The rows of an extent among which all keys from `low` (included) to `high` (excluded) lie.
    /// In Parquet these are whole pages of each column.
    pub fn rows_between(
        &self,
        extent: usize,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
    ) -> Range<usize> {
        match &self.body {
            Body::Extents(index) => 0..index.info(extent).rows as usize,
            Body::Parquet(parts) => parts.rows_between(extent, low, high),
        }
    }

    /// Keys of an extent's rows that are known before it is read, rising from the least one on, and
    /// how many rows lie from one of them to the next: in Parquet those that pages begin with, else
    /// none.
    pub(crate) fn known_keys(&self, extent: usize) -> (&[Bytes], usize) {
        match &self.body {
            Body::Extents(_) => (&[], 0),
            Body::Parquet(parts) => parts.known_keys(extent),
        }
    }

    /// Reads some rows of an extent, and of them some columns (`None` for all, and their versions),
    /// in the order of `projection`. In Parquet only the pages that hold them are read, and no
    /// versions; changes keep masks and column SCUs that speak of all columns of the table.
    ///
    /// # Errors
    /// As [`Segment::read_extent`].
    pub async fn read_rows(
        &self,
        extent: usize,
        rows: Range<usize>,
        projection: Option<&[usize]>,
        counters: &ReadCounters,
    ) -> Result<Arc<ChangeBatch>> {
        match &self.body {
            Body::Extents(_) => {
                let all = self.read_projected(extent, projection, counters).await?;
                Ok(Arc::new(all.slice(rows.start, rows.len())))
            }
            Body::Parquet(parts) => {
                counters.add_extent();
                let read = self.read_group(parts, extent, rows, projection, counters);
                read.await
                    .map(Arc::new)
                    .map_err(|error| self.damaged(extent, error))
            }
        }
    }

    /// Reads a part of an extent.
    ///
    /// # Errors
    /// As [`Segment::read_extent`].
    pub async fn read_part(
        &self,
        extent: usize,
        part: Part,
        counters: &ReadCounters,
    ) -> Result<Arc<ChangeBatch>> {
        let (rows, columns) = (part.rows, &*part.columns);
        match (&self.body, &self.adapter) {
            _ if part.versions => self.read_versioned(extent, rows, columns, counters).await,
            (Body::Parquet(parts), None) if part.views => {
                counters.add_extent();
                let source = self.source(counters);
                let read = parts.read_views(&source, extent, rows, columns).await;
                read.map(Arc::new)
                    .map_err(|error| self.damaged(extent, error))
            }
            _ => self.read_rows(extent, rows, Some(columns), counters).await,
        }
    }

    /// Reads some rows of an extent, and of them some columns with their versions.
    ///
    /// # Errors
    /// As [`Segment::read_extent`].
    async fn read_versioned(
        &self,
        extent: usize,
        rows: Range<usize>,
        columns: &[usize],
        counters: &ReadCounters,
    ) -> Result<Arc<ChangeBatch>> {
        let read = match (&self.body, &self.adapter) {
            (Body::Extents(_), _) => {
                let all = self.read_extent(extent, counters).await?;
                return all
                    .slice(rows.start, rows.len())
                    .project(columns)
                    .map(Arc::new);
            }
            (Body::Parquet(parts), None) => {
                counters.add_extent();
                let source = self.source(counters);
                parts.read_versioned(&source, extent, rows, columns).await
            }
            // What a cell's version is depends on columns that are not wanted.
            (Body::Parquet(parts), Some(_)) => {
                counters.add_extent();
                let all = self.read_group(parts, extent, rows, None, counters).await;
                all.and_then(|all| all.project(columns))
            }
        };
        read.map(Arc::new)
            .map_err(|error| self.damaged(extent, error))
    }

    /// Reads the rows of one key from the extent that [`Segment::may_contain`] named. In Parquet
    /// that is one page of the key's columns, then one page a column, without versions.
    ///
    /// # Errors
    /// As [`Segment::read_extent`].
    pub async fn read_point(
        &self,
        extent: usize,
        key: &[u8],
        counters: &ReadCounters,
    ) -> Result<Option<FoundRows>> {
        let parts = match &self.body {
            Body::Extents(_) => {
                let rows = self.read_extent(extent, counters).await?;
                let keys = self.layout.codec.encode(&rows.data)?;
                let at = rows_of_key(&keys, key);
                return Ok((!at.is_empty()).then_some(FoundRows::In { rows, at }));
            }
            Body::Parquet(parts) => parts,
        };
        counters.add_extent();
        let read = parts.read_key(&self.source(counters), extent, key).await;
        let read = read.and_then(|row| match (row, &self.adapter) {
            (Some(row), Some(adapter)) => adapter.adapt(&row).map(Some),
            (row, _) => Ok(row),
        });
        let row = read.map_err(|error| self.damaged(extent, error))?;
        Ok(row.map(|row| FoundRows::In {
            rows: Arc::new(row),
            at: 0..1,
        }))
    }

    /// Whether a point read takes less than a whole extent.
    pub(super) fn has_pages(&self) -> bool {
        matches!(self.body, Body::Parquet(_))
    }

    /// What a Parquet row group says about the keys of its rows, checked against them.
    pub(super) fn check_first_keys(&self, extent: usize, keys: &Keys) -> Result<()> {
        match &self.body {
            Body::Extents(_) => Ok(()),
            Body::Parquet(parts) => parts.check_first_keys(extent, keys),
        }
    }

    /// Reads an extent as it is stored, to be copied to another segment.
    ///
    /// # Errors
    /// As [`Segment::read_extent`].
    pub async fn read_encoded(
        &self,
        extent: usize,
        counters: &ReadCounters,
    ) -> Result<EncodedExtent> {
        let info = self.body.index().info(extent);
        let (stored, group) = match &self.body {
            Body::Extents(_) => (self.read_verified(extent, &info, counters).await?, None),
            Body::Parquet(parts) => {
                let read = parts.read_encoded(&self.source(counters), extent).await;
                let group = read.map_err(|error| self.damaged(extent, error))?;
                (Bytes::new(), Some(Arc::new(group)))
            }
        };
        Ok(EncodedExtent {
            min_key: Bytes::copy_from_slice(info.min_key),
            max_key: Bytes::copy_from_slice(info.max_key),
            rows: info.rows,
            raw_len: info.raw_len,
            crc32c: info.crc32c,
            newest_scu: info.newest_scu,
            all_upserts: info.all_upserts,
            filter: Bytes::copy_from_slice(info.filter),
            stored,
            group,
        })
    }

    /// The rows of an extent that [`Segment::read_encoded`] gave: those of
    /// [`Segment::read_extent`], without another read.
    ///
    /// # Errors
    /// As [`Segment::read_extent`].
    pub fn rows_of(&self, extent: usize, encoded: &EncodedExtent) -> Result<ChangeBatch> {
        let rows = match (&self.body, &encoded.group) {
            (Body::Parquet(parts), Some(group)) => {
                let stored = parts.rows_of(&self.stored, extent, group);
                stored.and_then(|stored| match &self.adapter {
                    Some(adapter) => adapter.adapt(&stored),
                    None => Ok(stored),
                })
            }
            _ => self.decoded(&encoded.stored, None),
        };
        self.all_there(extent, rows)
    }

    /// The same rows, thin: with only these columns, which are rising, and versions that speak of
    /// all columns. `None` where columns can't be read from it alone: it is no Parquet row group,
    /// or of an older definition.
    ///
    /// # Errors
    /// As [`Segment::read_extent`].
    pub fn thin_rows(
        &self,
        extent: usize,
        encoded: &EncodedExtent,
        columns: &[usize],
    ) -> Result<Option<ChangeBatch>> {
        match (&self.body, &encoded.group) {
            (Body::Parquet(parts), Some(group)) if self.may_be_copied() => parts
                .thin_rows(&self.layout, extent, group, columns)
                .map(Some)
                .map_err(|error| self.damaged(extent, error)),
            _ => Ok(None),
        }
    }

    async fn read_verified(
        &self,
        extent: usize,
        info: &ExtentInfo<'_>,
        counters: &ReadCounters,
    ) -> Result<Bytes> {
        let range = info.offset..info.offset + u64::from(info.stored_len);
        let read = self.store.read(&self.meta.file, range).await;
        let stored = read.map_err(|error| self.damaged(extent, error.into()))?;
        counters.add_bytes(stored.len());
        let is_right = crc32c::crc32c(&stored) == info.crc32c;
        match is_right || is_planted(Planted::ChecksumIgnored) {
            true => Ok(stored),
            false => Err(self.damaged(extent, Error::corrupt("checksum mismatch"))),
        }
    }

    fn damaged(&self, extent: usize, error: Error) -> Error {
        named(
            error.within(format_args!("extent {extent}")),
            &self.layout,
            &self.meta,
        )
    }

    /// The memory that the open segment takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let body = match &self.body {
            Body::Extents(index) => index.memory_bytes(),
            Body::Parquet(parts) => parts.memory_bytes(),
        };
        size_of::<Segment>() + body
    }
}

/// The error with file and table.
pub(super) fn named(error: Error, layout: &RowLayout, meta: &SegmentMeta) -> Error {
    error
        .within(format_args!(
            "{} of table {:?}",
            meta.file, layout.table.name
        ))
        .with_file(&meta.file)
}
