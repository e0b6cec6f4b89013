//! Sequences, and columns that number themselves, read by their tokens: sqlparser takes the options
//! of a sequence in one order only, and does not know ALTER SEQUENCE and OVERRIDING.
//!
//! ```text
//!   CREATE SEQUENCE [IF NOT EXISTS] s option ...
//!   ALTER SEQUENCE [IF EXISTS] s option ...
//!   DROP SEQUENCE [IF EXISTS] s, ...
//!   c BIGINT GENERATED ALWAYS | BY DEFAULT AS IDENTITY [(option ...)]
//!   INSERT INTO t (...) OVERRIDING SYSTEM VALUE ...
//!     option   AS type, INCREMENT [BY] n, MINVALUE n, MAXVALUE n, NO MINVALUE, NO MAXVALUE,
//!              START [WITH] n, RESTART [[WITH] n], CACHE n, [NO] CYCLE, OWNED BY t.c | NONE,
//!              SEQUENCE NAME s
//! ```
//!
//! Reads tokens; writes nothing. CACHE decides no answer: how many numbers are reserved at a time
//! follows from how many are taken.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lazybase_model::{Error, IdentityKind, Result};

use super::words::leading_name;
use super::{Statement, folded, table_name, unsupported};

/// A bound of a sequence: a number, or as its type has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    OfType,
    At(i64),
}

/// What is said of a sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SequenceOptions {
    pub(crate) data_type: Option<DataType>,
    pub(crate) start: Option<i64>,
    pub(crate) increment: Option<i64>,
    pub(crate) min: Option<Bound>,
    pub(crate) max: Option<Bound>,
    pub(crate) cycle: Option<bool>,
    /// Whether it begins again: with a number, or with its first one.
    pub(crate) restart: Option<Restart>,
    pub(crate) owned_by: Option<OwnedBy>,
    /// The name of the sequence of an identity column.
    pub(crate) name: Option<String>,
}

/// Where a sequence begins again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    AtStart,
    With(i64),
}

/// What a sequence ends with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OwnedBy {
    Nothing,
    Column { table: String, column: String },
}

/// A column of a table that is made, which numbers itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) column: String,
    /// Of SERIAL there is no such kind: whoever writes may give any number.
    pub(crate) identity: Option<IdentityKind>,
    pub(crate) options: SequenceOptions,
}

/// A statement about sequences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SequenceStatement {
    Create {
        name: String,
        if_not_exists: bool,
        options: SequenceOptions,
    },
    Alter {
        name: String,
        if_exists: bool,
        options: SequenceOptions,
    },
    Drop {
        names: Vec<String>,
        if_exists: bool,
    },
}

/// The statement, if it is one of these.
///
/// # Errors
/// `Invalid`: 42601 for what is none, 0A000 for temporary sequences and what can't be altered.
pub(super) fn statement(tokens: &[TokenWithSpan]) -> Result<Option<Statement>> {
    let mut reader = Reader { tokens, at: 0 };
    let verb = reader.word();
    reader.at = 1;
    let is_temporary = reader.eat("TEMPORARY") || reader.eat("TEMP");
    if !reader.eat("SEQUENCE") {
        return Ok(None);
    }
    let statement = match verb.as_deref() {
        Some("CREATE") if is_temporary => {
            return Err(unsupported("CREATE TEMPORARY SEQUENCE is not supported")
                .with_hint("a column of a temporary table may be SERIAL"));
        }
        Some("CREATE") => {
            let if_not_exists = reader.eat_all(&["IF", "NOT", "EXISTS"]);
            SequenceStatement::Create {
                name: reader.name()?,
                if_not_exists,
                options: reader.options()?,
            }
        }
        Some("ALTER") => {
            let if_exists = reader.eat_all(&["IF", "EXISTS"]);
            let name = reader.name()?;
            if reader.word().as_deref() == Some("RENAME") {
                return Err(unsupported("a sequence can't have another name")
                    .with_hint("CREATE SEQUENCE with START WITH makes one that goes on"));
            }
            SequenceStatement::Alter {
                name,
                if_exists,
                options: reader.options()?,
            }
        }
        Some("DROP") => {
            let if_exists = reader.eat_all(&["IF", "EXISTS"]);
            let mut names = vec![reader.name()?];
            while reader.eat_token(&Token::Comma) {
                names.push(reader.name()?);
            }
            if reader.eat("CASCADE") {
                return Err(
                    unsupported("DROP SEQUENCE ... CASCADE is not supported").with_hint(
                        "ALTER COLUMN ... DROP DEFAULT where its numbers are taken, first",
                    ),
                );
            }
            reader.eat("RESTRICT");
            SequenceStatement::Drop { names, if_exists }
        }
        _ => return Ok(None),
    };
    reader.end()?;
    Ok(Some(Statement::Sequence(Box::new(statement))))
}

