//! A file being read, whatever its format: pieces of rows, each with the mark that stands after it.

use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use lazybase_model::{Result, Table};

use super::input::Input;
use super::mark::Mark;
use super::parquet_file::ParquetFile;
use super::text_file::{TextFile, TextOptions};
use crate::cli::FileFormat;

/// Rows of a file, and how far it was read for them.
pub(super) struct Piece {
    /// The rows, with the file's columns.
    pub(super) batches: Vec<RecordBatch>,
    /// What to remember once they are in the table.
    pub(super) mark: Mark,
    /// How much of the file they stand for, in bytes.
    pub(super) bytes: u64,
    /// How much memory they take until they are committed, in bytes, about.
    pub(super) weight: u64,
}

/// A file of one of the formats.
pub(super) enum Source {
    /// CSV or JSON lines.
    Text(Box<TextFile>),
    /// Parquet.
    Parquet(Box<ParquetFile>),
}

impl Source {
    /// Opens a file and looks at its columns. `marked`: whether marks need its hashes; `known`:
    /// whether the table that it goes to is there, and says the types of text.
    pub(super) fn open(
        path: &Path,
        format: FileFormat,
        options: &TextOptions,
        marked: bool,
        known: bool,
    ) -> Result<Source> {
        let input = Input::open(path)?;
        match format {
            FileFormat::Parquet => {
                ParquetFile::open(input, marked).map(|file| Source::Parquet(Box::new(file)))
            }
            FileFormat::Csv | FileFormat::Tsv | FileFormat::Jsonl => {
                let csv = format != FileFormat::Jsonl;
                let file = TextFile::open(input, options, csv, known)?;
                Ok(Source::Text(Box::new(file)))
            }
        }
    }

    /// The file's columns, as far as its beginning tells.
    pub(super) fn schema(&self) -> &SchemaRef {
        match self {
            Source::Text(file) => file.schema(),
            Source::Parquet(file) => file.schema(),
        }
    }

    /// JSON lines without any record have the columns of the table that they go to.
    pub(super) fn has_columns_of(&mut self, table: &Table) {
        if let Source::Text(file) = self {
            file.has_columns_of(table);
        }
    }

    /// Reads text as these types, which have the names of [`Source::schema`]; beside each, the
    /// columns of the natural keys that stand there, if they do.
    pub(super) fn read_as(&mut self, schema: SchemaRef, natural_keys: Vec<Option<Vec<String>>>) {
        if let Source::Text(file) = self {
            file.read_as(schema, natural_keys);
        }
    }

    /// Goes on after a mark.
    ///
    /// # Errors
    /// `Conflict` when the part before the mark was changed.
    pub(super) fn resume(&mut self, mark: &Mark, name: &str) -> Result<()> {
        match self {
            Source::Text(file) => file.resume(mark, name),
            Source::Parquet(file) => file.resume(mark, name),
        }
    }

    /// The next rows; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Piece>> {
        match self {
            Source::Text(file) => file.next(),
            Source::Parquet(file) => file.next(),
        }
    }
}

#[cfg(test)]
mod tests;
