//! Cells that merge operators make (section 3.2 of the paper: a change may depend on the value that
//! it meets only through its column's operator).
//!
//! Reads the patches of one column in the order in which they change its cells; gives patches that
//! set alone. MIN, MAX and FIRST pick one of the cells that are there; what SUM computes, and NULL
//! where a cell is blanked, stands in an array of its own behind those of the inputs.
//!
//! Invariant CMB-1: the cell is what `lazybase_model::change` makes of the same values one by one:
//! NULL gives way to any value, equal values keep the earlier, sums wrap around in 128 bits.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, DynComparator, make_comparator,
    new_null_array,
};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use lazybase_model::{Error, MergeOperator, Result};

use super::gather::{Patch, PatchAction, gathering};
use crate::env::planted::{Planted, is_planted};

/// Rows of the output that begin as rows of an input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretched {
    pub(super) input: u32,
    pub(super) start: u32,
    pub(super) len: u32,
}

/// A cell: an input and a row of it.
type Cell = (u32, u32);

/// The patches as patches that set alone, and the cells that they name behind those of the inputs.
///
/// # Errors
/// `Internal` for cells that are combined without an operator, or values that it can't combine.
pub(super) fn resolve(
    operator: Option<MergeOperator>,
    arrays: &[&dyn Array],
    patches: &[Patch],
    stretches: impl Iterator<Item = Stretched>,
) -> Result<(Vec<Patch>, ArrayRef)> {
    let begins = Begins::new(stretches);
    match operator {
        Some(MergeOperator::Sum) => sums(arrays, patches, begins),
        _ => chosen(operator, arrays, patches, begins),
    }
}

/// Where the rows of the output begin; asked for rows that rise.
struct Begins<S> {
    stretches: S,
    present: Stretched,
    /// The first row of the present stretch.
    first: u32,
}

impl<S: Iterator<Item = Stretched>> Begins<S> {
    fn new(stretches: S) -> Begins<S> {
        let present = Stretched {
            input: 0,
            start: 0,
            len: 0,
        };
        Begins {
            stretches,
            present,
            first: 0,
        }
    }

    fn of(&mut self, row: u32) -> Result<Cell> {
        while row >= self.first + self.present.len {
            self.first += self.present.len;
            let next = self.stretches.next();
            self.present = next.ok_or_else(|| Error::internal("a patch beyond the rows"))?;
        }
        let at = self.present.start + row - self.first;
        Ok((self.present.input, at))
    }
}

/// The patches of one cell from the last on that does not depend on what was there, and what was
/// there: `None` for NULL.
fn begun<S: Iterator<Item = Stretched>>(
    group: &[Patch],
    begins: &mut Begins<S>,
) -> Result<(Option<Cell>, usize)> {
    let fixed = |patch: &Patch| !matches!(patch.action(), PatchAction::Combine(_));
    let Some(at) = group.iter().rposition(fixed) else {
        return Ok((Some(begins.of(group[0].row)?), 0));
    };
    Ok(match group[at].action() {
        PatchAction::Set(input) => (Some((input, group[at].source)), at + 1),
        _ => (None, at + 1),
    })
}

fn combined_with(patch: &Patch) -> Option<Cell> {
    match patch.action() {
        PatchAction::Combine(input) => Some((input, patch.source)),
        _ => None,
    }
}

/// Cells of which one of the inputs' is chosen.
fn chosen(
    operator: Option<MergeOperator>,
    arrays: &[&dyn Array],
    patches: &[Patch],
    mut begins: Begins<impl Iterator<Item = Stretched>>,
) -> Result<(Vec<Patch>, ArrayRef)> {
    let data_type = arrays.first().map_or(&DataType::Null, |a| a.data_type());
    let mut comparing = Comparing::new(arrays);
    let mut plain = Vec::with_capacity(patches.len());
    for group in patches.chunk_by(|a, b| a.row == b.row) {
        let (mut cell, from) = begun(group, &mut begins)?;
        for later in group[from..].iter().filter_map(combined_with) {
            let known = cell.filter(|cell| arrays[cell.0 as usize].is_valid(cell.1 as usize));
            let is_later = match (known, arrays[later.0 as usize].is_valid(later.1 as usize)) {
                (_, false) => false,
                (None, true) => true,
                (Some(known), true) => match operator {
                    Some(MergeOperator::Min) => comparing.compare(later, known)?.is_lt(),
                    Some(MergeOperator::Max) => comparing.compare(later, known)?.is_gt(),
                    Some(MergeOperator::First) => false,
                    other => {
                        return Err(Error::internal(format!("{other:?} does not choose a cell")));
                    }
                },
            };
            if is_later {
                cell = Some(later);
            }
        }
        let (input, source) = cell.unwrap_or((arrays.len() as u32, 0));
        plain.push(Patch::set(group[0].row, input, source));
    }
    Ok((plain, new_null_array(data_type, 1)))
}

