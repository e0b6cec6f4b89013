//! `max` and `min` of floating-point numbers in which NaN stands: it is greater than every number,
//! in whatever order the rows come. The planner's own compare with it in vain.
//!
//! Numbers go to the planner's functions as integers of the same order, and come back as what they
//! were; of all other types they are the planner's as they stand. Pure.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type, Int32Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator,
    ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs,
};

/// The functions.
const EXTREMES: [&str; 2] = ["max", "min"];

/// Puts the functions in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for name in EXTREMES {
        let inner = state.udaf(name)?;
        state.register_udaf(Arc::new(AggregateUDF::from(Extreme { inner })))?;
    }
    Ok(())
}

/// The integers that numbers are compared as.
fn ordered(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Float32 => Some(DataType::Int32),
        DataType::Float64 => Some(DataType::Int64),
        _ => None,
    }
}

fn ordered_field(field: &FieldRef) -> Option<FieldRef> {
    let of = ordered(field.data_type())?;
    Some(Arc::new(Field::new(field.name(), of, field.is_nullable())))
}

/// The integer of a number's place among all of them. It is the number of that integer, too.
fn turned(bits: i64) -> i64 {
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

fn turned_short(bits: i32) -> i32 {
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

/// Numbers as integers of the same order.
fn to_ordered(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float64 => {
            let numbers = values.as_primitive::<Float64Type>();
            let place = |number: f64| match number.is_nan() {
                true => i64::MAX,
                false => turned(number.to_bits() as i64),
            };
            let places: PrimitiveArray<Int64Type> = numbers.unary(place);
            Arc::new(places)
        }
        DataType::Float32 => {
            let numbers = values.as_primitive::<Float32Type>();
            let place = |number: f32| match number.is_nan() {
                true => i32::MAX,
                false => turned_short(number.to_bits() as i32),
            };
            let places: PrimitiveArray<Int32Type> = numbers.unary(place);
            Arc::new(places)
        }
        _ => Arc::clone(values),
    }
}

/// Such integers as the numbers that they were.
fn from_ordered(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Int64 => {
            let places = values.as_primitive::<Int64Type>();
            let number = |place: i64| match place {
                i64::MAX => f64::NAN,
                place => f64::from_bits(turned(place) as u64),
            };
            let numbers: PrimitiveArray<Float64Type> = places.unary(number);
            Arc::new(numbers)
        }
        DataType::Int32 => {
            let places = values.as_primitive::<Int32Type>();
            let number = |place: i32| match place {
                i32::MAX => f32::NAN,
                place => f32::from_bits(turned_short(place) as u32),
            };
            let numbers: PrimitiveArray<Float32Type> = places.unary(number);
            Arc::new(numbers)
        }
        _ => Arc::clone(values),
    }
}

/// One of the two functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    inner: Arc<AggregateUDF>,
}

/// Calls the planner's function for integers where numbers are compared as such, and says whether
/// they are.
fn with_ordered<'a, T>(
    args: AccumulatorArgs<'a>,
    made: impl FnOnce(AccumulatorArgs<'_>, bool) -> Result<T>,
) -> Result<T> {
    let fields: Option<Vec<FieldRef>> = args.expr_fields.iter().map(ordered_field).collect();
    let Some((fields, return_field)) = fields.zip(ordered_field(&args.return_field)) else {
        return made(args, false);
    };
    let ordered = AccumulatorArgs {
        return_field,
        expr_fields: &fields,
        ..args
    };
    made(ordered, true)
}

fn accumulator(inner: Box<dyn Accumulator>, is_ordered: bool) -> Box<dyn Accumulator> {
    match is_ordered {
        true => Box::new(Ordered { inner }),
        false => inner,
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        with_ordered(args, |args, is_ordered| {
            Ok(accumulator(self.inner.accumulator(args)?, is_ordered))
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        match ordered_field(&args.return_field) {
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
        with_ordered(args, |args, is_ordered| {
            let inner = self.inner.create_groups_accumulator(args)?;
            Ok(match is_ordered {
                true => Box::new(Ordered { inner }) as Box<dyn GroupsAccumulator>,
                false => inner,
            })
        })
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        with_ordered(args, |args, is_ordered| {
            let inner = self.inner.create_sliding_accumulator(args)?;
            Ok(accumulator(inner, is_ordered))
        })
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_udf()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn set_monotonicity(&self, of: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(of)
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }
}

/// A function of integers, over the numbers that they stand for.
#[derive(Debug)]
struct Ordered<A> {
    inner: A,
}

impl Accumulator for Ordered<Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&[to_ordered(&values[0])])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let value = self.inner.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&from_ordered(&value), 0)
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
        self.inner.retract_batch(&[to_ordered(&values[0])])
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

impl GroupsAccumulator for Ordered<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let values = [to_ordered(&values[0])];
        self.inner.update_batch(&values, groups, filter, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(from_ordered(&self.inner.evaluate(emit)?))
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
        self.inner
            .convert_to_state(&[to_ordered(&values[0])], filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
