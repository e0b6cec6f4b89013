//! What counts as a path in a document, and what counts as existing.

use super::check;
use crate::tidy::tree::Tree;

/// The items that a document at `path` names and that do not exist beside a few files that do.
fn missing(path: &str, text: &str) -> Vec<String> {
    let tree = Tree::of(&[
        (path, text),
        (".ci/run", ""),
        ("Cargo.toml", ""),
        ("crates/engine/src/stages/mod.rs", ""),
        ("crates/engine/src/stages/sort/mod.rs", ""),
        ("docs/formats/log.md", ""),
        ("tests/slt/a.slt", ""),
    ]);
    check(&tree)
        .into_iter()
        .map(|f| format!("{} {}", f.line, f.item))
        .collect()
}

#[test]
fn paths_that_exist_pass() {
    for path in [
        ".ci/run",
        "Cargo.toml",
        "crates/engine/src/stages/",
        "crates/engine/src/stages/mod.rs:12",
        "crates/engine/src/stages/mod.rs::name",
        "docs/formats/log.md#frames",
        "engine/src/stages/{sort,mod.rs}",
        "mod.rs",
        "stages/mod.rs",
        "tests/slt/*.slt",
    ] {
        assert!(
            missing("README.md", &format!("See `{path}`.")).is_empty(),
            "{path}"
        );
    }
}

#[test]
fn paths_that_do_not_exist_fire() {
    for path in [
        ".ci/walk",
        "ages/mod.rs",
        "crates/engine/src/stages/remap",
        "docs/log",
        "engine/src/stages/{sort,merge}",
        "gone.rs",
        "tests/scripts/*.txt",
    ] {
        let text = format!("One.\nSee `{path}`.");
        assert_eq!(missing("ARCHITECTURE.md", &text), [format!("2 {path}")]);
        assert_eq!(
            missing("docs/design/0001-a.md", &text),
            [format!("2 {path}")]
        );
        assert!(
            missing("papers/a.md", &text).is_empty(),
            "not a document of ours"
        );
    }
}

#[test]
fn other_code_is_no_path() {
    for span in [
        "cargo test -p xtask",
        "a/b",
        "std::fs",
        "/etc/hosts",
        "x",
        "SELECT 1/2",
        ".rs",
    ] {
        assert!(
            missing("README.md", &format!("See `{span}`.")).is_empty(),
            "{span}"
        );
    }
    assert!(missing("README.md", "```\n`gone.rs`\n```\n").is_empty());
    assert!(missing("README.md", "an open ` and gone.rs").is_empty());
}

#[test]
fn links_are_taken_from_the_documents_folder() {
    assert!(
        missing(
            "docs/a.md",
            "[log](formats/log.md#x) [top](../Cargo.toml) [h](#h)"
        )
        .is_empty()
    );
    assert!(missing("README.md", "[site](https://example.org/gone.md)").is_empty());
    assert_eq!(
        missing("docs/a.md", "[x](gone.md)\n[y](../../z.md)"),
        ["1 gone.md", "2 ../../z.md"]
    );
}
