//! Tests of `failure`.

use super::*;

fn field(response: &ErrorResponse, code: u8) -> Option<&str> {
    let found = response.fields.iter().find(|(field, _)| *field == code);
    found.map(|(_, text)| text.as_str())
}

#[test]
fn the_place_is_counted_in_characters_of_all_that_was_sent() {
    let sql = "SELECT 'ä',\n  FROM t";
    let known = Error::invalid("syntax error: Expected: x, found: FROM at Line: 2, Column: 3")
        .with_sqlstate("42601")
        .with_hint("look there");
    let response = error(&known, Severity::Error, sql, 10);
    assert_eq!(field(&response, b'C'), Some("42601"));
    assert_eq!(field(&response, b'H'), Some("look there"));
    assert_eq!(field(&response, b'P'), Some("25"));
    assert_eq!(field(&response, b'D'), None);
}

#[test]
fn a_message_without_a_place_has_none() {
    for message in [
        "no place",
        "Line: 9, Column: 1",
        "Line: x, Column: y",
        "Line: 0, Column: 1",
    ] {
        let response = error(&Error::invalid(message), Severity::Fatal, "SELECT", 0);
        assert_eq!(field(&response, b'P'), None, "{message}");
        assert_eq!(field(&response, b'S'), Some("FATAL"));
    }
}
