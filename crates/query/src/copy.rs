//! COPY: a query's rows to a file, and the rows of a file or of standard input to a table, batch
//! by batch.
//!
//! ```text
//!   COPY TO     query -> batches -> csv | json | parquet | arrow -> file
//!   COPY FROM   file | standard input -> csv::Records | JsonRows | parquet | arrow -> one batch
//! ```
//!
//! Reads and writes files that the user names, which are no part of the database. Invariant
//! CPY-1: memory is bounded by a few batches, whatever the size of the file. Invariant CPY-2: a
//! COPY FROM is one batch: all of the file, or nothing.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::{Expr, Statement};
use futures::future::ready;
use futures::stream::StreamExt;
use lazybase_model::access::Privilege;
use lazybase_model::{Error, Result};

use crate::answer::AnswerStream;
use crate::clauses::Clauses;
use crate::dml::insert::{Conflict, Rows, write_rows};
use crate::dml::sink::Sink;
use crate::error::nul_byte;
use crate::parse::{CopyFile, CopyPlace, CopySource, Statement as Ours, parse_template};
use crate::read;
use crate::session::{Shared, ours};

mod arrow_stream;
mod client;
mod condition;
mod csv;
mod csv_rows;
mod forced;
mod header;
mod input;
mod json_rows;
mod rows_file;
mod spelling;
mod text;

pub use client::{CopyInput, CopyPlan, CopyStyle, RowFormat, copy_input};
pub(crate) use client::{copy_to_client, plan};
use condition::Condition;
pub use csv::{LinesBefore, csv_texts};
pub use csv_rows::{CsvSpelling, CsvWriter};
pub use forced::ForcedColumns;
pub(crate) use header::Header;
pub(crate) use input::Input;
pub use json_rows::{JsonColumn, JsonObject, json_objects, json_rows};
pub use rows_file::{FileForm, RowsFile, json_lines};
pub use spelling::json_texts;
pub(crate) use spelling::json_texts_by;

/// What some programs write before UTF-8, at the beginning of a file. Elsewhere it is text.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The text that bytes of a file are; `place` says where they stand.
///
/// # Errors
/// `Invalid` (22021) where they are no UTF-8, or have a NUL.
fn text_of(bytes: &[u8], place: impl FnOnce() -> String) -> Result<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        Ok(_) => Err(nul_byte().within(place())),
        Err(_) => {
            let fact = format!("{} is not UTF-8", place());
            Err(Error::invalid(fact).with_sqlstate("22021"))
        }
    }
}

/// The formats of files, and of what clients send and are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Csv,
    Text,
    Binary,
    Json,
    Parquet,
    Arrow,
}

impl Format {
    /// As the options say, or the file's ending; else as `plain` says, which is csv or text.
    fn of(file: &CopyFile, plain: &str) -> Result<Format> {
        let named = match &file.format {
            Some(format) => format.clone(),
            None => ending(file).unwrap_or_else(|| plain.to_owned()),
        };
        let format = match named.as_str() {
            "csv" | "tsv" => Format::Csv,
            "txt" if file.format.is_none() => Format::Csv,
            "text" => Format::Text,
            "binary" => Format::Binary,
            "json" | "jsonl" | "ndjson" => Format::Json,
            "parquet" => Format::Parquet,
            "arrow" | "arrows" | "feather" | "ipc" => Format::Arrow,
            other => {
                return Err(
                    Error::invalid(format!("COPY does not know the format {other:?}"))
                        .with_hint("write WITH (FORMAT csv), text, json, parquet or arrow")
                        .with_sqlstate("22023"),
                );
            }
        };
        check_options(file, format)?;
        Ok(format)
    }
}

/// Whether a format has what the options ask for.
fn check_options(file: &CopyFile, format: Format) -> Result<()> {
    let forced = [
        ("FORCE_QUOTE", &file.force_quote),
        ("FORCE_NULL", &file.force_null),
        ("FORCE_NOT_NULL", &file.force_not_null),
    ];
    let mut forced = forced
        .into_iter()
        .filter(|(_, columns)| !columns.is_empty());
    let is_lines = matches!(format, Format::Csv | Format::Text);
    let (option, formats) = match forced.next() {
        Some((option, _)) if format != Format::Csv => (option, "csv"),
        _ if file.header == Header::Matched && !is_lines => ("HEADER MATCH", "csv and text"),
        _ => return Ok(()),
    };
    Err(
        Error::invalid(format!("COPY's {option} is for the format {formats} only"))
            .with_sqlstate("0A000"),
    )
}

/// The ending of the file's name, in lower case.
fn ending(file: &CopyFile) -> Option<String> {
    match &file.place {
        CopyPlace::Input | CopyPlace::Output => None,
        CopyPlace::File(path) => {
            let ending = Path::new(path).extension()?.to_str()?;
            Some(ending.to_lowercase())
        }
    }
}

fn io(path: &str) -> impl Fn(std::io::Error) -> Error + '_ {
    move |error| Error::unavailable(format!("{path}: {error}")).with_sqlstate("58030")
}

/// Reads on to the end of the bytes. The rows may have ended before; but they count only once
/// whoever sends them has said so, and until then reading can fail.
fn drain(input: &mut impl BufRead) -> Result<()> {
    loop {
        match input.fill_buf().map_err(io("COPY"))?.len() {
            0 => return Ok(()),
            length => input.consume(length),
        }
    }
}

