//! Sums, differences and products of integers that are out of their type's range: an error, as
//! in PostgreSQL, where the planner's operators wrap around to another number; and those of
//! DECIMALs that have more digits than any DECIMAL, of which the planner's operators drop the last.
//!
//! ```text
//!   a + b    ->  plus(a, b)       a * b  ->  times(a, b)
//!   a - b    ->  minus(a, b)      -a     ->  minus(0, a)
//!   a + b - c    ->  plus_minus(a, b, c), so that a row of operators is no deeper than one
//! ```
//!
//! The difference of two numbers without a sign has one: `row_number()` and others count in such
//! numbers, where PostgreSQL has BIGINT.
//!
//! Two rules of the planner and their functions; pure. Constants are rewritten before they are
//! computed; all else only after the planner's own rules, which know operators and no functions.
//! Invariant CHI-1: a number that an expression gives is the one that arithmetic gives.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Datum, Int64Array};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type,
    Field, FieldRef, UInt64Type,
};
use arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, internal_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::planner::rule::{NodeRule, rewrite_named};
use crate::types;
use crate::walk::plans::transform_up;

/// The rule for expressions without columns, which the planner computes itself.
pub(crate) const CHECKED_CONSTANTS: NodeRule =
    NodeRule::new("checked_constants", |plan| rewrite(plan, is_constant));

/// The rule for all others.
pub(crate) const CHECKED_INTEGERS: NodeRule =
    NodeRule::new("checked_integers", |plan| rewrite(plan, |_| true));

fn is_constant(expr: &Expr) -> bool {
    // What was constant below is no operator any more.
    let varies = |part: &Expr| matches!(part, Expr::Column(_) | Expr::BinaryExpr(_));
    match expr {
        Expr::BinaryExpr(binary) if varies(&binary.left) || varies(&binary.right) => false,
        Expr::BinaryExpr(_) | Expr::Negative(_) => expr.column_refs().is_empty(),
        _ => false,
    }
}

/// An expression over columns of a schema, which no plan holds.
pub(crate) fn checked_alone(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let rewritten = transform_up(expr, &mut |expr| Ok(checked(expr, schema)))?;
    Ok(rewritten.data)
}

fn rewrite(plan: LogicalPlan, counts: impl Fn(&Expr) -> bool) -> Result<Transformed<LogicalPlan>> {
    let schema = match &plan {
        LogicalPlan::TableScan(scan) => scan.projected_schema.as_ref().clone(),
        plan => merge_schema(&plan.inputs()),
    };
    rewrite_named(plan, &mut |expr| {
        transform_up(expr, &mut |expr| {
            Ok(match counts(&expr) {
                true => checked(expr, &schema),
                false => Transformed::no(expr),
            })
        })
    })
}

fn checked(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let integer = |expr: &Expr| {
        let of = match of_call(expr) {
            Some(known) => Some(known.of.clone()),
            None => expr.get_type(schema).ok(),
        };
        of.filter(DataType::is_integer)
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let of = integer(&left).filter(|left| integer(&right).as_ref() == Some(left));
            if let Some((operation, of)) = Arithmetic::of(op).zip(of) {
                return Transformed::yes(operation.call(of, *left, *right));
            }
            let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
            match Arithmetic::of(op).zip(widest_decimal(&expr, schema)) {
                Some((operation, of)) => Transformed::yes(operation.of_decimals(of, expr)),
                None => Transformed::no(expr),
            }
        }
        Expr::Negative(negated) if !matches!(*negated, Expr::Literal(..)) => {
            let of = integer(&negated);
            match of.and_then(|of| Some((ScalarValue::new_zero(&of).ok()?, of))) {
                Some((zero, of)) => {
                    let zero = Expr::Literal(zero, None);
                    Transformed::yes(Arithmetic::Minus.call(of, zero, *negated))
                }
                None => Transformed::no(Expr::Negative(negated)),
            }
        }
        other => Transformed::no(other),
    }
}

/// The type of an operation on two DECIMALs, where it has as many digits as there can be: with
/// fewer than that, there is room for whatever the operation gives.
fn widest_decimal(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = expr else {
        return None;
    };
    let is_decimal = |side: &Expr| side.get_type(schema).is_ok_and(|of| of.is_decimal());
    if !is_decimal(left) || !is_decimal(right) {
        return None;
    }
    let of = expr.get_type(schema).ok()?;
    let widest = matches!(
        of,
        DataType::Decimal128(DECIMAL128_MAX_PRECISION, _)
            | DataType::Decimal256(DECIMAL256_MAX_PRECISION, _)
    );
    widest.then_some(of)
}

