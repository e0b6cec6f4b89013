//! Writes Parquet segments, one row group at a time.
//!
//! Memory is bounded by one row group: its rows, and its encoded bytes until the store has them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow_row::{RowConverter, SortField};
use bytes::Bytes;
use lazybase_model::limits::EXTENT_BYTES;
use lazybase_model::table::{Column, ColumnCodec, ColumnEncoding};
use lazybase_model::{Error, Result, ScuNumber};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions,
    compute_leaves,
};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use super::read::Verified;
use super::{FIRST_GROUP, GroupPart, block_bytes, file_schema, to_stored};
use crate::change_batch::{ChangeBatch, Scus};
use crate::env::{Env, FileWriter};
use crate::key::{Key, Keys};
use crate::manifest::{SegmentFormat, SegmentMeta};
use crate::segment::RowLayout;
use crate::segment::cut::{array_bytes, rows_bytes};
use crate::segment::encode::{Codec, newest_scu};
use crate::segment::extent_index::{ExtentIndexBuilder, ExtentInfo};
use crate::segment::key_filter;
use crate::segment::writer::{WriteOptions, fresh_name};

/// The most uncompressed bytes of a row group of more than one row.
const GROUP_BYTES_MAX: usize = 32 << 20;
const GROUP_ROWS_MAX: usize = 128 << 10;
/// What a page of a narrow column holds at least, if its rows are not too many.
const NARROW_PAGE_BYTES: usize = 2 << 10;
const NARROW_PAGE_ROWS_MAX: usize = 1024;
/// Larger dictionaries would be decoded for each point read.
const DICTIONARY_BYTES: usize = 8 << 10;
/// The same where a column is declared to have one.
const DICTIONARY_BYTES_WANTED: usize = 1 << 20;
/// Rows that are looked at to tell whether a column repeats itself.
const SAMPLED_ROWS: usize = 1024;
/// A column gets a dictionary where so many sampled rows share a value on average: one that
/// outgrows its dictionary would leave a useless page, which each point read decodes.
const ROWS_A_VALUE: usize = 8;
/// What the cells of short texts take at most on average, lengths included. Their lengths are
/// stored before all of them: a page is then read with one copy, and not text by text.
const SHORT_TEXT_BYTES: usize = 32;
/// The most columns of a file that are stored so: while a row group is encoded, the lengths of each
/// have a mebibyte of address space.
const SHORT_TEXTS_MAX: usize = 64;

/// The rows of a row group, where `rows` rows take `bytes`.
pub(in crate::segment) fn group_rows(bytes: usize, rows: usize, options: &WriteOptions) -> usize {
    let of_bytes = |limit: usize| (limit.saturating_mul(rows) / bytes.max(1)).max(1);
    let rows_min = options.group_rows.clamp(1, GROUP_ROWS_MAX);
    let aimed = of_bytes(options.group_bytes).clamp(rows_min, GROUP_ROWS_MAX);
    aimed.min(of_bytes(GROUP_BYTES_MAX))
}

/// The rows of a page, where `rows` rows take `bytes`: the power of two with which the pages of the
/// same rows, of all columns, come next to two extents' bytes. A point read takes as much; smaller
/// pages would slow scans down.
fn page_rows(bytes: usize, rows: usize) -> usize {
    let wanted = (2 * EXTENT_BYTES * rows / bytes.max(1)).clamp(64, 8192);
    let below = 1 << wanted.ilog2();
    if wanted - below > 2 * below - wanted {
        2 * below
    } else {
        below
    }
}

/// The rows of a page of one column. Where they are small, several times as many as of a wide one:
/// a point read hardly notices, and a scan of a few narrow columns meets fewer pages.
fn column_page_rows(page_rows: usize, data_type: &DataType, is_packed: bool) -> usize {
    let width = match data_type.primitive_width() {
        _ if is_packed || *data_type == DataType::Boolean => 1,
        Some(width) => width,
        None => return page_rows,
    };
    let wanted = NARROW_PAGE_BYTES / width;
    page_rows.max(wanted.min(NARROW_PAGE_ROWS_MAX))
}

