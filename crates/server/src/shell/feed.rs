//! Cuts a text, given line by line, into statements and backslash commands; no I/O.

/// What stands between two cuts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A line such as `\d flights`.
    Command {
        text: String,
        /// Its number in the whole text, from 1.
        line: usize,
    },
    /// One statement or several, each ended by its semicolon (but for the last of a text).
    Sql {
        text: String,
        /// The line of the whole text on which it begins, from 1.
        line: usize,
    },
}

/// Gathers lines until a statement is complete.
pub(super) struct Feed {
    complete: fn(&str) -> bool,
    text: String,
    /// The line on which `text` begins.
    begins: usize,
}

impl Feed {
    /// `complete` says whether a text ends at the end of a statement.
    pub(super) fn new(complete: fn(&str) -> bool) -> Feed {
        Feed {
            complete,
            text: String::new(),
            begins: 1,
        }
    }

    /// Takes a line and its number, from 1; gives what it completes.
    pub(super) fn line(&mut self, line: &str, number: usize) -> Option<Item> {
        if self.text.is_empty() {
            let trimmed = line.trim();
            if trimmed.is_empty() {
                return None;
            }
            if trimmed.starts_with('\\') {
                return Some(Item::Command {
                    text: trimmed.to_owned(),
                    line: number,
                });
            }
            self.begins = number;
        }
        self.text.push_str(line);
        self.text.push('\n');
        // Only a line with a semicolon can complete a statement: long statements of many lines
        // are looked at once.
        if line.contains(';') && (self.complete)(&self.text) {
            return Some(self.take());
        }
        None
    }

    /// What is left at the end of the text: a last statement needs no semicolon.
    pub(super) fn rest(&mut self) -> Option<Item> {
        (!self.text.trim().is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> Item {
        Item::Sql {
            text: std::mem::take(&mut self.text),
            line: self.begins,
        }
    }
}

#[cfg(test)]
mod tests;
