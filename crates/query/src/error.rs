//! Errors of the planner and of Arrow as errors of LazyBase, with the SQLSTATE that PostgreSQL's
//! users know and the names that may have been meant.
//!
//! Reads an error and the statement's text; writes nothing. Invariant ERR-1: an error of our own
//! that travelled through DataFusion comes out as it went in.

use std::io::ErrorKind;

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use lazybase_engine::read::HiddenColumn;
use lazybase_model::{Error, TextPlace};

use crate::temporary::own_name;
use crate::text_places::of_span;
use crate::types::not_kept;

mod constant;
mod library;
mod planner;
mod qualifier;
#[cfg(test)]
mod tests;

pub use library::{arrow_fact, parquet_fact};
pub(crate) use planner::more_than_one_row;
use planner::{UNKNOWN_VALUE, from_execution, from_plan, in_sql};

/// What the planner says of a subquery that it has made no join of.
const MISPLACED: &str = "Physical plan does not support logical expression";

/// What is said of a function that waits, where the planner does not wait for it.
const WAITS_IN_VAIN: &str = "async functions should not be called directly";

/// What is said where the temporary files of queries would pass their limit: an error of a file,
/// without a kind.
const SPILT_TOO_MUCH: &str = "The used disk space during the spilling process has exceeded";

/// Our error, so that it can travel through DataFusion and come out again.
pub(crate) fn into_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// What DataFusion said about the statement `sql`.
pub(crate) fn from_datafusion(error: &DataFusionError, sql: &str) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast_ref::<Error>() {
            Some(ours) => ours.clone(),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(nested) => from_datafusion(nested, sql),
                None => from_others(&inner.to_string()),
            },
        },
        DataFusionError::Diagnostic(told, inner) => {
            let error = from_datafusion(inner, sql);
            match told.span {
                Some(span) if error.place().is_none() => error.with_place(of_span(span)),
                _ => error,
            }
        }
        DataFusionError::Context(_, inner) => from_datafusion(inner, sql),
        DataFusionError::Shared(inner) => from_datafusion(inner, sql),
        DataFusionError::Collection(errors) if !errors.is_empty() => {
            from_datafusion(&errors[0], sql)
        }
        DataFusionError::ArrowError(error, _) => from_given(error),
        DataFusionError::SQL(error, _) => from_parser(error, sql),
        DataFusionError::SchemaError(error, _) => from_schema(error, sql),
        DataFusionError::Plan(message) => from_plan(message),
        // The planner takes bounds of another type for a mistake of its own.
        DataFusionError::Internal(message) if message.contains("in BETWEEN expression") => {
            from_plan(message)
        }
        DataFusionError::NotImplemented(message) if message.contains(MISPLACED) => misplaced(),
        DataFusionError::Internal(message) if message.contains(WAITS_IN_VAIN) => waits_in_vain(),
        DataFusionError::NotImplemented(message) if message.contains("Unsupported CAST") => {
            from_plan(message)
        }
        DataFusionError::NotImplemented(message) => slides_in_vain(message)
            .or_else(|| unknown_type(message))
            .unwrap_or_else(|| Error::invalid(in_sql(&first_line(message))).with_sqlstate("0A000")),
        DataFusionError::Configuration(message) => {
            Error::invalid(first_line(message)).with_sqlstate("22023")
        }
        DataFusionError::Execution(message) => from_execution(message),
        DataFusionError::ResourcesExhausted(message) => {
            Error::unavailable("the query needs more memory than there is for queries")
                .with_detail(first_line(refused(message)))
                .with_hint(
                    "ask for less at once, lower datafusion.execution.target_partitions, or raise \
                     query_memory where the database is opened",
                )
                .with_sqlstate("53200")
        }
        DataFusionError::IoError(error) => from_io(&error.to_string(), error),
        other => from_others(&other.to_string()),
    }
}

