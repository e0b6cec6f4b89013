//! Clauses at the end of the one subquery that a SELECT reads, as tools that wrap what users write
//! leave them, or of the query of a COPY: they hold for the whole statement.
//!
//! ```text
//!   SELECT * FROM (SELECT ... FROM t FRESHNESS 0) x LIMIT 200
//!   SELECT * FROM (SELECT ... FROM t) x LIMIT 200 FRESHNESS 0
//! ```
//!
//! Where there is another table, another subquery anywhere, or another SELECT beside it, clauses
//! would hold for what they do not stand at: then they are left there, for the parser to refuse.

use std::ops::Range;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lazybase_model::Result;

use super::{Clauses, take_clauses};

/// Takes the clauses of the subquery off; none where there is no such subquery.
///
/// # Errors
/// As [`take_clauses`].
pub(super) fn take(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<Clauses>> {
    let Some(range) = only_subquery(tokens) else {
        return Ok(None);
    };
    let begin = range.start;
    let mut subquery: Vec<TokenWithSpan> = tokens.drain(range).collect();
    let taken = take_clauses(&mut subquery);
    tokens.splice(begin..begin, subquery);
    taken.map(Some)
}

/// The tokens in the brackets of a subquery that is all that a statement reads.
fn only_subquery(tokens: &[TokenWithSpan]) -> Option<Range<usize>> {
    let open = match keyword(tokens, 0) {
        Keyword::COPY if begins_query(tokens, 1) => 1,
        _ => only_in_from(tokens)?,
    };
    let mut depth = 0_usize;
    let closes = tokens[open..].iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    Some(open + 1..open + closes?)
}

/// Where the bracket of a subquery stands that is all that the one FROM outside of brackets names,
/// if no other bracket has a query in it.
fn only_in_from(tokens: &[TokenWithSpan]) -> Option<usize> {
    let (mut depth, mut outermost) = (0_usize, 0);
    let (mut open, mut names_tables) = (None, false);
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::LParen | Token::LBracket => {
                if depth == 0 {
                    outermost = at;
                }
                depth += 1;
            }
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            _ if depth > 0 => {
                let reads = matches!(keyword(tokens, at), Keyword::SELECT | Keyword::TABLE);
                if reads && open != Some(outermost) {
                    return None;
                }
            }
            Token::Comma if names_tables => return None,
            _ => match keyword(tokens, at) {
                // It is a comparison.
                Keyword::FROM if at > 0 && keyword(tokens, at - 1) == Keyword::DISTINCT => {}
                Keyword::FROM if open.is_none() && begins_query(tokens, at + 1) => {
                    open = Some(at + 1);
                    names_tables = true;
                }
                Keyword::FROM
                | Keyword::JOIN
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT => return None,
                Keyword::WHERE
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::WINDOW
                | Keyword::ORDER
                | Keyword::LIMIT
                | Keyword::OFFSET
                | Keyword::FETCH => names_tables = false,
                _ => {}
            },
        }
    }
    open
}

/// Whether a bracket stands here, and a query in it.
fn begins_query(tokens: &[TokenWithSpan], at: usize) -> bool {
    let is_bracket = |at: usize| {
        let token = tokens.get(at).map(|token| &token.token);
        token == Some(&Token::LParen)
    };
    let begins = matches!(
        keyword(tokens, at + 1),
        Keyword::SELECT | Keyword::WITH | Keyword::VALUES | Keyword::TABLE
    );
    is_bracket(at) && (begins || is_bracket(at + 1))
}

fn keyword(tokens: &[TokenWithSpan], at: usize) -> Keyword {
    match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}
