//! What a comparison misses, and what it takes.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use lazybase_model::Error;

use super::{Class, Table};
use crate::query::Order;

/// An answer with columns `a` and `b`.
fn answer(rows: &[[&str; 2]]) -> Table {
    let column = |name: &str, of| (name.to_owned(), of);
    let texts = |row: &[&str; 2]| row.map(str::to_owned).to_vec();
    Table {
        columns: vec![column("a", DataType::Int32), column("b", DataType::Utf8)],
        rows: rows.iter().map(texts).collect(),
    }
}

fn rows() -> Table {
    answer(&[["1", "x"], ["2", "x"], ["2", "y"]])
}

fn some(limit: usize, offset: usize) -> Order {
    Order::Some {
        whole: String::new(),
        limit,
        offset,
    }
}

#[test]
fn an_answer_is_like_itself() {
    for order in [Order::Any, Order::By(vec![0]), Order::Total, some(3, 0)] {
        assert_eq!(rows().differs(&rows(), &order), None, "{order:?}");
    }
}

#[test]
fn other_rows_are_missed_in_any_order() {
    let others = [
        // One cell.
        answer(&[["1", "x"], ["2", "x"], ["2", "z"]]),
        answer(&[["1", "x"], ["2", "x"], ["2", "NULL"]]),
        // A row less, a row more, a row twice in the place of another one.
        answer(&[["1", "x"], ["2", "x"]]),
        answer(&[["1", "x"], ["2", "x"], ["2", "y"], ["2", "y"]]),
        answer(&[["1", "x"], ["1", "x"], ["2", "y"]]),
        answer(&[]),
        // The cells of one row in another one.
        answer(&[["1", "y"], ["2", "x"], ["2", "x"]]),
    ];
    for other in &others {
        for order in [Order::Any, Order::By(vec![0]), Order::Total] {
            let found = rows().differs(other, &order);
            assert!(found.is_some(), "{order:?}: {other:?}");
            assert!(other.differs(&rows(), &order).is_some(), "{other:?}");
        }
    }
}

#[test]
fn orders_are_held_to_where_they_are_settled() {
    let swapped = answer(&[["1", "x"], ["2", "y"], ["2", "x"]]);
    assert_eq!(rows().differs(&swapped, &Order::Any), None);
    assert_eq!(rows().differs(&swapped, &Order::By(vec![0])), None);
    assert!(rows().differs(&swapped, &Order::By(vec![1])).is_some());
    assert!(rows().differs(&swapped, &Order::Total).is_some());
    let turned = answer(&[["2", "y"], ["2", "x"], ["1", "x"]]);
    assert_eq!(rows().differs(&turned, &Order::Any), None);
    assert!(rows().differs(&turned, &Order::By(vec![0])).is_some());
}

#[test]
fn limits_are_of_rows_that_are_there() {
    let two = answer(&[["2", "y"], ["1", "x"]]);
    assert_eq!(rows().differs(&two, &some(2, 0)), None);
    assert_eq!(rows().differs(&two, &some(5, 1)), None);
    assert!(rows().differs(&two, &some(1, 0)).is_some());
    assert!(rows().differs(&two, &some(5, 0)).is_some());
    assert!(rows().differs(&two, &some(2, 2)).is_some());
    let twice = answer(&[["2", "y"], ["2", "y"]]);
    assert!(rows().differs(&twice, &some(2, 0)).is_some());
    let other = answer(&[["2", "y"], ["3", "x"]]);
    assert!(rows().differs(&other, &some(2, 0)).is_some());
    assert_eq!(rows().differs(&answer(&[]), &some(2, 3)), None);
}

#[test]
fn columns_have_their_names_and_types() {
    for (name, of) in [("c", DataType::Int32), ("a", DataType::Int64)] {
        let mut other = rows();
        other.columns[0] = (name.to_owned(), of);
        assert!(rows().differs(&other, &Order::Any).is_some(), "{name}");
    }
    let mut other = rows();
    other.columns[1].1 = DataType::Utf8View;
    assert_eq!(rows().differs(&other, &Order::Any), None);
}

#[test]
fn values_are_told_apart_but_for_zeros() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Float64, true)]));
    let table = |value: Option<f64>| {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![value]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![values]).unwrap();
        Table::new(&schema, &[batch])
    };
    let zero = table(Some(0.0));
    assert_eq!(zero.differs(&table(Some(-0.0)), &Order::Total), None);
    for other in [None, Some(0.25), Some(f64::NAN)] {
        assert!(zero.differs(&table(other), &Order::Total).is_some());
    }
}

#[test]
fn errors_are_about_the_statement_or_the_rows() {
    let class = |sqlstate| Class::of(&Error::invalid("it").with_sqlstate(sqlstate));
    for (sqlstate, of) in [
        ("22003", Class::Rows),
        ("22012", Class::Rows),
        ("22P02", Class::Rows),
        ("22023", Class::Statement),
        ("2201B", Class::Statement),
        ("42703", Class::Statement),
        ("0A000", Class::Statement),
        ("XX000", Class::Internal),
        ("23505", Class::Other),
        ("53200", Class::Other),
    ] {
        assert_eq!(class(sqlstate), of, "{sqlstate}");
    }
}
