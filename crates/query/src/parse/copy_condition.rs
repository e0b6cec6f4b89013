//! WHERE of a COPY FROM, which no dialect knows: it is taken off the statement and read as that of
//! a query, so that all may stand in it that may stand there, but for queries.
//!
//! Reads tokens and takes some; writes nothing.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, Statement as Ast, Visitor};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lazybase_model::{Error, Result};

use super::{Failure, Text, named, parameters, postgres, read_with, unsupported};
use crate::text_places::{at_span, with_end};
use crate::walk::visit;

/// What the condition is read as the condition of.
const QUERY: &str = "SELECT 1";

/// Takes the condition off the tokens of a COPY FROM; `sql` is the statement's text.
pub(super) fn take(
    dialect: &dyn Dialect,
    sql: &str,
    tokens: &mut Vec<TokenWithSpan>,
) -> Result<Option<Box<Expr>>, Failure> {
    if !tokens.first().is_some_and(|first| is_word(first, "COPY")) {
        return Ok(None);
    }
    let Some(at) = outside(tokens, "WHERE") else {
        return Ok(None);
    };
    let condition = tokens.split_off(at);
    if outside(tokens, "FROM").is_none() {
        return Err(unsupported("COPY TO takes no WHERE")
            .with_hint("write COPY (SELECT ... FROM t WHERE ...) TO ...")
            .into());
    }
    check_alone(dialect, &condition)?;
    read(dialect, sql, &condition).map(Some)
}

/// The place of a word outside of all brackets.
fn outside(tokens: &[TokenWithSpan], word: &str) -> Option<usize> {
    let mut depth = 0_usize;
    tokens.iter().position(|token| match &token.token {
        Token::LParen => {
            depth += 1;
            false
        }
        Token::RParen => {
            depth = depth.saturating_sub(1);
            false
        }
        _ => depth == 0 && is_word(token, word),
    })
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Whether nothing stands behind WHERE but an expression without queries.
fn check_alone(dialect: &dyn Dialect, condition: &[TokenWithSpan]) -> Result<(), Failure> {
    struct Queries;
    impl Visitor for Queries {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    let mut tokens = condition[1..].to_vec();
    postgres::tokens(&mut tokens);
    let mut parser = Parser::new(dialect).with_tokens_with_locations(with_end(tokens));
    let expr = parser.parse_expr()?;
    let left = parser.peek_token();
    if left.token != Token::EOF {
        parser.expected::<()>("end of statement", left)?;
    }
    match visit(&expr, &mut Queries) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(unsupported("no query can stand in COPY's WHERE")
            .with_hint(
                "COPY all rows into a temporary table, then INSERT INTO t SELECT ... FROM it \
                 WHERE ...",
            )
            .into()),
    }
}

/// The condition as statements have them once they are read.
fn read(
    dialect: &dyn Dialect,
    sql: &str,
    condition: &[TokenWithSpan],
) -> Result<Box<Expr>, Failure> {
    let text = named::from_place(sql, condition[0].span.start);
    // Errors name its places as they are in the whole statement.
    let text = match text.strip_prefix(&" ".repeat(QUERY.len())) {
        Some(rest) => format!("{QUERY}{rest}"),
        None => format!("{QUERY}{text}"),
    };
    let wrong = || Failure::Known(Error::internal("the condition was seen to be one"));
    let Text::Sql(tree) = read_with(dialect, &text)?.text else {
        return Err(wrong());
    };
    if parameters::count(&tree)? > 0 {
        let error = Error::invalid("COPY takes no parameters").with_sqlstate("42P02");
        return Err(at_span(error, parameters::first(&tree)).into());
    }
    let Ast::Query(query) = *tree else {
        return Err(wrong());
    };
    match *query.body {
        SetExpr::Select(select) => select.selection.map(Box::new).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}
