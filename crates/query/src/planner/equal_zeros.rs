//! Orders of floating-point numbers as `=` and keys have them: -0 is 0, and there is one NaN, after
//! all numbers. The planner has -0 before 0, and a NaN with a sign before all numbers. So it is for
//! aggregates that take each value once, and in lists, which the planner compares bit by bit.
//!
//! ```text
//!   ORDER BY x, k                   ->  ORDER BY as_in_keys(x), k
//!   array_agg(k ORDER BY x, k)      ->  array_agg(k ORDER BY as_in_keys(x), k)
//!   rank() OVER (PARTITION BY x)    ->  rank() OVER (PARTITION BY as_in_keys(x))
//!   DISTINCT ON (x) ... ORDER BY x  ->  DISTINCT ON (as_in_keys(x)) ... ORDER BY as_in_keys(x)
//!   count(DISTINCT x)               ->  count(DISTINCT as_in_keys(x))
//!   x IN (0, 1)                     ->  x IN (0, 1, -0.0)
//!   x - y > 5                       ->  as_in_keys(x - y) > 5
//!   SELECT x - y ..., GROUP BY -x   ->  SELECT one_nan(x - y) ..., GROUP BY one_nan(-x)
//! ```
//!
//! Stored numbers have a NaN without a sign (`crates/query/src/cast.rs`): those that are computed
//! may have one with a sign. Columns that a query computes have it taken off, for GROUP BY,
//! DISTINCT, UNION and joins compare them bit by bit; -0, which SELECT shows, stays there.
//!
//! A rule of the planner before its own, and its function; pure. Invariant EQZ-1: rows that the
//! planner knows to be in the order of such a number are in that of keys. So it is told that they
//! are in the order of the function too, and scans in the order of a key need no sort.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{ScalarFunction, Sort};
use datafusion::logical_expr::sort_properties::ExprProperties;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::planner::intervals::computed;
use crate::planner::rule::{NodeRule, change_windows, rewrite_named, rewrite_parts};
use crate::planner::uuid_literals::is_comparison;

#[cfg(test)]
mod tests;

/// The rule, once both sides of operators have one type.
pub(crate) const EQUAL_ZEROS: NodeRule = NodeRule::new("equal_zeros", rewrite);

/// The aggregates that depend on which of two rows comes first.
const OF_ORDERS: [&str; 5] = [
    "array_agg",
    "string_agg",
    "first_value",
    "last_value",
    "nth_value",
];

/// The functions that give NaN a sign only where an argument has it.
const OF_SIGNS: [&str; 7] = [
    "abs", "ceil", "coalesce", "floor", "nullif", "round", "trunc",
];

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let in_predicates = |expr: Expr, schema: &DFSchema| {
        listed(expr, schema)?.transform_data(|expr| compared(expr, schema))
    };
    rewrite_parts(plan, in_predicates)?
        .transform_data(in_orders)?
        .transform_data(in_columns)
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
    rewrite_named(plan, |mut expr| {
        let changed = without_sign(&mut expr, &schema);
        Ok(Transformed::new(expr, changed, TreeNodeRecursion::Continue))
    })
}

/// Takes the sign off NaN in a column, if it may have one there.
fn without_sign(expr: &mut Expr, schema: &DFSchema) -> bool {
    if let Expr::Alias(alias) = expr {
        return without_sign(&mut alias.expr, schema);
    }
    let is_float = expr.get_type(schema).is_ok_and(|of| of.is_floating());
    if !is_float || !may_have_sign(expr) {
        return false;
    }
    wrap(expr, OneNan::new());
    true
}

/// A comparison in which NaN has no sign.
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
    for side in sides {
        changed |= may_have_sign(side) && spelt_once(side, schema);
    }
    Ok(Transformed::new(expr, changed, TreeNodeRecursion::Continue))
}

/// Whether a number may be a NaN with a sign: what is computed may, what is stored is not.
fn may_have_sign(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(constant, _) => may_read_as_nan(constant),
        Expr::Alias(alias) => may_have_sign(&alias.expr),
        Expr::Cast(cast) => may_have_sign(&cast.expr),
        Expr::TryCast(cast) => may_have_sign(&cast.expr),
        Expr::Negative(of) => match of.as_ref() {
            Expr::Literal(constant, _) => may_read_as_nan(constant),
            _ => true,
        },
        Expr::BinaryExpr(binary) => matches!(
            binary.op,
            Operator::Plus
                | Operator::Minus
                | Operator::Multiply
                | Operator::Divide
                | Operator::Modulo
        ),
        Expr::ScalarFunction(call) if [NAME, ONE_NAN].contains(&call.name()) => false,
        Expr::ScalarFunction(call) if OF_SIGNS.contains(&call.name()) => {
            call.args.iter().any(may_have_sign)
        }
        Expr::ScalarFunction(_) | Expr::Case(_) => true,
        _ => false,
    }
}

/// Whether a constant, or the number that a text says, is a NaN.
fn may_read_as_nan(constant: &ScalarValue) -> bool {
    match constant {
        ScalarValue::Float64(Some(number)) => number.is_nan(),
        ScalarValue::Float32(Some(number)) => number.is_nan(),
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            text.trim().parse::<f64>().is_ok_and(f64::is_nan)
        }
        _ => false,
    }
}

