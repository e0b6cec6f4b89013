//! The names of a SELECT's columns that have none of their own, while what they compute is
//! rewritten.
//!
//! ```text
//!   SELECT ARRAY(SELECT ...)   ->  SELECT or_empty(...) AS "array"
//! ```
//!
//! Looks at sqlparser's tree before and after; pure.

use datafusion::sql::sqlparser::ast::{Ident, Select, SelectItem};

use crate::planner::column_names;

/// The names of the SELECTs that are being visited, the innermost last.
#[derive(Debug, Default)]
pub(super) struct KeptNames(Vec<Vec<Option<String>>>);

impl KeptNames {
    /// Before anything of a SELECT is rewritten.
    pub(super) fn enter(&mut self, select: &Select) {
        let name = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) => Some(column_names::of(expr)),
            _ => None,
        };
        self.0.push(select.projection.iter().map(name).collect());
    }

    /// When all of it was rewritten.
    pub(super) fn leave(&mut self, select: &mut Select) {
        let names = self.0.pop().unwrap_or_default();
        for (item, name) in select.projection.iter_mut().zip(names) {
            if let Some(name) = name {
                keep(item, name);
            }
        }
    }
}

/// Gives an item the name that it had, if it would have another one now.
pub(super) fn keep(item: &mut SelectItem, name: String) {
    if let SelectItem::UnnamedExpr(expr) = item
        && column_names::of(expr) != name
    {
        *item = SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: Ident::with_quote('"', name),
        };
    }
}
