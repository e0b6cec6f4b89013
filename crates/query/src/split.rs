//! Cuts a script into statements.
//!
//! Reads text; writes nothing. Invariant SPL-1: a semicolon inside a quoted string, a quoted
//! name, a dollar-quoted string or a comment never ends a statement.

use lazybase_model::{Error, Result, TextPlace};

use crate::text_places::locate;

#[cfg(test)]
mod tests;

/// A statement of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The statement with the comments before it, without its semicolon.
    pub text: String,
    /// The line of the script on which the text begins.
    pub text_line: usize,
    /// The character of that line, counted from 1.
    pub text_column: usize,
    /// The line of the script on which its first word stands.
    pub line: usize,
}

impl Placed {
    /// Where the statement's text begins in a script whose first line is the line 1.
    pub fn start(&self) -> TextPlace {
        TextPlace {
            line: self.text_line as u64,
            column: self.text_column as u64,
        }
    }

    /// An error of the statement, with its place in that script.
    pub(crate) fn locate(&self, error: Error) -> Error {
        locate(error, &self.text, self.start())
    }
}

/// The statements of a script, without their semicolons; empty ones are left out.
///
/// # Errors
/// `Invalid` (42601) when a quote or a comment is never closed.
pub fn split_statements(sql: &str) -> Result<Vec<String>> {
    let placed = split_script(sql, 1)?.into_iter();
    Ok(placed.map(|statement| statement.text).collect())
}

/// The statements of the part of a script that begins on its line `first_line`.
///
/// # Errors
/// As [`split_statements`].
pub fn split_script(sql: &str, first_line: usize) -> Result<Vec<Placed>> {
    let mut statements = Vec::new();
    let mut lines = Lines {
        sql,
        counted: 0,
        line: first_line,
        column: 1,
    };
    let mut start = 0;
    let mut at = 0;
    // Where the first word of the statement stands.
    let mut word = None;
    while at < sql.len() {
        match next_piece(sql, at) {
            Piece::Separator => {
                if let Some(word) = word.take() {
                    statements.push(lines.placed(start, word, at));
                }
                at += 1;
                start = at;
            }
            Piece::Blank(end) => at = end,
            Piece::Text(end) => {
                word.get_or_insert(at);
                at = end;
            }
            Piece::Open(what) => {
                return Err(Error::invalid(format!("unterminated {what}"))
                    .with_detail(format!("it begins at line {}", lines.up_to(at)))
                    .with_place(TextPlace::START.after(&sql[..at]))
                    .with_sqlstate("42601"));
            }
        }
    }
    if let Some(word) = word {
        statements.push(lines.placed(start, word, sql.len()));
    }
    Ok(statements)
}

/// The statement that a text is.
///
/// # Errors
/// `Invalid` (42601) for none, and for several.
pub(crate) fn one_statement(sql: &str) -> Result<Placed> {
    let mut statements = split_script(sql, 1)?;
    match (statements.pop(), statements.len()) {
        (Some(statement), 0) => Ok(statement),
        (last, others) => Err(Error::invalid(format!(
            "{} statements, not one",
            others + usize::from(last.is_some())
        ))
        .with_sqlstate("42601")),
    }
}

/// Counts the lines of a script and their characters, once each.
struct Lines<'s> {
    sql: &'s str,
    /// The bytes that were looked at.
    counted: usize,
    /// The line on which they end.
    line: usize,
    /// The character of that line which stands behind them, counted from 1.
    column: usize,
}

impl Lines<'_> {
    /// The line on which byte `at` stands, at or behind those that were asked for before.
    fn up_to(&mut self, at: usize) -> usize {
        let more = &self.sql[self.counted..at];
        let of_line = match more.rsplit_once('\n') {
            Some((_, of_line)) => {
                self.line += more.matches('\n').count();
                self.column = 1;
                of_line
            }
            None => more,
        };
        self.column += of_line.chars().count();
        self.counted = at;
        self.line
    }

    /// The statement in these bytes.
    fn placed(&mut self, start: usize, word: usize, end: usize) -> Placed {
        let text = self.sql[start..end].trim_start();
        Placed {
            text_line: self.up_to(end - text.len()),
            text_column: self.column,
            text: text.trim_end().to_owned(),
            line: self.up_to(word),
        }
    }
}

