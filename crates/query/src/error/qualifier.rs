//! Qualifiers of columns that no table of a FROM goes by, as PostgreSQL tells of them.
//!
//! Reads the statement once more; no I/O.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{ObjectName, TableAlias, TableFactor, Visitor};
use lazybase_model::Error;

use crate::parse::{Text, folded, read};
use crate::walk::visit;

/// What a statement's tables are called, whatever part of it they stand in.
#[derive(Default)]
struct Tables {
    /// What they go by.
    called: Vec<String>,
    /// Those that go by an alias alone, with that.
    aliased: Vec<(String, String)>,
    /// All that are named, be it not in a FROM.
    named: Vec<String>,
}

/// The error of a column whose qualifier is no table's; `None` where some table of the statement
/// goes by it, or the statement can't be read.
pub(super) fn unknown(qualifier: &str, sql: &str) -> Option<Error> {
    let Text::Sql(tree) = read(sql).ok()?.text else {
        return None;
    };
    let mut tables = Tables::default();
    let _ = visit(&*tree, &mut tables);
    if tables.called.iter().any(|called| called == qualifier) {
        return None;
    }
    let mut aliased = tables.aliased.iter();
    let error = match aliased.find(|(table, _)| table == qualifier) {
        Some((_, alias)) => {
            let said = format!("invalid reference to FROM-clause entry for table {qualifier:?}");
            Error::not_found(said).with_hint(format!(
                "perhaps {alias:?} is meant: a table that has an alias goes by that alone"
            ))
        }
        // What INSERT writes to, and what it was given.
        None if qualifier == "excluded" || tables.named.iter().any(|name| name == qualifier) => {
            return None;
        }
        None => Error::not_found(format!("missing FROM-clause entry for table {qualifier:?}")),
    };
    Some(error.with_sqlstate("42P01"))
}

impl Tables {
    fn table(&mut self, name: &ObjectName, alias: Option<&TableAlias>) {
        let name = last(name);
        match alias {
            Some(alias) => {
                let alias = folded(&alias.name);
                self.aliased.extend(name.map(|name| (name, alias.clone())));
                self.called.push(alias);
            }
            None => self.called.extend(name),
        }
    }
}

impl Visitor for Tables {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.named.extend(last(name));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, alias, .. } | TableFactor::Function { name, alias, .. } => {
                self.table(name, alias.as_ref());
            }
            TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => {
                let alias = alias.as_ref().map(|alias| folded(&alias.name));
                self.called.extend(alias);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(folded)
}
