//! The sum of integers, added up in 128 bits: one that is out of BIGINT's range is an error,
//! where the planner's own wraps around; what goes over the range in between does not matter.
//!
//! The planner's function, with its input as decimals and its answer as an integer again; of all
//! other types it is the planner's as it stands. Pure.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, Documentation, EmitTo, Expr, GroupsAccumulator, Operator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs,
};

use crate::checked_integers::out_of_range;
use crate::error::into_datafusion;

/// What integers are added up as.
const WIDE: DataType = DataType::Decimal128(38, 0);

/// The function.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ExactSum {
    inner: Sum,
}

/// Calls the planner's function for wide numbers where the sum is of integers.
fn with_wide<'a, T>(
    args: AccumulatorArgs<'a>,
    made: impl FnOnce(AccumulatorArgs<'_>, Option<DataType>) -> Result<T>,
) -> Result<T> {
    let of = args.return_type().clone();
    if !of.is_integer() {
        return made(args, None);
    }
    let fields: Vec<FieldRef> = args.expr_fields.iter().map(wide_field).collect();
    let wide = AccumulatorArgs {
        return_field: wide_field(&args.return_field),
        expr_fields: &fields,
        ..args
    };
    made(wide, Some(of))
}

fn wide_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), WIDE, field.is_nullable()))
}

impl AggregateUDFImpl for ExactSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        with_wide(args, |args, of| {
            let inner = self.inner.accumulator(args)?;
            Ok(match of {
                Some(of) => Box::new(Wide { inner, of }),
                None => inner,
            })
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if !args.return_type().is_integer() {
            return self.inner.state_fields(args);
        }
        self.inner.state_fields(StateFieldsArgs {
            return_field: wide_field(&args.return_field),
            ..args
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        with_wide(args, |args, of| {
            let inner = self.inner.create_groups_accumulator(args)?;
            Ok(match of {
                Some(of) => Box::new(Wide { inner, of }),
                None => inner,
            })
        })
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        // The planner's has only one for distinct values of BIGINT.
        if args.is_distinct {
            return self.inner.create_sliding_accumulator(args);
        }
        with_wide(args, |args, of| {
            let inner = self.inner.create_sliding_accumulator(args)?;
            Ok(match of {
                Some(of) => Box::new(Wide { inner, of }),
                None => inner,
            })
        })
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        argument: &Expr,
        operator: Operator,
        literal: &Expr,
        argument_is_left: bool,
    ) -> Result<Option<Expr>> {
        let inner = &self.inner;
        inner.simplify_expr_op_literal(function, argument, operator, literal, argument_is_left)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_expr()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn set_monotonicity(&self, of: &DataType) -> SetMonotonicity {
        self.inner.set_monotonicity(of)
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }
}

/// A sum of wide numbers as one of integers.
#[derive(Debug)]
struct Wide<A> {
    inner: A,
    /// The integers' type, which the sum has too.
    of: DataType,
}

impl Accumulator for Wide<Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&[widened(&values[0])])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.inner.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&narrowed(&sum, &self.of)?, 0)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(&[widened(&values[0])])
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

impl GroupsAccumulator for Wide<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let values = [widened(&values[0])];
        self.inner.update_batch(&values, groups, filter, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        narrowed(&self.inner.evaluate(emit)?, &self.of)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.inner.merge_batch(values, groups, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(&[widened(&values[0])], filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

/// Integers as wide numbers.
fn widened(values: &ArrayRef) -> ArrayRef {
    let wide: Decimal128Array = match values.data_type() {
        DataType::Int64 => values
            .as_primitive::<Int64Type>()
            .unary::<_, Decimal128Type>(i128::from),
        DataType::UInt64 => values
            .as_primitive::<UInt64Type>()
            .unary::<_, Decimal128Type>(i128::from),
        _ => return Arc::clone(values),
    };
    Arc::new(wide.with_data_type(WIDE))
}

/// Wide numbers as integers.
fn narrowed(sums: &ArrayRef, of: &DataType) -> Result<ArrayRef> {
    let sums = sums.as_primitive::<Decimal128Type>();
    let failed = |sum: i128| into_datafusion(out_of_range(of, &sum.to_string()));
    Ok(match of {
        DataType::UInt64 => {
            let narrow = |sum: i128| sum.try_into().map_err(|_| failed(sum));
            Arc::new(sums.try_unary::<_, UInt64Type, DataFusionError>(narrow)?)
        }
        _ => {
            let narrow = |sum: i128| sum.try_into().map_err(|_| failed(sum));
            Arc::new(sums.try_unary::<_, Int64Type, DataFusionError>(narrow)?)
        }
    })
}
