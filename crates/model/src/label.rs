//! Labels of rows and cells: who may read them, as an expression over authorisations in the manner
//! of Accumulo.
//!
//! ```text
//!   expression  any | all | one | (empty: everybody)
//!   any         one "|" one "|" ...         one of them is enough
//!   all         one "&" one "&" ...         each of them is needed
//!   one         term | "(" any or all ")"   & beside | only with parentheses
//!   term        letters, digits, _ - . : /  or anything in double quotes, \" and \\ inside
//! ```
//!
//! Pure. Invariant LBL-1: what is read is shown as a text that is read as the same expression.

use std::collections::BTreeSet;
use std::fmt;

use crate::{Error, Result};

#[cfg(test)]
mod tests;

/// The longest label, in bytes: labels stand beside each cell.
pub const LABEL_BYTES_MAX: usize = 4096;
/// How deep parentheses of a label may stand in each other.
pub const LABEL_DEPTH_MAX: usize = 32;

/// What somebody is authorised to see.
pub type Authorizations = BTreeSet<String>;

/// A label, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Label {
    /// Everybody may read what it stands at: the empty label.
    Everybody,
    /// Whoever has this authorisation.
    Term(String),
    /// Whoever may read by each of these.
    All(Vec<Label>),
    /// Whoever may read by one of these.
    Any(Vec<Label>),
}

impl Label {
    /// Reads a label.
    ///
    /// # Errors
    /// `Invalid` (22023), naming the label and the place that is wrong.
    pub fn parse(text: &str) -> Result<Label> {
        if text.len() > LABEL_BYTES_MAX {
            return Err(wrong(format!(
                "a label of {} bytes is longer than {LABEL_BYTES_MAX}",
                text.len()
            )));
        }
        if text.is_empty() {
            return Ok(Label::Everybody);
        }
        let mut reader = Reader {
            text,
            at: 0,
            depth: 0,
        };
        let read = reader.expression();
        let read = read.and_then(|label| match reader.peek() {
            None => Ok(label),
            Some(_) => Err("& or | is expected"),
        });
        read.map_err(|what| {
            let place = text[..reader.at].chars().count() + 1;
            wrong(format!("{text:?} is no label: {what} at character {place}")).with_hint(
                "terms are joined by & or |, and by both only with parentheses: a&(b|c); what is \
                 not made of letters, digits and _-.:/ stands in double quotes",
            )
        })
    }

    /// Whether somebody with these authorisations may read what the label stands at.
    pub fn admits(&self, authorizations: &Authorizations) -> bool {
        match self {
            Label::Everybody => true,
            Label::Term(term) => authorizations.contains(term),
            Label::All(parts) => parts.iter().all(|part| part.admits(authorizations)),
            Label::Any(parts) => parts.iter().any(|part| part.admits(authorizations)),
        }
    }
}

/// Reads a list of authorisations: terms as in labels, between commas.
///
/// # Errors
/// `Invalid` (22023).
pub fn parse_authorizations(text: &str) -> Result<Authorizations> {
    let mut reader = Reader {
        text,
        at: 0,
        depth: 0,
    };
    let mut all = Authorizations::new();
    reader.spaces();
    if reader.peek().is_none() {
        return Ok(all);
    }
    loop {
        let term = reader.term().map_err(|what| {
            wrong(format!("{text:?} is no list of authorizations: {what}"))
                .with_hint("write terms between commas, such as pii, finance")
        })?;
        all.insert(term);
        reader.spaces();
        match reader.peek() {
            None => return Ok(all),
            Some(',') => reader.at += 1,
            Some(_) => {
                return Err(wrong(format!(
                    "{text:?} is no list of authorizations: a comma is expected"
                ))
                .with_hint(
                    "what is not made of letters, digits and _-.:/ stands in double quotes",
                ));
            }
        }
        reader.spaces();
    }
}

/// Authorisations as [`parse_authorizations`] reads them.
pub fn show_authorizations(authorizations: &Authorizations) -> String {
    let terms: Vec<String> = authorizations.iter().map(|term| shown(term)).collect();
    terms.join(",")
}

fn wrong(message: String) -> Error {
    Error::invalid(message).with_sqlstate("22023")
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/')
}

/// A term as a label holds it: in quotes where it must be.
fn shown(term: &str) -> String {
    match !term.is_empty() && term.chars().all(is_plain) {
        true => term.to_owned(),
        false => format!("\"{}\"", term.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, between) = match self {
            Label::Everybody => return Ok(()),
            Label::Term(term) => return f.write_str(&shown(term)),
            Label::All(parts) => (parts, "&"),
            Label::Any(parts) => (parts, "|"),
        };
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                f.write_str(between)?;
            }
            match part {
                Label::All(_) | Label::Any(_) => write!(f, "({part})")?,
                part => write!(f, "{part}")?,
            }
        }
        Ok(())
    }
}

/// What is wrong, where reading stopped.
type Read<T> = std::result::Result<T, &'static str>;

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn spaces(&mut self) {
        while let Some(c) = self.peek().filter(|c| c.is_whitespace()) {
            self.at += c.len_utf8();
        }
    }

    fn expression(&mut self) -> Read<Label> {
        let first = self.one()?;
        let Some(joined @ ('&' | '|')) = self.peek() else {
            return Ok(first);
        };
        let mut parts = vec![first];
        loop {
            match self.peek() {
                Some(c) if c == joined => {
                    self.at += 1;
                    parts.push(self.one()?);
                }
                Some('&' | '|') => return Err("& beside | needs parentheses"),
                _ => break,
            }
        }
        Ok(match joined {
            '&' => Label::All(parts),
            _ => Label::Any(parts),
        })
    }

    fn one(&mut self) -> Read<Label> {
        if self.peek() != Some('(') {
            return self.term().map(Label::Term);
        }
        if self.depth == LABEL_DEPTH_MAX {
            return Err("parentheses stand too deep");
        }
        self.depth += 1;
        self.at += 1;
        let inner = self.expression()?;
        if self.peek() != Some(')') {
            return Err("a closing parenthesis is expected");
        }
        self.at += 1;
        self.depth -= 1;
        Ok(inner)
    }

    fn term(&mut self) -> Read<String> {
        if self.peek() == Some('"') {
            return self.quoted();
        }
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !is_plain(c)).unwrap_or(rest.len());
        if end == 0 {
            return Err("a term is expected");
        }
        self.at += end;
        Ok(rest[..end].to_owned())
    }

    fn quoted(&mut self) -> Read<String> {
        let start = self.at;
        let mut term = String::new();
        let mut rest = self.text[self.at + 1..].char_indices();
        while let Some((at, c)) = rest.next() {
            match c {
                '"' if term.is_empty() => return Err("an empty term"),
                '"' => {
                    self.at = start + 1 + at + 1;
                    return Ok(term);
                }
                '\\' => match rest.next() {
                    Some((_, c @ ('"' | '\\'))) => term.push(c),
                    _ => return Err("only \\\" and \\\\ are escapes, in a term"),
                },
                c => term.push(c),
            }
        }
        Err("an open quotation mark")
    }
}
