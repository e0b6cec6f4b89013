//! Functions in FROM that give a row for each part of a text or a JSON, as the lists of the parts.
//!
//! ```text
//!   regexp_split_to_table(x, p)  ->  regexp_split_to_array(x, p)
//!   regexp_matches(x, p, 'g')    ->  regexp_all_matches(x, p, 'g')
//!   string_to_table(x, ',')      ->  string_to_array(x, ',')
//! ```
//!
//! Reads sqlparser's tree and does nothing else.

use datafusion::sql::sqlparser::ast::Expr;

use super::json;
use crate::pg_catalog::rewrite::call;
use crate::planner::patterns::ALL_MATCHES;

/// The functions, and those that give the same as an array.
const FUNCTIONS: [(&str, &str); 3] = [
    ("regexp_split_to_table", "regexp_split_to_array"),
    ("regexp_matches", ALL_MATCHES),
    ("string_to_table", "string_to_array"),
];

/// The lists whose elements a function gives as rows, and what the columns are called; nothing
/// where they are called as the function is.
pub(super) fn lists(
    name: &str,
    arguments: &[Expr],
) -> Option<(Vec<Expr>, &'static [&'static str])> {
    match FUNCTIONS.iter().find(|(known, _)| *known == name) {
        Some((_, array)) => Some((vec![call(array, arguments.to_vec())], &[])),
        None => json::lists(name, arguments),
    }
}