fn internal(error: ParquetError) -> Error {
    Error::internal(format!("rows can't be written as Parquet: {error}"))
}

/// A row group as it is stored, with what is needed to append it to another file.
#[derive(Debug, Clone)]
pub(in crate::segment) struct EncodedGroup {
    pub(in crate::segment) has_column_scus: bool,
    pub(in crate::segment) part: GroupPart,
    pub(in crate::segment) columns: Vec<ColumnCloseResult>,
    pub(in crate::segment) bytes: Verified,
}

/// What is looked at to tell which columns of a new file repeat themselves.
#[derive(Clone, Copy)]
pub(in crate::segment) enum Sample<'s> {
    /// Rows that are to be written.
    Rows(&'s ChangeBatch),
    /// A row group that is to be copied: its columns have dictionaries, or have none.
    Group(&'s EncodedGroup),
}

/// What the extent index will say about a row group.
pub(in crate::segment) struct GroupInfo<'g> {
    pub(in crate::segment) min_key: &'g [u8],
    pub(in crate::segment) max_key: &'g [u8],
    pub(in crate::segment) rows: u32,
    pub(in crate::segment) raw_len: u32,
    pub(in crate::segment) newest_scu: u64,
    pub(in crate::segment) filter: &'g [u8],
}

/// A column of a file, by its position, that is written and not copied.
pub(in crate::segment) type Replaced = (usize, ArrayRef);

/// A Parquet file that is being written.
pub(in crate::segment) struct ParquetFile {
    name: String,
    file: Box<dyn FileWriter>,
    writer: SerializedFileWriter<Vec<u8>>,
    /// What makes the column writers of row groups, by the rows of a page.
    columns: BTreeMap<usize, ArrowRowGroupWriterFactory>,
    /// For each leaf column the rows of its pages.
    leaf_page_rows: Vec<usize>,
    schema: SchemaRef,
    has_column_scus: bool,
    page_rows: usize,
    pub(in crate::segment) offset: u64,
    index: ExtentIndexBuilder,
    parts: Vec<GroupPart>,
    rows: u64,
    raw_bytes: u64,
    min_key: Vec<u8>,
    max_key: Vec<u8>,
    newest_scu: u64,
}

/// The codec of a column in Parquet's words.
fn compression_of(codec: ColumnCodec) -> Result<Compression> {
    Ok(match codec {
        ColumnCodec::None => Compression::UNCOMPRESSED,
        ColumnCodec::Lz4 => Compression::LZ4_RAW,
        ColumnCodec::Snappy => Compression::SNAPPY,
        ColumnCodec::Zstd(level) => Compression::ZSTD(ZstdLevel::try_new(level).map_err(internal)?),
    })
}

/// The encoding of a column in Parquet's words; a dictionary is none, but stands in front of one.
fn encoding(encoding: ColumnEncoding, data_type: &DataType) -> Option<Encoding> {
    Some(match encoding {
        ColumnEncoding::Plain => Encoding::PLAIN,
        ColumnEncoding::Dictionary => return None,
        ColumnEncoding::Delta => match data_type {
            DataType::Utf8 | DataType::Binary => Encoding::DELTA_LENGTH_BYTE_ARRAY,
            _ => Encoding::DELTA_BINARY_PACKED,
        },
        ColumnEncoding::Prefix => Encoding::DELTA_BYTE_ARRAY,
        ColumnEncoding::ByteStreamSplit => Encoding::BYTE_STREAM_SPLIT,
        ColumnEncoding::Rle => Encoding::RLE,
    })
}

