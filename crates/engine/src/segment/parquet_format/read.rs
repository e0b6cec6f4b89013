//! Reads Parquet segments: byte ranges are read from the store, verified page by page, and only
//! then handed to Parquet's decoder (invariant PQ-2).

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef, UInt64Type};
use bytes::Bytes;
use bytes::buf::{Buf, Reader};
use lazybase_model::{Error, Result};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelector,
};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader,
};
use parquet::file::reader::{ChunkReader, Length};

use super::write::EncodedGroup;
use super::{Block, FIRST_GROUP, file_schema, from_stored};
use crate::change_batch::{ChangeBatch, Scus, project_column_scus};
use crate::env::Store;
use crate::env::planted::{Planted, is_planted};
use crate::key::Keys;
use crate::manifest::SegmentMeta;
use crate::segment::RowLayout;
use crate::segment::cache::{ReadCounters, rows_of_key};
use crate::segment::extent_index::ExtentIndex;
use crate::stages::merge::patch::thin_rows;

fn corrupt(error: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("its Parquet can't be read: {error}"))
}

/// Verified stretches of a file, by offset: all that the decoder gets to see of it.
#[derive(Debug, Clone, Default)]
pub(in crate::segment) struct Verified {
    length: u64,
    pieces: Vec<(u64, Bytes)>,
}

impl Verified {
    /// The verified bytes from `start` to the end of the piece that holds it.
    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let after = self.pieces.partition_point(|(offset, _)| *offset <= start);
        let (offset, bytes) = after
            .checked_sub(1)
            .map(|at| &self.pieces[at])
            .ok_or_else(|| ParquetError::EOF(format!("offset {start} was not read")))?;
        let skip = usize::try_from(start - offset).unwrap_or(usize::MAX);
        match skip <= bytes.len() {
            true => Ok(bytes.slice(skip..)),
            false => Err(ParquetError::EOF(format!("offset {start} was not read"))),
        }
    }
}

impl Length for Verified {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Verified {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = self.from(start)?;
        match length <= bytes.len() {
            true => Ok(bytes.slice(..length)),
            false => Err(ParquetError::EOF(format!(
                "{length} bytes at {start} were not read"
            ))),
        }
    }
}

/// One page in the file, with its checksum.
struct Page {
    range: Range<u64>,
    crc: u32,
}

/// What is held of an open Parquet segment beside its extent index.
#[derive(Debug)]
pub(in crate::segment) struct ParquetParts {
    block: Block,
    metadata: ArrowReaderMetadata,
    /// The same for reads of texts as views, once there was one.
    views: OnceLock<ArrowReaderMetadata>,
    parquet_bytes: usize,
}

/// The columns of a file: their types are those of its index; what they are called, and which hold
/// no NULL, was so when it was written. What the footer says in Arrow's words is for other readers:
/// Arrow's own panics over it where it is damaged.
fn schema_of(
    parquet: &ParquetMetaData,
    stored: &RowLayout,
    has_column_scus: bool,
) -> Result<SchemaRef> {
    let schema = file_schema(&stored.schema, has_column_scus);
    let named = parquet
        .file_metadata()
        .schema_descr()
        .root_schema()
        .get_fields();
    if named.len() != schema.fields().len() {
        return Err(Error::corrupt(
            "its Parquet columns are not those of its index",
        ));
    }
    let fields = schema.fields().iter().zip(named);
    let written = fields.map(|(field, named)| {
        let field = field.as_ref().clone().with_name(named.name());
        field.with_nullable(named.is_optional())
    });
    Ok(Arc::new(Schema::new(written.collect::<Vec<_>>())))
}

/// The same columns, texts as views.
fn with_views(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 => {
            let field = field.as_ref().clone();
            Arc::new(field.with_data_type(DataType::Utf8View))
        }
        _ => Arc::clone(field),
    });
    Schema::new(fields.collect::<Vec<FieldRef>>())
}

