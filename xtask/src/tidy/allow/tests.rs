//! An exception excuses what it names, and only with a reason.

use super::apply;
use crate::tidy::Finding;
use crate::tidy::tree::Tree;

fn long_function(name: &str) -> Finding {
    Finding {
        path: "a.rs".to_owned(),
        line: 7,
        rule: "function-length",
        item: name.to_owned(),
        message: String::new(),
    }
}

/// What is left of two long functions, as `rule line item`.
fn left(allow_list: &str) -> Vec<String> {
    let tree = Tree::of(&[("xtask/tidy-allow.txt", allow_list)]);
    let found = apply(&tree, vec![long_function("one"), long_function("two")]);
    found
        .into_iter()
        .map(|f| format!("{} {} {}", f.rule, f.line, f.item))
        .collect()
}

#[test]
fn an_exception_excuses_one_item_or_the_file() {
    let two = "function-length 7 two";
    assert_eq!(
        left("# why\n\nfunction-length | a.rs | one | one match over all edits"),
        [two]
    );
    assert!(left("function-length | a.rs | | one match | over all edits").is_empty());
}

#[test]
fn an_exception_without_a_reason_is_a_finding_and_excuses_nothing() {
    for line in [
        "function-length | a.rs | one",
        "function-length | a.rs | one | big",
        "x",
    ] {
        assert_eq!(left(line).len(), 3, "{line}");
        assert_eq!(left(line)[0], "allow-list 1 ");
    }
}

#[test]
fn an_exception_that_excuses_nothing_is_a_finding() {
    for line in [
        "function-length | a.rs | three | one match over all edits",
        "function-length | b.rs | one | one match over all edits",
        "file-length | a.rs | one | one match over all edits",
    ] {
        assert_eq!(left(line).len(), 3, "{line}");
        assert_eq!(left(line)[0], "allow-list 1 ");
    }
}
