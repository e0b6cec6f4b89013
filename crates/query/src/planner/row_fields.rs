//! Fields of rows behind a dot, as the planner reads them.
//!
//! ```text
//!   l[1].a, t.l[1].a     ->  l[1]['a'], t.l[1]['a']
//!   (r).a                ->  (r)['a']
//!   SELECT (r).a         ->  SELECT (r)['a'] AS a
//! ```
//!
//! Rewrites sqlparser's tree, behind what names the columns of an answer, and does nothing else.
//! Invariant FLD-1: the names that an expression begins with stay those of a table and its column.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, Query, SelectItem, SetExpr, Subscript, Value, VisitMut, VisitorMut,
};

use crate::parse::folded;
use crate::planner::column_names;
use crate::walk::{visit_expressions_mut, visit_mut};

/// Writes the fields as subscripts.
pub(crate) fn rewrite(tree: &mut impl VisitMut) {
    let done = visit_mut(tree, &mut Names);
    debug_assert!(done.is_continue(), "nothing ends the visit");
    let done: ControlFlow<()> = visit_expressions_mut(tree, |expr| {
        if let Expr::CompoundFieldAccess { root, access_chain } = expr {
            in_chain(root, access_chain);
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

fn in_chain(root: &Expr, chain: &mut [AccessExpr]) {
    let is_name = |access: &&AccessExpr| matches!(access, AccessExpr::Dot(Expr::Identifier(_)));
    let names = match root {
        Expr::Identifier(_) => chain.iter().take_while(is_name).count(),
        _ => 0,
    };
    for access in chain.iter_mut().skip(names) {
        if let AccessExpr::Dot(Expr::Identifier(field)) = access {
            let index = Expr::Value(Value::SingleQuotedString(folded(field)).into());
            *access = AccessExpr::Subscript(Subscript::Index { index });
        }
    }
}

/// Gives the columns of subqueries that are fields the names that they have behind their dots.
struct Names;

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        in_body(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn in_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => select.projection.iter_mut().for_each(in_item),
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left);
            in_body(right);
        }
        _ => {}
    }
}

fn in_item(item: &mut SelectItem) {
    let SelectItem::UnnamedExpr(expr) = item else {
        return;
    };
    let is_field = match &*expr {
        Expr::CompoundFieldAccess { access_chain, .. } => {
            matches!(access_chain.last(), Some(AccessExpr::Dot(_)))
        }
        _ => false,
    };
    if is_field {
        *item = SelectItem::ExprWithAlias {
            alias: Ident::with_quote('"', column_names::of(expr)),
            expr: expr.clone(),
        };
    }
}
