//! Errors and notices as the protocol spells them.

use lazybase_model::Error;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The statement failed.
    Error,
    /// The connection ends.
    Fatal,
}

/// What a prepared statement gives is no longer what the client was told.
const CHANGED: &str = "cached plan must not change result type";

/// The refusal to give rows of other columns than the client was told.
pub(crate) fn changed() -> Error {
    Error::invalid(CHANGED)
        .with_detail("a table of the statement was altered since it was prepared")
        .with_hint("prepare it again")
        .with_sqlstate("0A000")
}

/// An error with fact, detail, hint and, where the parser tells it, the place in `sql`, which
/// begins `before` characters into what the client sent.
pub(crate) fn error(error: &Error, severity: Severity, sql: &str, before: usize) -> ErrorResponse {
    let word = match severity {
        Severity::Error => "ERROR",
        Severity::Fatal => "FATAL",
    };
    let mut fields = vec![
        (b'S', word.to_owned()),
        (b'V', word.to_owned()),
        (b'C', error.sqlstate().to_owned()),
        (b'M', plain(error.message())),
    ];
    fields.extend(error.detail().map(|detail| (b'D', plain(detail))));
    fields.extend(error.hint().map(|hint| (b'H', plain(hint))));
    if error.message() == CHANGED {
        // By this routine of PostgreSQL's, drivers know that they must prepare again.
        fields.push((b'R', "RevalidateCachedQuery".to_owned()));
    }
    let place = place(error.message(), sql).or_else(|| place_of_name(error, sql));
    if let Some(place) = place {
        fields.push((b'P', (before + place).to_string()));
    }
    ErrorResponse::new(fields)
}

/// A notice.
pub(crate) fn notice(word: &str, sqlstate: &str, message: &str) -> NoticeResponse {
    NoticeResponse::new(vec![
        (b'S', word.to_owned()),
        (b'V', word.to_owned()),
        (b'C', sqlstate.to_owned()),
        (b'M', plain(message)),
    ])
}

/// Texts of the protocol end at a zero.
fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The character, counted from 1, that a parser's message names by line and column.
fn place(message: &str, sql: &str) -> Option<usize> {
    let (_, rest) = message.rsplit_once("Line: ")?;
    let (line, rest) = rest.split_once(", Column: ")?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (line, column): (usize, usize) = (line.parse().ok()?, rest[..digits].parse().ok()?);
    if line > sql.split('\n').count() {
        return None;
    }
    let before = sql.split_inclusive('\n').take(line.checked_sub(1)?);
    let before: usize = before.map(|line| line.chars().count()).sum();
    (column > 0 && before + column <= sql.chars().count() + 1).then_some(before + column)
}

/// The character, counted from 1, where the name stands that an error says means nothing.
fn place_of_name(error: &Error, sql: &str) -> Option<usize> {
    if !matches!(error.sqlstate(), "42703" | "42P01" | "42883") {
        return None;
    }
    let name = error.message().split('"').nth(1)?;
    let name = name.rsplit('.').next()?.to_lowercase();
    let (mut quoted, mut word, mut begins) = (false, String::new(), 0);
    for (at, c) in sql.chars().chain([' ']).enumerate() {
        if !quoted && (c.is_alphanumeric() || c == '_') {
            if word.is_empty() {
                begins = at;
            }
            word.extend(c.to_lowercase());
            continue;
        }
        if !name.is_empty() && word == name {
            return Some(begins + 1);
        }
        word.clear();
        quoted ^= c == '\'';
    }
    None
}

#[cfg(test)]
mod tests;
