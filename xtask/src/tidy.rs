//! The house rules that a machine can check, over all files that git knows.
//!
//! ```text
//!   Tree (paths, sizes, texts) --> rules (pure functions) --> findings --> allow list --> report
//! ```
//!
//! Only [`Tree::load`] touches the disk; a rule sees a [`Tree`] and nothing else, so its tests are
//! literal texts. The allow list (`xtask/tidy-allow.txt`) holds exceptions with their reasons, and
//! an exception that no longer excuses anything is itself a finding: the list can only tell the
//! truth.

mod allow;
mod arrows;
mod docs;
mod layout;
mod manifest;
mod mask;
mod paper_map;
mod tree;
mod words;

use std::fmt;
use std::io;
use std::path::Path;

use tree::Tree;

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, relative to the repository's root.
    pub(crate) path: String,
    /// The line, from 1; 0 when the file as a whole is meant.
    pub(crate) line: usize,
    /// The rule's name, as the allow list spells it.
    pub(crate) rule: &'static str,
    /// What inside the file is meant (a function's name, a word, a path); may be empty.
    pub(crate) item: String,
    /// What is wrong, and what to do about it.
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            rule,
            message,
            ..
        } = self;
        match line {
            0 => write!(f, "{path}: [{rule}] {message}"),
            _ => write!(f, "{path}:{line}: [{rule}] {message}"),
        }
    }
}

/// What one check of the whole tree found.
pub(crate) struct Report {
    /// How many files were looked at.
    pub(crate) file_count: usize,
    /// All breaches that the allow list does not excuse, by path and line.
    pub(crate) findings: Vec<Finding>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        let Self {
            file_count,
            findings,
        } = self;
        match findings.len() {
            0 => writeln!(f, "tidy: {file_count} files, all in order"),
            count => writeln!(f, "tidy: {file_count} files, {count} findings"),
        }
    }
}

/// Checks the repository at `root`. Fails only if it cannot be read.
pub(crate) fn check_workspace(root: &Path) -> io::Result<Report> {
    Ok(check(&Tree::load(root)?))
}

/// Checks one tree against every rule and the allow list that stands in it.
fn check(tree: &Tree) -> Report {
    let rules: [fn(&Tree) -> Vec<Finding>; 5] = [
        layout::check,
        words::check,
        arrows::check,
        docs::check,
        paper_map::check,
    ];
    let found = rules.iter().flat_map(|rule| rule(tree)).collect();
    let mut findings = allow::apply(tree, found);
    findings.sort();
    Report {
        file_count: tree.files.len(),
        findings,
    }
}

#[cfg(test)]
mod tests;
