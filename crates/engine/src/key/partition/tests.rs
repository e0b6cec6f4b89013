//! Prefixes of keys: their bytes, and what they say of the order.

use arrow::array::{Int64Array, StringArray};
use lazybase_model::partition::{BoundBytes, HashRule, Partitioning, RangeBound};
use lazybase_model::{Column, TableId, ViewId};

use super::*;
use crate::key::KeyCodec;

fn table(bounds: &[(i64, i64)]) -> Table {
    let columns = vec![
        Column::new("name", DataType::Utf8),
        Column::new("at", DataType::Int64),
    ];
    let mut table = Table::new(TableId(1), ViewId(1), "t", columns, &[0, 1]);
    let rules = |bounds| Partitioning {
        hash: vec![HashRule {
            columns: vec![ColumnId(0)],
            buckets: 4,
        }],
        range: Some(RangeRule::new(vec![ColumnId(1)], bounds).unwrap()),
    };
    table.partitioning = Some(rules(Vec::new()));
    let partitioner = Partitioner::of(&table).unwrap().unwrap();
    let bound = |value: i64| {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        let value = partitioner.encode_range(&[values]).unwrap().remove(0);
        Some(RangeBound {
            value: BoundBytes(value),
            after: false,
        })
    };
    let bounds = bounds.iter().map(|(low, high)| RangeBounds {
        low: bound(*low),
        high: bound(*high),
    });
    table.partitioning = Some(rules(bounds.collect()));
    table
}

fn key(names: &[&str], values: &[i64]) -> Vec<ArrayRef> {
    vec![
        Arc::new(StringArray::from(names.to_vec())),
        Arc::new(Int64Array::from(values.to_vec())),
    ]
}

#[test]
fn persisted_bytes_never_change() {
    let table = table(&[(0, 10), (10, 20)]);
    let codec = KeyCodec::primary(&table).unwrap();
    let keys = codec
        .encode_columns(&key(&["a", "b", "c", "d", "a"], &[0, 10, 5, 19, 20]))
        .unwrap();
    let hex = |row: usize| format!("{:?}", Key::new(keys.row(row).as_ref()));
    let rest = |name: &str, at: &str| format!("02{name}000000000000000101{at}");
    let found: Vec<String> = (0..5).map(hex).collect();
    let expected = [
        format!("01{}{}", "000100000001", rest("61", "8000000000000000")),
        format!("01{}{}", "000000000002", rest("62", "800000000000000a")),
        format!("01{}{}", "000200000001", rest("63", "8000000000000005")),
        format!("01{}{}", "000300000002", rest("64", "8000000000000013")),
        format!("01{}{}", "0001ffffffff", rest("61", "8000000000000014")),
    ];
    assert_eq!(found, expected);
    let first = Key::new(keys.row(0).as_ref());
    let decoded = codec.decode([&first]).unwrap();
    assert_eq!(decoded[1].as_ref(), &Int64Array::from(vec![0]));
    assert!(
        codec
            .partitioner()
            .unwrap()
            .is_nowhere(keys.row(4).as_ref())
    );
    assert!(
        !codec
            .partitioner()
            .unwrap()
            .is_nowhere(keys.row(3).as_ref())
    );
}

#[test]
fn rows_outside_of_all_partitions_are_found() {
    let table = table(&[(0, 10), (20, 30)]);
    let partitioner = Partitioner::of(&table).unwrap().unwrap();
    let first = |values: &[i64]| {
        let names = vec!["x"; values.len()];
        partitioner.first_outside(&key(&names, values)).unwrap()
    };
    assert_eq!(first(&[0, 9, 20, 29]), None);
    assert_eq!(first(&[0, 9, 10]), Some(2));
    assert_eq!(first(&[30]), Some(0));
}

#[test]
fn a_range_inside_a_prefix_lies_in_one_partition() {
    let table = table(&[(0, 10), (20, 30)]);
    let partitioner = Partitioner::of(&table).unwrap().unwrap();
    let partitions = partitioner.partitions();
    assert_eq!(partitions.len(), 8);
    assert!(partitions.is_sorted());
    for id in &partitions {
        assert!(partitioner.holds_all_of(&id.key_range()));
    }
    let two = KeyRange {
        low: Some(Key::new(partitions[0].prefix())),
        high: Some(Key::new([partitions[1].prefix(), vec![1]].concat())),
    };
    assert!(!partitioner.holds_all_of(&two));
    assert!(!partitioner.holds_all_of(&KeyRange::default()));
}
