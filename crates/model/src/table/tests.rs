//! Tests of `table`.

use arrow_schema::DataType;

use super::{Column, ColumnId, MergeOperator, Table, TableId, ViewId, check_operators};

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

fn combined(data_type: DataType, operator: MergeOperator) -> Column {
    Column {
        merge: Some(operator),
        ..Column::new("v", data_type)
    }
}

#[test]
fn sums_are_stored_in_128_bits_and_all_else_as_declared() {
    let stored = |data_type, operator| combined(data_type, operator).stored_type();
    let sum = MergeOperator::Sum;
    assert_eq!(stored(DataType::Int8, sum), DataType::Decimal128(38, 0));
    assert_eq!(
        stored(DataType::Decimal128(10, 3), sum),
        DataType::Decimal128(38, 3)
    );
    assert_eq!(stored(DataType::Int8, MergeOperator::Max), DataType::Int8);
    assert_eq!(
        Column::new("v", DataType::Int8).stored_type(),
        DataType::Int8
    );
}

#[test]
fn operators_are_for_types_that_they_can_combine_and_columns_outside_the_key() {
    let key = ["k".to_owned()];
    let check = |column| check_operators(&[column], &key);
    assert!(check(combined(DataType::UInt64, MergeOperator::Sum)).is_ok());
    assert!(check(combined(DataType::Decimal128(24, 2), MergeOperator::Sum)).is_ok());
    for refused in [
        DataType::Float64,
        DataType::Utf8,
        DataType::Decimal128(25, 2),
        DataType::Decimal256(40, 2),
    ] {
        let error = check(combined(refused, MergeOperator::Sum)).unwrap_err();
        assert_eq!(error.sqlstate(), "42804");
    }
    let in_key = check_operators(
        &[combined(DataType::Int64, MergeOperator::Sum)],
        &["v".to_owned()],
    );
    assert_eq!(in_key.unwrap_err().sqlstate(), "42P16");
    let no_key = check_operators(&[combined(DataType::Int64, MergeOperator::Sum)], &[]);
    assert_eq!(no_key.unwrap_err().sqlstate(), "42P16");
}
