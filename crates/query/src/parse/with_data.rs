//! WITH DATA and WITH NO DATA, behind the query of CREATE TABLE ... AS and of CREATE MATERIALIZED
//! VIEW: sqlparser reads neither. A view is never without its rows; pg_dump writes WITH NO DATA
//! behind each all the same.
//!
//! Changes tokens and does nothing else.

use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::words::spelt;

/// Takes WITH DATA and WITH NO DATA out of the tokens of a statement; tells whether a table, or a
/// view, is asked for without the rows of its query.
pub(super) fn take(tokens: &mut Vec<TokenWithSpan>) -> bool {
    let first = tokens.first().map(|first| spelt(&first.token));
    if !first.is_some_and(|first| first.eq_ignore_ascii_case("create")) {
        return false;
    }
    let words = tokens.iter().map(|token| spelt(&token.token));
    let words: Vec<String> = words.map(|word| word.to_ascii_uppercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_view = words.starts_with(&["CREATE", "MATERIALIZED", "VIEW"]);
    let is_table = words.contains(&"TABLE") && words.contains(&"AS");
    if !is_view && !is_table {
        return false;
    }
    match words.as_slice() {
        [.., "WITH", "NO", "DATA"] => {
            tokens.truncate(tokens.len() - 3);
            true
        }
        [.., "WITH", "DATA"] => {
            tokens.truncate(tokens.len() - 2);
            false
        }
        _ => false,
    }
}
