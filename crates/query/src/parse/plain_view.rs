//! CREATE VIEW v AS query, DROP VIEW, ALTER VIEW ... RENAME TO: plain views, which are queries
//! under names. The query stays text: it is read where it is looked at, and each time it is run.
//!
//! Reads tokens and trees and does nothing else.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lazybase_model::{Error, Result};

use super::create::checked_name;
use super::named::{byte_of, from_place};
use super::{Failure, Statement, folded, table_name, taken, unsupported};
use crate::temporary::own_name;
use crate::text_places::with_end;

/// What is asked of plain views.
#[derive(Debug, Clone)]
pub(crate) enum PlainViewStatement {
    Create(CreatePlainView),
    Drop {
        names: Vec<String>,
        if_exists: bool,
        /// Whether views that read them go too.
        cascade: bool,
    },
    Rename {
        name: String,
        if_exists: bool,
        to: String,
    },
}

/// CREATE VIEW.
#[derive(Debug, Clone)]
pub(crate) struct CreatePlainView {
    pub(crate) name: String,
    /// Whether it takes the place of a view of its name.
    pub(crate) or_replace: bool,
    pub(crate) if_not_exists: bool,
    /// The names that were given to its columns; none, or those of the first columns.
    pub(crate) columns: Vec<String>,
    /// The query.
    pub(crate) text: String,
    /// The same, behind as many blanks as there are characters before it, so that errors name its
    /// places as they are in the whole statement.
    pub(crate) placed: String,
}

/// A statement about plain views that is read by its tokens, if these are one.
pub(super) fn statement(
    dialect: &dyn Dialect,
    sql: &str,
    tokens: &[TokenWithSpan],
) -> Result<Option<Statement>, Failure> {
    let found = if is(tokens, 0, "CREATE") {
        create(dialect, sql, tokens)?
    } else if is(tokens, 0, "ALTER") && is(tokens, 1, "VIEW") {
        rename(dialect, &tokens[2..])?
    } else {
        None
    };
    Ok(found.map(|found| Statement::PlainView(Box::new(found))))
}

/// Whether a word stands at a place, and not in quotes.
fn is(tokens: &[TokenWithSpan], at: usize, expected: &str) -> bool {
    match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) => {
            word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected)
        }
        _ => false,
    }
}

fn create(
    dialect: &dyn Dialect,
    sql: &str,
    tokens: &[TokenWithSpan],
) -> Result<Option<PlainViewStatement>, Failure> {
    let is = |at: usize, expected: &str| is(tokens, at, expected);
    let or_replace = is(1, "OR") && is(2, "REPLACE");
    let at = if or_replace { 3 } else { 1 };
    if !is(at, "VIEW") {
        return Ok(None);
    }
    let head = with_end(tokens[at + 1..].to_vec());
    let mut parser = Parser::new(dialect).with_tokens_with_locations(head);
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let mut columns: Vec<Ident> = Vec::new();
    if parser.consume_token(&Token::LParen) {
        columns = parser.parse_comma_separated(Parser::parse_identifier)?;
        parser.expect_token(&Token::RParen)?;
    }
    if parser.parse_keyword(Keyword::WITH) {
        let refused = unsupported("options of a view are not supported");
        return Err(refused
            .with_hint("write CREATE VIEW v AS SELECT ...")
            .into());
    }
    parser.expect_keyword_is(Keyword::AS)?;
    let first = parser.peek_token();
    let last = match tokens.last() {
        Some(last) if first.token != Token::EOF => last,
        _ => {
            parser.expected::<()>("a query", first)?;
            return Ok(None);
        }
    };
    if is(tokens.len() - 2, "CHECK") && is(tokens.len() - 1, "OPTION") {
        let refused = unsupported("CHECK OPTION is not supported");
        return Err(refused.with_detail("nobody writes to a view").into());
    }
    if or_replace && if_not_exists {
        let both = "OR REPLACE and IF NOT EXISTS exclude each other";
        return Err(Error::invalid(both).with_sqlstate("42601").into());
    }
    let placed = from_place(sql, first.span.start);
    let (begin, end) = (byte_of(sql, first.span.start), byte_of(sql, last.span.end));
    Ok(Some(PlainViewStatement::Create(CreatePlainView {
        name: checked_name(own_name(&table_name(&name)?).to_owned())?,
        or_replace,
        if_not_exists,
        columns: columns.iter().map(folded).collect(),
        text: sql[begin..end.max(begin)].to_owned(),
        placed,
    })))
}

/// ALTER VIEW, behind these words: nothing but a new name. `None` for what is said of it elsewhere.
fn rename(
    dialect: &dyn Dialect,
    tokens: &[TokenWithSpan],
) -> Result<Option<PlainViewStatement>, Failure> {
    let mut parser = Parser::new(dialect).with_tokens_with_locations(with_end(tokens.to_vec()));
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    if parser.parse_keyword(Keyword::OWNER) {
        return Ok(None);
    }
    if !parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
        return Err(
            unsupported("of a view nothing can be altered but its name and its owner")
                .with_hint("CREATE OR REPLACE VIEW gives it another query")
                .into(),
        );
    }
    let to = parser.parse_identifier()?;
    let left = parser.peek_token();
    if left.token != Token::EOF {
        parser.expected::<()>("end of statement", left)?;
    }
    Ok(Some(PlainViewStatement::Rename {
        name: table_name(&name)?,
        if_exists,
        to: checked_name(folded(&to))?,
    }))
}

/// DROP VIEW.
///
/// # Errors
/// `Invalid` or `NotFound` for names in schemas that have no views.
pub(super) fn drop(names: &[ObjectName], if_exists: bool, cascade: bool) -> Result<Statement> {
    match names
        .iter()
        .map(table_name)
        .collect::<Result<Vec<String>>>()
    {
        Ok(names) => Ok(Statement::PlainView(Box::new(PlainViewStatement::Drop {
            names,
            if_exists,
            cascade,
        }))),
        // There is nothing in a schema that is not there.
        Err(_) if if_exists => Ok(Statement::Taken(taken::nothing("DROP VIEW", "view", names))),
        Err(error) => Err(error),
    }
}