/// What DataFusion said when it planned the statement `sql`: none of it is about stored values.
pub(crate) fn from_planning(error: &DataFusionError, sql: &str) -> Error {
    constant::located(from_datafusion(error, sql), sql)
}

/// Of a text with a NUL: clients that are given it as a string of C would lose what stands behind.
pub fn nul_byte() -> Error {
    Error::invalid("invalid byte sequence for encoding \"UTF8\": 0x00").with_sqlstate("22021")
}

/// Of a subquery that the planner has made no join of.
pub(crate) fn misplaced() -> Error {
    Error::invalid("a subquery is not supported here")
        .with_detail("it depends on rows around it, or is the value of IN (SELECT ...)")
        .with_hint("say the same by a JOIN, EXISTS (...), or an aggregate in the subquery")
        .with_sqlstate("0A000")
}

/// Whether a column is missed.
pub(crate) fn misses_column(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => {
            matches!(**error, SchemaError::FieldNotFound { .. })
        }
        _ => false,
    }
}

/// Of an aggregate that can't forget what leaves a frame.
fn slides_in_vain(message: &str) -> Option<Error> {
    let (_, call) = message.split_once("`retract_batch` is not implemented: ")?;
    let name = call.split('(').next().unwrap_or(call);
    Some(
        Error::invalid(format!("{name} over a frame that slides is not supported"))
            .with_hint("let the frame begin with UNBOUNDED PRECEDING, or take array_agg over it")
            .with_sqlstate("0A000"),
    )
}

/// Of a cast to a type that there is not.
fn unknown_type(message: &str) -> Option<Error> {
    let name = first_line(message.strip_prefix("Unsupported SQL type ")?);
    let is_name = !name.starts_with('(');
    is_name.then(|| not_kept(&name))
}

/// Of a function that waits for a lock, or for time.
fn waits_in_vain() -> Error {
    Error::invalid("a function that waits can't wait here")
        .with_detail("it waits in the list of a SELECT, and in WHERE")
        .with_hint("SELECT it in a statement of its own; pg_try_advisory_lock never waits")
        .with_sqlstate("0A000")
}

/// What a library said that has no errors of a known kind.
fn from_others(message: &str) -> Error {
    let pattern = planner::not_a_pattern(message);
    pattern.unwrap_or_else(|| Error::internal(first_line(message)))
}

/// What the system said of a file, or what was said of its size.
fn from_io(said: &str, error: &std::io::Error) -> Error {
    if said.starts_with(SPILT_TOO_MUCH) {
        return Error::unavailable("the query needs more temporary files than there may be")
            .with_detail("all queries together would have more of them than query_spill_bytes")
            .with_hint(
                "ask for less at once, or raise query_spill_bytes, or query_memory, where the \
                 database is opened",
            )
            .with_sqlstate("53400");
    }
    let is_full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded].contains(&error.kind());
    let sqlstate = if is_full { "53100" } else { "58030" };
    Error::unavailable(first_line(said)).with_sqlstate(sqlstate)
}

/// What Arrow said of values that a user gave, to a function or in a file.
pub(crate) fn from_given(error: &ArrowError) -> Error {
    match error {
        ArrowError::ComputeError(message)
        | ArrowError::InvalidArgumentError(message)
        | ArrowError::SchemaError(message) => from_execution(message),
        other => from_arrow(other),
    }
}

