//! The clauses that say how fresh an answer must be: they stand last, in any order, and hold for
//! the whole statement (section 3.1 of the paper).
//!
//! ```text
//!   SELECT ... FROM t  FRESHNESS '500 ms'  ON MISS WAIT '2 s'  AFTER 'lb1-...'
//!   SELECT ... FROM t  AS OF SCU 40        SELECT ... AS OF TIMESTAMP '2013-01-01'
//! ```
//!
//! Tools put a LIMIT behind what users write, or a SELECT around it: LIMIT, OFFSET and FETCH may
//! follow, and a subquery that is all that a SELECT reads may have clauses at its end.
//!
//! Reads tokens, gives the tokens that are left and [`Clauses`]. Invariant CLA-1: a clause is
//! taken only where all tokens from it to the end are clauses, or such limits, so that columns,
//! tables and aliases of those names work everywhere else.

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use lazybase_model::{Error, Freshness, OnMiss, Result, ScuNumber, Token as Acknowledged};

use crate::moments::utc_micros;
use crate::text_places::at_span;

mod nested;
#[cfg(test)]
mod tests;

/// Where in the past a statement reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PastPoint {
    /// The end of an SCU.
    Scu(ScuNumber),
    /// The newest horizon at or before a moment, in microseconds since 1970.
    Micros(i64),
}

/// What the trailing clauses of one statement say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Clauses {
    /// FRESHNESS.
    pub(crate) freshness: Option<Freshness>,
    /// AFTER.
    pub(crate) after: Option<Acknowledged>,
    /// AS OF.
    pub(crate) as_of: Option<PastPoint>,
    /// ON MISS.
    pub(crate) on_miss: Option<OnMiss>,
}

impl Clauses {
    /// Whether the statement had none.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Clauses::default()
    }

    fn take(&mut self, clause: Raw<'_>) -> Result<()> {
        match clause {
            Raw::Freshness(value) => once(&mut self.freshness, freshness(&value)?, "FRESHNESS"),
            Raw::After(token) => once(&mut self.after, token.parse()?, "AFTER"),
            Raw::AsOfScu(number) => {
                let scu = number
                    .parse()
                    .map_err(|_| syntax(format!("AS OF SCU {number}: not an SCU number")))?;
                once(&mut self.as_of, PastPoint::Scu(ScuNumber(scu)), "AS OF")
            }
            Raw::AsOfTimestamp(value) => {
                let point = PastPoint::Micros(timestamp_micros(&value)?);
                once(&mut self.as_of, point, "AS OF")
            }
            Raw::OnMiss(miss) => once(&mut self.on_miss, on_miss(&miss)?, "ON MISS"),
        }
    }

    /// Takes those of a subquery too.
    fn join(&mut self, inner: Clauses) -> Result<()> {
        agree(&mut self.freshness, inner.freshness, "FRESHNESS")?;
        agree(&mut self.after, inner.after, "AFTER")?;
        agree(&mut self.as_of, inner.as_of, "AS OF")?;
        agree(&mut self.on_miss, inner.on_miss, "ON MISS")?;
        self.check()
    }

    /// Whether the clauses can stand together.
    fn check(&self) -> Result<()> {
        if self.as_of.is_some() && self.freshness.is_some() {
            return Err(syntax("AS OF and FRESHNESS exclude each other".to_owned())
                .with_hint("AS OF names the horizon itself"));
        }
        if self.as_of.is_some() && self.after.is_some() {
            return Err(syntax("AS OF and AFTER exclude each other".to_owned())
                .with_hint("AS OF names the horizon itself, be it before the token's"));
        }
        Ok(())
    }
}

/// Takes the clauses off a statement's tokens, which have no blanks among them.
///
/// # Errors
/// `Invalid` (42601) for a clause given twice or with a value that is not one.
pub(crate) fn take_clauses(tokens: &mut Vec<TokenWithSpan>) -> Result<Clauses> {
    let mut clauses = take_trailing(tokens)?;
    if let Some(inner) = nested::take(tokens)? {
        clauses.join(inner)?;
    }
    Ok(clauses)
}

/// Takes those at the end.
fn take_trailing(tokens: &mut Vec<TokenWithSpan>) -> Result<Clauses> {
    let bare: Vec<&Token> = tokens.iter().map(|token| &token.token).collect();
    let mut depth = 0_usize;
    for at in 0..bare.len() {
        match bare[at] {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            _ if at > 0 && depth == 0 && may_precede_clause(bare[at - 1]) => {
                if let Some(found) = clauses_to_the_end(&bare[at..]) {
                    let (ranges, raw): (Vec<_>, Vec<_>) = found.into_iter().unzip();
                    let begins = ranges.iter().map(|range| range.start);
                    let clauses = interpret(begins.zip(raw))
                        .map_err(|(of, error)| at_span(error, tokens[at + of].span))?;
                    for range in ranges.into_iter().rev() {
                        drop(tokens.drain(at + range.start..at + range.end));
                    }
                    return Ok(clauses);
                }
            }
            _ => {}
        }
    }
    Ok(Clauses::default())
}

