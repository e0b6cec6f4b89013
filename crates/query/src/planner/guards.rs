//! What stands behind a condition is computed only where the condition holds, as in PostgreSQL:
//! `n <> 0 AND 10 / n > 3`, `CASE WHEN n <> 0 THEN 10 / n > 3 END`. The planner takes AND, OR and
//! a CASE of conditions for one another, and computes all of their parts for all rows.
//!
//! ```text
//!   CASE WHEN a THEN f ELSE b END   ->  truth(CASE WHEN a THEN number(f) ELSE number(b) END)
//!   WHERE f AND a                   ->  WHERE a AND truth(CASE WHEN a THEN number(f) ELSE 0 END)
//!   a AND f, a OR f                 ->  the same, with NULL as SQL has it
//!   sum(f) FILTER (WHERE a)         ->  sum(CASE WHEN a THEN f END) FILTER (WHERE a)
//! ```
//!
//! Here `f` can fail for some rows, and `a` for none. A CASE of numbers is computed branch by
//! branch, and no rule of the planner takes it apart. Two rules and two functions; pure. Invariant
//! GRD-1: conditions in which nothing can fail stay as they are, so that they are pushed down,
//! pruned by, and joined on.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int8Array};
use arrow::datatypes::{DataType, Int8Type};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::logical_expr::expr::{AggregateFunction, Case, ScalarFunction};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Filter, LogicalPlan, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use crate::planner::checked_integers::is_checked;
use crate::planner::rule::{NodeRule, rewrite_parts};
use crate::planner::spelt_moments::reads_moments;
use crate::walk::plans::{exists, transform_up};

/// The rule for CASE and for filters of aggregates, before the planner's own rules take them apart
/// and compute what they have in common.
pub(crate) const GUARDED_CASES: NodeRule = NodeRule::new("guarded_cases", guard_cases);

/// The rule for AND and OR, after the planner has pushed down what it can.
pub(crate) const GUARDED_CONDITIONS: NodeRule =
    NodeRule::new("guarded_conditions", guard_conditions);

fn guard_cases(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, schema| match expr {
        Expr::AggregateFunction(function) => guarded_aggregate(function, schema),
        expr => Ok(guarded_case(expr, schema)),
    })
}

fn guard_conditions(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        // What it takes for itself is asked again above it.
        LogicalPlan::TableScan(_) => Ok(Transformed::no(plan)),
        LogicalPlan::Filter(filter) => guarded_filter(filter),
        plan => rewrite_parts(plan, &|expr, schema| Ok(guarded_operator(expr, schema))),
    }
}

/// A filter whose conditions that can't fail come first.
fn guarded_filter(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(filter.input.schema());
    let mut changed = false;
    let (mut sound, mut failing, mut done) = (Vec::new(), Vec::new(), Vec::new());
    for condition in split_conjunction_owned(filter.predicate.clone()) {
        let condition = transform_up(condition, &mut |part| Ok(guarded_operator(part, &schema)))?;
        changed |= condition.transformed;
        match condition.data {
            condition if is_guarded(&condition) => done.push(condition),
            condition if can_fail(&condition, &schema) => failing.push(condition),
            condition => sound.push(condition),
        }
    }
    let failing = conjunction(failing);
    let guards = sound.iter().filter(|condition| !condition.is_volatile());
    let predicate = match (conjunction(guards.cloned().collect::<Vec<Expr>>()), failing) {
        (Some(guard), Some(failing)) => {
            changed = true;
            let failing = truth(case([(guard, number(failing))], Some(lit(0_i8))));
            sound.into_iter().chain(done).chain(Some(failing))
        }
        (_, failing) => sound.into_iter().chain(done).chain(failing),
    };
    let predicate = conjunction(predicate.collect::<Vec<Expr>>());
    match predicate.filter(|_| changed) {
        Some(predicate) => {
            let guarded = Filter::try_new(predicate, filter.input)?;
            Ok(Transformed::yes(LogicalPlan::Filter(guarded)))
        }
        None => Ok(Transformed::no(LogicalPlan::Filter(filter))),
    }
}

/// Whether a condition computes what can fail only where it may.
fn is_guarded(condition: &Expr) -> bool {
    matches!(condition, Expr::ScalarFunction(function)
        if function.func.name() == TO_TRUTH)
}

/// An AND or OR whose left side guards the right one.
fn guarded_operator(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::And | Operator::Or),
            right,
        }) if can_fail(&right, schema) && is_guard(&left, schema) => {
            Transformed::yes(guarded_operand(*left, op, *right))
        }
        other => Transformed::no(other),
    }
}

/// `left AND right`, or OR, where `right` is computed only if `left` does not decide.
fn guarded_operand(left: Expr, op: Operator, right: Expr) -> Expr {
    let right = number(right);
    let (decided, open) = (
        Expr::IsFalse(Box::new(left.clone())),
        Expr::IsTrue(Box::new(left)),
    );
    truth(match op {
        Operator::And => {
            let unknown = nullif(right.clone(), lit(1_i8));
            case([(decided, lit(0_i8)), (open, right)], Some(unknown))
        }
        _ => {
            let unknown = nullif(right.clone(), lit(0_i8));
            case([(open, lit(1_i8)), (decided, right)], Some(unknown))
        }
    })
}

