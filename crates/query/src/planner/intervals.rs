//! Intervals as PostgreSQL compares and multiplies them. The planner compares months first, then
//! days, then what is left, so that 36 hours are less than a day; and it multiplies none.
//!
//! ```text
//!   done - begun > INTERVAL '1 day'   ->  interval_length(done - begun) > interval_length(...)
//!   ORDER BY done - begun             ->  ORDER BY interval_length(done - begun)
//!   5 * INTERVAL '1 minute'           ->  interval_times(INTERVAL '1 minute', 5)
//!   rank() OVER (ORDER BY took)       ->  rank() OVER (ORDER BY interval_length(took))
//!   day + INTERVAL '1 hour'           ->  day::TIMESTAMP + INTERVAL '1 hour'
//!   day < at                          ->  day::TIMESTAMP < at
//! ```
//!
//! In a length a month has 30 days and a day 24 hours. Rules of the planner and their functions;
//! pure. Invariant INT-1: only comparisons and orders of intervals change, and days beside
//! intervals and moments, which become moments.

use std::sync::Arc;

use arrow::array::types::{Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow::array::{ArrayRef, AsArray, Decimal128Array, PrimitiveArray};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, ScalarFunction, Sort};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::planner::rule::{NodeRule, change_windows, rewrite_named};
use crate::planner::uuid_literals::is_comparison;
use crate::types::INTERVAL;
use crate::walk::plans::transform_up;

#[cfg(test)]
mod tests;

/// Nanoseconds, as many as any interval has.
const LENGTH: DataType = DataType::Decimal128(38, 0);
const DAY_NANOS: i64 = 86_400_000_000_000;
const MONTH_DAYS: i32 = 30;

/// Compares and orders intervals by their length.
pub(crate) const INTERVAL_ORDER: NodeRule = NodeRule::new("interval_order", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let orders = matches!(plan, LogicalPlan::Sort(_));
    rewrite_named(plan, &mut |expr| {
        let expr = transform_up(expr, &mut |expr| Ok(compared(expr, &schema)))?;
        Ok(match orders && is_interval(&expr.data, &schema) {
            true => Transformed::yes(length(expr.data)),
            false => expr,
        })
    })
}

fn compared(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op) && is_interval(&left, schema) =>
        {
            let (left, right) = (Box::new(length(*left)), Box::new(length(*right)));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Between(between) if is_interval(&between.expr, schema) => {
            Transformed::yes(Expr::Between(Between {
                expr: Box::new(length(*between.expr)),
                negated: between.negated,
                low: Box::new(length(*between.low)),
                high: Box::new(length(*between.high)),
            }))
        }
        Expr::InList(list) if is_interval(&list.expr, schema) => {
            Transformed::yes(Expr::InList(InList {
                expr: Box::new(length(*list.expr)),
                list: list.list.into_iter().map(length).collect(),
                negated: list.negated,
            }))
        }
        Expr::AggregateFunction(mut call) => {
            let changed = ordered(&mut call.params.order_by, schema);
            let expr = Expr::AggregateFunction(call);
            match changed {
                true => Transformed::yes(expr),
                false => Transformed::no(expr),
            }
        }
        other => Transformed::no(other),
    }
}

/// Orders windows by the length of intervals, before the planner looks at what their rows are
/// ordered by: it has no windows over intervals.
pub(crate) const INTERVAL_WINDOWS: NodeRule = NodeRule::new("interval_windows", rewrite_windows);

fn rewrite_windows(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    change_windows(plan, &|params, schema| {
        let mut changed = false;
        for sort in &mut params.order_by {
            if sort.expr.get_type(schema).is_ok_and(|of| is_span(&of)) {
                sort.expr = length(as_type(std::mem::take(&mut sort.expr), INTERVAL));
                changed = true;
            }
        }
        Ok(changed)
    })
}

/// Whether values of a type are how long something takes.
fn is_span(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_) | DataType::Duration(_))
}

/// Orders by the lengths of intervals; tells whether there are any.
fn ordered(order: &mut [Sort], schema: &DFSchema) -> bool {
    let mut changed = false;
    for sort in order.iter_mut() {
        if is_interval(&sort.expr, schema) {
            sort.expr = length(std::mem::take(&mut sort.expr));
            changed = true;
        }
    }
    changed
}

fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|of| of == INTERVAL)
}

fn length(expr: Expr) -> Expr {
    let function = ScalarUDF::from(IntervalLength::new());
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![expr]))
}

/// Plans an interval times a number, and by a number; and days beside intervals and moments.
#[derive(Debug)]
pub(crate) struct IntervalArithmetic;

impl ExprPlanner for IntervalArithmetic {
    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let of = |expr: &Expr| expr.get_type(schema).unwrap_or(DataType::Null);
        let (left, right) = (of(&raw.left), of(&raw.right));
        if let Some((left, right)) = moments(&raw.op, &left, &right) {
            let as_moment = |expr: Expr, wanted: Option<DataType>| match wanted {
                Some(wanted) => as_type(expr, wanted),
                None => expr,
            };
            return Ok(PlannerResult::Original(RawBinaryExpr {
                left: as_moment(raw.left, left),
                right: as_moment(raw.right, right),
                op: raw.op,
            }));
        }
        let (interval, factor) = match raw.op {
            BinaryOperator::Multiply if is_span(&left) && right.is_numeric() => {
                (raw.left, raw.right)
            }
            BinaryOperator::Multiply if is_span(&right) && left.is_numeric() => {
                (raw.right, raw.left)
            }
            BinaryOperator::Divide if is_span(&left) && right.is_numeric() => {
                let divisor = as_type(raw.right, DataType::Float64);
                let factor = Expr::BinaryExpr(BinaryExpr {
                    left: Box::new(lit(1.0)),
                    op: Operator::Divide,
                    right: Box::new(divisor),
                });
                (raw.left, factor)
            }
            _ => return Ok(PlannerResult::Original(raw)),
        };
        let arguments = vec![
            as_type(interval, INTERVAL),
            as_type(factor, DataType::Float64),
        ];
        let function = ScalarUDF::from(IntervalTimes::new());
        let product = ScalarFunction::new_udf(Arc::new(function), arguments);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(product)))
    }
}

