//! `pg_temp.t` in FROM as the one name that temporary tables of the session are found under, called
//! `t` in the rest of the statement.
//!
//! Rewrites sqlparser's tree and does nothing else.

use datafusion::sql::sqlparser::ast::{Ident, ObjectNamePart, TableAlias, TableFactor};

use super::folded;
use crate::temporary::{self, PG_TEMP};

/// Rewrites a table of FROM, or the one that a statement changes.
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
    alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::with_quote('"', table),
        columns: Vec::new(),
        at: None,
    });
}
