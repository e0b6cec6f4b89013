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
//! the temporary table is gone.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, ObjectNamePart, Statement, TableAlias, TableFactor, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{CATALOG, SCHEMA, folded};
use crate::temporary::{self, PG_TEMP};
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

/// Rewrites `public.t` for each name of a temporary table; whether there was one.
pub(super) fn in_public(tokens: &mut Vec<TokenWithSpan>, temporary: &BTreeSet<String>) -> bool {
    if temporary.is_empty() {
        return false;
    }
    // There a column is looked for in the table that stands before it, and in no FROM.
    let of_comment = word(tokens, 0).is_some_and(|first| first == "comment");
    let (mut at, mut found) = (0, false);
    while at < tokens.len() {
        if let Some((from, name)) = named_at(tokens, at, temporary) {
            let of_column = is_point(tokens, at + 3) && !of_comment;
            let meant = match of_column {
                true => name,
                false => temporary::of_public(&name),
            };
            let name = TokenWithSpan {
                token: Token::make_word(&meant, Some('"')),
                span: tokens[from].span.union(&tokens[at + 2].span),
            };
            drop(tokens.splice(from..at + 3, [name]));
            (at, found) = (from, true);
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
pub(super) fn call(statement: &mut Statement) {
    struct Caller;
    impl VisitorMut for Caller {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, alias, .. } = factor
                && let [ObjectNamePart::Identifier(table)] = name.0.as_slice()
                && let Some(called) = temporary::named_in_public(&table.value)
            {
                set_called(alias, called);
            }
            ControlFlow::Continue(())
        }
    }
    let _ = visit_mut(statement, &mut Caller);
}
