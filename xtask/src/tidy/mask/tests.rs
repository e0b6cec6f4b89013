//! The scanner against short texts; `·` in the expected text stands for a blanked character.

use super::{line_at, mask, words_at};

#[track_caller]
fn check(source: &str, expected: &str) {
    assert_eq!(mask(source), expected.replace('·', " "));
}

#[test]
fn comments_are_blanked_and_lines_stay() {
    check("a // b\nc", "a ····\nc");
    check("a /* b /* c */ d\n */ e", "a ··············\n··· e");
    check("a / b", "a / b");
}

#[test]
fn strings_are_blanked_with_their_escapes() {
    check(r#"f("a\"{", x)"#, "f(······, x)");
    check("f(\"// no\")", "f(·······)");
    check("b\"{\" c", "b··· c");
}

#[test]
fn raw_strings_end_at_their_own_hashes() {
    check(r##"r#"a "b" {"# c"##, "············ c");
    check("r#type = 1", "r#type = 1");
    check(r#"br"\" x"#, "····· x");
}

#[test]
fn characters_are_blanked_and_lifetimes_kept() {
    check("'{' 'a 'b' '\\'' '\\u{7f}'", "··· 'a ··· ···· ········");
    check("&'static str", "&'static str");
}

#[test]
fn words_have_borders() {
    let code = "fn fnord(){} fn a";
    assert_eq!(words_at(code, "fn").collect::<Vec<_>>(), [0, 13]);
    assert_eq!(line_at("a\nb\nc", 4), 3);
}
