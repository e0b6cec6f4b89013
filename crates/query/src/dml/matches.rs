//! The rows that `UPDATE ... FROM` finds: each once, with the values of one of the rows of other
//! tables that it matches.
//!
//! The query gives them in the order of their keys, and those of one key in the order of their new
//! values, so that which match counts does not depend on how the query was run. Invariant MAT-1: of
//! each key one row of the query is taken, as a whole.

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{partition, take_record_batch};
use datafusion::sql::sqlparser::ast::{
    Expr, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Value,
};
use lazybase_model::Result;

use crate::error::from_arrow;

/// The order of all columns of a query, of which there are so many.
pub(super) fn order_of_all(columns: usize) -> OrderBy {
    let by = (1..=columns).map(|place| OrderByExpr {
        expr: Expr::Value(Value::Number(place.to_string(), false).into()),
        options: OrderByOptions {
            asc: None,
            nulls_first: None,
        },
        with_fill: None,
    });
    OrderBy {
        kind: OrderByKind::Expressions(by.collect()),
        interpolate: None,
    }
}

/// Takes the first row of each key from rows in the order of their keys.
pub(super) struct FirstOfKeys {
    /// How many columns the key has: they stand first.
    width: usize,
    /// The key of the last row that was seen.
    last: Option<Vec<ArrayRef>>,
}

impl FirstOfKeys {
    /// Of rows whose key is their first `width` columns.
    pub(super) fn new(width: usize) -> FirstOfKeys {
        FirstOfKeys { width, last: None }
    }

    /// The rows of the next batch whose key no row before them has.
    pub(super) fn take(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let keys = &batch.columns()[..self.width];
        let Some(end) = batch.num_rows().checked_sub(1) else {
            return Ok(batch);
        };
        let same = partition(keys).map_err(|error| from_arrow(&error))?;
        let seen = self.last.as_ref().is_some_and(|last| {
            let mut pairs = last.iter().zip(keys);
            pairs.all(|(last, key)| last.to_data() == key.slice(0, 1).to_data())
        });
        self.last = Some(keys.iter().map(|key| key.slice(end, 1)).collect());
        if same.len() == batch.num_rows() && !seen {
            return Ok(batch);
        }
        let ranges = same.ranges().into_iter().skip(usize::from(seen));
        let firsts = UInt32Array::from_iter_values(ranges.map(|range| range.start as u32));
        take_record_batch(&batch, &firsts).map_err(|error| from_arrow(&error))
    }
}