/// Takes OVERRIDING SYSTEM VALUE out of the tokens of an INSERT; whether it was there.
///
/// # Errors
/// `Invalid` (0A000) for OVERRIDING USER VALUE.
pub(super) fn take_overriding(tokens: &mut Vec<TokenWithSpan>) -> Result<bool> {
    if word(tokens.first()).as_deref() != Some("INSERT") {
        return Ok(false);
    }
    let begins = |at: &usize| {
        word(tokens.get(*at)).as_deref() == Some("OVERRIDING")
            && word(tokens.get(at + 2)).as_deref() == Some("VALUE")
    };
    let Some(at) = (3..tokens.len()).find(begins) else {
        return Ok(false);
    };
    match word(tokens.get(at + 1)).as_deref() {
        Some("SYSTEM") => {
            tokens.drain(at..at + 3);
            Ok(true)
        }
        Some("USER") => Err(unsupported("OVERRIDING USER VALUE is not supported")
            .with_hint("leave the identity column out, or give DEFAULT for it")),
        _ => Ok(false),
    }
}

/// Takes the clauses of identity columns out of the tokens of CREATE TABLE.
///
/// # Errors
/// `Invalid` (42601) for options that are none.
pub(super) fn take_identities(tokens: &mut Vec<TokenWithSpan>) -> Result<Vec<Numbered>> {
    let mut found = Vec::new();
    let Some(open) = columns_of_table(tokens) else {
        return Ok(found);
    };
    let (mut at, mut depth) = (open + 1, 1_usize);
    let mut column = column_at(tokens, at);
    while at < tokens.len() && depth > 0 {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Comma if depth == 1 => column = column_at(tokens, at + 1),
            Token::Word(_) if depth == 1 => {
                let clause = identity(&tokens[at..])?;
                if let (Some((kind, options, length)), Some(column)) = (clause, &column) {
                    found.push(Numbered {
                        column: column.clone(),
                        identity: Some(kind),
                        options,
                    });
                    tokens.drain(at..at + length);
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    Ok(found)
}

/// Where the columns of CREATE TABLE begin.
fn columns_of_table(tokens: &[TokenWithSpan]) -> Option<usize> {
    if word(tokens.first()).as_deref() != Some("CREATE") {
        return None;
    }
    let open = tokens
        .iter()
        .position(|token| token.token == Token::LParen)?;
    let mut before = tokens[..open].iter().take(4);
    let is_table = before.any(|token| word(Some(token)).as_deref() == Some("TABLE"));
    is_table.then_some(open)
}

/// The column whose declaration begins at a place.
fn column_at(tokens: &[TokenWithSpan], at: usize) -> Option<String> {
    match &tokens.get(at)?.token {
        Token::Word(name) => Some(folded(&name.to_ident(tokens[at].span))),
        _ => None,
    }
}

/// The clause of an identity column that the tokens begin with, and how many it takes.
fn identity(tokens: &[TokenWithSpan]) -> Result<Option<(IdentityKind, SequenceOptions, usize)>> {
    let mut reader = Reader { tokens, at: 0 };
    if !reader.eat("GENERATED") {
        return Ok(None);
    }
    let kind = if reader.eat("ALWAYS") {
        IdentityKind::Always
    } else if reader.eat_all(&["BY", "DEFAULT"]) {
        IdentityKind::ByDefault
    } else {
        return Ok(None);
    };
    if !reader.eat_all(&["AS", "IDENTITY"]) {
        return Ok(None);
    }
    if !reader.eat_token(&Token::LParen) {
        return Ok(Some((kind, SequenceOptions::default(), reader.at)));
    }
    let rest = &tokens[reader.at..];
    let close = rest.iter().position(|token| token.token == Token::RParen);
    let close = close.ok_or_else(|| wrong("its options end with a parenthesis"))?;
    let mut inside = Reader {
        tokens: &rest[..close],
        at: 0,
    };
    let options = inside.options()?;
    inside.end()?;
    Ok(Some((kind, options, reader.at + close + 1)))
}

/// The type of the numbers of a type that is an integer with numbers of its own.
pub(super) fn serial_type(declared: &str) -> Option<DataType> {
    match declared.to_ascii_lowercase().as_str() {
        "smallserial" | "serial2" => Some(DataType::Int16),
        "serial" | "serial4" => Some(DataType::Int32),
        "bigserial" | "serial8" => Some(DataType::Int64),
        _ => None,
    }
}

fn word(token: Option<&TokenWithSpan>) -> Option<String> {
    match token.map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => {
            Some(word.value.to_ascii_uppercase())
        }
        _ => None,
    }
}

fn wrong(hint: &str) -> Error {
    Error::invalid("syntax error in what is said of a sequence")
        .with_hint(hint)
        .with_sqlstate("42601")
}

/// Reads tokens one after the other.
struct Reader<'t> {
    tokens: &'t [TokenWithSpan],
    at: usize,
}

impl Reader<'_> {
    fn word(&self) -> Option<String> {
        word(self.tokens.get(self.at))
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let is_there = self.word().as_deref() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn eat_all(&mut self, wanted: &[&str]) -> bool {
        let mut words = wanted.iter().enumerate();
        let is_there = words
            .all(|(nth, word_)| word(self.tokens.get(self.at + nth)).as_deref() == Some(*word_));
        if is_there {
            self.at += wanted.len();
        }
        is_there
    }

    fn eat_token(&mut self, wanted: &Token) -> bool {
        let token = self.tokens.get(self.at);
        let is_there = token.is_some_and(|token| token.token == *wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn end(&self) -> Result<()> {
        match self.tokens.get(self.at) {
            None => Ok(()),
            Some(left) => Err(wrong(&format!("{} means nothing there", left.token))),
        }
    }

    /// The name of a sequence.
    fn name(&mut self) -> Result<String> {
        let (name, length) = leading_name(&self.tokens[self.at..], || {
            wrong("the name of a sequence stands there")
        })?;
        self.at += length;
        Ok(name)
    }

    fn number(&mut self) -> Result<i64> {
        let is_negative = self.eat_token(&Token::Minus);
        if !is_negative {
            self.eat_token(&Token::Plus);
        }
        let token = self.tokens.get(self.at).map(|token| &token.token);
        let Some(Token::Number(digits, _)) = token else {
            return Err(wrong("a number stands there"));
        };
        self.at += 1;
        let sign = if is_negative { "-" } else { "" };
        format!("{sign}{digits}").parse().map_err(|_| {
            Error::invalid(format!("{sign}{digits} is not a number of a sequence"))
                .with_sqlstate("22003")
        })
    }

    fn options(&mut self) -> Result<SequenceOptions> {
        let mut options = SequenceOptions::default();
        while let Some(word) = self.word() {
            self.at += 1;
            self.option(&word, &mut options)?;
        }
        Ok(options)
    }

    /// The option that begins with a word, which was read.
    fn option(&mut self, first: &str, options: &mut SequenceOptions) -> Result<()> {
        match first {
            "AS" => options.data_type = Some(self.data_type()?),
            "INCREMENT" => {
                self.eat("BY");
                options.increment = Some(self.number()?);
            }
            "START" => {
                self.eat("WITH");
                options.start = Some(self.number()?);
            }
            "RESTART" => {
                let next = self.tokens.get(self.at).map(|token| &token.token);
                let is_number = matches!(next, Some(Token::Number(..) | Token::Minus));
                let restart = match self.eat("WITH") || is_number {
                    true => Restart::With(self.number()?),
                    false => Restart::AtStart,
                };
                options.restart = Some(restart);
            }
            "MINVALUE" => options.min = Some(Bound::At(self.number()?)),
            "MAXVALUE" => options.max = Some(Bound::At(self.number()?)),
            "CACHE" => {
                if self.number()? < 1 {
                    return Err(wrong("CACHE takes a number above 0").with_sqlstate("22023"));
                }
            }
            "CYCLE" => options.cycle = Some(true),
            "NO" if self.eat("MINVALUE") => options.min = Some(Bound::OfType),
            "NO" if self.eat("MAXVALUE") => options.max = Some(Bound::OfType),
            "NO" if self.eat("CYCLE") => options.cycle = Some(false),
            "OWNED" if self.eat("BY") => options.owned_by = Some(self.owner()?),
            "SEQUENCE" if self.eat("NAME") => options.name = Some(self.name()?),
            _ => return Err(wrong(&format!("{first} means nothing there"))),
        }
        Ok(())
    }

    fn data_type(&mut self) -> Result<DataType> {
        let named = self.word();
        self.at += 1;
        match named.as_deref() {
            Some("SMALLINT" | "INT2") => Ok(DataType::Int16),
            Some("INTEGER" | "INT" | "INT4") => Ok(DataType::Int32),
            Some("BIGINT" | "INT8") => Ok(DataType::Int64),
            _ => Err(
                Error::invalid("a sequence is of SMALLINT, INTEGER or BIGINT")
                    .with_sqlstate("22023"),
            ),
        }
    }

    /// A column with its table, or NONE.
    fn owner(&mut self) -> Result<OwnedBy> {
        if self.eat("NONE") {
            return Ok(OwnedBy::Nothing);
        }
        let usage = || wrong("OWNED BY table.column, or OWNED BY NONE");
        let mut parts = Vec::new();
        loop {
            let token = self.tokens.get(self.at).ok_or_else(usage)?;
            let Token::Word(name) = &token.token else {
                return Err(usage());
            };
            parts.push(name.to_ident(token.span));
            self.at += 1;
            if !self.eat_token(&Token::Period) {
                break;
            }
        }
        let column = parts.pop().ok_or_else(usage)?;
        if parts.is_empty() {
            return Err(usage());
        }
        let table = parts.into_iter().map(ObjectNamePart::Identifier).collect();
        Ok(OwnedBy::Column {
            table: table_name(&ObjectName(table))?,
            column: folded(&column),
        })
    }
}
