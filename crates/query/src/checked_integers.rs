//! Sums, differences and products of integers that are out of their type's range: an error, as
//! in PostgreSQL, where the planner's operators wrap around to another number.
//!
//! ```text
//!   a + b    ->  plus(a, b)       a * b  ->  times(a, b)
//!   a - b    ->  minus(a, b)      -a     ->  minus(0, a)
//! ```
//!
//! Two rules of the planner and their functions; pure. Constants are rewritten before they are
//! computed; all else only after the planner's own rules, which know operators and no functions.
//! Invariant CHI-1: an integer that an expression gives is the number that arithmetic gives.

use std::sync::Arc;

use arrow::array::Datum;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr_common::datum::apply;
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::named_rewrites::rewrite_named;
use crate::types;

/// The rule for expressions without columns, which the planner computes itself.
#[derive(Debug)]
pub(crate) struct CheckedConstants;

impl AnalyzerRule for CheckedConstants {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let is_constant = |expr: &Expr| expr.column_refs().is_empty();
        let rewritten = plan.transform_up_with_subqueries(|plan| rewrite(plan, is_constant))?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &str {
        "checked_constants"
    }
}

/// The rule for all others.
#[derive(Debug)]
pub(crate) struct CheckedIntegers;

impl OptimizerRule for CheckedIntegers {
    fn name(&self) -> &str {
        "checked_integers"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        rewrite(plan, |_| true)
    }
}

fn rewrite(plan: LogicalPlan, counts: impl Fn(&Expr) -> bool) -> Result<Transformed<LogicalPlan>> {
    let schema = match &plan {
        LogicalPlan::TableScan(scan) => scan.projected_schema.as_ref().clone(),
        plan => merge_schema(&plan.inputs()),
    };
    rewrite_named(plan, |expr| {
        expr.transform_up(|expr| {
            Ok(match counts(&expr) {
                true => checked(expr, &schema),
                false => Transformed::no(expr),
            })
        })
    })
}

fn checked(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let integer = |expr: &Expr| {
        let of = expr.get_type(schema).ok();
        of.filter(DataType::is_integer)
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let of = integer(&left).filter(|left| integer(&right).as_ref() == Some(left));
            match Arithmetic::of(op).filter(|_| of.is_some()) {
                Some(operation) => Transformed::yes(operation.call(*left, *right)),
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::Negative(negated) if !matches!(*negated, Expr::Literal(..)) => {
            let zero = integer(&negated).and_then(|of| ScalarValue::new_zero(&of).ok());
            match zero {
                Some(zero) => {
                    Transformed::yes(Arithmetic::Minus.call(Expr::Literal(zero, None), *negated))
                }
                None => Transformed::no(Expr::Negative(negated)),
            }
        }
        other => Transformed::no(other),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Arithmetic {
    Plus,
    Minus,
    Times,
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
        }
    }

    fn call(self, left: Expr, right: Expr) -> Expr {
        let function = ScalarUDF::from(Checked {
            operation: self,
            signature: Signature::any(2, Volatility::Immutable),
        });
        let arguments = vec![left, right];
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), arguments))
    }
}

/// One operation on two integers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Arithmetic,
    signature: Signature,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.operation.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let of = args.arg_fields[0].data_type().clone();
        Ok(Arc::new(Field::new(self.name(), of, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let compute = |left: &dyn Datum, right: &dyn Datum| match self.operation {
            Arithmetic::Plus => numeric::add(left, right),
            Arithmetic::Minus => numeric::sub(left, right),
            Arithmetic::Times => numeric::mul(left, right),
        };
        apply(&args.args[0], &args.args[1], compute).map_err(|error| match error {
            DataFusionError::ArrowError(error, _)
                if matches!(*error, ArrowError::ArithmeticOverflow(_)) =>
            {
                let what = error.to_string();
                let operands = what.rsplit_once(": ").map_or("", |(_, operands)| operands);
                into_datafusion(out_of_range(args.return_field.data_type(), operands))
            }
            other => other,
        })
    }
}

/// A number that is none of its type.
pub(crate) fn out_of_range(of: &DataType, number: &str) -> Error {
    Error::invalid(format!("{} out of range: {number}", types::name(of))).with_sqlstate("22003")
}
