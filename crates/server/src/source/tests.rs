//! Tests of `source`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use lazybase_model::ErrorKind;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::fuzz::read;
use super::{FileFormat, Mark, Source, TextOptions};

fn open(path: &Path, format: FileFormat) -> Source {
    let options = TextOptions::new(b',', Some("NA"));
    Source::open(path, format, &options, true, false).unwrap()
}

/// The first column of all that is left, and the mark after it.
fn rest(source: &mut Source) -> (Vec<i64>, Option<Mark>) {
    let mut values = Vec::new();
    let mut mark = None;
    while let Some(piece) = source.next_piece().unwrap() {
        for batch in &piece.batches {
            let column = batch.column(0).as_primitive::<Int64Type>();
            values.extend(column.values().iter().copied());
        }
        mark = Some(piece.mark);
    }
    (values, mark)
}

#[allow(clippy::disallowed_methods, reason = "a test makes its own files")]
fn put(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

#[test]
fn csv_goes_on_where_it_stopped_and_refuses_a_changed_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    put(&path, "n,text\n1,a\n2,\"b\nb\"\n3,NA");
    let mut source = open(&path, FileFormat::Csv);
    assert_eq!(source.schema().field(0).data_type(), &DataType::Int64);
    let (values, mark) = rest(&mut source);
    assert_eq!(values, [1, 2, 3]);
    let mark = mark.unwrap();

    let mut again = open(&path, FileFormat::Csv);
    again.resume(&mark, "a.csv").unwrap();
    assert_eq!(rest(&mut again), (vec![], None));

    put(&path, "n,text\n1,a\n2,\"b\nb\"\n3,NA\n4,d\n");
    let mut longer = open(&path, FileFormat::Csv);
    longer.resume(&mark, "a.csv").unwrap();
    assert_eq!(rest(&mut longer).0, [4]);

    for changed in [
        "n,text\n1,x\n2,\"b\nb\"\n3,NA\n4,d\n",
        "n,text\n1,a\n",
        "n,text\n1,a\n2,\"b\nb\"\n3,NAN\n",
    ] {
        put(&path, changed);
        let error = open(&path, FileFormat::Csv)
            .resume(&mark, "a.csv")
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{changed}");
    }
}

#[test]
fn json_lines_are_read_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    put(&path, "{\"n\":1}\n{\"n\":2,\"m\":null}\n\n");
    let (values, mark) = rest(&mut open(&path, FileFormat::Jsonl));
    assert_eq!(values, [1, 2]);
    assert_eq!(mark.unwrap().rows, 2);

    put(&path, "n,m\n1,\n2,\n");
    assert_eq!(rest(&mut open(&path, FileFormat::Csv)).0, [1, 2]);
}

fn parquet(folder: &Path, values: &[i64]) -> PathBuf {
    let path = folder.join("a.parquet");
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(10_000))
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    let file = writer.into_inner().unwrap();
    crate::wall::write_file(&path, &file).unwrap();
    path
}

#[test]
fn parquet_goes_on_inside_a_row_group() {
    let folder = tempfile::tempdir().unwrap();
    let values: Vec<i64> = (0..25_000).collect();
    let path = parquet(folder.path(), &values);
    let mut source = open(&path, FileFormat::Parquet);
    // 8,192 rows, the rest of the first group, and 8,192 of the second.
    let marks: Vec<Mark> = (0..3)
        .map(|_| source.next_piece().unwrap().unwrap().mark)
        .collect();
    assert_eq!(
        marks.iter().map(|mark| mark.rows).collect::<Vec<_>>(),
        [8_192, 10_000, 18_192]
    );
    for mark in &marks {
        let mut again = open(&path, FileFormat::Parquet);
        again.resume(mark, "a.parquet").unwrap();
        assert_eq!(rest(&mut again).0, values[mark.rows as usize..]);
    }
    let mut changed = values;
    changed[24_999] = 7;
    let path = parquet(folder.path(), &changed);
    let error = open(&path, FileFormat::Parquet)
        .resume(&marks[0], "a.parquet")
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
}

fn corpus(name: &str) -> PathBuf {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/load-parquet"
    );
    Path::new(folder).join(name)
}

/// What is wrong with a Parquet file whose marks nobody wants.
fn refused(path: &Path) -> lazybase_model::Error {
    let options = TextOptions::new(b',', None);
    Source::open(path, FileFormat::Parquet, &options, false, false)
        .and_then(|mut source| source.next_piece().map(drop))
        .unwrap_err()
}

#[test]
fn a_footer_with_impossible_numbers_is_an_error_of_the_file() {
    let whole = fs::read(corpus("whole")).unwrap();
    assert_eq!(read(&whole, FileFormat::Parquet, false), 3);
    for name in [
        "a-group-of-less-than-no-rows",
        "a-column-of-less-than-no-bytes",
    ] {
        let error = refused(&corpus(name));
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name}: {error}");
        assert!(
            error.message().starts_with("not a whole Parquet file"),
            "{name}: {error}"
        );
    }
}

/// Room for a column's pages is made by the footer, whose numbers are the sender's.
#[test]
fn a_column_that_the_file_is_too_short_for_is_refused_before_room_is_made_for_it() {
    let error = refused(&corpus("a-column-beyond-the-file"));
    assert_eq!(error.message(), "the file ends inside a row group");
}

/// A file without rows whose one column has values of so many bytes.
fn of_width(folder: &Path, bytes: i32) -> PathBuf {
    let path = folder.join("wide.parquet");
    let columns = format!("message m {{ required fixed_len_byte_array({bytes}) a; }}");
    let columns = Arc::new(parse_message_type(&columns).unwrap());
    let properties = Arc::new(WriterProperties::new());
    let mut file = Vec::new();
    let writer = SerializedFileWriter::new(&mut file, columns, properties).unwrap();
    writer.close().unwrap();
    crate::wall::write_file(&path, &file).unwrap();
    path
}

/// Room for a batch is made by the width of its values.
#[test]
fn values_longer_than_the_file_are_refused_before_room_is_made_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let options = TextOptions::new(b',', None);
    let opened = |path: &Path| Source::open(path, FileFormat::Parquet, &options, false, false);
    assert!(opened(&of_width(folder.path(), 16)).is_ok());
    let error = opened(&of_width(folder.path(), i32::MAX)).err().unwrap();
    let message = "not a whole Parquet file: its values are longer than the file";
    assert_eq!(error.message(), message);
}
