//! Comparisons whose sides the planner would bring to a type in which one of them is another value:
//! a walk over them, for rules that choose a better type. Pure.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr};

use crate::planner::uuid_literals::is_comparison;

/// Rewrites a comparison, a BETWEEN or an IN list. `kind` knows the expressions that are looked
/// for; `beside` gives one of them, and all that it is compared with, their new forms.
pub(super) fn compared<K: Copy>(
    expr: Expr,
    schema: &DFSchema,
    kind: impl Fn(&Expr, &DFSchema) -> Option<K>,
    beside: impl Fn(Expr, Vec<Expr>, K) -> (Expr, Vec<Expr>),
) -> Transformed<Expr> {
    let one_beside = |expr: Expr, other: Expr, of: K| {
        let (expr, mut others) = beside(expr, vec![other], of);
        let other = others.pop().unwrap_or_default();
        debug_assert!(others.is_empty(), "one beside one");
        (expr, other)
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => {
            let (left, right) = match (kind(&left, schema), kind(&right, schema)) {
                (Some(of), _) => one_beside(*left, *right, of),
                (None, Some(of)) => {
                    let (right, left) = one_beside(*right, *left, of);
                    (left, right)
                }
                (None, None) => (*left, *right),
            };
            let (left, right) = (Box::new(left), Box::new(right));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(list) => match kind(&list.expr, schema) {
            Some(of) => {
                let (expr, constants) = beside(*list.expr, list.list, of);
                Transformed::yes(Expr::InList(InList {
                    expr: Box::new(expr),
                    list: constants,
                    negated: list.negated,
                }))
            }
            None => Transformed::no(Expr::InList(list)),
        },
        Expr::Between(between) => match kind(&between.expr, schema) {
            Some(of) => {
                let bounds = vec![*between.low, *between.high];
                let (expr, bounds) = beside(*between.expr, bounds, of);
                let mut bounds = bounds.into_iter();
                let mut bound = || Box::new(bounds.next().unwrap_or_default());
                Transformed::yes(Expr::Between(Between {
                    expr: Box::new(expr),
                    negated: between.negated,
                    low: bound(),
                    high: bound(),
                }))
            }
            None => Transformed::no(Expr::Between(between)),
        },
        other => Transformed::no(other),
    }
}
