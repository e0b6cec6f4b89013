//! Which crate may know which. The arrows point one way, so that most code and nearly all tests
//! build without DataFusion, and the paper's nouns without anything that does I/O:
//!
//! ```text
//!   model <- engine <- cluster <- query <- pg <- server
//! ```
//!
//! Checked in the manifests, where an arrow begins, and in the code, for what a re-export or the
//! standard library would let through.

use super::Finding;
use super::manifest::{Dependency, dependencies};
use super::mask::{line_at, mask, words_at};
use super::tree::Tree;

/// The folders of `crates/`, with their rank: a crate may depend on crates of lower rank only.
/// Equal ranks know nothing of each other.
const RANKS: [(&str, u32); 14] = [
    ("torture", 0),
    ("model", 0),
    ("plan", 0),
    ("engine", 1),
    ("cluster", 2),
    ("query", 3),
    ("tls", 3),
    ("flight", 4),
    ("pg", 4),
    ("sim", 4),
    ("sqlcheck", 4),
    ("server", 5),
    ("bench", 6),
    ("bench-peers", 7),
];

/// The folders whose code may name DataFusion.
const DATAFUSION_FOLDERS: [&str; 5] = ["plan", "query", "sqlcheck", "bench", "bench-peers"];

/// Packages that do I/O, run tasks, or come with either; the model knows none of them.
const IO_PACKAGES: [&str; 21] = [
    "arrow",
    "arrow-csv",
    "arrow-ipc",
    "arrow-json",
    "async-trait",
    "fs4",
    "futures",
    "hyper",
    "libc",
    "lz4_flex",
    "memmap2",
    "mio",
    "object_store",
    "parking_lot",
    "parquet",
    "quick_cache",
    "reqwest",
    "tempfile",
    "tokio",
    "tonic",
    "zstd",
];

/// Modules of the standard library that the model's code may not name.
const IO_MODULES: [&str; 4] = ["fs", "net", "process", "thread"];

/// The rules `crate-arrow`, `datafusion` and `model-io`.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let Some(folder) = folder_of(&file.path) else {
            continue;
        };
        if let Some(text) = file.text_if(&["toml"])
            && file.path.ends_with("/Cargo.toml")
        {
            findings.extend(manifest(&file.path, folder, text));
        }
        if let Some(text) = file.text_if(&["rs"]) {
            findings.extend(code(&file.path, folder, &mask(text)));
        }
    }
    findings
}

/// The folder of the crate that a file belongs to; `xtask` for that one.
fn folder_of(path: &str) -> Option<&str> {
    let mut parts = path.split('/');
    match parts.next()? {
        "crates" => parts.next().filter(|_| parts.next().is_some()),
        "xtask" => Some("xtask"),
        _ => None,
    }
}

fn finding(path: &str, line: usize, rule: &'static str, item: &str, message: String) -> Finding {
    Finding {
        path: path.to_owned(),
        line,
        rule,
        item: item.to_owned(),
        message,
    }
}

fn rank(folder: &str) -> Option<u32> {
    RANKS
        .iter()
        .find(|(known, _)| *known == folder)
        .map(|(_, rank)| *rank)
}

fn manifest(path: &str, folder: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if folder != "xtask" && rank(folder).is_none() {
        let message = format!("a new crate: give `{folder}` its rank in xtask/src/tidy/arrows.rs");
        findings.push(finding(path, 0, "crate-arrow", folder, message));
    }
    for Dependency { name, line } in dependencies(text) {
        if let Some(other) = name.strip_prefix("lazybase-")
            && (rank(folder).is_none() || rank(other) >= rank(folder))
        {
            let message = format!("`{folder}` may not depend on `{other}`");
            findings.push(finding(path, line, "crate-arrow", &name, message));
        }
        if name.starts_with("datafusion") && !DATAFUSION_FOLDERS.contains(&folder) {
            let message = format!("`{folder}` may not depend on DataFusion: only `query` knows it");
            findings.push(finding(path, line, "datafusion", &name, message));
        }
        if folder == "model" && IO_PACKAGES.contains(&name.as_str()) {
            let message = format!("`model` does no I/O and may not depend on `{name}`");
            findings.push(finding(path, line, "model-io", &name, message));
        }
    }
    findings
}

fn code(path: &str, folder: &str, code: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !DATAFUSION_FOLDERS.contains(&folder) {
        for at in words_at(code, "datafusion") {
            let message = format!("`{folder}` may not name DataFusion, not by a re-export either");
            findings.push(finding(
                path,
                line_at(code, at),
                "datafusion",
                "datafusion",
                message,
            ));
        }
    }
    if folder == "model" && !path.contains("/tests/") {
        for (at, module) in std_modules(code) {
            if IO_MODULES.contains(&module) {
                let message = format!("`model` does no I/O and may not name `std::{module}`");
                findings.push(finding(
                    path,
                    line_at(code, at),
                    "model-io",
                    module,
                    message,
                ));
            }
        }
    }
    findings
}

/// The modules of `std` that masked code names, as `std::fs` or in a group, `use std::{fs, io}`.
fn std_modules(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for at in words_at(code, "std") {
        let rest = &code[at + "std".len()..];
        let Some(rest) = rest.trim_start().strip_prefix("::") else {
            continue;
        };
        let rest = rest.trim_start();
        match rest.strip_prefix('{') {
            Some(group) => found.extend(first_names(group).map(|name| (at, name))),
            None => found.push((at, first_word(rest))),
        }
    }
    found
}

/// The first name of each entry of a group of imports that begins after its brace.
fn first_names(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let mut starts = vec![0];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => starts.push(at + 1),
            _ => {}
        }
    }
    starts
        .into_iter()
        .map(move |at| first_word(group[at..].trim_start()))
}

fn first_word(text: &str) -> &str {
    &text[..text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len())]
}

#[cfg(test)]
mod tests;
