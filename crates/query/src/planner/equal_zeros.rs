//! Orders of floating-point numbers as `=` and keys have them: -0 is 0, and there is one NaN, after
//! all numbers. The planner has -0 before 0, and a NaN with a sign before all numbers. So it is for
//! aggregates that take each value once, and in lists, which the planner compares bit by bit.
//!
//! ```text
//!   ORDER BY x, k                   ->  ORDER BY as_in_keys(x), k
//!   array_agg(k ORDER BY x, k)      ->  array_agg(k ORDER BY as_in_keys(x), k)
//!   rank() OVER (PARTITION BY x)    ->  rank() OVER (PARTITION BY as_in_keys(x))
//!   DISTINCT ON (x) ... ORDER BY x  ->  DISTINCT ON (as_in_keys(x)) ... ORDER BY as_in_keys(x)
//!   count(DISTINCT x), mode         ->  count(DISTINCT as_in_keys(x))
//!   x IN (0, 1)                     ->  x IN (0, 1, -0.0)
//!   x = '-0', x > '-NaN'            ->  x = 0, x > 'NaN'
//!   x - y > 5                       ->  as_in_keys(x - y) > 5
//!   SELECT x - y ..., GROUP BY -x   ->  SELECT one_nan(x - y) ..., GROUP BY one_nan(-x)
//!   sum(x), sum(x) OVER (...)       ->  a column one_nan(sum(x)) over it, of the same name
//! ```
//!
//! Stored numbers have a NaN without a sign: those that are computed may have one with a sign.
//! Columns that a query computes have it taken off, for GROUP BY, DISTINCT, UNION and joins compare
//! them bit by bit; -0, which SELECT shows, stays there. So what a column has needs no look: only
//! what is computed where it is compared.
//!
//! A rule of the planner before its own, and its functions around the kernel of
//! `crates/query/src/floats.rs`; pure. Invariant EQZ-1: rows that the planner knows to be in the
//! order of such a number are in that of keys. So it is told that they are in the order of the
//! function too, and scans in the order of a key need no sort.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{ScalarFunction, Sort};
use datafusion::logical_expr::sort_properties::ExprProperties;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, Projection,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use crate::floats::{are_floats, one_spelling};
use crate::planner::intervals::computed;
use crate::planner::rule::{NodeRule, change_windows, rewrite_named, rewrite_parts};
use crate::planner::uuid_literals::is_comparison;

#[cfg(test)]
mod tests;

/// The rule.
pub(crate) const EQUAL_ZEROS: NodeRule = NodeRule::new("equal_zeros", rewrite);

/// The aggregates that depend on which of two rows comes first.
const OF_ORDERS: [&str; 5] = [
    "array_agg",
    "string_agg",
    "first_value",
    "last_value",
    "nth_value",
];

/// The functions and aggregates that give NaN a sign only where an argument has it.
const OF_SIGNS: [&str; 15] = [
    "abs",
    "array_agg",
    "ceil",
    "coalesce",
    "first_value",
    "floor",
    "lag",
    "last_value",
    "lead",
    "max",
    "min",
    "nth_value",
    "nullif",
    "round",
    "trunc",
];

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let in_predicates = |expr: Expr, schema: &DFSchema| {
        compared(expr, schema)?.transform_data(|expr| listed(expr, schema))
    };
    rewrite_parts(plan, &in_predicates)?
        .transform_data(in_orders)?
        .transform_data(in_columns)?
        .transform_data(over_aggregates)
}

/// What a plan computes as columns of its own, without the sign of NaN.
fn in_columns(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let makes_columns = matches!(
        plan,
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Values(_)
    );
    if !makes_columns {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    rewrite_named(plan, &mut |mut expr| {
        let changed = without_sign(&mut expr, &schema);
        Ok(Transformed::new(expr, changed, TreeNodeRecursion::Continue))
    })
}

/// Takes the sign off NaN in a column, if it may have one there.
fn without_sign(expr: &mut Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Alias(alias) => without_sign(&mut alias.expr, schema),
        // No call stands around an aggregate in its own plan.
        Expr::AggregateFunction(_) => false,
        expr => {
            let changed = is_float(expr, schema) && may_have_sign(expr, schema);
            if changed {
                wrap(expr, OneSpelling::shown());
            }
            changed
        }
    }
}

