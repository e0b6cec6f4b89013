//! EXISTS as a value, in a SELECT list: the planner knows it as a condition alone.
//!
//! ```text
//!   SELECT EXISTS (SELECT 1 FROM t)
//!     ->  SELECT (SELECT count(*) > 0 AS "exists" FROM (SELECT 1 FROM t) AS "exists")
//! ```
//!
//! Rewrites sqlparser's tree before it is planned. Invariant EXV-1: where EXISTS is a condition it
//! stays as it is.

use std::ops::ControlFlow;

use crate::text_places::of_template;
use crate::walk::visit_mut;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, LimitClause, Query, Select,
    SelectItem, SetExpr, Statement, TableFactor, UnaryOperator, Value, VisitorMut,
};

/// Writes each EXISTS of a SELECT list as a count.
pub(crate) fn rewrite(statement: &mut Statement) {
    let done = visit_mut(statement, &mut Lists);
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

struct Lists;

impl VisitorMut for Lists {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                counted(expr);
            }
        }
        ControlFlow::Continue(())
    }
}

fn counted(expr: &mut Expr) {
    match expr {
        Expr::Exists { subquery, negated } => {
            let Some(count) = count_of(subquery) else {
                return;
            };
            let count = Expr::Subquery(Box::new(count));
            *expr = match *negated {
                true => Expr::UnaryOp {
                    op: UnaryOperator::Not,
                    expr: Box::new(count),
                },
                false => count,
            };
        }
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => counted(inner),
        Expr::Cast { expr: inner, .. } | Expr::IsTrue(inner) | Expr::IsFalse(inner) => {
            counted(inner);
        }
        Expr::BinaryOp { left, right, .. } => {
            counted(left);
            counted(right);
        }
        Expr::Case {
            operand,
            conditions,
            else_result,
            ..
        } => {
            for expr in operand.iter_mut().chain(else_result) {
                counted(expr);
            }
            for when in conditions {
                counted(&mut when.condition);
                counted(&mut when.result);
            }
        }
        Expr::Function(function) => {
            let FunctionArguments::List(list) = &mut function.args else {
                return;
            };
            for argument in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument {
                    counted(expr);
                }
            }
        }
        _ => {}
    }
}

/// A query, if it gives a row for each row that it reads: it may name columns of the query around
/// it, which the planner finds only there.
fn with_columns_alone(subquery: &Query) -> Option<Query> {
    let SetExpr::Select(select) = subquery.body.as_ref() else {
        return None;
    };
    let is_plain = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => matches!(
            expr,
            Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_)
        ),
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
        _ => false,
    };
    let no_groups = matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty());
    let each_row = no_groups
        && select.having.is_none()
        && select.distinct.is_none()
        && subquery.limit_clause.as_ref().is_none_or(lets_rows_pass)
        && select.projection.iter().all(is_plain);
    each_row.then(|| Query {
        order_by: None,
        limit_clause: None,
        ..subquery.clone()
    })
}

/// Whether a LIMIT takes no row from a query that has one.
fn lets_rows_pass(limit: &LimitClause) -> bool {
    match limit {
        LimitClause::LimitOffset {
            limit: Some(Expr::Value(rows)),
            offset: None,
            limit_by,
        } => limit_by.is_empty() && matches!(&rows.value, Value::Number(rows, _) if rows != "0"),
        _ => false,
    }
}

/// Whether a query has rows, as a query.
fn count_of(subquery: &Query) -> Option<Query> {
    let frame = r#"SELECT count(*) > 0 AS "exists" FROM (SELECT 1) AS "exists""#;
    let parser = of_template(frame);
    let mut count = *parser.ok()?.parse_query().ok()?;
    let SetExpr::Select(select) = count.body.as_mut() else {
        return None;
    };
    if let Some(mut rows) = with_columns_alone(subquery) {
        if let SetExpr::Select(of_rows) = rows.body.as_mut() {
            of_rows.projection = std::mem::take(&mut select.projection);
        }
        return Some(rows);
    }
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery: of, .. } => **of = subquery.clone(),
        _ => return None,
    }
    Some(count)
}
