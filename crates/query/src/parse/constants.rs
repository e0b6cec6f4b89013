//! Texts that are written in several pieces: with a line's end between them they are one constant.
//!
//! ```text
//!   'a'           'a' 'b'
//!   'b'    'ab'            a syntax error         U&'\0061'   'a'
//! ```
//!
//! Rewrites tokens and does nothing else.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use lazybase_model::{Error, Result};

use crate::error::nul_byte;

/// Puts the pieces of constants together, and takes those with numbered characters for others.
///
/// # Errors
/// `Invalid`: 42601 for two texts on one line, 22021 for one with a NUL.
pub(super) fn join(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // The text that a further piece may stand behind, and whether its line has ended.
    let mut open: Option<(usize, bool)> = None;
    for token in tokens.drain(..) {
        match (&token.token, open) {
            (Token::Whitespace(space), _) => {
                if let Some((_, ended)) = &mut open {
                    *ended |= matches!(
                        space,
                        Whitespace::Newline | Whitespace::SingleLineComment { .. }
                    );
                }
                joined.push(token);
            }
            (Token::SingleQuotedString(piece), Some((place, true))) => {
                joined[place].span.end = token.span.end;
                if let Token::SingleQuotedString(text)
                | Token::EscapedStringLiteral(text)
                | Token::UnicodeStringLiteral(text)
                | Token::NationalStringLiteral(text) = &mut joined[place].token
                {
                    text.push_str(piece);
                }
                open = Some((place, false));
            }
            (Token::SingleQuotedString(_), Some((_, false))) => {
                return Err(Error::invalid("two texts stand side by side")
                    .with_hint("write 'a' || 'b', or one text on a line of its own")
                    .with_sqlstate("42601"));
            }
            (constant, _) => {
                let goes_on = matches!(
                    constant,
                    Token::SingleQuotedString(_)
                        | Token::EscapedStringLiteral(_)
                        | Token::UnicodeStringLiteral(_)
                        | Token::NationalStringLiteral(_)
                );
                open = goes_on.then_some((joined.len(), false));
                joined.push(token);
            }
        }
    }
    for token in &mut joined {
        if text_of(&token.token).is_some_and(|text| text.contains('\0')) {
            return Err(nul_byte());
        }
        if let Token::UnicodeStringLiteral(text) = &mut token.token {
            token.token = Token::SingleQuotedString(std::mem::take(text));
        }
    }
    *tokens = joined;
    Ok(())
}

fn text_of(token: &Token) -> Option<&str> {
    match token {
        Token::SingleQuotedString(text)
        | Token::EscapedStringLiteral(text)
        | Token::UnicodeStringLiteral(text)
        | Token::NationalStringLiteral(text) => Some(text),
        Token::DollarQuotedString(quoted) => Some(&quoted.value),
        _ => None,
    }
}
