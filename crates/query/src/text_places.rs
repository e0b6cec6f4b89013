//! Where in a statement's text an error stands, so that clients can point there.
//!
//! ```text
//!   what is no SQL               the token that is not expected, or the end
//!   what the planner refuses     the place that it tells of the name, or the expression
//!   a name that means nothing    the only token that is that name, where nobody tells its place
//!   what is no value             the constant, where nothing else can have made the value
//! ```
//!
//! Reads texts; pure. Invariant PLC-1: a place lies in the text that the user gave, never inside of
//! a constant or a comment; where a name stands twice, and nobody tells which is meant, there is
//! none.

use datafusion::common::Span;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{
    Location, Span as ParserSpan, Token, TokenWithSpan, Tokenizer,
};
use lazybase_model::{Error, TextPlace};

use crate::parse::folded;

#[cfg(test)]
mod tests;

/// A place as the parser has it; none of a token that stands nowhere.
pub(crate) fn of_location(location: Location) -> Option<TextPlace> {
    let Location { line, column } = location;
    (line > 0).then_some(TextPlace { line, column })
}

/// A place as the planner has it.
pub(crate) fn of_span(span: Span) -> TextPlace {
    TextPlace {
        line: span.start.line,
        column: span.start.column,
    }
}

/// An error of what stands here, be it nowhere.
pub(crate) fn at_span(error: Error, span: ParserSpan) -> Error {
    match of_location(span.start) {
        Some(place) => error.with_place(place),
        None => error,
    }
}

/// An error of the token at this index, or of the end of the tokens.
pub(crate) fn at_token(error: Error, tokens: &[TokenWithSpan], index: usize) -> Error {
    match (tokens.get(index), tokens.last()) {
        (Some(token), _) => at_span(error, token.span),
        (None, Some(last)) => at_span(error, ParserSpan::new(last.span.end, last.span.end)),
        (None, None) => error,
    }
}

/// The tokens of a part of a statement, with its end behind them: what is missing is missing there.
pub(crate) fn with_end(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if let Some(end) = tokens.last().map(|last| last.span.end) {
        tokens.push(TokenWithSpan::at(Token::EOF, end, end));
    }
    tokens
}

/// Reads a text that the database itself has written: nothing in it has a place in a user's.
pub(crate) fn of_template(text: &str) -> Result<Parser<'static>, ParserError> {
    let dialect: &'static PostgreSqlDialect = &PostgreSqlDialect {};
    let tokens = Tokenizer::new(dialect, text).tokenize()?;
    Ok(Parser::new(dialect).with_tokens(tokens))
}

/// An error of a statement, with its place in the text in which the statement begins at `start`.
pub(crate) fn locate(error: Error, statement: &str, start: TextPlace) -> Error {
    if error.place().is_some() {
        return error.behind(start);
    }
    let named = error.name().map(|name| (name, error.sqlstate()));
    match named.and_then(|(name, sqlstate)| of_name(name, sqlstate, statement)) {
        Some(place) => error.with_place(place).behind(start),
        None => error,
    }
}

/// The place of a name in a statement, with what qualifies it, where only one token can be what an
/// error of this SQLSTATE means. `t.*` stands for the table before a point and a star.
fn of_name(name: &str, sqlstate: &str, statement: &str) -> Option<TextPlace> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, statement).tokenize_with_location();
    let mut tokens = tokens.ok()?;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let (name, of_star) = match name.strip_suffix(".*") {
        Some(table) => (table, true),
        None => (name, false),
    };
    let mut found = tokens.iter().enumerate().filter(|(at, token)| {
        let next = |places: usize| tokens.get(at + places).map(|next| &next.token);
        let is_table = next(1) == Some(&Token::Period);
        let fits = match sqlstate {
            "42883" => next(1) == Some(&Token::LParen),
            _ if of_star => is_table && next(2) == Some(&Token::Mul),
            _ => !is_table,
        };
        fits && is_name(token, name)
    });
    let (first, _) = found.next()?;
    let mut begin = match (found.next(), found.next()) {
        (None, _) => first,
        // Of what is there twice, the second is too much.
        (Some((second, _)), None) if sqlstate == "42701" => second,
        _ => return None,
    };
    // A name begins with its schema, or its table.
    while begin >= 2
        && tokens[begin - 1].token == Token::Period
        && matches!(tokens[begin - 2].token, Token::Word(_))
    {
        begin -= 2;
    }
    of_location(tokens[begin].span.start)
}

fn is_name(token: &TokenWithSpan, name: &str) -> bool {
    match &token.token {
        Token::Word(word) => folded(&word.to_ident(token.span)) == name,
        _ => false,
    }
}