/// Whether `sql` ends with a whole statement and its semicolon, so that a shell may run it;
/// nothing but blanks and comments counts as complete too.
pub fn is_complete(sql: &str) -> bool {
    let mut at = 0;
    let mut blank = true;
    while at < sql.len() {
        match next_piece(sql, at) {
            Piece::Separator => {
                at += 1;
                blank = true;
            }
            Piece::Blank(end) => at = end,
            Piece::Text(end) => {
                blank = false;
                at = end;
            }
            Piece::Open(_) => return false,
        }
    }
    blank
}

/// Whether a statement that begins with WITH goes on, behind the queries that it names, with one
/// that writes.
pub fn with_writes(sql: &str) -> bool {
    const READS: [&str; 3] = ["SELECT", "VALUES", "TABLE"];
    const WRITES: [&str; 4] = ["INSERT", "UPDATE", "DELETE", "MERGE"];
    let (mut at, mut depth, mut word) = (0, 0_usize, String::new());
    while at < sql.len() {
        let (end, part) = match next_piece(sql, at) {
            Piece::Text(end) => (end, &sql[at..end]),
            Piece::Blank(end) => (end, " "),
            Piece::Separator => (at + 1, " "),
            Piece::Open(_) => return false,
        };
        at = end;
        if part.chars().all(|c| c.is_alphanumeric() || c == '_') {
            word.push_str(&part.to_ascii_uppercase());
            continue;
        }
        // What stands in brackets is one of the queries that are named.
        if depth == 0 && WRITES.contains(&word.as_str()) {
            return true;
        }
        if depth == 0 && READS.contains(&word.as_str()) {
            return false;
        }
        word.clear();
        match part {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// What stands at one place of a script.
enum Piece {
    /// A semicolon.
    Separator,
    /// Blanks or a comment, up to here.
    Blank(usize),
    /// Part of a statement, up to here.
    Text(usize),
    /// Something that is never closed.
    Open(&'static str),
}

fn next_piece(sql: &str, at: usize) -> Piece {
    let rest = &sql[at..];
    let first = rest.chars().next().expect("the caller is inside the text");
    match first {
        ';' => Piece::Separator,
        c if c.is_whitespace() => Piece::Blank(at + c.len_utf8()),
        '-' if rest.starts_with("--") => {
            Piece::Blank(rest.find('\n').map_or(sql.len(), |end| at + end + 1))
        }
        '/' if rest.starts_with("/*") => {
            block_comment(rest).map_or(Piece::Open("comment"), |length| Piece::Blank(at + length))
        }
        '\'' => {
            let escapes = ends_with_escape_prefix(&sql[..at]);
            quoted(rest, '\'', escapes).map_or(Piece::Open("quoted string"), |length| {
                Piece::Text(at + length)
            })
        }
        '"' => quoted(rest, '"', false).map_or(Piece::Open("quoted name"), |length| {
            Piece::Text(at + length)
        }),
        '$' if !ends_with_word(&sql[..at]) => match dollar_quoted(rest) {
            Dollar::None => Piece::Text(at + 1),
            Dollar::Open => Piece::Open("dollar-quoted string"),
            Dollar::Closed(length) => Piece::Text(at + length),
        },
        c => Piece::Text(at + c.len_utf8()),
    }
}

/// The length of a comment that begins the text; comments nest.
fn block_comment(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (2, 1);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            b"/*" => {
                depth += 1;
                at += 2;
            }
            _ => at += 1,
        }
    }
    None
}

/// The length of a quoted text; a doubled quote stands for itself.
fn quoted(text: &str, quote: char, backslash_escapes: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = quote as u8;
    let mut at = 1;
    while at < bytes.len() {
        if backslash_escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] != quote {
            at += 1;
        } else if bytes.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return Some(at + 1);
        }
    }
    None
}

/// Whether the text before a quote is the `E` of an escaped string.
fn ends_with_escape_prefix(before: &str) -> bool {
    let Some(rest) = before.strip_suffix(['e', 'E']) else {
        return false;
    };
    !ends_with_word(rest)
}

fn ends_with_word(before: &str) -> bool {
    before
        .chars()
        .next_back()
        .is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$')
}

enum Dollar {
    /// Not a quote at all, such as the parameter `$1`.
    None,
    Open,
    Closed(usize),
}

fn dollar_quoted(text: &str) -> Dollar {
    let tag_end = text[1..].find('$').map(|end| end + 2);
    let Some(tag) = tag_end.map(|end| &text[..end]) else {
        return Dollar::None;
    };
    let name = &tag[1..tag.len() - 1];
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    if !is_name {
        return Dollar::None;
    }
    match text[tag.len()..].find(tag) {
        Some(end) => Dollar::Closed(tag.len() + end + tag.len()),
        None => Dollar::Open,
    }
}
