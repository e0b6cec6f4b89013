//! The elements of lists beside the rows that the lists are of: `t CROSS JOIN UNNEST(t.l) AS x`,
//! which the planner reads as a query of its own about `t`.
//!
//! ```text
//!   FROM t AS a CROSS JOIN UNNEST(a.l) AS x
//!     ->  FROM (SELECT *, unnest(a.l) AS x FROM t AS a) AS a
//!   FROM t, generate_series(1, t.n) AS g (x)
//!     ->  FROM (SELECT *, unnest(generate_series(1, t.n)) AS x FROM t) AS t
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else. Invariant UNN-1: only lists of what one table
//! of the same FROM has are looked at, and only where each of its rows comes once for each
//! element; anything else stays for the planner.

use std::collections::BTreeSet;
use std::mem;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Join,
    JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, Value,
    Visit, Visitor, visit_expressions_mut,
};

use super::folded;
use super::series::{factor, names_series};
use crate::pg_catalog::rewrite::call;
use crate::planner::series::SERIES;

/// Rewrites the FROM of each SELECT of a query.
pub(super) fn beside_rows(query: &mut Query) {
    each_select(&mut query.body);
}

fn each_select(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => rewrite(select),
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left);
            each_select(right);
        }
        _ => {}
    }
}

fn rewrite(select: &mut Select) {
    while let Some(moved) = next(&mut select.from) {
        name_again(select, &moved);
    }
}

/// Puts the first elements that belong to a table before them beside the rows of that table.
fn next(from: &mut Vec<TableWithJoins>) -> Option<Moved> {
    for at in 0..from.len() {
        if let Some(moved) = from.get_mut(at).and_then(in_joins) {
            return Some(moved);
        }
        let Some(elements) = from.get(at).and_then(|from| match from.joins.is_empty() {
            true => Elements::of(&from.relation),
            false => None,
        }) else {
            continue;
        };
        let before = &mut from[..at];
        let only = before.len() == 1;
        let beside = |from: &mut TableWithJoins| {
            let joins = from.joins.len();
            match only || elements.table.is_some() {
                true => put(&elements, from, joins),
                false => None,
            }
        };
        if let Some(moved) = before.iter_mut().find_map(beside) {
            from.remove(at);
            return Some(moved);
        }
    }
    None
}

/// Where elements went: what they were called, and the table that has them now, as a column.
struct Moved {
    called: Ident,
    within: Ident,
    name: Ident,
}

/// `x.x` as `a.x`, where the elements of x stand beside the rows of a, and `a.*` without them.
fn name_again(select: &mut Select, moved: &Moved) {
    let done: ControlFlow<()> = visit_expressions_mut(select, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, _] = parts.as_mut_slice()
            && folded(&moved.called) == folded(table)
        {
            *table = moved.within.clone();
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
    for item in &mut select.projection {
        let SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(name),
            options,
        ) = item
        else {
            continue;
        };
        let called = name.0.last().and_then(|part| part.as_ident()).map(folded);
        if called.as_deref() == Some(folded(&moved.called).as_str()) {
            let column = vec![moved.within.clone(), moved.name.clone()];
            *item = SelectItem::UnnamedExpr(Expr::CompoundIdentifier(column));
        } else if called.as_deref() == Some(folded(&moved.within).as_str()) {
            let mut names = match options.opt_exclude.take() {
                None => Vec::new(),
                Some(ExcludeSelectItem::Single(name)) => vec![name],
                Some(ExcludeSelectItem::Multiple(names)) => names,
            };
            names.push(ObjectName::from(vec![moved.name.clone()]));
            options.opt_exclude = Some(ExcludeSelectItem::Multiple(names));
        }
    }
}

fn in_joins(from: &mut TableWithJoins) -> Option<Moved> {
    for at in 0..from.joins.len() {
        let elements = match from.joins.get(at) {
            Some(join) if is_every_row(join) => Elements::of(&join.relation),
            _ => None,
        };
        if let Some(elements) = elements
            && let Some(moved) = put(&elements, from, at)
        {
            from.joins.remove(at);
            return Some(moved);
        }
    }
    None
}

/// Whether a join lets all rows of both sides meet.
fn is_every_row(join: &Join) -> bool {
    match &join.join_operator {
        JoinOperator::CrossJoin(JoinConstraint::None) => true,
        JoinOperator::Join(JoinConstraint::On(condition))
        | JoinOperator::Inner(JoinConstraint::On(condition)) => {
            matches!(condition, Expr::Value(value) if value.value == Value::Boolean(true))
        }
        _ => false,
    }
}

/// `UNNEST(list) AS called (name)`.
struct Elements {
    called: Ident,
    name: Ident,
    list: Expr,
    /// The table that the list names.
    table: Option<String>,
}

