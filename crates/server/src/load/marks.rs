//! The table of marks: an ordinary table, so that a mark is written in the batch that it speaks
//! of, and can be looked at and backed up like everything else.
//!
//! A mark names its table by the id: a renamed table keeps its marks, and one that is made anew
//! under the name of another begins anew. Marks that name their table by its name are read too,
//! where they are younger than the table.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use lazybase_model::{Error, Result, ScuNumber, Table, TableId};
use lazybase_query::Database;

use super::target::{create_table, find_table};
use crate::failure;
use crate::render::sql_type;
use crate::source::Mark;

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
    create_table(database, MARKS_TABLE, &schema, &key).await?;
    match find_table(database, MARKS_TABLE)? {
        Some(table) => check(&table, &schema),
        None => Err(Error::internal("the table of marks is gone")),
    }
}

/// Refuses a table that was there under the name and can't take marks.
fn check(table: &Table, schema: &Schema) -> Result<()> {
    let has = |field: &Arc<Field>| {
        let at = table.column_index(field.name());
        at.is_some_and(|at| table.columns[at].data_type == *field.data_type())
    };
    let indices = table.key_indices();
    let key = indices.iter().map(|&at| table.columns[at].name.as_str());
    let has_key = key.eq(KEY);
    let detail = match schema.fields().iter().find(|field| !has(field)) {
        Some(field) => format!(
            "it has no column {:?} of type {}",
            field.name(),
            sql_type(field.data_type())
        ),
        None if !has_key => format!("its key is not {}", KEY.join(", ")),
        None => return Ok(()),
    };
    Err(
        Error::invalid(format!("table {MARKS_TABLE} is not the table of marks"))
            .with_detail(detail)
            .with_hint(format!(
                "rename it, with ALTER TABLE {MARKS_TABLE} RENAME TO another_name: load \
                 --producer makes its own"
            )),
    )
}

/// Whose mark it is.
#[derive(Debug, Clone)]
pub(super) struct MarkKey {
    producer: String,
    table: TableId,
    name: String,
    /// The table holds nothing of this SCU and those before: older marks speak of another one.
    created_after: ScuNumber,
    /// The file's absolute path, so that files of one name in two folders are two sources.
    source: String,
}

impl MarkKey {
    /// The key of a file that is loaded into a table.
    pub(super) fn new(
        database: &Database,
        producer: &str,
        table: &str,
        path: &Path,
    ) -> Result<MarkKey> {
        let path = path
            .canonicalize()
            .map_err(|error| failure::io(path.display(), &error))?;
        let manifest = database.instance().manifest();
        let state = manifest
            .table_named(table)
            .ok_or_else(|| Error::not_found(format!("there is no table {table:?}")))?;
        Ok(MarkKey {
            producer: producer.to_owned(),
            table: state.table.id,
            name: table.to_owned(),
            created_after: state.created_after,
            source: path.to_string_lossy().into_owned(),
        })
    }

    /// The table as marks name it.
    fn loaded_table(&self) -> String {
        format!("#{}", self.table.0)
    }

    /// Reads the mark, whatever stage it is in.
    pub(super) async fn read(&self, database: &Database) -> Result<Option<Mark>> {
        let sql = format!(
            "SELECT rows, bytes, hash, footer, loaded_table, _scu FROM {MARKS_TABLE} \
             WHERE producer = {} AND loaded_table IN ({}, {}) AND source = {} FRESHNESS 0",
            literal(&self.producer),
            literal(&self.loaded_table()),
            literal(&self.name),
            literal(&self.source),
        );
        let answers = database.session().execute(&sql).await?;
        let mut found = Vec::new();
        for batch in answers.iter().flat_map(|answer| &answer.batches) {
            for row in 0..batch.num_rows() {
                found.push(FoundMark::of(batch, row)?);
            }
        }
        Ok(self.chosen(found))
    }

