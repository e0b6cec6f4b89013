//! Words that may not stand in the repository: promises instead of work, tests that are switched
//! off, names that say nothing, and paths of somebody's machine.
//!
//! The literals below are put together from halves, because this file is checked too.

use super::Finding;
use super::mask::{is_word, line_at, mask, words_at};
use super::tree::{File, Tree};

/// Banned in Rust source, comments included.
const BANNED_IN_RUST: [&str; 4] = [
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("db", "g!"),
    concat!("#[ig", "nore"),
];

/// Banned in every text that people write, in this case of letters.
const BANNED_MARKS: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];

/// Banned in every text that people write, in any case of letters.
const BANNED_PHRASES: [&str; 3] = [
    concat!("for ", "now"),
    concat!("not yet ", "implemented"),
    concat!("simpli", "fied"),
];

/// Folders of one machine; a repository works anywhere.
const HOST_FOLDERS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

const EMPTY_NAMES: [&str; 6] = ["common", "utils", "util", "helpers", "helper", "misc"];

const PROSE_ENDINGS: [&str; 13] = [
    "rs", "md", "toml", "slt", "py", "sh", "txt", "yml", "yaml", "html", "js", "css", "proto",
];

/// The rules `banned-word`, `module-name` and `host-path`.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if let Some(text) = &file.text {
            findings.extend(host_paths(file, text));
        }
        if let Some(text) = file.text_if(&PROSE_ENDINGS) {
            findings.extend(banned_words(file, text));
        }
        if let Some(text) = file.text_if(&["rs"]) {
            findings.extend(module_names(file, text));
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

fn banned_words(file: &File, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    if file.path.ends_with(".rs") {
        found.extend(BANNED_IN_RUST.iter().flat_map(|word| standing(text, word)));
    }
    found.extend(BANNED_MARKS.iter().flat_map(|word| standing(text, word)));
    // ASCII only, so that offsets are those of the text itself.
    let lower = text.to_ascii_lowercase();
    found.extend(
        BANNED_PHRASES
            .iter()
            .flat_map(|phrase| standing(&lower, phrase)),
    );
    let tell = |(at, word): (usize, &str)| {
        let message = format!("`{word}`: do it, or leave it out and say so in the documents");
        finding(file, line_at(text, at), "banned-word", word, message)
    };
    found.into_iter().map(tell).collect()
}

/// Where a banned word stands, not as part of a longer one and not as the name of a call.
fn standing<'a>(text: &str, word: &'a str) -> Vec<(usize, &'a str)> {
    let is_call = |c| c == '(' && word.contains(' ');
    let stands = |at: &usize| {
        let before = text[..*at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let longer = before.is_some_and(is_word) && word.starts_with(is_word)
            || after.is_some_and(|c| is_word(c) || is_call(c)) && word.ends_with(is_word);
        !longer
    };
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(stands)
        .map(|at| (at, word))
        .collect()
}

fn host_paths(file: &File, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in HOST_FOLDERS {
        for (at, _) in text.match_indices(folder) {
            let before = text[..at].chars().next_back();
            let relative = before.is_some_and(|c| is_word(c) || "-.)}]>*~".contains(c));
            if !relative {
                let message = format!("a path of one machine, below `{folder}`");
                findings.push(finding(
                    file,
                    line_at(text, at),
                    "host-path",
                    folder,
                    message,
                ));
            }
        }
    }
    findings
}

fn module_names(file: &File, text: &str) -> Vec<Finding> {
    let tell = |line, name: &str| {
        let message = format!("a module named `{name}` says nothing: name what it holds");
        finding(file, line, "module-name", name, message)
    };
    let stem = file.path.strip_suffix(".rs").unwrap_or(&file.path);
    let mut findings: Vec<Finding> = stem
        .split('/')
        .filter(|name| EMPTY_NAMES.contains(name))
        .map(|name| tell(0, name))
        .collect();
    let code = mask(text);
    for at in words_at(&code, "mod") {
        let rest = code[at + 3..].trim_start();
        let name = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        // A module in a file of its own is found by the file's name.
        let inline = rest[name.len()..].trim_start().starts_with('{');
        if inline && EMPTY_NAMES.contains(&name) {
            findings.push(tell(line_at(&code, at), name));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
