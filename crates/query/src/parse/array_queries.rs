//! `ARRAY(SELECT ...)`: the rows of a query as one array, in their order, and an empty one where
//! there is none.
//!
//! ```text
//!   ARRAY(SELECT x FROM t ORDER BY y)
//!     ->  pg_or_empty((SELECT array_agg(x ORDER BY y) FROM t))
//!   ARRAY(SELECT x FROM t ORDER BY y LIMIT 3)
//!     ->  pg_or_empty((SELECT array_agg(v ORDER BY o1) FROM
//!           (SELECT x AS v, y AS o1 FROM t ORDER BY y LIMIT 3) AS q))
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else, behind what knows more of `pg_catalog`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArgumentClause, FunctionArguments, Ident, OrderByExpr, OrderByKind, Query,
    Select, SelectItem, SetExpr, Statement, TableFactor, Value, VisitorMut,
};
use lazybase_model::{Error, Result};

use super::kept_names::KeptNames;
use super::{folded, subqueries, unsupported};
use crate::pg_catalog::or_empty::OR_EMPTY;
use crate::pg_catalog::rewrite::call;
use crate::text_places::of_template;
use crate::walk::visit_mut;

/// Rewrites a statement.
///
/// # Errors
/// `Invalid` (0A000) for a query whose order can't be kept.
pub(super) fn rewrite(statement: &mut Statement) -> Result<()> {
    match visit_mut(statement, &mut Arrays::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

#[derive(Default)]
struct Arrays {
    names: KeptNames,
}

impl VisitorMut for Arrays {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.names.enter(select);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.names.leave(select);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Some(query) = query_of(expr) else {
            return ControlFlow::Continue(());
        };
        match array_of(query) {
            Some(array) => {
                *expr = array;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(
                unsupported("ARRAY of this query is not supported")
                    .with_hint("write (SELECT array_agg(x ORDER BY y) FROM ...)"),
            ),
        }
    }
}

fn query_of(expr: &Expr) -> Option<&Query> {
    let Expr::Function(function) = expr else {
        return None;
    };
    match (function.name.0.as_slice(), &function.args) {
        ([name], FunctionArguments::Subquery(query)) => {
            (folded(name.as_ident()?) == "array").then_some(query)
        }
        _ => None,
    }
}

fn array_of(query: &Query) -> Option<Expr> {
    let order = match &query.order_by {
        None => Vec::new(),
        Some(order) => match &order.kind {
            OrderByKind::Expressions(all) => all.clone(),
            OrderByKind::All(_) => return None,
        },
    };
    let rows = match subqueries::plain(query) {
        Some((rows, column)) => {
            let alias = match rows.projection.first()? {
                SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
                _ => None,
            };
            let by_column = |ordered: OrderByExpr| match is_column(&ordered.expr, alias.as_ref()) {
                true => OrderByExpr {
                    expr: column.clone(),
                    ..ordered
                },
                false => ordered,
            };
            let order = order.into_iter().map(by_column).collect();
            let projection = vec![SelectItem::UnnamedExpr(agg(column.clone(), order))];
            Select { projection, ..rows }
        }
        None => over(query, order)?,
    };
    let mut array = parsed("SELECT 1")?;
    *array.body = SetExpr::Select(Box::new(rows));
    let array = Expr::Subquery(Box::new(array));
    Some(call(OR_EMPTY, vec![array]))
}

/// Whether an ORDER BY names the query's column, by its place or its name.
fn is_column(ordered: &Expr, alias: Option<&Ident>) -> bool {
    match ordered {
        Expr::Value(value) => matches!(&value.value, Value::Number(place, _) if place == "1"),
        Expr::Identifier(name) => alias.is_some_and(|alias| folded(alias) == folded(name)),
        _ => false,
    }
}

/// The rows of a query as they are, with what they are ordered by beside them.
fn over(query: &Query, order: Vec<OrderByExpr>) -> Option<Select> {
    let mut inner = query.clone();
    let column = subqueries::column();
    let mut names = vec![column.clone()];
    let mut by = Vec::with_capacity(order.len());
    for (at, ordered) in order.into_iter().enumerate() {
        let name = match is_given(&inner, &ordered.expr) {
            true => column.clone(),
            false => {
                let SetExpr::Select(select) = inner.body.as_mut() else {
                    return None;
                };
                if select.distinct.is_some() {
                    return None;
                }
                let alias = Ident::new(format!("o{at}"));
                let expr = ordered.expr.clone();
                names.push(alias.clone());
                select.projection.push(SelectItem::ExprWithAlias {
                    expr,
                    alias: alias.clone(),
                });
                alias
            }
        };
        by.push(OrderByExpr {
            expr: Expr::Identifier(name),
            ..ordered
        });
    }
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let text = format!("SELECT 1 FROM (SELECT 1) AS q ({})", names.join(", "));
    let SetExpr::Select(mut select) = *parsed(&text)?.body else {
        return None;
    };
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => **subquery = inner,
        _ => return None,
    }
    select.projection = vec![SelectItem::UnnamedExpr(agg(Expr::Identifier(column), by))];
    Some(*select)
}

/// Whether an ORDER BY is by what the query gives first.
fn is_given(query: &Query, ordered: &Expr) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else {
        // Of several queries, only names and places of columns mean something.
        return true;
    };
    match select.projection.first() {
        Some(SelectItem::UnnamedExpr(expr)) => expr == ordered || is_column(ordered, None),
        Some(SelectItem::ExprWithAlias { expr, alias }) => {
            expr == ordered || is_column(ordered, Some(alias))
        }
        _ => is_column(ordered, None),
    }
}

fn parsed(text: &str) -> Option<Query> {
    let parser = of_template(text);
    parser.ok()?.parse_query().ok().map(|query| *query)
}

/// `array_agg(of ORDER BY order)`.
fn agg(of: Expr, order: Vec<OrderByExpr>) -> Expr {
    let mut agg = call("array_agg", vec![of]);
    if let Expr::Function(function) = &mut agg
        && let FunctionArguments::List(list) = &mut function.args
        && !order.is_empty()
    {
        list.clauses = vec![FunctionArgumentClause::OrderBy(order)];
    }
    agg
}
