//! UUIDs in any spelling: SQL sees a UUID as lower-case text, so a constant that a UUID column is
//! compared with is written that way too.
//!
//! A rule of the planner; reads and gives plans. Invariant UUI-1: only constants change that
//! stand beside a column which is marked as a UUID, and only in their letter case and hyphens.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, LogicalPlan, Operator};

use crate::hex::{from_uuid, put_uuid};
use crate::planner::rule::{NodeRule, rewrite_parts};
use crate::types::is_uuid;

/// The rule.
pub(crate) const UUID_LITERALS: NodeRule = NodeRule::new("uuid_literals", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, schema| Ok(compared(expr, schema)))
}

/// A comparison with its constants spelt as the column's values are.
fn compared(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op) && names_uuid(&left, schema) =>
        {
            let right = Box::new(spelt(*right));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op) && names_uuid(&right, schema) =>
        {
            let left = Box::new(spelt(*left));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(list) if names_uuid(&list.expr, schema) => {
            Transformed::yes(Expr::InList(InList {
                list: list.list.into_iter().map(spelt).collect(),
                ..list
            }))
        }
        Expr::Between(between) if names_uuid(&between.expr, schema) => {
            Transformed::yes(Expr::Between(Between {
                low: Box::new(spelt(*between.low)),
                high: Box::new(spelt(*between.high)),
                ..between
            }))
        }
        // `u = ANY (ARRAY[...])`
        Expr::ScalarFunction(ScalarFunction { func, args })
            if func.name() == "array_has" && args.iter().any(|arg| names_uuid(arg, schema)) =>
        {
            let args = args.into_iter().map(spelt_list).collect();
            Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        other => Transformed::no(other),
    }
}

pub(crate) fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn names_uuid(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Column(column) => schema
            .qualified_field_from_column(column)
            .is_ok_and(|(_, field)| is_uuid(field)),
        _ => false,
    }
}

/// A constant that is a UUID, in lower case with hyphens; anything else as it is.
fn spelt(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) => {
            let mut spelling = String::with_capacity(36);
            match from_uuid(&text) {
                Some(bytes) => put_uuid(&bytes, &mut spelling),
                None => spelling = text,
            }
            Expr::Literal(ScalarValue::Utf8(Some(spelling)), metadata)
        }
        other => other,
    }
}

/// A list with its constants spelt so; anything else as it is.
fn spelt_list(expr: Expr) -> Expr {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "make_array" => {
            let args = args.into_iter().map(spelt).collect();
            Expr::ScalarFunction(ScalarFunction { func, args })
        }
        other => other,
    }
}