impl ParquetParts {
    /// Reads our block and Parquet's footer from the verified bytes from `meta.index_offset` on.
    pub(in crate::segment) fn parse(
        part: &Bytes,
        layout: &Arc<RowLayout>,
        meta: &SegmentMeta,
    ) -> Result<(ParquetParts, Arc<RowLayout>)> {
        let (block, stored) = Block::parse(part, layout)?;
        let mut reader = ParquetMetaDataReader::new()
            .with_column_index_policy(PageIndexPolicy::Optional)
            .with_offset_index_policy(PageIndexPolicy::Required);
        reader.try_parse_sized(part, meta.bytes).map_err(corrupt)?;
        let parquet = Arc::new(reader.finish().map_err(corrupt)?);
        check_agreement(&block, &parquet, meta)?;
        let parquet_bytes = parquet.memory_size();
        let schema = schema_of(&parquet, &stored, block.has_column_scus)?;
        let options = ArrowReaderOptions::new().with_schema(schema);
        let metadata = ArrowReaderMetadata::try_new(parquet, options).map_err(corrupt)?;
        let parts = ParquetParts {
            block,
            metadata,
            views: OnceLock::new(),
            parquet_bytes,
        };
        Ok((parts, stored))
    }

    /// Whether its columns are called what a layout calls them: row groups carry the names.
    pub(in crate::segment) fn has_names_of(&self, layout: &RowLayout) -> bool {
        let names = layout.schema.fields().iter().map(|field| field.name());
        let stored = self.metadata.schema().fields().iter();
        names
            .zip(stored)
            .all(|(name, stored)| name == stored.name())
    }

    pub(in crate::segment) fn index(&self) -> &ExtentIndex {
        &self.block.index
    }

    pub(in crate::segment) fn memory_bytes(&self) -> usize {
        self.parquet_bytes + self.block.memory_bytes() + self.block.index.memory_bytes()
    }

    /// The rows of a row group among which a key lies, if the group holds it.
    pub(in crate::segment) fn rows_around(&self, group: usize, key: &[u8]) -> Range<usize> {
        let part = &self.block.groups[group];
        let after = part
            .first_keys
            .partition_point(|first| first.as_ref() <= key);
        self.rows_of_strides(group, after.saturating_sub(1)..after.max(1))
    }

    /// The rows of a row group among which all keys from `low` (included) to `high` (excluded) lie.
    pub(in crate::segment) fn rows_between(
        &self,
        group: usize,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
    ) -> Range<usize> {
        let keys = &self.block.groups[group].first_keys;
        let start = low.map_or(0, |low| keys.partition_point(|first| first.as_ref() <= low));
        let end = high.map_or(keys.len(), |high| {
            keys.partition_point(|first| first.as_ref() < high)
        });
        let start = start.saturating_sub(1);
        self.rows_of_strides(group, start..end.max(start + 1))
    }

    /// The keys of a row group's rows that are known, and how many rows lie from one to the next.
    pub(in crate::segment) fn known_keys(&self, group: usize) -> (&[Bytes], usize) {
        let part = &self.block.groups[group];
        (&part.first_keys, part.stride as usize)
    }

    fn rows_of_strides(&self, group: usize, strides: Range<usize>) -> Range<usize> {
        let rows = self.block.index.info(group).rows as usize;
        let stride = self.block.groups[group].stride as usize;
        (strides.start * stride).min(rows)..(strides.end * stride).min(rows)
    }

    /// Checks the keys that [`ParquetParts::rows_around`] relies on.
    pub(in crate::segment) fn check_first_keys(&self, group: usize, keys: &Keys) -> Result<()> {
        let part = &self.block.groups[group];
        let stored = part.first_keys.iter().map(Bytes::as_ref);
        let found = (0..keys.num_rows()).step_by(part.stride as usize);
        match stored.eq(found.map(|row| keys.row(row).data())) {
            true => Ok(()),
            false => Err(Error::corrupt(
                "the keys of its pages are not those of its index",
            )),
        }
    }

    /// What the decoder is told where texts come as views.
    fn metadata_of_views(&self) -> Result<&ArrowReaderMetadata> {
        if let Some(known) = self.views.get() {
            return Ok(known);
        }
        let schema = Arc::new(with_views(self.metadata.schema()));
        let options = ArrowReaderOptions::new().with_schema(schema);
        let parquet = Arc::clone(self.metadata.metadata());
        let made = ArrowReaderMetadata::try_new(parquet, options).map_err(corrupt)?;
        Ok(self.views.get_or_init(|| made))
    }

    fn parquet(&self) -> &ParquetMetaData {
        self.metadata.metadata()
    }

