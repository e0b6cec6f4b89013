//! Tests of `decimal`.

use super::*;

#[test]
fn numbers_go_there_and_back() {
    for number in [
        "0",
        "0.00",
        "1",
        "-1",
        "9999",
        "10000",
        "10001",
        "100000000",
        "0.5",
        "0.0001",
        "0.00001",
        "-12345678901234567890.123456789",
        "1000000000000",
        "99999999999999999999999999999999999999",
        "0.0000000001",
        "-0.10",
        "123.4500",
    ] {
        let mut bytes = BytesMut::new();
        put(number, &mut bytes);
        assert_eq!(text(&bytes.freeze()).unwrap(), number);
    }
}

#[test]
fn the_bytes_are_those_of_postgresql() {
    let mut bytes = BytesMut::new();
    put("-12345.678", &mut bytes);
    let expected: Vec<u8> = [3_u16, 1, 0x4000, 3, 1, 2345, 6780]
        .iter()
        .flat_map(|part| part.to_be_bytes())
        .collect();
    assert_eq!(&bytes[..], expected);
}

#[test]
fn other_bytes_are_refused() {
    let nan = Bytes::from_static(&[0, 0, 0, 0, 0xc0, 0, 0, 0]);
    assert_eq!(text(&nan).unwrap(), "NaN");
    for bytes in [
        &[][..],
        &[0, 1, 0, 0, 0, 0, 0, 0],
        &[0, 1, 0, 0, 0, 0, 0, 0, 0xff, 0xff],
        &[0, 0, 0x7f, 0xff, 0, 0, 0, 0],
        &[0, 0, 0, 0, 0, 1, 0, 0],
    ] {
        assert!(text(&Bytes::copy_from_slice(bytes)).is_err(), "{bytes:?}");
    }
}

#[test]
fn exponents_are_written_out() {
    for (text, expected) in [
        ("12", Some("12")),
        ("+1.50", Some("1.50")),
        ("-.5", Some("-0.5")),
        ("5.", Some("5")),
        ("1e3", Some("1000")),
        ("1.25E1", Some("12.5")),
        ("-12.5e-3", Some("-0.0125")),
        ("", None),
        (".", None),
        ("1e", None),
        ("1e99999", None),
        ("1e-99999", None),
        ("1e2147483647", None),
        ("1e-2147483648", None),
        ("0x10", None),
        ("NaN", None),
        ("--1", None),
    ] {
        assert_eq!(plain(text).as_deref(), expected, "{text:?}");
    }
}
