//! Functions of numbers that are not there for all numbers: `sqrt(-1)`, `ln(0)`. The planner gives
//! NaN or an infinity; here they are errors, as in PostgreSQL.
//!
//! Functions around the planner's own; pure.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};
use lazybase_model::Error;

use crate::error::into_datafusion;

/// The functions, and what their arguments are to be.
const PARTIAL: [(&str, Wants); 5] = [
    ("sqrt", Wants::NotNegative),
    ("ln", Wants::Positive),
    ("log", Wants::Positive),
    ("log2", Wants::Positive),
    ("log10", Wants::Positive),
];

/// Puts the functions in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for (name, wants) in PARTIAL {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(Partial { inner, wants })))?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Wants {
    NotNegative,
    Positive,
}

impl Wants {
    fn checked(self, number: f64) -> Result<()> {
        let (said, sqlstate) = match self {
            Wants::NotNegative if number < 0.0 => {
                ("cannot take square root of a negative number", "2201F")
            }
            Wants::Positive if number == 0.0 => ("cannot take logarithm of zero", "2201E"),
            Wants::Positive if number < 0.0 => {
                ("cannot take logarithm of a negative number", "2201E")
            }
            _ => return Ok(()),
        };
        Err(into_datafusion(
            Error::invalid(said).with_sqlstate(sqlstate),
        ))
    }
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Partial {
    inner: Arc<ScalarUDF>,
    wants: Wants,
}

impl ScalarUDFImpl for Partial {
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

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for value in &args.args {
            let numbers = match value {
                ColumnarValue::Array(array) => Arc::clone(array),
                ColumnarValue::Scalar(scalar) => scalar.to_array()?,
            };
            let numbers = cast(&numbers, &DataType::Float64)?;
            let mut numbers = numbers.as_primitive::<Float64Type>().iter().flatten();
            numbers.try_for_each(|number| self.wants.checked(number))?;
        }
        self.inner.invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
