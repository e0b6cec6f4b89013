//! How deep the tree of a statement may be. Operators in a row make one that leans to the left:
//! the parser reads them in a loop, but whatever copies, prints or drops the tree calls itself for
//! each of them, on the stack of a thread that others share.
//!
//! Reads tokens; pure. Invariant DEP-1: no statement takes a process's stack.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use lazybase_model::{Error, Result};

/// The most operators in a row. A thread's stack holds several times as many.
const OPERATORS_MAX: usize = 2_000;
/// The most named queries of a statement, of which each may read the one before.
const NAMED_QUERIES_MAX: usize = 250;

/// Refuses a statement whose tree would be too deep.
///
/// # Errors
/// `Invalid` (54001).
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    // One for each bracket that is open.
    let mut in_a_row = vec![0_usize];
    let mut named = 0;
    let mut after_as = false;
    for token in tokens {
        if matches!(token.token, Token::Whitespace(_)) {
            continue;
        }
        named += usize::from(after_as && token.token == Token::LParen);
        after_as = is_word(&token.token, &[Keyword::AS, Keyword::MATERIALIZED]);
        match &token.token {
            Token::LParen => in_a_row.push(0),
            Token::RParen if in_a_row.len() > 1 => drop(in_a_row.pop()),
            Token::Comma | Token::SemiColon => set(&mut in_a_row, 0),
            token if is_word(token, &[Keyword::WHEN, Keyword::THEN, Keyword::ELSE]) => {
                set(&mut in_a_row, 0);
            }
            token if is_operator(token) => {
                let row = in_a_row.last().map_or(1, |row| row + 1);
                if row > OPERATORS_MAX {
                    return Err(too_deep(&format!(
                        "more than {OPERATORS_MAX} operators stand in a row"
                    )));
                }
                set(&mut in_a_row, row);
            }
            _ => {}
        }
        if named > NAMED_QUERIES_MAX {
            return Err(too_deep(&format!(
                "it has more than {NAMED_QUERIES_MAX} named queries"
            )));
        }
    }
    Ok(())
}

fn set(in_a_row: &mut [usize], to: usize) {
    if let Some(row) = in_a_row.last_mut() {
        *row = to;
    }
}

fn too_deep(what: &str) -> Error {
    Error::invalid("the statement is too deep")
        .with_detail(what)
        .with_hint("x IN (...), a join with VALUES, or several statements say the same")
        .with_sqlstate("54001")
}

fn is_word(token: &Token, words: &[Keyword]) -> bool {
    let Token::Word(word) = token else {
        return false;
    };
    word.quote_style.is_none() && words.contains(&word.keyword)
}

/// Whether a token makes one more level of what stands before it. Comparisons don't stand in rows.
fn is_operator(token: &Token) -> bool {
    const WORDS: [Keyword; 9] = [
        Keyword::AND,
        Keyword::OR,
        Keyword::NOT,
        Keyword::IS,
        Keyword::UNION,
        Keyword::EXCEPT,
        Keyword::INTERSECT,
        Keyword::JOIN,
        Keyword::COLLATE,
    ];
    let is_plain = matches!(
        token,
        Token::Word(_)
            | Token::Number(..)
            | Token::Char(_)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::HexStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period
            | Token::Colon
            | Token::RBracket
            | Token::LBrace
            | Token::RBrace
            | Token::RParen
            | Token::EOF
            | Token::Eq
            | Token::DoubleEq
            | Token::Neq
            | Token::Lt
            | Token::Gt
            | Token::LtEq
            | Token::GtEq
    );
    is_word(token, &WORDS) || !is_plain
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn is_refused(sql: &str) -> bool {
        let dialect = PostgreSqlDialect {};
        let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location();
        let checked = check(&tokens.expect("it has tokens"));
        checked.is_err_and(|error| error.sqlstate() == "54001")
    }

    #[test]
    fn rows_of_operators_end_somewhere() {
        for (one, between) in [("1 = 1", " AND "), ("1", "+"), ("SELECT 1", " UNION ALL ")] {
            let all = |count: usize| vec![one; count].join(between);
            assert!(!is_refused(&all(OPERATORS_MAX)), "{between}");
            assert!(is_refused(&all(OPERATORS_MAX + 2)), "{between}");
        }
        assert!(is_refused(&format!("SELECT 1{}", "::INT".repeat(3_000))));
        let named = |count: usize| vec!["a AS (SELECT 1)"; count].join(", ");
        assert!(!is_refused(&named(NAMED_QUERIES_MAX)));
        assert!(is_refused(&named(NAMED_QUERIES_MAX + 1)));
    }

    #[test]
    fn lists_may_be_as_long_as_they_are() {
        for long in [
            format!("INSERT INTO t VALUES {}", vec!["(1, -2)"; 9_000].join(", ")),
            format!("k IN ({})", vec!["- 1"; 9_000].join(", ")),
            format!(
                "CASE {} END",
                "WHEN a + 1 = 2 AND b THEN c + 1 ".repeat(9_000)
            ),
            vec!["(a AND b)"; 1_900].join(" OR "),
        ] {
            assert!(!is_refused(&long), "{}", &long[..40]);
        }
    }
}
