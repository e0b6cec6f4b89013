//! Results as they reach standard output: aligned tables, CSV, JSON lines.
//!
//! Takes a result as a stream of record batches and holds at most a screenful of it. NULL never
//! looks like a text: in tables a text that reads NULL stands in quotes; in CSV NULL is empty.

mod cells;
mod table;

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::json;
use arrow::json::writer::LineDelimited;
use lazybase_model::Result;
use lazybase_query::{CsvSpelling, CsvWriter, json_lines};

use crate::cli::Format;
use crate::failure;

pub(crate) use cells::cell_texts;
pub(crate) use lazybase_server::type_names::sql_type;
pub(crate) use table::{TableStyle, TableWriter, print_rows};

/// Writes one result in the chosen format.
pub(crate) enum ResultWriter<W: Write> {
    /// See [`Format::Table`].
    Table(TableWriter<W>),
    /// See [`Format::Csv`].
    Csv {
        /// The columns, until the header is written: an empty result has one too.
        header: Option<SchemaRef>,
        /// Quotes and separates.
        writer: CsvWriter<W>,
    },
    /// See [`Format::Json`].
    Json(Box<json::Writer<W, LineDelimited>>),
}

impl<W: Write> ResultWriter<W> {
    /// A writer of rows of `schema` to `out`.
    pub(crate) fn new(format: Format, schema: SchemaRef, style: TableStyle, out: W) -> Self {
        match format {
            Format::Table => ResultWriter::Table(TableWriter::new(schema, style, out)),
            Format::Csv => ResultWriter::Csv {
                header: Some(schema),
                writer: CsvWriter::new(out, CsvSpelling::default()),
            },
            Format::Json => ResultWriter::Json(Box::new(json_lines(out))),
        }
    }

    /// Writes some rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            ResultWriter::Table(table) => table.write(batch),
            ResultWriter::Csv { header, writer } => {
                let begun = header
                    .take()
                    .map_or(Ok(()), |schema| writer.header(&schema));
                let written = begun.and_then(|()| writer.write(batch));
                written.map_err(|error| output(&error))
            }
            ResultWriter::Json(writer) => writer.write(batch).map_err(|error| output(&error)),
        }
    }

    /// Writes what comes after the last row.
    pub(crate) fn finish(mut self) -> Result<()> {
        if let ResultWriter::Csv { header, writer } = &mut self
            && let Some(schema) = header.take()
        {
            writer.header(&schema).map_err(|error| output(&error))?;
        }
        match self {
            ResultWriter::Table(table) => table.finish(),
            ResultWriter::Csv { writer, .. } => {
                let mut out = writer.into_inner();
                out.flush().map_err(|error| failure::stdout(&error))
            }
            ResultWriter::Json(mut writer) => {
                writer.finish().map_err(|error| output(&error))?;
                let mut out = writer.into_inner();
                out.flush().map_err(|error| failure::stdout(&error))
            }
        }
    }
}

fn output(error: &ArrowError) -> lazybase_model::Error {
    match error {
        ArrowError::IoError(_, source) => failure::stdout(source),
        _ => failure::arrow("standard output", error),
    }
}

#[cfg(test)]
mod tests;
