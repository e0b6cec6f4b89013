//! The repository itself, and the report's form.

use std::path::Path;

use super::tree::Tree;
use super::{check, check_workspace};

/// The check that continuous integration relies on.
#[test]
fn the_workspace_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let report = check_workspace(&root).expect("the repository can be read");
    assert!(
        report.file_count > 10,
        "only {} files found in {}",
        report.file_count,
        root.display()
    );
    assert!(report.findings.is_empty(), "\n{report}");
}

#[test]
fn a_report_lists_each_breach_by_path_and_line_and_counts_them() {
    let tree = Tree::of(&[
        ("crates/model/src/b.rs", "//! Header.\nuse std::fs;\n"),
        ("crates/model/src/a.rs", "fn a() {}\n"),
        ("README.md", "See `gone.rs`.\n"),
    ]);
    let expected = "\
README.md:1: [doc-path] `gone.rs` does not exist
crates/model/src/a.rs:1: [module-header] open the file with a `//!` header that says what it is for
crates/model/src/b.rs:2: [model-io] `model` does no I/O and may not name `std::fs`
tidy: 3 files, 3 findings
";
    assert_eq!(check(&tree).to_string(), expected);
}

#[test]
fn an_orderly_tree_is_reported_as_such() {
    let tree = Tree::of(&[("crates/model/src/a.rs", "//! Header.\n")]);
    assert_eq!(check(&tree).to_string(), "tidy: 1 files, all in order\n");
}
