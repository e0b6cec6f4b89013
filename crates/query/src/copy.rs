//! COPY: a query's rows to a file, and a file's rows to a table, batch by batch.
//!
//! Reads and writes files that the user names, which are no part of the database. Invariant
//! CPY-1: memory is bounded by a few batches, whatever the size of the file. Invariant CPY-2: a
//! COPY FROM is one batch: all of the file, or nothing.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::sql::sqlparser::ast::Statement;
use futures::stream::{self, BoxStream, StreamExt};
use lazybase_model::{Error, Result, Table};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::answer::AnswerStream;
use crate::clauses::Clauses;
use crate::dml::insert::{Conflict, column, columns_given, write_rows};
use crate::dml::sink::Sink;
use crate::error::from_arrow;
use crate::parse::{CopyFile, CopySource, Statement as Ours, parse};
use crate::read;
use crate::scan::Shape;
use crate::session::{Shared, ours};

/// The rows that are read from a file at once.
const FILE_BATCH_ROWS: usize = 8192;

/// The formats of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Csv,
    Json,
    Parquet,
}

impl Format {
    /// As the options say, or the file's ending.
    fn of(file: &CopyFile) -> Result<Format> {
        let ending = Path::new(&file.path)
            .extension()
            .and_then(|ending| ending.to_str());
        let named = file
            .format
            .as_deref()
            .or(ending)
            .unwrap_or("csv")
            .to_lowercase();
        match named.as_str() {
            "csv" | "tsv" | "txt" | "text" => Ok(Format::Csv),
            "json" | "jsonl" | "ndjson" => Ok(Format::Json),
            "parquet" => Ok(Format::Parquet),
            other => Err(
                Error::invalid(format!("COPY does not know the format {other:?}"))
                    .with_hint("write WITH (FORMAT csv), json or parquet")
                    .with_sqlstate("22023"),
            ),
        }
    }
}

fn io(path: &str) -> impl Fn(std::io::Error) -> Error + '_ {
    move |error| Error::unavailable(format!("{path}: {error}")).with_sqlstate("58030")
}

/// COPY TO.
pub(crate) async fn copy_to(
    session: &Arc<Shared>,
    source: CopySource,
    file: &CopyFile,
    clauses: &Clauses,
    sql: &str,
) -> Result<AnswerStream> {
    let format = Format::of(file)?;
    let query = match source {
        CopySource::Query(query) => query,
        CopySource::Table { name, columns } => whole_table(&name, &columns)?,
    };
    let opened = read::open(session, Statement::Query(query), clauses, sql).await?;
    let schema = opened.rows.schema();
    let mut writer = FileRows::create(file, format, &schema)?;
    let mut batches = ours(opened.rows, sql);
    let mut rows = 0_u64;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        writer.write(&batch, &file.path)?;
    }
    writer.finish(&file.path)?;
    let stamp = opened.snapshot.map(|snapshot| snapshot.stamp());
    if let Some(stamp) = &stamp {
        session.note_stamp(stamp.clone());
    }
    Ok(AnswerStream::done(format!("COPY {rows}"), rows).with_stamp(stamp))
}

fn whole_table(
    name: &str,
    columns: &[String],
) -> Result<Box<datafusion::sql::sqlparser::ast::Query>> {
    let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let columns = match columns.is_empty() {
        true => "*".to_owned(),
        false => columns.iter().map(quoted).collect::<Vec<_>>().join(", "),
    };
    let table = name.replace('"', "\"\"");
    match parse(&format!("SELECT {columns} FROM \"{table}\""))?.statement {
        Ours::Query(query) => Ok(query),
        _ => Err(Error::internal("SELECT is a query")),
    }
}

/// A file that is being written.
enum FileRows {
    Csv(Box<arrow::csv::Writer<BufWriter<File>>>),
    Json(arrow::json::LineDelimitedWriter<BufWriter<File>>),
    Parquet(Box<ArrowWriter<BufWriter<File>>>),
}

impl FileRows {
    fn create(file: &CopyFile, format: Format, schema: &SchemaRef) -> Result<FileRows> {
        #[expect(
            clippy::disallowed_methods,
            reason = "a file that the user names is no part of the database"
        )]
        let made = File::create(&file.path).map_err(io(&file.path))?;
        let made = BufWriter::new(made);
        Ok(match format {
            Format::Csv => FileRows::Csv(Box::new(
                arrow::csv::WriterBuilder::new()
                    .with_header(file.header)
                    .with_delimiter(delimiter(file)?)
                    .with_null(file.null.clone())
                    .build(made),
            )),
            Format::Json => FileRows::Json(arrow::json::LineDelimitedWriter::new(made)),
            Format::Parquet => FileRows::Parquet(Box::new(
                ArrowWriter::try_new(made, Arc::clone(schema), None)
                    .map_err(|error| Error::invalid(error.to_string()).with_sqlstate("0A000"))?,
            )),
        })
    }

    fn write(&mut self, batch: &RecordBatch, path: &str) -> Result<()> {
        let failed = |error: String| Error::unavailable(format!("{path}: {error}"));
        match self {
            FileRows::Csv(writer) => writer.write(batch).map_err(|error| from_arrow(&error)),
            FileRows::Json(writer) => writer.write(batch).map_err(|error| from_arrow(&error)),
            FileRows::Parquet(writer) => writer
                .write(batch)
                .map_err(|error| failed(error.to_string())),
        }
    }

    fn finish(self, path: &str) -> Result<()> {
        let failed = |error: String| Error::unavailable(format!("{path}: {error}"));
        let mut file = match self {
            FileRows::Csv(writer) => writer.into_inner(),
            FileRows::Json(mut writer) => {
                writer.finish().map_err(|error| from_arrow(&error))?;
                writer.into_inner()
            }
            FileRows::Parquet(writer) => writer
                .into_inner()
                .map_err(|error| failed(error.to_string()))?,
        };
        file.flush().map_err(io(path))?;
        file.get_ref().sync_all().map_err(io(path))
    }
}