impl Elements {
    fn of(factor: &TableFactor) -> Option<Elements> {
        let (list, alias, otherwise) = match factor {
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_ordinality: false,
                ..
            } => match array_exprs.as_slice() {
                [list] => (list.clone(), alias, "unnest"),
                _ => return None,
            },
            TableFactor::Table {
                name,
                alias,
                args: Some(given),
                with_ordinality: false,
                ..
            } => {
                let (list, otherwise) = list(name, &given.args)?;
                (list, alias, otherwise)
            }
            TableFactor::Function {
                name,
                alias,
                args,
                with_ordinality: false,
                ..
            } => {
                let (list, otherwise) = list(name, args)?;
                (list, alias, otherwise)
            }
            _ => return None,
        };
        let (called, name) = match alias {
            Some(TableAlias { name, columns, .. }) => match columns.as_slice() {
                [] => (name.clone(), name.clone()),
                [column] => (name.clone(), column.name.clone()),
                _ => return None,
            },
            None => (Ident::new(otherwise), Ident::new(otherwise)),
        };
        let mut named = Named::default();
        if list.visit(&mut named).is_break() || !named.some || named.tables.len() > 1 {
            return None;
        }
        Some(Elements {
            called,
            name,
            list,
            table: named.tables.pop_first(),
        })
    }
}

/// The list whose elements a function gives as rows, and what these are called.
fn list(function: &ObjectName, given: &[FunctionArg]) -> Option<(Expr, &'static str)> {
    if names_series(function) {
        let mut series = call(SERIES, Vec::new());
        if let Expr::Function(function) = &mut series
            && let FunctionArguments::List(list) = &mut function.args
        {
            list.args = given.to_vec();
        }
        return Some((series, SERIES));
    }
    match (function.0.as_slice(), given) {
        ([name], [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))])
            if folded(name.as_ident()?) == "unnest" =>
        {
            Some((list.clone(), "unnest"))
        }
        _ => None,
    }
}

/// The tables whose columns an expression names. A query in it ends the visit.
#[derive(Default)]
struct Named {
    tables: BTreeSet<String>,
    /// Whether it names a column at all.
    some: bool,
}

impl Visitor for Named {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(_) => self.some = true,
            Expr::CompoundIdentifier(parts) => {
                self.some = true;
                let table = parts.len().checked_sub(2).and_then(|at| parts.get(at));
                self.tables.extend(table.map(folded));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Puts the elements beside the rows of their table, if it is one of these: the first, and so many
/// that are joined to it.
fn put(elements: &Elements, from: &mut TableWithJoins, joins: usize) -> Option<Moved> {
    let only = joins == 0;
    let named = |factor: &TableFactor| match &elements.table {
        // Which table is meant is plain where there is one.
        None => only,
        Some(table) => name_of(factor).is_some_and(|name| folded(&name) == *table),
    };
    let place = match named(&from.relation) {
        true => 0,
        false => {
            1 + from.joins[..joins]
                .iter()
                .position(|j| named(&j.relation))?
        }
    };
    // A row that a join adds, of NULLs, has no elements: beside the table it would not be seen.
    let inner = |join: &Join| {
        matches!(
            &join.join_operator,
            JoinOperator::Join(on) | JoinOperator::Inner(on) | JoinOperator::CrossJoin(on)
                if *on != JoinConstraint::Natural
        )
    };
    let keeps = |join: &Join| {
        let left = matches!(
            &join.join_operator,
            JoinOperator::Left(on) | JoinOperator::LeftOuter(on) if *on != JoinConstraint::Natural
        );
        left || inner(join)
    };
    let (to, after) = from.joins[..joins].split_at(place);
    if !to.last().is_none_or(inner) || !after.iter().all(keeps) {
        return None;
    }
    let factor = match place.checked_sub(1) {
        None => &mut from.relation,
        Some(at) => &mut from.joins.get_mut(at)?.relation,
    };
    replace(elements, factor)
}

fn name_of(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { name, alias, .. } => match alias {
            Some(alias) => Some(alias.name.clone()),
            None => name.0.last()?.as_ident().cloned(),
        },
        TableFactor::Derived {
            lateral: false,
            alias,
            ..
        } => alias.as_ref().map(|alias| alias.name.clone()),
        _ => None,
    }
}

fn replace(elements: &Elements, table: &mut TableFactor) -> Option<Moved> {
    let within = name_of(table)?;
    let Elements {
        called, name, list, ..
    } = elements;
    let mut beside = factor(&format!("(SELECT *, 1 AS {name} FROM t) AS {within}"))?;
    let TableFactor::Derived { subquery, .. } = &mut beside else {
        return None;
    };
    let SetExpr::Select(select) = subquery.body.as_mut() else {
        return None;
    };
    let [_, SelectItem::ExprWithAlias { expr, .. }] = select.projection.as_mut_slice() else {
        return None;
    };
    *expr = call("unnest", vec![list.clone()]);
    mem::swap(&mut select.from.first_mut()?.relation, table);
    *table = beside;
    Some(Moved {
        called: called.clone(),
        within,
        name: name.clone(),
    })
}
