//! Aggregates of ordered rows: `percentile_cont`, `percentile_disc` and `mode`, each with
//! `WITHIN GROUP (ORDER BY x)`.
//!
//! The planner's own `percentile_cont` looks at six digits of a fraction; here it only gathers the
//! numbers. Pure. Invariant PCT-1: what lies between two numbers is `low + share * (high - low)`,
//! with all digits that there are.

mod gathered;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Float64Array, ListArray, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{ScalarValue, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::functions_aggregate::percentile_cont::PercentileCont;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, EmitTo, GroupsAccumulator,
    Signature, Volatility,
};
use lazybase_model::Error;

use crate::error::into_datafusion;
use gathered::Gathered;

/// Adds the functions, or puts them in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    state.register_udaf(Arc::new(AggregateUDF::from(Continuous::new())))?;
    for (name, picks) in [("percentile_disc", Picks::Share), ("mode", Picks::Most)] {
        let function = Picked {
            name,
            picks,
            signature: Signature::user_defined(Volatility::Immutable),
        };
        state.register_udaf(Arc::new(AggregateUDF::from(function)))?;
    }
    Ok(())
}

/// The share that the second argument is.
fn share(args: &AccumulatorArgs<'_>) -> Result<f64> {
    let wrong = |said: &str, sqlstate| {
        into_datafusion(
            Error::invalid(said)
                .with_hint("write a constant: percentile_cont(0.5) WITHIN GROUP (ORDER BY x)")
                .with_sqlstate(sqlstate),
        )
    };
    let nothing = RecordBatch::new_empty(Arc::new(args.schema.clone()));
    let value = args.exprs.get(1).map(|expr| expr.evaluate(&nothing));
    match value.transpose()? {
        Some(ColumnarValue::Scalar(ScalarValue::Float64(Some(share)))) => {
            match (0.0..=1.0).contains(&share) {
                true => Ok(share),
                false => {
                    let said = format!("percentile value {share} is not between 0 and 1");
                    Err(wrong(&said, "22003"))
                }
            }
        }
        _ => Err(wrong("the share of a percentile is no constant", "0A000")),
    }
}

fn descends(args: &AccumulatorArgs<'_>) -> bool {
    let first = args.order_bys.first();
    first.is_some_and(|order| order.options.descending)
}

fn not_distinct(args: &AccumulatorArgs<'_>) -> Result<()> {
    match args.is_distinct {
        false => Ok(()),
        true => Err(into_datafusion(
            Error::invalid("DISTINCT and WITHIN GROUP do not stand together")
                .with_hint("take the distinct values in a query of their own, in FROM")
                .with_sqlstate("0A000"),
        )),
    }
}

fn wrong_arguments(name: &str) -> datafusion::error::DataFusionError {
    plan_datafusion_err!("Function '{name}' failed to match any signature")
}

/// `percentile_cont`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Continuous {
    inner: PercentileCont,
    signature: Signature,
}

impl Continuous {
    fn new() -> Continuous {
        Continuous {
            inner: PercentileCont::new(),
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl AggregateUDFImpl for Continuous {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let is_number = |of: &DataType| of.is_numeric() || of.is_null();
        match arguments.len() == 2 && arguments.iter().all(is_number) {
            true => Ok(vec![DataType::Float64; 2]),
            false => Err(wrong_arguments(self.name())),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        not_distinct(&args)?;
        Ok(Box::new(Between {
            share: share(&args)?,
            descends: descends(&args),
            inner: self.inner.accumulator(args)?,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Between {
            share: share(&args)?,
            descends: descends(&args),
            inner: self.inner.create_groups_accumulator(args)?,
        }))
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

/// What lies at a share of the numbers that the planner's function gathers.
#[derive(Debug)]
struct Between<A> {
    share: f64,
    descends: bool,
    inner: A,
}

impl<A> Between<A> {
    fn of(&self, lists: &ArrayRef) -> Float64Array {
        let lists: &ListArray = lists.as_list();
        let found = lists.iter().map(|list| {
            let list = list?;
            let mut numbers = list.as_primitive::<Float64Type>().values().to_vec();
            between(&mut numbers, self.share, self.descends)
        });
        found.collect()
    }
}

/// The number at a share of all of them.
fn between(numbers: &mut [f64], share: f64, descends: bool) -> Option<f64> {
    let place = share * (numbers.len().checked_sub(1)? as f64);
    let order = |left: &f64, right: &f64| {
        // NaN is greater than every number, whatever sign it has.
        let order = left
            .is_nan()
            .cmp(&right.is_nan())
            .then(left.total_cmp(right));
        if descends { order.reverse() } else { order }
    };
    let (_, low, above) = numbers.select_nth_unstable_by(place.floor() as usize, order);
    let low = *low;
    let share = place - place.floor();
    if share == 0.0 {
        return Some(low);
    }
    let high = above.iter().copied().min_by(order)?;
    Some(low + share * (high - low))
}

impl Accumulator for Between<Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.inner.state()?;
        let lists: Vec<ArrayRef> = state
            .iter()
            .map(ScalarValue::to_array)
            .collect::<Result<_>>()?;
        let found = self.of(&lists[0]);
        // A window goes on with what has been gathered.
        self.inner.merge_batch(&lists)?;
        ScalarValue::try_from_array(&found, 0)
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
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

impl GroupsAccumulator for Between<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, groups, filter, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let lists = self.inner.state(emit)?;
        Ok(Arc::new(self.of(&lists[0])))
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
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

/// What is picked of ordered values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Picks {
    /// The first that has a share of all behind it.
    Share,
    /// The one that is there most often, of several the first.
    Most,
}

/// `percentile_disc` and `mode`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Picked {
    name: &'static str,
    picks: Picks,
    signature: Signature,
}

impl AggregateUDFImpl for Picked {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match (self.picks, arguments) {
            (Picks::Share, [of, share]) if share.is_numeric() || share.is_null() => {
                Ok(vec![of.clone(), DataType::Float64])
            }
            (Picks::Most, [of]) => Ok(vec![of.clone()]),
            _ => Err(wrong_arguments(self.name)),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let first = arguments.first().cloned();
        first.ok_or_else(|| wrong_arguments(self.name))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let of = args.return_field.data_type().clone();
        let name = format!("{}[{}]", args.name, self.name);
        let list = DataType::new_list(of, true);
        Ok(vec![Arc::new(Field::new(name, list, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        not_distinct(&args)?;
        let share = match self.picks {
            Picks::Share => Some(share(&args)?),
            Picks::Most => None,
        };
        let of = args.return_field.data_type().clone();
        Ok(Box::new(Gathered::new(of, share, descends(&args))))
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}
