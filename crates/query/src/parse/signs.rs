//! Signs behind operators, as PostgreSQL reads them: `k>-1` is `k > -1`. An operator ends in a sign
//! only where it holds one of `~ ! @ # % ^ & | ?` or a backtick.
//!
//! ```text
//!   k >=-5     Custom(">=-") 5     ->     GtEq  Minus  5
//! ```
//!
//! Rewrites sqlparser's tokens and does nothing else.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// What lets an operator end in a sign.
const MARKS: [char; 10] = ['~', '!', '@', '#', '%', '^', '&', '|', '`', '?'];

/// Takes the signs off operators that can't end in them.
pub(super) fn split(dialect: &dyn Dialect, tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if let Token::CustomBinaryOperator(operator) = &tokens[at].token
            && let Some(parts) = parts(dialect, operator)
        {
            let span = tokens[at].span;
            let parts = parts.into_iter().map(|token| TokenWithSpan { token, span });
            tokens.splice(at..=at, parts);
        }
        at += 1;
    }
}

/// An operator, and the signs behind it.
fn parts(dialect: &dyn Dialect, operator: &str) -> Option<Vec<Token>> {
    if operator.contains(MARKS) {
        return None;
    }
    let alone = operator.trim_end_matches(['+', '-']);
    let signs = &operator[alone.len()..];
    if alone.is_empty() || signs.is_empty() {
        return None;
    }
    let mut parts = Tokenizer::new(dialect, alone).tokenize().ok()?;
    parts.extend(signs.chars().map(|sign| match sign {
        '+' => Token::Plus,
        _ => Token::Minus,
    }));
    Some(parts)
}
