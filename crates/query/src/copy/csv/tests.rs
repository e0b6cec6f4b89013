//! Tests of `copy::csv`.

use std::io::BufReader;

use arrow::array::{Array, AsArray};

use super::*;

fn dialect() -> Dialect {
    Dialect {
        delimiter: b',',
        quote: b'"',
        escape: b'"',
        null: Vec::new(),
        header: Header::None,
        force_null: Vec::new(),
        force_not_null: Vec::new(),
        has_end: false,
    }
}

/// The rows, read with buffers of every small size: cuts may fall anywhere.
fn rows_of(text: &str, dialect: &Dialect, width: usize) -> Result<Vec<Vec<Option<String>>>> {
    let names: Vec<String> = (0..width).map(|at| format!("c{at}")).collect();
    let mut seen = None;
    for capacity in [1, 2, 3, 7, 4096] {
        let input = BufReader::with_capacity(capacity, text.as_bytes());
        let records = Records::new(input, dialect.clone(), names.clone())?;
        let mut rows = Vec::new();
        for batch in records {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let cell = |column: &ArrayRef| {
                    let texts = column.as_string::<i32>();
                    (!texts.is_null(row)).then(|| texts.value(row).to_owned())
                };
                rows.push(batch.columns().iter().map(cell).collect());
            }
        }
        let same = seen.get_or_insert_with(|| rows.clone());
        assert_eq!(*same, rows, "{text:?} in buffers of {capacity}");
    }
    Ok(seen.unwrap_or_default())
}

fn shown(text: &str, width: usize) -> Vec<String> {
    let rows = rows_of(text, &dialect(), width).unwrap();
    let cell = |cell: &Option<String>| cell.clone().unwrap_or_else(|| "NULL".to_owned());
    rows.iter()
        .map(|row| row.iter().map(cell).collect::<Vec<_>>().join("|"))
        .collect()
}

#[test]
fn an_empty_field_is_null_and_a_quoted_empty_one_is_text() {
    assert_eq!(shown("a,,b\na,\"\",b\n", 3), ["a|NULL|b", "a||b"]);
    assert_eq!(shown("\n\"\"\nx", 1), ["NULL", "", "x"]);
    assert_eq!(shown(",\n", 2), ["NULL|NULL"]);
}

#[test]
fn quotes_hold_delimiters_lines_and_quotes() {
    assert_eq!(
        shown("\"a,b\",\"c\nd\"\n\"e\"\"f\",g\n", 2),
        ["a,b|c\nd", "e\"f|g"]
    );
    // A quote may begin inside a field, as with PostgreSQL.
    assert_eq!(shown("a\"b,c\"d,e\n", 2), ["ab,cd|e"]);
}

#[test]
fn lines_end_in_every_way_and_the_last_needs_no_end() {
    let expected = ["1|a", "2|b", "3|c"];
    assert_eq!(shown("1,a\n2,b\n3,c", 2), expected);
    assert_eq!(shown("1,a\r\n2,b\r\n3,c\r\n", 2), expected);
    assert_eq!(shown("1,a\r2,b\r3,c\r", 2), expected);
    assert_eq!(shown("\u{feff}1,a\n\n2,b\n3,c\n\n", 2), expected);
    assert!(shown("", 2).is_empty());
}

#[test]
fn a_mark_is_none_of_the_text_only_where_the_file_begins() {
    assert_eq!(shown("\u{feff}\"1,2\",a\n", 2), ["1,2|a"]);
    assert_eq!(shown("\"\u{feff}1\",a\n", 2), ["\u{feff}1|a"]);
    assert_eq!(
        shown("1,\u{feff}a\n\u{feff}2,b\n", 2),
        ["1|\u{feff}a", "\u{feff}2|b"]
    );
    // What begins alike: U+FEC0 has its first two bytes.
    assert_eq!(shown("\u{fec0}1,a\n", 2), ["\u{fec0}1|a"]);
    assert!(shown("\u{feff}", 2).is_empty());
    let lines = "\u{feff}1,a\n";
    let names = vec!["k".to_owned(), "v".to_owned()];
    let before = LinesBefore::default();
    let mut batches = csv_texts(lines.as_bytes(), b',', names, before).unwrap();
    let batch = batches.next().unwrap().unwrap();
    assert_eq!(batch.column(0).as_string::<i32>().value(0), "\u{feff}1");
}

#[test]
fn the_options_are_kept() {
    let other = Dialect {
        delimiter: b';',
        quote: b'\'',
        escape: b'\\',
        null: b"n/a".to_vec(),
        header: Header::Names,
        has_end: false,
        ..dialect()
    };
    let rows = rows_of("k;v\n1;n/a\n'n/a';''\n'it\\'s';\n", &other, 2).unwrap();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        rows,
        [
            vec![text("1"), None],
            vec![text("n/a"), text("")],
            vec![text("it's"), text("")],
        ]
    );
}

#[test]
fn what_is_broken_is_named() {
    let error = |text: &str| rows_of(text, &dialect(), 2).unwrap_err();
    let short = error("1,2\n3\n");
    assert_eq!(short.sqlstate(), "22P04");
    assert!(short.message().contains("row 2 (line 2) has 1 values"));
    assert!(error("1,2\r\n3\r\n").message().contains("row 2 (line 2)"));
    assert!(error("\"1\n\",2\n3\n").message().contains("row 2 (line 3)"));
    assert!(error("1,2\n\"a\n\"\n").message().contains("row 2 (line 2)"));
    assert!(error("1,\"2\n").message().contains("never closed"));
    let nul = error("1,2\na,\"\0\"\n");
    assert_eq!(nul.sqlstate(), "22021");
    assert!(nul.message().starts_with("row 2 (line 2): "), "{nul}");
    let bytes: &[u8] = b"a,\xff\n";
    let names = vec!["a".to_owned(), "b".to_owned()];
    let (rows, lines) = (7, 9);
    let before = LinesBefore { rows, lines };
    let mut records = csv_texts(b"1,2\n3\n", b',', names.clone(), before).unwrap();
    let error = records.next().unwrap().unwrap_err();
    assert!(error.message().contains("row 9 (line 11) has 1 values"));
    let mut records = Records::new(bytes, dialect(), names).unwrap();
    let error = records.next().unwrap().unwrap_err();
    assert_eq!(error.sqlstate(), "22021");
    assert!(records.next().is_none());
}

#[test]
fn a_line_ends_what_clients_send() {
    let client = Dialect {
        has_end: true,
        ..dialect()
    };
    let text = "a\n\"\\.\"\n\\.\nmore \"that is no CSV\n";
    let rows = rows_of(text, &client, 1).unwrap();
    assert_eq!(
        rows.concat(),
        [Some("a".to_owned()), Some("\\.".to_owned())]
    );
    let rows = rows_of("a\n\\.\nb\n", &dialect(), 1).unwrap();
    assert_eq!(rows.len(), 3, "in a file it is a value");
}
