//! Tests of `keys`.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use lazybase_model::{Column, TableId, ViewId};

use super::*;

/// a BIGINT, b TEXT, v INT, sorted by (b, a).
fn table() -> Table {
    let columns = vec![
        Column::new("a", DataType::Int64),
        Column::new("b", DataType::Utf8),
        Column::new("v", DataType::Int32),
    ];
    Table::new(TableId(1), ViewId(1), "t", columns, &[1, 0])
}

fn keys(predicate: &str) -> Option<usize> {
    let dialect = PostgreSqlDialect {};
    let expr = Parser::new(&dialect)
        .try_with_sql(predicate)
        .unwrap()
        .parse_expr()
        .unwrap();
    named_keys(&expr, &table(), "t")
        .unwrap()
        .map(|keys| keys.encoded.len())
}

#[test]
fn full_keys_are_recognised() {
    assert_eq!(keys("a = 1 AND b = 'x'"), Some(1));
    assert_eq!(keys("'x' = t.b AND (a = -1)"), Some(1));
    assert_eq!(keys("a IN (1, 2, 2, 3) AND b = 'x'"), Some(3));
    assert_eq!(keys("a IN (1, 2) AND b IN ('x', 'y')"), Some(4));
    assert_eq!(keys("(a, b) IN ((1, 'x'), (2, 'y'), (1, 'x'))"), Some(2));
}

#[test]
fn anything_else_is_left_to_the_planner() {
    for predicate in [
        "a = 1",
        "a = 1 AND b = 'x' AND v = 1",
        "a = 1 OR b = 'x'",
        "a = 1 AND a = 2 AND b = 'x'",
        "a > 1 AND b = 'x'",
        "a = 1.5 AND b = 'x'",
        "a = '1' AND b = 'x'",
        "a = NULL AND b = 'x'",
        "a = 1 AND b = 5",
        "a NOT IN (1) AND b = 'x'",
        "a = 1 AND u.b = 'x'",
        "a = 1 AND b = lower('X')",
        "(a, v) IN ((1, 2))",
    ] {
        assert_eq!(keys(predicate), None, "{predicate}");
    }
}

#[test]
fn keys_come_sorted() {
    let dialect = PostgreSqlDialect {};
    let sql = "(a, b) IN ((2, 'x'), (1, 'y'), (1, 'x'))";
    let expr = Parser::new(&dialect)
        .try_with_sql(sql)
        .unwrap()
        .parse_expr()
        .unwrap();
    let keys = named_keys(&expr, &table(), "t").unwrap().unwrap();
    assert!(keys.encoded.is_sorted());
    assert_eq!(keys.columns.len(), 2);
}
