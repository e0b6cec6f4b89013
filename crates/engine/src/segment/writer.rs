//! Writes sorted rows as segments: cuts them into extents, encodes, and rolls to a new file when
//! one is full.
//!
//! Reads nothing; writes `segments/{name}`, under fresh random names, so that running an attempt
//! twice is harmless. A file counts only when a manifest edit adopts the [`SegmentMeta`] that
//! [`SegmentWriter::finish`] returns; a writer that is dropped leaves at most files that nothing
//! names, which collection removes.

use std::sync::Arc;

use bytes::Bytes;
use lazybase_model::limits::{EXTENT_BYTES, SEGMENT_BYTES};
use lazybase_model::{Error, Layout, Result, ScuNumber};

use super::RowLayout;
use super::cut::{cuts, joined, rows_bytes};
use super::encode::{Codec, EncodedExtent, ExtentEncoder, newest_scu};
use super::extent_format::{FILE_HEADER_BYTES, file_header, index_part};
use super::extent_index::{ExtentIndexBuilder, ExtentInfo};
use super::parquet_format::write::{
    EncodedGroup, GroupInfo, ParquetFile, Sample, check_plain, group_rows, has_column_scus,
};
use crate::change_batch::ChangeBatch;
use crate::env::{Env, FileWriter};
use crate::key::{Key, Keys};
use crate::manifest::{SegmentFormat, SegmentMeta};
use crate::ttl;

/// The rows of a Parquet row group of wide rows.
const GROUP_ROWS: usize = 8192;
/// The bytes of a Parquet row group of narrow rows.
const GROUP_BYTES: usize = 8 << 20;
/// Bytes that are collected before they go to the store.
const WRITE_BYTES: usize = 1 << 20;
/// Small batches that may wait before they are joined: each keeps what it was sliced from in
/// memory.
const SMALL_BATCHES_MAX: usize = 16;

/// How large extents and files become, and how extents are compressed.
#[derive(Debug, Clone, Copy)]
pub struct WriteOptions {
    /// The bytes of rows, uncompressed, that an extent aims at.
    pub extent_bytes: usize,
    /// The bytes at which a file is full.
    pub segment_bytes: u64,
    /// How extents and pages are compressed.
    pub codec: Codec,
    /// The least rows of a Parquet row group (fewer only where they would take 32 MiB).
    pub group_rows: usize,
    /// The bytes of rows, uncompressed, that a Parquet row group of narrow rows aims at.
    pub group_bytes: usize,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions {
            extent_bytes: EXTENT_BYTES,
            segment_bytes: SEGMENT_BYTES,
            codec: Codec::default(),
            group_rows: GROUP_ROWS,
            group_bytes: GROUP_BYTES,
        }
    }
}

impl WriteOptions {
    /// Whether a Parquet row group of so many rows, which take so many bytes uncompressed, is so
    /// small that it had better be joined with others.
    pub fn is_small_group(&self, rows: usize, bytes: usize) -> bool {
        rows.saturating_mul(2) < self.group_rows && bytes.saturating_mul(2) < self.group_bytes
    }
}

/// Writes the segments of one run.
pub struct SegmentWriter {
    env: Env,
    layout: Arc<RowLayout>,
    format: SegmentFormat,
    options: WriteOptions,
    encoder: ExtentEncoder,
    pending: Pending,
    file: Option<File>,
    last_key: Option<Bytes>,
    /// The newest moment of the rows so far; `None` once that is not known.
    moments_through: Option<i64>,
    done: Vec<SegmentMeta>,
}

/// The file that is being written.
enum File {
    Extents(Box<ExtentFile>),
    Parquet(Box<ParquetFile>),
}

impl File {
    fn offset(&self) -> u64 {
        match self {
            File::Extents(file) => file.offset,
            File::Parquet(file) => file.offset,
        }
    }
}

