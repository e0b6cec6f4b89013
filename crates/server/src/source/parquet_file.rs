//! Parquet files: read a row group at a time, from any row on.
//!
//! A mark's hash covers the file's bytes up to the end of the row group that was being read, and
//! the footer, so that a file with other data under an equal footer is found too. A reader that
//! panics over what stands in a file is an error of the file, and is thrown away with it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use lazybase_model::{Error, Result};
use lazybase_query::guard::unpanicked;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Type;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::Piece;
use super::chunk::PrefixHash;
use super::input::{Input, shown};
use super::mark::{Evidence, Mark, check};
use crate::failure;

/// The rows that are read at once, unless their values are wide.
const BATCH_ROWS: usize = 8_192;
/// What the values of one width may take of a batch, in bytes.
const BATCH_BYTES: u64 = 16 << 20;
/// Values so wide may stand in a file that is shorter: it may hold none of them.
const WIDTH_BYTES: u64 = 1 << 20;
/// The bytes after the footer: its length and the magic word.
const TAIL_BYTES: u64 = 8;

/// A Parquet file being read.
pub(super) struct ParquetFile {
    file: File,
    length: u64,
    metadata: ArrowReaderMetadata,
    /// Whether hashes are wanted.
    marked: bool,
    footer: String,
    hash: PrefixHash,
    /// The next row group to open.
    next_group: usize,
    /// Rows of that group to skip.
    skip: usize,
    group: Option<ParquetRecordBatchReader>,
    rows: u64,
    total_rows: u64,
    batch_rows: usize,
}

impl ParquetFile {
    /// Reads a file's footer.
    pub(super) fn open(input: Input, marked: bool) -> Result<ParquetFile> {
        let place = shown(input.path());
        let io = |error| failure::io(&place, &error);
        let mut file = input.into_file()?;
        let length = file.metadata().map_err(io)?.len();
        let read = unpanicked(|| ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()));
        let metadata = read
            .unwrap_or_else(|panic| Err(ParquetError::General(panic)))
            .map_err(|error| failure::parquet("not a whole Parquet file", &error))?;
        let footer = match marked {
            true => footer_hash(&mut file, length).map_err(io)?,
            false => String::new(),
        };
        let total_rows = total_rows(metadata.metadata())?;
        let batch_rows = batch_rows(metadata.metadata(), length)?;
        Ok(ParquetFile {
            file,
            length,
            metadata,
            marked,
            footer,
            hash: PrefixHash::new(),
            next_group: 0,
            skip: 0,
            group: None,
            rows: 0,
            total_rows,
            batch_rows,
        })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    pub(super) fn resume(&mut self, mark: &Mark, name: &str) -> Result<()> {
        let io = |error| failure::io(name, &error);
        self.file.seek(SeekFrom::Start(0)).map_err(io)?;
        let mut hash = PrefixHash::new();
        let read = hash.read(&mut self.file, mark.bytes)?;
        let evidence = Evidence {
            length: self.length,
            prefix_hash: read.map(|_| hash.hex()),
            footer: self.footer.clone(),
            ends_at_record: true,
        };
        check(mark, &evidence, name)?;
        self.hash = hash;
        self.rows = mark.rows;
        let mut left = mark.rows;
        self.next_group = 0;
        for group in self.metadata.metadata().row_groups() {
            let rows = group.num_rows() as u64;
            if left < rows {
                break;
            }
            left -= rows;
            self.next_group += 1;
        }
        self.skip = left as usize;
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<Option<Piece>> {
        loop {
            if self.group.is_none() && !self.open_group()? {
                return Ok(None);
            }
            let group = &mut self.group;
            let read = unpanicked(|| group.as_mut().and_then(Iterator::next).transpose());
            match read.unwrap_or_else(|panic| Err(ArrowError::ParquetError(panic))) {
                Ok(Some(batch)) if batch.num_rows() > 0 => return Ok(Some(self.piece(batch))),
                Ok(Some(_)) => {}
                Ok(None) => self.group = None,
                Err(error) => {
                    return Err(failure::arrow(format!("after row {}", self.rows), &error));
                }
            }
        }
    }

    /// Begins the next row group; false when there is none.
    fn open_group(&mut self) -> Result<bool> {
        let at = self.next_group;
        let groups = self.metadata.metadata();
        if at >= groups.num_row_groups() {
            return Ok(false);
        }
        let end = end_of(groups.row_group(at))?;
        if end > self.length {
            return Err(ends_inside());
        }
        if self.marked {
            self.hash_up_to(end)?;
        }
        let file = self
            .file
            .try_clone()
            .map_err(|error| failure::io("file", &error))?;
        let metadata = self.metadata.clone();
        let (skip, batch_rows) = (self.skip, self.batch_rows);
        let build = || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
                .with_row_groups(vec![at])
                .with_offset(skip)
                .with_batch_size(batch_rows)
                .build()
        };
        let reader = unpanicked(build).unwrap_or_else(|panic| Err(ParquetError::General(panic)));
        self.group = Some(reader.map_err(|error| failure::parquet("row group", &error))?);
        self.next_group += 1;
        self.skip = 0;
        Ok(true)
    }

