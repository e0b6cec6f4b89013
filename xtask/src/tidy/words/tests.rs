//! Every banned word fires, and its harmless neighbours do not.

use super::{BANNED_IN_RUST, BANNED_MARKS, BANNED_PHRASES, EMPTY_NAMES, HOST_FOLDERS, check};
use crate::tidy::tree::Tree;

/// The findings for one file, as `rule line item`.
fn findings(path: &str, text: &str) -> Vec<String> {
    let tell = |f: crate::tidy::Finding| format!("{} {} {}", f.rule, f.line, f.item);
    check(&Tree::of(&[(path, text)]))
        .into_iter()
        .map(tell)
        .collect()
}

#[test]
fn unfinished_code_is_banned_in_rust() {
    for word in BANNED_IN_RUST {
        let text = format!("\n    {word}(a)\n");
        assert_eq!(findings("a.rs", &text), [format!("banned-word 2 {word}")]);
        assert!(
            findings("a.md", &text).is_empty(),
            "{word} is banned in Rust alone"
        );
    }
    let reason = concat!("#[ig", "nore = \"slow\"]");
    assert_eq!(findings("a.rs", reason).len(), 1);
    let longer = concat!("a_to", "do!()");
    assert!(findings("a.rs", longer).is_empty());
}

#[test]
fn marks_and_phrases_are_banned_in_every_prose() {
    for word in BANNED_MARKS.iter().chain(&BANNED_PHRASES) {
        for path in ["a.rs", "docs/a.md", "a.toml", "tests/slt/a.slt", "a.py"] {
            let text = format!("// One.\n// This is {word}, then.");
            assert_eq!(
                findings(path, &text),
                [format!("banned-word 2 {word}")],
                "{path}"
            );
        }
        assert!(findings("a.csv", word).is_empty());
    }
}

#[test]
fn phrases_are_banned_in_any_case_and_marks_in_their_own() {
    for phrase in BANNED_PHRASES {
        assert_eq!(findings("a.md", &phrase.to_uppercase()).len(), 1);
    }
    for mark in BANNED_MARKS {
        assert!(findings("a.md", &mark.to_lowercase()).is_empty());
        assert!(findings("a.md", &format!("{mark}{mark}")).is_empty());
    }
}

#[test]
fn longer_words_and_calls_are_left_alone() {
    let start = BANNED_PHRASES[0];
    assert!(findings("a.md", &format!("{start}here, over{start}")).is_empty());
    assert!(findings("a.rs", &format!("// wait {start}()")).is_empty());
}

#[test]
fn host_paths_fire_where_a_path_begins() {
    for folder in HOST_FOLDERS {
        for text in [
            format!("{folder}a"),
            format!("\n\"{folder}a\""),
            format!("a={folder}b"),
        ] {
            assert_eq!(findings("a.json", &text).len(), 1, "{text}");
        }
        for text in [
            format!("crates{folder}a"),
            format!("~{folder}a"),
            format!("x.org{folder}"),
        ] {
            assert!(findings("a.json", &text).is_empty(), "{text}");
        }
    }
}

#[test]
fn empty_module_names_fire_for_files_folders_and_inline_modules() {
    for name in EMPTY_NAMES {
        assert_eq!(
            findings(&format!("src/{name}.rs"), ""),
            [format!("module-name 0 {name}")]
        );
        assert_eq!(
            findings(&format!("src/{name}/a.rs"), ""),
            [format!("module-name 0 {name}")]
        );
        let inline = format!("\npub mod {name} {{}}");
        assert_eq!(
            findings("src/a.rs", &inline),
            [format!("module-name 2 {name}")]
        );
        assert!(findings("src/a.rs", &format!("// mod {name} {{")).is_empty());
        assert!(findings(&format!("src/{name}_of_rows.rs"), "").is_empty());
    }
}