/// The encoding that a column is declared to have, unless its type has been widened to one that
/// can't have it.
fn declared_encoding(column: &Column) -> Option<ColumnEncoding> {
    let of_type = ColumnEncoding::of_type(&column.stored_type());
    column
        .storage
        .encoding
        .filter(|encoding| of_type.contains(encoding))
}

/// The columns that get a dictionary: those that say so, and where nothing is said, those that
/// repeat themselves.
fn dictionaries(layout: &RowLayout, sample: Sample<'_>) -> Result<Vec<ColumnPath>> {
    let mut found = match sample {
        Sample::Rows(rows) => repeating(layout, rows)?,
        Sample::Group(group) => group_columns(layout, group, |leaf| {
            leaf.dictionary_page_offset().is_some()
        }),
    };
    for column in &layout.table.columns {
        let path = ColumnPath::new(vec![column.name.clone()]);
        match declared_encoding(column) {
            None => {}
            Some(ColumnEncoding::Dictionary) if found.contains(&path) => {}
            Some(ColumnEncoding::Dictionary) => found.push(path),
            Some(_) => found.retain(|of| *of != path),
        }
    }
    Ok(found)
}

/// The columns of short texts, but for those that have a dictionary or say how they are stored.
fn short_texts(
    layout: &RowLayout,
    sample: Sample<'_>,
    dictionaries: &[ColumnPath],
) -> Vec<ColumnPath> {
    let mut found = match sample {
        Sample::Rows(rows) => short_in(layout, rows),
        Sample::Group(group) => group_columns(layout, group, |leaf| {
            let mut encodings = leaf.encodings();
            encodings.any(|encoding| encoding == Encoding::DELTA_LENGTH_BYTE_ARRAY)
        }),
    };
    found.retain(|path| !dictionaries.contains(path));
    for column in &layout.table.columns {
        if declared_encoding(column).is_some() {
            let path = ColumnPath::new(vec![column.name.clone()]);
            found.retain(|of| *of != path);
        }
    }
    found.truncate(SHORT_TEXTS_MAX);
    found
}

/// The columns of texts, or of bytes, that are short in these rows.
fn short_in(layout: &RowLayout, sample: &ChangeBatch) -> Vec<ColumnPath> {
    let rows = sample.rows();
    let columns = layout.schema.fields().iter().zip(sample.data.columns());
    let short = columns.filter(|(field, column)| {
        matches!(field.data_type(), DataType::Utf8 | DataType::Binary)
            && array_bytes(column, 0, rows) <= SHORT_TEXT_BYTES * rows
    });
    short
        .map(|(field, _)| ColumnPath::new(vec![field.name().clone()]))
        .collect()
}

/// The columns of one leaf of which something holds in a row group.
fn group_columns(
    layout: &RowLayout,
    group: &EncodedGroup,
    holds: impl Fn(&ColumnChunkMetaData) -> bool,
) -> Vec<ColumnPath> {
    let mut leaves = group.columns.iter();
    let mut found = Vec::new();
    for field in layout.schema.fields() {
        let count = leaf_count(field.data_type());
        let mut of_field = leaves.by_ref().take(count);
        let first = of_field.next();
        of_field.for_each(drop);
        if count == 1 && first.is_some_and(|leaf| holds(&leaf.metadata)) {
            found.push(ColumnPath::new(vec![field.name().clone()]));
        }
    }
    found
}

