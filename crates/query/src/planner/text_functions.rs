//! Functions of texts that PostgreSQL has, or has otherwise than the planner.
//!
//! | function                    | here, as there                                   |
//! | --------------------------- | ------------------------------------------------ |
//! | `upper`, `lower`            | letter by letter: the text is as long as before  |
//! | `format('%s %I %L', ...)`   | texts, names and constants in a text             |
//! | `quote_literal`, `quote_nullable` | a constant, or NULL                        |
//!
//! Functions computed row by row; pure.

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::ScalarUDF;
use lazybase_model::{Error, Result as Checked};

use crate::definition;
use crate::planner::bounded::check_made;
use crate::planner::row_functions::{Answer, Given, Gives, OfRows, RowFunction, Takes, text_at};

/// Characters that a place of a format may be wide.
const WIDTH_MAX: usize = 1 << 20;

/// All of them.
const ALL: [RowFunction; 5] = [
    RowFunction {
        name: "upper",
        takes: &[Takes::Text],
        least: 1,
        repeats: false,
        strict: true,
        gives: Gives::Text,
        compute: |given| {
            Ok(in_case(text_at(given, 0), |letter| {
                single(letter, letter.to_uppercase())
            }))
        },
    },
    RowFunction {
        name: "lower",
        takes: &[Takes::Text],
        least: 1,
        repeats: false,
        strict: true,
        gives: Gives::Text,
        compute: |given| {
            Ok(in_case(text_at(given, 0), |letter| {
                single(letter, letter.to_lowercase())
            }))
        },
    },
    RowFunction {
        name: "format",
        takes: &[Takes::Text, Takes::Any],
        least: 1,
        repeats: true,
        strict: false,
        gives: Gives::Text,
        compute: formatted,
    },
    RowFunction {
        name: "quote_nullable",
        takes: &[Takes::Any],
        least: 1,
        repeats: false,
        strict: false,
        gives: Gives::Text,
        compute: |given| {
            let text = text_at(given, 0).map(constant);
            Ok(Answer::Text(text.unwrap_or_else(|| "NULL".to_owned())))
        },
    },
    RowFunction {
        name: "quote_literal",
        takes: &[Takes::Any],
        least: 1,
        repeats: false,
        strict: true,
        gives: Gives::Text,
        compute: |given| {
            Ok(text_at(given, 0).map_or(Answer::Null, |text| Answer::Text(constant(text))))
        },
    },
];

/// Adds the functions, or puts them in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in ALL {
        state.register_udf(ScalarUDF::from(OfRows::new(function)).into())?;
    }
    Ok(())
}

/// A text as a constant of SQL.
fn constant(text: &str) -> String {
    match text.contains('\\') {
        true => format!("E{}", definition::text(&text.replace('\\', "\\\\"))),
        false => definition::text(text),
    }
}

fn in_case(text: Option<&str>, letter: impl Fn(char) -> char) -> Answer {
    match text {
        Some(text) => Answer::Text(text.chars().map(letter).collect()),
        None => Answer::Null,
    }
}

/// The one letter that a letter becomes; it stays where there are several.
fn single(letter: char, mut others: impl Iterator<Item = char>) -> char {
    match (others.next(), others.next()) {
        (Some(other), None) => other,
        _ => letter,
    }
}

fn wrong(said: impl Into<String>) -> Error {
    Error::invalid(said)
        .with_hint(
            "places are %s for texts, %I for names, %L for constants, and %% is a percent sign",
        )
        .with_sqlstate("22023")
}

/// A place of a format: `%2$-10s`.
struct Place {
    /// Which argument stands there, from 1; the next one where it does not say.
    argument: Option<usize>,
    width: usize,
    to_the_left: bool,
    kind: char,
}

/// Reads the place that a text begins with, behind its percent sign, and how long it is.
fn place(text: &str) -> Checked<(Place, usize)> {
    let number = |text: &str| {
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        (text[..end].parse::<usize>().ok(), end)
    };
    let mut at = 0;
    let mut argument = None;
    let (first, end) = number(text);
    if text[end..].starts_with('$') {
        argument = Some(first.filter(|first| *first > 0).ok_or_else(|| {
            wrong("format specifies argument 0, but arguments are numbered from 1")
        })?);
        at = end + 1;
    }
    let to_the_left = text[at..].starts_with('-');
    at += usize::from(to_the_left);
    let (width, end) = number(&text[at..]);
    at += end;
    let kind = text[at..].chars().next();
    match kind {
        Some(kind @ ('s' | 'I' | 'L' | '%')) => {
            let place = Place {
                argument,
                width: width.unwrap_or(0).min(WIDTH_MAX),
                to_the_left,
                kind,
            };
            Ok((place, at + 1))
        }
        Some('*') => Err(wrong("format(): a width of * is not supported").with_sqlstate("0A000")),
        Some(other) => Err(wrong(format!(
            "unrecognized format() type specifier {other:?}"
        ))),
        None => Err(wrong("unterminated format() type specifier")),
    }
}

fn formatted(given: &[Given<'_>]) -> Checked<Answer> {
    let Some(format) = text_at(given, 0) else {
        return Ok(Answer::Null);
    };
    let (mut out, mut rest, mut next) = (String::with_capacity(format.len()), format, 1);
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let (place, length) = place(&rest[at + 1..])?;
        rest = &rest[at + 1 + length..];
        if place.kind == '%' {
            out.push('%');
            continue;
        }
        let argument = place.argument.unwrap_or(next);
        next = argument + 1;
        if argument >= given.len() {
            return Err(wrong("too few arguments for format()"));
        }
        let text = text_at(given, argument);
        let text = match (place.kind, text) {
            ('I', None) => {
                return Err(wrong("NULL can't be formatted as a name").with_sqlstate("22004"));
            }
            ('I', Some(name)) => definition::identifier(name),
            ('L', None) => "NULL".to_owned(),
            ('L', Some(text)) => constant(text),
            (_, text) => text.unwrap_or_default().to_owned(),
        };
        let blanks = " ".repeat(place.width.saturating_sub(text.chars().count()));
        match place.to_the_left {
            true => out.extend([text, blanks]),
            false => out.extend([blanks, text]),
        }
        check_made("format", out.len())?;
    }
    out.push_str(rest);
    Ok(Answer::Text(out))
}