    /// Adds the pages of a leaf column of a row group that rows need, in the order of the file.
    fn add_pages(
        &self,
        (group, leaf): (usize, usize),
        rows: &Range<usize>,
        wanted: &mut Vec<Page>,
    ) -> Result<()> {
        let chunk = self.parquet().row_group(group).column(leaf);
        let (start, length) = byte_range(chunk)?;
        let locations = self
            .parquet()
            .offset_index()
            .and_then(|index| index.get(group)?.get(leaf))
            .ok_or_else(|| Error::corrupt("a column has no page index"))?
            .page_locations();
        let first = locations
            .first()
            .map_or(start + length, |page| page.offset as u64);
        let has_dictionary = first > start;
        let crcs = self.block.groups[group].crcs.get(leaf);
        let crcs = crcs.filter(|crcs| crcs.len() == usize::from(has_dictionary) + locations.len());
        let crcs = crcs.ok_or_else(|| Error::corrupt("its pages are not those of its index"))?;
        let (dictionary, crcs) = crcs.split_at(usize::from(has_dictionary));
        wanted.extend(dictionary.iter().map(|crc| Page {
            range: start..first,
            crc: *crc,
        }));
        // Each page holds the rows up to those of the next one.
        let begins =
            |before: usize| locations.partition_point(|page| page.first_row_index < before as i64);
        let needed = begins(rows.start + 1).saturating_sub(1)..begins(rows.end);
        let pages = locations.get(needed.clone()).zip(crcs.get(needed));
        let (locations, crcs) = pages.unwrap_or_default();
        for (page, crc) in locations.iter().zip(crcs) {
            let place = u64::try_from(page.offset).ok();
            let range = place.and_then(|offset| {
                let length = u64::try_from(page.compressed_page_size).ok()?;
                Some(offset..offset.checked_add(length)?)
            });
            let range = range.ok_or_else(|| Error::corrupt("a page of its index lies nowhere"))?;
            wanted.push(Page { range, crc: *crc });
        }
        Ok(())
    }

    /// The pages that rows of a row group need, of the leaves that `mask` includes.
    fn pages_of(
        &self,
        group: usize,
        rows: &Range<usize>,
        mask: &ProjectionMask,
    ) -> Result<Vec<Page>> {
        let leaves = 0..self.parquet().row_group(group).num_columns();
        let mut wanted = Vec::new();
        for leaf in leaves.filter(|leaf| mask.leaf_included(*leaf)) {
            self.add_pages((group, leaf), rows, &mut wanted)?;
        }
        wanted.sort_by_key(|page| page.range.start);
        Ok(wanted)
    }

    /// The file's columns for these columns of the table; all of them where `None`, and its
    /// versions.
    fn mask(&self, projection: Option<&[usize]>) -> ProjectionMask {
        match projection {
            None => ProjectionMask::all(),
            Some(projection) => {
                ProjectionMask::roots(self.metadata.parquet_schema(), projection.iter().copied())
            }
        }
    }

    /// Reads rows of a row group: all of them as they are, or only some columns, without versions.
    pub(in crate::segment) async fn read_rows(
        &self,
        from: &Source<'_>,
        group: usize,
        rows: Range<usize>,
        projection: Option<&[usize]>,
    ) -> Result<ChangeBatch> {
        let read = self.read_columns(from, group, &rows, (projection, &self.metadata));
        let batch = read.await?;
        match projection {
            None => self.changes(from.layout, &batch),
            Some(projection) => {
                let data = columns_of(from.layout, &batch, projection)?;
                Ok(ChangeBatch::upserts(data, 0))
            }
        }
    }

    /// Some columns of rows of a row group, without versions; texts as views, which look into what
    /// was decompressed and hold short ones themselves.
    pub(in crate::segment) async fn read_views(
        &self,
        from: &Source<'_>,
        group: usize,
        rows: Range<usize>,
        columns: &[usize],
    ) -> Result<ChangeBatch> {
        let metadata = self.metadata_of_views()?;
        let read = self.read_columns(from, group, &rows, (Some(columns), metadata));
        let batch = read.await?;
        let schema = from.layout.schema.project(columns).map_err(corrupt)?;
        let data = columns_as(with_views(&schema), &batch, columns)?;
        Ok(ChangeBatch::upserts(data, 0))
    }

    /// Rows of a row group as Parquet's decoder gives them; of them some columns, if so wanted.
    async fn read_columns(
        &self,
        from: &Source<'_>,
        group: usize,
        rows: &Range<usize>,
        (projection, metadata): (Option<&[usize]>, &ArrowReaderMetadata),
    ) -> Result<RecordBatch> {
        let all = self.block.index.info(group).rows as usize;
        if rows.is_empty() || rows.end > all {
            return Err(Error::internal(format!("rows {rows:?} of {all}")));
        }
        let mask = self.mask(projection);
        let pages = self.pages_of(group, rows, &mask)?;
        let verified = read_pages(from, &pages).await?;
        self.decode_as(metadata, verified, group, rows, mask)
    }

