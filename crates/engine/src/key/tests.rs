//! Keys compare as their values do, have one spelling each, and keep their persisted bytes.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema};

use super::*;

fn codec(types: &[DataType]) -> KeyCodec {
    let fields: Vec<Field> = types
        .iter()
        .enumerate()
        .map(|(at, data_type)| Field::new(format!("c{at}"), data_type.clone(), false))
        .collect();
    KeyCodec::new(&Arc::new(Schema::new(fields)), (0..types.len()).collect()).unwrap()
}

fn encoded(codec: &KeyCodec, columns: &[ArrayRef]) -> Vec<Key> {
    let keys = codec.encode_columns(columns).unwrap();
    keys.iter().map(|row| Key::new(row.as_ref())).collect()
}

#[test]
fn persisted_bytes_never_change() {
    let codec = codec(&[DataType::Int64, DataType::Utf8]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![-1, 7])),
        Arc::new(StringArray::from(vec!["", "flight"])),
    ];
    let keys = encoded(&codec, &columns);
    assert_eq!(format!("{:?}", keys[0]), "017fffffffffffffff01");
    assert_eq!(
        format!("{:?}", keys[1]),
        "01800000000000000702666c69676874000006"
    );
}

#[test]
fn a_whole_number_is_the_same_key_without_arrays() {
    use DataType as T;
    let small = [0, 1, 7, 100];
    for data_type in [
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::UInt8,
        T::UInt16,
        T::UInt32,
        T::UInt64,
    ] {
        let codec = codec(std::slice::from_ref(&data_type));
        let (least, most) = match data_type {
            T::Int8 => (i8::MIN.into(), i8::MAX.into()),
            T::Int16 => (i16::MIN.into(), i16::MAX.into()),
            T::Int32 => (i32::MIN.into(), i32::MAX.into()),
            T::Int64 => (i64::MIN, i64::MAX),
            T::UInt8 => (0, u8::MAX.into()),
            T::UInt16 => (0, u16::MAX.into()),
            T::UInt32 => (0, u32::MAX.into()),
            _ => (0, i64::MAX),
        };
        for value in small.into_iter().chain([least, most]) {
            let column: ArrayRef = Arc::new(Int64Array::from(vec![value]));
            let column = arrow::compute::cast(&column, &data_type).unwrap();
            let expected = encoded(&codec, &[column]).pop();
            assert_eq!(codec.integer(value), expected, "{data_type} {value}");
        }
        for outside in [least.checked_sub(1), most.checked_add(1)] {
            let key = outside.and_then(|value| codec.integer(value));
            assert_eq!(key, None, "{data_type}");
        }
    }
    assert_eq!(codec(&[T::Utf8]).integer(1), None);
    assert_eq!(codec(&[T::Date32]).integer(1), None);
    assert_eq!(codec(&[T::Int64, T::Int64]).integer(1), None);
}

#[test]
fn only_keys_of_whole_numbers_are_looked_at_one_by_one() {
    let rows = |columns: Vec<ArrayRef>| {
        let fields = columns.iter().enumerate().map(|(at, column)| {
            let is_nullable = column.null_count() > 0;
            Field::new(format!("c{at}"), column.data_type().clone(), is_nullable)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        RecordBatch::try_new(schema, columns).unwrap()
    };
    let is_numbers = |of: &KeyCodec, columns: Vec<ArrayRef>| of.numbers(&rows(columns)).is_some();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let holed: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(2)]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 1.0]));
    let of_one = codec(&[DataType::Int64]);
    assert!(is_numbers(&of_one, vec![numbers.clone()]));
    assert!(!is_numbers(&of_one, vec![holed]));
    assert!(!is_numbers(&of_one, vec![texts.clone()]));
    let of_text = codec(&[DataType::Int64, DataType::Utf8]);
    assert!(!is_numbers(&of_text, vec![numbers.clone(), texts]));
    let of_float = codec(&[DataType::Int64, DataType::Float64]);
    assert!(!is_numbers(&of_float, vec![numbers, floats]));
}

#[test]
fn zero_and_nan_have_one_spelling() {
    let codec = codec(&[DataType::Float64]);
    let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
    let values = vec![0.0, -0.0, f64::NAN, other_nan, -f64::NAN, f64::INFINITY];
    let keys = encoded(&codec, &[Arc::new(Float64Array::from(values))]);
    assert_eq!(keys[0], keys[1]);
    assert_eq!(keys[2], keys[3]);
    assert_eq!(keys[2], keys[4]);
    assert!(keys[5] < keys[2], "NaN sorts after everything");
}

#[test]
fn a_key_decodes_to_its_cells() {
    let codec = codec(&[DataType::Utf8, DataType::Int64]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec!["b", "a\0z"])),
        Arc::new(Int64Array::from(vec![i64::MIN, 3])),
    ];
    let keys = encoded(&codec, &columns);
    let decoded = codec.decode(&keys).unwrap();
    assert_eq!(decoded, columns);
    let text = serde_json::to_string(&keys[0]).unwrap();
    assert_eq!(serde_json::from_str::<Key>(&text).unwrap(), keys[0]);
}
