//! What is no SASL message.

use bytes::Bytes;

use super::initial;

fn sasl(mechanism: &str, length: i32, data: &str) -> Bytes {
    let parts = [
        mechanism.as_bytes(),
        &[0],
        &length.to_be_bytes(),
        data.as_bytes(),
    ];
    parts.concat().into()
}

#[test]
fn a_first_message_is_whole_and_of_a_mechanism_that_was_offered() {
    let first = "n,,n=,r=abc";
    let length = first.len() as i32;
    let taken = initial(sasl("SCRAM-SHA-256", length, first), false).unwrap();
    assert_eq!(taken, first.as_bytes());
    let bound = "p=tls-server-end-point,,n=,r=abc";
    let bound_length = bound.len() as i32;
    assert!(initial(sasl("SCRAM-SHA-256-PLUS", bound_length, bound), true).is_ok());
    for wrong in [
        sasl("SCRAM-SHA-256", length + 1, first),
        sasl("SCRAM-SHA-256", -1, first),
        sasl("SCRAM-SHA-256", i32::MAX, first),
        sasl("SCRAM-SHA-1", length, first),
        sasl("SCRAM-SHA-256-PLUS", bound_length, bound),
        sasl("SCRAM-SHA-256", bound_length, bound),
        Bytes::from_static(b"SCRAM-SHA-256"),
        Bytes::from_static(b"SCRAM-SHA-256\0\0\0"),
        Bytes::new(),
    ] {
        let error = initial(wrong, false).unwrap_err();
        assert_eq!(error.sqlstate(), "08P01");
    }
    assert!(initial(sasl("SCRAM-SHA-256-PLUS", length, first), true).is_err());
}
