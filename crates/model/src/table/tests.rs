//! Tests of `table`.

use arrow_schema::DataType;

use super::{Column, ColumnId, Table, TableId, ViewId};

#[test]
fn a_new_table_numbers_its_columns_and_keeps_null_out_of_its_key() {
    let columns = ["a", "b", "c"].map(|name| Column::new(name, DataType::Int64));
    let table = Table::new(TableId(4), ViewId(5), "t", columns.to_vec(), &[2, 0]);
    let ids: Vec<ColumnId> = table.columns.iter().map(|column| column.id).collect();
    assert_eq!(ids, [ColumnId(0), ColumnId(1), ColumnId(2)]);
    assert_eq!(table.key_indices(), [2, 0]);
    let nullable: Vec<bool> = table.columns.iter().map(|column| column.nullable).collect();
    assert_eq!(nullable, [false, true, false]);
}