/// An aggregate of what is computed only for the rows that its filter lets through.
fn guarded_aggregate(
    mut function: AggregateFunction,
    schema: &DFSchema,
) -> Result<Transformed<Expr>> {
    let mut changed = false;
    if let Some(filter) = function.params.filter.clone() {
        for argument in &mut function.params.args {
            if !is_guard(&filter, schema) || !can_fail(argument, schema) {
                continue;
            }
            let guard = filter.as_ref().clone();
            let computed = std::mem::take(argument);
            *argument = match computed.get_type(schema)? {
                DataType::Boolean => truth(case([(guard, number(computed))], None)),
                _ => case([(guard, computed)], None),
            };
            changed = true;
        }
    }
    let expr = Expr::AggregateFunction(function);
    Ok(match changed {
        true => Transformed::yes(expr),
        false => Transformed::no(expr),
    })
}

/// A CASE of conditions, one of which can fail, as one of numbers.
fn guarded_case(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let Expr::Case(found) = expr else {
        return Transformed::no(expr);
    };
    let first = found.when_then_expr.first();
    let of_conditions =
        first.is_some_and(|(_, then)| then.get_type(schema).ok() == Some(DataType::Boolean));
    if !of_conditions || !can_fail(&Expr::Case(found.clone()), schema) {
        return Transformed::no(Expr::Case(found));
    }
    let as_number = |then: Box<Expr>| Box::new(number(*then));
    let branches = found.when_then_expr.into_iter();
    Transformed::yes(truth(Expr::Case(Case {
        expr: found.expr,
        when_then_expr: branches
            .map(|(when, then)| (when, as_number(then)))
            .collect(),
        else_expr: found.else_expr.map(as_number),
    })))
}

fn case<const N: usize>(branches: [(Expr, Expr); N], otherwise: Option<Expr>) -> Expr {
    let branches = branches.into_iter();
    Expr::Case(Case {
        expr: None,
        when_then_expr: branches
            .map(|(when, then)| (Box::new(when), Box::new(then)))
            .collect(),
        else_expr: otherwise.map(Box::new),
    })
}

/// Whether a condition may guard others: it is computed a second time for that, so it fails for no
/// row, and gives the same again. `random() < 0.5` does not.
fn is_guard(condition: &Expr, schema: &DFSchema) -> bool {
    !condition.is_volatile() && !can_fail(condition, schema)
}

/// Whether some part of an expression fails for some values.
fn can_fail(expr: &Expr, schema: &DFSchema) -> bool {
    let found = exists(expr, &mut |part| Ok(part_can_fail(part, schema)));
    found.unwrap_or(false)
}

fn part_can_fail(part: &Expr, schema: &DFSchema) -> bool {
    let is_integer = |expr: &Expr| expr.get_type(schema).is_ok_and(|of| of.is_integer());
    match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Divide | Operator::Modulo => {
                let is_float = left.get_type(schema).is_ok_and(|of| of.is_floating());
                !is_float && !is_other_than_zero(right)
            }
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                is_integer(left) && !(is_literal(left) && is_literal(right))
            }
            _ => false,
        },
        Expr::Negative(negated) => !is_literal(negated) && is_integer(negated),
        Expr::ScalarFunction(function) => is_checked(&function.func) || reads_moments(function),
        Expr::Cast(cast) => {
            let to = cast.field.data_type();
            let narrows = |from: &DataType| match to.is_integer() {
                true => {
                    let wider = from.primitive_width() > to.primitive_width();
                    let loses_sign = from.is_signed_integer() && to.is_unsigned_integer();
                    let gains_sign = from.is_unsigned_integer() && to.is_signed_integer();
                    let same = from.primitive_width() == to.primitive_width();
                    !from.is_integer() || wider || loses_sign || (gains_sign && same)
                }
                false => from.is_string() && !to.is_string(),
            };
            !is_literal(&cast.expr) && cast.expr.get_type(schema).is_ok_and(|from| narrows(&from))
        }
        _ => false,
    }
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..))
}

fn is_other_than_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => {
            let zero = ScalarValue::new_zero(&value.data_type());
            !value.is_null() && zero.is_ok_and(|zero| zero != *value)
        }
        _ => false,
    }
}

/// A condition as a number: 1, 0 or NULL.
fn number(condition: Expr) -> Expr {
    convert(Conversion::ToNumber, condition)
}

/// Such a number as a condition.
fn truth(number: Expr) -> Expr {
    convert(Conversion::ToTruth, number)
}

fn convert(conversion: Conversion, argument: Expr) -> Expr {
    let function = ScalarUDF::from(Converted {
        conversion,
        signature: Signature::any(1, Volatility::Immutable),
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![argument]))
}

const TO_TRUTH: &str = "truth";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Conversion {
    ToNumber,
    ToTruth,
}

/// One of the two functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Converted {
    conversion: Conversion,
    signature: Signature,
}

impl ScalarUDFImpl for Converted {
    fn name(&self) -> &str {
        match self.conversion {
            Conversion::ToNumber => "number",
            Conversion::ToTruth => TO_TRUTH,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.conversion {
            Conversion::ToNumber => DataType::Int8,
            Conversion::ToTruth => DataType::Boolean,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let converted: ArrayRef = match self.conversion {
            Conversion::ToNumber => {
                let conditions = arrays[0].as_boolean().iter();
                Arc::new(conditions.map(|of| of.map(i8::from)).collect::<Int8Array>())
            }
            Conversion::ToTruth => {
                let numbers = arrays[0].as_primitive::<Int8Type>().iter();
                let conditions = numbers.map(|of| of.map(|of| of != 0));
                Arc::new(conditions.collect::<BooleanArray>())
            }
        };
        match &args.args[0] {
            ColumnarValue::Scalar(_) => {
                let scalar = ScalarValue::try_from_array(&converted, 0)?;
                Ok(ColumnarValue::Scalar(scalar))
            }
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(converted)),
        }
    }
}