/// The columns, not of the key, that repeat themselves in these rows.
fn repeating(layout: &RowLayout, sample: &ChangeBatch) -> Result<Vec<ColumnPath>> {
    let rows = sample.rows().min(SAMPLED_ROWS);
    let mut found = Vec::new();
    for (index, field) in layout.schema.fields().iter().enumerate() {
        let as_row = vec![SortField::new(field.data_type().clone())];
        let nested = field.data_type().is_nested() || !RowConverter::supports_fields(&as_row);
        if nested || layout.codec.indices().contains(&index) {
            continue;
        }
        let converter = RowConverter::new(as_row);
        let column = sample.data.column(index).slice(0, rows);
        let cells = converter
            .and_then(|converter| converter.convert_columns(&[column]))
            .map_err(|error| Error::internal(format!("a column can't be sampled: {error}")))?;
        let values: HashSet<&[u8]> = cells.iter().map(|cell| cell.data()).collect();
        let bytes: usize = values.iter().map(|value| value.len()).sum();
        if values.len() * ROWS_A_VALUE <= rows && bytes <= DICTIONARY_BYTES / 2 {
            found.push(ColumnPath::new(vec![field.name().clone()]));
        }
    }
    Ok(found)
}

/// The column of SCU numbers.
fn scu_path() -> ColumnPath {
    ColumnPath::new(vec!["_scu".to_owned()])
}

/// How the columns of a file are encoded; `dictionaries` names those that get one, `short_texts`
/// those that are stored apart from their lengths.
fn properties(
    layout: &RowLayout,
    codec: Codec,
    page_rows: usize,
    dictionaries: Vec<ColumnPath>,
    short_texts: Vec<ColumnPath>,
) -> Result<WriterProperties> {
    let compression = match codec {
        Codec::None => Compression::UNCOMPRESSED,
        Codec::Lz4 => Compression::LZ4_RAW,
        Codec::Zstd => Compression::ZSTD(ZstdLevel::try_new(1).map_err(internal)?),
    };
    let mut builder = WriterProperties::builder()
        .set_created_by("lazybase".to_owned())
        .set_compression(compression)
        .set_data_page_row_count_limit(page_rows)
        .set_write_batch_size(page_rows)
        .set_dictionary_enabled(false)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_column_encoding(scu_path(), Encoding::DELTA_BINARY_PACKED)
        .set_sorting_columns(sorting(layout));
    for index in layout.codec.indices() {
        let key = ColumnPath::new(vec![layout.schema.field(*index).name().clone()]);
        builder = builder.set_column_statistics_enabled(key, EnabledStatistics::Page);
    }
    for column in dictionaries {
        builder = builder.set_column_dictionary_enabled(column, true);
    }
    for column in short_texts {
        builder = builder.set_column_encoding(column, Encoding::DELTA_LENGTH_BYTE_ARRAY);
    }
    for column in &layout.table.columns {
        let path = ColumnPath::new(vec![column.name.clone()]);
        if let Some(codec) = column.storage.codec {
            builder = builder.set_column_compression(path.clone(), compression_of(codec)?);
        }
        match declared_encoding(column) {
            None => {}
            Some(ColumnEncoding::Dictionary) => {
                let limit = DICTIONARY_BYTES_WANTED;
                builder = builder.set_column_dictionary_page_size_limit(path, limit);
            }
            Some(wanted) => {
                if let Some(encoding) = encoding(wanted, &column.data_type) {
                    builder = builder.set_column_encoding(path, encoding);
                }
            }
        }
    }
    Ok(builder.build())
}

/// The key as Parquet counts columns: by leaves.
fn sorting(layout: &RowLayout) -> Option<Vec<SortingColumn>> {
    let leaves = |at: usize| -> usize {
        let before = layout.schema.fields().iter().take(at);
        before.map(|field| leaf_count(field.data_type())).sum()
    };
    let columns = layout.codec.indices().iter().map(|index| SortingColumn {
        column_idx: leaves(*index) as i32,
        descending: false,
        nulls_first: false,
    });
    Some(columns.collect())
}

fn leaf_count(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|f| leaf_count(f.data_type())).sum(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => leaf_count(field.data_type()),
        _ => 1,
    }
}

