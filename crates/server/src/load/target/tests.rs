//! Tests of `load::target`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use lazybase_model::{Column, Table, TableId, ViewId};

use super::{Target, reading_schema};

fn table() -> Table {
    let columns = vec![
        Column::new("id", DataType::Int32),
        Column {
            nullable: false,
            ..Column::new("name", DataType::Utf8)
        },
        Column::new("extra", DataType::Float64),
    ];
    Table::new(TableId(1), ViewId(1), "t", columns, &[0])
}

fn rows(columns: &[&str]) -> RecordBatch {
    let column = |name: &&str| -> (String, ArrayRef) {
        let values: ArrayRef = match name.to_lowercase().as_str() {
            "id" => Arc::new(Int64Array::from(vec![1, 2])),
            _ => Arc::new(StringArray::from(vec!["U", "D"])),
        };
        ((*name).to_owned(), values)
    };
    RecordBatch::try_from_iter(columns.iter().map(column)).unwrap()
}

#[test]
fn a_files_rows_take_the_tables_names() {
    let rows = rows(&["op", "NAME", "Id"]);
    let target = Target::new(&table(), &rows.schema(), Some("op")).unwrap();
    let converted = target.rows(&rows).unwrap();
    let schema = converted.schema();
    assert_eq!(
        (
            schema.field(0).name().as_str(),
            schema.field(1).name().as_str()
        ),
        ("name", "id")
    );
    assert_eq!((target.op, target.key.clone()), (Some(0), vec![1]));
}

#[test]
fn what_does_not_match_is_named() {
    for (columns, op, said) in [
        (vec!["id", "name", "other"], None, "\"other\""),
        (vec!["name"], None, "key column \"id\""),
        (vec!["id"], None, "NOT NULL column \"name\""),
        (
            vec!["id", "name", "extra"],
            None,
            "double in table \"t\" and text",
        ),
        (vec!["id", "name"], Some("op"), "--op-column"),
        (
            vec!["id", "name", "NAME"],
            None,
            "more than one column for \"name\" of table \"t\": the second is \"NAME\"",
        ),
    ] {
        let schema = rows(&columns).schema();
        let error = Target::new(&table(), &schema, op).err().unwrap();
        assert!(error.message().contains(said), "{columns:?}: {error}");
    }
}

#[test]
fn text_is_read_as_the_tables_types() {
    let schema = rows(&["op", "ID", "name"]).schema();
    let read = reading_schema(&schema, &table(), Some("op"));
    let types: Vec<&DataType> = read
        .fields()
        .iter()
        .map(|field| field.data_type())
        .collect();
    assert_eq!(types, [&DataType::Utf8, &DataType::Int32, &DataType::Utf8]);
}
