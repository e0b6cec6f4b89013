//! EXISTS in EXISTS, where the inner one names columns of the query around both: the planner knows
//! those of the query next to it. The tables of the inner one join those of the outer one, which
//! changes how many rows there are, and not whether there are any.
//!
//! ```text
//!   EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND EXISTS (SELECT 1 FROM c WHERE c.y = a.x))
//!     ->  EXISTS (SELECT 1 FROM b, c WHERE b.k = a.k AND c.y = a.x)
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else. Invariant NEX-1: no name means another column
//! than before.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Query, Select, SelectItem, SetExpr, Visit,
};
use lazybase_model::Result;

use super::subqueries::Names;
use super::unsupported;
use crate::walk::visit;

/// Rewrites the conditions of an EXISTS.
///
/// # Errors
/// `Invalid` (0A000) for a query two levels down that names columns of the one around both.
pub(super) fn in_expr(expr: &mut Expr) -> Result<()> {
    let Expr::Exists { subquery, .. } = expr else {
        return Ok(());
    };
    let is_plain = is_plain(subquery);
    let SetExpr::Select(select) = subquery.body.as_mut() else {
        return Ok(());
    };
    let Some(condition) = select.selection.take() else {
        return Ok(());
    };
    let mut conditions = Vec::new();
    split(condition, &mut conditions);
    let mut kept = Vec::with_capacity(conditions.len());
    for condition in conditions {
        match &condition {
            Expr::Exists {
                subquery: inner,
                negated,
            } if reaches_out(inner, select) => match inner.body.as_ref() {
                SetExpr::Select(inside)
                    if is_plain && !negated && self::is_plain(inner) && joins(inside, select) =>
                {
                    select.from.extend(inside.from.iter().cloned());
                    if let Some(condition) = &inside.selection {
                        split(condition.clone(), &mut kept);
                    }
                }
                _ => {
                    return Err(unsupported(
                        "a subquery in a subquery that names columns of the query around both \
                         is not supported here",
                    )
                    .with_hint(
                        "write EXISTS (SELECT 1 FROM b, c WHERE ...) with the tables of both, \
                         under names of their own and with the table's name before each column",
                    ));
                }
            },
            _ => kept.push(condition),
        }
    }
    select.selection = kept.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    });
    Ok(())
}

fn split(condition: Expr, conditions: &mut Vec<Expr>) {
    match condition {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And,
            right,
        } => {
            split(*left, conditions);
            split(*right, conditions);
        }
        Expr::Nested(inner) if matches!(*inner, Expr::Exists { .. }) => conditions.push(*inner),
        other => conditions.push(other),
    }
}

fn names(of: &impl Visit) -> Names {
    let mut names = Names::default();
    let _ = visit(of, &mut names);
    names
}

/// Whether a query says that columns are of a table which neither it nor the query around it has.
fn reaches_out(inner: &Query, around: &Select) -> bool {
    let inside = names(inner);
    let beside = names(&around.from);
    let known = |table: &String| inside.tables.contains(table) || beside.tables.contains(table);
    !inside.qualifiers.iter().all(known)
}

/// Whether the tables of one query can stand beside those of another one, with all names as they
/// are.
fn joins(inside: &Select, around: &Select) -> bool {
    let (own, theirs) = (names(inside), names(around));
    own.tables.is_disjoint(&names(&around.from).tables) && !own.unqualified && !theirs.unqualified
}

/// Whether a query has a row for each that it reads.
fn is_plain(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    let no_groups = matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty());
    let is_column = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => matches!(
            expr,
            Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_)
        ),
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
        _ => false,
    };
    no_groups
        && query.with.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.projection.iter().all(is_column)
}
