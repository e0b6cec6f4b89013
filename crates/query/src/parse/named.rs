//! PREPARE, EXECUTE and DEALLOCATE: statements that a session keeps under names.
//!
//! Reads tokens and trees; writes nothing. What PREPARE keeps stays text, so that it is read with
//! all that any other statement may have, its clauses too.

use datafusion::sql::sqlparser::ast::{DataType, Expr, ObjectNamePart, Statement as Ast};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use lazybase_model::{Error, Result};

use super::{Failure, Statement, folded, unsupported};
use crate::text_places::with_end;

/// What is asked of the statements that a session keeps.
#[derive(Debug, Clone)]
pub(crate) enum NamedStatement {
    Prepare {
        name: String,
        /// Those of the first parameters; the others are found.
        types: Vec<DataType>,
        /// The statement, behind as many blanks as there are characters before it, so that errors
        /// name its places as they are in the whole text.
        text: String,
    },
    Execute(Execution),
    /// All of them where there is no name.
    Deallocate(Option<String>),
}

/// EXECUTE.
#[derive(Debug, Clone)]
pub(crate) struct Execution {
    pub(crate) name: String,
    pub(crate) arguments: Vec<Expr>,
}

/// PREPARE, if the tokens are one.
pub(super) fn prepare(
    dialect: &dyn Dialect,
    sql: &str,
    tokens: &[TokenWithSpan],
) -> Result<Option<NamedStatement>, Failure> {
    let Some((first, rest)) = tokens.split_first() else {
        return Ok(None);
    };
    let begins = matches!(&first.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("prepare"));
    if !begins {
        return Ok(None);
    }
    if let [word, id] = rest
        && matches!(&word.token, Token::Word(word) if word.keyword == Keyword::TRANSACTION)
        && matches!(id.token, Token::SingleQuotedString(_))
    {
        return Err(unsupported("PREPARE TRANSACTION is not supported").into());
    }
    let mut parser = Parser::new(dialect).with_tokens_with_locations(with_end(rest.to_vec()));
    let name = folded(&parser.parse_identifier()?);
    let mut types = Vec::new();
    if parser.consume_token(&Token::LParen) {
        types = parser.parse_comma_separated(Parser::parse_data_type)?;
        parser.expect_token(&Token::RParen)?;
    }
    parser.expect_keyword_is(Keyword::AS)?;
    let next = parser.peek_token();
    if next.token == Token::EOF {
        return Err(usage("PREPARE name [(type, ...)] AS statement").into());
    }
    let text = from_place(sql, next.span.start);
    Ok(Some(NamedStatement::Prepare { name, types, text }))
}

/// What an EXECUTE asks for.
///
/// # Errors
/// `Invalid` (42601) for what other databases call so.
pub(crate) fn execution(statement: Ast) -> Result<Execution> {
    let wrong = || usage("EXECUTE name [(value, ...)]");
    let Ast::Execute {
        immediate: false,
        name: Some(name),
        parameters,
        has_parentheses,
        into,
        using,
        output: false,
        default: false,
    } = statement
    else {
        return Err(wrong());
    };
    let is_plain =
        into.is_empty() && using.is_empty() && (has_parentheses || parameters.is_empty());
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] if is_plain => Ok(Execution {
            name: folded(name),
            arguments: parameters,
        }),
        _ => Err(wrong()),
    }
}

/// EXECUTE, or DEALLOCATE of a name or of ALL.
pub(super) fn of_tree(statement: Ast) -> Result<Statement> {
    let named = match statement {
        Ast::Deallocate { name, .. } => {
            let all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
            NamedStatement::Deallocate((!all).then(|| folded(&name)))
        }
        other => NamedStatement::Execute(execution(other)?),
    };
    Ok(Statement::Named(Box::new(named)))
}

/// The text from a place on, behind blanks in the place of what stands before it.
pub(super) fn from_place(sql: &str, place: Location) -> String {
    let (before, text) = sql.split_at(byte_of(sql, place));
    let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
    before.chars().map(blank).chain(text.chars()).collect()
}

/// At which byte of a text a place lies; its end for one behind it.
pub(crate) fn byte_of(sql: &str, place: Location) -> usize {
    let index =
        |counted: u64| usize::try_from(counted).map_or(usize::MAX, |at| at.saturating_sub(1));
    let lines = sql.split_inclusive('\n').take(index(place.line));
    let line: usize = lines.map(str::len).sum();
    let column = sql[line..].char_indices().nth(index(place.column));
    column.map_or(sql.len(), |(at, _)| line + at)
}

fn usage(form: &str) -> Error {
    Error::invalid("syntax error")
        .with_hint(format!("write {form}"))
        .with_sqlstate("42601")
}