fn delimiter(file: &CopyFile) -> Result<u8> {
    u8::try_from(file.delimiter).map_err(|_| {
        Error::invalid(format!("{:?} can't separate values", file.delimiter))
            .with_hint("use one ASCII character")
            .with_sqlstate("22023")
    })
}

/// COPY FROM.
pub(crate) async fn copy_from(
    session: &Arc<Shared>,
    table: &str,
    columns: &[String],
    file: &CopyFile,
) -> Result<AnswerStream> {
    let table = session.database.table(table)?;
    let format = Format::of(file)?;
    let (given, batches) = read_file(&table, columns, file, format)?;
    let mut sink = Sink::of(session);
    let rows = write_rows(
        session,
        &table,
        &given,
        batches,
        &Conflict::Replace,
        &mut sink,
    )
    .await
    .map_err(|error| error.within(&file.path))?;
    let token = sink.finish(session).await?;
    Ok(AnswerStream::done(format!("COPY {rows}"), rows).with_token(token))
}

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// The columns that a file gives, and its rows.
fn read_file(
    table: &Arc<Table>,
    columns: &[String],
    file: &CopyFile,
    format: Format,
) -> Result<(Vec<usize>, Batches)> {
    let opened = File::open(&file.path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::not_found(format!("{}: there is no such file", file.path)).with_sqlstate("58P01")
        }
        _ => io(&file.path)(error),
    })?;
    match format {
        Format::Csv => {
            let given = columns_given(table, columns)?;
            let reader = csv_reader(table, &given, file, opened)?;
            let null = file.null.clone();
            let batches = reader.map(move |batch| with_nulls(batch, &null));
            Ok((given, stream::iter(batches).boxed()))
        }
        Format::Json => {
            let given = columns_given(table, columns)?;
            let schema = Shape::new(Arc::clone(table), given.clone()).schema;
            let nullable: Vec<Field> = schema
                .fields()
                .iter()
                .map(|field| field.as_ref().clone().with_nullable(true))
                .collect();
            let reader = arrow::json::ReaderBuilder::new(Arc::new(Schema::new(nullable)))
                .with_batch_size(FILE_BATCH_ROWS)
                .build(BufReader::new(opened))
                .map_err(|error| from_arrow(&error))?;
            Ok((given, stream::iter(reader.map(arrow_batch)).boxed()))
        }
        Format::Parquet => {
            let broken = |error: parquet::errors::ParquetError| {
                Error::invalid(format!("{}: {error}", file.path)).with_sqlstate("22P04")
            };
            let reader = ParquetRecordBatchReaderBuilder::try_new(opened)
                .map_err(broken)?
                .with_batch_size(FILE_BATCH_ROWS)
                .build()
                .map_err(broken)?;
            let given = match columns.is_empty() {
                true => named_by(table, &arrow::array::RecordBatchReader::schema(&reader))?,
                false => columns_given(table, columns)?,
            };
            Ok((given, stream::iter(reader.map(arrow_batch)).boxed()))
        }
    }
}

/// Columns by the names that a file gives them.
fn named_by(table: &Table, schema: &Schema) -> Result<Vec<usize>> {
    let names = schema.fields().iter().map(|field| field.name());
    names
        .map(|name| match table.column_index(name) {
            Some(_) => column(table, name),
            None => column(table, &name.to_lowercase()),
        })
        .collect()
}

fn csv_reader(
    table: &Table,
    given: &[usize],
    file: &CopyFile,
    opened: File,
) -> Result<arrow::csv::Reader<File>> {
    // Texts reach their column as they are written: then an error names the row.
    let fields: Vec<Field> = given
        .iter()
        .map(|at| Field::new(&table.columns[*at].name, DataType::Utf8, true))
        .collect();
    arrow::csv::ReaderBuilder::new(Arc::new(Schema::new(fields)))
        .with_header(file.header)
        .with_delimiter(delimiter(file)?)
        .with_batch_size(FILE_BATCH_ROWS)
        .build(opened)
        .map_err(|error| from_arrow(&error))
}

fn arrow_batch(batch: Result<RecordBatch, ArrowError>) -> Result<RecordBatch> {
    batch.map_err(|error| from_arrow(&error))
}

/// The cells that say NULL as nulls; empty ones are nulls already.
fn with_nulls(batch: Result<RecordBatch, ArrowError>, null: &str) -> Result<RecordBatch> {
    let batch = arrow_batch(batch)?;
    if null.is_empty() {
        return Ok(batch);
    }
    let columns =
        batch.columns().iter().map(
            |column| match column.as_any().downcast_ref::<StringArray>() {
                None => Arc::clone(column),
                Some(texts) => {
                    let texts = texts.iter().map(|text| text.filter(|text| *text != null));
                    Arc::new(texts.collect::<StringArray>()) as ArrayRef
                }
            },
        );
    debug_assert!(
        batch
            .columns()
            .iter()
            .all(|column| column.len() == batch.num_rows())
    );
    RecordBatch::try_new(batch.schema(), columns.collect()).map_err(|error| from_arrow(&error))
}
