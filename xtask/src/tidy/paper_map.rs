//! `docs/paper-map.md` says for each section of the sources which module does it and which test
//! shows it. Each row must name both, and what it names must exist: a test given as `file.rs::name`
//! must be a function of that file, and of a file that is given as a test, it or one below it must
//! hold tests. A row about something that LazyBase leaves out has a dash in both cells and its
//! reason in the last one.

use super::Finding;
use super::docs::{code_spans, looks_like_path, path_exists, prose_lines};
use super::mask::{mask, words_at};
use super::tree::Tree;

const PATH: &str = "docs/paper-map.md";
const COLUMNS: [&str; 2] = ["module", TEST];
const TEST: &str = "test";
/// What stands before a test in Rust.
const TEST_MARKS: [&str; 3] = ["#[test]", "#[tokio::test", "proptest!"];

/// The rule `paper-map`. A tree without the map passes.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.file(PATH).and_then(|file| file.text.as_deref()) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let mut row_count = 0_usize;
    let mut columns: Option<Vec<usize>> = None;
    for (line, text) in prose_lines(text) {
        let Some(cells) = cells(text) else {
            columns = None;
            continue;
        };
        match &columns {
            None => columns = Some(columns_of(&cells)),
            Some(columns) if columns.len() == COLUMNS.len() && !is_rule(&cells) => {
                row_count += 1;
                let problems = row_problems(tree, &cells, columns).into_iter();
                findings.extend(problems.map(|(item, message)| finding(line, &item, message)));
            }
            Some(_) => {}
        }
    }
    if row_count == 0 {
        let message = "no table with the columns Module and Test".to_owned();
        findings.push(finding(0, "", message));
    }
    findings
}

fn finding(line: usize, item: &str, message: String) -> Finding {
    Finding {
        path: PATH.to_owned(),
        line,
        rule: "paper-map",
        item: item.to_owned(),
        message,
    }
}

/// The cells of a table's row; nothing for any other line.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?;
    Some(
        inner
            .strip_suffix('|')
            .unwrap_or(inner)
            .split('|')
            .map(str::trim)
            .collect(),
    )
}

/// Whether the row is the line under a table's head.
fn is_rule(cells: &[&str]) -> bool {
    cells
        .iter()
        .all(|cell| !cell.is_empty() && cell.chars().all(|c| "-:".contains(c)))
}

/// Where a table's head has the columns that we look at, in their order.
fn columns_of(head: &[&str]) -> Vec<usize> {
    let find = |name: &&str| {
        head.iter()
            .position(|cell| cell.to_lowercase().starts_with(name))
    };
    COLUMNS.iter().filter_map(find).collect()
}

/// What is wrong with one row, as the thing meant and the message.
fn row_problems(tree: &Tree, cells: &[&str], columns: &[usize]) -> Vec<(String, String)> {
    let cell = |at: &usize| cells.get(*at).copied().unwrap_or_default();
    let left_out = columns.iter().all(|at| is_dash(cell(at)));
    let says_why = cells
        .last()
        .is_some_and(|last| !is_dash(last) && !last.is_empty());
    if left_out {
        let message = "left out, but its last cell does not say why".to_owned();
        return if says_why {
            Vec::new()
        } else {
            vec![(String::new(), message)]
        };
    }
    let mut problems = Vec::new();
    for (name, at) in COLUMNS.iter().zip(columns) {
        let spans = code_spans(cell(at));
        if !spans.iter().any(|span| looks_like_path(tree, span)) {
            problems.push((String::new(), format!("the cell `{name}` names no path")));
        }
        for span in spans.into_iter().filter(|span| looks_like_path(tree, span)) {
            if !path_exists(tree, PATH, span) {
                problems.push((span.to_owned(), format!("`{span}` does not exist")));
            } else if !item_exists(tree, span) {
                problems.push((
                    span.to_owned(),
                    format!("no function of that name in `{span}`"),
                ));
            } else if *name == TEST && !has_tests(tree, span) {
                problems.push((span.to_owned(), format!("`{span}` holds no test")));
            }
        }
    }
    problems
}

fn is_dash(cell: &str) -> bool {
    matches!(cell, "-" | "–" | "—")
}

/// Whether the function after `::` stands in the file before it; true for a bare path.
fn item_exists(tree: &Tree, span: &str) -> bool {
    let Some((path, item)) = span.split_once("::") else {
        return true;
    };
    let name = item.rsplit("::").next().unwrap_or(item);
    let mut files = tree
        .files
        .iter()
        .filter(|file| file.path == path || file.path.ends_with(&format!("/{path}")));
    files.any(|file| {
        let code = mask(file.text.as_deref().unwrap_or_default());
        words_at(&code, name).any(|at| code[..at].trim_end().ends_with("fn"))
    })
}

/// Whether a file of code holds a test, or one below it does; true for what is no such file, and
/// where a function is named.
fn has_tests(tree: &Tree, span: &str) -> bool {
    let Some(module) = span.strip_suffix(".rs") else {
        return true;
    };
    let below = format!("{module}/");
    let mut files = tree
        .files
        .iter()
        .filter(|file| file.path == span || file.path.starts_with(&below));
    files.any(|file| {
        let code = mask(file.text.as_deref().unwrap_or_default());
        TEST_MARKS.iter().any(|mark| code.contains(mark))
    })
}

#[cfg(test)]
mod tests;
