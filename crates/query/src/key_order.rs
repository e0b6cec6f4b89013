//! Rows in the order of the key where a query asks for the first few from a key on, and does not
//! say in which order: `SELECT ... WHERE k >= 'a' LIMIT 10`, as stores of keys and values have it.
//!
//! Reads and writes sqlparser's query; no I/O. Invariant ORD-1: only a query whose answer may be
//! any of its rows is changed, and to one whose answer is among them.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, OrderBy, OrderByExpr, OrderByKind, OrderByOptions,
    Query, Select, SelectItem, SetExpr, TableFactor,
};
use lazybase_model::Table;

use crate::parse::{folded, table_name};

/// Orders a query by the key of its only table, where it asks for rows from a key on and for so
/// many of them.
pub(crate) fn order(query: &mut Query, find: impl Fn(&str) -> Option<Arc<Table>>) {
    let limited = query.limit_clause.is_some() || query.fetch.is_some();
    if !limited || query.order_by.is_some() || query.with.is_some() {
        return;
    }
    let SetExpr::Select(select) = query.body.as_ref() else {
        return;
    };
    let Some((table, alias)) = only_table(select, find) else {
        return;
    };
    let key = table.key_indices();
    let first = key.first().map(|at| table.columns[*at].name.as_str());
    let (Some(first), Some(predicate), false) = (first, &select.selection, table.hidden_key) else {
        return;
    };
    if !is_plain(select) || !bounds(predicate, first, &alias) {
        return;
    }
    let by = key.into_iter().map(|at| OrderByExpr {
        expr: Expr::CompoundIdentifier(vec![
            Ident::with_quote('"', &alias),
            Ident::with_quote('"', &table.columns[at].name),
        ]),
        options: OrderByOptions {
            asc: None,
            nulls_first: None,
        },
        with_fill: None,
    });
    query.order_by = Some(OrderBy {
        kind: OrderByKind::Expressions(by.collect()),
        interpolate: None,
    });
}

/// The table that a SELECT reads alone, and what it calls it.
fn only_table(
    select: &Select,
    find: impl Fn(&str) -> Option<Arc<Table>>,
) -> Option<(Arc<Table>, String)> {
    let [from] = select.from.as_slice() else {
        return None;
    };
    match &from.relation {
        TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } if from.joins.is_empty() => {
            let name = table_name(name).ok()?;
            let table = find(&name)?;
            let alias = alias.as_ref().map(|alias| folded(&alias.name));
            Some((table, alias.unwrap_or(name)))
        }
        _ => None,
    }
}

/// Whether a SELECT gives a row for each row of its table, as columns alone.
fn is_plain(select: &Select) -> bool {
    let column = |item: &SelectItem| match item {
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        }
        _ => false,
    };
    let ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(by, modifiers)
        if by.is_empty() && modifiers.is_empty());
    ungrouped
        && select.distinct.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.projection.iter().all(column)
}

/// Whether a predicate holds only for rows on one side of a value of the column.
fn bounds(predicate: &Expr, column: &str, alias: &str) -> bool {
    let is_column = |expr: &Expr| match expr {
        Expr::Identifier(name) => folded(name) == column,
        Expr::CompoundIdentifier(parts) => {
            matches!(parts.as_slice(), [of, name] if folded(of) == alias && folded(name) == column)
        }
        _ => false,
    };
    match predicate {
        Expr::Nested(inner) => bounds(inner, column, alias),
        Expr::BinaryOp { left, op, right } => match op {
            BinaryOperator::And => bounds(left, column, alias) || bounds(right, column, alias),
            BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq => is_column(left) || is_column(right),
            _ => false,
        },
        Expr::Between {
            expr,
            negated: false,
            ..
        } => is_column(expr),
        _ => false,
    }
}