    /// Rows of a row group with only some columns, in their order, and the versions of those.
    pub(in crate::segment) async fn read_versioned(
        &self,
        from: &Source<'_>,
        group: usize,
        rows: Range<usize>,
        columns: &[usize],
    ) -> Result<ChangeBatch> {
        let width = from.layout.schema.fields().len();
        let mask = self.mask_with_versions(columns, width);
        let pages = self.pages_of(group, &rows, &mask)?;
        let verified = read_pages(from, &pages).await?;
        let batch = self.decode(verified, group, &rows, mask)?;
        let mut chosen = columns.to_vec();
        chosen.sort_unstable();
        chosen.dedup();
        let (scus, column_scus) = self.versions(&batch, chosen.len())?;
        let column_scus = match column_scus {
            Some(all) => project_column_scus(&all, columns, width)?,
            None => None,
        };
        let data = columns_of(from.layout, &batch, columns)?;
        Ok(ChangeBatch {
            scus,
            column_scus,
            ..ChangeBatch::upserts(data, 0)
        })
    }

    /// The rows of a row group as it is stored.
    pub(in crate::segment) fn rows_of(
        &self,
        layout: &RowLayout,
        group: usize,
        encoded: &EncodedGroup,
    ) -> Result<ChangeBatch> {
        let rows = 0..self.block.index.info(group).rows as usize;
        let batch = self.decode(encoded.bytes.clone(), group, &rows, self.mask(None))?;
        self.changes(layout, &batch)
    }

    /// The same rows, thin: with only these columns, which are rising.
    pub(in crate::segment) fn thin_rows(
        &self,
        layout: &RowLayout,
        group: usize,
        encoded: &EncodedGroup,
        columns: &[usize],
    ) -> Result<ChangeBatch> {
        let rows = 0..self.block.index.info(group).rows as usize;
        let mask = self.mask_with_versions(columns, layout.schema.fields().len());
        let batch = self.decode(encoded.bytes.clone(), group, &rows, mask)?;
        let (scus, column_scus) = self.versions(&batch, columns.len())?;
        let wanted = columns_of(layout, &batch, columns)?;
        let data = thin_rows(&layout.schema, columns, wanted.columns(), rows.len())?;
        Ok(ChangeBatch {
            scus,
            column_scus,
            ..ChangeBatch::upserts(data, 0)
        })
    }

    /// The file's columns for these columns of a table of `width`, and its versions.
    fn mask_with_versions(&self, columns: &[usize], width: usize) -> ProjectionMask {
        let versions = width..self.metadata.schema().fields().len();
        let read: Vec<usize> = columns.iter().copied().chain(versions).collect();
        self.mask(Some(&read))
    }

    fn decode(
        &self,
        verified: Verified,
        group: usize,
        rows: &Range<usize>,
        mask: ProjectionMask,
    ) -> Result<RecordBatch> {
        self.decode_as(&self.metadata, verified, group, rows, mask)
    }

    fn decode_as(
        &self,
        metadata: &ArrowReaderMetadata,
        verified: Verified,
        group: usize,
        rows: &Range<usize>,
        mask: ProjectionMask,
    ) -> Result<RecordBatch> {
        let mut builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(verified, metadata.clone())
                .with_row_groups(vec![group])
                .with_projection(mask)
                .with_batch_size(rows.len());
        if rows.len() < self.block.index.info(group).rows as usize {
            let selectors = vec![
                RowSelector::skip(rows.start),
                RowSelector::select(rows.len()),
            ];
            builder = builder.with_row_selection(RowSelection::from(selectors));
        }
        let reader = builder.build().map_err(corrupt)?;
        let schema = arrow::array::RecordBatchReader::schema(&reader);
        let batches: Result<Vec<RecordBatch>, _> = reader.collect();
        let batches = batches.map_err(corrupt)?;
        let batch = match &batches[..] {
            [only] => only.clone(),
            several => concat_batches(&schema, several).map_err(corrupt)?,
        };
        match batch.num_rows() == rows.len() {
            true => Ok(batch),
            false => Err(Error::corrupt(
                "a row group has fewer rows than its index says",
            )),
        }
    }

