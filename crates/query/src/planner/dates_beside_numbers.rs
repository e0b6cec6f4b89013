//! Days that stand where numbers do: an error, as in PostgreSQL. The planner takes a number for
//! days since 1970, so that `day > 2013-06-01`, which lacks its quotes, would hold for every day.
//!
//! ```text
//!   day > 5, nullif(day, 5), CASE day WHEN 5 ..., JOIN ... USING (day)    compared
//!   CASE WHEN x THEN day ELSE 5 END, greatest(day, 5), day UNION 5,
//!   lag(day, 1, 5)                                                       put together
//! ```
//!
//! A rule of the planner before its own; pure.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan};
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::planner::rule::{NodeRule, rewrite_parts};
use crate::planner::uuid_literals::is_comparison;

/// The rule.
pub(crate) const DATES_BESIDE_NUMBERS: NodeRule = NodeRule::new("dates_beside_numbers", checked);

fn checked(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if joins_by_both(&plan) {
        return Err(into_datafusion(compared()));
    }
    if is_union_of_both(&plan) {
        return Err(into_datafusion(put_together()));
    }
    rewrite_parts(plan, &|expr, schema| {
        if compares(&expr, schema) {
            return Err(into_datafusion(compared()));
        }
        if chooses(&expr, schema) {
            return Err(into_datafusion(put_together()));
        }
        Ok(Transformed::no(expr))
    })
}

fn compared() -> Error {
    Error::invalid("a DATE can't be compared with a number")
        .with_hint("a day stands in quotes: '2013-06-01'")
        .with_sqlstate("42883")
}

/// What is said where they are made values of one column.
pub(super) fn put_together() -> Error {
    Error::invalid("a DATE and a number have no type in common")
        .with_hint("a day stands in quotes: '2013-06-01'")
        .with_sqlstate("42804")
}

/// Whether some are days, and others numbers.
pub(super) fn are_mixed(types: &[DataType]) -> bool {
    types.contains(&DataType::Date32) && types.iter().any(DataType::is_integer)
}

fn type_of(expr: &Expr, schema: &DFSchema) -> DataType {
    expr.get_type(schema).unwrap_or(DataType::Null)
}

/// Whether a day is compared with a number.
fn compares(expr: &Expr, schema: &DFSchema) -> bool {
    let mixed =
        |one: &Expr, other: &Expr| are_mixed(&[type_of(one, schema), type_of(other, schema)]);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            is_comparison(*op) && mixed(left, right)
        }
        Expr::Between(between) => {
            mixed(&between.expr, &between.low) || mixed(&between.expr, &between.high)
        }
        Expr::InList(list) => list.list.iter().any(|other| mixed(&list.expr, other)),
        Expr::Case(Case {
            expr: Some(of),
            when_then_expr,
            ..
        }) => when_then_expr.iter().any(|(when, _)| mixed(of, when)),
        Expr::ScalarFunction(call) => match call.args.as_slice() {
            [one, other] => call.name() == "nullif" && mixed(one, other),
            _ => false,
        },
        _ => false,
    }
}

/// Whether an expression is a day in some rows, and a number in others.
fn chooses(expr: &Expr, schema: &DFSchema) -> bool {
    let types: Vec<DataType> = match expr {
        Expr::Case(case) => {
            let chosen = case.when_then_expr.iter().map(|(_, then)| then);
            let chosen = chosen.chain(&case.else_expr);
            chosen.map(|value| type_of(value, schema)).collect()
        }
        Expr::ScalarFunction(call) if matches!(call.name(), "greatest" | "least") => {
            let chosen = call.args.iter();
            chosen.map(|value| type_of(value, schema)).collect()
        }
        // The value of another row, and what stands for it where there is no such row.
        Expr::WindowFunction(call) if matches!(call.fun.name(), "lag" | "lead") => {
            let chosen = call.params.args.iter().step_by(2);
            chosen.map(|value| type_of(value, schema)).collect()
        }
        _ => return false,
    };
    are_mixed(&types)
}

/// Whether a join, be it that of INTERSECT or EXCEPT, compares days with numbers.
fn joins_by_both(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = plan else {
        return false;
    };
    let (left, right) = (join.left.schema(), join.right.schema());
    let mut on = join.on.iter();
    on.any(|(one, other)| are_mixed(&[type_of(one, left), type_of(other, right)]))
}

/// Whether a column of a union is made of days and numbers.
fn is_union_of_both(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Union(union) = plan else {
        return false;
    };
    (0..union.schema.fields().len()).any(|at| {
        let fields = union.inputs.iter();
        let fields = fields.filter_map(|input| input.schema().fields().get(at));
        let types: Vec<DataType> = fields.map(|field| field.data_type().clone()).collect();
        are_mixed(&types)
    })
}
