//! Sums, averages and deviations of floating-point numbers over frames that slide along rows, as
//! `sum(x) OVER (ORDER BY k ROWS 1 PRECEDING)`. The planner's own take off what leaves a frame
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

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::function::AccumulatorArgs;

use super::mapped::{self, Mapping};

#[cfg(test)]
mod tests;

/// Puts the functions in the place of the planner's, but for `sum`, which
/// `crates/query/src/planner/exact_sum.rs` does.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for name in ["avg", "var", "var_pop", "stddev", "stddev_pop"] {
        mapped::register::<AsTheyAre>(state, name)?;
    }
    Ok(())
}

/// Numbers that go to the planner's functions as they are.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsTheyAre;

impl Mapping for AsTheyAre {
    const SLIDES_OVER_DISTINCT: bool = false;

    fn mapped(_: &DataType) -> Option<DataType> {
        None
    }

    fn to_mapped(values: &ArrayRef) -> ArrayRef {
        ArrayRef::clone(values)
    }

    fn from_mapped(values: &ArrayRef, _: &DataType) -> Result<ArrayRef> {
        Ok(ArrayRef::clone(values))
    }

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
        _ => return None,
    };
    Some(Box::new(Frame::new(says)))
}

/// What is said of the numbers in a frame.
#[derive(Debug, Clone, Copy)]
enum Says {
    Sum,
    Average,
    Variance { of_sample: bool },
    Deviation { of_sample: bool },
}

impl Says {
    /// `None` where too few numbers are there.
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

/// The numbers of a frame, which leave in the order in which they came.
#[derive(Debug)]
struct Frame {
    says: Says,
    /// Those that leave next, the first of them last; each with those that came after it here.
    leaving: Vec<Numbers>,
    /// Those that came since.
    came: Vec<f64>,
    /// All that came since.
    all_came: Numbers,
}

impl Frame {
    fn new(says: Says) -> Frame {
        Frame {
            says,
            leaving: Vec::new(),
            came: Vec::new(),
            all_came: Numbers::default(),
        }
    }

    fn add(&mut self, number: f64) {
        self.came.push(number);
        self.all_came = self.all_came.and(Numbers::one(number));
    }

    fn take_first(&mut self) {
        if self.leaving.is_empty() {
            let mut behind = Numbers::default();
            for number in self.came.drain(..).rev() {
                behind = Numbers::one(number).and(behind);
                self.leaving.push(behind);
            }
            self.all_came = Numbers::default();
        }
        self.leaving.pop();
    }

    fn all(&self) -> Numbers {
        let leaving = self.leaving.last().copied().unwrap_or_default();
        leaving.and(self.all_came)
    }
}

fn floats(values: &[ArrayRef]) -> Result<Float64Array> {
    let numbers = cast(&values[0], &DataType::Float64)?;
    Ok(numbers.as_primitive::<Float64Type>().clone())
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for number in floats(values)?.iter().flatten() {
            self.add(number);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let numbers = floats(values)?;
        for _ in 0..numbers.len() - numbers.null_count() {
            self.take_first();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.says.of(self.all())))
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.leaving.capacity() * size_of::<Numbers>()
            + self.came.capacity() * size_of::<f64>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a frame that slides is not put together of parts")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a frame that slides is not put together of parts")
    }
}