/// What aggregates and windows compute, without the sign of NaN: columns over their plan.
fn over_aggregates(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let made = match &plan {
        LogicalPlan::Aggregate(aggregate) => &aggregate.aggr_expr,
        LogicalPlan::Window(window) => &window.window_expr,
        _ => return Ok(Transformed::no(plan)),
    };
    let schema = merge_schema(&plan.inputs());
    let signs = made.iter().map(|expr| may_have_sign(expr, &schema));
    let signs: Vec<bool> = signs.collect();
    // They are the last columns of their plan.
    let first = plan.schema().fields().len().saturating_sub(signs.len());
    let has_sign = |at: usize, of: &DataType| {
        let at = at.checked_sub(first);
        are_floats(of) && at.is_some_and(|at| signs[at])
    };
    let mut changed = false;
    let columns = plan.schema().iter().enumerate().map(|(at, (of, field))| {
        let mut column = Expr::Column(Column::from((of, field)));
        if has_sign(at, field.data_type()) {
            changed = true;
            wrap(&mut column, OneSpelling::shown());
            column = column.alias_qualified(of.cloned(), field.name());
        }
        column
    });
    let columns: Vec<Expr> = columns.collect();
    match changed {
        true => {
            let over = Projection::try_new(columns, Arc::new(plan))?;
            Ok(Transformed::yes(LogicalPlan::Projection(over)))
        }
        false => Ok(Transformed::no(plan)),
    }
}

fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|of| are_floats(&of))
}

/// A comparison with floating-point numbers in which NaN has no sign, and no constant is -0.
fn compared(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let sides: Vec<&mut Expr> = match &mut expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            vec![binary.left.as_mut(), binary.right.as_mut()]
        }
        Expr::Between(between) => vec![
            between.expr.as_mut(),
            between.low.as_mut(),
            between.high.as_mut(),
        ],
        Expr::InList(list) => {
            let of = std::iter::once(list.expr.as_mut());
            of.chain(list.list.iter_mut()).collect()
        }
        _ => return Ok(Transformed::no(expr)),
    };
    let mut changed = false;
    if sides.iter().any(|side| is_float(side, schema)) {
        for side in sides {
            changed |= side_compared(side, schema);
        }
    }
    Ok(Transformed::new(expr, changed, TreeNodeRecursion::Continue))
}

/// What is compared with other numbers, in their spelling if it may have another one.
fn side_compared(side: &mut Expr, schema: &DFSchema) -> bool {
    match constant(side) {
        Some(number) if number.is_nan() => *side = lit(f64::NAN),
        Some(number) if number == 0.0 && number.is_sign_negative() => *side = lit(0.0),
        Some(_) => return false,
        // The planner compares lists bit by bit, and the zeros of numbers as they are equal.
        None => {
            let of = side.get_type(schema);
            let is_list = of.is_ok_and(|of| matches!(of, DataType::List(_)));
            return (is_list || may_have_sign(side, schema)) && spelt_once(side, schema);
        }
    }
    true
}

/// Whether a number may be a NaN with a sign: what is computed may, what is stored is not.
fn may_have_sign(expr: &Expr, schema: &DFSchema) -> bool {
    if let Some(number) = constant(expr) {
        return number.is_nan();
    }
    let any_may = |of: &[Expr]| of.iter().any(|of| may_have_sign(of, schema));
    // Of other numbers, no sum or average is a NaN.
    let any_is_float = |of: &[Expr]| of.iter().any(|of| is_float(of, schema));
    match expr {
        Expr::Alias(alias) => may_have_sign(&alias.expr, schema),
        Expr::Cast(cast) => may_be_read_with_sign(&cast.expr, schema),
        Expr::TryCast(cast) => may_be_read_with_sign(&cast.expr, schema),
        Expr::Negative(_) | Expr::Case(_) => true,
        Expr::BinaryExpr(binary) => matches!(
            binary.op,
            Operator::Plus
                | Operator::Minus
                | Operator::Multiply
                | Operator::Divide
                | Operator::Modulo
        ),
        Expr::ScalarFunction(call) if [IN_KEYS, SHOWN].contains(&call.name()) => false,
        Expr::ScalarFunction(call) if OF_SIGNS.contains(&call.name()) => any_may(&call.args),
        Expr::ScalarFunction(_) => true,
        Expr::AggregateFunction(call) if OF_SIGNS.contains(&call.func.name()) => {
            any_may(&call.params.args)
        }
        Expr::AggregateFunction(call) => any_is_float(&call.params.args),
        Expr::WindowFunction(call) if OF_SIGNS.contains(&call.fun.name()) => {
            any_may(&call.params.args)
        }
        Expr::WindowFunction(call) => any_is_float(&call.params.args),
        _ => false,
    }
}

/// The same of what is cast: a text may say what sign its NaN has.
fn may_be_read_with_sign(expr: &Expr, schema: &DFSchema) -> bool {
    let is_text = |of: DataType| matches!(of, DataType::Utf8 | DataType::Utf8View);
    expr.get_type(schema).is_ok_and(is_text) || may_have_sign(expr, schema)
}

/// The number that a constant is, or that its text says.
fn constant(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::Utf8View(text), _) => {
            text.as_ref()?.trim().parse().ok()
        }
        Expr::Literal(number, _) if number.data_type().is_numeric() => {
            match number.cast_to(&DataType::Float64) {
                Ok(ScalarValue::Float64(number)) => number,
                _ => None,
            }
        }
        Expr::Cast(cast) if cast.field.data_type().is_numeric() => constant(&cast.expr),
        Expr::TryCast(cast) if cast.field.data_type().is_numeric() => constant(&cast.expr),
        Expr::Negative(of) => constant(of).map(|number| -number),
        _ => None,
    }
}

