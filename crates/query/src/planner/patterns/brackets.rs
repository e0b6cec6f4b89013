//! Sets of characters in brackets: `[^a-z[:digit:]_]`. Pure.

use lazybase_model::Result as Checked;

use super::{Writer, invalid, refused};

/// The names of sets, and what they hold.
const CLASSES: [(&str, &str); 13] = [
    ("alnum", "\\p{Alphabetic}\\p{N}"),
    ("alpha", "\\p{Alphabetic}"),
    ("blank", "\\t\\p{Zs}"),
    ("cntrl", "\\p{Cc}"),
    ("digit", "\\d"),
    ("graph", "[:graph:]\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}"),
    ("lower", "\\p{Lowercase}"),
    ("print", "[:print:]\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Zs}"),
    ("punct", "[:punct:]\\p{P}\\p{S}"),
    ("space", "\\s"),
    ("upper", "\\p{Uppercase}"),
    ("xdigit", "[:xdigit:]"),
    ("word", "\\w"),
];

impl Writer<'_> {
    /// Behind `[`.
    pub(super) fn brackets(&mut self) -> Checked<()> {
        for (bound, written) in [("[:<:]]", "\\b{start}"), ("[:>:]]", "\\b{end}")] {
            if let Some(rest) = self.rest.strip_prefix(bound) {
                self.rest = rest;
                self.out.push_str(written);
                return Ok(());
            }
        }
        self.out.push('[');
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.rest = rest;
            self.out.push('^');
            if self.flags.within_lines {
                self.out.push_str("\\n");
            }
        }
        let mut is_first = true;
        loop {
            match self.next() {
                None => return Err(invalid("brackets [] not balanced")),
                Some(']') if !is_first => break,
                Some(c) => self.element(c)?,
            }
            is_first = false;
        }
        self.out.push(']');
        Ok(())
    }

    /// A character, a range of them, or a class.
    fn element(&mut self, first: char) -> Checked<()> {
        if first == '[' && self.rest.starts_with(':') {
            return self.class();
        }
        if first == '\\'
            && let Some(class @ ('d' | 'D' | 'w' | 'W' | 's' | 'S')) = self.rest.chars().next()
        {
            self.next();
            self.out.extend(['\\', class]);
            return Ok(());
        }
        let low = self.character(first)?;
        self.literal(low);
        let after = self.rest.strip_prefix('-');
        if let Some(after) = after.filter(|after| !after.starts_with(']')) {
            self.rest = after;
            let high = self.next();
            let high = high.ok_or_else(|| invalid("brackets [] not balanced"))?;
            let high = self.character(high)?;
            if high < low {
                return Err(invalid("invalid character range"));
            }
            self.out.push('-');
            self.literal(high);
        }
        Ok(())
    }

    /// The character that begins with this one.
    fn character(&mut self, first: char) -> Checked<char> {
        match first {
            '\\' => self.escaped(),
            '[' if self.rest.starts_with(['.', '=']) => {
                Err(refused("a collating element, as [.a.] is,"))
            }
            c => Ok(c),
        }
    }

    fn class(&mut self) -> Checked<()> {
        let named = self.rest[1..].split_once(":]");
        let (name, rest) = named.ok_or_else(|| invalid("brackets [] not balanced"))?;
        let class = CLASSES.iter().find(|(known, _)| *known == name);
        let (_, written) = class.ok_or_else(|| invalid("invalid character class"))?;
        self.rest = rest;
        self.out.push_str(written);
        Ok(())
    }
}
