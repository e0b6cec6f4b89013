//! What the list of a query's SELECT shows otherwise than the same expressions mean elsewhere.
//!
//! | written                                    | planned                                   |
//! | ------------------------------------------ | ----------------------------------------- |
//! | `SELECT 't'::regclass`                     | the name of what has that number          |
//! | `SELECT user`, `current_role`, ...         | the functions, where there is no FROM     |
//!
//! A constant's number is wanted wherever it is compared; an answer shows the name, as it does for
//! columns. A table may have a column that is called `user`: beside one the word is a column's.
//!
//! Rewrites sqlparser's tree and does nothing else.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, Ident, Query, Select, SelectItem, Value,
};

use super::by_name;
use super::rewrite::{call, each_select, first_argument, null, parts};
use crate::parse::folded;

/// Words that are functions without brackets, and these functions. Those that the planner reads so
/// by itself are not here.
const WORDS: [(&str, &str); 3] = [
    ("current_role", "current_role"),
    ("current_schema", "current_schema"),
    ("user", "current_user"),
];

/// Rewrites the list of a whole query.
pub(super) fn rewrite(query: &mut Query) {
    each_select(&mut query.body, &mut |select| {
        names(select);
        words(select);
    });
}

/// Shows the names of what is only shown.
fn names(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && let Some(name_of) = name_of(expr)
        {
            *expr = call(name_of, vec![std::mem::replace(expr, null())]);
        }
    }
}

/// What tells the name of what a call finds the number of. Of casts these are the constants alone:
/// of anything else the number is found only where a number is asked for.
fn name_of(expr: &Expr) -> Option<&'static str> {
    let Expr::Function(function) = expr else {
        return None;
    };
    let is_constant = || {
        let argument = first_argument(function)?;
        matches!(argument, Expr::Value(ref value) if value.value != Value::Null).then_some(())
    };
    let called = parts(&function.name).pop()?;
    let mut all = by_name::ALL.iter();
    let by = all.find(|by| [by.oid, by.to].contains(&called.as_str()))?;
    match called == by.oid {
        true => is_constant().map(|()| by.name),
        false => Some(by.name),
    }
}

/// Calls the functions that are written as words.
fn words(select: &mut Select) {
    if !select.from.is_empty() {
        return;
    }
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &mut *item
        else {
            continue;
        };
        let Some((word, function)) = word(expr) else {
            continue;
        };
        *expr = call(function, Vec::new());
        if let SelectItem::UnnamedExpr(expr) = item {
            *item = SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: Ident::with_quote('"', word),
            };
        }
    }
}

/// The word that an expression is, and the function that it means.
fn word(expr: &Expr) -> Option<(&'static str, &'static str)> {
    let written = match expr {
        Expr::Identifier(name) if name.quote_style.is_none() => folded(name),
        Expr::Function(function) if function.args == FunctionArguments::None => {
            parts(&function.name).pop()?
        }
        _ => return None,
    };
    WORDS.into_iter().find(|(word, _)| *word == written)
}
