//! Columns of a subquery in FROM that share their name: the name alone means none of them. The
//! planner takes the first.
//!
//! ```text
//!   SELECT a FROM (SELECT 1 AS a, 2 AS a) AS t       refused
//!   SELECT * FROM (SELECT 1 AS a, 2 AS a) AS t       as it is
//! ```
//!
//! Looks at sqlparser's tree and does nothing else.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, Visitor,
};
use lazybase_model::{Error, Result};

use super::folded;
use crate::planner::column_names;
use crate::text_places::at_span;
use crate::walk::visit;

/// Refuses a SELECT that names what two columns of one of its subqueries are called.
///
/// # Errors
/// `Invalid` (42702).
pub(super) fn in_select(select: &Select) -> Result<()> {
    let factors = select.from.iter().flat_map(|table| {
        let joined = table.joins.iter().map(|join| &join.relation);
        std::iter::once(&table.relation).chain(joined)
    });
    let repeated: Vec<Repeated> = factors.filter_map(repeated_in).collect();
    if repeated.is_empty() {
        return Ok(());
    }
    let mut names = Names {
        repeated: &repeated,
        depth: 0,
    };
    let mut found = visit(&select.projection, &mut names);
    for condition in select.selection.iter().chain(&select.having) {
        found = match found {
            ControlFlow::Continue(()) => visit(condition, &mut names),
            broken => broken,
        };
    }
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => {
            let error = Error::invalid(format!("column {:?} is ambiguous", folded(&name)))
                .with_detail("the subquery gives two columns of that name")
                .with_hint("give one of them another name with AS")
                .with_sqlstate("42702");
            Err(at_span(error, name.span))
        }
    }
}

/// What a subquery in FROM calls two of its columns.
struct Repeated {
    called: String,
    names: HashSet<String>,
}

fn repeated_in(factor: &TableFactor) -> Option<Repeated> {
    let TableFactor::Derived {
        subquery,
        alias: Some(alias),
        ..
    } = factor
    else {
        return None;
    };
    if !alias.columns.is_empty() {
        return None;
    }
    let mut known = HashSet::new();
    let names = first_select(&subquery.body)?.projection.iter();
    let names = names
        .filter_map(name_of)
        .map(|name| (known.insert(name.clone()), name));
    let names: HashSet<String> = names
        .filter(|(is_new, _)| !is_new)
        .map(|(_, name)| name)
        .collect();
    let called = folded(&alias.name);
    (!names.is_empty()).then_some(Repeated { called, names })
}

/// The SELECT that names the columns of a query.
fn first_select(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => first_select(&query.body),
        SetExpr::SetOperation { left, .. } => first_select(left),
        _ => None,
    }
}

fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(expr) => {
            Some(column_names::of(expr)).filter(|name| name != column_names::NAMELESS)
        }
        _ => None,
    }
}

struct Names<'r> {
    repeated: &'r [Repeated],
    /// In how many queries the visit is: those have names of their own.
    depth: usize,
}

impl Names<'_> {
    fn is_repeated(&self, table: Option<&Ident>, name: &Ident) -> bool {
        let name = folded(name);
        let mut of = self
            .repeated
            .iter()
            .filter(|repeated| table.is_none_or(|table| folded(table) == repeated.called));
        of.any(|repeated| repeated.names.contains(&name))
    }
}

impl Visitor for Names<'_> {
    type Break = Ident;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Ident> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Ident> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Ident> {
        let found = match expr {
            _ if self.depth > 0 => None,
            Expr::Identifier(name) => Some(name).filter(|name| self.is_repeated(None, name)),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, name] => Some(name).filter(|name| self.is_repeated(Some(table), name)),
                _ => None,
            },
            _ => None,
        };
        match found {
            Some(name) => ControlFlow::Break(name.clone()),
            None => ControlFlow::Continue(()),
        }
    }
}
