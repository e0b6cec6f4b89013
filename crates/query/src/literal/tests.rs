//! Tests of `literal`.

use arrow::array::AsArray;
use arrow::datatypes::{Decimal128Type, Int32Type};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use lazybase_model::Column;

use super::*;

fn literal(text: &str) -> Option<Literal> {
    let dialect = PostgreSqlDialect {};
    let expr = Parser::new(&dialect)
        .try_with_sql(text)
        .unwrap()
        .parse_expr()
        .unwrap();
    Literal::of(&expr)
}

fn array(texts: &[&str], data_type: DataType) -> Result<ArrayRef> {
    let literals: Vec<Literal> = texts.iter().map(|text| literal(text).unwrap()).collect();
    let column = Column::new("c", data_type);
    to_array(
        &literals,
        &Place {
            table: "t",
            column: &column,
            first_row: 1,
        },
    )
}

#[test]
fn constants_are_recognised() {
    let number = |text: &str| Some(Literal::Number(text.to_owned()));
    assert_eq!(literal("1"), number("1"));
    assert_eq!(literal("(-1.5)"), number("-1.5"));
    assert_eq!(literal("NULL"), Some(Literal::Null));
    assert_eq!(literal("'it''s'"), Some(Literal::Text("it's".to_owned())));
    assert_eq!(
        literal("DATE '2013-01-01'"),
        Some(Literal::Text("2013-01-01".to_owned()))
    );
    assert_eq!(literal("X'00ff'"), Some(Literal::Bytes(vec![0, 255])));
    for text in ["a", "1 + 1", "now()", "-'1'", "CAST('1' AS INT)"] {
        assert_eq!(literal(text), None, "{text}");
    }
}

#[test]
fn constants_become_values_of_their_column() {
    let decimals = array(
        &["12345678901234567890.12", "'1.5'"],
        DataType::Decimal128(38, 2),
    );
    let decimals = decimals.unwrap();
    let decimals = decimals.as_primitive::<Decimal128Type>();
    assert_eq!(decimals.value(0), 1_234_567_890_123_456_789_012);
    let ints = array(&["1.0", "'2'", "NULL", "-3"], DataType::Int32).unwrap();
    let ints: Vec<Option<i32>> = ints.as_primitive::<Int32Type>().iter().collect();
    assert_eq!(ints, [Some(1), Some(2), None, Some(-3)]);
    let uuid = array(
        &["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"],
        crate::types::UUID,
    )
    .unwrap();
    assert_eq!(uuid.as_fixed_size_binary().value(0)[0], 0xa0);
    let bytes = array(&["'\\x6162'", "'ab'", "X'6162'"], DataType::Binary).unwrap();
    assert!(
        bytes
            .as_binary::<i32>()
            .iter()
            .flatten()
            .skip(1)
            .all(|bytes| bytes == b"ab")
    );
}

#[test]
fn wrong_constants_name_table_column_and_row() {
    for (texts, data_type, state) in [
        (["1", "'x'"], DataType::Int32, "22P02"),
        (["1", "3000000000"], DataType::Int32, "22003"),
        (["1", "'1.5'"], DataType::Int32, "22P02"),
        (["true", "1"], DataType::Boolean, "42804"),
        (["'2013-01-01'", "'2013-02-30'"], DataType::Date32, "22008"),
        (["NULL", "'zz'"], crate::types::UUID, "22P02"),
    ] {
        let error = array(&texts, data_type.clone()).unwrap_err();
        assert_eq!(error.sqlstate(), state, "{texts:?}: {error}");
        let message = error.message();
        assert!(
            message.starts_with("table \"t\", column \"c\", row 2: "),
            "{message}"
        );
    }
}