/// What Arrow said of what we do with it: columns that do not fit each other are our mistake.
pub(crate) fn from_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::ComputeError(_)
        | ArrowError::InvalidArgumentError(_)
        | ArrowError::SchemaError(_) => Error::internal(arrow_fact(error)),
        ArrowError::ExternalError(inner) => match inner.downcast_ref::<Error>() {
            Some(ours) => ours.clone(),
            None => match inner.downcast_ref::<DataFusionError>() {
                Some(nested) => from_datafusion(nested, ""),
                None => Error::internal(arrow_fact(error)),
            },
        },
        ArrowError::DivideByZero => Error::invalid("division by zero").with_sqlstate("22012"),
        ArrowError::ArithmeticOverflow(message) => {
            Error::invalid(first_line(message)).with_sqlstate("22003")
        }
        ArrowError::CastError(message) | ArrowError::ParseError(message) => {
            match from_execution(message) {
                known if known.sqlstate() != UNKNOWN_VALUE => known,
                other => other.with_sqlstate("22P02"),
            }
        }
        ArrowError::NotYetImplemented(message) => {
            Error::invalid(first_line(message)).with_sqlstate("0A000")
        }
        ArrowError::IoError(message, error) => from_io(message, error),
        ArrowError::CsvError(message) | ArrowError::JsonError(message) => {
            Error::invalid(first_line(message)).with_sqlstate("22P04")
        }
        other => Error::invalid(arrow_fact(other)),
    }
}

/// What the parser said about the statement `sql`.
pub(crate) fn from_parser(error: &ParserError, sql: &str) -> Error {
    let message = match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        ParserError::RecursionLimitExceeded => {
            return Error::invalid("the statement is nested too deeply").with_sqlstate("54001");
        }
    };
    let (said, place) = placed(message);
    let mut error = syntax_error(said).with_sqlstate("42601");
    if let Some(place) = place {
        error = error.with_place(place);
    }
    let upper = sql.to_ascii_uppercase();
    let clause = ["FRESHNESS", "ON MISS", "AS OF SCU", "AS OF TIMESTAMP"]
        .into_iter()
        .find(|clause| upper.contains(clause));
    match clause {
        Some(clause) => error.with_hint(format!(
            "{clause} stands at the end of the statement: FRESHNESS 30, FRESHNESS '500 ms', \
             FRESHNESS BEST EFFORT, AFTER 'token', AS OF SCU 7, AS OF TIMESTAMP '2013-01-01', \
             ON MISS DIG | WAIT '2 s' | ERROR | STALE"
        )),
        None => error,
    }
}

/// What the parser said, and the place that it says last: `... at Line: 1, Column: 8`.
fn placed(message: &str) -> (&str, Option<TextPlace>) {
    let parts = message.rsplit_once(" at Line: ").and_then(|(said, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        let (line, column) = (line.parse().ok()?, column.parse().ok()?);
        Some((said, Some(TextPlace { line, column })))
    });
    parts.unwrap_or((message, None))
}

/// What the parser said, in PostgreSQL's words where it missed something.
fn syntax_error(said: &str) -> Error {
    let missed = said.strip_prefix("Expected: ");
    match missed.and_then(|said| said.split_once(", found: ")) {
        Some((wanted, found)) => {
            let where_it_is = match found {
                "EOF" => "at end of input".to_owned(),
                token => format!("at or near \"{token}\""),
            };
            Error::invalid(first_line(&format!("syntax error {where_it_is}")))
                .with_detail(format!("expected: {}", first_line(wanted)))
        }
        None => Error::invalid(format!("syntax error: {}", first_line(said))),
    }
}

fn from_schema(error: &SchemaError, sql: &str) -> Error {
    match error {
        SchemaError::FieldNotFound {
            field,
            valid_fields,
        } => at_column(unknown_column(field, valid_fields, sql), field),
        SchemaError::AmbiguousReference { field } => {
            let error = Error::invalid(format!("column {:?} is ambiguous", field.name))
                .with_hint("write the table's name before it, such as t.column")
                .with_name(&field.name)
                .with_sqlstate("42702");
            at_column(error, field)
        }
        SchemaError::DuplicateQualifiedField { name, .. }
        | SchemaError::DuplicateUnqualifiedField { name } => {
            Error::invalid(format!("column {name:?} is there twice"))
                .with_hint("give one of them another name with AS")
                .with_sqlstate("42701")
        }
    }
}

