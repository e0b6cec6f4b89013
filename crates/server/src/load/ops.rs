//! Splits rows by what an op column says: stretches of upserts and of deletes, in the file's
//! order, because a key may come in both; no I/O.

use std::ops::Range;

use arrow::array::{Array, ArrayRef};
use lazybase_model::{Error, Result};
use lazybase_query::Op;

use crate::render::cell_texts;

/// Stretches of one op each, covering all rows.
///
/// # Errors
/// `Invalid` for a value that is neither U nor D, naming the row.
pub(super) fn stretches(column: &ArrayRef, rows_before: u64) -> Result<Vec<(Op, Range<usize>)>> {
    let mut stretches: Vec<(Op, Range<usize>)> = Vec::new();
    for (row, text) in cell_texts(column)?.into_iter().enumerate() {
        let op = match text.as_deref() {
            Some("U" | "u") => Op::Upsert,
            Some("D" | "d") => Op::Delete,
            other => {
                let shown = other.map_or("NULL".to_owned(), |text| format!("{text:?}"));
                return Err(Error::invalid(format!(
                    "row {}: the op column says {shown}",
                    rows_before + row as u64 + 1
                ))
                .with_hint("write U for an upsert, D for a delete"));
            }
        };
        match stretches.last_mut() {
            Some((last, range)) if *last == op => range.end = row + 1,
            _ => stretches.push((op, row..row + 1)),
        }
    }
    debug_assert_eq!(
        stretches.last().map_or(0, |(_, range)| range.end),
        column.len(),
        "every row is in a stretch"
    );
    Ok(stretches)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray};
    use lazybase_query::Op;

    use super::stretches;

    #[test]
    fn order_is_kept_and_neighbours_stay_together() {
        let column: ArrayRef = Arc::new(StringArray::from(vec!["U", "u", "D", "U"]));
        let expected = [(Op::Upsert, 0..2), (Op::Delete, 2..3), (Op::Upsert, 3..4)];
        assert_eq!(stretches(&column, 0).unwrap(), expected);
        let column: ArrayRef = Arc::new(StringArray::from(vec![Some("U"), None]));
        let error = stretches(&column, 10).unwrap_err();
        assert!(error.message().starts_with("row 12:"), "{error}");
    }
}
