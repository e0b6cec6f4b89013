//! COPY between the database and a client: what it will be asked to send, and how rows are to be
//! written for it. The bytes themselves are the business of whoever speaks with the client.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::Statement;
use lazybase_model::access::Privilege;
use lazybase_model::{Error, Result};

use super::condition::Condition;
use super::{ForcedColumns, Format, Header, ascii, delimiter, null_of, query_of};
use crate::answer::AnswerStream;
use crate::dml::insert::columns_given;
use crate::id_keys::lookup;
use crate::parse::{CopyFile, CopyPlace, Statement as Ours, parse};
use crate::read;
use crate::scan::shown_schema;
use crate::session::{Shared, ours};

/// What a `COPY ... FROM STDIN` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyInput {
    /// Lines: CSV, text or JSON.
    Lines,
    /// Bytes that are no text: Parquet or Arrow.
    Bytes,
}

/// What a statement reads from standard input; `None` where it reads nothing from there.
pub fn copy_input(sql: &str) -> Option<CopyInput> {
    // Most statements are no COPY, and are not read twice.
    let word = |text: &str, word: &str| text.to_ascii_uppercase().contains(word);
    if !word(sql, "COPY") || !word(sql, "STDIN") {
        return None;
    }
    match parse(sql).ok()?.statement {
        Ours::CopyFrom { file, .. } if file.place == CopyPlace::Input => {
            match Format::of(&file, "csv").ok()? {
                Format::Csv | Format::Text | Format::Json => Some(CopyInput::Lines),
                Format::Parquet | Format::Arrow | Format::Binary => Some(CopyInput::Bytes),
            }
        }
        _ => None,
    }
}

/// What a COPY needs of the client that asks for it.
#[derive(Debug, Clone)]
pub enum CopyPlan {
    /// Rows of these columns.
    FromClient {
        /// The columns, in the order of the data.
        schema: SchemaRef,
        /// How they are written.
        format: RowFormat,
    },
    /// That it takes rows, written so.
    ToClient(CopyStyle),
    /// Nothing: it is between a table and a file.
    File,
}

/// How a client writes rows, and reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowFormat {
    /// A line a row, with backslashes.
    Text,
    /// A line a row, with quotes.
    Csv,
    /// PostgreSQL's binary format; to [`crate::Session::copy_from`] it is given as Arrow's stream.
    Binary,
    /// Something that is not written row by row: JSON, Parquet, Arrow.
    Other,
}

/// The spelling of rows.
#[derive(Debug, Clone)]
pub struct CopyStyle {
    /// The format.
    pub format: RowFormat,
    /// Whether the first line holds the names of the columns.
    pub header: bool,
    /// What stands between values.
    pub delimiter: u8,
    /// What CSV quotes values with.
    pub quote: u8,
    /// What makes a quote stand for itself inside quotes.
    pub escape: u8,
    /// How NULL is written.
    pub null: String,
    /// The columns whose values stand in quotes in CSV, whatever they are.
    pub force_quote: ForcedColumns,
}

impl From<Format> for RowFormat {
    fn from(format: Format) -> RowFormat {
        match format {
            Format::Text => RowFormat::Text,
            Format::Csv => RowFormat::Csv,
            Format::Binary => RowFormat::Binary,
            Format::Json | Format::Parquet | Format::Arrow => RowFormat::Other,
        }
    }
}

fn style(file: &CopyFile, plain: &str) -> Result<CopyStyle> {
    let format = Format::of(file, plain)?;
    if RowFormat::from(format) == RowFormat::Other {
        return Err(Error::invalid("clients are not sent this format")
            .with_hint("write WITH (FORMAT csv), text or binary; or name a file")
            .with_sqlstate("0A000"));
    }
    Ok(CopyStyle {
        format: format.into(),
        header: file.header != Header::None,
        delimiter: delimiter(file, format)?,
        quote: ascii(file.quote, "quote values")?,
        escape: ascii(file.escape, "escape quotes")?,
        null: null_of(file, format),
        force_quote: file.force_quote.clone(),
    })
}

/// What a COPY needs of the client.
pub(crate) fn plan(session: &Shared, sql: &str) -> Result<CopyPlan> {
    let plain = session.state.lock().settings.copy_format;
    match session.read(sql)?.finish()?.statement {
        Ours::CopyFrom {
            table,
            columns,
            file,
            condition,
        } if file.place == CopyPlace::Input => {
            let table = session.table(&table)?;
            let given = columns_given(&table, &columns)?;
            let format = Format::of(&file, plain)?;
            // What is wrong with the spelling is said before the client sends anything.
            delimiter(&file, format)?;
            ascii(file.quote, "quote values")?;
            ascii(file.escape, "escape quotes")?;
            file.force_null.of_table("FORCE_NULL", &table, &given)?;
            file.force_not_null
                .of_table("FORCE_NOT_NULL", &table, &given)?;
            session
                .gate_now()
                .write(Privilege::Insert, &table, &given)?;
            if let Some(condition) = condition {
                Condition::of(session, &table, &given, &condition)?;
            }
            Ok(CopyPlan::FromClient {
                schema: shown_schema(&table, &given),
                format: format.into(),
            })
        }
        Ours::CopyTo { file, .. } if file.place == CopyPlace::Output => {
            style(&file, plain).map(CopyPlan::ToClient)
        }
        _ => Ok(CopyPlan::File),
    }
}

/// The rows of a `COPY ... TO STDOUT`.
pub(crate) async fn copy_to_client(session: &Arc<Shared>, sql: &str) -> Result<AnswerStream> {
    session.statement_begins()?;
    let mut parsed = session.read(sql)?.finish()?;
    session.check_may_read()?;
    Box::pin(lookup::resolve(
        session,
        &mut parsed.statement,
        &parsed.clauses,
    ))
    .await?;
    let Ours::CopyTo { source, .. } = parsed.statement else {
        return Err(Error::invalid("this is no COPY TO STDOUT").with_sqlstate("42601"));
    };
    let query = Statement::Query(query_of(source)?);
    let opened = read::open(session, query, &parsed.clauses, sql).await?;
    let schema = opened.rows.schema();
    let rows = ours(opened.rows, sql);
    Ok(AnswerStream::rows(
        schema,
        rows,
        opened.snapshot,
        Arc::clone(session),
    ))
}
