//! Rows of an INSERT as a query: those of VALUES that hold queries themselves, or call what only a
//! query can. Pure.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, Statement,
};
use lazybase_model::{Error, Result};

use crate::parse::{Statement as Ours, parse};
use crate::planner::marks::hide_value;

/// Names apart the columns of `SELECT x, x`: they go to the table by their places, but the
/// planner wants each name once.
pub(super) fn name_apart(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let mut seen: Vec<String> = Vec::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::UnnamedExpr(expr) = item {
            let text = expr.to_string();
            if seen.contains(&text) {
                *item = SelectItem::ExprWithAlias {
                    expr: expr.clone(),
                    alias: Ident::with_quote('"', format!("{text} in place {at}")),
                };
            } else {
                seen.push(text);
            }
        }
    }
}

/// Rows of VALUES as a query, for those that hold subqueries.
pub(super) fn values_query(rows: Vec<Vec<Expr>>) -> Result<Statement> {
    let mut query = one_row()?;
    query.body = as_selects(rows)?;
    Ok(Statement::Query(query))
}

/// `SELECT ... UNION ALL SELECT ...` of rows.
pub(super) fn as_selects(rows: impl IntoIterator<Item = Vec<Expr>>) -> Result<Box<SetExpr>> {
    let template = one_row()?.body;
    let selects = rows.into_iter().map(|row| {
        let mut body = template.clone();
        if let SetExpr::Select(select) = body.as_mut() {
            let items = row.into_iter().enumerate().map(|(at, mut expr)| {
                // Each goes to its column by itself, whatever the others are.
                hide_value(&mut expr);
                let alias = Ident::new(format!("column{at}"));
                SelectItem::ExprWithAlias { expr, alias }
            });
            select.projection = items.collect();
        }
        body
    });
    let union = selects.reduce(|left, right| {
        Box::new(SetExpr::SetOperation {
            op: SetOperator::Union,
            set_quantifier: SetQuantifier::All,
            left,
            right,
        })
    });
    union.ok_or_else(|| Error::internal("VALUES has at least one row"))
}

fn one_row() -> Result<Box<Query>> {
    match parse("SELECT 1")?.statement {
        Ours::Query(query) => Ok(query),
        _ => Err(Error::internal("SELECT is a query")),
    }
}
