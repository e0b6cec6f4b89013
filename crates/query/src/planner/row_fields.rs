//! Fields of rows behind a dot, as the planner reads them.
//!
//! ```text
//!   l[1].a, t.l[1].a     ->  l[1]['a'], t.l[1]['a']
//!   (r).a                ->  (r)['a']
//! ```
//!
//! Rewrites sqlparser's tree, behind what names the columns, and does nothing else. Invariant
//! FLD-1: the names that an expression begins with stay those of a table and its column.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{AccessExpr, Expr, Subscript, Value, VisitMut};

use crate::parse::folded;
use crate::walk::visit_expressions_mut;

/// Writes the fields as subscripts.
pub(crate) fn rewrite(tree: &mut impl VisitMut) {
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
