//! Texts as dates and timestamps of all years: those before year 1 and after 9999 are read here,
//! and all others by the cast that is given.
//!
//! Reads and gives arrays; pure.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Int64Array, StringArray, make_array,
};
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;

use crate::moments::{far_date, far_timestamp, looks_far};

/// Texts as values of a DATE or TIMESTAMP type; `near` reads those of the years 1 to 9999.
///
/// # Errors
/// Those of `near`, which is given all texts that are no values of other years.
pub(crate) fn moments<E>(
    texts: &StringArray,
    wanted: &DataType,
    near: impl FnOnce(&ArrayRef) -> Result<ArrayRef, E>,
) -> Result<ArrayRef, E> {
    let all: ArrayRef = Arc::new(texts.clone());
    if !texts.iter().flatten().any(looks_far) {
        return near(&all);
    }
    let known = known(texts, wanted);
    let is_near = (0..known.len()).map(|row| Some(known.is_null(row)));
    let is_near: BooleanArray = is_near.collect();
    let nothing: ArrayRef = Arc::new(StringArray::new_null(texts.len()));
    let of_near = zip(&is_near, &all, &nothing).expect("both sides are texts, one a row");
    let read = near(&of_near)?;
    Ok(zip(&is_near, &read, &known).expect("both sides are of the type, one a row"))
}

/// The value of a text of another year than 1 to 9999; `None` for every other text.
pub(crate) fn constant(text: &str, wanted: &DataType) -> Option<ScalarValue> {
    if !looks_far(text) {
        return None;
    }
    let known = known(&StringArray::from(vec![text]), wanted);
    let is_known = known.is_valid(0);
    is_known.then(|| ScalarValue::try_from_array(&known, 0).ok())?
}

/// The values of texts of other years than 1 to 9999.
fn known(texts: &StringArray, wanted: &DataType) -> ArrayRef {
    match wanted {
        DataType::Timestamp(unit, zone) => {
            let read = |text: Option<&str>| {
                let micros = far_timestamp(text?, zone.is_some())?;
                in_unit(micros, *unit)
            };
            let values: Int64Array = texts.iter().map(read).collect();
            let data = values.into_data().into_builder().data_type(wanted.clone());
            make_array(data.build().expect("a timestamp is a number of 64 bits"))
        }
        _ => {
            let read = |text: Option<&str>| far_date(text?);
            Arc::new(texts.iter().map(read).collect::<Date32Array>())
        }
    }
}

fn in_unit(micros: i64, unit: TimeUnit) -> Option<i64> {
    match unit {
        TimeUnit::Second => Some(micros.div_euclid(1_000_000)),
        TimeUnit::Millisecond => Some(micros.div_euclid(1_000)),
        TimeUnit::Microsecond => Some(micros),
        TimeUnit::Nanosecond => micros.checked_mul(1_000),
    }
}
