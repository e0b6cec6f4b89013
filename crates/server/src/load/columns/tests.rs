//! Tests of `load::columns`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::{cast, is_lossless, stored_schema};

#[test]
fn only_casts_that_keep_values_are_taken() {
    use DataType::{Float32, Float64, Int16, Int32, Int64, Utf8, Utf8View};
    let instant = |unit| DataType::Timestamp(unit, None);
    for (from, to) in [
        (Int64, Int16),
        (Int32, Float64),
        (Float32, Float64),
        (Utf8View, Utf8),
        (Int64, DataType::Decimal128(20, 2)),
        (instant(TimeUnit::Second), instant(TimeUnit::Microsecond)),
        (DataType::Null, Utf8),
    ] {
        assert!(is_lossless(&from, &to), "{from} to {to}");
    }
    for (from, to) in [
        (Int64, Float64),
        (Float64, Float32),
        (Float64, Int64),
        (Utf8, Int64),
        (Int64, Utf8),
        (
            instant(TimeUnit::Nanosecond),
            instant(TimeUnit::Microsecond),
        ),
    ] {
        assert!(!is_lossless(&from, &to), "{from} to {to}");
    }
}

#[test]
fn a_value_that_does_not_fit_is_an_error() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
    assert_eq!(cast("n", &column, &DataType::Int8).unwrap().len(), 2);
    let column: ArrayRef = Arc::new(Int64Array::from(vec![700]));
    let error = cast("n", &column, &DataType::Int8).unwrap_err();
    assert!(error.message().contains("\"n\""), "{error}");
}

#[test]
fn names_are_folded_where_that_keeps_them_apart() {
    let field = |name: &str| Field::new(name, DataType::LargeUtf8, false);
    let schema = Schema::new(vec![field("Name"), field("a"), field("A"), field("op")]);
    let stored = stored_schema(&schema, Some("op"));
    let names: Vec<&str> = stored
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(names, ["name", "a", "A"]);
    assert!(
        stored
            .fields()
            .iter()
            .all(|field| *field.data_type() == DataType::Utf8)
    );
}