/// For each leaf column of a file the rows of its pages.
fn leaf_page_rows(schema: &Schema, page_rows: usize, dictionaries: &[ColumnPath]) -> Vec<usize> {
    let of_field = |field: &FieldRef| {
        let path = ColumnPath::new(vec![field.name().clone()]);
        let is_packed = path == scu_path() || dictionaries.contains(&path);
        let rows = column_page_rows(page_rows, field.data_type(), is_packed);
        std::iter::repeat_n(rows, leaf_count(field.data_type()))
    };
    schema.fields().iter().flat_map(of_field).collect()
}

/// What writes a file's frame, and what makes the writers of its columns.
fn parquet_writer(
    schema: &SchemaRef,
    properties: WriterProperties,
) -> Result<(SerializedFileWriter<Vec<u8>>, ArrowRowGroupWriterFactory)> {
    let options = ArrowWriterOptions::new().with_properties(properties);
    ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(schema), options)
        .and_then(ArrowWriter::into_serialized_writer)
        .map_err(internal)
}

impl ParquetFile {
    /// Begins a file for rows of which `rows` take `bytes` and which are like `sample`.
    pub(in crate::segment) async fn create(
        env: &Env,
        layout: &RowLayout,
        codec: Codec,
        has_column_scus: bool,
        (bytes, rows): (usize, usize),
        sample: Sample<'_>,
    ) -> Result<ParquetFile> {
        let schema = file_schema(&layout.schema, has_column_scus);
        let page_rows = page_rows(bytes, rows);
        let dictionaries = dictionaries(layout, sample)?;
        let short_texts = short_texts(layout, sample, &dictionaries);
        let leaf_page_rows = leaf_page_rows(&schema, page_rows, &dictionaries);
        let properties = properties(layout, codec, page_rows, dictionaries, short_texts)?;
        let (writer, of_page_rows) = parquet_writer(&schema, properties.clone())?;
        let mut columns = BTreeMap::from([(page_rows, of_page_rows)]);
        for rows in &leaf_page_rows {
            if !columns.contains_key(rows) {
                let others = properties.clone().into_builder();
                let others = others.set_data_page_row_count_limit(*rows).build();
                columns.insert(*rows, parquet_writer(&schema, others)?.1);
            }
        }
        let name = fresh_name(env, "parquet");
        let file = env.store.create(&name).await?;
        Ok(ParquetFile {
            name,
            file,
            writer,
            columns,
            leaf_page_rows,
            schema,
            has_column_scus,
            page_rows,
            offset: FIRST_GROUP,
            index: ExtentIndexBuilder::default(),
            parts: Vec::new(),
            rows: 0,
            raw_bytes: 0,
            min_key: Vec::new(),
            max_key: Vec::new(),
            newest_scu: 0,
        })
    }

    /// Whether rows with or without versions of their columns fit into this file's schema.
    pub(in crate::segment) fn accepts(&self, has_column_scus: bool) -> bool {
        self.has_column_scus || !has_column_scus
    }

    /// Writes rows as one row group; `keys` are theirs, batch by batch.
    pub(in crate::segment) async fn write_group(
        &mut self,
        batches: &[ChangeBatch],
        keys: &[Keys],
    ) -> Result<()> {
        let rows: usize = batches.iter().map(ChangeBatch::rows).sum();
        let raw: usize = batches.iter().map(|b| rows_bytes(b, 0, b.rows())).sum();
        let every = || {
            keys.iter()
                .flat_map(|keys| keys.iter().map(|key| key.data()))
        };
        let hashes: Vec<u64> = every().map(key_filter::key_hash).collect();
        let first_keys = every()
            .step_by(self.page_rows)
            .map(Bytes::copy_from_slice)
            .collect();
        let (first, last) = (keys.first(), keys.last());
        let (Some(first), Some(last)) = (first, last) else {
            return Err(Error::internal("a row group of no rows"));
        };
        let columns: Vec<Vec<Replaced>> = batches
            .iter()
            .map(|batch| self.file_columns(batch))
            .collect();
        let chunks = self.encode(&columns)?;
        let mut pages = Vec::with_capacity(chunks.len());
        let mut group = self.writer.next_row_group().map_err(internal)?;
        for chunk in chunks {
            let chunk = chunk.ok_or_else(|| Error::internal("a column was not written"))?;
            pages.push(page_lengths(chunk.close()));
            chunk.append_to_row_group(&mut group).map_err(internal)?;
        }
        group.close().map_err(internal)?;
        let info = GroupInfo {
            min_key: first.row(0).data(),
            max_key: last.row(last.num_rows() - 1).data(),
            rows: rows as u32,
            raw_len: raw as u32,
            newest_scu: batches.iter().map(newest_scu).max().unwrap_or(0),
            filter: &key_filter::build(&hashes),
        };
        let bytes = self.take_bytes()?;
        let crcs = crcs(
            &bytes[bytes.len() - pages.iter().flatten().sum::<usize>()..],
            &pages,
        );
        let part = GroupPart {
            crcs,
            stride: self.page_rows as u32,
            first_keys,
        };
        self.adopt(&info, part, bytes).await
    }