/// The operations that an expression is a call of, if it is.
fn of_call(expr: &Expr) -> Option<&Checked> {
    match expr {
        Expr::ScalarFunction(function) => function.func.inner().downcast_ref::<Checked>(),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Arithmetic {
    Plus,
    Minus,
    Times,
    /// Of two BIGINT UNSIGNED, a BIGINT.
    Difference,
}

impl Arithmetic {
    fn of(operator: Operator) -> Option<Arithmetic> {
        match operator {
            Operator::Plus => Some(Arithmetic::Plus),
            Operator::Minus => Some(Arithmetic::Minus),
            Operator::Multiply => Some(Arithmetic::Times),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Arithmetic::Plus => "plus",
            Arithmetic::Minus => "minus",
            Arithmetic::Times => "times",
            Arithmetic::Difference => "difference",
        }
    }

    /// The operation on two integers of one type: their value where both are constants, else a
    /// call, which goes on with that of the left one.
    fn call(self, of: DataType, left: Expr, right: Expr) -> Expr {
        if let (Expr::Literal(left, _), Expr::Literal(right, _)) = (&left, &right)
            && self != Arithmetic::Difference
        {
            let operands = [left, right].map(|value| ColumnarValue::Scalar(value.clone()));
            // One that fails may never be computed.
            if let Ok(ColumnarValue::Scalar(value)) = self.compute(&operands[0], &operands[1], &of)
            {
                return Expr::Literal(value, None);
            }
        }
        let before = of_call(&left).filter(|before| before.of == of);
        let goes_on = before.filter(|before| !before.operations.contains(&Arithmetic::Difference));
        let mut operations = goes_on.map_or_else(Vec::new, |before| before.operations.clone());
        let mut arguments = match left {
            Expr::ScalarFunction(call) if !operations.is_empty() => call.args,
            left => vec![left],
        };
        operations.push(self);
        arguments.push(right);
        let function = ScalarUDF::from(Checked::new(operations, of));
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), arguments))
    }

    /// The operation on two DECIMALs.
    fn of_decimals(self, of: DataType, expr: Expr) -> Expr {
        let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = expr else {
            return expr;
        };
        let function = ScalarUDF::from(Checked::new(vec![self], of));
        Expr::ScalarFunction(ScalarFunction::new_udf(
            Arc::new(function),
            vec![*left, *right],
        ))
    }

    fn compute(
        self,
        left: &ColumnarValue,
        right: &ColumnarValue,
        of: &DataType,
    ) -> Result<ColumnarValue> {
        let kernel = |left: &dyn Datum, right: &dyn Datum| {
            let made = match self {
                Arithmetic::Plus => numeric::add(left, right),
                Arithmetic::Minus | Arithmetic::Difference => numeric::sub(left, right),
                Arithmetic::Times => numeric::mul(left, right),
            }?;
            has_digits(&made).map(|()| made)
        };
        if self == Arithmetic::Difference {
            return differences(left, right);
        }
        apply(left, right, kernel).map_err(|error| match error {
            DataFusionError::ArrowError(error, _)
                if matches!(*error, ArrowError::ArithmeticOverflow(_)) =>
            {
                let what = error.to_string();
                let operands = match of.is_decimal() {
                    // They are told without their points.
                    true => "it has more digits",
                    false => what.rsplit_once(": ").map_or("", |(_, operands)| operands),
                };
                into_datafusion(out_of_range(of, operands))
            }
            other => other,
        })
    }
}

/// Checks that DECIMALs have no more digits than their type.
fn has_digits(made: &ArrayRef) -> Result<(), ArrowError> {
    let checked = match made.data_type() {
        DataType::Decimal128(precision, _) => made
            .as_primitive::<Decimal128Type>()
            .validate_decimal_precision(*precision),
        DataType::Decimal256(precision, _) => made
            .as_primitive::<Decimal256Type>()
            .validate_decimal_precision(*precision),
        _ => Ok(()),
    };
    checked.map_err(|error| ArrowError::ArithmeticOverflow(error.to_string()))
}

/// Operations on numbers of one type, from the left to the right; or one on two DECIMALs.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    /// One less than there are arguments.
    operations: Vec<Arithmetic>,
    /// The type of what it gives.
    of: DataType,
    name: String,
    signature: Signature,
}

impl Checked {
    fn new(operations: Vec<Arithmetic>, of: DataType) -> Checked {
        let names: Vec<&str> = operations
            .iter()
            .map(|operation| operation.name())
            .collect();
        Checked {
            signature: Signature::any(operations.len() + 1, Volatility::Immutable),
            name: names.join("_"),
            operations,
            of,
        }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.of.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.of.clone(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut operands = args.args.into_iter();
        let first = operands
            .next()
            .ok_or_else(|| internal_datafusion_err!("an operation on nothing"))?;
        let mut steps = self.operations.iter().zip(operands);
        steps.try_fold(first, |left, (operation, right)| {
            operation.compute(&left, &right, &self.of)
        })
    }
}

/// `left - right` of two BIGINT UNSIGNED.
pub(crate) fn difference(left: Expr, right: Expr) -> Expr {
    Arithmetic::Difference.call(DataType::Int64, left, right)
}

fn differences(left: &ColumnarValue, right: &ColumnarValue) -> Result<ColumnarValue> {
    let operands = [left.clone(), right.clone()];
    let arrays = ColumnarValue::values_to_arrays(&operands)?;
    let (left, right) = (
        arrays[0].as_primitive::<UInt64Type>(),
        arrays[1].as_primitive::<UInt64Type>(),
    );
    let one = |left: u64, right: u64| {
        let exact = i128::from(left) - i128::from(right);
        let fits = i64::try_from(exact);
        fits.map_err(|_| into_datafusion(out_of_range(&DataType::Int64, &exact.to_string())))
    };
    let pairs = left.iter().zip(right.iter());
    let found = pairs.map(|(left, right)| left.zip(right).map(|(l, r)| one(l, r)).transpose());
    let array: ArrayRef = Arc::new(found.collect::<Result<Int64Array>>()?);
    let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
    Ok(match operands.iter().all(is_scalar) {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
        false => ColumnarValue::Array(array),
    })
}

/// Whether a function is one of these.
pub(crate) fn is_checked(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<Checked>().is_some()
}

/// A number that is none of its type.
pub(crate) fn out_of_range(of: &DataType, number: &str) -> Error {
    Error::invalid(format!("{} out of range: {number}", types::name(of))).with_sqlstate("22003")
}
