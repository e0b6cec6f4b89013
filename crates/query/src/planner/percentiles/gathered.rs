//! Values of whatever type that are gathered, to be ordered once all are there. Pure.

use arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use arrow::compute::{SortOptions, concat, filter, is_not_null, partition, sort};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;

/// Pieces that are held until they are put together.
const PIECES_MAX: usize = 64;

/// The values that are no NULL.
#[derive(Debug)]
pub(super) struct Gathered {
    of: DataType,
    /// The share that the wanted value has; the most frequent is wanted where there is none.
    share: Option<f64>,
    descends: bool,
    pieces: Vec<ArrayRef>,
}

impl Gathered {
    pub(super) fn new(of: DataType, share: Option<f64>, descends: bool) -> Gathered {
        Gathered {
            of,
            share,
            descends,
            pieces: Vec::new(),
        }
    }

    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let values = match values.null_count() {
            0 => ArrayRef::clone(values),
            _ => filter(values, &is_not_null(values)?)?,
        };
        if !values.is_empty() {
            self.pieces.push(values);
        }
        if self.pieces.len() > PIECES_MAX {
            self.pieces = vec![self.all()?];
        }
        Ok(())
    }

    fn all(&self) -> Result<ArrayRef> {
        let pieces: Vec<&dyn Array> = self.pieces.iter().map(AsRef::as_ref).collect();
        match pieces.is_empty() {
            true => Ok(new_empty_array(&self.of)),
            false => Ok(concat(&pieces)?),
        }
    }
}

/// Where the most frequent of ordered values begins.
fn most_frequent(values: &ArrayRef) -> Result<usize> {
    let runs = partition(&[ArrayRef::clone(values)])?.ranges();
    let mut longest = 0..0;
    for run in runs {
        if run.len() > longest.len() {
            longest = run;
        }
    }
    Ok(longest.start)
}

impl Accumulator for Gathered {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let order = SortOptions {
            descending: self.descends,
            nulls_first: false,
        };
        let values = self.all()?;
        if values.is_empty() {
            return ScalarValue::try_new_null(&self.of);
        }
        let values = sort(&values, Some(order))?;
        let place = match self.share {
            Some(share) => {
                let behind = (share * values.len() as f64).ceil() as usize;
                behind.saturating_sub(1)
            }
            None => most_frequent(&values)?,
        };
        ScalarValue::try_from_array(&values, place)
    }

    fn size(&self) -> usize {
        let bytes = |piece: &ArrayRef| piece.to_data().get_slice_memory_size().unwrap_or(0);
        size_of_val(self) + self.pieces.iter().map(bytes).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = SingleRowListArrayBuilder::new(self.all()?);
        Ok(vec![list.build_list_scalar()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.add(&list)?;
        }
        Ok(())
    }
}
