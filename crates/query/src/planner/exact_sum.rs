//! Sums of integers and of long decimals, added up in twice as many bits: one that is out of its
//! type's range is an error, where the planner's own wraps around; what goes over the range in
//! between does not matter.
//!
//! | of                             | added up as       |
//! | ------------------------------ | ----------------- |
//! | BIGINT, BIGINT UNSIGNED        | `DECIMAL(38, 0)`  |
//! | `DECIMAL(p, s)`, p over 28     | `DECIMAL(76, s)`  |
//!
//! The planner's function, with its input as such decimals and its answer narrowed again; of all
//! other types it is the planner's as it stands. Pure.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Decimal256Array};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type,
    DecimalType, Field, FieldRef, Int64Type, UInt64Type, i256,
};
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

use crate::error::into_datafusion;
use crate::planner::checked_integers::out_of_range;

/// Digits that the planner's sum of decimals has more than they: so many rows can't overflow it.
const SPARE_DIGITS: u8 = 10;

/// What values are added up as, if not as they are.
fn wide(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Int64 | DataType::UInt64 => Some(DataType::Decimal128(38, 0)),
        DataType::Decimal128(precision, scale)
            if *precision > DECIMAL128_MAX_PRECISION - SPARE_DIGITS =>
        {
            Some(DataType::Decimal256(DECIMAL256_MAX_PRECISION, *scale))
        }
        _ => None,
    }
}

/// The function.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ExactSum {
    inner: Sum,
}

/// Calls the planner's function for wide numbers where the sum is of such types, and says what it
/// is to be of.
fn with_wide<'a, T>(
    args: AccumulatorArgs<'a>,
    made: impl FnOnce(AccumulatorArgs<'_>, Option<DataType>) -> Result<T>,
) -> Result<T> {
    let of = args.return_type().clone();
    let fields: Option<Vec<FieldRef>> = args.expr_fields.iter().map(wide_field).collect();
    let Some((fields, return_field)) = fields.zip(wide_field(&args.return_field)) else {
        return made(args, None);
    };
    let wide = AccumulatorArgs {
        return_field,
        expr_fields: &fields,
        ..args
    };
    made(wide, Some(of))
}

fn wide_field(field: &FieldRef) -> Option<FieldRef> {
    let wide = wide(field.data_type())?;
    Some(Arc::new(Field::new(
        field.name(),
        wide,
        field.is_nullable(),
    )))
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
        let input = args.input_fields.first().and_then(wide_field);
        match input.and_then(|_| wide_field(&args.return_field)) {
            None => self.inner.state_fields(args),
            Some(return_field) => self.inner.state_fields(StateFieldsArgs {
                return_field,
                ..args
            }),
        }
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

/// A sum of wide numbers, narrowed.
#[derive(Debug)]
struct Wide<A> {
    inner: A,
    /// The type that the sum has.
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

/// Values as wide numbers.
fn widened(values: &ArrayRef) -> ArrayRef {
    let Some(wide) = wide(values.data_type()) else {
        return Arc::clone(values);
    };
    match values.data_type() {
        DataType::Int64 => {
            let integers = values.as_primitive::<Int64Type>();
            let sums: Decimal128Array = integers.unary(i128::from);
            Arc::new(sums.with_data_type(wide))
        }
        DataType::UInt64 => {
            let integers = values.as_primitive::<UInt64Type>();
            let sums: Decimal128Array = integers.unary(i128::from);
            Arc::new(sums.with_data_type(wide))
        }
        _ => {
            let decimals = values.as_primitive::<Decimal128Type>();
            let sums: Decimal256Array = decimals.unary(i256::from_i128);
            Arc::new(sums.with_data_type(wide))
        }
    }
}

/// Wide numbers as the sum's type.
fn narrowed(sums: &ArrayRef, of: &DataType) -> Result<ArrayRef> {
    let failed = |sum: String| into_datafusion(out_of_range(of, &sum));
    if let DataType::Decimal128(precision, scale) = of {
        let narrow = |sum: i256| {
            let narrow = sum.to_i128();
            let fits = narrow.filter(|sum| {
                Decimal128Type::validate_decimal_precision(*sum, *precision, *scale).is_ok()
            });
            fits.ok_or_else(|| failed(Decimal256Type::format_decimal(sum, u8::MAX, *scale)))
        };
        let sums = sums.as_primitive::<Decimal256Type>();
        let narrow = sums.try_unary::<_, Decimal128Type, DataFusionError>(narrow)?;
        return Ok(Arc::new(narrow.with_data_type(of.clone())));
    }
    let sums = sums.as_primitive::<Decimal128Type>();
    Ok(match of {
        DataType::UInt64 => {
            let narrow = |sum: i128| sum.try_into().map_err(|_| failed(sum.to_string()));
            Arc::new(sums.try_unary::<_, UInt64Type, DataFusionError>(narrow)?)
        }
        _ => {
            let narrow = |sum: i128| sum.try_into().map_err(|_| failed(sum.to_string()));
            Arc::new(sums.try_unary::<_, Int64Type, DataFusionError>(narrow)?)
        }
    })
}
