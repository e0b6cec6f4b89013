//! What has no type of its own takes that of what it stands beside, as PostgreSQL's constants in
//! quotes and parameters do, and not the other way round. The planner would take a text and a
//! timestamp to the finest timestamps, which end in 2262, and has nothing in common for a BOOLEAN
//! and a text.
//!
//! ```text
//!   at < '9999-12-31'          ->  at < TIMESTAMP '9999-12-31'
//!   done = 't'                 ->  done = TRUE
//!   took IN ('1 day', '36:00') ->  took IN (INTERVAL '1 day', INTERVAL '36 hours')
//!   coalesce($1, n)            ->  $1 is of the type of n
//!   lag(at, 1, '2020-01-01')   ->  lag(at, 1, TIMESTAMP '2020-01-01')
//! ```
//!
//! A rule of the planner and its form for single operators, which also tell the types of
//! parameters; pure. Invariant UNL-1: only constants and parameters change, and each constant to
//! what the same text is in a column of the type.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use lazybase_model::{Column, Error};

use crate::cast::{shown, texts_as};
use crate::error::into_datafusion;
use crate::planner::checked_integers;
use crate::planner::rule::{NodeRule, rewrite_parts};
use crate::planner::series::{PLACES, SERIES};
use crate::planner::uuid_literals::is_comparison;
use crate::types;
use crate::walk::plans::{
    apply, apply_expressions, apply_with_subqueries, transform_up_with_subqueries,
};

/// The rule: for what is no operator between two values, and for plans that no SQL was.
pub(crate) const UNKNOWNS: NodeRule = NodeRule::new("unknowns", rewrite);

/// The same where SQL is planned: what has no common type does not come as far as a plan.
#[derive(Debug)]
pub(crate) struct UnknownOperands;

impl ExprPlanner for UnknownOperands {
    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as B;
        let of = |expr: &Expr| expr.get_type(schema).unwrap_or(DataType::Null);
        let beside = |other: &Expr| {
            let other = of(other);
            match raw.op {
                B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq => other,
                B::Minus => other,
                B::And | B::Or => DataType::Boolean,
                B::Plus if is_moment(&other) => DataType::Interval(IntervalUnit::MonthDayNano),
                B::Plus => other,
                _ => DataType::Null,
            }
        };
        let both = (of(&raw.left), of(&raw.right));
        if asks_json(&raw.op, &both) {
            return Err(into_datafusion(of_json(&raw.op)));
        }
        if raw.op == B::Minus && both == (DataType::UInt64, DataType::UInt64) {
            let difference = checked_integers::difference(raw.left, raw.right);
            return Ok(PlannerResult::Planned(difference));
        }
        let (wanted_left, wanted_right) = (beside(&raw.right), beside(&raw.left));
        Ok(PlannerResult::Original(RawBinaryExpr {
            left: typed(raw.left, &wanted_left)?.data,
            right: typed(raw.right, &wanted_right)?.data,
            op: raw.op,
        }))
    }
}