/// A list of constants with both zeros, where it has one.
fn listed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::InList(mut list) = expr else {
        return Ok(Transformed::no(expr));
    };
    let scalar = match list.expr.get_type(schema) {
        Ok(DataType::Float64) => ScalarValue::Float64(Some(-0.0)),
        Ok(DataType::Float32) => ScalarValue::Float32(Some(-0.0)),
        _ => return Ok(Transformed::no(Expr::InList(list))),
    };
    let has_zero = list.list.iter().any(|one| constant(one) == Some(0.0));
    if has_zero {
        list.list.push(Expr::Literal(scalar, None));
    }
    let list = Expr::InList(list);
    Ok(Transformed::new(
        list,
        has_zero,
        TreeNodeRecursion::Continue,
    ))
}

fn in_orders(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let (plan, changed) = match plan {
        LogicalPlan::Sort(mut sort) => {
            let changed = ordered(&mut sort.expr, sort.input.schema());
            (LogicalPlan::Sort(sort), changed)
        }
        LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
            let schema = distinct.input.schema();
            let mut changed = false;
            for expr in &mut distinct.on_expr {
                changed |= spelt_once(expr, schema);
            }
            if let Some(order) = &mut distinct.sort_expr {
                changed |= ordered(order, schema);
            }
            (LogicalPlan::Distinct(Distinct::On(distinct)), changed)
        }
        LogicalPlan::Aggregate(_) => return rewrite_parts(plan, &aggregated),
        LogicalPlan::Window(_) => {
            return change_windows(plan, &|params, schema| {
                let mut changed = ordered(&mut params.order_by, schema);
                for expr in &mut params.partition_by {
                    changed |= spelt_once(expr, schema);
                }
                Ok(changed)
            });
        }
        other => (other, false),
    };
    Ok(Transformed::new(plan, changed, TreeNodeRecursion::Continue))
}

fn aggregated(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        // Those that it takes may be in no order but their own, spelt as they are.
        Expr::AggregateFunction(call) if call.params.distinct || call.func.name() == "mode" => {
            let mut changed = ordered(&mut call.params.order_by, schema);
            for argument in &mut call.params.args {
                changed |= spelt_once(argument, schema);
            }
            changed
        }
        Expr::AggregateFunction(call) if OF_ORDERS.contains(&call.func.name()) => {
            ordered(&mut call.params.order_by, schema)
        }
        _ => false,
    };
    Ok(Transformed::new(expr, changed, TreeNodeRecursion::Continue))
}

/// Orders numbers as keys are; tells whether there are any.
fn ordered(order: &mut [Sort], schema: &DFSchema) -> bool {
    let mut changed = false;
    for sort in order {
        changed |= spelt_once(&mut sort.expr, schema);
    }
    changed
}

/// Puts the call around an expression, if it is a floating-point number.
fn spelt_once(expr: &mut Expr, schema: &DFSchema) -> bool {
    let is_called = matches!(&*expr, Expr::ScalarFunction(call) if call.name() == IN_KEYS);
    if is_called || !is_float(expr, schema) {
        return false;
    }
    wrap(expr, OneSpelling::in_keys());
    true
}

/// Puts a function's call around an expression.
fn wrap(expr: &mut Expr, function: OneSpelling) {
    let function = Arc::new(ScalarUDF::from(function));
    let call = ScalarFunction::new_udf(function, vec![std::mem::take(expr)]);
    *expr = Expr::ScalarFunction(call);
}

const IN_KEYS: &str = "as_in_keys";
const SHOWN: &str = "one_nan";

/// A number with the only spelling that it has in keys; or, where it is shown, with one NaN.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneSpelling {
    name: &'static str,
    is_compared: bool,
    signature: Signature,
}

impl OneSpelling {
    fn in_keys() -> OneSpelling {
        OneSpelling {
            name: IN_KEYS,
            is_compared: true,
            signature: Signature::any(1, Volatility::Immutable),
        }
    }

    fn shown() -> OneSpelling {
        OneSpelling {
            name: SHOWN,
            is_compared: false,
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for OneSpelling {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [of] => Ok(of.clone()),
            _ => internal_err!("{} has one argument", self.name),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [of] => Ok(Arc::clone(of)),
            _ => internal_err!("{} has one argument", self.name),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| {
            Ok(one_spelling(&arrays[0], self.is_compared))
        })
    }

    fn preserves_lex_ordering(&self, _: &[ExprProperties]) -> Result<bool> {
        Ok(self.is_compared)
    }

    // Of what is in the order of keys: there, what this makes one is equal.
    fn strictly_order_preserving(&self, _: &[ExprProperties]) -> Result<bool> {
        Ok(self.is_compared)
    }
}
