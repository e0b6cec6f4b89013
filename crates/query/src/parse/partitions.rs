//! PARTITION BY, and ALTER TABLE ... ADD or DROP RANGE PARTITION: read by their tokens, in the
//! words of Impala for Kudu.
//!
//! ```text
//!   PARTITION BY rule [, rule]...
//!     rule       HASH [(column, ...)] PARTITIONS n
//!                RANGE (column, ...) (partition, ...)
//!                RANGE (column, ...) SPLIT AT (bound, ...)
//!     partition  PARTITION [bound < | <=] VALUES [< | <= bound]
//!                PARTITION VALUE = bound
//!     bound      constant, or (constant, ...) for a rule of several columns
//!   ALTER TABLE t ADD [IF NOT EXISTS] | DROP [IF EXISTS] RANGE partition
//! ```
//!
//! Reads tokens; writes nothing.

use datafusion::sql::sqlparser::ast::{CastKind, DataType as SqlType, Expr, TypedString, Value};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lazybase_model::{Error, Result};

use super::{Statement, folded};
use crate::literal::Literal;
use crate::text_places::at_token;

/// The rules of a table as declared.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartitionClause {
    /// The columns and partitions of each hash rule; without columns, those of the key.
    pub(crate) hash: Vec<(Vec<String>, u16)>,
    pub(crate) range: Option<RangeClause>,
}

/// A range rule as declared.
#[derive(Debug, Clone)]
pub(crate) struct RangeClause {
    pub(crate) columns: Vec<String>,
    pub(crate) partitions: Vec<BoundsClause>,
}

/// A range partition as declared.
#[derive(Debug, Clone, Default)]
pub(crate) struct BoundsClause {
    pub(crate) low: Option<CutClause>,
    pub(crate) high: Option<CutClause>,
}

/// A bound, and whether the cut lies right after it.
#[derive(Debug, Clone)]
pub(crate) struct CutClause {
    pub(crate) values: Vec<Literal>,
    pub(crate) after: bool,
}

/// What happens to a table's range partitions.
#[derive(Debug, Clone)]
pub(crate) struct AlterPartition {
    pub(crate) table: String,
    pub(crate) adds: bool,
    /// IF NOT EXISTS, or IF EXISTS.
    pub(crate) lenient: bool,
    pub(crate) bounds: BoundsClause,
}

/// Takes PARTITION BY out of a CREATE TABLE's tokens.
pub(super) fn take(
    dialect: &dyn Dialect,
    tokens: &mut Vec<TokenWithSpan>,
) -> Result<Option<PartitionClause>> {
    if !(is_word(tokens.first(), "CREATE") && is_word(tokens.get(1), "TABLE")) {
        return Ok(None);
    }
    let mut depth = 0_usize;
    let begin = (0..tokens.len()).find(|at| {
        match tokens[*at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && is_word(tokens.get(*at), "PARTITION") && is_word(tokens.get(at + 1), "BY")
    });
    let Some(begin) = begin else {
        return Ok(None);
    };
    let mut cursor = Cursor {
        dialect,
        tokens: &tokens[begin + 2..],
    };
    let clause = cursor.rules();
    let clause = clause.map_err(|error| cursor.at_next(error))?;
    let end = tokens.len() - cursor.tokens.len();
    tokens.drain(begin..end);
    Ok(Some(clause))
}

/// The statement, if it adds or drops a range partition.
pub(super) fn alter(dialect: &dyn Dialect, tokens: &[TokenWithSpan]) -> Result<Option<Statement>> {
    let mut cursor = Cursor { dialect, tokens };
    if !cursor.words(&["ALTER", "TABLE"]) {
        return Ok(None);
    }
    let Some(table) = cursor.name() else {
        return Ok(None);
    };
    let adds = cursor.word("ADD");
    if !adds && !cursor.word("DROP") {
        return Ok(None);
    }
    let lenient = match adds {
        true => cursor.words(&["IF", "NOT", "EXISTS"]),
        false => cursor.words(&["IF", "EXISTS"]),
    };
    let is_partition = is_word(cursor.tokens.get(1), "PARTITION");
    if !(is_partition && cursor.word("RANGE")) {
        return Ok(None);
    }
    let bounds = cursor.partition();
    let bounds = bounds.map_err(|error| cursor.at_next(error))?;
    match cursor.tokens {
        [] => Ok(Some(Statement::AlterPartition(Box::new(AlterPartition {
            table,
            adds,
            lenient,
            bounds,
        })))),
        [token, ..] => {
            let error = usage(&format!("{} is not expected", token.token));
            Err(cursor.at_next(error))
        }
    }
}

fn is_word(token: Option<&TokenWithSpan>, expected: &str) -> bool {
    matches!(token.map(|token| &token.token), Some(Token::Word(word))
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected))
}