/// Sums in 128 bits, which wrap around: so the grouping of a span does not matter.
fn sums(
    arrays: &[&dyn Array],
    patches: &[Patch],
    mut begins: Begins<impl Iterator<Item = Stretched>>,
) -> Result<(Vec<Patch>, ArrayRef)> {
    let numbers = arrays.iter().map(|array| array.as_primitive_opt());
    let numbers: Option<Vec<&Decimal128Array>> = numbers.collect();
    let numbers = numbers.ok_or_else(|| Error::internal("a sum of what are no sums"))?;
    let value = |(input, row): Cell| {
        let (array, row) = (numbers[input as usize], row as usize);
        array.is_valid(row).then(|| array.value(row))
    };
    let mut plain = Vec::with_capacity(patches.len());
    let mut computed: Vec<Option<i128>> = Vec::with_capacity(patches.len());
    for group in patches.chunk_by(|a, b| a.row == b.row) {
        let (cell, from) = begun(group, &mut begins)?;
        let mut sum = cell.and_then(value);
        for later in group[from..].iter().filter_map(combined_with) {
            sum = match (sum, value(later)) {
                (Some(_), Some(later)) if is_planted(Planted::CombinedAsSet) => Some(later),
                (Some(sum), Some(later)) => Some(sum.wrapping_add(later)),
                (sum, later) => sum.or(later),
            };
        }
        let place = (arrays.len() as u32, computed.len() as u32);
        plain.push(Patch::set(group[0].row, place.0, place.1));
        computed.push(sum);
    }
    let computed = Decimal128Array::from(computed);
    let data_type = arrays.first().map(|array| array.data_type().clone());
    let computed = match data_type {
        Some(data_type) => computed.with_data_type(data_type),
        None => computed,
    };
    Ok((plain, Arc::new(computed)))
}

/// Compares cells in the order that keys have.
struct Comparing<'a> {
    arrays: &'a [&'a dyn Array],
    /// By the two inputs.
    comparators: HashMap<(u32, u32), DynComparator>,
}

impl<'a> Comparing<'a> {
    fn new(arrays: &'a [&'a dyn Array]) -> Comparing<'a> {
        Comparing {
            arrays,
            comparators: HashMap::new(),
        }
    }

    /// How two cells stand to each other, of which neither is NULL.
    fn compare(&mut self, one: Cell, other: Cell) -> Result<Ordering> {
        let (a, b) = (self.arrays[one.0 as usize], self.arrays[other.0 as usize]);
        let rows = (one.1 as usize, other.1 as usize);
        Ok(match a.data_type() {
            DataType::Float16 => float::<Float16Type>(a, b, rows, |value| value.to_f64()),
            DataType::Float32 => float::<Float32Type>(a, b, rows, f64::from),
            DataType::Float64 => float::<Float64Type>(a, b, rows, |value| value),
            _ => {
                let compare = match self.comparators.entry((one.0, other.0)) {
                    Entry::Occupied(made) => made.into_mut(),
                    Entry::Vacant(place) => {
                        let made = make_comparator(a, b, SortOptions::default());
                        place.insert(made.map_err(gathering)?)
                    }
                };
                compare(rows.0, rows.1)
            }
        })
    }
}

/// The order of keys: negative zero is zero, every NaN is one and above all numbers.
fn float<T: ArrowPrimitiveType>(
    a: &dyn Array,
    b: &dyn Array,
    rows: (usize, usize),
    wide: impl Fn(T::Native) -> f64,
) -> Ordering {
    let plain = |value: f64| match value.is_nan() {
        true => f64::NAN,
        // Adding zero turns negative zero into zero and leaves the rest.
        false => value + 0.0,
    };
    let a = plain(wide(a.as_primitive::<T>().value(rows.0)));
    let b = plain(wide(b.as_primitive::<T>().value(rows.1)));
    a.total_cmp(&b)
}
