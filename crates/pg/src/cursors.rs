//! Cursors of SQL: `DECLARE c CURSOR FOR query`, `FETCH 100 FROM c`, `MOVE`, `CLOSE c`.
//!
//! ```text
//!   DECLARE   runs the query up to its first rows   -> Cursor, under its name
//!   FETCH     takes as many rows as it says; they are made as the query goes on
//!   COMMIT    ends those that are not WITH HOLD; these go on with the snapshot that they have
//!   ROLLBACK  ends all that were declared since BEGIN: they may have rows that never were;
//!             ROLLBACK TO those that were declared since its savepoint, and portals too
//! ```
//!
//! Invariant CUR-1: they only go forward, so that nothing that was sent is kept.

use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::StreamExt;
use lazybase_model::{Error, Result};
use lazybase_query::{AnswerStream, CursorFacts, ListedCursor};

use crate::cells::Rows;
use crate::connection::{Connection, Outcome};
use crate::types;
use crate::words::{self, Kind};

#[cfg(test)]
mod tests;

/// The most that a connection keeps.
const KEPT_MAX: usize = 1_000;

/// What a statement about cursors asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CursorStatement {
    Declare {
        name: String,
        held: bool,
        binary: bool,
        /// The query, behind as many blanks as there are characters before it, so that errors
        /// name its places as they are in the whole text.
        query: String,
    },
    /// FETCH, or MOVE, which sends no rows; all that are left where there is no count.
    Fetch {
        name: String,
        count: Option<usize>,
        sends: bool,
    },
    /// All of them where there is no name.
    Close { name: Option<String> },
}

/// A query whose rows are taken in pieces.
pub(crate) struct Cursor {
    answer: AnswerStream,
    /// Rows that were not asked for yet, and how many of them were.
    batch: Option<(RecordBatch, usize)>,
    held: bool,
    /// Whether it is held, and no transaction can take its rows back any more.
    stays: bool,
    binary: bool,
    /// The last savepoint when it was declared.
    savepoint: u64,
    _listed: ListedCursor,
}

/// The next word of a text, in upper case unless it is quoted, and what follows it.
fn word(text: &str) -> (String, &str) {
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix('"') {
        let (mut name, mut chars) = (String::new(), rest.char_indices().peekable());
        while let Some((at, c)) = chars.next() {
            match c {
                '"' if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                    chars.next();
                    name.push('"');
                }
                '"' => return (name, &rest[at + 1..]),
                other => name.push(other),
            }
        }
        return (name, "");
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let end = match text.find(|c| !is_name(c)) {
        Some(0) => text.chars().next().map_or(0, char::len_utf8),
        Some(end) => end,
        None => text.len(),
    };
    (text[..end].to_uppercase(), &text[end..])
}

/// A name as SQL folds it, and what follows it.
fn name(text: &str) -> (String, &str) {
    let (name, rest) = word(text);
    match text.trim_start().starts_with('"') {
        true => (name, rest),
        false => (name.to_lowercase(), rest),
    }
}

fn usage(form: &str) -> Error {
    Error::invalid("syntax error")
        .with_hint(format!("write {form}"))
        .with_sqlstate("42601")
}

fn scrollable() -> Error {
    Error::invalid("SCROLL is not supported: cursors only go forward")
        .with_hint("leave it out, and keep the rows that are needed again")
        .with_sqlstate("0A000")
}

/// What PostgreSQL says of a cursor with NO SCROLL.
fn only_forward() -> Error {
    Error::invalid("cursor can only scan forward")
        .with_hint("FETCH [FORWARD] [count | ALL] FROM cursor")
        .with_sqlstate("55000")
}

/// Reads a statement about cursors.
///
/// # Errors
/// `Invalid`: 42601 for what is none, 0A000 for SCROLL, 55000 for ways of moving but forward.
pub(crate) fn read(sql: &str) -> Result<CursorStatement> {
    let sql = sql.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    let (first, rest) = word(sql);
    match first.as_str() {
        "DECLARE" => declare(sql, rest),
        "FETCH" | "MOVE" => fetch(rest, first == "FETCH"),
        _ => match (word(rest).0.as_str(), name(rest)) {
            ("ALL", (_, "")) => Ok(CursorStatement::Close { name: None }),
            (_, (name, "")) if !name.is_empty() => Ok(CursorStatement::Close { name: Some(name) }),
            _ => Err(usage("CLOSE cursor | ALL")),
        },
    }
}

