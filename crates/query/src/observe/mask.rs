//! A statement's text without the constants in it: no value of a row, no password.
//!
//! Reads the text with the parser's own tokens; what these can't read is left out whole.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

/// The most characters that are shown.
const SHOWN_MAX: usize = 2_000;

/// What is shown for a constant.
const MASK: &str = "?";

/// The text with a question mark for each constant, in one line and cut to a bounded length.
pub fn masked(sql: &str) -> String {
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize() else {
        return "(a text that can't be read)".to_owned();
    };
    let mut text = String::new();
    for token in tokens {
        if text.len() >= SHOWN_MAX {
            text.truncate(text.floor_char_boundary(SHOWN_MAX));
            text.push_str(" ...");
            break;
        }
        match token {
            // Comments may hold anything.
            Token::Whitespace(
                Whitespace::Space
                | Whitespace::Newline
                | Whitespace::Tab
                | Whitespace::SingleLineComment { .. }
                | Whitespace::MultiLineComment(_),
            ) => {
                if !text.is_empty() && !text.ends_with(' ') {
                    text.push(' ');
                }
            }
            Token::EOF => {}
            // Names, operators and brackets tell no values; everything else is taken for one.
            Token::Word(word) => text.push_str(&word.to_string()),
            token if is_plain(&token) => text.push_str(&token.to_string()),
            _ => text.push_str(MASK),
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// Whether a token is a sign or a parameter's name.
fn is_plain(token: &Token) -> bool {
    let text = token.to_string();
    let sign = |c: char| c.is_ascii_punctuation() && !matches!(c, '\'' | '"' | '`');
    matches!(token, Token::Placeholder(_)) || text.chars().all(sign)
}

/// The words of a statement, past blanks, comments and signs.
pub(super) fn words(sql: &str) -> impl Iterator<Item = &str> {
    let mut rest = sql;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '-' && c != '/');
            if let Some(comment) = rest.strip_prefix("--") {
                rest = comment.split_once('\n').map_or("", |(_, after)| after);
            } else if let Some(comment) = rest.strip_prefix("/*") {
                rest = comment.split_once("*/").map_or("", |(_, after)| after);
            } else if rest.starts_with(['-', '/']) {
                rest = &rest[1..];
            } else {
                break;
            }
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}
