//! The table of marks: an ordinary table, so that a mark is written in the batch that it speaks
//! of, and can be looked at and backed up like everything else.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use lazybase_model::{Error, Result};
use lazybase_query::Database;

use super::mark::Mark;
use super::target::create_table;
use crate::failure;

/// Its name.
pub(super) const MARKS_TABLE: &str = "lazybase_load_marks";
const KEY: [&str; 3] = ["producer", "loaded_table", "source"];

/// Makes the table of marks if this is the database's first load with a producer.
pub(super) async fn prepare(database: &Database, producer: &str) -> Result<()> {
    if producer.trim().is_empty() {
        return Err(Error::invalid("the producer's name is empty"));
    }
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let number = |name: &str| Field::new(name, DataType::Int64, false);
    let schema = Schema::new(vec![
        text("producer"),
        text("loaded_table"),
        text("source"),
        number("rows"),
        number("bytes"),
        text("hash"),
        text("footer"),
    ]);
    let key: Vec<String> = KEY.iter().map(|&name| name.to_owned()).collect();
    create_table(database, MARKS_TABLE, &schema, &key).await
}

/// Whose mark it is.
#[derive(Debug, Clone)]
pub(super) struct MarkKey {
    pub(super) producer: String,
    pub(super) table: String,
    /// The file's absolute path, so that files of one name in two folders are two sources.
    pub(super) source: String,
}

impl MarkKey {
    /// The key of a file.
    pub(super) fn new(producer: &str, table: &str, path: &Path) -> Result<MarkKey> {
        let path = path
            .canonicalize()
            .map_err(|error| failure::io(path.display(), &error))?;
        Ok(MarkKey {
            producer: producer.to_owned(),
            table: table.to_owned(),
            source: path.to_string_lossy().into_owned(),
        })
    }

    /// Reads the mark, whatever stage it is in.
    pub(super) async fn read(&self, database: &Database) -> Result<Option<Mark>> {
        let sql = format!(
            "SELECT rows, bytes, hash, footer FROM {MARKS_TABLE} WHERE producer = {} \
             AND loaded_table = {} AND source = {} FRESHNESS 0",
            literal(&self.producer),
            literal(&self.table),
            literal(&self.source),
        );
        let answers = database.session().execute(&sql).await?;
        let batches = answers.iter().flat_map(|answer| &answer.batches);
        let batch = batches.into_iter().find(|batch| batch.num_rows() > 0);
        batch.map(mark_of).transpose()
    }

    /// The row that sets the mark.
    pub(super) fn row(&self, mark: &Mark) -> Result<RecordBatch> {
        let text = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
        let number = |value: u64| -> ArrayRef { Arc::new(Int64Array::from(vec![value as i64])) };
        let row = RecordBatch::try_from_iter([
            ("producer", text(&self.producer)),
            ("loaded_table", text(&self.table)),
            ("source", text(&self.source)),
            ("rows", number(mark.rows)),
            ("bytes", number(mark.bytes)),
            ("hash", text(&mark.hash)),
            ("footer", text(&mark.footer)),
        ]);
        row.map_err(|error| failure::arrow("mark", &error))
    }
}

fn mark_of(batch: &RecordBatch) -> Result<Mark> {
    let wrong = || Error::invalid(format!("table {MARKS_TABLE} is not one of marks"));
    let number = |at: usize| -> Result<u64> {
        let column = batch.column(at).as_primitive_opt::<Int64Type>();
        let column = column
            .filter(|column| !column.is_null(0))
            .ok_or_else(wrong)?;
        u64::try_from(column.value(0)).map_err(|_| wrong())
    };
    let text = |at: usize| -> Result<String> {
        let texts = crate::render::cell_texts(batch.column(at))?;
        texts.into_iter().next().flatten().ok_or_else(wrong)
    };
    Ok(Mark {
        rows: number(0)?,
        bytes: number(1)?,
        hash: text(2)?,
        footer: text(3)?,
    })
}

/// A text as an SQL literal.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::{Mark, MarkKey, literal, mark_of};

    #[test]
    fn a_mark_reads_back() {
        let key = MarkKey {
            producer: "p".to_owned(),
            table: "t".to_owned(),
            source: "/a".to_owned(),
        };
        let mark = Mark {
            rows: 3,
            bytes: 70,
            hash: "h".to_owned(),
            footer: String::new(),
        };
        let row = key.row(&mark).unwrap().project(&[3, 4, 5, 6]).unwrap();
        assert_eq!(mark_of(&row).unwrap(), mark);
        assert_eq!(literal("it's"), "'it''s'");
    }
}