fn declare(sql: &str, rest: &str) -> Result<CursorStatement> {
    let wrong = || usage("DECLARE cursor [BINARY] CURSOR [WITH HOLD] FOR query");
    let (name, mut rest) = name(rest);
    let (mut held, mut binary, mut without) = (false, false, false);
    loop {
        let (next, after) = word(rest);
        rest = after;
        match next.as_str() {
            "FOR" => break,
            "BINARY" => binary = true,
            "SCROLL" if !without => return Err(scrollable()),
            "NO" | "WITHOUT" => {
                without = true;
                continue;
            }
            "HOLD" => held = !without,
            "SCROLL" | "CURSOR" | "WITH" | "INSENSITIVE" | "ASENSITIVE" => {}
            _ => return Err(wrong()),
        }
        without = false;
    }
    // Another statement would have been done before it is known that it is no cursor's.
    match name.is_empty() || words::kind(rest) != Kind::Read {
        true => Err(wrong()),
        false => Ok(CursorStatement::Declare {
            name,
            held,
            binary,
            query: behind_blanks(sql, sql.len() - rest.len()),
        }),
    }
}

/// A text with blanks in the place of what stands before a byte of it.
fn behind_blanks(text: &str, at: usize) -> String {
    let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
    let (before, rest) = text.split_at(at);
    before.chars().map(blank).chain(rest.chars()).collect()
}

fn fetch(rest: &str, sends: bool) -> Result<CursorStatement> {
    let (mut count, mut rest) = (Some(1), rest);
    loop {
        let (next, after) = word(rest);
        match next.as_str() {
            "FORWARD" | "NEXT" => {}
            "ALL" => count = None,
            "FROM" | "IN" => {
                rest = after;
                break;
            }
            "-" | "PRIOR" | "FIRST" | "LAST" | "ABSOLUTE" | "RELATIVE" | "BACKWARD" => {
                return Err(only_forward());
            }
            number => match number.parse() {
                // It means the row of before once more.
                Ok(0) => return Err(only_forward()),
                Ok(number) => count = Some(number),
                Err(_) => break,
            },
        }
        rest = after;
    }
    match name(rest) {
        (name, after) if !name.is_empty() && after.trim().is_empty() => {
            Ok(CursorStatement::Fetch { name, count, sends })
        }
        _ => Err(usage("FETCH [FORWARD] [count | ALL] FROM cursor")),
    }
}

/// Whether what ended a transaction has committed it: COMMIT of one that failed has not.
pub(crate) fn is_commit(ended: &AnswerStream) -> bool {
    ended.tag() == "COMMIT"
}

fn unknown(name: &str) -> Error {
    Error::not_found(format!("there is no cursor {name:?}")).with_sqlstate("34000")
}

impl Connection {
    /// Keeps a query that has begun under its cursor's name; `sql` declares it. Gives the tag.
    ///
    /// # Errors
    /// `Invalid`: 25P01 outside of a transaction, 42P03 for a name that is taken.
    pub(crate) fn declare(
        &mut self,
        sql: &str,
        statement: &CursorStatement,
        answer: AnswerStream,
    ) -> Result<String> {
        let CursorStatement::Declare {
            name, held, binary, ..
        } = statement
        else {
            return Err(Error::internal("the statement was seen to be DECLARE"));
        };
        let (held, binary) = (*held, *binary);
        if !held && !self.session.in_transaction() {
            return Err(
                Error::invalid("DECLARE CURSOR can only be used in a transaction")
                    .with_hint("BEGIN first, or write WITH HOLD")
                    .with_sqlstate("25P01"),
            );
        }
        if !answer.returns_rows() {
            return Err(usage("DECLARE cursor CURSOR FOR SELECT ..."));
        }
        if self.cursors.contains_key(name) {
            let error = Error::conflict(format!("there is a cursor {name:?} already"));
            return Err(error.with_sqlstate("42P03"));
        }
        if self.cursors.len() >= KEPT_MAX {
            return Err(Error::unavailable("too many cursors").with_sqlstate("53400"));
        }
        let facts = CursorFacts {
            statement: sql.to_owned(),
            held,
            binary,
        };
        let cursor = Cursor {
            answer,
            batch: None,
            held,
            stays: held && !self.session.in_transaction(),
            binary,
            savepoint: self.session.last_savepoint(),
            _listed: self.session.list_cursor(name, facts),
        };
        self.cursors.insert(name.clone(), cursor);
        Ok("DECLARE CURSOR".to_owned())
    }

    /// Ends the cursors that end with their transaction, which was committed or was not.
    pub(crate) fn end_cursors(&mut self, committed: bool) {
        self.cursors.retain(|_, cursor| {
            cursor.stays |= cursor.held && committed;
            cursor.stays
        });
    }

    /// Ends what ends with a statement, were it the end of a transaction or ROLLBACK TO; one that
    /// failed has no answer.
    pub(crate) fn end_with(&mut self, kind: Kind, answer: Option<&AnswerStream>) {
        match kind {
            Kind::End => {
                // Another transaction may have begun with it.
                self.portals.clear();
                self.end_cursors(answer.is_some_and(is_commit));
            }
            Kind::Savepoint if answer.is_some_and(|answer| answer.tag() == "ROLLBACK") => {
                // The savepoint that was gone back to, for those after it are forgotten.
                let last = self.session.last_savepoint();
                self.portals.retain(|_, portal| portal.savepoint < last);
                self.cursors
                    .retain(|_, cursor| cursor.stays || cursor.savepoint < last);
            }
            _ => {}
        }
    }

