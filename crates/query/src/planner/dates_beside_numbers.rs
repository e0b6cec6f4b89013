//! Days that are compared with numbers: an error, as in PostgreSQL. The planner takes a number for
//! days since 1970, so that `day > 2013-06-01`, which lacks its quotes, would hold for every day.
//!
//! A rule of the planner before its own; pure.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan};
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::planner::rule::{NodeRule, rewrite_parts};
use crate::planner::uuid_literals::is_comparison;

/// The rule.
pub(crate) const DATES_BESIDE_NUMBERS: NodeRule = NodeRule::new("dates_beside_numbers", checked);

fn checked(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, |expr, schema| match compares(&expr, schema) {
        true => Err(into_datafusion(
            Error::invalid("a DATE can't be compared with a number")
                .with_hint("a day stands in quotes: '2013-06-01'")
                .with_sqlstate("42883"),
        )),
        false => Ok(Transformed::no(expr)),
    })
}

/// Whether a day is compared with a number.
fn compares(expr: &Expr, schema: &DFSchema) -> bool {
    let of = |expr: &Expr| expr.get_type(schema).unwrap_or(DataType::Null);
    let mixed = |one: &Expr, other: &Expr| match (of(one), of(other)) {
        (DataType::Date32, other) | (other, DataType::Date32) => other.is_integer(),
        _ => false,
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            is_comparison(*op) && mixed(left, right)
        }
        Expr::Between(between) => {
            mixed(&between.expr, &between.low) || mixed(&between.expr, &between.high)
        }
        Expr::InList(list) => list.list.iter().any(|other| mixed(&list.expr, other)),
        _ => false,
    }
}