/// A clause as written.
enum Raw<'t> {
    Freshness(Value<'t>),
    After(&'t str),
    AsOfScu(&'t str),
    AsOfTimestamp(Value<'t>),
    OnMiss(Miss<'t>),
}

/// A value as written.
enum Value<'t> {
    Number(&'t str),
    Negative(&'t str),
    Text(&'t str),
    BestEffort,
}

enum Miss<'t> {
    Dig,
    Error,
    Stale,
    Wait(Value<'t>),
    /// The word that is none of these, or lacks what must follow.
    Unknown(Option<&'t Token>),
}

/// Words after which an expression or a name must come, so that no clause can.
const AWAITING: [&str; 22] = [
    "AS", "SELECT", "WHERE", "AND", "OR", "NOT", "BY", "ON", "FROM", "JOIN", "SET", "IN", "LIKE",
    "BETWEEN", "HAVING", "LIMIT", "OFFSET", "WHEN", "THEN", "ELSE", "DISTINCT", "USING",
];

fn may_precede_clause(token: &Token) -> bool {
    match token {
        Token::Word(word) if word.quote_style.is_none() => !AWAITING
            .iter()
            .any(|awaiting| word.value.eq_ignore_ascii_case(awaiting)),
        Token::Word(_)
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::DollarQuotedString(_)
        | Token::HexStringLiteral(_)
        | Token::RParen
        | Token::RBracket
        | Token::Placeholder(_)
        | Token::Mul => true,
        _ => false,
    }
}

fn word<'t>(token: Option<&&'t Token>) -> Option<&'t Word> {
    match token {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(word),
        _ => None,
    }
}

fn is_word(token: Option<&&Token>, expected: &str) -> bool {
    word(token).is_some_and(|word| word.value.eq_ignore_ascii_case(expected))
}

fn text<'t>(token: Option<&&'t Token>) -> Option<&'t str> {
    match token {
        Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)) => Some(text),
        _ => None,
    }
}

/// The clauses, if all tokens are clauses, or limits behind one; each with the tokens that it
/// takes.
fn clauses_to_the_end<'t>(tokens: &[&'t Token]) -> Option<Vec<(Range<usize>, Raw<'t>)>> {
    let mut clauses = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let rest = &tokens[at..];
        if let Some((clause, length)) = clause_at(rest) {
            clauses.push((at..at + length, clause));
            at += length;
        } else if clauses.is_empty() {
            return None;
        } else if let Some(length) = limit_at(rest) {
            at += length;
        } else {
            // Behind another clause these words begin nothing else.
            if !is_word(rest.first(), "ON") || !is_word(rest.get(1), "MISS") {
                return None;
            }
            let unknown = Raw::OnMiss(Miss::Unknown(rest.get(2).copied()));
            clauses.push((at..tokens.len(), unknown));
            return Some(clauses);
        }
    }
    (!clauses.is_empty()).then_some(clauses)
}

/// How many of the tokens say how many rows are wanted, or left out.
fn limit_at(tokens: &[&Token]) -> Option<usize> {
    let is = |at: usize, word: &str| is_word(tokens.get(at), word);
    let is_rows = |at: usize| is(at, "ROW") || is(at, "ROWS");
    let is_count = |at: usize| {
        let token = tokens.get(at);
        matches!(token, Some(Token::Number(..) | Token::Placeholder(_)))
    };
    if is(0, "LIMIT") && (is_count(1) || is(1, "ALL")) {
        return Some(2);
    }
    if is(0, "OFFSET") && is_count(1) {
        return Some(2 + usize::from(is_rows(2)));
    }
    let rows = 2 + usize::from(is_count(2));
    let fetches = is(0, "FETCH") && (is(1, "FIRST") || is(1, "NEXT"));
    (fetches && is_rows(rows) && is(rows + 1, "ONLY")).then_some(rows + 2)
}

