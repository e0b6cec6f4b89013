//! Each limit at its border: the last value that passes and the first that does not.

use super::{Function, check, functions};
use crate::tidy::tree::{File, Tree};

/// The findings for one file, as `rule line item`.
fn findings(path: &str, text: &str) -> Vec<String> {
    let tell = |f: crate::tidy::Finding| format!("{} {} {}", f.rule, f.line, f.item);
    check(&Tree::of(&[(path, text)]))
        .into_iter()
        .map(tell)
        .collect()
}

fn file_of(lines: usize) -> String {
    format!("//! Header.\n{}", "\n".repeat(lines - 1))
}

fn function_of(lines: usize) -> String {
    format!(
        "//! Header.\nfn long() {{\n{}}}\n",
        "    a();\n".repeat(lines - 2)
    )
}

#[test]
fn lines_end_at_column_100() {
    let text = format!("//! Header.\n{}\n{}\n", "é".repeat(100), "é".repeat(101));
    assert_eq!(findings("a.rs", &text), ["line-length 3 "]);
    assert!(findings("a.md", &text).is_empty());
}

#[test]
fn files_end_at_line_800_and_tests_at_1500() {
    assert!(findings("src/a.rs", &file_of(800)).is_empty());
    assert_eq!(findings("src/a.rs", &file_of(801)), ["file-length 0 "]);
    assert!(findings("src/a/tests.rs", &file_of(1500)).is_empty());
    assert_eq!(
        findings("src/a/tests.rs", &file_of(1501)),
        ["file-length 0 "]
    );
    assert_eq!(
        findings("tests/it/a.rs", &file_of(1501)),
        ["file-length 0 "]
    );
}

#[test]
fn functions_end_at_line_80_and_those_of_tests_anywhere() {
    assert!(findings("src/a.rs", &function_of(80)).is_empty());
    assert_eq!(
        findings("src/a.rs", &function_of(81)),
        ["function-length 2 long"]
    );
    assert!(findings("src/a/tests.rs", &function_of(81)).is_empty());
}

#[test]
fn functions_are_found_by_their_bodies() {
    let code =
        "trait T { fn none(a: [u8; 2]); }\nfn outer(f: fn(u8)) -> [u8; 2] {\n fn inner() {}\n}";
    let function = |name: &str, line, lines| Function {
        name: name.to_owned(),
        line,
        lines,
    };
    assert_eq!(
        functions(code),
        [function("outer", 2, 3), function("inner", 3, 1)]
    );
}

#[test]
fn rust_files_open_with_a_header() {
    assert_eq!(findings("a.rs", "fn main() {}\n"), ["module-header 1 "]);
    assert_eq!(findings("a.rs", ""), ["module-header 1 "]);
    assert_eq!(findings("a.rs", "//!\n//! Late.\n"), ["module-header 1 "]);
    assert!(findings("a.rs", "\n//! What it is for.\n").is_empty());
}

#[test]
fn large_files_are_refused_whatever_they_are() {
    let file = |size_bytes| File {
        path: "data/a.parquet".to_owned(),
        size_bytes,
        text: None,
    };
    assert!(check(&Tree::new(vec![file(10_000_000)])).is_empty());
    let found = check(&Tree::new(vec![file(10_000_001)]));
    assert_eq!(
        found[0].to_string(),
        "data/a.parquet: [file-size] 10000001 bytes, at most 10000000"
    );
}
