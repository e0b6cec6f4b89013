//! How many bytes the rows of an array take: what the memory of batches, runs and logs is counted
//! by.
//!
//! Pure. Arrow tells it from an array's parts, which it puts together for that: for the small
//! batches that come in all the time that is dearer than what is done with them. So the common
//! kinds are looked at as they are.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// The bytes of an array's rows, without what its buffers hold besides: as
/// `ArrayData::get_slice_memory_size` says.
///
/// # Errors
/// What Arrow says of arrays that it can't measure.
pub(crate) fn sliced_bytes(array: &ArrayRef) -> Result<usize, ArrowError> {
    let rows = array.len();
    let of_offsets =
        |first: i32, last: i32| (last - first) as usize + (rows + 1) * size_of::<i32>();
    let values = match array.data_type() {
        DataType::Boolean => rows.div_ceil(8),
        DataType::FixedSizeBinary(width) => *width as usize * rows,
        DataType::Utf8 if rows > 0 => {
            let offsets = array.as_string::<i32>().value_offsets();
            of_offsets(offsets[0], offsets[rows])
        }
        DataType::Binary if rows > 0 => {
            let offsets = array.as_binary::<i32>().value_offsets();
            of_offsets(offsets[0], offsets[rows])
        }
        other => match other.primitive_width() {
            Some(width) => width * rows,
            None => return array.to_data().get_slice_memory_size(),
        },
    };
    // A slice of rows that all have values has no part that says so.
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let nulls = nulls.map_or(0, |_| rows.div_ceil(8));
    Ok(values + nulls)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BinaryArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int32Array,
        Int64Array, ListArray, StringArray, StringViewArray,
    };
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn it_is_what_arrow_says_of_the_parts() {
        let texts = ["", "a", "a text that is longer than a view holds", "b"];
        let lists = (0..4).map(|length| Some((0..length).map(Some).collect::<Vec<_>>()));
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![1, 2, 3, 4])),
            Arc::new(Int32Array::from(vec![Some(1), None, Some(3), None])),
            Arc::new(Float64Array::from(vec![0.5; 4])),
            Arc::new(Decimal128Array::from(vec![Some(1), None, None, None])),
            Arc::new(BooleanArray::from(vec![
                Some(true),
                None,
                Some(false),
                None,
            ])),
            Arc::new(StringArray::from(texts.to_vec())),
            Arc::new(StringArray::from(vec![Some("a"), None, None, Some("bc")])),
            Arc::new(BinaryArray::from_vec(
                texts.iter().map(|text| text.as_bytes()).collect(),
            )),
            Arc::new(FixedSizeBinaryArray::try_from_iter([[1u8, 2, 3]; 4].iter()).unwrap()),
            Arc::new(StringViewArray::from(texts.to_vec())),
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        ];
        for array in &arrays {
            for (start, rows) in [(0, 4), (1, 2), (3, 1), (2, 0), (0, 0)] {
                let slice = array.slice(start, rows);
                let expected = slice.to_data().get_slice_memory_size().unwrap();
                let what = format!("{start}, {rows} of {array:?}");
                assert_eq!(sliced_bytes(&slice).unwrap(), expected, "{what}");
            }
        }
    }
}
