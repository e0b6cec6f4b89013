//! Values of every kind, and broken ones.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Date32Type, TimestampMicrosecondType};
use tokio_postgres::types::Type;

use super::{array, decimal};

#[test]
fn fixed_values_are_read_and_broken_ones_refused() {
    let days = 1_i32.to_be_bytes();
    let dates = array(&Type::DATE, -1, &[Some(&days), None]).unwrap();
    assert_eq!(dates.as_primitive::<Date32Type>().value(0), 10_958);
    assert!(dates.is_null(1));
    let micros = 5_i64.to_be_bytes();
    let moments = array(&Type::TIMESTAMPTZ, -1, &[Some(&micros)]).unwrap();
    let value = moments.as_primitive::<TimestampMicrosecondType>().value(0);
    assert_eq!(value, 946_684_800_000_005);
    for of in [
        Type::BOOL,
        Type::INT2,
        Type::INT8,
        Type::INTERVAL,
        Type::UUID,
    ] {
        assert!(array(&of, -1, &[Some(&[1, 2, 3])]).is_err(), "{of}");
    }
    let uuid = array(&Type::UUID, -1, &[Some(&[0x1f; 16])]).unwrap();
    let text = "1f1f1f1f-1f1f-1f1f-1f1f-1f1f1f1f1f1f";
    assert_eq!(uuid.as_string::<i32>().value(0), text);
}

#[test]
fn arrays_are_lists() {
    let mut bytes = Vec::new();
    for number in [1, 1, 23, 2, 1, 4, 7, -1] {
        bytes.extend_from_slice(&i32::to_be_bytes(number));
    }
    let list = array(&Type::INT4_ARRAY, -1, &[Some(&bytes), None]).unwrap();
    assert_eq!(list.data_type(), &DataType::new_list(DataType::Int32, true));
    let first = list.as_list::<i32>().value(0);
    assert_eq!((first.len(), first.null_count()), (2, 1));
    assert!(array(&Type::INT4_ARRAY, -1, &[Some(&bytes[..22])]).is_err());
}

#[test]
fn modifiers_tell_precision_and_scale() {
    assert_eq!(decimal(-1), None);
    assert_eq!(decimal((12 << 16 | 3) + 4), Some((12, 3)));
    assert_eq!(decimal((12 << 16 | 0x7fe) + 4), Some((12, -2)));
    assert_eq!(decimal((60 << 16 | 3) + 4), None);
}
