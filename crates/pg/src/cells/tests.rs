//! Tests of `cells`.

use arrow::array::{
    Decimal128Array, Float64Array, Int32Array, StringArray, StructArray, Time64NanosecondArray,
    TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::Int32Type;

use super::*;

fn texts(column: ArrayRef) -> Vec<Option<String>> {
    let batch = RecordBatch::try_from_iter_with_nullable([("c", column, true)]).unwrap();
    let rows = Rows::new(&batch, &batch.schema(), &[]).unwrap();
    let mut texts = Vec::new();
    for row in 0..rows.count {
        rows.each_text(row, |text| {
            texts.push(text.map(|text| String::from_utf8(text.to_vec()).unwrap()));
        });
    }
    texts
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

#[test]
fn numbers_are_spelt_as_postgresql_does() {
    let floats = [
        0.1,
        1e20,
        1e-7,
        f64::NAN,
        f64::NEG_INFINITY,
        -0.5,
        1234567.0,
    ];
    assert_eq!(
        texts(Arc::new(Float64Array::from(floats.to_vec()))),
        some(&[
            "0.1",
            "1e+20",
            "1e-07",
            "NaN",
            "-Infinity",
            "-0.5",
            "1234567"
        ])
    );
    let decimals = Decimal128Array::from(vec![Some(1050), None, Some(-5)]);
    let decimals = decimals.with_precision_and_scale(10, 2).unwrap();
    let mut expected = some(&["10.50", "", "-0.05"]);
    expected[1] = None;
    assert_eq!(texts(Arc::new(decimals)), expected);
    let large = UInt64Array::from(vec![u64::MAX]);
    assert_eq!(texts(Arc::new(large)), some(&["18446744073709551615"]));
}

#[test]
fn nanoseconds_are_whole_in_texts_and_cut_in_binary() {
    let clocks: ArrayRef = Arc::new(Time64NanosecondArray::from(vec![86_399_000_000_001]));
    let moments: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![-1]));
    assert_eq!(texts(Arc::clone(&clocks)), some(&["23:59:59.000000001"]));
    assert_eq!(
        texts(Arc::clone(&moments)),
        some(&["1969-12-31 23:59:59.999999999"])
    );
    let batch = RecordBatch::try_from_iter([("c", clocks), ("m", moments)]).unwrap();
    let rows = Rows::new(&batch, &batch.schema(), &[1]).unwrap();
    let mut out = BytesMut::new();
    rows.put_cells(0, &mut out);
    let (clock, moment) = (86_399_000_000_i64, -1 - text_form::EPOCH_MICROS);
    assert_eq!(&out[4..12], clock.to_be_bytes());
    assert_eq!(&out[16..], moment.to_be_bytes());
}

#[test]
fn lists_and_structs_have_texts() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None, Some(3)]),
        Some(vec![]),
    ]);
    assert_eq!(texts(Arc::new(lists)), some(&["{1,NULL,3}", "{}"]));
    let mut words = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
    words.append_value([
        Some("a b"),
        Some("say \"x\""),
        Some(""),
        Some("null"),
        Some("c"),
    ]);
    assert_eq!(
        texts(Arc::new(words.finish())),
        some(&["{\"a b\",\"say \\\"x\\\"\",\"\",\"null\",c}"])
    );
    let parts = StructArray::try_from(vec![
        (
            "n",
            Arc::new(Int32Array::from(vec![Some(1), None])) as ArrayRef,
        ),
        (
            "t",
            Arc::new(StringArray::from(vec!["a\"b", "c"])) as ArrayRef,
        ),
    ]);
    assert_eq!(
        texts(Arc::new(parts.unwrap())),
        some(&["{\"n\":1,\"t\":\"a\\\"b\"}", "{\"n\":null,\"t\":\"c\"}"])
    );
}

#[test]
fn a_row_is_a_message() {
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(258), None]));
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("a", Arc::clone(&numbers), true),
        ("b", numbers, true),
    ])
    .unwrap();
    let rows = Rows::new(&batch, &batch.schema(), &[1, 0]).unwrap();
    let mut out = BytesMut::new();
    rows.put_row(0, &mut out);
    assert_eq!(
        &out[..],
        b"D\0\0\0\x15\0\x02\0\0\0\x04\0\0\x01\x02\0\0\0\x03258"
    );
    out.clear();
    rows.put_row(1, &mut out);
    assert_eq!(
        &out[..],
        b"D\0\0\0\x0e\0\x02\xff\xff\xff\xff\xff\xff\xff\xff"
    );
}

#[test]
fn what_was_told_is_kept_or_refused() {
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![7]));
    let batch = RecordBatch::try_from_iter([("a", numbers)]).unwrap();
    let told = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
    let rows = Rows::new(&batch, &told, &[1]).unwrap();
    let mut out = BytesMut::new();
    rows.put_cells(0, &mut out);
    assert_eq!(&out[..], b"\0\0\0\x08\0\0\0\0\0\0\0\x07");
    let other = Schema::empty();
    assert_eq!(
        Rows::new(&batch, &other, &[]).err().unwrap().sqlstate(),
        "0A000"
    );
}
