//! Rows that are looked for among those of a query, where only matters whether they are found: the
//! planner knows single values.
//!
//! ```text
//!   (a, b) IN (SELECT ...)
//!     ->  EXISTS (SELECT 1 FROM (SELECT ...) AS q (c1, c2) WHERE q.c1 = a AND q.c2 = b)
//!   (a, b) NOT IN (SELECT ...)
//!     ->  NOT EXISTS (... WHERE (q.c1 = a AND q.c2 = b) IS NOT FALSE)
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, SetExpr, TableAliasColumnDef, TableFactor,
};

use super::subqueries::Names;
use crate::text_places::of_template;
use crate::walk::visit;

/// What the query is called. No key of a keyboard writes it.
const CALLED: &str = "\u{1}looked in";

/// Whether a row is one of a query's, for a condition that asks only where that `holds`, or only
/// where it does not.
pub(super) fn found(expr: &Expr, holds: bool) -> Option<Expr> {
    let Expr::InSubquery {
        expr: row,
        subquery,
        negated,
    } = expr
    else {
        return None;
    };
    let mut row = row.as_ref();
    while let Expr::Nested(inner) = row {
        row = inner;
    }
    let Expr::Tuple(values) = row else {
        return None;
    };
    // One that names columns around it is the planner's to refuse.
    let mut names = Names::default();
    let _ = visit(subquery, &mut names);
    if !names.qualifiers.is_subset(&names.tables) {
        return None;
    }
    let name = |at: usize| Ident::with_quote('"', format!("c{at}"));
    let equal = values.iter().enumerate().map(|(at, value)| {
        let called = Ident::with_quote('"', CALLED);
        Expr::BinaryOp {
            left: Box::new(Expr::CompoundIdentifier(vec![called, name(at)])),
            op: BinaryOperator::Eq,
            right: Box::new(Expr::Nested(Box::new(value.clone()))),
        }
    });
    let equal = equal.reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    })?;
    // What may be the row counts where being none of them is asked for.
    let is_it = match holds != *negated {
        true => equal,
        false => Expr::IsNotFalse(Box::new(Expr::Nested(Box::new(equal)))),
    };
    let text = "SELECT 1 FROM (SELECT 1) AS q";
    let parser = of_template(text);
    let mut query = parser.ok()?.parse_query().ok()?;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    if let TableFactor::Derived {
        subquery: of,
        alias: Some(alias),
        ..
    } = &mut select.from.first_mut()?.relation
    {
        of.clone_from(subquery);
        alias.name = Ident::with_quote('"', CALLED);
        let columns = (0..values.len()).map(|at| TableAliasColumnDef {
            name: name(at),
            data_type: None,
        });
        alias.columns = columns.collect();
    }
    select.selection = Some(is_it);
    Some(Expr::Exists {
        subquery: query,
        negated: *negated,
    })
}