/// A list of constants with both zeros, where it has one.
fn listed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::InList(mut list) = expr else {
        return Ok(Transformed::no(expr));
    };
    let scalar: fn(f64) -> ScalarValue = match list.expr.get_type(schema) {
        Ok(DataType::Float64) => |zero| ScalarValue::Float64(Some(zero)),
        Ok(DataType::Float32) => |zero| ScalarValue::Float32(Some(zero as f32)),
        _ => return Ok(Transformed::no(Expr::InList(list))),
    };
    let found: Vec<f64> = list.list.iter().filter_map(zero).collect();
    let is_missing = |wanted: &f64| {
        let mut signs = found.iter().map(|zero| zero.is_sign_negative());
        !found.is_empty() && signs.all(|sign| sign != wanted.is_sign_negative())
    };
    let missing: Vec<f64> = [0.0, -0.0].into_iter().filter(is_missing).collect();
    let changed = !missing.is_empty();
    let constant = |zero| Expr::Literal(scalar(zero), None);
    list.list.extend(missing.into_iter().map(constant));
    let list = Expr::InList(list);
    Ok(Transformed::new(list, changed, TreeNodeRecursion::Continue))
}

/// The zero that a constant is, if it is one.
fn zero(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(constant, _) => match constant.cast_to(&DataType::Float64) {
            Ok(ScalarValue::Float64(Some(number))) if number == 0.0 => Some(number),
            _ => None,
        },
        Expr::Cast(cast) => zero(&cast.expr),
        Expr::Negative(of) => zero(of).map(|zero| -zero),
        _ => None,
    }
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
        LogicalPlan::Aggregate(_) => return rewrite_parts(plan, aggregated),
        LogicalPlan::Window(_) => {
            return change_windows(plan, |params, schema| {
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
        Expr::AggregateFunction(call) if call.params.distinct => {
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
    let is_called = matches!(&*expr, Expr::ScalarFunction(call) if call.name() == NAME);
    let is_float = expr.get_type(schema).is_ok_and(|of| of.is_floating());
    if is_called || !is_float {
        return false;
    }
    wrap(expr, AsInKeys::new());
    true
}

/// Puts a function's call around an expression.
fn wrap(expr: &mut Expr, function: impl ScalarUDFImpl + 'static) {
    let function = Arc::new(ScalarUDF::from(function));
    let call = ScalarFunction::new_udf(function, vec![std::mem::take(expr)]);
    *expr = Expr::ScalarFunction(call);
}

const NAME: &str = "as_in_keys";

/// A number with the only spelling that it has in keys.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsInKeys {
    signature: Signature,
}

impl AsInKeys {
    fn new() -> AsInKeys {
        AsInKeys {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for AsInKeys {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [of] => Ok(of.clone()),
            _ => internal_err!("{NAME} has one argument"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [of] => Ok(Arc::clone(of)),
            _ => internal_err!("{NAME} has one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| Ok(in_keys(&arrays[0])))
    }

    fn preserves_lex_ordering(&self, _: &[ExprProperties]) -> Result<bool> {
        Ok(true)
    }

    // Of what is in the order of keys: there, what this makes one is equal.
    fn strictly_order_preserving(&self, _: &[ExprProperties]) -> Result<bool> {
        Ok(true)
    }
}

/// Numbers as they are in keys. Added to 0, both zeros are 0.
fn in_keys(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let numbers = values.as_primitive::<Float64Type>();
            let numbers: PrimitiveArray<Float64Type> = numbers.unary(|x| match x.is_nan() {
                true => f64::NAN,
                false => x + 0.0,
            });
            Arc::new(numbers)
        }
        DataType::Float32 => {
            let numbers = values.as_primitive::<Float32Type>();
            let numbers: PrimitiveArray<Float32Type> = numbers.unary(|x| match x.is_nan() {
                true => f32::NAN,
                false => x + 0.0,
            });
            Arc::new(numbers)
        }
        _ => Arc::clone(values),
    }
}

const ONE_NAN: &str = "one_nan";

/// A number, NaN without a sign.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneNan {
    signature: Signature,
}

impl OneNan {
    fn new() -> OneNan {
        OneNan {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for OneNan {
    fn name(&self) -> &str {
        ONE_NAN
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [of] => Ok(of.clone()),
            _ => internal_err!("{ONE_NAN} has one argument"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [of] => Ok(Arc::clone(of)),
            _ => internal_err!("{ONE_NAN} has one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| Ok(one_nan(&arrays[0])))
    }
}

/// Numbers whose NaN has no sign.
fn one_nan(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let numbers = values.as_primitive::<Float64Type>();
            let numbers: PrimitiveArray<Float64Type> = numbers.unary(|x| match x.is_nan() {
                true => f64::NAN,
                false => x,
            });
            Arc::new(numbers)
        }
        DataType::Float32 => {
            let numbers = values.as_primitive::<Float32Type>();
            let numbers: PrimitiveArray<Float32Type> = numbers.unary(|x| match x.is_nan() {
                true => f32::NAN,
                false => x,
            });
            Arc::new(numbers)
        }
        _ => Arc::clone(values),
    }
}
