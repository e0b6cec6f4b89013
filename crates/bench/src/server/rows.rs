//! The rows that are sent: those of the other benchmarks, as Arrow batches and as COPY's text.

use std::fmt::Write as _;
use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::Bytes;

use crate::Outcome;
use crate::data::{Pool, Shape};
use crate::limits;

/// Rows of a batch: about four million bytes.
pub(super) const BATCH_ROWS: usize = 3_500;
/// Batches that differ in more than their keys.
const BATCHES: usize = 8;

/// Wide rows whose ids are 0, 1, 2, ...
pub(super) struct Rows {
    pub(super) pool: Pool,
    /// How many of them a table has.
    pub(super) count: u64,
}

impl Rows {
    /// So many rows.
    ///
    /// # Errors
    /// When they don't compress as those of the other benchmarks do.
    pub(super) fn new(count: u64) -> Outcome<Rows> {
        let batches = BATCHES.min(count.div_ceil(BATCH_ROWS as u64) as usize);
        let pool = Pool::new(Shape::Wide, 42, batches.max(1), BATCH_ROWS);
        limits::lz4_ratio(&pool)?;
        Ok(Rows { pool, count })
    }

    /// Rows with ids from `first` on.
    pub(super) fn batches(&self, first: i64, count: u64) -> Vec<RecordBatch> {
        let ids: Vec<i64> = (first..first + count as i64).collect();
        self.with_ids(0, &ids)
    }

    /// Rows with these ids; their values are of the pool's batches from number `at` on.
    pub(super) fn with_ids(&self, at: usize, ids: &[i64]) -> Vec<RecordBatch> {
        let pieces = (at..).zip(ids.chunks(BATCH_ROWS));
        pieces
            .map(|(at, ids)| self.pool.batch(at, ids.to_vec()))
            .collect()
    }

    /// Rows with these ids, as the text of COPY.
    pub(super) fn text(&self, ids: Range<u64>) -> Outcome<Bytes> {
        let mut endings: [Vec<String>; BATCHES] = Default::default();
        let mut text = String::new();
        for first in ids.clone().step_by(BATCH_ROWS) {
            let at = first as usize / BATCH_ROWS % BATCHES;
            if endings[at].is_empty() {
                let batch = self.pool.batch(at, (0..BATCH_ROWS as i64).collect());
                endings[at] = all_but_ids(&batch)?;
            }
            let ids = first..ids.end.min(first + BATCH_ROWS as u64);
            for (id, ending) in ids.zip(&endings[at]) {
                let _ = writeln!(text, "{id}{ending}");
            }
        }
        Ok(Bytes::from(text))
    }

    /// The statement that makes a table of them, which both servers know.
    pub(super) fn create_table(name: &str) -> String {
        use arrow::datatypes::DataType;
        let schema = crate::data::schema(Shape::Wide);
        let columns = schema.fields().iter().map(|field| {
            let of_type = match field.data_type() {
                DataType::Int64 => "BIGINT",
                DataType::Float64 => "DOUBLE PRECISION",
                DataType::Boolean => "BOOLEAN",
                DataType::Timestamp(..) => "TIMESTAMP",
                _ => "TEXT",
            };
            format!("{} {of_type}", field.name())
        });
        let columns: Vec<String> = columns.collect();
        format!(
            "CREATE TABLE {name} ({}, PRIMARY KEY (id))",
            columns.join(", ")
        )
    }
}

/// What follows the id in each line. Nothing in these rows needs a backslash.
fn all_but_ids(batch: &RecordBatch) -> Outcome<Vec<String>> {
    let options = FormatOptions::default();
    let columns: Result<Vec<_>, _> = batch.columns()[1..]
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
        .collect();
    let columns = columns?;
    let line = |row: usize| {
        let mut line = String::new();
        for column in &columns {
            write!(line, "\t{}", column.value(row))?;
        }
        Ok(line)
    };
    (0..batch.num_rows()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_a_line_a_row_and_a_value_a_column() {
        let rows = Rows::new(BATCH_ROWS as u64 + 2).expect("they compress as they should");
        let text = rows.text(0..rows.count).expect("rows have a text");
        let text = std::str::from_utf8(&text).expect("it is text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), BATCH_ROWS + 2);
        for (id, line) in lines.iter().enumerate() {
            assert_eq!(line.split('\t').count(), 26);
            assert!(line.starts_with(&format!("{id}\t")));
        }
        let count = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum();
        let batches = rows.batches(0, rows.count);
        let counted: usize = count(&batches);
        assert_eq!(counted as u64, rows.count);
    }

    #[test]
    fn the_text_of_later_rows_has_their_ids() {
        let rows = Rows::new(2).expect("they compress as they should");
        let text = rows.text(10_001..10_004).expect("rows have a text");
        let text = std::str::from_utf8(&text).expect("it is text");
        let ids = text.lines().map(|line| line.split('\t').next());
        let ids: Vec<_> = ids.collect();
        assert_eq!(ids, [Some("10001"), Some("10002"), Some("10003")]);
    }
}