impl std::fmt::Debug for SegmentWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentWriter")
            .field("table", &self.layout.table.name)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl SegmentWriter {
    /// A writer of rows of `layout`.
    ///
    /// # Errors
    /// `Internal` when a column's type is one that is cast away when changes are accepted.
    pub fn create(
        env: &Env,
        layout: &Arc<RowLayout>,
        format: SegmentFormat,
        options: WriteOptions,
    ) -> Result<SegmentWriter> {
        let encoder = ExtentEncoder::new(&layout.schema, options.codec)?;
        let encoder = match layout.table.layout {
            Layout::Point => encoder.for_reads_by_key(),
            Layout::Scan => encoder,
        };
        Ok(SegmentWriter {
            env: env.clone(),
            layout: Arc::clone(layout),
            format,
            encoder,
            options,
            pending: Pending::default(),
            file: None,
            last_key: None,
            moments_through: layout.table.ttl.map(|_| i64::MIN),
            done: Vec::new(),
        })
    }

    /// Adds rows in key order: each key once, save for split pairs; all keys after those of
    /// earlier calls. Parquet takes whole-row upserts only.
    ///
    /// # Errors
    /// `Internal` when the rows break an invariant of [`ChangeBatch`] or the order; the store's
    /// errors.
    pub async fn push(&mut self, batch: ChangeBatch) -> Result<()> {
        if batch.rows() == 0 {
            return Ok(());
        }
        if let Some(at) = self.layout.table.ttl_index() {
            self.note_moments(ttl::newest_moment(batch.data.column(at)));
        }
        match self.format {
            SegmentFormat::Extent => {
                self.pending.push(batch)?;
                match self.pending.bytes >= self.options.extent_bytes {
                    true => self.write_pending().await,
                    false => Ok(()),
                }
            }
            SegmentFormat::Parquet => {
                check_plain(&batch)?;
                self.pending.push(batch)?;
                loop {
                    let Pending { bytes, rows, .. } = self.pending;
                    let group = group_rows(bytes, rows, &self.options);
                    if rows < group {
                        return Ok(());
                    }
                    let batches = self.pending.take_rows(group);
                    self.write_group(&batches).await?;
                }
            }
        }
    }

    /// Notes that no row that is added has a moment after this one; `None` where that is not known.
    fn note_moments(&mut self, through: Option<i64>) {
        let both = self.moments_through.zip(through);
        self.moments_through = both.map(|(known, through)| known.max(through));
    }

    /// Adds an extent of the segment `from` as [`SegmentWriter::push_encoded`] does; its moments
    /// are no later than that segment's.
    ///
    /// # Errors
    /// As [`SegmentWriter::push_encoded`].
    pub async fn push_copied(&mut self, extent: EncodedExtent, from: &SegmentMeta) -> Result<()> {
        self.note_moments(from.moments_through);
        self.copy(extent).await
    }

    /// Adds an extent of another segment of the same layout and format as it is, undecoded.
    ///
    /// # Errors
    /// `Internal` when its keys are not after all earlier ones, or it is of the other format; the
    /// store's errors.
    pub async fn push_encoded(&mut self, extent: EncodedExtent) -> Result<()> {
        self.note_moments(None);
        self.copy(extent).await
    }

    /// Adds a row group of the segment `from` of which the columns `touched` are patched. `rows`
    /// are its rows, thin, after the patch, and `before` what they were.
    ///
    /// # Errors
    /// As [`SegmentWriter::push_encoded`].
    pub async fn push_patched(
        &mut self,
        extent: EncodedExtent,
        from: &SegmentMeta,
        (before, rows): (&ChangeBatch, &ChangeBatch),
        touched: &[usize],
    ) -> Result<()> {
        let ttl_index = self.layout.table.ttl_index();
        let moments = ttl_index.filter(|at| touched.contains(at));
        self.note_moments(match moments {
            Some(at) => ttl::newest_moment(rows.data.column(at)),
            None => from.moments_through,
        });
        self.write_pending().await?;
        let Some(group) = &extent.group else {
            return Err(Error::internal("columns of an extent were patched"));
        };
        let extent = EncodedExtent {
            raw_len: u32::try_from(patched_bytes(&extent, before, rows))
                .map_err(|_| Error::invalid("rows of one row group take more than 4 GiB"))?,
            newest_scu: newest_scu(rows),
            group: None,
            ..extent.clone()
        };
        self.append_group(&extent, group, Some((rows, touched)))
            .await
    }

    /// Whether a row group still is about as large as one should be when its rows, thin, are no
    /// longer `before` but `rows`: cells that grow would make it larger with each patch.
    pub fn is_still_one(
        &self,
        extent: &EncodedExtent,
        (before, rows): (&ChangeBatch, &ChangeBatch),
    ) -> bool {
        let (bytes, rows) = (patched_bytes(extent, before, rows), extent.rows as usize);
        rows * 2 <= group_rows(bytes, rows, &self.options) * 3
    }

    /// Whether an extent that comes next is not preceded by one that is much too small.
    pub fn is_between_extents(&self) -> bool {
        let Pending { bytes, rows, .. } = self.pending;
        rows == 0 || rows * 2 >= group_rows(bytes, rows, &self.options)
    }

    /// Adds rows as [`SegmentWriter::push`] does, as one row group if they are about as many as one
    /// has, or several alike: what comes next may be copied.
    ///
    /// # Errors
    /// As [`SegmentWriter::push`].
    pub async fn push_together(&mut self, batches: Vec<ChangeBatch>) -> Result<()> {
        if self.format == SegmentFormat::Extent {
            for batch in batches {
                self.push(batch).await?;
            }
            return Ok(());
        }
        for batch in batches.into_iter().filter(|batch| batch.rows() > 0) {
            if let Some(at) = self.layout.table.ttl_index() {
                self.note_moments(ttl::newest_moment(batch.data.column(at)));
            }
            check_plain(&batch)?;
            self.pending.push(batch)?;
        }
        let Pending { bytes, rows, .. } = self.pending;
        let group = group_rows(bytes, rows, &self.options);
        let groups = (rows + group / 2) / group;
        while self.pending.rows > 0 && groups > 0 {
            let batches = self.pending.take_rows(rows.div_ceil(groups));
            self.write_group(&batches).await?;
        }
        Ok(())
    }

    async fn copy(&mut self, extent: EncodedExtent) -> Result<()> {
        self.write_pending().await?;
        match (self.format, &extent.group) {
            (SegmentFormat::Extent, None) => self.append(&extent).await,
            (SegmentFormat::Parquet, Some(group)) => self.append_group(&extent, group, None).await,
            _ => Err(Error::internal(
                "an extent was copied to a file of the other format",
            )),
        }
    }

    /// Ends the last file: all segments, in key order, durable. None if there were no rows.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn finish(mut self) -> Result<Vec<SegmentMeta>> {
        self.write_pending().await?;
        self.close_file().await?;
        Ok(self.done)
    }

    /// The bytes of the files so far.
    pub fn bytes_written(&self) -> u64 {
        let done: u64 = self.done.iter().map(|meta| meta.bytes).sum();
        done + self.file.as_ref().map_or(0, File::offset)
    }

    async fn write_pending(&mut self) -> Result<()> {
        let batches = self.pending.take_all();
        match self.format {
            _ if batches.is_empty() => Ok(()),
            SegmentFormat::Extent => self.write_extents(&joined(&batches)?).await,
            SegmentFormat::Parquet => self.write_group(&batches).await,
        }
    }

    async fn write_extents(&mut self, rows: &ChangeBatch) -> Result<()> {
        let keys = self.layout.codec.encode(&rows.data)?;
        let mut start = 0;
        for end in cuts(rows, self.options.extent_bytes) {
            let extent = self
                .encoder
                .encode(&rows.slice(start, end - start), &keys, start)?;
            self.append(&extent).await?;
            start = end;
        }
        Ok(())
    }

    async fn append(&mut self, extent: &EncodedExtent) -> Result<()> {
        self.follow(&extent.min_key, extent.max_key.clone())?;
        let mut file = match self.file.take() {
            Some(File::Extents(file)) => file,
            _ => Box::new(ExtentFile::create(&self.env).await?),
        };
        file.append(extent).await?;
        self.file = Some(File::Extents(file));
        self.close_full_file().await
    }

    async fn write_group(&mut self, batches: &[ChangeBatch]) -> Result<()> {
        let encode = |batch: &ChangeBatch| self.layout.codec.encode(&batch.data);
        let keys: Vec<Keys> = batches.iter().map(encode).collect::<Result<_>>()?;
        if let (Some(first), Some(last)) = (keys.first(), keys.last()) {
            let last = last.row(last.num_rows() - 1);
            self.follow(first.row(0).data(), Bytes::copy_from_slice(last.data()))?;
        }
        let versions = batches.iter().any(has_column_scus);
        let rows = batches.iter().map(ChangeBatch::rows).sum();
        let bytes = batches.iter().map(|b| rows_bytes(b, 0, b.rows())).sum();
        let sample = batches.iter().max_by_key(|batch| batch.rows());
        let sample = sample.ok_or_else(|| Error::internal("a row group of no rows"))?;
        let fits = |file: &ParquetFile| file.accepts(versions);
        let mut file = self
            .parquet_file(fits, versions, (bytes, rows), Sample::Rows(sample))
            .await?;
        file.write_group(batches, &keys).await?;
        self.file = Some(File::Parquet(file));
        self.close_full_file().await
    }

    /// Appends a row group; some of its columns are touched in these thin rows.
    async fn append_group(
        &mut self,
        extent: &EncodedExtent,
        group: &EncodedGroup,
        patched: Option<(&ChangeBatch, &[usize])>,
    ) -> Result<()> {
        self.follow(&extent.min_key, extent.max_key.clone())?;
        let size = (extent.raw_len as usize, extent.rows as usize);
        let versions =
            group.has_column_scus || patched.is_some_and(|(rows, _)| has_column_scus(rows));
        let fits = |file: &ParquetFile| file.accepts(versions);
        let mut file = self
            .parquet_file(fits, versions, size, Sample::Group(group))
            .await?;
        let info = GroupInfo {
            min_key: &extent.min_key,
            max_key: &extent.max_key,
            rows: extent.rows,
            raw_len: extent.raw_len,
            newest_scu: extent.newest_scu,
            filter: &extent.filter,
        };
        let replaced = patched.map(|(rows, touched)| file.replaced(rows, touched));
        file.append_group(&info, group, replaced.unwrap_or_default())
            .await?;
        self.file = Some(File::Parquet(file));
        self.close_full_file().await
    }

    /// The open file if the rows fit its schema, else a new one.
    async fn parquet_file(
        &mut self,
        fits: impl Fn(&ParquetFile) -> bool,
        versions: bool,
        size: (usize, usize),
        sample: Sample<'_>,
    ) -> Result<Box<ParquetFile>> {
        match self.file.take() {
            Some(File::Parquet(file)) if fits(&file) => return Ok(file),
            other => self.file = other,
        }
        self.close_file().await?;
        let (layout, codec) = (&self.layout, self.options.codec);
        let file = ParquetFile::create(&self.env, layout, codec, versions, size, sample).await?;
        Ok(Box::new(file))
    }

    /// Checks that keys from `min` on come after all earlier ones.
    fn follow(&mut self, min: &[u8], max: Bytes) -> Result<()> {
        if self
            .last_key
            .as_ref()
            .is_some_and(|last| last.as_ref() >= min)
        {
            return Err(Error::internal(format!(
                "rows of table {:?} were written out of key order",
                self.layout.table.name
            )));
        }
        self.last_key = Some(max);
        Ok(())
    }

    async fn close_full_file(&mut self) -> Result<()> {
        let offset = self.file.as_ref().map_or(0, File::offset);
        match offset >= self.options.segment_bytes {
            true => self.close_file().await,
            false => Ok(()),
        }
    }

    async fn close_file(&mut self) -> Result<()> {
        let meta = match self.file.take() {
            None => return Ok(()),
            Some(File::Extents(file)) => file.finish(&self.layout).await?,
            Some(File::Parquet(file)) => file.finish(&self.layout).await?,
        };
        // Rows that wait, and those of files before, count too: no row is newer.
        let moments_through = self.moments_through;
        self.done.push(SegmentMeta {
            moments_through,
            ..meta
        });
        Ok(())
    }
}

