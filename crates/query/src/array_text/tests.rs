//! Tests of `array_text`.

use super::*;

#[test]
fn elements_are_read_as_they_were_written() {
    let elements = [
        "1",
        "a b",
        "say \"x\"",
        "",
        "null",
        "{}",
        "back\\slash",
        "ä",
    ];
    let mut text = "{".to_owned();
    for element in elements {
        put_array_element(element, &mut text);
        text.push(',');
    }
    text.push_str("NULL}");
    let mut expected: Vec<Option<String>> = elements
        .iter()
        .map(|text| Some((*text).to_owned()))
        .collect();
    expected.push(None);
    assert_eq!(array_elements(&text), Some(expected), "{text}");
    assert_eq!(array_elements(" { } "), Some(vec![]));
    for wrong in [
        "",
        "1",
        "{1",
        "{{1},{2}}",
        "{1,}",
        "{\"a}",
        "{\"a\"b}",
        "{a\\}",
    ] {
        assert_eq!(array_elements(wrong), None, "{wrong}");
    }
}
