//! Tests of `copy::text`.

use arrow::array::AsArray;

use super::*;

fn rows(text: &str, width: usize) -> Result<Vec<Vec<Option<String>>>> {
    let names = (0..width).map(|at| format!("c{at}")).collect();
    let mut rows = Vec::new();
    // A small buffer, so that lines are cut anywhere.
    let input = std::io::BufReader::with_capacity(3, text.as_bytes());
    for batch in Lines::new(input, b'\t', "\\N".to_owned(), Header::None, names)? {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| {
                let texts = column.as_string::<i32>();
                texts.iter().nth(row).flatten().map(str::to_owned)
            };
            rows.push(batch.columns().iter().map(cell).collect());
        }
    }
    Ok(rows)
}

fn row(cells: &[Option<&str>]) -> Vec<Option<String>> {
    cells.iter().map(|cell| cell.map(str::to_owned)).collect()
}

#[test]
fn values_are_read_as_postgresql_writes_them() {
    let text = "1\tone\n2\t\\N\n3\t\n4\ta\\tb\\nc\\\\d\\N\r\n5\t\\101\\x42\\q\n";
    assert_eq!(
        rows(text, 2).unwrap(),
        [
            row(&[Some("1"), Some("one")]),
            row(&[Some("2"), None]),
            row(&[Some("3"), Some("")]),
            row(&[Some("4"), Some("a\tb\nc\\dN")]),
            row(&[Some("5"), Some("ABq")]),
        ]
    );
}

#[test]
fn a_line_feed_behind_a_backslash_is_data() {
    assert_eq!(rows("a\\\nb\n", 1).unwrap(), [row(&[Some("a\nb")])]);
    assert_eq!(
        rows("a\\\\\nb\n", 1).unwrap(),
        [row(&[Some("a\\")]), row(&[Some("b")])]
    );
}

#[test]
fn a_point_ends_the_data() {
    assert_eq!(rows("1\n\\.\n2\n", 1).unwrap().len(), 1);
    assert_eq!(
        rows("1\n2", 1).unwrap().len(),
        2,
        "the last line needs no end"
    );
    assert_eq!(rows("", 1).unwrap().len(), 0);
}

#[test]
fn lines_of_other_widths_are_refused() {
    for (text, width) in [("1\t2\n", 1), ("1\n", 2), ("\n", 2)] {
        let error = rows(text, width).unwrap_err();
        assert_eq!(error.sqlstate(), "22P04", "{text:?}");
        assert!(error.message().contains("row 1 (line 1)"), "{error}");
    }
}

#[test]
fn a_nul_is_no_part_of_a_text() {
    for text in ["a\tb\n1\ta\0b\n", "a\tb\n1\ta\\0b\n", "a\tb\n1\ta\\x00\n"] {
        let error = rows(text, 2).unwrap_err();
        assert_eq!(error.sqlstate(), "22021", "{text:?}");
        assert_eq!(
            error.message(),
            "row 2 (line 2): invalid byte sequence for encoding \"UTF8\": 0x00"
        );
    }
}