/// What is left to read.
struct Cursor<'t> {
    dialect: &'t dyn Dialect,
    tokens: &'t [TokenWithSpan],
}

impl Cursor<'_> {
    fn word(&mut self, expected: &str) -> bool {
        self.words(&[expected])
    }

    /// Takes the words if all of them come next.
    fn words(&mut self, expected: &[&str]) -> bool {
        let mut places = expected.iter().enumerate();
        let all = places.all(|(at, word)| is_word(self.tokens.get(at), word));
        if all {
            self.tokens = &self.tokens[expected.len()..];
        }
        all
    }

    fn token(&mut self, expected: &Token) -> bool {
        let next = self.tokens.first().map(|token| &token.token);
        let is_next = next == Some(expected);
        if is_next {
            self.tokens = &self.tokens[1..];
        }
        is_next
    }

    fn expect(&mut self, expected: &Token) -> Result<()> {
        match self.token(expected) {
            true => Ok(()),
            false => Err(usage(&format!(
                "{expected} is missing before {}",
                self.next()
            ))),
        }
    }

    /// An error of what comes next, unless it is known to be one of something before.
    fn at_next(&self, error: Error) -> Error {
        match error.place() {
            Some(_) => error,
            None => at_token(error, self.tokens, 0),
        }
    }

    fn next(&self) -> String {
        match self.tokens.first() {
            Some(token) => token.token.to_string(),
            None => "the end".to_owned(),
        }
    }

    /// A table's or column's name, without a schema but `public`.
    fn name(&mut self) -> Option<String> {
        let word = |token: Option<&TokenWithSpan>| match token.map(|token| &token.token) {
            Some(Token::Word(word)) => Some(folded(&word.to_ident(token?.span))),
            _ => None,
        };
        let mut name = word(self.tokens.first())?;
        self.tokens = &self.tokens[1..];
        if name == super::SCHEMA && self.token(&Token::Period) {
            name = word(self.tokens.first())?;
            self.tokens = &self.tokens[1..];
        }
        Some(name)
    }

    fn rules(&mut self) -> Result<PartitionClause> {
        let mut clause = PartitionClause::default();
        loop {
            if clause.range.is_some() {
                return Err(usage("a range rule stands last, and there is one at most"));
            }
            if self.word("HASH") {
                clause.hash.push(self.hash_rule()?);
            } else if self.word("RANGE") {
                clause.range = Some(self.range_rule()?);
            } else {
                return Err(usage(&format!(
                    "HASH or RANGE is expected, not {}",
                    self.next()
                )));
            }
            if !self.token(&Token::Comma) {
                return Ok(clause);
            }
        }
    }

    fn hash_rule(&mut self) -> Result<(Vec<String>, u16)> {
        let columns = match self.tokens.first().map(|token| &token.token) {
            Some(Token::LParen) => self.columns()?,
            _ => Vec::new(),
        };
        if !self.word("PARTITIONS") {
            return Err(usage("HASH (columns) PARTITIONS n"));
        }
        let number = match self.tokens.first().map(|token| &token.token) {
            Some(Token::Number(number, _)) => number.parse().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| usage("PARTITIONS takes a number up to 1024"))?;
        self.tokens = &self.tokens[1..];
        Ok((columns, number))
    }

    fn columns(&mut self) -> Result<Vec<String>> {
        self.expect(&Token::LParen)?;
        let mut columns = Vec::new();
        loop {
            let name = self.name();
            columns.push(name.ok_or_else(|| usage("a column is expected"))?);
            if !self.token(&Token::Comma) {
                self.expect(&Token::RParen)?;
                return Ok(columns);
            }
        }
    }

    fn range_rule(&mut self) -> Result<RangeClause> {
        let columns = self.columns()?;
        let mut partitions = Vec::new();
        if self.words(&["SPLIT", "AT"]) {
            self.expect(&Token::LParen)?;
            let mut low = None;
            loop {
                let values = self.bound()?;
                let cut = CutClause {
                    values,
                    after: false,
                };
                partitions.push(BoundsClause {
                    low: low.replace(cut.clone()),
                    high: Some(cut),
                });
                if !self.token(&Token::Comma) {
                    break;
                }
            }
            partitions.push(BoundsClause { low, high: None });
            self.expect(&Token::RParen)?;
        } else if self.token(&Token::LParen) && !self.token(&Token::RParen) {
            loop {
                partitions.push(self.partition()?);
                if !self.token(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
        }
        Ok(RangeClause {
            columns,
            partitions,
        })
    }

    fn partition(&mut self) -> Result<BoundsClause> {
        if !self.word("PARTITION") {
            return Err(usage(&format!(
                "PARTITION is expected, not {}",
                self.next()
            )));
        }
        if self.word("VALUE") {
            self.expect(&Token::Eq)?;
            let values = self.bound()?;
            let cut = |after| {
                let values = values.clone();
                Some(CutClause { values, after })
            };
            return Ok(BoundsClause {
                low: cut(false),
                high: cut(true),
            });
        }
        let mut bounds = BoundsClause::default();
        if !self.word("VALUES") {
            let values = self.bound()?;
            let after = self.less()?;
            bounds.low = Some(CutClause { values, after });
            if !self.word("VALUES") {
                return Err(usage("VALUES is expected between the bounds"));
            }
        }
        let next = self.tokens.first().map(|token| &token.token);
        if matches!(next, Some(Token::Lt | Token::LtEq)) {
            let after = !self.less()?;
            let values = self.bound()?;
            bounds.high = Some(CutClause { values, after });
        }
        Ok(bounds)
    }

    /// Whether the comparison excludes equal values.
    fn less(&mut self) -> Result<bool> {
        if self.token(&Token::Lt) {
            return Ok(true);
        }
        match self.token(&Token::LtEq) {
            true => Ok(false),
            false => Err(usage(&format!("< or <= is expected, not {}", self.next()))),
        }
    }

    fn bound(&mut self) -> Result<Vec<Literal>> {
        let mut depth = 0_usize;
        let ends = |token: &TokenWithSpan| {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen if depth > 0 => depth -= 1,
                Token::RParen | Token::Comma | Token::Lt | Token::LtEq if depth == 0 => {
                    return true;
                }
                _ => {}
            }
            false
        };
        let length = self.tokens.iter().position(ends);
        let (bound, rest) = self.tokens.split_at(length.unwrap_or(self.tokens.len()));
        self.tokens = rest;
        let mut parser = Parser::new(self.dialect).with_tokens_with_locations(bound.to_vec());
        let parsed = parser.parse_expr().ok();
        let whole = parser.peek_token().token == Token::EOF;
        let values: Option<Vec<Literal>> = match parsed.filter(|_| whole) {
            Some(Expr::Tuple(values)) => values.iter().map(constant).collect(),
            Some(value) => constant(&value).map(|value| vec![value]),
            None => None,
        };
        let spelt: Vec<String> = bound.iter().map(|token| token.token.to_string()).collect();
        values.ok_or_else(|| {
            let error = Error::invalid(format!(
                "{:?} is not a bound of a partition",
                spelt.join(" ")
            ))
            .with_hint("bounds are constants, such as 10, '2026-01-01' or ('eu', 10)")
            .with_sqlstate("42601");
            at_token(error, bound, 0)
        })
    }
}

