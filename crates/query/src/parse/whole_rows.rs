//! `t.*` as a value: whether it is NULL, and how often it is there. The planner takes it for
//! something else everywhere.
//!
//! ```text
//!   t.* IS NULL     stays: planner/whole_rows.rs knows the columns
//!   count(t.*)      ->  count(t.* IS UNKNOWN), which the same rule reads
//!   json_row(t.*)   stays: parse/json.rs makes it
//!   f(t.*), t.* = x     refused
//! ```
//!
//! Rewrites sqlparser's tree and does nothing else.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
};
use lazybase_model::{Error, Result};

use super::{folded, unsupported};
use crate::planner::json_values::JSON_ROW;

/// The whole rows of a statement that stand where they mean something.
#[derive(Debug, Default)]
pub(super) struct WholeRows {
    /// Whether the next one that is visited does.
    is_known: bool,
}

impl WholeRows {
    /// Looks at an expression before its parts.
    ///
    /// # Errors
    /// `Invalid` (0A000) for whole rows where nothing knows them.
    pub(super) fn enter(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::IsNull(of) | Expr::IsNotNull(of) | Expr::IsUnknown(of) => {
                if let Some(whole) = whole_row(of) {
                    **of = whole;
                    self.is_known = true;
                }
                Ok(())
            }
            Expr::QualifiedWildcard(..) => match std::mem::take(&mut self.is_known) {
                true => Ok(()),
                false => Err(refused(expr)),
            },
            Expr::Function(function) => in_call(function),
            _ => Ok(()),
        }
    }
}

fn refused(whole: &Expr) -> Error {
    unsupported(format!("{whole} is not supported as a value"))
        .with_hint("write its columns; IS NULL and count() take it")
}

/// A whole row, without the brackets around it.
fn whole_row(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Nested(inner) => whole_row(inner),
        Expr::QualifiedWildcard(..) => Some(expr.clone()),
        _ => None,
    }
}

fn in_call(function: &mut Function) -> Result<()> {
    let FunctionArguments::List(list) = &mut function.args else {
        return Ok(());
    };
    let is_called = |known: &str| match function.name.0.as_slice() {
        [part] => part.as_ident().is_some_and(|name| folded(name) == known),
        _ => false,
    };
    let is_count = is_called("count");
    if is_called(JSON_ROW) {
        return Ok(());
    }
    let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    for argument in &mut list.args {
        let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) = argument else {
            continue;
        };
        let whole = Expr::QualifiedWildcard(name.clone(), AttachedToken::empty());
        if is_count && distinct {
            return Err(
                unsupported(format!("count(DISTINCT {whole}) is not supported")).with_hint(
                    format!("count the rows of a query: FROM (SELECT DISTINCT {whole} ...) AS q"),
                ),
            );
        }
        if !is_count {
            return Err(refused(&whole));
        }
        let there = Expr::IsUnknown(Box::new(whole));
        *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(there));
    }
    Ok(())
}