/// The uncompressed bytes of a row group whose rows, thin, are no longer `before` but `rows`.
fn patched_bytes(extent: &EncodedExtent, before: &ChangeBatch, rows: &ChangeBatch) -> usize {
    let (old, new) = (
        rows_bytes(before, 0, before.rows()),
        rows_bytes(rows, 0, rows.rows()),
    );
    (extent.raw_len as usize + new).saturating_sub(old)
}

/// Rows that wait until there are enough for an extent or a row group.
#[derive(Debug, Default)]
struct Pending {
    batches: Vec<ChangeBatch>,
    /// How many of the batches, from the first, are not to be joined any more.
    settled: usize,
    bytes: usize,
    rows: usize,
}

impl Pending {
    fn push(&mut self, batch: ChangeBatch) -> Result<()> {
        self.bytes += rows_bytes(&batch, 0, batch.rows());
        self.rows += batch.rows();
        self.batches.push(batch);
        if self.batches.len() - self.settled >= SMALL_BATCHES_MAX {
            let small = joined(&self.batches[self.settled..])?;
            self.batches.truncate(self.settled);
            self.batches.push(small);
            self.settled += 1;
        }
        Ok(())
    }

    fn take_all(&mut self) -> Vec<ChangeBatch> {
        std::mem::take(self).batches
    }

