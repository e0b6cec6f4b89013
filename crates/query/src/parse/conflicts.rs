//! ON CONFLICT behind a SELECT that ends in a value: the parser would take ON for the name of that
//! column.
//!
//! ```text
//!   INSERT INTO t SELECT 1, 'a' ON CONFLICT DO NOTHING
//!   INSERT INTO t SELECT 1, 'a' LIMIT ALL ON CONFLICT DO NOTHING
//! ```
//!
//! Rewrites tokens; nothing of what it adds is left in the parser's tree.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Ends the list of the last SELECT before ON CONFLICT, where nothing else does.
pub(super) fn tokens(tokens: &mut Vec<TokenWithSpan>) {
    let Some(at) = in_list(tokens) else {
        return;
    };
    let span = tokens[at].span;
    let all = ["LIMIT", "ALL"].map(|word| TokenWithSpan {
        token: Token::make_keyword(word),
        span,
    });
    tokens.splice(at..at, all);
}

/// Where an ON CONFLICT stands in the list of a SELECT.
fn in_list(tokens: &[TokenWithSpan]) -> Option<usize> {
    let keyword = |at: usize| match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let (mut depth, mut is_insert, mut is_list) = (0_usize, false, false);
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            _ => match keyword(at) {
                Keyword::INSERT => is_insert = true,
                Keyword::SELECT => is_list = is_insert,
                Keyword::ON if keyword(at + 1) == Keyword::CONFLICT => {
                    return is_list.then_some(at);
                }
                // It is a comparison.
                Keyword::FROM if at > 0 && keyword(at - 1) == Keyword::DISTINCT => {}
                Keyword::FROM
                | Keyword::WHERE
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::WINDOW
                | Keyword::ORDER
                | Keyword::LIMIT
                | Keyword::OFFSET
                | Keyword::FETCH => is_list = false,
                _ => {}
            },
        }
    }
    None
}
