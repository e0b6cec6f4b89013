//! Files of rows: a query's, as COPY TO and `lazybase export` write them, so that COPY FROM and
//! `lazybase load` read back what was there.
//!
//! Writes a file that the user names, which is no part of the database.

use std::fs::File;
use std::io::{BufWriter, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc;
use arrow::json;
use lazybase_model::{Error, Result};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
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
                    rows.header(schema).map_err(|error| from_arrow(&error))?;
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
                Rows::Arrow(Box::new(writer.map_err(|error| from_arrow(&error))?))
            }
        };
        let path = path.to_owned();
        Ok(RowsFile { path, rows })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// `Unavailable` naming the file.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = match &mut self.rows {
            Rows::Csv(writer) => writer.write(batch),
            Rows::Json(writer) => writer.write(batch),
            Rows::Arrow(writer) => writer.write(batch),
            Rows::Parquet(writer) => {
                let rows = rows_with(batch, parquet_lacks).map_err(|error| from_arrow(&error))?;
                let written = writer.write(&rows);
                return written.map_err(|error| self.failed(&error.to_string()));
            }
        };
        written.map_err(|error| from_arrow(&error).within(&self.path))
    }

    fn failed(&self, what: &str) -> Error {
        Error::unavailable(format!("{}: {what}", self.path)).with_sqlstate("58030")
    }

    /// Writes what comes after the last row, and what is not on the disk yet.
    ///
    /// # Errors
    /// `Unavailable` naming the file.
    pub fn finish(self) -> Result<()> {
        let path = self.path;
        let failed = |what: String| Error::unavailable(format!("{path}: {what}"));
        let mut file = match self.rows {
            Rows::Csv(writer) => writer.into_inner(),
            Rows::Json(mut writer) => {
                writer.finish().map_err(|error| from_arrow(&error))?;
                writer.into_inner()
            }
            Rows::Arrow(writer) => writer.into_inner().map_err(|error| from_arrow(&error))?,
            Rows::Parquet(writer) => writer
                .into_inner()
                .map_err(|error| failed(error.to_string()))?,
        };
        file.flush().map_err(io(&path))?;
        let file = file.get_ref();
        // Pipes and devices have nothing to make durable, and say so.
        match file.metadata().map_err(io(&path))?.is_file() {
            true => file.sync_all().map_err(io(&path)),
            false => Ok(()),
        }
    }
}
