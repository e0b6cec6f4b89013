//! `pg_temp.t` in FROM as the one name that temporary tables of the session are found under, called
//! `t` in the rest of the statement; and `public.t` the same way, where the session has a temporary
//! table `t`.
//!
//! ```text
//!   FROM pg_temp.t                      ->  FROM "pg_temp.t" AS t
//!   SELECT public.t.k FROM public.t     ->  SELECT t.k FROM "pg_temp.pg_temp.t" AS t
//!   DROP TABLE public.t                 ->  DROP TABLE "pg_temp.pg_temp.t"
//! ```
//!
//! Rewrites tokens and sqlparser's tree and does nothing else. What was read so means the same when
//! the temporary table is gone. Invariant TPN-1: where something else of the statement is called
//! `t`, columns of `public.t` are refused that are said to be of that, for the planner could take
//! them for others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Statement, TableAlias, TableFactor, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};
use lazybase_model::{Error, Result};

use super::subqueries::called;
use super::{CATALOG, SCHEMA, folded, unsupported};
use crate::definition::identifier;
use crate::temporary::{self, PG_TEMP};
use crate::text_places::at_span;
use crate::walk::visit_mut;

/// Rewrites `pg_temp.t` as a table of FROM, or the one that a statement changes.
pub(super) fn in_factor(factor: &mut TableFactor) {
    let TableFactor::Table {
        name,
        alias,
        args: None,
        ..
    } = factor
    else {
        return;
    };
    let [
        ObjectNamePart::Identifier(schema),
        ObjectNamePart::Identifier(table),
    ] = name.0.as_slice()
    else {
        return;
    };
    if folded(schema) != PG_TEMP {
        return;
    }
    let table = folded(table);
    let found_under = Ident::with_quote('"', temporary::of_session(&table));
    name.0 = vec![ObjectNamePart::Identifier(found_under)];
    set_called(alias, &table);
}

/// Gives a table without an alias one.
fn set_called(alias: &mut Option<TableAlias>, name: &str) {
    alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::with_quote('"', name),
        columns: Vec::new(),
        at: None,
    });
}

/// Whether a text may name the schema of all tables.
pub(crate) fn may_name_schema(sql: &str) -> bool {
    let mut parts = sql.as_bytes().windows(SCHEMA.len());
    parts.any(|part| part.eq_ignore_ascii_case(SCHEMA.as_bytes()))
}

/// Where the columns stand that a statement says to be of `public.t`, by the names of such tables.
pub(super) type OfColumns = BTreeMap<String, Span>;

/// Rewrites `public.t` for each name of a temporary table; `None` where there was none.
pub(super) fn in_public(
    tokens: &mut Vec<TokenWithSpan>,
    temporary: &BTreeSet<String>,
) -> Option<OfColumns> {
    if temporary.is_empty() {
        return None;
    }
    // There a column is looked for in the table that stands before it, and in no FROM.
    let of_comment = word(tokens, 0).is_some_and(|first| first == "comment");
    let mut found: Option<OfColumns> = None;
    let mut at = 0;
    while at < tokens.len() {
        if let Some((from, name)) = named_at(tokens, at, temporary) {
            let of_columns = found.get_or_insert_default();
            let span = tokens[from].span.union(&tokens[at + 2].span);
            let meant = match is_point(tokens, at + 3) && !of_comment {
                true => {
                    of_columns.entry(name.clone()).or_insert(span);
                    name
                }
                false => temporary::of_public(&name),
            };
            let token = Token::make_word(&meant, Some('"'));
            drop(tokens.splice(from..at + 3, [TokenWithSpan { token, span }]));
            at = from;
        }
        at += 1;
    }
    found
}

/// Where such a name begins whose schema stands here, and the table's own name.
fn named_at(
    tokens: &[TokenWithSpan],
    at: usize,
    temporary: &BTreeSet<String>,
) -> Option<(usize, String)> {
    if word(tokens, at)? != SCHEMA || !is_point(tokens, at + 1) {
        return None;
    }
    let name = word(tokens, at + 2).filter(|name| temporary.contains(name))?;
    match at.checked_sub(2) {
        Some(before) if is_point(tokens, before + 1) => {
            let of_catalog = word(tokens, before)? == CATALOG;
            of_catalog.then_some((before, name))
        }
        _ => Some((at, name)),
    }
}

fn is_point(tokens: &[TokenWithSpan], at: usize) -> bool {
    tokens
        .get(at)
        .is_some_and(|token| token.token == Token::Period)
}

/// The name that a token is, as SQL folds it.
fn word(tokens: &[TokenWithSpan], at: usize) -> Option<String> {
    match &tokens.get(at)?.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
        Token::Word(word) => Some(word.value.clone()),
        _ => None,
    }
}

/// Lets the tables of FROM that were named so be called by their own names.
///
/// # Errors
/// `Invalid` (0A000) for a column that is said to be of such a table where something else is called
/// so, too: the planner could take it for a column of that.
pub(super) fn call(statement: &mut Statement, of_columns: &OfColumns) -> Result<()> {
    match visit_mut(statement, &mut Caller { of_columns }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Caller<'c> {
    of_columns: &'c OfColumns,
}

impl VisitorMut for Caller<'_> {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let mut own = None;
        if let TableFactor::Table { name, alias, .. } = factor
            && let [ObjectNamePart::Identifier(table)] = name.0.as_slice()
            && let Some(name) = temporary::named_in_public(&table.value)
        {
            set_called(alias, name);
            own = Some(name.to_owned());
        }
        let called = called(factor)
            .map(folded)
            .filter(|name| own.as_ref() != Some(name));
        match called.and_then(|name| self.of_columns.get_key_value(&name)) {
            Some((name, span)) => ControlFlow::Break(at_span(ambiguous(name), *span)),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        // A column of what is called public.
        if let Expr::Identifier(ident) = expr
            && let Some(column) = temporary::named_in_public(&ident.value)
        {
            let part = |name: &str| Ident::with_quote_and_span('"', ident.span, name);
            *expr = Expr::CompoundIdentifier(vec![part(SCHEMA), part(column)]);
        }
        ControlFlow::Continue(())
    }
}

fn ambiguous(name: &str) -> Error {
    let table = format!("{SCHEMA}.{}", identifier(name));
    unsupported(format!(
        "columns of {table} can't be told from those of what else is called {name:?}"
    ))
    .with_hint(format!("give it an alias: FROM {table} AS p, and p.column"))
}