/// An error with the place of the column that it is about, where the planner has kept it.
fn at_column(error: Error, column: &Column) -> Error {
    match column.spans().first() {
        Some(span) => error.with_place(of_span(span)),
        None => error,
    }
}

fn unknown_column(field: &Column, valid: &[Column], sql: &str) -> Error {
    let name = &field.name;
    let message = match &field.relation {
        Some(table) => {
            let has_table = |column: &Column| {
                let of = column.relation.as_ref();
                of.is_some_and(|of| of.table() == table.table())
            };
            if !valid.iter().any(has_table)
                && let Some(error) = qualifier::unknown(table.table(), sql)
            {
                return error;
            }
            format!("there is no column {name:?} in {:?}", table.table())
        }
        None => format!("there is no column {name:?}"),
    };
    let mut names: Vec<&str> = valid.iter().map(|column| column.name.as_str()).collect();
    names.dedup();
    let error = Error::not_found(message)
        .with_name(name)
        .with_sqlstate("42703");
    if field.relation.is_none() && sql.contains(&format!("\"{name}\"")) {
        let quoted = name.replace('\'', "''");
        return error.with_hint(format!(
            "double quotes are for names; for a text write '{quoted}'"
        ));
    }
    // Where the table is one, it has them.
    if HiddenColumn::is_name(name) {
        return error.with_hint(
            "hidden columns are read from stored tables: name the table of a view, or what a \
             subquery is to give",
        );
    }
    match nearest(name, names.iter().copied()) {
        Some(near) => error.with_hint(format!("perhaps {near:?} is meant")),
        None if names.is_empty() || names.len() > 20 => error,
        None => error.with_hint(format!("the columns are {}", names.join(", "))),
    }
}

/// The error for a table that is not there, with the nearest name there is.
pub(crate) fn unknown_table<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Error {
    let name = own_name(name);
    let error = Error::not_found(format!("there is no table {name:?}"))
        .with_name(name)
        .with_sqlstate("42P01");
    match nearest(name, known) {
        Some(near) => error.with_hint(format!("perhaps {near:?} is meant")),
        None => error.with_hint("SHOW TABLES lists the tables"),
    }
}

/// The error for a table that is not there in a schema of the system's.
pub(crate) fn unknown_system_table<'n>(
    schema: &str,
    name: &str,
    known: impl Iterator<Item = &'n str>,
) -> Error {
    const LISTED_MAX: usize = 20;
    let full = |name: &str| format!("\"{schema}.{name}\"");
    let error = Error::not_found(format!("there is no table {}", full(name)));
    let error = error.with_name(name).with_sqlstate("42P01");
    let known: Vec<&str> = known.collect();
    match nearest(name, known.iter().copied()) {
        Some(near) => error.with_hint(format!("perhaps {} is meant", full(near))),
        None if known.len() <= LISTED_MAX => {
            error.with_hint(format!("tables of {schema} are {}", known.join(", ")))
        }
        None => error.with_hint(format!("pg_class lists the tables of {schema}, as views")),
    }
}

/// What was refused: behind the list of those that hold memory, whose names say nothing to users.
fn refused(message: &str) -> &str {
    let parts = message.split_once("\nError: ");
    parts.map_or(message, |(_, refused)| refused)
}

/// The first line of what others say, which may repeat a value of any length.
fn first_line(message: &str) -> String {
    const SHOWN_BYTES_MAX: usize = 1000;
    let line = message.lines().next().unwrap_or_default();
    match line.len() > SHOWN_BYTES_MAX {
        true => format!("{}...", &line[..line.floor_char_boundary(SHOWN_BYTES_MAX)]),
        false => line.trim_end_matches('.').to_owned(),
    }
}

/// The known name nearest to `name`, if one is near enough to have been meant.
pub fn nearest<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let allowed = 1 + name.chars().count() / 4;
    known
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(edits, _)| *edits <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many letters must be changed, added or removed, whatever their case.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.to_lowercase().chars().collect();
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[other.len()]
}
