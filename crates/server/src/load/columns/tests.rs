//! Tests of `load::columns`.

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::stored_schema;

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
