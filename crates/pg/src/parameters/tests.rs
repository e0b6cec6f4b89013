//! Tests of `parameters`.

use super::*;

fn text(oid: u32, text: &str) -> Result<Value> {
    value(1, oid, 0, Some(&Bytes::copy_from_slice(text.as_bytes())))
}

fn binary(oid: u32, bytes: &[u8]) -> Result<Value> {
    value(1, oid, 1, Some(&Bytes::copy_from_slice(bytes)))
}

#[test]
fn texts_become_values_of_their_types() {
    assert_eq!(text(types::INT8, " 42").unwrap(), Value::Int(42));
    assert_eq!(text(types::BOOL, "T").unwrap(), Value::Bool(true));
    assert_eq!(
        text(types::NUMERIC, "-1.50").unwrap(),
        Value::Decimal("-1.50".to_owned())
    );
    assert_eq!(
        text(types::NUMERIC, "1e3").unwrap(),
        Value::Decimal("1000".to_owned())
    );
    assert_eq!(
        text(types::BYTEA, "\\x00ff").unwrap(),
        Value::Bytes(vec![0, 255])
    );
    assert_eq!(
        text(types::BYTEA, "a\\\\\\001").unwrap(),
        Value::Bytes(b"a\\\x01".to_vec())
    );
    assert_eq!(text(0, "5").unwrap(), Value::Text("5".to_owned()));
    assert_eq!(
        text(1016, "{1, NULL,3}").unwrap(),
        Value::List(vec![Value::Int(1), Value::Null, Value::Int(3)])
    );
    assert_eq!(
        text(1009, "{\"a,b\",c,\"NULL\"}").unwrap(),
        Value::List(vec!["a,b".into(), "c".into(), "NULL".into()])
    );
    let spelt = Value::from("0a0b0c0d-0e0f-1011-1213-141516171819");
    for given in [
        "0A0B0C0D0e0f10111213141516171819",
        "{0a0b0c0d-0e0f-1011-1213-141516171819}",
    ] {
        assert_eq!(text(types::UUID, given).unwrap(), spelt);
    }
    assert_eq!(
        text(2951, "{0A0B0C0D0e0f10111213141516171819,NULL}").unwrap(),
        Value::List(vec![spelt, Value::Null])
    );
    for (oid, wrong) in [
        (types::INT4, "x"),
        (types::UUID, "0a0b"),
        (types::BOOL, "perhaps"),
        (types::NUMERIC, "1.2.3"),
        (types::BYTEA, "\\x0"),
        (1007, "{1"),
        (1007, "{{1}}"),
    ] {
        let error = text(oid, wrong).unwrap_err();
        assert_eq!(error.sqlstate(), "22P02", "{wrong}");
        assert!(error.message().starts_with("parameter $1: "), "{error}");
    }
}

#[test]
fn bytes_become_values_of_their_types() {
    assert_eq!(binary(types::INT2, &[0xff, 0xfe]).unwrap(), Value::Int(-2));
    assert_eq!(
        binary(types::FLOAT4, &0.1_f32.to_be_bytes()).unwrap(),
        Value::Float(0.1)
    );
    let moment = binary(types::TIMESTAMPTZ, &500_000_i64.to_be_bytes()).unwrap();
    let Value::Typed(_, spelt) = moment else {
        panic!("{moment:?}");
    };
    assert_eq!(spelt, "2000-01-01 00:00:00.5+00");
    let uuid = binary(types::UUID, &[0xab; 16]).unwrap();
    assert_eq!(
        uuid,
        Value::Text("abababab-abab-abab-abab-abababababab".to_owned())
    );
    let mut list = Vec::new();
    for part in [1_i32, 1, 23, 2, 1, 4, 7, -1] {
        list.extend_from_slice(&part.to_be_bytes());
    }
    assert_eq!(
        binary(1007, &list).unwrap(),
        Value::List(vec![Value::Int(7), Value::Null])
    );
    for cut in 0..list.len() {
        assert!(binary(1007, &list[..cut]).is_err(), "{cut}");
    }
    let mut longer = list.clone();
    longer.push(0);
    assert_eq!(binary(1007, &longer).unwrap_err().sqlstate(), "08P01");
    let mut negative = list.clone();
    negative[12..16].copy_from_slice(&(-1_i32).to_be_bytes());
    assert_eq!(binary(1007, &negative).unwrap_err().sqlstate(), "08P01");
    list[8..12].copy_from_slice(&1007_i32.to_be_bytes());
    assert_eq!(binary(1007, &list).unwrap_err().sqlstate(), "0A000");
    assert_eq!(binary(types::INT8, &[1]).unwrap_err().sqlstate(), "22P03");
    assert!(binary(types::TIMESTAMP, &i64::MAX.to_be_bytes()).is_err());
    assert_eq!(binary(9999, &[1]).unwrap_err().sqlstate(), "0A000");
}

#[test]
fn a_nul_is_no_part_of_a_text() {
    for error in [
        text(types::TEXT, "a\0b").unwrap_err(),
        text(types::INT4, "1\0").unwrap_err(),
        binary(types::VARCHAR, b"\0").unwrap_err(),
        binary(types::JSONB, b"\x01{}\0").unwrap_err(),
    ] {
        assert_eq!(error.sqlstate(), "22021");
        assert!(error.message().ends_with("\"UTF8\": 0x00"), "{error}");
    }
    assert!(text(types::TEXT, "a\u{1}b").is_ok());
}