    /// The first `rows` rows; no split pair is among them.
    fn take_rows(&mut self, rows: usize) -> Vec<ChangeBatch> {
        let mut taken = Vec::new();
        let mut missing = rows;
        let mut rest = Pending::default();
        for batch in std::mem::take(&mut self.batches) {
            let now = missing.min(batch.rows());
            missing -= now;
            if now > 0 {
                taken.push(batch.slice(0, now));
            }
            if now < batch.rows() {
                let later = batch.slice(now, batch.rows() - now);
                rest.bytes += rows_bytes(&later, 0, later.rows());
                rest.rows += later.rows();
                rest.batches.push(later);
            }
        }
        rest.settled = rest.batches.len().min(self.settled);
        *self = rest;
        taken
    }
}

/// A fresh name for a segment.
pub(super) fn fresh_name(env: &Env, extension: &str) -> String {
    let (high, low) = (env.random.next_u64(), env.random.next_u64());
    format!("segments/{high:016x}{low:016x}.{extension}")
}

/// A file of extents that is being written.
struct ExtentFile {
    name: String,
    file: Box<dyn FileWriter>,
    buffer: Vec<u8>,
    offset: u64,
    index: ExtentIndexBuilder,
    rows: u64,
    raw_bytes: u64,
    min_key: Bytes,
    max_key: Bytes,
    all_upserts: bool,
    newest_scu: u64,
}

