//! A list, or an empty one where there is none: what `ARRAY(SELECT ...)` is of no rows, of which
//! `array_agg` makes NULL.

use std::sync::Arc;

use arrow::array::{Array, AsArray, ListArray, Scalar, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::is_not_null;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The name of the function.
pub(crate) const OR_EMPTY: &str = "pg_or_empty";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OrEmpty {
    signature: Signature,
}

impl OrEmpty {
    pub(crate) fn new() -> OrEmpty {
        OrEmpty {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for OrEmpty {
    fn name(&self) -> &str {
        OR_EMPTY
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match &types[0] {
            list @ DataType::List(_) => Ok(list.clone()),
            other => Err(DataFusionError::Plan(format!("{other} is no array"))),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [of] = args.arg_fields else {
            return Err(DataFusionError::Plan("an array is asked for".to_owned()));
        };
        let list = self.return_type(&[of.data_type().clone()])?;
        let field = Field::new(self.name(), list, true);
        // Lists may say that their elements are JSON.
        Ok(Arc::new(field.with_metadata(of.metadata().clone())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let failed = |error| DataFusionError::ArrowError(Box::new(error), None);
        let lists = ColumnarValue::values_to_arrays(&args.args)?.remove(0);
        let DataType::List(item) = lists.data_type() else {
            return Err(DataFusionError::Internal("no array was planned".to_owned()));
        };
        if lists.null_count() == 0 {
            return Ok(ColumnarValue::Array(lists));
        }
        let none = new_empty_array(item.data_type());
        let one = OffsetBuffer::from_lengths([0]);
        let empty = ListArray::try_new(Arc::clone(item), one, none, None).map_err(failed)?;
        let is_there = is_not_null(lists.as_list::<i32>()).map_err(failed)?;
        let filled = zip(&is_there, &lists, &Scalar::new(empty)).map_err(failed)?;
        Ok(ColumnarValue::Array(filled))
    }
}
