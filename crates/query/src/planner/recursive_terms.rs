//! The second part of a recursive query, whose columns have the types of the first: the planner
//! casts them. Where that would take a day for a number, or cut off digits, it is an error, as in
//! PostgreSQL: `SELECT 1 UNION ALL SELECT n + 0.5 FROM r WHERE n < 3` would come to no end.
//!
//! What is written as a cast looks like the planner's own, and is meant. So it is written twice
//! before it is planned: a cast of what has its type already is not the planner's.
//!
//! ```text
//!   UNION ALL SELECT (n + 0.5)::INT   ->  UNION ALL SELECT ((n + 0.5)::INT)::INT
//! ```
//!
//! A rewrite of sqlparser's tree, and a rule of the planner before its own; pure.

use std::ops::ControlFlow;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    CastKind, Expr as Written, Query, SelectItem, SetExpr, Statement, VisitorMut,
};
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::planner::dates_beside_numbers::{are_mixed, put_together};
use crate::planner::rule::NodeRule;
use crate::walk::visit_mut;

/// Writes the casts of recursive queries twice.
pub(crate) fn rewrite(statement: &mut Statement) {
    let done = visit_mut(statement, &mut Terms);
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

struct Terms;

impl VisitorMut for Terms {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(with) = &mut query.with
            && with.recursive
        {
            for named in &mut with.cte_tables {
                if let SetExpr::SetOperation { right, .. } = named.query.body.as_mut() {
                    in_term(right);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn in_term(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                {
                    written_twice(expr);
                }
            }
        }
        SetExpr::Query(query) => in_term(&mut query.body),
        _ => {}
    }
}

fn written_twice(expr: &mut Written) {
    match expr {
        Written::Nested(inner) => written_twice(inner),
        Written::Cast {
            data_type,
            array: false,
            ..
        } => {
            let data_type = data_type.clone();
            *expr = Written::Cast {
                kind: CastKind::Cast,
                expr: Box::new(expr.clone()),
                data_type,
                array: false,
                format: None,
            };
        }
        _ => {}
    }
}

/// The rule.
pub(crate) const RECURSIVE_TERMS: NodeRule = NodeRule::new("recursive_terms", checked);

fn checked(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::RecursiveQuery(query) = &plan
        && let LogicalPlan::Projection(term) = query.recursive_term.as_ref()
    {
        for (at, expr) in term.expr.iter().enumerate() {
            let Expr::Cast(cast) = unnamed(expr) else {
                continue;
            };
            let of = cast.expr.get_type(term.input.schema())?;
            let wanted = cast.field.data_type();
            if are_mixed(&[of.clone(), wanted.clone()]) {
                return Err(into_datafusion(put_together()));
            }
            if wanted.is_integer() && has_digits(&of) {
                return Err(into_datafusion(cut(at + 1)));
            }
        }
    }
    Ok(Transformed::no(plan))
}

fn unnamed(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unnamed(&alias.expr),
        expr => expr,
    }
}

/// Whether numbers of a type have digits behind a point.
fn has_digits(of: &DataType) -> bool {
    of.is_floating() || matches!(of, DataType::Decimal128(..) | DataType::Decimal256(..))
}

fn cut(column: usize) -> Error {
    let said = format!(
        "column {column} of a recursive query has whole numbers in its first part, and others in \
         its second"
    );
    Error::invalid(said)
        .with_hint("give the first part the type of the second: 1::DOUBLE PRECISION")
        .with_sqlstate("42804")
}
