//! What the list of a query's SELECT shows otherwise than the same expressions mean elsewhere.
//!
//! | written                                    | planned                                   |
//! | ------------------------------------------ | ----------------------------------------- |
//! | `SELECT 't'::regclass`                     | the name of what has that number          |
//! | `SELECT user`, `current_role`, ...         | the functions, where there is no FROM     |
//! | the same anywhere in a query that reads    | the functions                             |
//! | nothing but the system's tables            |                                           |
//!
//! A constant's number is wanted wherever it is compared; an answer shows the name, as it does for
//! columns. A table may have a column that is called `user`: beside one the word is a column's. The
//! system's tables have none.
//!
//! Rewrites sqlparser's tree and does nothing else.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, Ident, Query, Select, SelectItem, TableFactor, Value, Visitor,
};

use super::rewrite::{call, each_select, first_argument, null, parts};
use super::{PG_CATALOG, by_name};
use crate::parse::folded;
use crate::walk::{visit, visit_expressions_mut};

/// The schemas whose tables have no column that is called as one of the words.
const WITHOUT_WORDS: [&str; 2] = [PG_CATALOG, "information_schema"];

/// Words that are functions without brackets, and these functions. Those that the planner reads so
/// by itself are not here.
const WORDS: [(&str, &str); 3] = [
    ("current_role", "current_role"),
    ("current_schema", "current_schema"),
    ("user", "current_user"),
];

/// Rewrites the list of a whole query.
pub(super) fn rewrite(query: &mut Query) {
    let of_system = reads_system_only(query);
    each_select(&mut query.body, &mut |select| {
        names(select);
        if of_system || select.from.is_empty() {
            words(select);
        }
    });
    if of_system {
        let done: ControlFlow<()> = visit_expressions_mut(query, |expr| {
            if let Some((_, function)) = word(expr) {
                *expr = call(function, Vec::new());
            }
            ControlFlow::Continue(())
        });
        debug_assert!(done.is_continue(), "nothing ends the visit");
    }
}

/// Whether a query reads tables of the system or functions, and tables of nothing else.
fn reads_system_only(query: &Query) -> bool {
    let mut read = Read::default();
    let done = visit(query, &mut read);
    debug_assert!(done.is_continue(), "nothing ends the visit");
    read.system && !read.others
}

/// What a query reads.
#[derive(Default)]
struct Read {
    system: bool,
    others: bool,
}

impl Visitor for Read {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table {
                name, args: None, ..
            } => match parts(name).as_slice() {
                [.., schema, _] if WITHOUT_WORDS.contains(&schema.as_str()) => self.system = true,
                _ => self.others = true,
            },
            TableFactor::Table { .. } | TableFactor::Function { .. } => self.system = true,
            _ => {}
        }
        ControlFlow::Continue(())
    }
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
