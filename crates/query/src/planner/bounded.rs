//! Functions that make much out of little: `repeat('a', 1000000000)`. What they make at once has a
//! limit, which is looked at before anything is made: the memory of queries does not count it.
//!
//! Functions around the planner's own; pure. Invariant BND-1: what one call makes for one batch of
//! rows takes at most [`MADE_BYTES_MAX`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use lazybase_model::{Error, Result as Checked};

use super::around::{self, Around};
use crate::error::into_datafusion;

/// Bytes that a call may make at once.
pub(super) const MADE_BYTES_MAX: u128 = 256 << 20;

/// What the smallest element of a list takes.
const ELEMENT_BYTES: i128 = 8;

/// The functions, and what they make.
const BOUNDED: [(&str, Makes); 7] = [
    ("repeat", Makes::Repeated),
    ("lpad", Makes::Padded),
    ("rpad", Makes::Padded),
    ("replace", Makes::Replaced),
    ("array_repeat", Makes::Elements { of: 0 }),
    ("array_resize", Makes::Elements { of: 2 }),
    ("array_to_string", Makes::Joined),
];

/// Puts the functions in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    around::register(state, BOUNDED)
}

/// Of a function that makes too much.
fn too_much(name: &str, bytes: u128) -> Error {
    Error::invalid(format!("{name} would make {bytes} bytes at once"))
        .with_detail(format!("at most {MADE_BYTES_MAX} are made"))
        .with_sqlstate("54000")
}

