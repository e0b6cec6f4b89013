//! Rows that hold, and each way in which a row can fail.

use super::check;
use crate::tidy::tree::Tree;

const HEAD: &str = "| Section | Behaviour | Module | Test | Departure |\n|---|---|---|---|---|\n";

/// The findings for a map of one row, as `line message`.
fn row(row: &str) -> Vec<String> {
    map(&format!("# Map\n\n{HEAD}{row}\n"))
}

fn map(text: &str) -> Vec<String> {
    let tree = Tree::of(&[
        ("docs/paper-map.md", text),
        ("crates/engine/src/sort.rs", ""),
        (
            "crates/engine/src/sort/tests.rs",
            "#[test]\nfn sorts() {}\n// fn hidden",
        ),
        ("crates/engine/src/bare.rs", "fn bare() {} // #[test]"),
    ]);
    check(&tree)
        .into_iter()
        .map(|f| format!("{} {}", f.line, f.message))
        .collect()
}

#[test]
fn rows_that_hold() {
    let module = "`crates/engine/src/sort.rs`";
    for test in [
        "`crates/engine/src/sort/tests.rs`",
        "`crates/engine/src/sort/tests.rs::sorts`",
    ] {
        assert!(row(&format!("| 3.1 | sorts `SCU`s | {module} | {test} | |")).is_empty());
    }
    assert!(row("| 3.2 | votes | — | — | etcd does it |").is_empty());
}

#[test]
fn rows_that_do_not() {
    let good = "`crates/engine/src/sort.rs`";
    let gone = "`crates/engine/src/gone.rs`";
    let says = "5 `crates/engine/src/gone.rs` does not exist";
    assert_eq!(row(&format!("| 3.1 | a | {gone} | {good} | |")), [says]);
    assert_eq!(row(&format!("| 3.1 | a | {good} | {gone} | |")), [says]);
    assert_eq!(
        row(&format!("| 3.1 | a | {good} | | |")),
        ["5 the cell `test` names no path"]
    );
    assert_eq!(
        row(&format!("| 3.1 | a | | {good} | |")),
        ["5 the cell `module` names no path"]
    );
    assert_eq!(
        row("| 3.1 | a | - | - | |"),
        ["5 left out, but its last cell does not say why"]
    );
    let hidden = "`crates/engine/src/sort/tests.rs::hidden`";
    let found = row(&format!("| 3.1 | a | {good} | {hidden} | |"));
    assert_eq!(found, [format!("5 no function of that name in {hidden}")]);
    let bare = "`crates/engine/src/bare.rs`";
    let found = row(&format!("| 3.1 | a | {bare} | {bare} | |"));
    assert_eq!(found, [format!("5 {bare} holds no test")]);
}

#[test]
fn the_map_has_a_table_and_may_have_others() {
    assert_eq!(
        map("# Map\n"),
        ["0 no table with the columns Module and Test"]
    );
    let other = "| Word | Meaning |\n|---|---|\n| a | b |\n\n";
    let good = "| 1 | a | `crates/engine/src/sort.rs` | `crates/engine/src/sort.rs` | |\n";
    assert!(map(&format!("{other}{HEAD}{good}")).is_empty());
    assert!(check(&Tree::of(&[])).is_empty());
}
