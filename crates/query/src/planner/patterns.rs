//! Regular expressions as PostgreSQL reads them, written as the crate `regex` reads them.
//!
//! | PostgreSQL          | here                                              |
//! | ------------------- | ------------------------------------------------- |
//! | `.`, `[^a]`         | any character, a newline too; not with the flag n |
//! | `^`, `$`            | the ends of the text; those of lines with n       |
//! | `\m`, `\M`, `\y`    | `\b{start}`, `\b{end}`, `\b`                       |
//! | `[[:alpha:]]`       | `\p{Alphabetic}`                                  |
//! | `(?=...)`, `\1`     | refused                                           |
//!
//! ```text
//!   x ~ p, x !~* p    ->  x ~ "~"(p), x !~* "~"(p)     before they are planned
//! ```
//!
//! Pure. Invariant PTN-1: a pattern that can't be written with its meaning is refused.

mod brackets;
mod functions;

use std::cell::RefCell;
use std::ops::ControlFlow;

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, VisitMut};
use lazybase_model::{Error, Result as Checked};
use regex::{Regex, RegexBuilder};

use crate::pg_catalog::rewrite::call;
use crate::planner::row_functions::OfRows;
use crate::walk::visit_expressions_mut;

/// The function that writes the right side of an operator; errors name it.
const PATTERN_OF: &str = "~";
/// The function that `substring(text FROM pattern)` becomes.
const SUBSTRING: &str = "substring_of_pattern";
/// The function that gives as a list what `regexp_matches` gives as rows.
pub(crate) const ALL_MATCHES: &str = "regexp_all_matches";
/// Expressions that each thread keeps.
const KEPT_MAX: usize = 16;

/// Puts the functions in the place of the planner's.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for function in functions::ALL {
        state.register_udf(ScalarUDF::from(OfRows::new(function)).into())?;
    }
    Ok(())
}

/// Rewrites the operators of patterns, and `substring` of one.
pub(super) fn rewrite(tree: &mut impl VisitMut) {
    let done = visit_expressions_mut(tree, |expr| {
        match expr {
            Expr::BinaryOp { op, right, .. } if is_match(op) && !is_rewritten(right) => {
                let pattern = std::mem::replace(&mut **right, Expr::Value(Value::Null.into()));
                **right = call(PATTERN_OF, vec![pattern]);
            }
            Expr::Substring {
                expr: text,
                substring_from: Some(pattern),
                substring_for: None,
                ..
            } if is_text(pattern) => {
                let arguments = vec![text.as_ref().clone(), pattern.as_ref().clone()];
                *expr = call(SUBSTRING, arguments);
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

fn is_match(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch
    )
}

fn is_rewritten(pattern: &Expr) -> bool {
    matches!(pattern, Expr::Function(function)
        if function.name.to_string() == PATTERN_OF)
}

fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_text(inner),
        Expr::Value(value) => matches!(
            value.value,
            Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_)
        ),
        _ => false,
    }
}

/// How an expression is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Flags {
    /// Upper and lower case are one.
    ignores_case: bool,
    /// `.` and `[^a]` are no newline.
    within_lines: bool,
    /// `^` and `$` stand at the ends of lines too.
    of_lines: bool,
    /// Blanks and comments mean nothing.
    expanded: bool,
    /// Every character stands for itself.
    literal: bool,
    /// All matches count, and not the first one alone.
    all: bool,
}

impl Flags {
    /// What letters say, those behind ones before them.
    fn read(mut self, letters: &str) -> Checked<Flags> {
        for letter in letters.chars() {
            match letter {
                'i' => self.ignores_case = true,
                'c' => self.ignores_case = false,
                'n' | 'm' => (self.within_lines, self.of_lines) = (true, true),
                's' => (self.within_lines, self.of_lines) = (false, false),
                'p' => (self.within_lines, self.of_lines) = (true, false),
                'w' => (self.within_lines, self.of_lines) = (false, true),
                'x' => self.expanded = true,
                't' => self.expanded = false,
                'q' => self.literal = true,
                'g' => self.all = true,
                'e' => self.literal = false,
                other => {
                    let said = format!("invalid regular expression option: {other:?}");
                    return Err(Error::invalid(said)
                        .with_hint("the options are i, c, n, m, s, p, w, x, t, q and g")
                        .with_sqlstate("22023"));
                }
            }
        }
        Ok(self)
    }
}

fn invalid(why: &str) -> Error {
    Error::invalid(format!("invalid regular expression: {why}")).with_sqlstate("2201B")
}

fn refused(what: &str) -> Error {
    Error::invalid(format!("{what} in a regular expression is not supported"))
        .with_hint("say it with two expressions, one behind the other")
        .with_sqlstate("0A000")
}

/// An expression by what it was written as.
type Kept = (String, Flags, Regex);

thread_local! {
    static KEPT: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
}

/// An expression that texts can be looked at with; those of the last patterns are kept.
fn compiled(pattern: &str, flags: Flags) -> Checked<Regex> {
    KEPT.with_borrow_mut(|kept| {
        let is_it = |one: &&Kept| one.1 == flags && one.0 == pattern;
        if let Some((.., known)) = kept.iter().find(is_it) {
            return Ok(known.clone());
        }
        let written = spelt(pattern, flags)?;
        let made = RegexBuilder::new(&written).build().map_err(|error| {
            let said = error.to_string();
            let why = said.rsplit("error: ").next().unwrap_or_default();
            invalid(why.trim())
        })?;
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.push((pattern.to_owned(), flags, made.clone()));
        Ok(made)
    })
}