/// Whether a function may go on that has made so much.
///
/// # Errors
/// `Invalid` (54000) where that is too much.
pub(super) fn check_made(name: &str, bytes: usize) -> Checked<()> {
    match bytes as u128 > MADE_BYTES_MAX {
        true => Err(too_much(name, bytes as u128)),
        false => Ok(()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Makes {
    /// The text, as many times as the second argument says.
    Repeated,
    /// A text as long as the second argument.
    Padded,
    /// The text, with the third argument wherever the second is.
    Replaced,
    /// A list as long as the second argument, of another one.
    Elements { of: usize },
    /// The elements of a list, with the second argument between them.
    Joined,
}

impl Makes {
    /// How many bytes a call would make at least; nothing where only the call knows.
    fn bytes(self, call: &Call<'_>) -> Result<u128> {
        Ok(match self {
            Makes::Padded => {
                let lengths = call.numbers(1)?;
                call.sum(|row| lengths.at(row))
            }
            Makes::Elements { of } => {
                let (sizes, times) = (call.sizes(of)?, call.numbers(1)?);
                call.sum(|row| sizes.at(row) * times.at(row))
            }
            Makes::Repeated => {
                let (lengths, times) = (call.lengths(0)?, call.numbers(1)?);
                call.sum(|row| lengths.at(row) * times.at(row))
            }
            Makes::Joined => {
                let (elements, between) = (call.elements(0)?, call.lengths(1)?);
                call.sum(|row| elements.at(row) * between.at(row))
            }
            Makes::Replaced => {
                let (texts, from, to) = (call.lengths(0)?, call.lengths(1)?, call.lengths(2)?);
                let most = call.sum(|row| match from.at(row) {
                    0 => 0,
                    from => texts.at(row) / from * to.at(row),
                });
                // It is looked for only where it may be there too often.
                match most > MADE_BYTES_MAX {
                    true => call.replaced()?,
                    false => most,
                }
            }
        })
    }
}

impl Around for Makes {
    fn answer(&self, inner: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = self.bytes(&Call::of(&args.args))?;
        if bytes > MADE_BYTES_MAX {
            return Err(into_datafusion(too_much(inner.name(), bytes)));
        }
        let mut args = args;
        if *self == Makes::Padded
            && let Some(length) = args.args.get_mut(1)
        {
            *length = not_negative(length)?;
        }
        inner.invoke_with_args(args)
    }
}

/// The arguments of a call. Constants are not made columns: for many rows a long one is much.
struct Call<'a> {
    args: &'a [ColumnarValue],
    rows: usize,
}

/// What an argument has in each row, or once for all of them.
struct Each(Vec<i128>);

impl Each {
    fn at(&self, row: usize) -> i128 {
        self.0[place(self.0.len(), row)]
    }
}

/// Where the value of a row stands among so many.
fn place(values: usize, row: usize) -> usize {
    match values {
        1 => 0,
        _ => row,
    }
}

impl<'a> Call<'a> {
    fn of(args: &'a [ColumnarValue]) -> Call<'a> {
        let rows = args.iter().find_map(|argument| match argument {
            ColumnarValue::Array(values) => Some(values.len()),
            ColumnarValue::Scalar(_) => None,
        });
        Call {
            args,
            rows: rows.unwrap_or(1),
        }
    }

    /// What all rows have together; nothing of those that have less than nothing.
    fn sum(&self, of: impl Fn(usize) -> i128) -> u128 {
        (0..self.rows)
            .map(|row| of(row).max(0).unsigned_abs())
            .sum()
    }

    fn array(&self, at: usize) -> Result<Option<ArrayRef>> {
        Ok(match self.args.get(at) {
            Some(ColumnarValue::Array(values)) => Some(Arc::clone(values)),
            Some(ColumnarValue::Scalar(value)) => Some(value.to_array()?),
            None => None,
        })
    }

    /// The whole numbers of an argument; 0 for NULL.
    fn numbers(&self, at: usize) -> Result<Each> {
        match self.array(at)? {
            Some(array) if array.data_type().is_integer() => whole(&array),
            _ => Ok(Each(vec![0])),
        }
    }

    /// The bytes of an argument's texts.
    fn lengths(&self, at: usize) -> Result<Each> {
        match self.array(at)? {
            Some(array) if has_lengths(array.data_type()) => whole(&length(&array)?),
            _ => Ok(Each(vec![0])),
        }
    }

    /// The bytes of an argument's values; of those that are no texts, how many they are on average.
    fn sizes(&self, at: usize) -> Result<Each> {
        let Some(array) = self.array(at)? else {
            return Ok(Each(vec![ELEMENT_BYTES]));
        };
        if has_lengths(array.data_type()) {
            let Each(mut sizes) = whole(&length(&array)?)?;
            for size in &mut sizes {
                *size = ELEMENT_BYTES.max(*size);
            }
            return Ok(Each(sizes));
        }
        let rows = array.len().max(1);
        let size = innermost(array).to_data().get_slice_memory_size()? / rows;
        Ok(Each(vec![ELEMENT_BYTES.max(size as i128)]))
    }

    /// How many elements an argument's lists have, those of lists in them counted each.
    fn elements(&self, at: usize) -> Result<Each> {
        let array = self.array(at)?;
        let Some(lists) = array.as_ref().and_then(|array| array.as_list_opt::<i32>()) else {
            return Ok(Each(vec![0]));
        };
        let count = |row| match lists.is_valid(row) {
            true => innermost(lists.value(row)).len() as i128,
            false => 0,
        };
        Ok(Each((0..lists.len()).map(count).collect()))
    }

    /// The bytes of what stands where something is replaced.
    fn replaced(&self) -> Result<u128> {
        let (texts, from, to) = (self.texts(0)?, self.texts(1)?, self.texts(2)?);
        let bytes = |row| match (at(&texts, row), at(&from, row), at(&to, row)) {
            (Some(text), Some(from), Some(to)) if !from.is_empty() => {
                (text.matches(from).count() * to.len()) as i128
            }
            _ => 0,
        };
        Ok(self.sum(bytes))
    }

    fn texts(&self, at: usize) -> Result<StringArray> {
        Ok(match self.array(at)? {
            Some(array) => cast(&array, &DataType::Utf8)?.as_string().clone(),
            None => StringArray::new_null(1),
        })
    }
}

fn at(texts: &StringArray, row: usize) -> Option<&str> {
    let at = place(texts.len(), row);
    texts.is_valid(at).then(|| texts.value(at))
}

fn whole(numbers: &ArrayRef) -> Result<Each> {
    let numbers = cast(numbers, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>().iter();
    Ok(Each(numbers.map(|n| n.map_or(0, i128::from)).collect()))
}

fn has_lengths(of: &DataType) -> bool {
    of.is_string() || matches!(of, DataType::Binary | DataType::LargeBinary)
}

/// The elements of lists, and of lists in them: those of the rows that are there alone.
fn innermost(mut values: ArrayRef) -> ArrayRef {
    while let Some(lists) = values.as_list_opt::<i32>() {
        let ends = lists.offsets();
        let (first, last) = (ends[0] as usize, ends[lists.len()] as usize);
        values = lists.values().slice(first, last - first);
    }
    values
}

/// Lengths of texts, of which none is less than nothing.
fn not_negative(lengths: &ColumnarValue) -> Result<ColumnarValue> {
    let clipped = |lengths: ArrayRef| -> Result<ArrayRef> {
        let lengths = cast(&lengths, &DataType::Int64)?;
        let lengths = lengths.as_primitive::<Int64Type>();
        Ok(Arc::new(
            lengths.unary::<_, Int64Type>(|length| length.max(0)),
        ))
    };
    match lengths {
        ColumnarValue::Array(lengths) => clipped(Arc::clone(lengths)).map(ColumnarValue::Array),
        ColumnarValue::Scalar(length) => {
            let length = clipped(length.to_array()?)?;
            ScalarValue::try_from_array(&length, 0).map(ColumnarValue::Scalar)
        }
    }
}
