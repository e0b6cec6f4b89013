//! Tests of `source::infer`.

use arrow::datatypes::Schema;

use super::{FIELDS_AT_ONCE, csv_columns, csv_names, json_columns, json_names, records_at_once};
use crate::source::{TextOptions, stored_schema};
use crate::type_names::sql_type;

fn shown(schema: &Schema) -> String {
    let fields = schema.fields().iter();
    let shown: Vec<String> = fields
        .map(|field| format!("{} {}", field.name(), sql_type(field.data_type())))
        .collect();
    shown.join(", ")
}

#[test]
fn csv_has_the_least_types_that_hold_its_values() {
    let options = TextOptions::new(b',', Some("NA"));
    for (values, expected) in [
        ("1\n-7\nNA", "bigint"),
        ("1\n9223372036854775808", "decimal(38,0)"),
        ("1\n1.5", "double"),
        ("08:30\n23:59:59.25\n", "time"),
        ("08:30\n24:01", "text"),
        ("true\nfalse", "boolean"),
        ("2024-01-02\n2024-01-03", "date"),
        ("2024-01-02 08:30:00", "timestamp"),
        ("2024-01-02 08:30:00Z", "timestamptz"),
        ("2024-01-02 08:30:00Z\n2024-01-02 08:30:00", "text"),
        ("NA\n", "text"),
        ("1\nx", "text"),
    ] {
        let file = format!("x\n{values}\n");
        let columns = csv_columns(file.as_bytes(), &options).unwrap();
        let columns = stored_schema(&columns, None).unwrap();
        assert_eq!(shown(&columns), format!("x {expected}"), "{values:?}");
        let names = csv_names(file.as_bytes(), &options).unwrap();
        assert_eq!(shown(&names), "x text");
    }
}

#[test]
fn json_has_the_least_types_that_hold_its_values() {
    for (values, expected) in [
        (&["1", "null", "-7"][..], "bigint"),
        (&["1", "18446744073709551615"], "decimal(38,0)"),
        (&["1", "1e3"], "double"),
        (&["\"a\"", "null"], "text"),
        (&["null"], "text"),
        (&["true"], "boolean"),
        (&["1", "\"a\""], "text"),
        (&["[1]", "null", "[]", "[null, 2]"], "bigint[]"),
        (&["[]", "null"], "text"),
        (&["[[1], null]"], "bigint[][]"),
        (&["{}"], "text"),
        (&["{\"a\": {}}"], "text"),
        (
            &["{\"a\": 1}", "{\"b\": [true]}"],
            "struct<a bigint, b boolean[]>",
        ),
        (&["{\"a\": 1}", "{\"a\": \"x\"}"], "text"),
        (&["[{\"a\": 1}, null]"], "struct<a bigint>[]"),
    ] {
        let lines: String = values
            .iter()
            .map(|value| format!("{{\"x\": {value}}}\n"))
            .collect();
        let columns = json_columns(lines.as_bytes()).unwrap();
        assert_eq!(shown(&columns), format!("x {expected}"), "{values:?}");
        assert_eq!(shown(&json_names(lines.as_bytes()).unwrap()), "x text");
    }
    let lines = b"{\"b\": 1}\n{\"a\": 1, \"b\": 2}\n";
    assert_eq!(shown(&json_columns(lines).unwrap()), "b bigint, a bigint");
    assert!(json_columns(b"[1]\n").is_err());
    assert!(json_names(b"{\"a\": 1}\nnothing\n").is_err());
}

#[test]
fn a_header_of_many_columns_makes_room_for_few_records() {
    assert_eq!(records_at_once(0), 1_024);
    assert_eq!(records_at_once(64), 1_024);
    for columns in [100, 2_000, 65_536] {
        assert!(records_at_once(columns) * columns <= FIELDS_AT_ONCE);
    }
    assert_eq!(records_at_once(usize::MAX), 1);
    let options = TextOptions::new(b',', None);
    let file = format!(
        "a{}\n{}7\n7{}\n",
        ",a".repeat(1_999),
        ",".repeat(1_999),
        ",".repeat(1_999)
    );
    let columns = csv_columns(file.as_bytes(), &options).unwrap();
    assert_eq!(columns.fields().len(), 2_000);
    assert_eq!(sql_type(columns.field(0).data_type()), "bigint");
    assert_eq!(sql_type(columns.field(1_999).data_type()), "bigint");
}