/// The types of moments that the sides of an operator become, where one of them is a day that
/// stands for its first moment.
fn moments(
    op: &BinaryOperator,
    left: &DataType,
    right: &DataType,
) -> Option<(Option<DataType>, Option<DataType>)> {
    use BinaryOperator as B;
    use DataType::{Date32, Timestamp};
    const MOMENT: DataType = Timestamp(TimeUnit::Microsecond, None);
    match (op, left, right) {
        (B::Plus | B::Minus, Date32, span) if is_span(span) => Some((Some(MOMENT), None)),
        (B::Plus, span, Date32) if is_span(span) => Some((None, Some(MOMENT))),
        // Left to itself, the planner would compare nanoseconds, which end in 2262.
        (
            B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq,
            Date32,
            Timestamp(TimeUnit::Microsecond, None),
        ) => Some((Some(MOMENT), None)),
        (
            B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq,
            Timestamp(TimeUnit::Microsecond, None),
            Date32,
        ) => Some((None, Some(MOMENT))),
        _ => None,
    }
}

fn as_type(expr: Expr, wanted: DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), wanted))
}

/// How long an interval is, in nanoseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct IntervalLength {
    signature: Signature,
}

impl IntervalLength {
    pub(crate) fn new() -> IntervalLength {
        IntervalLength {
            signature: Signature::exact(vec![INTERVAL], Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for IntervalLength {
    fn name(&self) -> &str {
        "interval_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(LENGTH)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| {
            let intervals = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
            let lengths: Decimal128Array = intervals.unary(nanos);
            Ok(Arc::new(lengths.with_data_type(LENGTH)))
        })
    }
}

/// The nanoseconds of an interval.
fn nanos(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * i128::from(MONTH_DAYS) + i128::from(interval.days);
    days * i128::from(DAY_NANOS) + i128::from(interval.nanoseconds)
}

/// An interval so many times.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct IntervalTimes {
    signature: Signature,
}

impl IntervalTimes {
    pub(crate) fn new() -> IntervalTimes {
        let arguments = vec![INTERVAL, DataType::Float64];
        IntervalTimes {
            signature: Signature::exact(arguments, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for IntervalTimes {
    fn name(&self) -> &str {
        "interval_times"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| {
            let intervals = arrays[0].as_primitive::<IntervalMonthDayNanoType>();
            let factors = arrays[1].as_primitive::<Float64Type>();
            let pairs = intervals.iter().zip(factors.iter());
            let product = |(interval, factor): (Option<_>, Option<f64>)| {
                let (Some(interval), Some(factor)) = (interval, factor) else {
                    return Ok(None);
                };
                let product = times(interval, factor).ok_or_else(|| {
                    let error = Error::invalid("an interval is out of range");
                    into_datafusion(error.with_sqlstate("22008"))
                });
                product.map(Some)
            };
            let products: Result<PrimitiveArray<IntervalMonthDayNanoType>> =
                pairs.map(product).collect();
            Ok(Arc::new(products?))
        })
    }
}

/// An interval `factor` times, to the microsecond: what is left of months goes to days, what is
/// left of days to the time of day. `None` where it leaves the range.
fn times(interval: IntervalMonthDayNano, factor: f64) -> Option<IntervalMonthDayNano> {
    let whole = |value: f64| {
        let inside = value.abs() <= f64::from(i32::MAX);
        inside.then_some(value.trunc() as i32)
    };
    let to_micros = |value: f64| (value * 1e6).round() / 1e6;
    let (months, days) = (
        f64::from(interval.months) * factor,
        f64::from(interval.days) * factor,
    );
    let spare_days = to_micros((months - months.trunc()) * f64::from(MONTH_DAYS));
    let spare_seconds =
        to_micros((days - days.trunc() + spare_days - spare_days.trunc()) * 86_400.);
    let micros = (interval.nanoseconds as f64 / 1e3 * factor + spare_seconds * 1e6).round();
    let nanos = micros * 1e3;
    let inside = nanos.abs() < i64::MAX as f64;
    Some(IntervalMonthDayNano {
        months: whole(months)?,
        days: whole(days)?.checked_add(whole(spare_days)?)?,
        nanoseconds: inside.then_some(nanos as i64)?,
    })
}

/// The result of a function over arrays: one value where all arguments are one.
pub(crate) fn computed(
    args: &ScalarFunctionArgs,
    compute: impl Fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let constant = args
        .args
        .iter()
        .all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let arrays = ColumnarValue::values_to_arrays(&args.args)?;
    let values = compute(&arrays)?;
    match constant && !values.is_empty() {
        true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
            &values, 0,
        )?)),
        false => Ok(ColumnarValue::Array(values)),
    }
}
