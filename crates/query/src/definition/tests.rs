//! Names, values and durations that are read back as they were.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array,
    StringArray,
};

use super::{duration, identifier, literal};

#[test]
fn names_are_quoted_where_they_must_be() {
    for name in [
        "t",
        "_a1",
        "k",
        "l",
        "at",
        "value",
        "name",
        "key",
        "idkey",
        "ttl",
        "codec",
        "freshness",
    ] {
        assert_eq!(identifier(name), name);
    }
    for name in ["T", "two words", "1st", "", "é", "a-b"] {
        assert_eq!(identifier(name), format!("\"{name}\""));
    }
    assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
}

#[test]
fn values_are_written_as_their_type_reads_them() {
    let decimal = Decimal128Array::from(vec![-150]).with_precision_and_scale(5, 2);
    let written: [(ArrayRef, &str); 7] = [
        (Arc::new(Int32Array::from(vec![-7])), "-7"),
        (Arc::new(decimal.unwrap()), "-1.50"),
        (Arc::new(BooleanArray::from(vec![true])), "true"),
        (Arc::new(StringArray::from(vec!["it's"])), "'it''s'"),
        (Arc::new(BinaryArray::from_vec(vec![&[0, 255]])), "X'00ff'"),
        (Arc::new(Date32Array::from(vec![1])), "'1970-01-02'"),
        (Arc::new(Float64Array::from(vec![0.5])), "'0.5'"),
    ];
    for (values, text) in written {
        assert_eq!(literal(&values), text);
    }
}

#[test]
fn durations_have_the_largest_unit_that_holds_them() {
    let micros = [
        86_400_000_000,
        90_000_000,
        5_400_000_000,
        1_500,
        1_000,
        7_200_000_000,
    ];
    let texts = micros.map(duration);
    assert_eq!(
        texts,
        ["1 days", "90 s", "90 min", "1500 us", "1 ms", "2 hours"]
    );
}
