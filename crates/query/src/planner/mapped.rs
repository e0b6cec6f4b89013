//! Aggregates around the planner's own of the same name: their values go to it as values of another
//! type, and its answers come back as values of theirs. Of types that are not mapped they are the
//! planner's as they stand.

use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, Expr, GroupsAccumulator,
    Operator, ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs,
};

use crate::pg_catalog::types::{is_json_field, mark};

/// How values are mapped.
pub(super) trait Mapping: Debug + Eq + Hash + Send + Sync + 'static {
    /// Whether the planner's function takes mapped values where it slides over distinct ones.
    const SLIDES_OVER_DISTINCT: bool;
    /// Whether an answer is one of the values, or a list of them, and JSON where they are.
    const KEEPS_JSON: bool = false;

    /// What values of a type are mapped to, if to anything.
    fn mapped(_of: &DataType) -> Option<DataType> {
        None
    }

    /// Values as the planner's function takes them.
    fn to_mapped(values: &ArrayRef) -> ArrayRef {
        Arc::clone(values)
    }

    /// What it answers, as values of the type `of`.
    ///
    /// # Errors
    /// Where the type has no such value.
    fn from_mapped(values: &ArrayRef, _of: &DataType) -> Result<ArrayRef> {
        Ok(Arc::clone(values))
    }

    /// What stands in the place of the planner's function of a name over a frame that slides.
    fn sliding(_name: &str, _args: &AccumulatorArgs<'_>) -> Option<Box<dyn Accumulator>> {
        None
    }
}

/// Puts an aggregate in the place of the planner's of its name.
pub(super) fn register<M: Mapping>(state: &mut SessionState, name: &str) -> Result<()> {
    let inner = state.udaf(name)?;
    state.register_udaf(around::<M>(inner))?;
    Ok(())
}

/// The aggregate around one of the planner's.
pub(super) fn around<M: Mapping>(inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Around::<M>::new(inner)))
}

/// An aggregate around the planner's.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Around<M> {
    inner: Arc<AggregateUDF>,
    mapping: PhantomData<M>,
}

fn mapped_field<M: Mapping>(field: &FieldRef) -> Option<FieldRef> {
    let of = M::mapped(field.data_type())?;
    Some(Arc::new(Field::new(field.name(), of, field.is_nullable())))
}

impl<M: Mapping> Around<M> {
    fn new(inner: Arc<AggregateUDF>) -> Around<M> {
        Around {
            inner,
            mapping: PhantomData,
        }
    }

    /// Calls the planner's function for mapped values where they are mapped, and says what comes
    /// back then.
    fn with_mapped<T>(
        &self,
        args: AccumulatorArgs<'_>,
        made: impl FnOnce(AccumulatorArgs<'_>, Option<DataType>) -> Result<T>,
    ) -> Result<T> {
        let of = args.return_type().clone();
        let fields: Option<Vec<FieldRef>> =
            args.expr_fields.iter().map(mapped_field::<M>).collect();
        let Some((fields, return_field)) = fields.zip(mapped_field::<M>(&args.return_field)) else {
            return made(args, None);
        };
        let mapped = AccumulatorArgs {
            return_field,
            expr_fields: &fields,
            ..args
        };
        made(mapped, Some(of))
    }

    fn accumulator_of(
        &self,
        inner: Box<dyn Accumulator>,
        of: Option<DataType>,
    ) -> Box<dyn Accumulator> {
        match of {
            Some(of) => Box::new(Mapped::<_, M>::new(inner, of)),
            None => inner,
        }
    }
}

impl<M: Mapping> AggregateUDFImpl for Around<M> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        let field = self.inner.return_field(arguments)?;
        match arguments {
            [of, ..] if M::KEEPS_JSON && is_json_field(of) => {
                let field = field.as_ref().clone().with_metadata(mark("json"));
                Ok(Arc::new(field))
            }
            _ => Ok(field),
        }
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.with_mapped(args, |args, of| {
            Ok(self.accumulator_of(self.inner.accumulator(args)?, of))
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let input = args.input_fields.first().and_then(mapped_field::<M>);
        match input.and_then(|_| mapped_field::<M>(&args.return_field)) {
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
        self.with_mapped(args, |args, of| {
            let inner = self.inner.create_groups_accumulator(args)?;
            Ok(match of {
                Some(of) => Box::new(Mapped::<_, M>::new(inner, of)),
                None => inner,
            })
        })
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        if let Some(own) = M::sliding(self.name(), &args) {
            return Ok(own);
        }
        if args.is_distinct && !M::SLIDES_OVER_DISTINCT {
            return self.inner.create_sliding_accumulator(args);
        }
        self.with_mapped(args, |args, of| {
            let inner = self.inner.create_sliding_accumulator(args)?;
            Ok(self.accumulator_of(inner, of))
        })
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        is_ordered: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = self.inner.as_ref().clone();
        let inner = inner.with_beneficial_ordering(is_ordered)?;
        Ok(inner.map(|inner| {
            let around = Around::<M>::new(Arc::new(inner));
            Arc::new(around) as Arc<dyn AggregateUDFImpl>
        }))
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        argument: &Expr,
        operator: Operator,
        literal: &Expr,
        argument_is_left: bool,
    ) -> Result<Option<Expr>> {
        let inner = self.inner.inner();
        inner.simplify_expr_op_literal(function, argument, operator, literal, argument_is_left)
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

/// What aggregates mapped values.
#[derive(Debug)]
struct Mapped<A, M> {
    inner: A,
    /// The type of the answers.
    of: DataType,
    mapping: PhantomData<M>,
}

impl<A, M> Mapped<A, M> {
    fn new(inner: A, of: DataType) -> Mapped<A, M> {
        Mapped {
            inner,
            of,
            mapping: PhantomData,
        }
    }
}

impl<M: Mapping> Accumulator for Mapped<Box<dyn Accumulator>, M> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&[M::to_mapped(&values[0])])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let answer = self.inner.evaluate()?.to_array()?;
        ScalarValue::try_from_array(&M::from_mapped(&answer, &self.of)?, 0)
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
        self.inner.retract_batch(&[M::to_mapped(&values[0])])
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

impl<M: Mapping> GroupsAccumulator for Mapped<Box<dyn GroupsAccumulator>, M> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let values = [M::to_mapped(&values[0])];
        self.inner.update_batch(&values, groups, filter, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        M::from_mapped(&self.inner.evaluate(emit)?, &self.of)
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
        let values = [M::to_mapped(&values[0])];
        self.inner.convert_to_state(&values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
