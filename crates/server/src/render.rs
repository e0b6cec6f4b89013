//! Results as they reach standard output: aligned tables, CSV, JSON lines.
//!
//! Takes a result as a stream of record batches and holds at most a screenful of it. NULL never
//! looks like a text: in tables a text that reads NULL stands in quotes; in CSV NULL is empty.

mod cells;
mod table;

use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::csv;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json;
use arrow::json::writer::LineDelimited;
use lazybase_model::Result;

use crate::cli::Format;
use crate::failure;

pub(crate) use cells::{cell_texts, format_options, sql_type};
pub(crate) use table::{TableStyle, TableWriter, print_rows};

/// Writes one result in the chosen format.
pub(crate) enum ResultWriter<W: Write> {
    /// See [`Format::Table`].
    Table(TableWriter<W>),
    /// See [`Format::Csv`].
    Csv {
        /// The columns, so that an empty result still has its header.
        schema: SchemaRef,
        /// Quotes and separates.
        writer: Box<csv::Writer<W>>,
        /// Whether the header was written.
        begun: bool,
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
                schema,
                writer: Box::new(csv_writer(out)),
                begun: false,
            },
            Format::Json => ResultWriter::Json(Box::new(json_writer(out))),
        }
    }

    /// Writes some rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            ResultWriter::Table(table) => table.write(batch),
            ResultWriter::Csv { writer, begun, .. } => {
                *begun = true;
                let batch = flat(batch)?;
                writer.write(&batch).map_err(|error| output(&error))
            }
            ResultWriter::Json(writer) => writer.write(batch).map_err(|error| output(&error)),
        }
    }

    /// Writes what comes after the last row.
    pub(crate) fn finish(mut self) -> Result<()> {
        if let ResultWriter::Csv { schema, begun, .. } = &self
            && !begun
        {
            let empty = RecordBatch::new_empty(Arc::clone(schema));
            self.write(&empty)?;
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
    failure::arrow("standard output", error)
}

/// A CSV writer with a header line, as `sql` and `export` write it.
pub(crate) fn csv_writer<W: Write>(out: W) -> csv::Writer<W> {
    csv::WriterBuilder::new()
        .with_header(true)
        .with_timestamp_format(cells::TIMESTAMP.to_owned())
        .build(out)
}

/// A JSON lines writer that names every column in every row.
pub(crate) fn json_writer<W: Write>(out: W) -> json::Writer<W, LineDelimited> {
    json::WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, LineDelimited>(out)
}

/// The batch with lists, structs and maps as text: CSV has only one level.
pub(crate) fn flat(batch: &RecordBatch) -> Result<RecordBatch> {
    if !batch.columns().iter().any(|c| c.data_type().is_nested()) {
        return Ok(batch.clone());
    }
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    let schema = batch.schema();
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if column.data_type().is_nested() {
            fields.push(Field::new(field.name(), DataType::Utf8, true));
            let texts: StringArray = cell_texts(column)?.into_iter().collect();
            columns.push(Arc::new(texts));
        } else {
            fields.push(field.as_ref().clone());
            columns.push(Arc::clone(column));
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|error| output(&error))
}

#[cfg(test)]
mod tests;
