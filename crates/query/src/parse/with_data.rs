//! WITH DATA and WITH NO DATA, behind the query of CREATE TABLE ... AS and of CREATE MATERIALIZED
//! VIEW: sqlparser reads neither.
//!
//! Changes tokens and does nothing else.

use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use lazybase_model::Result;

use super::unsupported;
use super::words::spelt;

/// Takes WITH DATA out of the tokens of a statement: that is what it does anyway.
///
/// # Errors
/// `Invalid` (0A000) for WITH NO DATA.
pub(super) fn take(tokens: &mut Vec<TokenWithSpan>) -> Result<()> {
    let first = tokens.first().map(|first| spelt(&first.token));
    if !first.is_some_and(|first| first.eq_ignore_ascii_case("create")) {
        return Ok(());
    }
    let words = tokens.iter().map(|token| spelt(&token.token));
    let words: Vec<String> = words.map(|word| word.to_ascii_uppercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_view = words.starts_with(&["CREATE", "MATERIALIZED", "VIEW"]);
    let is_table = words.contains(&"TABLE") && words.contains(&"AS");
    if !is_view && !is_table {
        return Ok(());
    }
    match words.as_slice() {
        [.., "WITH", "NO", "DATA"] if is_view => {
            Err(unsupported("a view is never without its rows")
                .with_detail("it is built in the background, and its table answers until then")
                .with_hint("leave WITH NO DATA out"))
        }
        [.., "WITH", "NO", "DATA"] => Err(unsupported("WITH NO DATA is not supported")
            .with_hint("LIMIT 0 behind the query makes the table without rows")),
        [.., "WITH", "DATA"] => {
            tokens.truncate(tokens.len() - 2);
            Ok(())
        }
        _ => Ok(()),
    }
}
