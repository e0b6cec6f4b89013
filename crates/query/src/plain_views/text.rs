//! The query of a plain view as it would be written today: the text that it was made with, where
//! what it names is called otherwise by now.
//!
//! ```text
//!   FROM t             t is called u            FROM u AS t
//!   FROM t AS x        column b is called c     FROM (SELECT a, c AS b FROM t) AS x
//!   FROM t, with *     a column was added       FROM (SELECT a, b FROM t) AS t
//!   FROM t, with c     a column c was added     the same
//! ```
//!
//! Reads definitions and texts; pure. What the text names where WITH gives the name is left as it
//! is. Hidden columns of a table in parentheses are not shown: a text that names some of a table
//! whose columns were renamed can't be written so.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{ControlFlow, Range};

use datafusion::sql::sqlparser::ast::{Query, TableFactor, Visitor};
use lazybase_model::{Table, UsedTable, ViewQuery};

use crate::definition::{identifier, text as quoted};
use crate::parse::named::byte_of;
use crate::parse::{self, Text, folded, table_name};
use crate::visible::Visible;
use crate::walk::visit;

/// The query of a view, under the names that its columns have.
pub(crate) fn definition(visible: &Visible, view: &Table) -> String {
    let Some(query) = &view.query else {
        return String::new();
    };
    let text = as_of_now(visible, query);
    match query.renamed {
        false => text,
        true => format!(
            "SELECT * FROM ({text}) AS {} ({})",
            identifier(&view.name),
            columns_of(view)
        ),
    }
}

/// The statements that make a view, each with the name of what it makes.
pub(crate) fn statements(visible: &Visible, view: &Table) -> Vec<(String, String)> {
    let name = identifier(&view.name);
    let (text, columns) = match &view.query {
        Some(query) if query.renamed => {
            let columns = format!(" ({})", columns_of(view));
            (as_of_now(visible, query), columns)
        }
        _ => (definition(visible, view), String::new()),
    };
    let mut made = vec![format!("CREATE VIEW {name}{columns} AS {text}")];
    if let Some(comment) = &view.comment {
        made.push(format!("COMMENT ON VIEW {name} IS {}", quoted(comment)));
    }
    for column in &view.columns {
        if let Some(comment) = &column.comment {
            let (column, comment) = (identifier(&column.name), quoted(comment));
            made.push(format!("COMMENT ON COLUMN {name}.{column} IS {comment}"));
        }
    }
    made.into_iter()
        .map(|text| (view.name.clone(), text))
        .collect()
}

fn columns_of(view: &Table) -> String {
    let columns = view.columns.iter().map(|column| identifier(&column.name));
    columns.collect::<Vec<_>>().join(", ")
}

fn as_of_now(visible: &Visible, query: &ViewQuery) -> String {
    let text = &query.text;
    let lower = text.to_lowercase();
    let knows_all = lower.contains('*') || lower.contains("natural");
    // What comes later under a name that the text has could be meant by it.
    let would_see = |name: &str| knows_all || lower.contains(&name.to_lowercase());
    let changed = query.uses.iter().filter_map(|used| {
        let now = visible.relation_of(used.table)?;
        Some((used.name.as_str(), in_from(used, &now, &would_see)?))
    });
    let changed: BTreeMap<&str, String> = changed.collect();
    if changed.is_empty() {
        return text.clone();
    }
    let mut finder = Finder {
        text,
        scopes: Vec::new(),
        of_queries: HashMap::new(),
        found: BTreeMap::new(),
    };
    // It was read when the view was made.
    if let Ok(unbound) = parse::read(text)
        && let Text::Sql(tree) = &unbound.text
    {
        let done = visit(&**tree, &mut finder);
        debug_assert!(done.is_continue(), "nothing ends the visit");
    }
    let mut written = text.clone();
    for (range, called, has_alias) in finder.found.into_values().rev() {
        if let Some(now) = changed.get(called.as_str()) {
            let alias = match has_alias {
                true => String::new(),
                false => format!(" AS {}", identifier(&called)),
            };
            written.replace_range(range, &format!("{now}{alias}"));
        }
    }
    written
}

/// What stands in FROM today for something that a text names; `None` where the text is as right as
/// it was. `would_see` says whether a column that came later could be meant.
fn in_from(used: &UsedTable, now: &Table, would_see: &dyn Fn(&str) -> bool) -> Option<String> {
    let name = identifier(&now.name);
    let shown = &now.columns[..now.visible_columns()];
    let then = |id| used.columns.iter().find(|column| column.id == id);
    let renamed = shown
        .iter()
        .any(|column| then(column.id).is_some_and(|then| then.name != column.name));
    let added = shown
        .iter()
        .any(|column| then(column.id).is_none() && would_see(&column.name));
    if renamed || added {
        let known = shown.iter().filter_map(|column| {
            let then = identifier(&then(column.id)?.name);
            let now = identifier(&column.name);
            Some(match then == now {
                true => now,
                false => format!("{now} AS {then}"),
            })
        });
        let known = known.collect::<Vec<_>>().join(", ");
        return Some(format!("(SELECT {known} FROM {name})"));
    }
    (now.name != used.name).then_some(name)
}

/// Where a text names something, what it calls it, and whether an alias follows.
type Named = (Range<usize>, String, bool);

/// Finds the tables in FROM that WITH gives no name to.
struct Finder<'t> {
    text: &'t str,
    /// What WITH names where the visit is, the innermost last.
    scopes: Vec<BTreeSet<String>>,
    /// The same of queries that are yet to come, by where they are in memory: those of a WITH know
    /// only what it names before them.
    of_queries: HashMap<usize, BTreeSet<String>>,
    /// By where they begin.
    found: BTreeMap<usize, Named>,
}

fn place_of(query: &Query) -> usize {
    std::ptr::from_ref(query).addr()
}

impl Visitor for Finder<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let around = self.of_queries.remove(&place_of(query));
        let around = around.or_else(|| self.scopes.last().cloned());
        let mut scope = around.unwrap_or_default();
        if let Some(with) = &query.with {
            let names = with.cte_tables.iter();
            let names = names.map(|table| folded(&table.alias.name));
            if with.recursive {
                scope.extend(names.clone());
            }
            for (table, name) in with.cte_tables.iter().zip(names) {
                self.of_queries
                    .insert(place_of(&table.query), scope.clone());
                scope.insert(name);
            }
        }
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
        else {
            return ControlFlow::Continue(());
        };
        let parts: Option<Vec<_>> = name.0.iter().map(|part| part.as_ident()).collect();
        let (Some(parts), Ok(called)) = (parts, table_name(name)) else {
            return ControlFlow::Continue(());
        };
        let of_with =
            parts.len() == 1 && (self.scopes.last()).is_some_and(|scope| scope.contains(&called));
        if let (Some(first), Some(last), false) = (parts.first(), parts.last(), of_with)
            && first.span.start.line > 0
        {
            let begin = byte_of(self.text, first.span.start);
            let end = byte_of(self.text, last.span.end);
            if begin < end {
                self.found
                    .insert(begin, (begin..end, called, alias.is_some()));
            }
        }
        ControlFlow::Continue(())
    }
}