    /// Reads the row of a key: one page of each key column, and, if the key is there, one page of
    /// each other column.
    pub(in crate::segment) async fn read_key(
        &self,
        from: &Source<'_>,
        group: usize,
        key: &[u8],
    ) -> Result<Option<ChangeBatch>> {
        let layout = from.layout;
        let mut in_key = layout.codec.indices().to_vec();
        in_key.sort_unstable();
        let around = self.rows_around(group, key);
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), in_key.iter().copied());
        let pages = self.pages_of(group, &around, &mask)?;
        let verified = read_pages(from, &pages).await?;
        let key_cells = self.decode(verified, group, &around, mask)?;
        let wrong = || Error::corrupt("a key column is not of the table's type");
        let place = |index: &usize| in_key.binary_search(index).ok();
        let columns: Option<Vec<ArrayRef>> = layout
            .codec
            .indices()
            .iter()
            .map(|index| {
                from_stored(
                    key_cells.columns().get(place(index)?)?,
                    layout.data_type(*index),
                )
            })
            .collect();
        let keys = layout.codec.encode_columns(&columns.ok_or_else(wrong)?)?;
        let Some(at) = rows_of_key(&keys, key).next() else {
            return Ok(None);
        };
        let row = around.start + at..around.start + at + 1;
        let width = layout.schema.fields().len();
        let others: Vec<usize> = (0..width).filter(|index| place(index).is_none()).collect();
        let rest = self.read_rows(from, group, row, Some(&others)).await?;
        let key_cells = key_cells.slice(at, 1);
        let mut other_columns = rest.data.columns().iter();
        let columns: Option<Vec<ArrayRef>> = (0..width)
            .map(|index| match place(&index) {
                Some(at) => from_stored(key_cells.columns().get(at)?, layout.data_type(index)),
                None => other_columns.next().cloned(),
            })
            .collect();
        let columns = columns.ok_or_else(wrong)?;
        let data = RecordBatch::try_new(Arc::clone(&layout.schema), columns).map_err(corrupt)?;
        Ok(Some(ChangeBatch { data, ..rest }))
    }

    /// All columns of the file as changes.
    fn changes(&self, layout: &RowLayout, batch: &RecordBatch) -> Result<ChangeBatch> {
        let width = layout.schema.fields().len();
        let order: Vec<usize> = (0..width).collect();
        let data = columns_of(layout, batch, &order)?;
        let (scus, column_scus) = self.versions(batch, width)?;
        Ok(ChangeBatch {
            scus,
            column_scus,
            ..ChangeBatch::upserts(data, 0)
        })
    }

    /// The versions of rows, which stand at `at` and behind.
    fn versions(&self, batch: &RecordBatch, at: usize) -> Result<(Scus, Option<BinaryArray>)> {
        let wrong = || Error::corrupt("a column is not of the table's type");
        let scus = batch.columns().get(at).ok_or_else(wrong)?;
        let scus = scus.as_primitive_opt::<UInt64Type>().ok_or_else(wrong)?;
        let column_scus: Option<&BinaryArray> = match self.block.has_column_scus {
            true => batch
                .columns()
                .get(at + 1)
                .ok_or_else(wrong)?
                .as_binary_opt(),
            false => None,
        };
        let first = scus.values().first().copied().unwrap_or(0);
        let uniform = scus.values().iter().all(|scu| *scu == first);
        let scus = match uniform {
            true => Scus::Uniform(first),
            false => Scus::Each(scus.clone()),
        };
        let column_scus = column_scus.filter(|column| column.null_count() < column.len());
        Ok((scus, column_scus.cloned()))
    }

    /// Reads a row group as it is stored.
    pub(in crate::segment) async fn read_encoded(
        &self,
        from: &Source<'_>,
        group: usize,
    ) -> Result<EncodedGroup> {
        let info = self.block.index.info(group);
        let pages = self.pages_of(group, &(0..info.rows as usize), &ProjectionMask::all())?;
        let bytes = read_pages(from, &pages).await?;
        let offsets = self.parquet().offset_index();
        let stats = self.parquet().column_index();
        let row_group = self.parquet().row_group(group);
        let columns = row_group.columns().iter().enumerate();
        let columns = columns.map(|(leaf, metadata)| ColumnCloseResult {
            bytes_written: metadata.compressed_size() as u64,
            rows_written: u64::from(info.rows),
            metadata: metadata.clone(),
            bloom_filter: None,
            column_index: stats.and_then(|index| index.get(group)?.get(leaf).cloned()),
            offset_index: offsets.and_then(|index| index.get(group)?.get(leaf).cloned()),
        });
        Ok(EncodedGroup {
            has_column_scus: self.block.has_column_scus,
            part: self.block.groups[group].clone(),
            columns: columns.collect(),
            bytes,
        })
    }
}

