//! Tests of `failure`.

use lazybase_model::TextPlace;

use super::*;

fn field(response: &ErrorResponse, code: u8) -> Option<&str> {
    let found = response.fields.iter().find(|(field, _)| *field == code);
    found.map(|(_, text)| text.as_str())
}

#[test]
fn the_place_is_counted_in_characters_of_all_that_was_sent() {
    let text = "BEGIN; SELECT 'ä',\n  FROM t";
    let known = Error::invalid("syntax error at or near \"FROM\"")
        .with_sqlstate("42601")
        .with_place(TextPlace { line: 2, column: 3 })
        .with_hint("look there");
    let response = error(&known, Severity::Error, text);
    assert_eq!(field(&response, b'C'), Some("42601"));
    assert_eq!(field(&response, b'H'), Some("look there"));
    assert_eq!(field(&response, b'P'), Some("22"));
    assert_eq!(field(&response, b'D'), None);
}

#[test]
fn an_error_without_a_place_in_the_text_has_none() {
    let elsewhere = TextPlace { line: 9, column: 1 };
    for known in [
        Error::invalid("no place at Line: 1, Column: 1"),
        Error::invalid("none here").with_place(elsewhere),
    ] {
        let response = error(&known, Severity::Fatal, "SELECT");
        assert_eq!(field(&response, b'P'), None, "{known}");
        assert_eq!(field(&response, b'S'), Some("FATAL"));
    }
}
