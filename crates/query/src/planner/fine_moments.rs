//! Moments that are compared keep their digits: the planner brings two timestamps to the coarser
//! unit of both, in which different ones are equal.
//!
//! ```text
//!   t = TIMESTAMP '2024-01-01 00:00:01.9'   t TIMESTAMP(0)  ->  in_microseconds(t) = ...
//!   t = TIMESTAMP '2024-01-01'                              ->  t = '2024-01-01'::TIMESTAMP(0)
//!   t = u                                   u TIMESTAMP     ->  in_microseconds(t) = u
//! ```
//!
//! A rule of the planner before its own; pure. Invariant FMO-1: two moments compare as they do in
//! the finest unit that one of them needs. A constant that the column's unit holds gets it, so that
//! keys are found by it.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use crate::planner::comparisons::compared;
use crate::planner::rule::{NodeRule, rewrite_parts};

/// The rule.
pub(crate) const FINE_MOMENTS: NodeRule = NodeRule::new("fine_moments", rewrite);

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    rewrite_parts(plan, &|expr, schema| {
        let beside = |expr, others, unit| in_one_unit(expr, others, unit, schema);
        Ok(compared(expr, schema, unit_of, beside))
    })
}

fn unit_of(expr: &Expr, schema: &DFSchema) -> Option<TimeUnit> {
    match expr.get_type(schema) {
        Ok(DataType::Timestamp(unit, _)) => Some(unit),
        _ => None,
    }
}

/// A moment, and what it is compared with, in the finest unit that one of them needs.
fn in_one_unit(
    expr: Expr,
    others: Vec<Expr>,
    unit: TimeUnit,
    schema: &DFSchema,
) -> (Expr, Vec<Expr>) {
    let needs = others.iter().map(|other| needed(other, unit, schema));
    let finest = needs.fold(unit, Ord::max);
    let others = others
        .into_iter()
        .map(|other| in_unit(other, finest, schema));
    let others = others.collect();
    match finest == unit {
        true => (expr, others),
        false => (in_unit(expr, finest, schema), others),
    }
}

/// The unit that a side needs beside one in `unit`.
fn needed(expr: &Expr, unit: TimeUnit, schema: &DFSchema) -> TimeUnit {
    let Some(constant) = constant(expr) else {
        return unit_of(expr, schema).unwrap_or(unit);
    };
    let Some(DataType::Timestamp(finer, zone)) = moment(&constant) else {
        return unit;
    };
    let (wanted, full) = (
        DataType::Timestamp(unit, zone.clone()),
        DataType::Timestamp(finer, zone),
    );
    let is_held = || {
        let cut = constant.cast_to(&wanted).ok()?.cast_to(&full).ok()?;
        Some(cut == constant.cast_to(&full).ok()?)
    };
    match finer > unit && is_held() == Some(false) {
        true => finer,
        false => unit,
    }
}

/// The value of a constant, or of one that is cast.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(constant, _) => Some(constant.clone()),
        Expr::Cast(Cast { expr, field }) => constant(expr)?.cast_to(field.data_type()).ok(),
        _ => None,
    }
}

/// The type that a constant has as a moment; texts are read to the microsecond.
fn moment(constant: &ScalarValue) -> Option<DataType> {
    match constant {
        ScalarValue::Utf8(Some(_))
        | ScalarValue::LargeUtf8(Some(_))
        | ScalarValue::Utf8View(Some(_)) => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
        other if other.is_null() => None,
        other => Some(other.data_type()),
    }
}

/// A side in this unit. Texts are left to the planner, which reads them as the other side's type.
fn in_unit(expr: Expr, unit: TimeUnit, schema: &DFSchema) -> Expr {
    match expr.get_type(schema) {
        Ok(DataType::Timestamp(own, zone)) if own != unit => {
            let wanted = DataType::Timestamp(unit, zone);
            match constant(&expr).and_then(|constant| constant.cast_to(&wanted).ok()) {
                Some(constant) => Expr::Literal(constant, None),
                None => ScalarUDF::from(FineMoment::new(unit)).call(vec![expr]),
            }
        }
        _ => expr,
    }
}

/// What [`FineMoment`] is called on, if that is what an expression is.
pub(super) fn made_finer(expr: &Expr) -> Option<&Expr> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else {
        return None;
    };
    let is_ours = func.inner().downcast_ref::<FineMoment>().is_some();
    args.first().filter(|_| is_ours)
}

/// A moment in another unit. Of a cast the planner would take the constant beside it for one of
/// the coarser unit, and cut it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FineMoment {
    unit: TimeUnit,
    signature: Signature,
}

impl FineMoment {
    fn new(unit: TimeUnit) -> FineMoment {
        FineMoment {
            unit,
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for FineMoment {
    fn name(&self) -> &'static str {
        match self.unit {
            TimeUnit::Second => "in_seconds",
            TimeUnit::Millisecond => "in_milliseconds",
            TimeUnit::Microsecond => "in_microseconds",
            TimeUnit::Nanosecond => "in_nanoseconds",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [DataType::Timestamp(_, zone)] => Ok(DataType::Timestamp(self.unit, zone.clone())),
            other => internal_err!("{} of {other:?}", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args[0].cast_to(args.return_field.data_type(), None)
    }
}