/// A pattern as the crate writes it.
fn spelt(pattern: &str, flags: Flags) -> Checked<String> {
    let (pattern, flags) = directors(pattern, flags)?;
    let mut letters = String::new();
    letters.extend(flags.ignores_case.then_some('i'));
    letters.extend(flags.of_lines.then_some('m'));
    letters.extend((!flags.within_lines).then_some('s'));
    let mut writer = Writer {
        rest: pattern,
        flags,
        out: match letters.is_empty() {
            true => String::new(),
            false => format!("(?{letters})"),
        },
    };
    if flags.literal {
        writer.out.push_str(&regex::escape(pattern));
        return Ok(writer.out);
    }
    writer.write()?;
    Ok(writer.out)
}

/// What stands in front of an expression: `***=`, `(?i)`.
fn directors(pattern: &str, flags: Flags) -> Checked<(&str, Flags)> {
    if let Some(literal) = pattern.strip_prefix("***=") {
        let literal_flags = Flags {
            literal: true,
            ..flags
        };
        return Ok((literal, literal_flags));
    }
    let pattern = pattern.strip_prefix("***:").unwrap_or(pattern);
    if flags.literal {
        return Ok((pattern, flags));
    }
    let letters = pattern
        .strip_prefix("(?")
        .and_then(|rest| rest.split_once(')'));
    match letters {
        Some((letters, rest))
            if !letters.is_empty() && letters.chars().all(|c| c.is_ascii_lowercase()) =>
        {
            Ok((rest, flags.read(letters)?))
        }
        _ => Ok((pattern, flags)),
    }
}

/// What of a pattern is still to be written, and what has been.
struct Writer<'p> {
    rest: &'p str,
    flags: Flags,
    out: String,
}

impl Writer<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    /// A character that stands for itself.
    fn literal(&mut self, literal: char) {
        let mut bytes = [0; 4];
        self.out
            .push_str(&regex::escape(literal.encode_utf8(&mut bytes)));
    }

    fn write(&mut self) -> Checked<()> {
        while let Some(c) = self.next() {
            match c {
                '\\' => self.escape()?,
                '[' => self.brackets()?,
                '(' if self.rest.starts_with('?') => self.group()?,
                '{' if !self.rest.starts_with(|c: char| c.is_ascii_digit()) => self.literal('{'),
                '}' if !self.in_bound() => self.literal('}'),
                '#' if self.flags.expanded => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.rest = &self.rest[end..];
                }
                c if self.flags.expanded && c.is_whitespace() => {}
                '.' | '^' | '$' | '*' | '+' | '?' | '(' | ')' | '|' | '{' | '}' => {
                    self.out.push(c);
                }
                c => self.literal(c),
            }
        }
        Ok(())
    }

    /// Whether what has been written ends inside of `{1,2`.
    fn in_bound(&self) -> bool {
        let before = self
            .out
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == ',');
        before.len() < self.out.len() && before.ends_with('{') && !before.ends_with("\\{")
    }

    /// Behind `(`, where `?` stands.
    fn group(&mut self) -> Checked<()> {
        if let Some(rest) = self.rest.strip_prefix("?:") {
            self.rest = rest;
            self.out.push_str("(?:");
            return Ok(());
        }
        if let Some(rest) = self.rest.strip_prefix("?#") {
            self.rest = rest.split_once(')').map_or("", |(_, after)| after);
            return Ok(());
        }
        let looks = ["?=", "?!", "?<=", "?<!"];
        match looks.iter().any(|look| self.rest.starts_with(look)) {
            true => Err(refused("looking ahead or behind, as (?=...) does,")),
            false => Err(invalid("quantifier operand invalid")),
        }
    }

    /// Behind a backslash.
    fn escape(&mut self) -> Checked<()> {
        let class = match self.rest.chars().next() {
            None => return Err(invalid("invalid escape \\ sequence")),
            Some(class @ ('d' | 'D' | 'w' | 'W' | 's' | 'S')) => Some(format!("\\{class}")),
            Some('A') => Some("\\A".to_owned()),
            Some('Z') => Some("\\z".to_owned()),
            Some('m') => Some("\\b{start}".to_owned()),
            Some('M') => Some("\\b{end}".to_owned()),
            Some('y') => Some("\\b".to_owned()),
            Some('Y') => Some("\\B".to_owned()),
            Some('1'..='9') => return Err(refused("a reference to a group, as \\1 is,")),
            Some(_) => None,
        };
        match class {
            Some(class) => {
                self.next();
                self.out.push_str(&class);
            }
            None => {
                let literal = self.escaped()?;
                self.literal(literal);
            }
        }
        Ok(())
    }

    /// The character that is written behind a backslash.
    fn escaped(&mut self) -> Checked<char> {
        let wrong = || invalid("invalid escape \\ sequence");
        let c = self.next().ok_or_else(wrong)?;
        Ok(match c {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'B' => '\\',
            'e' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            'c' => {
                let control = self.next().ok_or_else(wrong)?;
                char::from_u32(u32::from(control) & 31).ok_or_else(wrong)?
            }
            'u' => self.numbered(4)?,
            'U' => self.numbered(8)?,
            'x' => {
                let end = self.rest.find(|c: char| !c.is_ascii_hexdigit());
                self.numbered(end.unwrap_or(self.rest.len()))?
            }
            '0' => '\0',
            c if c.is_alphanumeric() => return Err(wrong()),
            c => c,
        })
    }

    /// The character whose number has so many digits.
    fn numbered(&mut self, digits: usize) -> Checked<char> {
        let number = self.rest.get(..digits);
        let number = number.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let found = number.and_then(char::from_u32);
        let found = found.ok_or_else(|| invalid("invalid escape \\ sequence"))?;
        self.rest = &self.rest[digits..];
        Ok(found)
    }
}