    fn hash_up_to(&mut self, end: u64) -> Result<()> {
        let from = self.hash.bytes();
        if end <= from {
            return Ok(());
        }
        let io = |error| failure::io("file", &error);
        self.file.seek(SeekFrom::Start(from)).map_err(io)?;
        match self.hash.read(&mut self.file, end - from)? {
            Some(_) => Ok(()),
            None => Err(ends_inside()),
        }
    }

    fn piece(&mut self, batch: RecordBatch) -> Piece {
        let rows = batch.num_rows() as u64;
        self.rows += rows;
        Piece {
            mark: Mark {
                rows: self.rows,
                bytes: self.hash.bytes(),
                hash: self.hash.hex(),
                footer: self.footer.clone(),
            },
            bytes: (u128::from(self.length) * u128::from(rows) / u128::from(self.total_rows.max(1)))
                as u64,
            weight: batch.get_array_memory_size() as u64,
            batches: vec![batch],
        }
    }
}

/// How many rows a file has, by its footer, whose numbers may be any.
fn total_rows(metadata: &ParquetMetaData) -> Result<u64> {
    let groups = metadata.row_groups().iter();
    groups
        .map(|group| u64::try_from(group.num_rows()).ok())
        .try_fold(0, |sum: u64, rows| sum.checked_add(rows?))
        .ok_or_else(|| Error::invalid("not a whole Parquet file: no file has so many rows"))
}

/// How many rows are read at once: the reader makes room for them by the widths that the footer
/// says, before it has seen a value.
fn batch_rows(metadata: &ParquetMetaData, length: u64) -> Result<usize> {
    let columns = metadata.file_metadata().schema_descr().columns().iter();
    let fixed = columns.filter(|column| column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY);
    let widths = fixed.map(|column| u64::try_from(column.type_length()).unwrap_or(0));
    let width = widths.fold(0, u64::saturating_add);
    if width > length.max(WIDTH_BYTES) {
        return Err(Error::invalid(
            "not a whole Parquet file: its values are longer than the file",
        ));
    }
    let rows = usize::try_from(BATCH_BYTES / width.max(1)).unwrap_or(BATCH_ROWS);
    Ok(rows.clamp(1, BATCH_ROWS))
}

/// Where the bytes of a row group end, by its footer.
fn end_of(group: &RowGroupMetaData) -> Result<u64> {
    let mut ends = group.columns().iter().map(|column| {
        let first = column.dictionary_page_offset();
        let start = u64::try_from(first.unwrap_or_else(|| column.data_page_offset())).ok()?;
        start.checked_add(u64::try_from(column.compressed_size()).ok()?)
    });
    ends.try_fold(0, |last: u64, end| Some(last.max(end?)))
        .ok_or_else(|| Error::invalid("not a whole Parquet file: a column is at no place of it"))
}

fn ends_inside() -> Error {
    Error::invalid("the file ends inside a row group")
}

/// The hash of the footer with its length.
fn footer_hash(file: &mut File, length: u64) -> std::io::Result<String> {
    let mut tail = [0; TAIL_BYTES as usize];
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    file.read_exact(&mut tail)?;
    let size = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    let start = length.saturating_sub(TAIL_BYTES + u64::from(size));
    file.seek(SeekFrom::Start(start))?;
    let mut footer = Vec::new();
    file.read_to_end(&mut footer)?;
    let mut hash = PrefixHash::new();
    hash.write(&footer);
    Ok(hash.hex())
}
