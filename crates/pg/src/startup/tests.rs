//! Tests of `startup`.

use super::*;

#[test]
fn options_are_settings() {
    let found = settings(r"-c a.b=1 -cc=two\ words  --lazybase.on-miss=error").unwrap();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        found,
        [
            pair("a.b", "1"),
            pair("c", "two words"),
            pair("lazybase.on_miss", "error")
        ]
    );
    for wrong in ["-c", "-c name", "-x 5", "name=value"] {
        assert_eq!(settings(wrong).unwrap_err().sqlstate(), "22023", "{wrong}");
    }
    assert!(settings("").unwrap().is_empty());
}
