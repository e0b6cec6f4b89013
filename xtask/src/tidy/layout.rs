//! How long lines, functions and files may be, how large a file, and how a Rust file begins.
//!
//! The limits here are where a reader must stop and split; the aims (30 lines a function, 300 a
//! file) are in CONTRIBUTING.md. Files of tests may be longer, and their functions are not counted.

use super::Finding;
use super::mask::{is_word, line_at, mask, words_at};
use super::tree::{File, Tree};

const LINE_COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 80;
const FILE_LINES_MAX: usize = 800;
const TEST_FILE_LINES_MAX: usize = 1500;
const FILE_BYTES_MAX: u64 = 10_000_000;

/// The rules `line-length`, `function-length`, `file-length`, `module-header` and `file-size`.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        findings.extend(file_size(file));
        if let Some(text) = file.text_if(&["rs"]) {
            findings.extend(line_length(file, text));
            findings.extend(file_length(file, text));
            findings.extend(module_header(file, text));
            if !file.is_test() {
                findings.extend(function_length(file, text));
            }
        }
    }
    findings
}

fn finding(file: &File, line: usize, rule: &'static str, item: &str, message: String) -> Finding {
    Finding {
        path: file.path.clone(),
        line,
        rule,
        item: item.to_owned(),
        message,
    }
}

fn file_size(file: &File) -> Option<Finding> {
    let size = file.size_bytes;
    (size > FILE_BYTES_MAX).then(|| {
        let message = format!("{size} bytes, at most {FILE_BYTES_MAX}");
        finding(file, 0, "file-size", "", message)
    })
}

fn line_length(file: &File, text: &str) -> Vec<Finding> {
    let long = text.lines().enumerate().filter_map(|(index, line)| {
        let columns = line.chars().count();
        (columns > LINE_COLUMNS_MAX).then(|| {
            let message = format!("{columns} columns, at most {LINE_COLUMNS_MAX}");
            finding(file, index + 1, "line-length", "", message)
        })
    });
    long.collect()
}

fn file_length(file: &File, text: &str) -> Option<Finding> {
    let limit = if file.is_test() {
        TEST_FILE_LINES_MAX
    } else {
        FILE_LINES_MAX
    };
    let lines = text.lines().count();
    (lines > limit).then(|| {
        let message = format!("{lines} lines, at most {limit}: split it");
        finding(file, 0, "file-length", "", message)
    })
}

fn module_header(file: &File, text: &str) -> Option<Finding> {
    let first = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let says_something = first
        .strip_prefix("//!")
        .is_some_and(|rest| !rest.trim().is_empty());
    (!says_something).then(|| {
        let message = "open the file with a `//!` header that says what it is for".to_owned();
        finding(file, 1, "module-header", "", message)
    })
}

fn function_length(file: &File, text: &str) -> Vec<Finding> {
    let long = functions(&mask(text))
        .into_iter()
        .filter(|f| f.lines > FUNCTION_LINES_MAX);
    let tell = |f: Function| {
        let message = format!(
            "`{}` has {} lines, at most {FUNCTION_LINES_MAX}",
            f.name, f.lines
        );
        finding(file, f.line, "function-length", &f.name, message)
    };
    long.map(tell).collect()
}

/// A function with a body.
#[derive(Debug, PartialEq)]
struct Function {
    name: String,
    line: usize,
    /// From the line of `fn` to that of the closing brace.
    lines: usize,
}

/// All functions in masked code, those inside others too.
fn functions(code: &str) -> Vec<Function> {
    let found = words_at(code, "fn").filter_map(|at| {
        let rest = code[at + 2..].trim_start();
        let name: String = rest
            .chars()
            .take_while(|&c| is_word(c) || c == '#')
            .collect();
        // `fn(u32)` is a type.
        if name.is_empty() {
            return None;
        }
        let end = body_end(code, at)?;
        let line = line_at(code, at);
        Some(Function {
            name,
            line,
            lines: line_at(code, end) - line + 1,
        })
    });
    found.collect()
}

/// The offset of the brace that closes the body of the function at `start`; nothing for a
/// declaration.
fn body_end(code: &str, start: usize) -> Option<usize> {
    let mut brackets = 0_usize;
    let mut braces = 0_usize;
    for (offset, c) in code[start..].char_indices() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' if braces <= 1 => return (braces == 1).then_some(start + offset),
            '}' => braces -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests;
