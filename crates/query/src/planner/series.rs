//! `generate_series` with PostgreSQL's types, and `range`, which leaves its stop out. The planner's
//! own keep dates dates, read texts as dates alone, count moments in nanoseconds, which reach from
//! the year 1677 to 2262, do not take every whole number beside every other, and make lists of any
//! length.
//!
//! ```text
//!   generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1 day')   of TIMESTAMPs
//!   generate_series(at, '2024-01-02', '12 hours')                             texts are read
//!   generate_series(n, NULL)                                                  no numbers
//!   generate_series(1, 3, 0)                                                  22023
//!   cardinality(generate_series(1, 2000000))                                  54000
//!   unnest(generate_series(1, 2000000))               rows without a list, which `rows` makes
//! ```
//!
//! Functions in the place of the planner's own; pure. Invariant SER-2: what one call makes for one
//! batch of rows takes at most [`MADE_BYTES_MAX`], and no list but one of places more than
//! [`LIST_VALUES_MAX`] values. A list of constants is made while the statement is planned, when
//! nothing can end it; places are counted beside lists that are there already.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, ListArray, NullBufferBuilder};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use lazybase_model::Error;

use crate::error::into_datafusion;
use crate::planner::bounded::MADE_BYTES_MAX;
use crate::planner::intervals::computed;

mod rows;
mod values;

pub(crate) use rows::{KEPT_SERIES, SERIES_ROWS, SeriesExec};
use values::Arguments;

/// The name of the function.
pub(crate) const SERIES: &str = "generate_series";

/// The function that gives the places of the values of a series, from 1 on, and takes the same.
pub(crate) const PLACES: &str = "series_places";

/// The most values of a list, but for places.
const LIST_VALUES_MAX: usize = 1_000_000;

/// The most values of all lists of a batch of rows.
const VALUES_MAX: usize = (MADE_BYTES_MAX / 8) as usize;

/// Puts the functions in the place of the planner's.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for gives in [Gives::Series, Gives::Range, Gives::Places] {
        let signature = Signature::user_defined(Volatility::Immutable);
        state.register_udf(Arc::new(ScalarUDF::from(Series { gives, signature })))?;
    }
    Ok(())
}

/// A function of them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Series {
    gives: Gives,
    signature: Signature,
}

/// What a function gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Gives {
    /// Values up to the stop.
    Series,
    /// Values before the stop.
    Range,
    /// The places of the values up to the stop.
    Places,
}

impl Gives {
    fn name(self) -> &'static str {
        match self {
            Gives::Series => SERIES,
            Gives::Range => "range",
            Gives::Places => PLACES,
        }
    }

    /// What the values are, by the type of start and stop.
    fn values(self, ends: &DataType) -> DataType {
        match self {
            Gives::Series | Gives::Range => ends.clone(),
            Gives::Places => DataType::Int64,
        }
    }

    /// What moments of these types become.
    fn moment(self, ends: &[DataType]) -> DataType {
        let timestamp = |of: &DataType| matches!(of, DataType::Timestamp(..));
        if self == Gives::Range && !ends.iter().any(timestamp) {
            return DataType::Date32;
        }
        let zone = ends.iter().find_map(|of| match of {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        });
        let fine = |of: &DataType| matches!(of, DataType::Timestamp(TimeUnit::Nanosecond, _));
        let unit = match ends.iter().any(fine) {
            true => TimeUnit::Nanosecond,
            false => TimeUnit::Microsecond,
        };
        DataType::Timestamp(unit, zone)
    }

    /// The most values of a list.
    fn list_max(self) -> usize {
        match self {
            Gives::Series | Gives::Range => LIST_VALUES_MAX,
            Gives::Places => VALUES_MAX,
        }
    }

    /// Whether a list may have so many values, and all of a batch.
    fn check(self, list: usize, all: usize) -> Result<()> {
        let (name, list_max) = (self.name(), self.list_max());
        let said = match (list > list_max, all > VALUES_MAX) {
            (true, _) => format!("{name} would make a list of more than {list_max} values"),
            (_, true) => format!("{name} would make lists of more than {VALUES_MAX} values"),
            _ => return Ok(()),
        };
        let error = Error::invalid(said)
            .with_hint(format!(
                "unnest({name}(...)), and {SERIES}(...) in FROM, give as many rows as there are \
                 and make no list"
            ))
            .with_sqlstate("54000");
        Err(into_datafusion(error))
    }
}

