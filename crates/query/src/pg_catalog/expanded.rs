//! A list's elements with their numbers, as a list of both: what `_pg_expandarray` gives as rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The name of the function.
pub(super) const EXPANDED: &str = "pg_expanded";

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Expanded {
    signature: Signature,
}

impl Expanded {
    pub(crate) fn new() -> Expanded {
        Expanded {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

/// An element, and its number from 1.
fn fields(list: &DataType) -> Result<Fields> {
    let DataType::List(item) = list else {
        return Err(DataFusionError::Plan(format!("{list} is no array")));
    };
    Ok(Fields::from(vec![
        Field::new("x", item.data_type().clone(), true),
        Field::new("n", DataType::Int32, true),
    ]))
}

impl ScalarUDFImpl for Expanded {
    fn name(&self) -> &str {
        EXPANDED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let item = DataType::Struct(fields(&types[0])?);
        Ok(DataType::new_list(item, true))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let failed = |error| DataFusionError::ArrowError(Box::new(error), None);
        let lists = ColumnarValue::values_to_arrays(&args.args)?.remove(0);
        let fields = fields(lists.data_type())?;
        let lists = lists.as_list::<i32>();
        let (mut elements, mut numbers, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for row in 0..lists.len() {
            let length = match lists.is_null(row) {
                true => 0,
                false => {
                    elements.push(lists.value(row));
                    lists.value_length(row)
                }
            };
            numbers.extend(1..=length);
            lengths.push(length as usize);
        }
        let elements: Vec<&dyn Array> = elements.iter().map(AsRef::as_ref).collect();
        let elements = match elements.is_empty() {
            true => arrow::array::new_empty_array(fields[0].data_type()),
            false => arrow::compute::concat(&elements).map_err(failed)?,
        };
        let numbers: ArrayRef = Arc::new(Int32Array::from(numbers));
        let both = StructArray::try_new(fields.clone(), vec![elements, numbers], None);
        let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
        let lengths = OffsetBuffer::from_lengths(lengths);
        let both = Arc::new(both.map_err(failed)?);
        let lists = ListArray::try_new(item, lengths, both, lists.nulls().cloned());
        Ok(ColumnarValue::Array(Arc::new(lists.map_err(failed)?)))
    }
}
