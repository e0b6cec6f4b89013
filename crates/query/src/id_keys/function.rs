//! The function `IDKEY(...)` where rows are written: its arguments as one struct.

use arrow::datatypes::{DataType, Field, Fields};
use std::sync::Arc;

use arrow::array::{ArrayRef, StructArray};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The name of the function.
pub(crate) const NAME: &str = "idkey";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdKey {
    signature: Signature,
}

impl IdKey {
    pub(crate) fn new() -> IdKey {
        IdKey {
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }
}

/// The name of the function's argument `at`, from 0, in the struct: that of no column, since a
/// struct whose fields have the names of columns is read by them.
pub(super) fn function_field(at: usize) -> String {
    format!("?{}", at + 1)
}

fn fields(types: &[DataType]) -> Fields {
    let field = |(at, data_type): (usize, &DataType)| {
        Field::new(function_field(at), data_type.clone(), true)
    };
    types.iter().enumerate().map(field).collect()
}

impl ScalarUDFImpl for IdKey {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields(types)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let columns: Result<Vec<ArrayRef>> = args
            .args
            .into_iter()
            .map(|value| value.into_array(rows))
            .collect();
        let columns = columns?;
        let types: Vec<DataType> = columns.iter().map(|c| c.data_type().clone()).collect();
        let rows = StructArray::try_new(fields(&types), columns, None)
            .map_err(|error| DataFusionError::ArrowError(Box::new(error), None))?;
        Ok(ColumnarValue::Array(Arc::new(rows)))
    }
}
