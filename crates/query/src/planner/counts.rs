//! Counts and places as PostgreSQL's signed integers: the planner's own are unsigned ones of 64
//! bits, which clients are told as NUMERIC, and which no difference of two can be negative in.
//!
//! ```text
//!   row_number, rank, dense_rank                                   BIGINT
//!   ntile, array_length, cardinality, array_ndims, array_position  INT
//!   array_positions                                                INT[]
//! ```
//!
//! `array_length` of an array without elements is NULL. Functions around the planner's own; pure.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, LimitEffect, PartitionEvaluator, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_plan::PhysicalExpr;

use super::around::{self, Around};

/// The functions of windows, and what they give.
const OF_WINDOWS: [(&str, DataType); 4] = [
    ("row_number", DataType::Int64),
    ("rank", DataType::Int64),
    ("dense_rank", DataType::Int64),
    ("ntile", DataType::Int32),
];

/// The functions of arrays that give a number, or an array of them.
const OF_ARRAYS: [&str; 5] = [
    "array_length",
    "cardinality",
    "array_ndims",
    "array_position",
    "array_positions",
];

/// Puts the functions in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let of_arrays = OF_ARRAYS.map(|name| {
        let zero_is_null = name == "array_length";
        (name, OfArray { zero_is_null })
    });
    around::register(state, of_arrays)?;
    for (name, gives) in OF_WINDOWS {
        let inner = state.udwf(name)?;
        state.register_udwf(Arc::new(WindowUDF::from(OfWindow { inner, gives })))?;
    }
    Ok(())
}

/// A type with INT in the place of the unsigned integer.
fn signed(data_type: &DataType) -> DataType {
    match data_type {
        DataType::UInt64 => DataType::Int32,
        DataType::List(item) => {
            let inner = signed(item.data_type());
            DataType::List(Arc::new(item.as_ref().clone().with_data_type(inner)))
        }
        other => other.clone(),
    }
}

/// A function of an array.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfArray {
    /// An array without elements has no dimension that could be long.
    zero_is_null: bool,
}

impl Around for OfArray {
    fn field(&self, inner: &ScalarUDF, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let counted = inner.return_field_from_args(args)?;
        let gives = signed(counted.data_type());
        let field = counted.as_ref().clone().with_data_type(gives);
        Ok(Arc::new(field.with_nullable(true)))
    }

    fn answer(&self, inner: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        let counted = inner.return_type(&types)?;
        let gives = signed(&counted);
        let field = args.return_field.as_ref().clone().with_data_type(counted);
        let args = ScalarFunctionArgs {
            return_field: Arc::new(field),
            ..args
        };
        let counted = inner.invoke_with_args(args)?.cast_to(&gives, None)?;
        match self.zero_is_null {
            true => without_zero(&counted),
            false => Ok(counted),
        }
    }
}

/// Counts with NULL in the place of 0.
fn without_zero(counts: &ColumnarValue) -> Result<ColumnarValue> {
    let nulls = |counts: &ArrayRef| -> Int32Array {
        let counts = counts.as_primitive::<Int32Type>().iter();
        counts
            .map(|count| count.filter(|count| *count != 0))
            .collect()
    };
    Ok(match counts {
        ColumnarValue::Array(counts) => ColumnarValue::Array(Arc::new(nulls(counts))),
        ColumnarValue::Scalar(count) => {
            let counts = nulls(&count.to_array()?);
            ColumnarValue::Scalar(ScalarValue::try_from_array(&counts, 0)?)
        }
    })
}

/// A function of a window.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfWindow {
    inner: Arc<WindowUDF>,
    gives: DataType,
}

impl WindowUDFImpl for OfWindow {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(args)
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Evaluator {
            inner: self.inner.partition_evaluator_factory(args)?,
            gives: self.gives.clone(),
        }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let field = self.inner.field(args)?;
        let field: Field = field.as_ref().clone();
        Ok(Arc::new(field.with_data_type(self.gives.clone())))
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.inner.sort_options()
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(args)
    }
}

/// What counts over one partition of a window.
#[derive(Debug)]
struct Evaluator {
    inner: Box<dyn PartitionEvaluator>,
    gives: DataType,
}

impl Evaluator {
    fn signed(&self, counts: ArrayRef) -> Result<ArrayRef> {
        Ok(cast(&counts, &self.gives)?)
    }
}

impl PartitionEvaluator for Evaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.inner.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.inner.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let counts = self.inner.evaluate_all(values, rows)?;
        self.signed(counts)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.inner.evaluate(values, range)?.cast_to(&self.gives)
    }

    fn evaluate_all_with_rank(&self, rows: usize, peers: &[Range<usize>]) -> Result<ArrayRef> {
        let counts = self.inner.evaluate_all_with_rank(rows, peers)?;
        self.signed(counts)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.inner.include_rank()
    }
}
