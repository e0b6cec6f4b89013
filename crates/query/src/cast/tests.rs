//! Tests of `cast`.

use arrow::array::{BinaryArray, Float64Array, Int64Array, StringViewArray};
use arrow::datatypes::Int32Type;

use super::*;

fn column(data_type: DataType, nullable: bool) -> Column {
    Column {
        nullable,
        ..Column::new("c", data_type)
    }
}

fn cast(values: ArrayRef, data_type: DataType) -> Result<ArrayRef> {
    let column = column(data_type, true);
    to_column(
        &values,
        &Place {
            table: "t",
            column: &column,
            first_row: 11,
        },
    )
}

#[test]
fn numbers_fit_or_are_named() {
    let ints = cast(
        Arc::new(Int64Array::from(vec![Some(1), None])),
        DataType::Int32,
    )
    .unwrap();
    assert_eq!(ints.as_primitive::<Int32Type>().value(0), 1);
    let error = cast(
        Arc::new(Int64Array::from(vec![1, 1 << 40])),
        DataType::Int32,
    )
    .unwrap_err();
    assert_eq!(error.sqlstate(), "22003");
    assert!(error.message().contains("row 12"), "{error}");
    let rounded = cast(
        Arc::new(Float64Array::from(vec![1.6, -1.6])),
        DataType::Int32,
    )
    .unwrap();
    assert_eq!(rounded.as_primitive::<Int32Type>().values(), &[2, -2]);
    let nan = cast(
        Arc::new(Float64Array::from(vec![f64::NAN])),
        DataType::Int32,
    );
    assert_eq!(nan.unwrap_err().sqlstate(), "22003");
}

#[test]
fn texts_of_every_layout_are_read() {
    let views: ArrayRef = Arc::new(StringViewArray::from(vec![Some("7"), None]));
    let ints = cast(views, DataType::Int32).unwrap();
    assert_eq!(ints.as_primitive::<Int32Type>().value(0), 7);
    let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(uuid), None]));
    let uuids = cast(texts, UUID).unwrap();
    assert_eq!(uuid_text(&uuids).as_string::<i32>().value(0), uuid);
    assert!(uuid_text(&uuids).is_null(1));
}

#[test]
fn what_has_no_cast_is_refused() {
    let bytes: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"x"]));
    assert_eq!(
        cast(bytes, DataType::Date32).unwrap_err().sqlstate(),
        "42804"
    );
}

#[test]
fn nulls_and_long_cells_are_named() {
    let strict = column(DataType::Utf8, false);
    let place = Place {
        table: "t",
        column: &strict,
        first_row: 1,
    };
    let values: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let error = checked_cells(values, false, &place).unwrap_err();
    assert_eq!(
        (error.sqlstate(), error.message().contains("row 2")),
        ("23502", true)
    );
    let long = "x".repeat(CELL_BYTES_MAX + 1);
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", long.as_str()]));
    assert_eq!(
        checked_cells(values, false, &place).unwrap_err().sqlstate(),
        "54000"
    );
    let fits = "x".repeat(CELL_BYTES_MAX);
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", fits.as_str()]));
    assert!(checked_cells(values, false, &place).is_ok());
}

#[test]
fn texts_longer_than_their_column_are_named() {
    let limited = Column {
        characters_max: Some(2),
        ..Column::new("c", DataType::Utf8)
    };
    let place = Place {
        table: "t",
        column: &limited,
        first_row: 5,
    };
    let texts =
        |texts: &[Option<&str>]| -> ArrayRef { Arc::new(StringArray::from(texts.to_vec())) };
    let long = texts(&[Some("äö"), None, Some("abc")]);
    let error = checked_cells(Arc::clone(&long), false, &place).unwrap_err();
    assert_eq!(error.sqlstate(), "22001");
    assert_eq!(
        error.message(),
        "table \"t\", column \"c\", row 7: \"abc\" is too long for VARCHAR(2)"
    );
    assert!(checked_cells(long.slice(0, 2), false, &place).is_ok());
    assert!(checked_key(long.slice(2, 1), &place).is_ok());
}

#[test]
fn floating_keys_have_one_spelling() {
    let floats = column(DataType::Float64, false);
    let place = Place {
        table: "t",
        column: &floats,
        first_row: 1,
    };
    let values: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, -f64::NAN]));
    let stored = checked_cells(values, true, &place).unwrap();
    let stored = stored.as_primitive::<Float64Type>();
    assert_eq!(stored.value(0).to_bits(), 0.0_f64.to_bits());
    assert_eq!(stored.value(1).to_bits(), f64::NAN.to_bits());
}

#[test]
fn other_numbers_have_one_nan_and_keep_the_sign_of_zero() {
    let floats = column(DataType::Float64, false);
    let place = Place {
        table: "t",
        column: &floats,
        first_row: 1,
    };
    let values: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, -f64::NAN, -1.5]));
    let stored = checked_cells(values, false, &place).unwrap();
    let stored = stored.as_primitive::<Float64Type>().values().iter();
    let stored: Vec<u64> = stored.map(|number| number.to_bits()).collect();
    assert_eq!(stored, [-0.0, f64::NAN, -1.5].map(f64::to_bits));
}

/// The values of texts, as texts again.
fn read(text: &str, data_type: DataType) -> Result<String> {
    let values = cast(Arc::new(StringArray::from(vec![text])), data_type)?;
    Ok(array_value_to_string(&values, 0).unwrap())
}

#[test]
fn decimals_may_have_exponents() {
    for (text, expected) in [
        ("1.25e0", "1.3"),
        ("1e2", "100.0"),
        ("-12.5E-1", "-1.3"),
        ("+.5e1", "5.0"),
        ("1e-150", "0.0"),
    ] {
        let read = read(text, DataType::Decimal128(4, 1)).unwrap();
        assert_eq!(read, expected, "{text}");
    }
    let long = format!("-0.25{}1", "0".repeat(100));
    let rounded = read(&long, DataType::Decimal128(4, 1)).unwrap();
    assert_eq!(rounded, "-0.3");
    assert!(read(&format!("{long}x"), DataType::Decimal128(4, 1)).is_err());
    for text in ["e1", "1e", "1e2.5", "--1e1", "1e5", "xe1"] {
        assert!(read(text, DataType::Decimal128(4, 1)).is_err(), "{text}");
    }
}

#[test]
fn values_in_lists_and_structs_are_whole_or_refused() {
    let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let ints = DataType::List(item(DataType::Int32));
    assert_eq!(read("[1, null, 3]", ints.clone()).unwrap(), "[1, , 3]");
    let error = read("[1.5]", ints.clone()).unwrap_err();
    assert_eq!(error.sqlstate(), "22P02");
    assert!(error.message().contains("row 11: \"[1.5]\""), "{error}");
    let decimals = DataType::List(item(DataType::Decimal128(4, 1)));
    assert_eq!(read("[1.25, \"2\"]", decimals).unwrap(), "[1.3, 2.0]");
    let fields = vec![
        Field::new("a", ints, true),
        Field::new("b", DataType::Utf8, true),
    ];
    let pair = DataType::Struct(fields.into());
    assert_eq!(
        read("{\"a\": [1], \"b\": 7}", pair.clone()).unwrap(),
        "{a: [1], b: 7}"
    );
    assert!(read("{\"a\": [1.5]}", pair).is_err());
}