impl ExtentFile {
    async fn create(env: &Env) -> Result<ExtentFile> {
        let name = fresh_name(env, "ext");
        let file = env.store.create(&name).await?;
        Ok(ExtentFile {
            name,
            file,
            buffer: file_header(),
            offset: FILE_HEADER_BYTES,
            index: ExtentIndexBuilder::default(),
            rows: 0,
            raw_bytes: 0,
            min_key: Bytes::new(),
            max_key: Bytes::new(),
            all_upserts: true,
            newest_scu: 0,
        })
    }

    async fn append(&mut self, extent: &EncodedExtent) -> Result<()> {
        if self.index.is_empty() {
            self.min_key = extent.min_key.clone();
        }
        self.index.push(&ExtentInfo {
            min_key: &extent.min_key,
            max_key: &extent.max_key,
            offset: self.offset,
            stored_len: extent.stored.len() as u32,
            raw_len: extent.raw_len,
            rows: extent.rows,
            crc32c: extent.crc32c,
            newest_scu: extent.newest_scu,
            all_upserts: extent.all_upserts,
            filter: &extent.filter,
        });
        self.max_key = extent.max_key.clone();
        self.rows += u64::from(extent.rows);
        self.raw_bytes += u64::from(extent.raw_len);
        self.all_upserts &= extent.all_upserts;
        self.newest_scu = self.newest_scu.max(extent.newest_scu);
        self.offset += extent.stored.len() as u64;
        self.buffer.extend_from_slice(&extent.stored);
        if self.buffer.len() >= WRITE_BYTES {
            let full = std::mem::replace(&mut self.buffer, Vec::with_capacity(WRITE_BYTES));
            self.file.write(full.into()).await?;
        }
        Ok(())
    }

    async fn finish(mut self, layout: &RowLayout) -> Result<SegmentMeta> {
        let part = index_part(layout, &self.index.finish(), self.offset, self.rows);
        let bytes = self.offset + part.len() as u64;
        let index_crc = crc32c::crc32c(&part);
        self.buffer.extend_from_slice(&part);
        self.file.write(self.buffer.into()).await?;
        self.file.finish().await?;
        Ok(SegmentMeta {
            file: self.name,
            format: SegmentFormat::Extent,
            rows: self.rows,
            bytes,
            raw_bytes: self.raw_bytes,
            index_offset: self.offset,
            index_crc,
            min_key: Key::new(self.min_key.as_ref()),
            max_key: Key::new(self.max_key.as_ref()),
            all_upserts: self.all_upserts,
            newest_scu: ScuNumber(self.newest_scu),
            moments_through: None,
        })
    }
}
