//! Correlations, covariances and regressions over frames that slide along rows, which forget what
//! has left as sums do (`crates/query/src/planner/sliding_floats.rs`, SLF-1).
//!
//! Of two arguments the first is y and the second x, as in `regr_slope(y, x)`; a pair with a NULL
//! is none. Pure.

use arrow::array::ArrayRef;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;

use super::sliding_floats::{Frame, Saying, floats};

#[cfg(test)]
mod tests;

/// The functions, by the names of the planner's; `regr_count` forgets exactly anyhow.
pub(super) const NAMES: [&str; 11] = [
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
];

/// What a function of this name is over a frame that slides.
pub(super) fn over_pairs(name: &str) -> Option<Box<dyn Accumulator>> {
    let says = match name {
        "corr" => Says::Correlation,
        "covar_pop" => Says::Covariance { of_sample: false },
        "covar_samp" => Says::Covariance { of_sample: true },
        "regr_avgx" => Says::MeanX,
        "regr_avgy" => Says::MeanY,
        "regr_intercept" => Says::Intercept,
        "regr_r2" => Says::Determination,
        "regr_slope" => Says::Slope,
        "regr_sxx" => Says::SquaresX,
        "regr_sxy" => Says::Products,
        "regr_syy" => Says::SquaresY,
        _ => return None,
    };
    Some(Box::new(Frame::new(says)))
}

/// What is said of the pairs in a frame.
#[derive(Debug, Clone, Copy)]
enum Says {
    Correlation,
    Covariance { of_sample: bool },
    MeanX,
    MeanY,
    Intercept,
    Determination,
    Slope,
    SquaresX,
    Products,
    SquaresY,
}

/// What is known of some pairs.
#[derive(Debug, Clone, Copy, Default)]
struct Pairs {
    count: u64,
    mean_x: f64,
    mean_y: f64,
    /// How far they are from the means, squared, or multiplied with one another, and added up.
    squares_x: f64,
    squares_y: f64,
    products: f64,
}

impl Saying for Says {
    /// x and y.
    type Row = (f64, f64);
    type Known = Pairs;

    fn each_row(values: &[ArrayRef], mut with: impl FnMut((f64, f64))) -> Result<()> {
        let (all_y, all_x) = (floats(&values[0])?, floats(&values[1])?);
        for (y, x) in all_y.iter().zip(&all_x) {
            if let (Some(y), Some(x)) = (y, x) {
                with((x, y));
            }
        }
        Ok(())
    }

    fn one((x, y): (f64, f64)) -> Pairs {
        Pairs {
            count: 1,
            mean_x: x,
            mean_y: y,
            // Nothing, and NaN where a number is not finite.
            squares_x: x * 0.0,
            squares_y: y * 0.0,
            products: x * 0.0 + y * 0.0,
        }
    }

    fn both(one: Pairs, other: Pairs) -> Pairs {
        if one.count == 0 || other.count == 0 {
            return if one.count == 0 { other } else { one };
        }
        let count = one.count + other.count;
        let share = other.count as f64 / count as f64;
        let between = share * one.count as f64;
        let apart_x = other.mean_x - one.mean_x;
        let apart_y = other.mean_y - one.mean_y;
        Pairs {
            count,
            mean_x: one.mean_x + apart_x * share,
            mean_y: one.mean_y + apart_y * share,
            squares_x: one.squares_x + other.squares_x + apart_x * apart_x * between,
            squares_y: one.squares_y + other.squares_y + apart_y * apart_y * between,
            products: one.products + other.products + apart_x * apart_y * between,
        }
    }

    /// As the planner's functions have it over all other frames, NaN and equal numbers included.
    fn of(self, all: Pairs) -> Option<f64> {
        let count = all.count as f64;
        let slope = all.products / all.squares_x;
        let is_line = all.count > 1 && all.squares_x != 0.0;
        let both_vary = is_line && all.squares_y != 0.0;
        match self {
            Says::Correlation if all.mean_x.is_nan() && all.mean_y.is_nan() => Some(f64::NAN),
            Says::Correlation => {
                let is_known = both_vary && !all.mean_x.is_nan() && !all.mean_y.is_nan();
                let (x, y) = (
                    (all.squares_x / count).sqrt(),
                    (all.squares_y / count).sqrt(),
                );
                is_known.then(|| all.products / count / x / y)
            }
            Says::Covariance { of_sample } => {
                let pairs = all.count.saturating_sub(of_sample.into());
                (pairs > 0).then(|| all.products / pairs as f64)
            }
            Says::MeanX => (all.count > 0).then_some(all.mean_x),
            Says::MeanY => (all.count > 0).then_some(all.mean_y),
            Says::Intercept => is_line.then_some(all.mean_y - slope * all.mean_x),
            Says::Determination => {
                let varies = all.squares_x * all.squares_y;
                both_vary.then(|| all.products * all.products / varies)
            }
            Says::Slope => is_line.then_some(slope),
            Says::SquaresX => (all.count > 0).then_some(all.squares_x),
            Says::Products => (all.count > 0).then_some(all.products),
            Says::SquaresY => (all.count > 0).then_some(all.squares_y),
        }
    }
}