    /// Tells the columns of a cursor.
    ///
    /// # Errors
    /// `NotFound` (34000) when there is none of that name.
    pub(crate) fn describe_cursor(&mut self, name: &str, formats: &[i16]) -> Result<()> {
        let cursor = self.cursors.get(name).ok_or_else(|| unknown(name))?;
        let formats = if cursor.binary { &[1][..] } else { formats };
        let answer = &cursor.answer;
        let description = types::description(&answer.schema(), answer.origins(), formats)?;
        self.wire.put(description);
        Ok(())
    }

    /// Does FETCH, MOVE or CLOSE; gives the tag.
    pub(crate) async fn use_cursor(
        &mut self,
        statement: &CursorStatement,
        formats: &[i16],
    ) -> Outcome<String> {
        if let Err(error) = self.session.check_not_failed() {
            return Ok(Err(error));
        }
        match statement {
            CursorStatement::Fetch { name, count, sends } => {
                let Some(mut cursor) = self.cursors.remove(name) else {
                    return match *sends {
                        true => Ok(Err(unknown(name))),
                        // Drivers skip rows of their portals so.
                        false => self.move_portal(name, *count).await,
                    };
                };
                let formats = if cursor.binary { &[1][..] } else { formats };
                let sent = self.take(&mut cursor, *count, formats, *sends).await?;
                Ok(sent.map(|sent| {
                    self.cursors.insert(name.clone(), cursor);
                    format!("{} {sent}", if *sends { "FETCH" } else { "MOVE" })
                }))
            }
            CursorStatement::Close { name: None } => {
                self.portals.clear();
                self.cursors.clear();
                Ok(Ok("CLOSE CURSOR ALL".to_owned()))
            }
            CursorStatement::Close { name: Some(name) } => {
                let cursor = self.cursors.remove(name).is_some();
                let known = cursor || self.portals.remove(name).is_some();
                Ok(match known {
                    true => Ok("CLOSE CURSOR".to_owned()),
                    false => Err(unknown(name)),
                })
            }
            CursorStatement::Declare { .. } => Ok(Err(Error::internal(
                "DECLARE was seen to be something else",
            ))),
        }
    }

    /// Takes rows off a cursor, and sends them; gives how many there were.
    async fn take(
        &mut self,
        cursor: &mut Cursor,
        count: Option<usize>,
        formats: &[i16],
        sends: bool,
    ) -> Outcome<usize> {
        let schema = cursor.answer.schema();
        let mut taken = 0;
        while count.is_none_or(|count| taken < count) {
            let Some((batch, next)) = cursor.batch.take() else {
                let answer = &mut cursor.answer;
                let next = Box::pin(async { answer.next().await.transpose() });
                match self.watched(Kind::Read, next).await? {
                    Ok(Some(batch)) => cursor.batch = Some((batch, 0)),
                    Ok(None) => {
                        self.note(&cursor.answer);
                        break;
                    }
                    Err(error) => return Ok(Err(error)),
                }
                continue;
            };
            let left = batch.num_rows() - next;
            let now = count.map_or(left, |count| left.min(count - taken));
            if sends {
                let rows = match Rows::new(&batch.slice(next, now), &schema, formats) {
                    Ok(rows) => rows.spelling(self.session.interval_style()),
                    Err(error) => return Ok(Err(error)),
                };
                for row in 0..rows.count {
                    rows.put_row(row, &mut self.wire.out);
                    self.flush_full().await?;
                }
            }
            taken += now;
            if now < left {
                cursor.batch = Some((batch, next + now));
            }
        }
        Ok(Ok(taken))
    }

    /// Does one statement about cursors, of the simple protocol; gives its tag.
    pub(crate) async fn cursor_statement(&mut self, sql: &str) -> Outcome<String> {
        let statement = match read(sql) {
            Ok(statement) => statement,
            Err(error) => return Ok(Err(error)),
        };
        match &statement {
            CursorStatement::Declare { query, .. } => {
                let session = Arc::clone(&self.session);
                let begun = session.query(query);
                let answer = self.watched(Kind::Read, begun).await?;
                Ok(answer.and_then(|answer| self.declare(sql, &statement, answer)))
            }
            CursorStatement::Fetch {
                name, sends: true, ..
            } => {
                let told = self.session.check_not_failed();
                if let Err(error) = told.and_then(|()| self.describe_cursor(name, &[])) {
                    return Ok(Err(error));
                }
                self.use_cursor(&statement, &[]).await
            }
            _ => self.use_cursor(&statement, &[]).await,
        }
    }
}
