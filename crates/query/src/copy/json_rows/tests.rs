//! Tests of `copy::json_rows`.

use std::io::BufReader;

use arrow::array::AsArray;

use super::*;

fn columns() -> Vec<JsonColumn> {
    vec![
        JsonColumn::new("k", &DataType::Int32),
        JsonColumn::new("v", &DataType::Utf8),
        JsonColumn::new("b", &DataType::Binary),
    ]
}

/// The rows, with `NULL` for what is none.
fn rows(text: &str) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    // A small buffer, so that objects are cut anywhere.
    let input = BufReader::with_capacity(3, text.as_bytes());
    for batch in JsonRows::new(input, columns(), 1) {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| {
                let text = column.as_string::<i32>().iter().nth(row).flatten();
                text.unwrap_or("NULL").to_owned()
            };
            let cells: Vec<String> = batch.columns().iter().map(cell).collect();
            rows.push(cells.join("|"));
        }
    }
    Ok(rows)
}

#[test]
fn values_are_the_texts_that_stand_there() {
    let text = r#"{"k": 1.50, "v": "a\u00e9\n", "b": "00ff"} {"v": true,"k":-1e3}
        {"\u006b": 12345678901234567890.5,
         "v": {"x": [1, "}"]}, "b": "\\x01"}
        {"k": null, "v": "", "v": "later"}{}"#;
    assert_eq!(
        rows(text).unwrap(),
        [
            "1.50|aé\n|\\x00ff",
            "-1e3|true|NULL",
            "12345678901234567890.5|{\"x\": [1, \"}\"]}|\\x01",
            "NULL|later|NULL",
            "NULL|NULL|NULL",
        ]
    );
    assert_eq!(rows(" \n").unwrap(), Vec::<String>::new());
}

#[test]
fn objects_longer_than_a_step_and_more_rows_than_a_batch_are_read() {
    let long = "x".repeat(3 * STEP_BYTES);
    let text = format!("{{\"v\":\"{long}\"}}\n").repeat(2);
    assert_eq!(rows(&text).unwrap(), vec![format!("NULL|{long}|NULL"); 2]);
    let text = "{\"k\":1}\n".repeat(2 * BATCH_ROWS + 1);
    assert_eq!(rows(&text).unwrap().len(), 2 * BATCH_ROWS + 1);
}

#[test]
fn what_is_no_row_is_named() {
    for (text, sqlstate, said) in [
        (
            "{\"k\":1}\n{\"k\":2,\"w\":1}",
            "42703",
            "row 2 has a field \"w\"",
        ),
        ("{\"k\":1}\n{\"k\":x}", "22P02", "row 2 is no JSON object: "),
        (
            "{\"k\":1}\n{\"k\":",
            "22P02",
            "row 2 is no JSON object: EOF",
        ),
        (
            "[1]",
            "22P02",
            "row 1 is no JSON object: invalid type: sequence",
        ),
        (
            "{\"k\":1}\n\n7",
            "22P02",
            "row 2 is no JSON object: invalid type: integer",
        ),
        ("{\"v\":\"\\ud800\"}", "22P02", "column \"v\", row 1: "),
    ] {
        let error = rows(text).unwrap_err();
        assert_eq!(error.sqlstate(), sqlstate, "{text}: {error}");
        assert!(error.message().starts_with(said), "{text}: {error}");
    }
}

#[test]
fn a_natural_key_is_an_object_a_text_or_a_number() {
    let names = vec!["host".to_owned(), "n".to_owned()];
    let lines = r#"{"f": {"n": 1.50, "host": "a,\"b\\"}}
        {"f": {"host": null, "n": ""}} {"f": {"n": 7}} {"f": "(x,1)"} {"f": 12} {"f": null}"#;
    let columns = || vec![JsonColumn::of_key("f", names.clone())];
    let batch = json_rows(lines.as_bytes(), columns(), 1).next().unwrap();
    let keys: Vec<Option<String>> = batch
        .unwrap()
        .column(0)
        .as_string::<i32>()
        .iter()
        .map(|key| key.map(str::to_owned))
        .collect();
    let keys: Vec<Option<&str>> = keys.iter().map(Option::as_deref).collect();
    assert_eq!(
        keys,
        [
            Some(r#"("a,""b\\","1.50")"#),
            Some(r#"(,"")"#),
            Some(r#"(,"7")"#),
            Some("(x,1)"),
            Some("12"),
            None,
        ]
    );
    let mut batches = json_rows(b"{\"f\": {\"hosts\": 1}}", columns(), 1);
    let error = batches.next().unwrap().unwrap_err();
    let said = "column \"f\", row 1: \"hosts\" is no column of the natural key";
    assert_eq!(error.message(), said);
}

#[test]
fn rows_are_counted_from_the_first_of_the_lines() {
    let mut batches = json_rows(b"{\"k\":1}\n{\"w\":1}\n", columns(), 11);
    let error = batches.next().unwrap().unwrap_err();
    assert!(error.message().starts_with("row 12 "), "{error}");
    assert!(batches.next().is_none());
}
