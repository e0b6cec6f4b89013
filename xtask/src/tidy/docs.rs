//! A document may name only paths that exist: maps that drift are worse than none.
//!
//! Looked at: ARCHITECTURE.md, README.md, CONTRIBUTING.md and all of `docs/`. In them, outside
//! fenced blocks, code spans that look like a path of the repository, and relative links. A span
//! looks like one if its first part is a folder of the root or of `crates/`, or if it ends as our
//! sources do; a bare name (`pipeline.rs`) or the end of a path (`stages/mod.rs`) must then fit
//! some file.

use super::Finding;
use super::tree::{Tree, extension};

const ROOT_DOCUMENTS: [&str; 3] = ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"];

/// First parts that always mean a path of the repository, whether the folder exists or not.
const ROOT_FOLDERS: [&str; 13] = [
    ".ci", ".config", "console", "crates", "data", "docs", "examples", "fuzz", "papers", "python",
    "src", "tests", "xtask",
];

/// Endings that always mean a file of the repository.
const SOURCE_ENDINGS: [&str; 4] = ["rs", "md", "slt", "toml"];

/// The rule `doc-path`.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let Some(text) = file.text_if(&["md"]) else {
            continue;
        };
        if !ROOT_DOCUMENTS.contains(&file.path.as_str()) && !file.path.starts_with("docs/") {
            continue;
        }
        for (line, text) in prose_lines(text) {
            let spans = code_spans(text)
                .into_iter()
                .filter(|span| looks_like_path(tree, span));
            let paths = spans.map(|span| (span, path_exists(tree, &file.path, span)));
            let links = links(text).into_iter();
            let links = links.map(|link| (link, resolves(tree, &file.path, link)));
            for (item, _) in paths.chain(links).filter(|(_, exists)| !exists) {
                findings.push(Finding {
                    path: file.path.clone(),
                    line,
                    rule: "doc-path",
                    item: item.to_owned(),
                    message: format!("`{item}` does not exist"),
                });
            }
        }
    }
    findings
}

/// The lines outside fenced blocks, counted from 1.
pub(super) fn prose_lines(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((index + 1, line));
        }
    }
    lines
}

/// The contents of the code spans of one line.
pub(super) fn code_spans(line: &str) -> Vec<&str> {
    let parts: Vec<&str> = line.split('`').collect();
    let closed = parts.len() - 1;
    parts
        .into_iter()
        .enumerate()
        .filter(|(i, _)| i % 2 == 1 && *i < closed)
        .map(|(_, s)| s)
        .collect()
}

/// Whether a code span names a path of the repository, existing or not.
pub(super) fn looks_like_path(tree: &Tree, span: &str) -> bool {
    let span = without_position(span);
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/{},*".contains(c);
    if span.is_empty() || span.starts_with(['/', '*']) || !span.chars().all(allowed) {
        return false;
    }
    if extension(span).is_some_and(|ending| SOURCE_ENDINGS.contains(&ending)) {
        return !span.starts_with('.') || span.contains('/');
    }
    let Some((first, rest)) = span.split_once('/') else {
        return false;
    };
    let in_crates = !rest.is_empty() && tree.exists(&format!("crates/{first}"));
    ROOT_FOLDERS.contains(&first) || in_crates
}

/// Whether all that a span names exists, seen from the document at `from`: braces name several
/// paths, a star any file of its folder, and the end of a path is enough.
pub(super) fn path_exists(tree: &Tree, from: &str, span: &str) -> bool {
    expand_braces(without_position(span)).iter().all(|path| {
        let path = match path.split_once('*') {
            Some((before, _)) => before.rsplit_once('/').map_or("", |(folder, _)| folder),
            None => path.trim_end_matches('/'),
        };
        let ends = extension(path).is_some_and(|ending| SOURCE_ENDINGS.contains(&ending));
        path.is_empty()
            || tree.exists(path)
            || tree.exists(&format!("crates/{path}"))
            || resolves(tree, from, path)
            || ends && tree.exists_ending(path)
    })
}

/// Without what stands after a path: an item (`a.rs::name`), a line (`a.rs:12`), a heading
/// (`a.md#b`).
fn without_position(span: &str) -> &str {
    span.split([':', '#']).next().unwrap_or_default()
}

/// `a/{b,c}` as `a/b` and `a/c`.
fn expand_braces(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| {
        let (choices, after) = rest.split_once('}')?;
        Some((before, choices, after))
    });
    let Some((before, choices, after)) = parts else {
        return vec![path.to_owned()];
    };
    let expand = |choice: &str| expand_braces(&format!("{before}{choice}{after}"));
    choices.split(',').flat_map(expand).collect()
}

/// The targets of the relative links of one line.
fn links(line: &str) -> Vec<&str> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next());
    let relative = |target: &&str| {
        let elsewhere = target.contains("://") || target.starts_with("mailto:");
        !elsewhere && !target.starts_with('#') && !target.is_empty()
    };
    targets.filter(relative).collect()
}

/// Whether a path exists, taken from the folder of the document at `from`.
fn resolves(tree: &Tree, from: &str, path: &str) -> bool {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in without_position(path).split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            _ => parts.push(part),
        }
    }
    parts.is_empty() || tree.exists(&parts.join("/"))
}

#[cfg(test)]
mod tests;
