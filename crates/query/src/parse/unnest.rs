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
    ExcludeSelectItem, Expr, FunctionArg, Ident, Join, JoinConstraint, JoinOperator, ObjectName,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor,
    TableWithJoins, Value, VisitMut, Visitor,
};

use super::elements::{self, series};
use super::folded;
use super::series::{factor, names_series};
use crate::pg_catalog::rewrite::call;
use crate::planner::series::SERIES;
use crate::walk::{visit, visit_expressions_mut};

/// Rewrites the FROM of each SELECT of a query.
pub(super) fn beside_rows(query: &mut Query) {
    match query.body.as_mut() {
        SetExpr::Select(select) => {
            for moved in rewrite(select) {
                columns_again(&mut query.order_by, &moved);
            }
        }
        body => each_select(body),
    }
}

fn each_select(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => drop(rewrite(select)),
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left);
            each_select(right);
        }
        _ => {}
    }
}

fn rewrite(select: &mut Select) -> Vec<Moved> {
    elements::in_from(&mut select.from);
    let mut all = Vec::new();
    while let Some(moved) = next(&mut select.from) {
        columns_again(select, &moved);
        for item in mem::take(&mut select.projection) {
            select.projection.extend(item_again(item, &moved));
        }
        all.push(moved);
    }
    all
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

/// Where elements went: what they were called, and the table that has them now, as columns.
struct Moved {
    called: Ident,
    within: Ident,
    names: Vec<Ident>,
}

/// `x.x` as `a.x`, where the elements of x stand beside the rows of a.
fn columns_again(part: &mut impl VisitMut, moved: &Moved) {
    let done: ControlFlow<()> = visit_expressions_mut(part, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, _] = parts.as_mut_slice()
            && folded(&moved.called) == folded(table)
        {
            *table = moved.within.clone();
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

/// `a.*` without the elements, and `x.*` as they are called now.
fn item_again(mut item: SelectItem, moved: &Moved) -> Vec<SelectItem> {
    let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) =
        &mut item
    else {
        return vec![item];
    };
    let called = name.0.last().and_then(|part| part.as_ident()).map(folded);
    if called.as_deref() == Some(folded(&moved.called).as_str()) {
        let column = |name: &Ident| vec![moved.within.clone(), name.clone()];
        let columns = moved.names.iter().map(column);
        let columns = columns.map(Expr::CompoundIdentifier);
        return columns.map(SelectItem::UnnamedExpr).collect();
    }
    if called.as_deref() == Some(folded(&moved.within).as_str()) {
        let mut names = match options.opt_exclude.take() {
            None => Vec::new(),
            Some(ExcludeSelectItem::Single(name)) => vec![name],
            Some(ExcludeSelectItem::Multiple(names)) => names,
        };
        let others = moved.names.iter().map(|name| vec![name.clone()]);
        names.extend(others.map(ObjectName::from));
        options.opt_exclude = Some(ExcludeSelectItem::Multiple(names));
    }
    vec![item]
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

/// `UNNEST(list, ...) AS called (name, ...)`.
struct Elements {
    called: Ident,
    lists: Vec<(Ident, Expr)>,
    /// The table that the lists name.
    table: Option<String>,
}

impl Elements {
    fn of(factor: &TableFactor) -> Option<Elements> {
        let (called, lists) = match factor {
            TableFactor::UNNEST {
                alias: Some(alias),
                array_exprs,
                with_offset: false,
                with_ordinality: false,
                ..
            } if alias.columns.len() == array_exprs.len() => {
                let names = alias.columns.iter().map(|column| column.name.clone());
                let lists = names.zip(array_exprs.iter().cloned()).collect();
                (alias.name.clone(), lists)
            }
            TableFactor::Table {
                name,
                alias,
                args: Some(given),
                with_ordinality: false,
                ..
            } => of_series(name, &given.args, alias.as_ref())?,
            TableFactor::Function {
                name,
                alias,
                args,
                with_ordinality: false,
                ..
            } => of_series(name, args, alias.as_ref())?,
            _ => return None,
        };
        let mut named = Named::default();
        for (_, list) in &lists {
            if visit(list, &mut named).is_break() {
                return None;
            }
        }
        if !named.some || named.tables.len() > 1 {
            return None;
        }
        Some(Elements {
            called,
            lists,
            table: named.tables.pop_first(),
        })
    }
}

/// A series as a list with its name, and what the rows are called.
fn of_series(
    function: &ObjectName,
    given: &[FunctionArg],
    alias: Option<&TableAlias>,
) -> Option<(Ident, Vec<(Ident, Expr)>)> {
    if !names_series(function) {
        return None;
    }
    let (called, name) = match alias {
        None => (Ident::new(SERIES), Ident::new(SERIES)),
        Some(TableAlias { name, columns, .. }) => match columns.as_slice() {
            [] => (name.clone(), name.clone()),
            [column] => (name.clone(), column.name.clone()),
            _ => return None,
        },
    };
    Some((called, vec![(name, series(given.to_vec()))]))
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
    let mut beside = factor(&format!("(SELECT *, 1 AS x FROM t) AS {within}"))?;
    let TableFactor::Derived { subquery, .. } = &mut beside else {
        return None;
    };
    let SetExpr::Select(select) = subquery.body.as_mut() else {
        return None;
    };
    select.projection.truncate(1);
    let lists = elements.lists.iter().cloned();
    let items = lists.map(|(alias, list)| SelectItem::ExprWithAlias {
        expr: call("unnest", vec![list]),
        alias,
    });
    select.projection.extend(items);
    mem::swap(&mut select.from.first_mut()?.relation, table);
    *table = beside;
    let names = elements.lists.iter().map(|(name, _)| name.clone());
    Some(Moved {
        called: elements.called.clone(),
        within,
        names: names.collect(),
    })
}
