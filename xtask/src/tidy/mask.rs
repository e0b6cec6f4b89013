//! Rust source with the contents of comments and literals blanked out, so that rules about code do
//! not trip over prose. Line structure and character columns stay as they were.
//!
//! This is a scanner and not a parser: it knows where comments, strings and characters begin and
//! end, and nothing else. It is exact for source that compiles.

/// The source with each character of a comment, string or character literal replaced by a space.
pub(super) fn mask(source: &str) -> String {
    let mut scanner = Scanner {
        chars: source.chars().collect(),
        at: 0,
        out: String::new(),
    };
    while let Some(c) = scanner.peek(0) {
        scanner.step(c);
    }
    scanner.out
}

/// Where `word` stands in masked code as a word of its own, as byte offsets.
pub(super) fn words_at<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let before = code[..at].chars().next_back();
            let after = code[at + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
}

/// The line (from 1) of a byte offset.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Whether a character can stand in an identifier.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    out: String,
}

impl Scanner {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn keep(&mut self) {
        self.out.extend(self.peek(0));
        self.at += 1;
    }

    fn blank(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(c) = self.peek(0) {
                self.out.push(if c == '\n' { '\n' } else { ' ' });
                self.at += 1;
            }
        }
    }

    /// Takes whatever begins here with `c`.
    fn step(&mut self, c: char) {
        let next = self.peek(1);
        match c {
            '/' if next == Some('/') => self.line_comment(),
            '/' if next == Some('*') => self.block_comment(),
            '"' => self.string(),
            '\'' => self.character(),
            _ if is_word(c) => self.word(),
            _ => self.keep(),
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.blank(1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => {
                    depth += 1;
                    self.blank(2);
                }
                (Some('*'), Some('/')) => {
                    depth -= 1;
                    self.blank(2);
                    if depth == 0 {
                        return;
                    }
                }
                (Some(_), _) => self.blank(1),
                (None, _) => return,
            }
        }
    }

    fn string(&mut self) {
        self.blank(1);
        while let Some(c) = self.peek(0) {
            self.blank(if c == '\\' { 2 } else { 1 });
            if c == '"' {
                return;
            }
        }
    }

    /// A character literal is blanked; a lifetime is kept.
    fn character(&mut self) {
        if self.peek(1) == Some('\\') {
            self.blank(3);
            while self.peek(0).is_some_and(|c| c != '\'') {
                self.blank(1);
            }
            self.blank(1);
        } else if self.peek(2) == Some('\'') {
            self.blank(3);
        } else {
            self.keep();
        }
    }

    /// An identifier, a number, or the prefix of a string.
    fn word(&mut self) {
        let mut length = 0;
        while self.peek(length).is_some_and(is_word) {
            length += 1;
        }
        let word: String = self.chars[self.at..self.at + length].iter().collect();
        if matches!(word.as_str(), "r" | "br" | "cr") && self.raw_string(length) {
            return;
        }
        for _ in 0..length {
            self.keep();
        }
    }

    /// Blanks a raw string whose prefix is `prefix` characters long; false if there is none.
    fn raw_string(&mut self, prefix: usize) -> bool {
        let mut hashes = 0;
        while self.peek(prefix + hashes) == Some('#') {
            hashes += 1;
        }
        if self.peek(prefix + hashes) != Some('"') {
            return false;
        }
        self.blank(prefix + hashes + 1);
        while self.peek(0).is_some() {
            let closes = self.peek(0) == Some('"')
                && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            self.blank(if closes { hashes + 1 } else { 1 });
            if closes {
                break;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
