//! Files of rows: a query's, as COPY TO and `lazybase export` write them, so that COPY FROM and
//! `lazybase load` read back what was there.
//!
//! Writes a file that the user names, which is no part of the database.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc;
use arrow::json;
use lazybase_model::{Error, ErrorKind, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::csv_rows::{CsvSpelling, CsvWriter};
use super::io;
use super::spelling::{NumbersAsText, parquet_lacks, rows_with, schema_with};
use crate::error::from_arrow;

/// How a file of rows is written.
#[derive(Debug, Clone)]
pub enum FileForm {
    /// Lines of values.
    Csv {
        /// Whether the first line has the columns' names.
        header: bool,
        /// How values are set apart.
        spelling: CsvSpelling,
    },
    /// A line with an object for each row.
    Json,
    /// Parquet, compressed with zstd.
    Parquet,
    /// Arrow's file format.
    Arrow,
}

/// A writer of a line with an object for each row, which names every column.
pub fn json_lines<W: Write>(out: W) -> json::LineDelimitedWriter<W> {
    json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .with_encoder_factory(std::sync::Arc::new(NumbersAsText))
        .build(out)
}

/// A file that is being written.
pub struct RowsFile {
    path: String,
    rows: Rows,
}

enum Rows {
    Csv(CsvWriter<BufWriter<File>>),
    Json(json::LineDelimitedWriter<BufWriter<File>>),
    Parquet(Box<ArrowWriter<BufWriter<File>>>),
    Arrow(Box<ipc::writer::FileWriter<BufWriter<File>>>),
}

impl RowsFile {
    /// Makes the file, or empties the one that is there.
    ///
    /// # Errors
    /// `Unavailable` naming the file; `Invalid` for types that the form can't hold.
    pub fn create(path: &str, form: FileForm, schema: &SchemaRef) -> Result<RowsFile> {
        #[expect(
            clippy::disallowed_methods,
            reason = "a file that the user names is no part of the database"
        )]
        let made = File::create(path).map_err(io(path))?;
        RowsFile::into_file(made, path, form, schema)
    }

    /// Writes into a file that was just made; `path` is what errors call it.
    ///
    /// # Errors
    /// As [`RowsFile::create`].
    pub fn into_file(
        made: File,
        path: &str,
        form: FileForm,
        schema: &SchemaRef,
    ) -> Result<RowsFile> {
        let made = BufWriter::new(made);
        let rows = match form {
            FileForm::Csv { header, spelling } => {
                let mut rows = CsvWriter::new(made, spelling);
                if header {
                    rows.header(schema)
                        .map_err(|error| of_arrow(path, &error))?;
                }
                Rows::Csv(rows)
            }
            FileForm::Json => Rows::Json(json_lines(made)),
            FileForm::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .build();
                let schema = schema_with(schema, parquet_lacks);
                let writer = ArrowWriter::try_new(made, schema, Some(properties));
                let writer = writer
                    .map_err(|error| Error::invalid(error.to_string()).with_sqlstate("0A000"))?;
                Rows::Parquet(Box::new(writer))
            }
            FileForm::Arrow => {
                let writer = ipc::writer::FileWriter::try_new(made, schema);
                Rows::Arrow(Box::new(writer.map_err(|error| of_arrow(path, &error))?))
            }
        };
        let path = path.to_owned();
        Ok(RowsFile { path, rows })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// `Unavailable` naming the file; `Cancelled` (58030) where it is a pipe that nobody reads any
    /// more.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = match &mut self.rows {
            Rows::Csv(writer) => writer.write(batch),
            Rows::Json(writer) => writer.write(batch),
            Rows::Arrow(writer) => writer.write(batch),
            Rows::Parquet(writer) => {
                let rows = rows_with(batch, parquet_lacks).map_err(|error| from_arrow(&error))?;
                let written = writer.write(&rows);
                return written.map_err(|error| of_parquet(&self.path, &error));
            }
        };
        written.map_err(|error| of_arrow(&self.path, &error))
    }

    /// Writes what comes after the last row, and what is not on the disk yet.
    ///
    /// # Errors
    /// As [`RowsFile::write`].
    pub fn finish(self) -> Result<()> {
        let path = self.path;
        let failed = |error: ArrowError| of_arrow(&path, &error);
        let mut file = match self.rows {
            Rows::Csv(writer) => writer.into_inner(),
            Rows::Json(mut writer) => {
                writer.finish().map_err(failed)?;
                writer.into_inner()
            }
            Rows::Arrow(writer) => writer.into_inner().map_err(failed)?,
            Rows::Parquet(writer) => {
                let written = writer.into_inner();
                written.map_err(|error| of_parquet(&path, &error))?
            }
        };
        file.flush().map_err(|error| of_file(&path, error))?;
        let file = file.get_ref();
        // Pipes and devices have nothing to make durable, and say so.
        match file.metadata().map_err(io(&path))?.is_file() {
            true => file.sync_all().map_err(io(&path)),
            false => Ok(()),
        }
    }
}

/// What kept rows from a file, as Arrow says it.
fn of_arrow(path: &str, error: &ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, source) if is_unread(source) => unread(path),
        _ => from_arrow(error).within(path),
    }
}

/// The same, as Parquet says it.
fn of_parquet(path: &str, error: &ParquetError) -> Error {
    let source = match error {
        ParquetError::External(source) => source.downcast_ref::<io::Error>(),
        _ => None,
    };
    match source {
        Some(source) if is_unread(source) => unread(path),
        _ => Error::unavailable(format!("{path}: {error}")).with_sqlstate("58030"),
    }
}

/// The same, as the system says it.
fn of_file(path: &str, error: io::Error) -> Error {
    match is_unread(&error) {
        true => unread(path),
        false => io(path)(error),
    }
}

fn is_unread(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Given up for want of a reader. It is no statement that somebody has cancelled, and so has the
/// SQLSTATE of any file that can't be written.
fn unread(path: &str) -> Error {
    let message = format!("{path}: nobody reads it any more");
    Error::new(ErrorKind::Cancelled, message).with_sqlstate("58030")
}
