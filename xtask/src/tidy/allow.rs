//! The exceptions to the rules, each with its reason, in `xtask/tidy-allow.txt`.
//!
//! A line is `rule | path | item | reason`; the item (a function, a word, a path) may be empty and
//! then means all of the file. Lines that begin with `#` are comments. An exception without a
//! reason, and one that excuses nothing, are findings.

use super::Finding;
use super::tree::Tree;

const PATH: &str = "xtask/tidy-allow.txt";

/// The findings that no exception excuses, and what is wrong with the exceptions themselves.
pub(super) fn apply(tree: &Tree, found: Vec<Finding>) -> Vec<Finding> {
    let text = tree
        .file(PATH)
        .and_then(|file| file.text.as_deref())
        .unwrap_or_default();
    let mut exceptions = Vec::new();
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match Exception::parse(line) {
            Some(exception) => exceptions.push((index + 1, exception)),
            None => findings.push(finding(
                index + 1,
                "not of the form `rule | path | item | reason`, with a reason in words".to_owned(),
            )),
        }
    }
    for (line, exception) in &exceptions {
        if !found.iter().any(|finding| exception.excuses(finding)) {
            let message = "this exception excuses nothing any more: delete it".to_owned();
            findings.push(finding(*line, message));
        }
    }
    let excused = |f: &Finding| exceptions.iter().any(|(_, exception)| exception.excuses(f));
    findings.extend(found.into_iter().filter(|f| !excused(f)));
    findings
}

fn finding(line: usize, message: String) -> Finding {
    Finding {
        path: PATH.to_owned(),
        line,
        rule: "allow-list",
        item: String::new(),
        message,
    }
}

struct Exception<'a> {
    rule: &'a str,
    path: &'a str,
    item: &'a str,
}

impl<'a> Exception<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut parts = line.splitn(4, '|').map(str::trim);
        let (rule, path, item) = (parts.next()?, parts.next()?, parts.next()?);
        // One word is a shrug, not a reason.
        let reason_words = parts.next()?.split_whitespace().count();
        let complete = !rule.is_empty() && !path.is_empty() && reason_words >= 3;
        complete.then_some(Self { rule, path, item })
    }

    fn excuses(&self, finding: &Finding) -> bool {
        self.rule == finding.rule
            && self.path == finding.path
            && (self.item.is_empty() || self.item == finding.item)
    }
}

#[cfg(test)]
mod tests;
