//! Tables that were changed after a view was made.

use std::sync::Arc;

use arrow::datatypes::DataType;
use lazybase_model::{Column, ColumnId, Table, TableId, UsedColumn, UsedTable, ViewId};

use super::{as_used, first_columns, is_unlisted, listed};

fn table(names: &[(u32, &str)]) -> Arc<Table> {
    let columns = names
        .iter()
        .map(|(_, name)| Column::new(*name, DataType::Int64));
    let mut table = Table::new(TableId(1), ViewId(1), "t", columns.collect(), &[0]);
    for (column, (id, _)) in table.columns.iter_mut().zip(names) {
        column.id = ColumnId(*id);
    }
    table.primary.key = vec![ColumnId(names[0].0)];
    Arc::new(table)
}

fn used(names: &[(u32, &str)]) -> UsedTable {
    UsedTable {
        name: "t".to_owned(),
        table: TableId(1),
        columns: (names.iter())
            .map(|(id, name)| UsedColumn {
                id: ColumnId(*id),
                name: (*name).to_owned(),
                read: false,
            })
            .collect(),
    }
}

fn names(table: &Table) -> Vec<&str> {
    let columns = table.columns.iter().filter(|column| !is_unlisted(column));
    columns.map(|column| column.name.as_str()).collect()
}

#[test]
fn a_table_that_is_as_it_was_stays_the_same_value() {
    let now = table(&[(0, "k"), (1, "v")]);
    let seen = as_used(Arc::clone(&now), &used(&[(0, "k"), (1, "v")]));
    assert!(Arc::ptr_eq(&now, &seen));
    assert!(Arc::ptr_eq(&now, &listed(seen)));
}

#[test]
fn columns_have_the_names_that_they_had_and_new_ones_have_none() {
    // One was dropped, two have each other's name, and one came.
    let then = used(&[(0, "k"), (1, "a"), (2, "b"), (3, "gone")]);
    let now = table(&[(0, "k"), (1, "b"), (2, "a"), (4, "new")]);
    let seen = as_used(now, &then);
    assert_eq!(names(&seen), ["k", "a", "b"]);
    assert_eq!(seen.columns.len(), 4, "places are as they are stored");
    let listed = listed(seen);
    assert_eq!((names(&listed).len(), listed.columns.len()), (3, 3));
}

#[test]
fn a_view_that_has_more_columns_now_shows_those_that_it_had() {
    let view = table(&[(0, "a"), (1, "b"), (2, "c")]);
    assert_eq!(
        names(&first_columns(Arc::clone(&view), None)),
        ["a", "b", "c"]
    );
    assert_eq!(
        names(&first_columns(Arc::clone(&view), Some(3))),
        ["a", "b", "c"]
    );
    assert_eq!(names(&first_columns(view, Some(2))), ["a", "b"]);
}