    /// The mark of this very table: by its id, or by its name where it is not one of an earlier
    /// table of that name.
    fn chosen(&self, found: Vec<FoundMark>) -> Option<Mark> {
        let id = self.loaded_table();
        let (by_id, by_name): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|mark| mark.table == id);
        let by_name = by_name
            .into_iter()
            .filter(|mark| mark.scu > self.created_after);
        by_id
            .into_iter()
            .chain(by_name)
            .map(|found| found.mark)
            .next()
    }

    /// The row that sets the mark.
    pub(super) fn row(&self, mark: &Mark) -> Result<RecordBatch> {
        let text = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
        let number = |value: u64| -> ArrayRef { Arc::new(Int64Array::from(vec![value as i64])) };
        let row = RecordBatch::try_from_iter([
            ("producer", text(&self.producer)),
            ("loaded_table", text(&self.loaded_table())),
            ("source", text(&self.source)),
            ("rows", number(mark.rows)),
            ("bytes", number(mark.bytes)),
            ("hash", text(&mark.hash)),
            ("footer", text(&mark.footer)),
        ]);
        row.map_err(|error| failure::arrow("mark", &error))
    }
}

/// A mark as it stands in the table.
struct FoundMark {
    mark: Mark,
    /// The table as it names it.
    table: String,
    /// When it was written.
    scu: ScuNumber,
}

impl FoundMark {
    fn of(batch: &RecordBatch, row: usize) -> Result<FoundMark> {
        let wrong = || Error::invalid(format!("table {MARKS_TABLE} is not one of marks"));
        let number = |at: usize| -> Result<u64> {
            let column = batch.column(at).as_primitive_opt::<Int64Type>();
            let column = column
                .filter(|column| !column.is_null(row))
                .ok_or_else(wrong)?;
            u64::try_from(column.value(row)).map_err(|_| wrong())
        };
        let text = |at: usize| -> Result<String> {
            let texts = crate::render::cell_texts(batch.column(at))?;
            texts.into_iter().nth(row).flatten().ok_or_else(wrong)
        };
        Ok(FoundMark {
            mark: Mark {
                rows: number(0)?,
                bytes: number(1)?,
                hash: text(2)?,
                footer: text(3)?,
            },
            table: text(4)?,
            scu: ScuNumber(number(5)?),
        })
    }
}

/// A text as an SQL literal.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use lazybase_model::{ScuNumber, TableId};

    use super::{FoundMark, Mark, MarkKey, literal};

    fn key() -> MarkKey {
        MarkKey {
            producer: "p".to_owned(),
            table: TableId(7),
            name: "t".to_owned(),
            created_after: ScuNumber(4),
            source: "/a".to_owned(),
        }
    }

    fn mark(rows: u64) -> Mark {
        Mark {
            rows,
            bytes: 70,
            hash: "h".to_owned(),
            footer: String::new(),
        }
    }

    #[test]
    fn a_mark_reads_back() {
        let row = key().row(&mark(3)).unwrap();
        let scu: ArrayRef = Arc::new(Int64Array::from(vec![5]));
        let columns = [3, 4, 5, 6, 1].map(|at: usize| Arc::clone(row.column(at)));
        let names = ["rows", "bytes", "hash", "footer", "loaded_table", "_scu"];
        let columns = columns.into_iter().chain([scu]);
        let read = RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap();
        let found = FoundMark::of(&read, 0).unwrap();
        assert_eq!(found.mark, mark(3));
        assert_eq!((found.table.as_str(), found.scu), ("#7", ScuNumber(5)));
        assert_eq!(literal("it's"), "'it''s'");
    }

    #[test]
    fn a_mark_is_the_tables_own() {
        let found = |table: &str, scu: u64, rows: u64| FoundMark {
            mark: mark(rows),
            table: table.to_owned(),
            scu: ScuNumber(scu),
        };
        let chosen = |found: Vec<FoundMark>| key().chosen(found).map(|mark| mark.rows);
        assert_eq!(chosen(Vec::new()), None);
        assert_eq!(
            chosen(vec![found("t", 4, 1)]),
            None,
            "of a table that is gone"
        );
        assert_eq!(chosen(vec![found("t", 5, 1)]), Some(1));
        assert_eq!(chosen(vec![found("t", 9, 1), found("#7", 5, 2)]), Some(2));
    }
}
