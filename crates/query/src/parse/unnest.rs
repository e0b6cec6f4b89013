//! The elements of a column's lists, beside their rows: `t CROSS JOIN UNNEST(t.l) AS x`, which the
//! planner reads as a query of its own about `t`.
//!
//! ```text
//!   FROM t AS a CROSS JOIN UNNEST(a.l) AS x   ->   FROM (SELECT *, unnest(l) AS x FROM t) AS a
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else. Invariant UNN-1: only lists of a column that a
//! table of the same FROM has are looked at; anything else stays for the planner.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, JoinConstraint, JoinOperator, Query, Select,
    SetExpr, TableAlias, TableFactor, TableWithJoins, visit_expressions_mut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::folded;

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
    let mut moved: Vec<Moved> = Vec::new();
    for at in 0..select.from.len() {
        let (before, rest) = select.from.split_at_mut(at);
        if let [first, ..] = rest {
            moved.extend(in_joins(first));
        }
        let Some(elements) = rest.first().and_then(|from| match from.joins.is_empty() {
            true => Elements::of(&from.relation),
            false => None,
        }) else {
            continue;
        };
        let only = before.len() == 1;
        let beside = |from: &mut TableWithJoins| {
            let joins = from.joins.len();
            match only || elements.table.is_some() {
                true => put(&elements, from, joins),
                false => None,
            }
        };
        if let Some(now) = before.iter_mut().find_map(beside) {
            moved.push(now);
            select.from.remove(at);
            // One a FROM: what follows has other places now.
            break;
        }
    }
    if !moved.is_empty() {
        name_again(select, &moved);
    }
}

/// Where elements went: what they were called, and the table that has them now.
struct Moved {
    called: Ident,
    within: Ident,
}

/// `x.x` as `a.x`, where the elements of x stand beside the rows of a.
fn name_again(select: &mut Select, moved: &[Moved]) {
    let done: ControlFlow<()> = visit_expressions_mut(select, |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, _] = parts.as_mut_slice()
            && let Some(now) = moved
                .iter()
                .find(|now| folded(&now.called) == folded(table))
        {
            *table = now.within.clone();
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

fn in_joins(from: &mut TableWithJoins) -> Vec<Moved> {
    let (mut moved, mut at) = (Vec::new(), 0);
    while at < from.joins.len() {
        let join = &from.joins[at];
        let every_row = matches!(
            join.join_operator,
            JoinOperator::CrossJoin(JoinConstraint::None)
                | JoinOperator::Join(JoinConstraint::None)
                | JoinOperator::Inner(JoinConstraint::None)
        );
        let elements = Elements::of(&join.relation).filter(|_| every_row);
        match elements.and_then(|elements| put(&elements, from, at)) {
            Some(now) => {
                moved.push(now);
                from.joins.remove(at);
            }
            None => at += 1,
        }
    }
    moved
}

/// `UNNEST(table.column) AS called (name)`.
struct Elements {
    called: Ident,
    table: Option<String>,
    column: Ident,
    name: Ident,
}

impl Elements {
    fn of(factor: &TableFactor) -> Option<Elements> {
        let (list, alias) = match factor {
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_ordinality: false,
                ..
            } => match array_exprs.as_slice() {
                [list] => (list, alias),
                _ => return None,
            },
            TableFactor::Table {
                name,
                alias,
                args: Some(given),
                with_ordinality: false,
                ..
            } => match given.args.as_slice() {
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))]
                    if folded(name.0.last()?.as_ident()?) == "unnest" =>
                {
                    (list, alias)
                }
                _ => return None,
            },
            _ => return None,
        };
        let (table, column) = match list {
            Expr::Identifier(column) => (None, column.clone()),
            Expr::CompoundIdentifier(parts) => {
                let (column, table) = parts.split_last()?;
                (table.last().map(folded), column.clone())
            }
            _ => return None,
        };
        let (called, name) = match alias {
            Some(TableAlias { name, columns, .. }) => match columns.as_slice() {
                [] => (name.clone(), name.clone()),
                [column] => (name.clone(), column.name.clone()),
                _ => return None,
            },
            None => (Ident::new("unnest"), Ident::new("unnest")),
        };
        Some(Elements {
            called,
            table,
            column,
            name,
        })
    }
}

/// Puts the elements beside the rows of their table, if it is one of these: the first, and so many
/// that are joined to it.
fn put(elements: &Elements, from: &mut TableWithJoins, joins: usize) -> Option<Moved> {
    let only = joins == 0;
    let joined = from.joins[..joins].iter_mut();
    let joined = joined.map(|join| &mut join.relation);
    let mut factors = std::iter::once(&mut from.relation).chain(joined);
    match &elements.table {
        // Which table is meant is plain where there is one.
        None if !only => None,
        None => factors.next().and_then(|factor| replace(elements, factor)),
        Some(table) => {
            let named = |factor: &&mut TableFactor| {
                name_of(factor).is_some_and(|name| folded(&name) == *table)
            };
            let factor = factors.find(named)?;
            replace(elements, factor)
        }
    }
}

fn name_of(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } => match alias {
            Some(alias) => Some(alias.name.clone()),
            None => name.0.last()?.as_ident().cloned(),
        },
        _ => None,
    }
}

fn replace(elements: &Elements, factor: &mut TableFactor) -> Option<Moved> {
    let within = name_of(factor)?;
    let TableFactor::Table { name, .. } = factor else {
        return None;
    };
    let Elements {
        called,
        column,
        name: of_elements,
        ..
    } = elements;
    let text = format!("(SELECT *, unnest({column}) AS {of_elements} FROM {name}) AS {within}");
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(&text);
    *factor = parser.ok()?.parse_table_factor().ok()?;
    let called = called.clone();
    Some(Moved { called, within })
}
