//! Tests of `prune`.

use arrow::datatypes::DataType;
use datafusion::prelude::{col, lit};
use lazybase_model::{Column, TableId, ViewId};

use super::*;

/// Columns c0, c1, ... of these types, sorted by the first `key` of them.
fn table(types: &[DataType], key: usize) -> Table {
    let columns = types.iter().enumerate();
    let columns = columns.map(|(at, data_type)| Column::new(format!("c{at}"), data_type.clone()));
    let key: Vec<usize> = (0..key).collect();
    Table::new(TableId(1), ViewId(1), "t", columns.collect(), &key)
}

fn pair() -> Table {
    table(&[DataType::Int64, DataType::Utf8, DataType::Int64], 2)
}

fn key(table: &Table, values: Vec<ScalarValue>) -> Key {
    let columns: Vec<usize> = (0..values.len()).collect();
    encode(table, &columns, &[values]).unwrap().remove(0)
}

fn int(value: i64) -> ScalarValue {
    ScalarValue::Int64(Some(value))
}

fn text(value: &str) -> ScalarValue {
    ScalarValue::Utf8(Some(value.to_owned()))
}

fn range(access: Access) -> (Option<Key>, Option<Key>) {
    match access {
        Access::Range(range) => (range.low, range.high),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_prefix_is_a_stretch_of_the_key_space() {
    let table = pair();
    let (low, high) = range(access(&table, &[col("c0").eq(lit(5_i64))]).unwrap());
    assert_eq!(low, Some(key(&table, vec![int(5)])));
    for (value, inside) in [(4, false), (5, true), (6, false)] {
        let full = key(&table, vec![int(value), text("x")]);
        let is_inside = low.as_ref().unwrap() <= &full && &full < high.as_ref().unwrap();
        assert_eq!(is_inside, inside, "{value}");
    }
}

#[test]
fn a_bound_follows_the_prefix() {
    let table = pair();
    let filters = [
        col("c0").eq(lit(5_i64)),
        col("c1").gt_eq(lit("m")),
        col("c1").lt(lit("p")),
    ];
    let (low, high) = range(access(&table, &filters).unwrap());
    assert_eq!(low, Some(key(&table, vec![int(5), text("m")])));
    assert_eq!(high, Some(key(&table, vec![int(5), text("p")])));
    let (low, high) = range(access(&table, &[col("c0").gt(lit(5_i64))]).unwrap());
    assert!(low.unwrap() > key(&table, vec![int(5), text("zzzz")]));
    assert_eq!(high, None);
    let between = col("c0").between(lit(1_i64), lit(3_i64));
    let (low, high) = range(access(&table, &[between]).unwrap());
    assert_eq!(low, Some(key(&table, vec![int(1)])));
    assert!(high.unwrap() > key(&table, vec![int(3), text("zzzz")]));
}

#[test]
fn full_keys_are_points() {
    let table = pair();
    let filters = [
        col("c0").in_list(vec![lit(2_i64), lit(1_i64), lit(2_i64)], false),
        lit("x").eq(col("c1")),
    ];
    let expected = [1, 2].map(|value| key(&table, vec![int(value), text("x")]));
    assert_eq!(
        access(&table, &filters).unwrap(),
        Access::Keys(expected.to_vec())
    );
}

#[test]
fn lists_on_a_prefix_bound_it() {
    let table = pair();
    let list = col("c0").in_list(vec![lit(7_i64), lit(3_i64)], false);
    let (low, high) = range(access(&table, &[list]).unwrap());
    assert_eq!(low, Some(key(&table, vec![int(3)])));
    assert!(high.unwrap() > key(&table, vec![int(7), text("zzzz")]));
}

/// The planner makes `c0 = 7 OR c0 = 3` of `c0 IN (7, 3)`.
#[test]
fn either_of_some_values_bounds_as_their_list_does() {
    let table = pair();
    let is = |value: i64| col("c0").eq(lit(value));
    let either = is(7)
        .or(is(3))
        .or(col("c0").in_list(vec![lit(5_i64)], false));
    let list = col("c0").in_list(vec![lit(7_i64), lit(3_i64), lit(5_i64)], false);
    assert!(is_useful(&either, &table));
    assert_eq!(
        access(&table, std::slice::from_ref(&either)).unwrap(),
        access(&table, &[list]).unwrap()
    );
    let keys = |values: &[(i64, &str)]| {
        let key = |(number, name): &(i64, &str)| key(&table, vec![int(*number), text(name)]);
        Access::Keys(values.iter().map(key).collect())
    };
    let named = [either, col("c1").eq(lit("x"))];
    assert_eq!(
        access(&table, &named).unwrap(),
        keys(&[(3, "x"), (5, "x"), (7, "x")])
    );
    // Of several columns each has the values of both sides: more than they let pass.
    let pair = |number: i64, name: &str| is(number).and(col("c1").eq(lit(name)));
    assert_eq!(
        access(&table, &[pair(1, "a").or(pair(2, "b"))]).unwrap(),
        keys(&[(1, "a"), (1, "b"), (2, "a"), (2, "b")])
    );
    let nothing = is(1).and(is(2));
    let (low, _) = range(access(&table, &[nothing.or(pair(2, "b"))]).unwrap());
    assert_eq!(low, Some(key(&table, vec![int(2)])));
}

#[test]
fn contradictions_read_nothing() {
    let table = pair();
    let filters = [col("c0").eq(lit(1_i64)), col("c0").eq(lit(2_i64))];
    assert_eq!(access(&table, &filters).unwrap(), Access::Nothing);
    let filters = [col("c0").gt(lit(2_i64)), col("c0").lt(lit(1_i64))];
    assert_eq!(access(&table, &filters).unwrap(), Access::Nothing);
}

#[test]
fn other_columns_and_inexact_constants_say_nothing() {
    let table = pair();
    for filter in [
        col("c2").eq(lit(1_i64)),
        col("c1").eq(lit("x")),
        col("c0").eq(lit(1.5)),
        col("c0").not_eq(lit(1_i64)),
        col("c0").eq(lit(1_i64)).or(col("c1").eq(lit("x"))),
        col("c0").eq(lit(1_i64)).or(col("c2").eq(lit(2_i64))),
        col("c0").eq(lit(1_i64)).or(col("c0").gt(lit(2_i64))),
        col("c0").in_list(vec![lit(1_i64)], true),
    ] {
        let all = Access::Range(KeyRange::default());
        assert_eq!(
            access(&table, std::slice::from_ref(&filter)).unwrap(),
            all,
            "{filter}"
        );
    }
    assert!(!is_useful(&col("c2").eq(lit(1_i64)), &table));
    assert!(is_useful(&col("c0").lt(lit(1_i64)), &table));
}

#[test]
fn constants_of_other_types_count_where_they_are_exact() {
    let table = table(&[DataType::Int32], 1);
    let expected = Access::Keys(vec![key(&table, vec![ScalarValue::Int32(Some(7))])]);
    assert_eq!(
        access(&table, &[col("c0").eq(lit(7_i64))]).unwrap(),
        expected
    );
}

#[test]
fn uuids_are_given_as_text() {
    let table = table(&[UUID], 1);
    let filter = col("c0").eq(lit("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"));
    assert!(matches!(access(&table, &[filter]).unwrap(), Access::Keys(keys) if keys.len() == 1));
}

#[test]
fn floating_bounds_keep_both_zeros() {
    let table = table(&[DataType::Float64, DataType::Int64], 2);
    let (low, _) = range(access(&table, &[col("c0").gt(lit(-0.0))]).unwrap());
    assert_eq!(
        low,
        Some(key(&table, vec![ScalarValue::Float64(Some(0.0))]))
    );
}

/// `pair`, cut by a hash of the text and at 10 and 20 of the number.
fn partitioned() -> Table {
    use lazybase_model::partition::{BoundBytes, HashRule, Partitioning, RangeBound, RangeRule};
    let mut table = pair();
    let ids = table.primary.key.clone();
    let bound = |value: i64| RangeBound {
        value: BoundBytes(key(&table, vec![int(value)]).as_bytes().to_vec()),
        after: false,
    };
    let bounds = [(None, Some(10)), (Some(10), Some(20)), (Some(20), None)];
    let bounds = bounds.map(|(low, high)| lazybase_model::RangeBounds {
        low: low.map(bound),
        high: high.map(bound),
    });
    table.partitioning = Some(Partitioning {
        hash: vec![HashRule {
            columns: vec![ids[1]],
            buckets: 4,
        }],
        range: Some(RangeRule::new(vec![ids[0]], bounds.to_vec()).unwrap()),
    });
    table
}

#[test]
fn partitions_are_chosen_by_both_rules() {
    let table = partitioned();
    let read = |filters: &[Expr]| match access(&table, filters).unwrap() {
        Access::Partitions(access) => (access.read, access.ranges.len(), access.all),
        other => panic!("{other:?}"),
    };
    assert_eq!(read(&[]), (12, 12, 12));
    assert_eq!(read(&[col("c0").lt(lit(10_i64))]), (4, 4, 12));
    assert_eq!(read(&[col("c0").lt_eq(lit(10_i64))]), (8, 8, 12));
    assert_eq!(
        read(&[col("c0").between(lit(11_i64), lit(19_i64))]),
        (4, 4, 12)
    );
    assert_eq!(read(&[col("c1").eq(lit("a"))]), (3, 3, 12));
    assert_eq!(
        read(&[col("c1").eq(lit("a")), col("c0").gt(lit(25_i64))]),
        (1, 1, 12)
    );
    assert_eq!(read(&[col("c1").gt(lit("a"))]), (12, 12, 12));
    let some = col("c0").in_list(vec![lit(5_i64), lit(25_i64)], false);
    assert_eq!(read(&[some]), (8, 8, 12));
    let either = |a: &str, b: &str| col("c1").eq(lit(a)).or(col("c1").eq(lit(b)));
    assert_eq!(read(&[either("a", "a")]), (3, 3, 12));
    assert_eq!(read(&[col("c2").eq(lit(1_i64))]), (12, 12, 12));
}

#[test]
fn keys_of_partitions_come_in_the_order_of_the_primary_key() {
    let table = partitioned();
    let filters = [
        col("c0").in_list(vec![lit(25_i64), lit(5_i64)], false),
        col("c1").in_list(vec![lit("b"), lit("a"), lit("c")], false),
    ];
    let Access::Keys(keys) = access(&table, &filters).unwrap() else {
        panic!("keys are named")
    };
    let codec = KeyCodec::primary(&table).unwrap();
    let columns = codec.decode(&keys).unwrap();
    let expected = [
        (5, "a"),
        (5, "b"),
        (5, "c"),
        (25, "a"),
        (25, "b"),
        (25, "c"),
    ];
    let rows: Vec<(i64, String)> = (0..keys.len())
        .map(|row| {
            let cell = |at: usize| {
                ScalarValue::try_from_array(&columns[at], row)
                    .unwrap()
                    .to_string()
            };
            (cell(0).parse().unwrap(), cell(1))
        })
        .collect();
    assert_eq!(
        rows,
        expected.map(|(number, text)| (number, text.to_owned()))
    );
}