/// The wanted columns of the table; the file's rows have each of them once, in the order of the
/// table.
fn columns_of(layout: &RowLayout, rows: &RecordBatch, wanted: &[usize]) -> Result<RecordBatch> {
    let schema = layout.schema.project(wanted).map_err(corrupt)?;
    columns_as(schema, rows, wanted)
}

/// The same, where `schema` says what the wanted columns are.
fn columns_as(schema: Schema, rows: &RecordBatch, wanted: &[usize]) -> Result<RecordBatch> {
    let mut present = wanted.to_vec();
    present.sort_unstable();
    present.dedup();
    let wrong = || Error::corrupt("a column is not of the table's type");
    let mut columns = Vec::with_capacity(wanted.len());
    for (index, field) in wanted.iter().zip(schema.fields()) {
        let at = present.binary_search(index).map_err(|_| wrong())?;
        let column = rows.columns().get(at).ok_or_else(wrong)?;
        columns.push(from_stored(column, field.data_type()).ok_or_else(wrong)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).map_err(corrupt)
}

/// Where pages are read from.
pub(in crate::segment) struct Source<'s> {
    pub(in crate::segment) store: &'s dyn Store,
    pub(in crate::segment) file: &'s str,
    pub(in crate::segment) length: u64,
    pub(in crate::segment) layout: &'s RowLayout,
    pub(in crate::segment) counters: &'s ReadCounters,
}

/// Reads pages in the order of the file, adjacent ones together, and verifies each.
async fn read_pages(from: &Source<'_>, pages: &[Page]) -> Result<Verified> {
    let mut pieces = Vec::new();
    let mut rest = pages;
    while let Some(first) = rest.first() {
        let mut end = first.range.end;
        let mut count = 1;
        while rest.get(count).is_some_and(|page| page.range.start == end) {
            end = rest[count].range.end;
            count += 1;
        }
        let start = first.range.start;
        let bytes = from.store.read(from.file, start..end).await?;
        from.counters.add_bytes(bytes.len());
        from.counters.add_pages(count);
        for page in &rest[..count] {
            let range = (page.range.start - start) as usize..(page.range.end - start) as usize;
            let crc = bytes.get(range).map(crc32c::crc32c);
            let passes = crc.is_some() && is_planted(Planted::ChecksumIgnored);
            if crc != Some(page.crc) && !passes {
                let at = page.range.start;
                return Err(Error::corrupt(format!("page at {at}: checksum mismatch")));
            }
        }
        pieces.push((start, bytes));
        rest = &rest[count..];
    }
    Ok(Verified {
        length: from.length,
        pieces,
    })
}

/// Checks that our index and Parquet's speak of the same row groups, without a gap between them.
fn check_agreement(block: &Block, parquet: &ParquetMetaData, meta: &SegmentMeta) -> Result<()> {
    let wrong = || Error::corrupt("its two indexes disagree");
    if parquet.num_row_groups() != block.index.len() {
        return Err(wrong());
    }
    let (mut next, mut rows) = (FIRST_GROUP, 0);
    for (ours, theirs) in block.index.iter().zip(parquet.row_groups()) {
        let mut offset = ours.offset;
        for chunk in theirs.columns() {
            let (start, length) = byte_range(chunk)?;
            if start != offset {
                return Err(wrong());
            }
            offset += length;
        }
        next += u64::from(ours.stored_len);
        rows += u64::from(ours.rows);
        if offset != next || i64::from(ours.rows) != theirs.num_rows() {
            return Err(wrong());
        }
    }
    match next == meta.index_offset && rows == meta.rows {
        true => Ok(()),
        false => Err(wrong()),
    }
}

/// Where a column chunk begins, and its length; Parquet's own takes it for granted that neither is
/// negative.
fn byte_range(chunk: &ColumnChunkMetaData) -> Result<(u64, u64)> {
    let first = chunk.dictionary_page_offset();
    let start = u64::try_from(first.unwrap_or(chunk.data_page_offset()));
    let length = u64::try_from(chunk.compressed_size());
    match (start, length) {
        (Ok(start), Ok(length)) => Ok((start, length)),
        _ => Err(Error::corrupt("a column of its footer lies nowhere")),
    }
}
