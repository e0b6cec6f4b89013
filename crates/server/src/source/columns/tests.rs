//! Tests of `source::columns`.

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::{listed, stored_schema};

#[test]
fn names_are_folded_where_that_keeps_them_apart() {
    let field = |name: &str| Field::new(name, DataType::LargeUtf8, false);
    let schema = Schema::new(vec![field("Name"), field("a"), field("A"), field("op")]);
    let stored = stored_schema(&schema, Some("op")).unwrap();
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

/// A file without a header names a column by each value of its first line.
#[test]
fn very_many_names_are_folded_in_no_time() {
    let fields = (0..100_000).map(|at| Field::new(format!("C{at}"), DataType::Utf8, true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let stored = stored_schema(&schema, None).unwrap();
    assert_eq!(stored.field(99_999).name(), "c99999");
}

#[test]
fn moments_of_a_zone_are_kept_as_those_that_they_are() {
    let berlin = DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into()));
    let stored = stored_schema(&Schema::new(vec![Field::new("at", berlin, true)]), None).unwrap();
    let utc = DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()));
    assert_eq!(*stored.field(0).data_type(), utc);
    let strange = DataType::Struct(arrow::datatypes::Fields::empty());
    let refused = stored_schema(&Schema::new(vec![Field::new("s", strange, true)]), None);
    assert!(refused.unwrap_err().message().contains("\"s\""));
}

#[test]
fn an_error_names_some_columns_and_no_long_values() {
    let (name, text) = ("é".repeat(100_000), DataType::Utf8);
    let columns = (0..2_000).map(|_| (name.as_str(), &text));
    let said = listed(columns);
    let column = format!("{}... text, ", "é".repeat(40));
    assert_eq!(said, format!("{}and 1960 more", column.repeat(40)));
    let few = [("a", &DataType::Int32), ("b", &DataType::Utf8)];
    assert_eq!(listed(few.into_iter()), "a integer, b text");
}
