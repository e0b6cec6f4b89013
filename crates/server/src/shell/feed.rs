//! Cuts a text, given line by line, into statements and backslash commands; no I/O.

/// What stands between two cuts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A line such as `\d flights`.
    Command(String),
    /// One statement or several, each ended by its semicolon (but for the last of a text).
    Sql(String),
}

/// Gathers lines until a statement is complete.
pub(super) struct Feed {
    complete: fn(&str) -> bool,
    text: String,
}

impl Feed {
    /// `complete` says whether a text ends at the end of a statement.
    pub(super) fn new(complete: fn(&str) -> bool) -> Feed {
        Feed {
            complete,
            text: String::new(),
        }
    }

    /// Takes a line; gives what it completes.
    pub(super) fn line(&mut self, line: &str) -> Option<Item> {
        if self.text.is_empty() {
            let trimmed = line.trim();
            if trimmed.is_empty() {
                return None;
            }
            if trimmed.starts_with('\\') {
                return Some(Item::Command(trimmed.to_owned()));
            }
        }
        self.text.push_str(line);
        self.text.push('\n');
        // Only a line with a semicolon can complete a statement: long statements of many lines
        // are looked at once.
        if line.contains(';') && (self.complete)(&self.text) {
            return Some(Item::Sql(std::mem::take(&mut self.text)));
        }
        None
    }

    /// What is left at the end of the text: a last statement needs no semicolon.
    pub(super) fn rest(&mut self) -> Option<Item> {
        let text = std::mem::take(&mut self.text);
        (!text.trim().is_empty()).then_some(Item::Sql(text))
    }
}

#[cfg(test)]
mod tests;