/// The clause that begins the tokens, with how many tokens it takes.
fn clause_at<'t>(tokens: &[&'t Token]) -> Option<(Raw<'t>, usize)> {
    let first = word(tokens.first())?.value.to_ascii_uppercase();
    match first.as_str() {
        "FRESHNESS" => {
            let (value, length) = value_at(&tokens[1..])?;
            Some((Raw::Freshness(value), 1 + length))
        }
        "AFTER" => Some((Raw::After(text(tokens.get(1))?), 2)),
        "AS" if is_word(tokens.get(1), "OF") && is_word(tokens.get(2), "SCU") => {
            match tokens.get(3) {
                Some(Token::Number(number, _)) => Some((Raw::AsOfScu(number), 4)),
                _ => None,
            }
        }
        "AS" if is_word(tokens.get(1), "OF") && is_word(tokens.get(2), "TIMESTAMP") => {
            let (value, length) = value_at(&tokens[3..])?;
            Some((Raw::AsOfTimestamp(value), 3 + length))
        }
        "ON" if is_word(tokens.get(1), "MISS") => {
            match word(tokens.get(2))?.value.to_ascii_uppercase().as_str() {
                "DIG" => Some((Raw::OnMiss(Miss::Dig), 3)),
                "ERROR" => Some((Raw::OnMiss(Miss::Error), 3)),
                "STALE" => Some((Raw::OnMiss(Miss::Stale), 3)),
                "WAIT" => {
                    let (value, length) = value_at(&tokens[3..])?;
                    Some((Raw::OnMiss(Miss::Wait(value)), 3 + length))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn value_at<'t>(tokens: &[&'t Token]) -> Option<(Value<'t>, usize)> {
    match (tokens.first(), tokens.get(1)) {
        (Some(Token::Number(number, _)), _) => Some((Value::Number(number), 1)),
        (Some(Token::Minus), Some(Token::Number(number, _))) => Some((Value::Negative(number), 2)),
        (Some(Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)), _) => {
            Some((Value::Text(text), 1))
        }
        _ if is_word(tokens.first(), "BEST") && is_word(tokens.get(1), "EFFORT") => {
            Some((Value::BestEffort, 2))
        }
        _ => None,
    }
}

/// What clauses say; else what is wrong, and the token at which the clause begins.
fn interpret<'t>(raw: impl Iterator<Item = (usize, Raw<'t>)>) -> Result<Clauses, (usize, Error)> {
    let mut clauses = Clauses::default();
    for (at, clause) in raw {
        let taken = clauses.take(clause).and_then(|()| clauses.check());
        taken.map_err(|error| (at, error))?;
    }
    Ok(clauses)
}

fn once<T>(slot: &mut Option<T>, value: T, clause: &str) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(syntax(format!("{clause} is given twice"))),
    }
}

fn agree<T: PartialEq>(slot: &mut Option<T>, inner: Option<T>, clause: &str) -> Result<()> {
    if slot.is_none() {
        *slot = inner;
    } else if inner.is_some() && *slot != inner {
        return Err(syntax(format!(
            "{clause} of the subquery is another one than outside"
        ))
        .with_detail("all of a statement is read at one moment"));
    }
    Ok(())
}

fn freshness(value: &Value<'_>) -> Result<Freshness> {
    match value {
        Value::BestEffort => Ok(Freshness::BestEffort),
        Value::Number(text) | Value::Text(text) => text.parse().map_err(as_syntax),
        Value::Negative(number) => Err(syntax(format!("FRESHNESS -{number} lies in the future"))
            .with_hint("0 is the freshest answer there is")),
    }
}

fn on_miss(miss: &Miss<'_>) -> Result<OnMiss> {
    match miss {
        Miss::Dig => Ok(OnMiss::Dig),
        Miss::Error => Ok(OnMiss::Error),
        Miss::Stale => Ok(OnMiss::Stale),
        Miss::Wait(Value::Number(text) | Value::Text(text)) => {
            format!("wait {text}").parse().map_err(as_syntax)
        }
        Miss::Unknown(word) if !is_word(word.as_ref(), "WAIT") => {
            let word = word.map(Token::to_string).unwrap_or_default();
            Err(syntax(format!("unknown ON MISS choice {word:?}"))
                .with_hint("use DIG, WAIT '2 s', ERROR or STALE"))
        }
        Miss::Wait(_) | Miss::Unknown(_) => Err(syntax("ON MISS WAIT takes a duration".to_owned())
            .with_hint("such as ON MISS WAIT '2 s'")),
    }
}

/// Microseconds since 1970 of a moment written as text or as seconds since 1970.
fn timestamp_micros(value: &Value<'_>) -> Result<i64> {
    let not_a_time = |text: &str| {
        syntax(format!("AS OF TIMESTAMP {text:?} is not a moment"))
            .with_hint("write '2013-01-31 12:00:00', or the seconds since 1970")
    };
    match value {
        Value::Number(text) => {
            let seconds: f64 = text.parse().map_err(|_| not_a_time(text))?;
            Ok((seconds * 1e6) as i64)
        }
        Value::Text(text) => utc_micros(text).ok_or_else(|| not_a_time(text)),
        Value::Negative(text) => Err(not_a_time(&format!("-{text}"))),
        Value::BestEffort => Err(not_a_time("best effort")),
    }
}

fn as_syntax(error: Error) -> Error {
    error.with_sqlstate("42601")
}

fn syntax(message: String) -> Error {
    Error::invalid(message).with_sqlstate("42601")
}
