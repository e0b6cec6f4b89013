//! The elements of PostgreSQL's vectors, the lists in `pg_index` of a key's columns: they are
//! counted from 0, and those of all other lists from 1.
//!
//! ```text
//!   indkey[0], i.indkey[k - 1]       ->  indkey[0 + 1], i.indkey[k - 1 + 1]
//!   generate_subscripts(indkey, 1)   ->  from 0, as array_lower(indkey, 1)
//!   array_upper(indkey, 1)           ->  one less
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else, for columns whose names only `pg_index` has
//! (FCT-1), in statements that name something of the catalogue.

use datafusion::sql::sqlparser::ast::{AccessExpr, BinaryOperator, Expr, Ident, Subscript};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::rewrite::{computed, null, number};
use crate::parse::folded;
use crate::temporary::PG_TEMP;

/// The columns that are vectors.
const VECTORS: [&str; 4] = ["indkey", "indcollation", "indclass", "indoption"];

/// Whether a word is the name of something in the catalogue, where no temporary table is. In a
/// statement without one, whatever is called as a column there is a user's own.
pub(crate) fn is_of_catalog(token: &TokenWithSpan) -> bool {
    let Token::Word(word) = &token.token else {
        return false;
    };
    let begins = |with: &str| {
        let begin = word.value.get(..with.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(with))
    };
    begins("pg_") && !begins(PG_TEMP)
}

/// Whether an expression is a vector, or one that is cast to a list.
pub(crate) fn is_vector(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_vector(inner),
        Expr::Identifier(name) => names_vector(name),
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(names_vector),
        _ => false,
    }
}

fn names_vector(name: &Ident) -> bool {
    VECTORS.contains(&folded(name).as_str())
}

/// Counts the elements of a vector as those of a list.
pub(super) fn count_as_lists(root: &Expr, access: &mut [AccessExpr]) {
    let Some((AccessExpr::Subscript(subscript), before)) = access.split_last_mut() else {
        return;
    };
    let of_vector = match before.last() {
        None => is_vector(root),
        Some(AccessExpr::Dot(field)) => is_vector(field),
        Some(AccessExpr::Subscript(_)) => false,
    };
    if !of_vector {
        return;
    }
    match subscript {
        Subscript::Index { index } => increase(index),
        Subscript::Slice {
            lower_bound,
            upper_bound,
            ..
        } => lower_bound.iter_mut().chain(upper_bound).for_each(increase),
    }
}

fn increase(bound: &mut Expr) {
    let from_zero = std::mem::replace(bound, null());
    *bound = computed(from_zero, BinaryOperator::Plus, number(1));
}