    /// Appends a row group of another file: as it is, but for the columns in place of which others
    /// are given. Of those that this file has and the other has not, cells are null.
    pub(in crate::segment) async fn append_group(
        &mut self,
        info: &GroupInfo<'_>,
        group: &EncodedGroup,
        mut replaced: Vec<Replaced>,
    ) -> Result<()> {
        let versions = self.schema.fields().len() - 1;
        let lacks_versions = self.has_column_scus && !group.has_column_scus;
        if lacks_versions && replaced.iter().all(|(at, _)| *at != versions) {
            let nulls = new_null_array(&DataType::Binary, info.rows as usize);
            replaced.push((versions, nulls));
        }
        let chunks = self.encode(std::slice::from_ref(&replaced))?;
        let mut columns = Vec::with_capacity(chunks.len());
        let mut out = self.writer.next_row_group().map_err(internal)?;
        for (leaf, chunk) in chunks.into_iter().enumerate() {
            let fresh = chunk.is_some();
            let close = chunk.as_ref().map(ArrowColumnChunk::close);
            let close = close.or_else(|| group.columns.get(leaf));
            let close = close.ok_or_else(|| Error::internal("a row group lacks a column"))?;
            columns.push((page_lengths(close), fresh));
            match chunk {
                Some(chunk) => chunk.append_to_row_group(&mut out),
                None => out.append_column(&group.bytes, close.clone()),
            }
            .map_err(internal)?;
        }
        out.close().map_err(internal)?;
        let bytes = self.take_bytes()?;
        let total: usize = columns.iter().flat_map(|(pages, _)| pages).sum();
        let mut rest = &bytes[bytes.len() - total..];
        let numbers = columns.iter().enumerate().map(|(leaf, (pages, fresh))| {
            let (chunk, after) = rest.split_at(pages.iter().sum());
            rest = after;
            // Those of copied pages stay: what was read was verified against them.
            match group.part.crcs.get(leaf) {
                Some(known) if !fresh => known.clone(),
                _ => crcs(chunk, std::slice::from_ref(pages)).concat(),
            }
        });
        let part = GroupPart {
            crcs: numbers.collect(),
            ..group.part.clone()
        };
        self.adopt(info, part, bytes).await
    }

    /// The stored columns of rows that patch a row group: those that are touched, and versions.
    pub(in crate::segment) fn replaced(
        &self,
        rows: &ChangeBatch,
        touched: &[usize],
    ) -> Vec<Replaced> {
        let versions = rows.data.num_columns();
        let all = self.file_columns(rows).into_iter();
        all.filter(|(at, _)| *at >= versions || touched.contains(at))
            .collect()
    }

