//! Answers of two engines: whether they are the same rows, in whatever order.
//!
//! What adding floats gives depends on their order, so floats may differ a little; all else is
//! compared as it is shown, for one engine's texts may be views where the other's are none.

use std::cmp::Ordering;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::array_value_to_string;

use crate::Outcome;

/// How far two floats may be apart: so much of the greater one, or of 1.
const TOLERANCE: f64 = 1e-9;
/// What stands in the place of a float among the other cells of its row.
const A_FLOAT: &str = "a float";

/// A row: its cells as they are shown, and its floats.
#[derive(Debug, Clone, Default)]
struct Row {
    shown: Vec<String>,
    floats: Vec<f64>,
}

impl Row {
    fn order(&self, other: &Row) -> Ordering {
        let floats = self.floats.iter().zip(&other.floats);
        let floats = floats.map(|(one, other)| one.total_cmp(other));
        let shown = self.shown.cmp(&other.shown);
        shown.then(floats.fold(Ordering::Equal, Ordering::then))
    }

    /// Rows that are shown alike have as many floats.
    fn is_like(&self, other: &Row) -> bool {
        let mut floats = self.floats.iter().zip(&other.floats);
        self.shown == other.shown && floats.all(|(one, other)| is_near(*one, *other))
    }
}

fn is_near(one: f64, other: f64) -> bool {
    let same = one == other || (one.is_nan() && other.is_nan());
    same || (one - other).abs() <= TOLERANCE * one.abs().max(other.abs()).max(1.0)
}

/// In words what tells two answers apart, if anything does.
pub(super) fn difference(ours: &[RecordBatch], plain: &[RecordBatch]) -> Outcome<Option<String>> {
    let (ours, plain) = (rows_of(ours)?, rows_of(plain)?);
    if ours.len() != plain.len() {
        let (ours, plain) = (ours.len(), plain.len());
        return Ok(Some(format!("{ours} rows, of plain files {plain}")));
    }
    let mut pairs = ours.iter().zip(&plain);
    let unlike = pairs.find(|(our, plain)| !our.is_like(plain));
    Ok(unlike.map(|(our, plain)| format!("{our:?}, of plain files {plain:?}")))
}

/// The rows, in an order of their own.
fn rows_of(batches: &[RecordBatch]) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for batch in batches {
        let mut of_batch = vec![Row::default(); batch.num_rows()];
        for column in batch.columns() {
            let floats = match column.data_type().is_floating() {
                true => Some(cast(column, &DataType::Float64)?),
                false => None,
            };
            for (at, row) in of_batch.iter_mut().enumerate() {
                let shown = match &floats {
                    _ if column.is_null(at) => "NULL".to_owned(),
                    Some(floats) => {
                        row.floats
                            .push(floats.as_primitive::<Float64Type>().value(at));
                        A_FLOAT.to_owned()
                    }
                    None => array_value_to_string(column, at)?,
                };
                row.shown.push(shown);
            }
        }
        rows.append(&mut of_batch);
    }
    rows.sort_by(Row::order);
    Ok(rows)
}

#[cfg(test)]
mod tests;