/// COPY TO.
pub(crate) async fn copy_to(
    session: &Arc<Shared>,
    source: CopySource,
    file: &CopyFile,
    clauses: &Clauses,
    sql: &str,
) -> Result<AnswerStream> {
    let CopyPlace::File(path) = &file.place else {
        return Err(Error::invalid("COPY TO STDOUT has nobody to send to here")
            .with_hint(
                "name a file, run the query with lazybase sql --format csv, or connect to \
                 lazybase serve",
            )
            .with_sqlstate("0A000"));
    };
    let query = query_of(source)?;
    let opened = read::open(session, Statement::Query(query), clauses, sql).await?;
    let schema = opened.rows.schema();
    let form = file_form(file, &schema)?;
    let mut writer = RowsFile::create(path, form, &schema)?;
    let mut batches = ours(opened.rows, sql);
    let mut rows = 0_u64;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        writer.write(&batch)?;
    }
    writer.finish()?;
    let stamp = opened.snapshot.map(|snapshot| snapshot.stamp());
    if let Some(stamp) = &stamp {
        session.note_stamp(stamp.clone());
    }
    Ok(AnswerStream::done(format!("COPY {rows}"), rows).with_stamp(stamp))
}

/// How the file of a COPY TO with these columns is written.
fn file_form(file: &CopyFile, schema: &Schema) -> Result<FileForm> {
    let format = Format::of(file, "csv")?;
    Ok(match format {
        Format::Csv => FileForm::Csv {
            header: file.header != Header::None,
            spelling: CsvSpelling {
                delimiter: delimiter(file, format)?.into(),
                quote: ascii(file.quote, "quote values")?.into(),
                escape: ascii(file.escape, "escape quotes")?.into(),
                null: null_of(file, format),
                quoted: file.force_quote.of_answer(schema)?,
            },
        },
        Format::Json => FileForm::Json,
        Format::Parquet => FileForm::Parquet,
        Format::Arrow => FileForm::Arrow,
        Format::Text | Format::Binary => {
            return Err(
                Error::invalid("files are not written in PostgreSQL's own formats")
                    .with_hint("write WITH (FORMAT csv), json, parquet or arrow")
                    .with_sqlstate("0A000"),
            );
        }
    })
}

/// The query whose rows a COPY TO gives.
fn query_of(source: CopySource) -> Result<Box<datafusion::sql::sqlparser::ast::Query>> {
    match source {
        CopySource::Query(query) => Ok(query),
        CopySource::Table { name, columns } => whole_table(&name, &columns),
    }
}

/// All rows of a table whose name has these parts.
fn whole_table(
    name: &[String],
    columns: &[String],
) -> Result<Box<datafusion::sql::sqlparser::ast::Query>> {
    let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
    let columns = match columns.is_empty() {
        true => "*".to_owned(),
        false => columns.iter().map(quoted).collect::<Vec<_>>().join(", "),
    };
    let table = name.iter().map(quoted).collect::<Vec<_>>().join(".");
    match parse_template(&format!("SELECT {columns} FROM {table}"))?.statement {
        Ours::Query(query) => Ok(query),
        _ => Err(Error::internal("SELECT is a query")),
    }
}

/// What stands between values: as given, or by the format or the file's ending.
fn delimiter(file: &CopyFile, format: Format) -> Result<u8> {
    match (file.delimiter, ending(file).as_deref()) {
        // In text, a backslash gives these a meaning of their own.
        (Some(delimiter @ ('a'..='z' | '0'..='9' | '.' | '\\')), _) if format == Format::Text => {
            Err(
                Error::invalid(format!("{delimiter:?} can't separate values of text"))
                    .with_hint("letters, digits, the point and the backslash mean something there")
                    .with_sqlstate("22023"),
            )
        }
        (Some(delimiter), _) => ascii(delimiter, "separate values"),
        (None, Some("tsv")) => Ok(b'\t'),
        (None, _) if format == Format::Text => Ok(b'\t'),
        (None, _) => Ok(b','),
    }
}

/// How NULL is written: as given, or by the format.
fn null_of(file: &CopyFile, format: Format) -> String {
    match (&file.null, format) {
        (Some(null), _) => null.clone(),
        (None, Format::Text) => "\\N".to_owned(),
        (None, _) => String::new(),
    }
}

fn ascii(given: char, what: &str) -> Result<u8> {
    match u8::try_from(given) {
        Ok(byte) if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(byte),
        _ => Err(Error::invalid(format!("{given:?} can't {what}"))
            .with_hint("use one ASCII character")
            .with_sqlstate("22023")),
    }
}

/// COPY FROM.
pub(crate) async fn copy_from(
    session: &Arc<Shared>,
    table: &str,
    columns: &[String],
    file: &CopyFile,
    condition: Option<&Expr>,
    input: Option<Input>,
) -> Result<AnswerStream> {
    let table = session.table(table)?;
    let (format, name) = match &file.place {
        CopyPlace::File(path) => (Format::of(file, "csv")?, path.as_str()),
        CopyPlace::Input | CopyPlace::Output => {
            let plain = session.state.lock().settings.copy_format;
            (Format::of(file, plain)?, "standard input")
        }
    };
    let (given, mut batches) =
        input::rows(&table, columns, file, format, input, &session.visible())?;
    let mut sink = Sink::of(session);
    sink.permit(Privilege::Insert, &table, &given)?;
    if let Some(condition) = condition {
        let mut condition = Condition::of(session, &table, &given, condition)?;
        let kept = batches.map(move |batch| condition.kept(&batch?));
        let has_rows = |batch: &Result<RecordBatch>| {
            let is_empty = batch.as_ref().is_ok_and(|batch| batch.num_rows() == 0);
            ready(!is_empty)
        };
        batches = kept.filter(has_rows).boxed();
    }
    let rows = write_rows(
        session,
        &table,
        &given,
        Rows::given(batches),
        &Conflict::Replace,
        &mut sink,
    )
    .await
    .map_err(|error| error.within(name))?;
    let token = sink.finish(session).await?;
    Ok(AnswerStream::done(format!("COPY {rows}"), rows).with_token(token))
}