    /// The writers of the next row group's columns, by leaf.
    fn column_writers(&self) -> Result<Vec<ArrowColumnWriter>> {
        let at = self.writer.flushed_row_groups().len();
        let mut made = Vec::new();
        for (rows, factory) in &self.columns {
            let writers = factory.create_column_writers(at).map_err(internal)?;
            let leaves = writers.into_iter().zip(&self.leaf_page_rows).enumerate();
            made.extend(leaves.filter(|(_, (_, of_leaf))| *of_leaf == rows));
        }
        made.sort_by_key(|(leaf, _)| *leaf);
        Ok(made.into_iter().map(|(_, (writer, _))| writer).collect())
    }

    /// Columns of rows, batch by batch, as encoded chunks by leaf; nothing for columns that are not
    /// among them. Each write ends where a page ends, so that the pages of all wide flat columns
    /// hold the same rows, and those of narrow ones as several of them.
    fn encode(&self, batches: &[Vec<Replaced>]) -> Result<Vec<Option<ArrowColumnChunk>>> {
        let mut starts = Vec::with_capacity(self.schema.fields().len());
        let mut leaves = 0;
        for field in self.schema.fields() {
            starts.push(leaves);
            leaves += leaf_count(field.data_type());
        }
        if batches.iter().all(Vec::is_empty) {
            return Ok((0..leaves).map(|_| None).collect());
        }
        let mut writers = self.column_writers()?;
        let mut is_written = vec![false; writers.len()];
        let mut in_page = 0;
        for columns in batches {
            let rows = columns.first().map_or(0, |(_, column)| column.len());
            let mut start = 0;
            while start < rows {
                let rest = rows - start;
                let length = match in_page {
                    0 if rest >= self.page_rows => rest - rest % self.page_rows,
                    _ => rest.min(self.page_rows - in_page),
                };
                in_page = (in_page + length) % self.page_rows;
                for (at, column) in columns {
                    let field = checked_field(&self.schema, *at, column)?;
                    let piece = column.slice(start, length);
                    let of_field = compute_leaves(field, &piece).map_err(internal)?;
                    for (leaf, cells) in (starts[*at]..).zip(of_field) {
                        let writer = writers.get_mut(leaf);
                        let writer = writer.ok_or_else(|| Error::internal("too many leaves"))?;
                        writer.write(&cells).map_err(internal)?;
                        is_written[leaf] = true;
                    }
                }
                start += length;
            }
        }
        let closed = writers.into_iter().zip(is_written);
        let closed = closed.map(|(writer, is_written)| {
            is_written
                .then(|| writer.close().map_err(internal))
                .transpose()
        });
        closed.collect()
    }

    /// The columns of the file, of rows.
    fn file_columns(&self, batch: &ChangeBatch) -> Vec<Replaced> {
        let mut columns: Vec<ArrayRef> = batch.data.columns().iter().map(to_stored).collect();
        columns.push(match &batch.scus {
            Scus::Uniform(scu) => Arc::new(UInt64Array::from(vec![*scu; batch.rows()])),
            Scus::Each(scus) => Arc::new(scus.clone()),
        });
        if self.has_column_scus {
            columns.push(match &batch.column_scus {
                Some(scus) => Arc::new(scus.clone()),
                None => new_null_array(&DataType::Binary, batch.rows()),
            });
        }
        columns.into_iter().enumerate().collect()
    }

    /// What was encoded since the last call.
    fn take_bytes(&mut self) -> Result<Vec<u8>> {
        self.writer
            .flush()
            .map_err(|error| Error::internal(format!("a write to memory failed: {error}")))?;
        Ok(std::mem::take(self.writer.inner_mut()))
    }

