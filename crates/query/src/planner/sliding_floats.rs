//! Sums, averages and deviations of floating-point numbers over frames that slide along rows, as
//! `sum(x) OVER (ORDER BY k ROWS 1 PRECEDING)`, and what is said of pairs of them
//! (`crates/query/src/planner/sliding_pairs.rs`). The planner's own take off what leaves a frame
//! from what it has added up, so that the digits that a great number has pushed out are lost after
//! it has left, and a NaN or an infinity never leaves.
//!
//! ```text
//!   frame           1e20 1 | 2 3 |    the numbers that leave next, each with all behind it,
//!                  1e20, 1 | 5        and those that came since, in one
//!   1e20 leaves         1, | 5        nothing is taken off: what it was in goes with it
//! ```
//!
//! Aggregates around the planner's of their names, which all other frames are. Pure. Invariant
//! SLF-1: a number that is no longer in a frame has no part in what is said of it.

use std::fmt;

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::function::AccumulatorArgs;

use super::mapped::{self, Mapping};
use super::sliding_pairs::{self, over_pairs};

#[cfg(test)]
mod tests;

/// Puts the functions in the place of the planner's, but for `sum`, which
/// `crates/query/src/planner/exact_sum.rs` does.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let of_numbers = ["avg", "var", "var_pop", "stddev", "stddev_pop"];
    for name in of_numbers.iter().chain(&sliding_pairs::NAMES) {
        mapped::register::<AsTheyAre>(state, name)?;
    }
    Ok(())
}

/// Numbers that go to the planner's functions as they are.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsTheyAre;

impl Mapping for AsTheyAre {
    const SLIDES_OVER_DISTINCT: bool = false;

    fn sliding(name: &str, args: &AccumulatorArgs<'_>) -> Option<Box<dyn Accumulator>> {
        over_floats(name, args)
    }
}

/// What a function of this name is over a frame that slides, where its answer is a floating-point
/// number.
pub(super) fn over_floats(name: &str, args: &AccumulatorArgs<'_>) -> Option<Box<dyn Accumulator>> {
    if args.is_distinct || *args.return_type() != DataType::Float64 {
        return None;
    }
    let says = match name {
        "sum" => Says::Sum,
        "avg" => Says::Average,
        "var" => Says::Variance { of_sample: true },
        "var_pop" => Says::Variance { of_sample: false },
        "stddev" => Says::Deviation { of_sample: true },
        "stddev_pop" => Says::Deviation { of_sample: false },
        name => return over_pairs(name),
    };
    Some(Box::new(Frame::new(says)))
}

/// What is said of the rows in a frame.
pub(super) trait Saying: fmt::Debug + Copy + Send + Sync + 'static {
    /// What a row has.
    type Row: fmt::Debug + Copy + Send + Sync;
    /// What is known of some rows; of none by default.
    type Known: fmt::Debug + Copy + Default + Send + Sync;

    /// Gives what the rows have in which nothing is NULL, one after the other.
    ///
    /// # Errors
    /// Where they are no numbers.
    fn each_row(values: &[ArrayRef], with: impl FnMut(Self::Row)) -> Result<()>;

    /// What is known of one row.
    fn one(row: Self::Row) -> Self::Known;

    /// What is known of rows, and of others behind them, together.
    fn both(one: Self::Known, other: Self::Known) -> Self::Known;

    /// `None` where too few rows are there.
    fn of(self, all: Self::Known) -> Option<f64>;
}

/// What is said of the numbers in a frame.
#[derive(Debug, Clone, Copy)]
enum Says {
    Sum,
    Average,
    Variance { of_sample: bool },
    Deviation { of_sample: bool },
}

impl Saying for Says {
    type Row = f64;
    type Known = Numbers;

    fn each_row(values: &[ArrayRef], with: impl FnMut(f64)) -> Result<()> {
        floats(&values[0])?.iter().flatten().for_each(with);
        Ok(())
    }

    fn one(number: f64) -> Numbers {
        Numbers::one(number)
    }

    fn both(one: Numbers, other: Numbers) -> Numbers {
        one.and(other)
    }

    fn of(self, all: Numbers) -> Option<f64> {
        let count = all.count as f64;
        match self {
            Says::Sum => (all.count > 0).then_some(all.sum),
            Says::Average => (all.count > 0).then_some(all.sum / count),
            Says::Variance { of_sample } => {
                let wanted = if of_sample { 2 } else { 1 };
                let apart = if of_sample { count - 1.0 } else { count };
                (all.count >= wanted).then_some(all.squares / apart)
            }
            Says::Deviation { of_sample } => Says::Variance { of_sample }.of(all).map(f64::sqrt),
        }
    }
}

/// What is known of some numbers.
#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    count: u64,
    sum: f64,
    mean: f64,
    /// How far they are from the mean, squared and added up.
    squares: f64,
}

impl Numbers {
    fn one(number: f64) -> Numbers {
        Numbers {
            count: 1,
            sum: number,
            mean: number,
            // Nothing, and NaN where the number is not finite.
            squares: number * 0.0,
        }
    }

    fn and(self, other: Numbers) -> Numbers {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { other } else { self };
        }
        let count = self.count + other.count;
        let share = other.count as f64 / count as f64;
        let apart = other.mean - self.mean;
        let between = apart * apart * share * self.count as f64;
        Numbers {
            count,
            sum: self.sum + other.sum,
            mean: self.mean + apart * share,
            squares: self.squares + other.squares + between,
        }
    }
}

/// The rows of a frame, which leave in the order in which they came.
#[derive(Debug)]
pub(super) struct Frame<S: Saying> {
    says: S,
    /// Those that leave next, the first of them last; each with those that came after it here.
    leaving: Vec<S::Known>,
    /// Those that came since.
    came: Vec<S::Row>,
    /// All that came since.
    all_came: S::Known,
}

impl<S: Saying> Frame<S> {
    pub(super) fn new(says: S) -> Frame<S> {
        Frame {
            says,
            leaving: Vec::new(),
            came: Vec::new(),
            all_came: S::Known::default(),
        }
    }

    fn add(&mut self, row: S::Row) {
        self.came.push(row);
        self.all_came = S::both(self.all_came, S::one(row));
    }

    fn take_first(&mut self) {
        if self.leaving.is_empty() {
            let mut behind = S::Known::default();
            for row in self.came.drain(..).rev() {
                behind = S::both(S::one(row), behind);
                self.leaving.push(behind);
            }
            self.all_came = S::Known::default();
        }
        self.leaving.pop();
    }

    fn all(&self) -> S::Known {
        let leaving = self.leaving.last().copied().unwrap_or_default();
        S::both(leaving, self.all_came)
    }
}

/// A column as numbers.
///
/// # Errors
/// Where it has none.
pub(super) fn floats(values: &ArrayRef) -> Result<Float64Array> {
    let numbers = cast(values, &DataType::Float64)?;
    Ok(numbers.as_primitive::<Float64Type>().clone())
}

impl<S: Saying> Accumulator for Frame<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        S::each_row(values, |row| self.add(row))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        S::each_row(values, |_| self.take_first())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.says.of(self.all())))
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.leaving.capacity() * size_of::<S::Known>()
            + self.came.capacity() * size_of::<S::Row>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a frame that slides is not put together of parts")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a frame that slides is not put together of parts")
    }
}
