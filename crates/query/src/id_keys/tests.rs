//! Natural keys as texts.

use super::text::values_of;

#[test]
fn rows_in_parentheses() {
    let values = |text: &str| {
        values_of(text).map(|values| {
            let shown = values
                .into_iter()
                .map(|value| value.unwrap_or("NULL".to_owned()));
            shown.collect::<Vec<_>>().join("|")
        })
    };
    for (text, expected) in [
        ("(web1,/var/log)", Some("web1|/var/log")),
        (" (a) ", Some("a")),
        ("(\"a,b\",\"c\"\"d\")", Some("a,b|c\"d")),
        ("(a\\,b, c )", Some("a,b| c ")),
        ("(,\"\")", Some("NULL|")),
        ("()", Some("NULL")),
        ("(a", None),
        ("a)", None),
        ("(\"a)", None),
        ("(a(b))", None),
        ("", None),
    ] {
        assert_eq!(values(text).as_deref(), expected, "{text}");
    }
}
