//! Labels by hand, and as a round trip through their texts.

use proptest::prelude::*;

use super::*;

fn authorized(terms: &[&str]) -> Authorizations {
    terms.iter().map(|term| (*term).to_owned()).collect()
}

#[test]
fn labels_admit_whom_they_say() {
    let cases: [(&str, &[&str], bool); 14] = [
        ("", &[], true),
        ("pii", &[], false),
        ("pii", &["pii"], true),
        ("pii", &["PII"], false),
        ("a&b", &["a"], false),
        ("a&b", &["b", "a"], true),
        ("a|b", &["b"], true),
        ("a|b", &["c"], false),
        ("a&(b|c)", &["a", "c"], true),
        ("a&(b|c)", &["b", "c"], false),
        ("(a&b)|c", &["c"], true),
        ("((a))", &["a"], true),
        ("\"of the \\\"board\\\"\"", &["of the \"board\""], true),
        ("eu/de:berlin-1.a_b", &["eu/de:berlin-1.a_b"], true),
    ];
    for (label, authorizations, admitted) in cases {
        let read = Label::parse(label).unwrap();
        assert_eq!(
            read.admits(&authorized(authorizations)),
            admitted,
            "{label} for {authorizations:?}"
        );
    }
}

#[test]
fn what_is_no_label_is_told_with_its_place() {
    let cases = [
        ("a&b|c", "& beside | needs parentheses at character 4"),
        ("a&", "a term is expected at character 3"),
        ("&a", "a term is expected at character 1"),
        ("()", "a term is expected at character 2"),
        ("(a", "a closing parenthesis is expected at character 3"),
        ("a)", "& or | is expected at character 2"),
        ("a b", "& or | is expected at character 2"),
        (" ", "a term is expected at character 1"),
        ("é", "a term is expected at character 1"),
        ("\"a", "an open quotation mark at character 1"),
        ("\"\"", "an empty term at character 1"),
        ("\"\\a\"", "only \\\" and \\\\ are escapes"),
    ];
    for (label, what) in cases {
        let error = Label::parse(label).unwrap_err();
        assert!(error.message().contains(what), "{label}: {error}");
        assert_eq!(error.sqlstate(), "22023");
    }
    let deep = "(".repeat(LABEL_DEPTH_MAX + 1) + "a" + &")".repeat(LABEL_DEPTH_MAX + 1);
    let error = Label::parse(&deep).unwrap_err();
    assert!(error.message().contains("too deep"), "{error}");
    assert!(Label::parse(&deep[1..deep.len() - 1]).is_ok());
    assert!(Label::parse(&"a".repeat(LABEL_BYTES_MAX + 1)).is_err());
}

#[test]
fn lists_of_authorizations_are_read() {
    let read = |text: &str| parse_authorizations(text).unwrap();
    assert_eq!(read(""), authorized(&[]));
    assert_eq!(read(" b , a,a"), authorized(&["a", "b"]));
    assert_eq!(read("\"x, y\",z"), authorized(&["x, y", "z"]));
    for wrong in ["a,", ",", "a b", "a;b", "\"a"] {
        assert_eq!(
            parse_authorizations(wrong).unwrap_err().sqlstate(),
            "22023",
            "{wrong}"
        );
    }
}

fn any_label() -> impl Strategy<Value = Label> {
    let term = prop_oneof!["[a-c]", "[ -~é]{1,6}"].prop_map(Label::Term);
    term.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Label::All),
            prop::collection::vec(inner, 2..4).prop_map(Label::Any),
        ]
    })
}

proptest! {
    #[test]
    fn a_label_is_read_back(label in any_label()) {
        let text = label.to_string();
        prop_assert_eq!(Label::parse(&text).unwrap(), label, "{}", text);
    }

    #[test]
    fn more_authorizations_show_more(
        label in any_label(),
        few in prop::collection::btree_set("[a-c]", 0..3),
        more in prop::collection::btree_set("[a-c]", 0..3),
    ) {
        let both: Authorizations = few.union(&more).cloned().collect();
        prop_assert!(!label.admits(&few) || label.admits(&both));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-c&|()\"\\\\ ]{0,16}") {
        if let Ok(label) = Label::parse(&text) {
            prop_assert_eq!(Label::parse(&label.to_string()).unwrap(), label);
        }
    }

    #[test]
    fn authorizations_are_read_back(all in prop::collection::btree_set("[ -~é]{1,6}", 0..4)) {
        let text = show_authorizations(&all);
        prop_assert_eq!(parse_authorizations(&text).unwrap(), all, "{}", text);
    }
}
