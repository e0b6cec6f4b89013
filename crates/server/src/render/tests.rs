//! Tests of `render`.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Int32Array, ListArray, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Int32Type, TimeUnit};

use super::{ResultWriter, TableStyle, cell_texts, print_rows, sql_type};
use crate::cli::Format;

fn sample() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(300)]));
    let texts = vec![Some("a,b"), Some("NULL"), None];
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    RecordBatch::try_from_iter([("n", numbers), ("text", texts)]).unwrap()
}

fn written(format: Format, batches: &[RecordBatch]) -> String {
    let mut bytes = Vec::new();
    let schema = batches[0].schema();
    let mut writer = ResultWriter::new(format, schema, TableStyle::default(), &mut bytes);
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn null_never_looks_like_a_text() {
    let expected = "  n   |  text
------+--------
    1 | a,b
 NULL | \"NULL\"
  300 | NULL
(3 rows)
";
    assert_eq!(written(Format::Table, &[sample()]), expected);
}

#[test]
fn years_before_1_and_after_9999_are_spelt_as_postgresql_does() {
    let days = vec![-719_163, -719_162, 2_932_896, 2_932_897];
    let days: ArrayRef = Arc::new(Date32Array::from(days));
    let texts: Vec<String> = cell_texts(&days).unwrap().into_iter().flatten().collect();
    let expected = ["0001-12-31 BC", "0001-01-01", "9999-12-31", "10000-01-01"];
    assert_eq!(texts, expected);
    let moments = vec![-719_162 * 86_400_000_000 - 1, 0];
    let moments: ArrayRef = Arc::new(TimestampMicrosecondArray::from(moments));
    let texts: Vec<String> = cell_texts(&moments)
        .unwrap()
        .into_iter()
        .flatten()
        .collect();
    let expected = ["0001-12-31 23:59:59.999999 BC", "1970-01-01 00:00:00"];
    assert_eq!(texts, expected);
}

#[test]
fn csv_and_json_hold_data_only() {
    let csv = "n,text\n1,\"a,b\"\n,NULL\n300,\n";
    assert_eq!(written(Format::Csv, &[sample()]), csv);
    let json = r#"{"n":1,"text":"a,b"}
{"n":null,"text":"NULL"}
{"n":300,"text":null}
"#;
    assert_eq!(written(Format::Json, &[sample()]), json);
}

#[test]
fn an_empty_result_has_its_columns() {
    let empty = sample().slice(0, 0);
    assert_eq!(
        written(Format::Csv, std::slice::from_ref(&empty)),
        "n,text\n"
    );
    assert_eq!(written(Format::Json, std::slice::from_ref(&empty)), "");
    let table = " n | text\n---+------\n(0 rows)\n";
    assert_eq!(written(Format::Table, &[empty]), table);
}

#[test]
fn more_rows_than_the_sample_follow_the_same_widths() {
    let many: Vec<RecordBatch> = (0..500).map(|_| sample()).collect();
    let text = written(Format::Table, &many);
    assert_eq!(text.lines().count(), 2 + 1500 + 1);
    assert!(text.ends_with("(1,500 rows)\n"));
}

#[test]
fn what_is_too_wide_is_written_row_by_row() {
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a\nb"), None]));
    let number: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("n", number), ("text", text)]).unwrap();
    let written = |width, records| {
        let mut bytes = Vec::new();
        let style = TableStyle {
            colour: false,
            width,
            records,
        };
        let mut writer = ResultWriter::new(Format::Table, batch.schema(), style, &mut bytes);
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let columns = " n | text\n---+------\n 1 | a\\nb\n 2 | NULL\n(2 rows)\n";
    assert_eq!(written(None, false), columns);
    assert_eq!(written(Some(10), false), columns);
    let rows =
        "-- row 1\n n    | 1\n text | a\n      | b\n-- row 2\n n    | 2\n text | NULL\n(2 rows)\n";
    assert_eq!(written(Some(9), false), rows);
    assert_eq!(written(None, true), rows);
}

#[test]
fn control_characters_and_lists_stay_on_their_line() {
    let list = vec![Some(vec![Some(1), None]), None];
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(list));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a\nb", "c"]));
    let batch = RecordBatch::try_from_iter([("list", list), ("text", text)]).unwrap();
    let table = written(Format::Table, std::slice::from_ref(&batch));
    assert!(table.contains(" [1,null] | a\\nb\n"), "{table}");
    let csv = written(Format::Csv, &[batch]);
    assert!(csv.contains("\"[1,null]\",\"a\nb\""), "{csv}");
}

#[test]
fn reports_are_aligned() {
    let rows = vec![
        vec!["a".to_owned(), "1".to_owned()],
        vec!["long".to_owned(), "100".to_owned()],
    ];
    let expected = "name  count\n----  -----\na         1\nlong    100\n";
    assert_eq!(
        print_rows(&["name", "count"], &[false, true], &rows),
        expected
    );
}

#[test]
fn types_have_sql_names() {
    assert_eq!(sql_type(&DataType::Int32), "integer");
    let instant = DataType::Timestamp(TimeUnit::Microsecond, None);
    assert_eq!(sql_type(&instant), "timestamp");
    assert_eq!(sql_type(&DataType::Decimal128(10, 2)), "decimal(10,2)");
}
