//! A file being read, whatever its format: pieces of rows, each with the mark that stands after it.
//!
//! ```text
//!   path -> input -> chunks of whole records -> values of the types that are wanted  -+-> pieces
//!                 -> the footer of Parquet   -> row groups, from any row on          -+
//! ```
//!
//! Reads what the user names; writes nothing, but for a nameless temporary file where Parquet comes
//! through a pipe. What becomes of the rows is the binary's own, in `load`.

use std::io::Read;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use clap::ValueEnum;
use lazybase_model::{Result, Table};

mod chunk;
mod columns;
pub(crate) mod fuzz;
mod infer;
mod input;
mod mark;
mod parquet_file;
mod text_file;

pub use columns::{listed, listed_schema, shortened, stored_schema};
pub use input::{is_stream, shown};
pub use mark::Mark;
pub use text_file::TextOptions;

use input::Input;
use parquet_file::ParquetFile;
use text_file::TextFile;

/// The format of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values.
    Csv,
    /// The same with tabs.
    Tsv,
    /// One JSON object a line.
    #[value(alias = "json", alias = "ndjson")]
    Jsonl,
}

/// Rows of a file, and how far it was read for them.
pub struct Piece {
    /// The rows, with the file's columns.
    pub batches: Vec<RecordBatch>,
    /// What to remember once they are in the table.
    pub mark: Mark,
    /// How much of the file they stand for, in bytes.
    pub bytes: u64,
    /// How much memory they take until they are committed, in bytes, about.
    pub weight: u64,
}

/// A file of one of the formats.
pub struct Source(Kind);

enum Kind {
    /// CSV or JSON lines.
    Text(Box<TextFile>),
    Parquet(Box<ParquetFile>),
}

impl Source {
    /// Opens a file and looks at its columns. `marked`: whether marks need its hashes; `known`:
    /// whether the table that it goes to is there, and says the types of text.
    ///
    /// # Errors
    /// Those of the system, and `Invalid` for what is no file of that format.
    pub fn open(
        path: &Path,
        format: FileFormat,
        options: &TextOptions,
        marked: bool,
        known: bool,
    ) -> Result<Source> {
        Source::of(Input::open(path)?, format, options, marked, known)
    }

    /// As [`Source::open`], of a stream.
    fn of_stream(
        stream: Box<dyn Read + Send>,
        format: FileFormat,
        options: &TextOptions,
        known: bool,
    ) -> Result<Source> {
        Source::of(Input::of_stream(stream), format, options, true, known)
    }

    fn of(
        input: Input,
        format: FileFormat,
        options: &TextOptions,
        marked: bool,
        known: bool,
    ) -> Result<Source> {
        let kind = match format {
            FileFormat::Parquet => Kind::Parquet(Box::new(ParquetFile::open(input, marked)?)),
            FileFormat::Csv | FileFormat::Tsv | FileFormat::Jsonl => {
                let csv = format != FileFormat::Jsonl;
                Kind::Text(Box::new(TextFile::open(input, options, csv, known)?))
            }
        };
        Ok(Source(kind))
    }

    /// The file's columns, as far as its beginning tells.
    pub fn schema(&self) -> &SchemaRef {
        match &self.0 {
            Kind::Text(file) => file.schema(),
            Kind::Parquet(file) => file.schema(),
        }
    }

    /// JSON lines without any record have the columns of the table that they go to.
    pub fn has_columns_of(&mut self, table: &Table) {
        if let Kind::Text(file) = &mut self.0 {
            file.has_columns_of(table);
        }
    }

    /// Reads text as these types, which have the names of [`Source::schema`]; beside each, the
    /// columns of the natural keys that stand there, if they do.
    pub fn read_as(&mut self, schema: SchemaRef, natural_keys: Vec<Option<Vec<String>>>) {
        if let Kind::Text(file) = &mut self.0 {
            file.read_as(schema, natural_keys);
        }
    }

    /// Goes on after a mark.
    ///
    /// # Errors
    /// `Conflict` when the part before the mark was changed.
    pub fn resume(&mut self, mark: &Mark, name: &str) -> Result<()> {
        match &mut self.0 {
            Kind::Text(file) => file.resume(mark, name),
            Kind::Parquet(file) => file.resume(mark, name),
        }
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// Those of the system, and `Invalid` for rows that can't be taken.
    pub fn next_piece(&mut self) -> Result<Option<Piece>> {
        match &mut self.0 {
            Kind::Text(file) => file.next(),
            Kind::Parquet(file) => file.next(),
        }
    }
}

#[cfg(test)]
mod tests;