/// What an argument may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    Moment,
    Interval,
    /// A text or NULL: as what it stands beside.
    Unknown,
    Other,
}

impl Kind {
    fn of(data_type: &DataType) -> Kind {
        match data_type {
            DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Kind::Unknown
            }
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Kind::Moment,
            DataType::Interval(_) | DataType::Duration(_) => Kind::Interval,
            other if other.is_integer() => Kind::Whole,
            _ => Kind::Other,
        }
    }
}

impl Series {
    /// The same, which the planner does not compute.
    fn kept(&self) -> Series {
        Series {
            gives: self.gives,
            signature: Signature::user_defined(Volatility::Volatile),
        }
    }

    /// A list a row.
    fn lists(&self, arrays: &[ArrayRef], of: &DataType) -> Result<ArrayRef> {
        let arguments = Arguments::of(self.gives, arrays)?;
        let rows = arrays.first().map_or(0, |array| array.len());
        let (mut values, mut ends) = (Vec::new(), vec![0_i32]);
        let mut valid = NullBufferBuilder::new(rows);
        for row in 0..rows {
            let series = arguments.row(row)?;
            valid.append(series.is_some());
            if let Some(series) = series {
                let (before, least) = (values.len(), series.size_hint().0);
                self.gives.check(least, before.saturating_add(least))?;
                values.extend(series.take(self.gives.list_max() + 1));
                self.gives.check(values.len() - before, values.len())?;
            }
            ends.push(values.len() as i32);
        }
        let values = cast(&Int64Array::from(values), of)?;
        let item = Arc::new(Field::new_list_field(of.clone(), true));
        let ends = OffsetBuffer::new(ends.into());
        let lists = ListArray::try_new(item, ends, values, valid.finish())?;
        Ok(Arc::new(lists))
    }
}

impl ScalarUDFImpl for Series {
    fn name(&self) -> &str {
        self.gives.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments.first() {
            Some(of) => Ok(DataType::new_list(self.gives.values(of), true)),
            None => plan_err!("{} takes arguments", self.name()),
        }
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let kinds: Vec<Kind> = arguments.iter().map(Kind::of).collect();
        let whole = |kind: &Kind| matches!(kind, Kind::Whole | Kind::Unknown);
        let moments = match kinds.as_slice() {
            [start, stop, step] => {
                let ends = [*start, *stop];
                let known = ends.contains(&Kind::Moment) || *step == Kind::Interval;
                let moment = |kind: &Kind| matches!(kind, Kind::Moment | Kind::Unknown);
                let steps = matches!(step, Kind::Interval | Kind::Unknown);
                known && steps && ends.iter().all(moment)
            }
            _ => false,
        };
        if moments {
            let moment = self.gives.moment(&arguments[..2]);
            let step = DataType::Interval(IntervalUnit::MonthDayNano);
            return Ok(vec![moment.clone(), moment, step]);
        }
        let some = kinds.contains(&Kind::Whole) || arguments.contains(&DataType::Null);
        if (1..=3).contains(&kinds.len()) && some && kinds.iter().all(whole) {
            return Ok(vec![DataType::Int64; kinds.len()]);
        }
        let given: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        plan_err!(
            "Function '{}' failed to match any signature, but received {} (DataType: )",
            self.name(),
            given.join(", ")
        )
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        computed(&args, |arrays| match arrays.first() {
            Some(first) => self.lists(arrays, &self.gives.values(first.data_type())),
            None => plan_err!("{} takes arguments", self.name()),
        })
    }
}
