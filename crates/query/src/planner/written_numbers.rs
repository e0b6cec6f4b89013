//! Constants with a point beside decimals, in arithmetic, as the decimals that they were written
//! as: the planner takes them for doubles, and what stands beside them too.
//!
//! ```text
//!   p * 1.10      p DECIMAL(10, 2)     ->   p * 1.10::DECIMAL(3, 2)
//!   x * 1.10      x DOUBLE PRECISION   ->   x * 1.1
//!   p * 1.1e0                          ->   p::DOUBLE PRECISION * 1.1
//! ```
//!
//! In sqlparser's tree such a constant becomes a call that keeps its text, and where the operator
//! is planned, the type of what stands beside it tells what it is. What a parameter brought is of
//! the parameter's type: it has no place in the statement's text. Pure. Invariant WRN-1: no such
//! call is left in a plan.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{AsArray, Float64Array};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, UnaryOperator, Value, VisitMut,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::pg_catalog::rewrite::call;
use crate::planner::exact_constants::{Digits, decimal, literal, most, one_type_holds, spelt};
use crate::planner::intervals::computed;
use crate::walk::visit_expressions_mut;

/// The function that keeps a constant's text.
const WRITTEN_NUMBER: &str = "written_number";

/// Digits behind the point of a product that leave room for eighteen before it.
const PRODUCT_SCALE_MAX: i16 = 20;

/// Keeps the texts of constants that stand beside something else in arithmetic.
pub(crate) fn keep(tree: &mut impl VisitMut) {
    let done: ControlFlow<()> = visit_expressions_mut(tree, |expr| {
        if let SqlExpr::BinaryOp { left, op, right } = expr
            && computes(op)
        {
            keep_one(left);
            keep_one(right);
        }
        ControlFlow::Continue(())
    });
    debug_assert!(done.is_continue(), "nothing ends the visit");
}

fn computes(op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(op, B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo)
}

fn keep_one(side: &mut SqlExpr) {
    let text = match side {
        SqlExpr::Nested(inner) => return keep_one(inner),
        SqlExpr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => written(expr).map(|text| format!("-{text}")),
        _ => written(side),
    };
    if let Some(text) = text {
        let text = SqlExpr::Value(Value::SingleQuotedString(text).into());
        *side = call(WRITTEN_NUMBER, vec![text]);
    }
}

/// The text of a number with a point and without an exponent, that somebody wrote.
fn written(expr: &SqlExpr) -> Option<String> {
    let SqlExpr::Value(value) = expr else {
        return None;
    };
    let Value::Number(number, _) = &value.value else {
        return None;
    };
    let is_plain = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'_');
    let is_written = value.span != Span::empty();
    let keeps = is_written && number.contains('.') && number.bytes().all(is_plain);
    keeps.then(|| number.replace('_', ""))
}

/// Adds the function.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let function = WrittenNumber {
        signature: Signature::exact(vec![DataType::Utf8], Volatility::Immutable),
    };
    state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WrittenNumber {
    signature: Signature,
}

impl ScalarUDFImpl for WrittenNumber {
    fn name(&self) -> &str {
        WRITTEN_NUMBER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| {
            let texts = arrays[0].as_string::<i32>().iter();
            let numbers = texts.map(|text| text?.parse::<f64>().ok());
            Ok(Arc::new(numbers.collect::<Float64Array>()))
        })
    }
}

/// Says where an operator is planned what its constants are.
#[derive(Debug)]
pub(crate) struct WrittenNumbers;

impl ExprPlanner for WrittenNumbers {
    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = raw;
        let known = |text: Option<(String, f64)>, expr: Expr, beside: &Expr| match text {
            None => expr,
            Some((text, number)) => {
                let exact = decimal(beside, schema).and_then(|beside| exact(&text, &op, beside));
                exact.unwrap_or_else(|| lit(number))
            }
        };
        let (of_left, of_right) = (kept(&left), kept(&right));
        let left = known(of_left, left, &right);
        let right = known(of_right, right, &left);
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// The text of a constant that was kept, and the double that it is.
fn kept(expr: &Expr) -> Option<(String, f64)> {
    let Expr::ScalarFunction(function) = expr else {
        return None;
    };
    match function.args.as_slice() {
        [Expr::Literal(ScalarValue::Utf8(Some(text)), _)]
            if function.func.name() == WRITTEN_NUMBER =>
        {
            Some((text.clone(), text.parse().ok()?))
        }
        _ => None,
    }
}

/// A constant as a decimal, where what is computed has a type that holds it.
fn exact(text: &str, op: &BinaryOperator, beside: Digits) -> Option<Expr> {
    let (value, (precision, scale)) = spelt(text)?;
    let both = i16::from(scale) + i16::from(beside.1);
    let whole = |(precision, scale): Digits| i16::from(precision) - i16::from(scale);
    let fits = match op {
        BinaryOperator::Multiply => {
            let all = whole((precision, scale)) + whole(beside) + both;
            both <= PRODUCT_SCALE_MAX || all <= most(beside)
        }
        BinaryOperator::Divide => i16::from(scale) <= PRODUCT_SCALE_MAX,
        _ => one_type_holds((precision, scale), beside),
    };
    fits.then(|| lit(literal(value, (precision, scale), beside)))
}