/// The constant that a bound is; one may be cast where that says no more than its type before it,
/// as `DATE '2026-01-01'`, would.
fn constant(expr: &Expr) -> Option<Literal> {
    let (inner, data_type) = match expr {
        Expr::Nested(inner) => return constant(inner),
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr: inner,
            data_type,
            format: None,
            ..
        } => (inner, data_type),
        other => return Literal::of(other),
    };
    match (Literal::of(inner)?, data_type) {
        (Literal::Number(number), data_type) => {
            let is_whole = match data_type {
                SqlType::SmallInt(_) => number.parse::<i16>().is_ok(),
                SqlType::Int(_) | SqlType::Integer(_) => number.parse::<i32>().is_ok(),
                SqlType::BigInt(_) => number.parse::<i64>().is_ok(),
                _ => false,
            };
            is_whole.then_some(Literal::Number(number))
        }
        // These casts would leave a part of the text out.
        (Literal::Text(text), SqlType::Date) if text.contains(':') => None,
        (_, SqlType::Timestamp(Some(_), _) | SqlType::Datetime(Some(_))) => None,
        (
            Literal::Text(text),
            SqlType::Date
            | SqlType::Time(..)
            | SqlType::Timestamp(..)
            | SqlType::Datetime(_)
            | SqlType::Text,
        ) => Literal::of(&Expr::TypedString(TypedString {
            data_type: data_type.clone(),
            value: Value::SingleQuotedString(text).into(),
            uses_odbc_syntax: false,
        })),
        _ => None,
    }
}

fn usage(what: &str) -> Error {
    Error::invalid(format!("syntax error in a partition rule: {what}"))
        .with_hint(
            "write HASH (columns) PARTITIONS n, RANGE (columns) (PARTITION 1 <= VALUES < 2, ...), \
             or RANGE (columns) SPLIT AT (1, 2)",
        )
        .with_sqlstate("42601")
}
