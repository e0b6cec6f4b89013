//! The first line of a COPY: rows, names that are skipped, or names that must be the columns'.
//!
//! Pure.

use arrow::datatypes::Schema;
use lazybase_model::{Error, Result};

/// What the first line of CSV or text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    /// A row.
    None,
    /// Names, which decide nothing.
    Names,
    /// The names of the columns, in their order.
    Matched,
}

/// Whether a first line has the names of the columns.
///
/// # Errors
/// `Invalid` (22P04) that says which name is another one.
pub(super) fn check_names(found: &[String], columns: &Schema) -> Result<()> {
    let expected = columns.fields();
    if found.len() != expected.len() {
        return Err(Error::invalid(format!(
            "the header has {} names for {} columns",
            found.len(),
            expected.len()
        ))
        .with_sqlstate("22P04"));
    }
    let mut pairs = found.iter().zip(expected).zip(1..);
    match pairs.find(|((name, field), _)| *name != field.name()) {
        Some(((name, field), at)) => Err(Error::invalid(format!(
            "name {at} of the header is {name:?}, but the column is {:?}",
            field.name()
        ))
        .with_hint("name the columns in the order of the data: COPY t (b, a) FROM ...")
        .with_sqlstate("22P04")),
        None => Ok(()),
    }
}