    /// Counts a row group that was written, and sends its bytes to the store.
    async fn adopt(&mut self, info: &GroupInfo<'_>, part: GroupPart, bytes: Vec<u8>) -> Result<()> {
        if self.parts.is_empty() {
            self.min_key = info.min_key.to_vec();
        }
        let end = self.writer.bytes_written() as u64;
        let stored_len = u32::try_from(end - self.offset)
            .map_err(|_| Error::invalid("rows of one row group take more than 4 GiB"))?;
        self.index.push(&ExtentInfo {
            min_key: info.min_key,
            max_key: info.max_key,
            offset: self.offset,
            stored_len,
            raw_len: info.raw_len,
            rows: info.rows,
            crc32c: 0,
            newest_scu: info.newest_scu,
            all_upserts: true,
            filter: info.filter,
        });
        self.parts.push(part);
        self.max_key = info.max_key.to_vec();
        self.rows += u64::from(info.rows);
        self.raw_bytes += u64::from(info.raw_len);
        self.newest_scu = self.newest_scu.max(info.newest_scu);
        self.offset = end;
        self.file.write(bytes.into()).await?;
        Ok(())
    }

    /// Writes our block, Parquet's indexes and the footer.
    pub(in crate::segment) async fn finish(mut self, layout: &RowLayout) -> Result<SegmentMeta> {
        let index = self.index.finish();
        let block = block_bytes(layout, self.has_column_scus, &index, &self.parts);
        self.writer
            .write_all(&block)
            .map_err(|error| Error::internal(format!("a write to memory failed: {error}")))?;
        self.writer.finish().map_err(internal)?;
        let tail = std::mem::take(self.writer.inner_mut());
        let index_crc = crc32c::crc32c(&tail);
        let bytes = self.offset + tail.len() as u64;
        self.file.write(tail.into()).await?;
        self.file.finish().await?;
        Ok(SegmentMeta {
            file: self.name,
            format: SegmentFormat::Parquet,
            rows: self.rows,
            bytes,
            raw_bytes: self.raw_bytes,
            index_offset: self.offset,
            index_crc,
            min_key: Key::new(self.min_key),
            max_key: Key::new(self.max_key),
            all_upserts: true,
            newest_scu: ScuNumber(self.newest_scu),
            moments_through: None,
        })
    }
}

/// The field that a column is to be stored as, if it can be.
fn checked_field<'s>(schema: &'s Schema, at: usize, column: &ArrayRef) -> Result<&'s FieldRef> {
    let field = schema.fields().get(at);
    let fits = |field: &&FieldRef| {
        field.data_type() == column.data_type()
            && (field.is_nullable() || column.logical_null_count() == 0)
    };
    field
        .filter(fits)
        .ok_or_else(|| Error::internal("rows of another schema can't be written as Parquet"))
}

/// The lengths of a column chunk's pages, its dictionary page first.
fn page_lengths(chunk: &ColumnCloseResult) -> Vec<usize> {
    let pages = chunk
        .offset_index
        .iter()
        .flat_map(|index| index.page_locations());
    let data: Vec<usize> = pages
        .map(|page| page.compressed_page_size as usize)
        .collect();
    let total = chunk.metadata.compressed_size() as usize;
    let dictionary = total - data.iter().sum::<usize>();
    (dictionary > 0)
        .then_some(dictionary)
        .into_iter()
        .chain(data)
        .collect()
}

fn crcs(mut bytes: &[u8], pages: &[Vec<usize>]) -> Vec<Vec<u32>> {
    let mut next = |length: &usize| {
        let (page, rest) = bytes.split_at(*length);
        bytes = rest;
        crc32c::crc32c(page)
    };
    pages
        .iter()
        .map(|column| column.iter().map(&mut next).collect())
        .collect()
}

/// Whether any row has versions of its columns.
pub(in crate::segment) fn has_column_scus(batch: &ChangeBatch) -> bool {
    let column = batch.column_scus.as_ref();
    column.is_some_and(|column| column.null_count() < column.len())
}

/// Invariant PQ-1, checked when rows are pushed.
pub(in crate::segment) fn check_plain(batch: &ChangeBatch) -> Result<()> {
    match batch.all_upserts() {
        true => Ok(()),
        false => Err(Error::internal("Parquet holds plain rows only")),
    }
}
