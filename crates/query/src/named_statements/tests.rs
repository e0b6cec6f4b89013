//! Tests of `named_statements`.

use super::*;

fn of_bytes(bytes: usize) -> Named {
    Named {
        sql: "x".repeat(bytes),
        types: Vec::new(),
        from_sql: true,
        at_micros: 0,
        kept: None,
    }
}

/// Each statement is weighed once: what is there is not gone through for the next one.
#[test]
fn their_texts_take_so_many_bytes_and_give_them_back() {
    let named = NamedStatements::default();
    let half = KEPT_BYTES_MAX / 2;
    named.insert("a", of_bytes(half)).unwrap();
    named.insert("b", of_bytes(half)).unwrap();
    assert_eq!(
        named.insert("b", of_bytes(0)).unwrap_err().sqlstate(),
        "42P05"
    );
    assert_eq!(
        named.insert("c", of_bytes(1)).unwrap_err().sqlstate(),
        "53400"
    );
    assert_eq!(named.0.lock().bytes, 2 * half);
    assert_eq!(named.deallocate(Some("a")).unwrap(), "DEALLOCATE");
    assert_eq!(named.deallocate(Some("a")).unwrap_err().sqlstate(), "26000");
    assert_eq!(named.0.lock().bytes, half);
    named.insert("c", of_bytes(1)).unwrap();
    named.insert("a", of_bytes(half)).unwrap_err();
    assert_eq!(named.deallocate(None).unwrap(), "DEALLOCATE ALL");
    assert_eq!(named.0.lock().bytes, 0);
    named.insert("a", of_bytes(KEPT_BYTES_MAX)).unwrap();
}

#[test]
fn a_session_keeps_so_many() {
    let named = NamedStatements::default();
    for number in 0..KEPT_MAX {
        named.insert(&number.to_string(), of_bytes(1)).unwrap();
    }
    assert_eq!(
        named.insert("more", of_bytes(1)).unwrap_err().sqlstate(),
        "53400"
    );
}