/// Whether an operator is one of PostgreSQL's for JSONB, and not the one of that name for lists.
fn asks_json(op: &BinaryOperator, (left, right): &(DataType, DataType)) -> bool {
    use BinaryOperator as B;
    let is_text = |of: &DataType| {
        matches!(
            of,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    match op {
        B::AtArrow | B::ArrowAt => is_text(left) && is_text(right),
        B::AtQuestion | B::HashMinus | B::QuestionAnd | B::QuestionPipe => is_text(left),
        _ => false,
    }
}

fn of_json(op: &BinaryOperator) -> Error {
    Error::invalid(format!("{op} of JSON is not supported"))
        .with_detail("JSON is kept as text")
        .with_hint("j -> 'a', j ->> 'a', j #>> '{a,0}' and j ? 'a' ask for its parts")
        .with_sqlstate("0A000")
}

/// The types of a statement's parameters, by their numbers, that where they stand tells. Where
/// places differ, the first one does.
///
/// # Errors
/// `Invalid` for a constant beside a parameter that is no value of its type.
pub(crate) fn parameter_types(plan: LogicalPlan) -> Result<HashMap<usize, DataType>> {
    let plan = transform_up_with_subqueries(plan, &mut rewrite)?.data;
    let mut types = HashMap::new();
    apply_with_subqueries(&plan, &mut |node| {
        apply_expressions(node, &mut |expr| {
            apply(expr, &mut |part| {
                if let Expr::Placeholder(Placeholder { id, field }) = part
                    && let Some(field) = field
                    && let Some(number) = id.strip_prefix('$').and_then(|n| n.parse().ok())
                {
                    types
                        .entry(number)
                        .or_insert_with(|| field.data_type().clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(types)
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &rewritten)
}

/// Functions whose arguments and result have one type.
const ALIKE: [&str; 4] = ["coalesce", "nullif", "greatest", "least"];
/// Windows whose third argument stands for a value that no row has.
pub(super) const WITH_DEFAULT: [&str; 2] = ["lag", "lead"];

fn rewritten(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let of = |expr: &Expr| match is_unknown(expr) {
        true => DataType::Null,
        false => expr.get_type(schema).unwrap_or(DataType::Null),
    };
    let mut changed = false;
    let mut as_wanted = |expr: &mut Expr, wanted: &DataType| -> Result<()> {
        let after = typed(std::mem::take(expr), wanted)?;
        changed |= after.transformed;
        *expr = after.data;
        Ok(())
    };
    match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(*op) || *op == Operator::Minus =>
        {
            let (of_left, of_right) = (of(left), of(right));
            as_wanted(left, &of_right)?;
            as_wanted(right, &of_left)?;
        }
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::And | Operator::Or,
            right,
        }) => {
            for operand in [left, right]
                .into_iter()
                .filter(|operand| is_unknown(operand))
            {
                as_wanted(operand, &DataType::Boolean)?;
            }
        }
        Expr::Not(operand) if is_unknown(operand) => as_wanted(operand, &DataType::Boolean)?,
        Expr::Between(between) => {
            let wanted = of(&between.expr);
            as_wanted(&mut between.low, &wanted)?;
            as_wanted(&mut between.high, &wanted)?;
        }
        Expr::InList(list) => {
            let wanted = of(&list.expr);
            for constant in &mut list.list {
                as_wanted(constant, &wanted)?;
            }
        }
        Expr::Case(case) => {
            let tested = case
                .expr
                .as_ref()
                .map_or(DataType::Boolean, |expr| of(expr));
            for (when, _) in &mut case.when_then_expr {
                as_wanted(when, &tested)?;
            }
            let results = case.when_then_expr.iter().map(|(_, then)| then);
            let wanted = common(results.chain(&case.else_expr).map(|result| of(result)));
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then);
            for result in results.chain(&mut case.else_expr) {
                as_wanted(result, &wanted)?;
            }
        }
        Expr::WindowFunction(call) if WITH_DEFAULT.contains(&call.fun.name()) => {
            if let [value, _, default] = call.params.args.as_mut_slice() {
                let wanted = of(value);
                as_wanted(default, &wanted)?;
            }
        }
        Expr::ScalarFunction(function) => {
            let wanted = wanted_by(function, of);
            for (argument, wanted) in function.args.iter_mut().zip(&wanted) {
                as_wanted(argument, wanted)?;
            }
        }
        _ => {}
    }
    Ok(match changed {
        true => Transformed::yes(expr),
        false => Transformed::no(expr),
    })
}

/// The types that a function wants its arguments to have, as far as they tell.
fn wanted_by(function: &ScalarFunction, of: impl Fn(&Expr) -> DataType) -> Vec<DataType> {
    let arguments = &function.args;
    if !arguments.iter().any(is_unknown) {
        return Vec::new();
    }
    let types: Vec<DataType> = arguments.iter().map(of).collect();
    match function.func.name() {
        name if ALIKE.contains(&name) => vec![common(types.into_iter()); arguments.len()],
        "array_has" => match &types[..] {
            [DataType::List(element), _] => vec![DataType::Null, element.data_type().clone()],
            _ => Vec::new(),
        },
        "array_element" => vec![DataType::Null, DataType::Int64],
        // Texts it takes itself, with what it says of its arguments.
        name if ![SERIES, PLACES].contains(&name) && !arguments.iter().any(is_parameter) => {
            Vec::new()
        }
        _ => {
            let field = |of: DataType| Arc::new(Field::new("argument", of, true));
            let fields: Vec<FieldRef> = types.into_iter().map(field).collect();
            let wanted = fields_with_udf(&fields, function.func.as_ref()).unwrap_or_default();
            wanted
                .iter()
                .map(|field| field.data_type().clone())
                .collect()
        }
    }
}

/// The type of values that are to have one: that of the first which has one of its own.
fn common(mut types: impl Iterator<Item = DataType>) -> DataType {
    let known = types.find(|of| *of != DataType::Null);
    known.unwrap_or(DataType::Null)
}

/// Whether an expression has no type of its own: a text, or a parameter.
fn is_unknown(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _)) || is_parameter(expr)
}

fn is_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::Placeholder(Placeholder { field: None, .. }))
}

fn is_moment(of: &DataType) -> bool {
    matches!(of, DataType::Date32 | DataType::Timestamp(..))
}

/// Whether texts are read as values of this type. The planner takes texts beside numbers itself.
fn is_read(of: &DataType) -> bool {
    let is_other = matches!(
        of,
        DataType::Boolean | DataType::Interval(_) | DataType::Time64(_) | DataType::List(_)
    );
    is_other || is_moment(of)
}

/// A constant text as a value of the type that is wanted, a parameter as one of the type;
/// everything else as it is.
///
/// # Errors
/// `Invalid` for a text that is no value of the type.
fn typed(expr: Expr, wanted: &DataType) -> Result<Transformed<Expr>> {
    let wanted = match wanted {
        // The difference of two moments.
        DataType::Duration(_) => &DataType::Interval(IntervalUnit::MonthDayNano),
        other => other,
    };
    // A column's digits of a second are its own: what stands beside it keeps all of them.
    let full = match wanted {
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        other => other.clone(),
    };
    let text = match expr {
        Expr::Placeholder(Placeholder { id, field: None }) if *wanted != DataType::Null => {
            let field = Field::new(&id, full, true);
            let known = Placeholder::new_with_field(id, Some(Arc::new(field)));
            return Ok(Transformed::yes(Expr::Placeholder(known)));
        }
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) if is_read(wanted) => text,
        _ => return Ok(Transformed::no(expr)),
    };
    let texts: ArrayRef = Arc::new(StringArray::from(vec![text.as_str()]));
    let values = texts_as(&texts, &Column::new("constant", full.clone()), 1);
    let values = values.map_err(|error| {
        let said = format!("{} is not of type {}", shown(&text), types::name(wanted));
        into_datafusion(Error::invalid(said).with_sqlstate(error.sqlstate()))
    })?;
    let value = ScalarValue::try_from_array(&values, 0)?;
    let cut = value.cast_to(wanted)?;
    let value = match cut.cast_to(&full)? == value {
        true => cut,
        false => value,
    };
    Ok(Transformed::yes(Expr::Literal(value, None)))
}
