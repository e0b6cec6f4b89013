//! Operators and calls that mean something else in PostgreSQL than in the planner, told from one
//! another by the types of what they are over.
//!
//! | written                     | planned                                              |
//! | --------------------------- | ---------------------------------------------------- |
//! | `concat('a', true)`         | `concat('a', CASE WHEN true THEN 't' ...)`           |
//! | `nullif(f, 0)`, of floats   | `CASE WHEN f = 0 THEN NULL ELSE f END`: -0 is 0      |
//! | `CASE f WHEN 0`, of floats  | `CASE WHEN f = 0`, likewise                          |
//! | `1::INT << 31`              | in the type of the left side                         |
//! | `to_hex(-1)`, of an INT     | `to_hex` of its four bytes                           |
//! | `r + 1`, of a REAL          | in DOUBLE PRECISION                                  |
//! | `array_remove(a, NULL)`     | `array_compact(a)`                                   |
//! | `a @> b` with NULL in `b`   | false                                                |
//! | `a && b`                    | no NULL is in both                                   |
//!
//! A rule of the planner before its own; pure.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_nested::expr_fn::{array_compact, array_position};
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast, lit, when,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const MEANINGS: NodeRule = NodeRule::new("meanings", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &rewritten)
}

fn rewritten(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(binary) => Ok(operator(binary, schema)),
        Expr::ScalarFunction(function) => called(function, schema),
        Expr::Case(found) => Ok(case(found, schema)),
        other => Ok(Transformed::no(other)),
    }
}

fn of(expr: &Expr, schema: &DFSchema) -> DataType {
    expr.get_type(schema).unwrap_or(DataType::Null)
}

fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    of(expr, schema).is_floating()
}

fn operator(binary: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let BinaryExpr { left, op, right } = binary;
    let types = (of(&left, schema), of(&right, schema));
    let computes = matches!(
        op,
        Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide
    );
    let shifts = matches!(op, Operator::BitwiseShiftLeft | Operator::BitwiseShiftRight);
    let wide = |side: Box<Expr>, of: &DataType| match of {
        DataType::Float32 => Box::new(cast(*side, DataType::Float64)),
        _ => side,
    };
    let narrow = types.0.is_integer() && types.1.is_integer() && types.0 != types.1;
    let (left, right, changed) = match &types {
        (DataType::Float32, other) | (other, DataType::Float32)
            if computes && other.is_numeric() && *other != DataType::Float32 =>
        {
            (wide(left, &types.0), wide(right, &types.1), true)
        }
        (shifted, _) if shifts && narrow => {
            let right = cast(*right, shifted.clone());
            (left, Box::new(right), true)
        }
        _ => (left, right, false),
    };
    let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
    match changed {
        true => Transformed::yes(expr),
        false => Transformed::no(expr),
    }
}

fn called(mut function: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let name = function.func.name().to_owned();
    let rewritten = match (name.as_str(), function.args.as_mut_slice()) {
        ("concat" | "concat_ws", arguments) => {
            let mut changed = false;
            for argument in arguments {
                if of(argument, schema) == DataType::Boolean {
                    *argument = letter(std::mem::take(argument))?;
                    changed = true;
                }
            }
            let call = Expr::ScalarFunction(function);
            return Ok(match changed {
                true => Transformed::yes(call),
                false => Transformed::no(call),
            });
        }
        ("nullif", [value, other]) if is_float(value, schema) && !value.is_volatile() => {
            let nothing = Expr::Literal(ScalarValue::try_new_null(&of(value, schema))?, None);
            when(value.clone().eq(other.clone()), nothing).otherwise(value.clone())?
        }
        ("to_hex", [number])
            if matches!(
                of(number, schema),
                DataType::Int8 | DataType::Int16 | DataType::Int32
            ) =>
        {
            let wide = cast(std::mem::take(number), DataType::Int64);
            let mask = lit(i64::from(u32::MAX));
            let masked = BinaryExpr::new(Box::new(wide), Operator::BitwiseAnd, Box::new(mask));
            *number = Expr::BinaryExpr(masked);
            Expr::ScalarFunction(function)
        }
        ("array_remove_all", [list, Expr::Literal(value, _)]) if value.is_null() => {
            array_compact(list.clone())
        }
        ("array_has_all", [list, wanted]) => {
            let Some(null) = null_in(wanted, schema)? else {
                return Ok(Transformed::no(Expr::ScalarFunction(function)));
            };
            let unknown = array_position(wanted.clone(), null, lit(1_i64)).is_not_null();
            let impossible = list.clone().is_not_null().and(unknown);
            when(impossible, lit(false)).otherwise(Expr::ScalarFunction(function))?
        }
        ("array_has_any", [left, right])
            if null_in(left, schema)?.is_some() && null_in(right, schema)?.is_some() =>
        {
            *right = array_compact(std::mem::take(right));
            Expr::ScalarFunction(function)
        }
        _ => return Ok(Transformed::no(Expr::ScalarFunction(function))),
    };
    Ok(Transformed::yes(rewritten))
}

/// The letter that a truth is where texts are put together.
fn letter(truth: Expr) -> Result<Expr> {
    let mut letter = when(truth.clone().is_true(), lit("t"));
    letter.when(truth.is_false(), lit("f")).end()
}

/// The NULL that a list may hold, of the type of its elements; nothing where it holds none.
fn null_in(list: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let is_known = |element: &Expr| match element {
        Expr::Literal(value, _) => !value.is_null(),
        _ => false,
    };
    match (list, of(list, schema)) {
        (Expr::ScalarFunction(made), _)
            if made.func.name() == "make_array" && made.args.iter().all(is_known) =>
        {
            Ok(None)
        }
        (_, DataType::List(element)) if !element.data_type().is_null() => {
            let null = ScalarValue::try_new_null(element.data_type())?;
            Ok(Some(Expr::Literal(null, None)))
        }
        _ => Ok(None),
    }
}

/// A CASE that compares floating-point numbers: `=` takes -0 and 0 for one.
fn case(found: Case, schema: &DFSchema) -> Transformed<Expr> {
    match found.expr {
        Some(value) if is_float(&value, schema) && !value.is_volatile() => {
            let branches = found.when_then_expr.into_iter().map(|(wanted, then)| {
                let is_it = Box::new(value.as_ref().clone().eq(*wanted));
                (is_it, then)
            });
            Transformed::yes(Expr::Case(Case {
                expr: None,
                when_then_expr: branches.collect(),
                else_expr: found.else_expr,
            }))
        }
        expr => Transformed::no(Expr::Case(Case { expr, ..found })),
    }
}

/// Plans `a || NULL` of an array: a NULL without a type is an array that is none.
#[derive(Debug)]
pub(crate) struct BareNulls;

impl ExprPlanner for BareNulls {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op == BinaryOperator::StringConcat {
            let is_null = |side: &Expr| matches!(side, Expr::Literal(ScalarValue::Null, _));
            let is_list = |side: &Expr| matches!(of(side, schema), DataType::List(_));
            if is_null(&expr.right) && is_list(&expr.left) {
                return Ok(PlannerResult::Planned(expr.left));
            }
            if is_null(&expr.left) && is_list(&expr.right) {
                return Ok(PlannerResult::Planned(expr.right));
            }
        }
        Ok(PlannerResult::Original(expr))
    }
}
