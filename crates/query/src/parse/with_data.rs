//! WITH DATA and WITH NO DATA, behind the query of CREATE TABLE ... AS and of CREATE MATERIALIZED
//! VIEW: sqlparser reads neither.
//!
//! Changes tokens and does nothing else.

use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use lazybase_model::Result;

use super::unsupported;
use super::words::spelt;

/// Takes WITH DATA and WITH NO DATA out of the tokens of a statement; tells whether a table is to
/// be made without the rows of its query.
///
/// # Errors
/// `Invalid` (0A000) for WITH NO DATA of a view.
pub(super) fn take(tokens: &mut Vec<TokenWithSpan>) -> Result<bool> {
    let first = tokens.first().map(|first| spelt(&first.token));
    if !first.is_some_and(|first| first.eq_ignore_ascii_case("create")) {
        return Ok(false);
    }
    let words = tokens.iter().map(|token| spelt(&token.token));
    let words: Vec<String> = words.map(|word| word.to_ascii_uppercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_view = words.starts_with(&["CREATE", "MATERIALIZED", "VIEW"]);
    let is_table = words.contains(&"TABLE") && words.contains(&"AS");
    if !is_view && !is_table {
        return Ok(false);
    }
    match words.as_slice() {
        [.., "WITH", "NO", "DATA"] if is_view => {
            Err(unsupported("a view is never without its rows")
                .with_detail("it is built in the background, and its table answers until then")
                .with_hint("leave WITH NO DATA out"))
        }
        [.., "WITH", "NO", "DATA"] => {
            tokens.truncate(tokens.len() - 3);
            Ok(true)
        }
        [.., "WITH", "DATA"] => {
            tokens.truncate(tokens.len() - 2);
            Ok(false)
        }
        _ => Ok(false),
    }
}
