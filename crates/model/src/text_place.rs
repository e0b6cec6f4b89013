//! Places in the text of a statement, as people and clients point at them; pure.

/// Where something stands in a text: line and character of it, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPlace {
    /// The line; lines end with a line feed.
    pub line: u64,
    /// The character of the line. The one behind its last is its end.
    pub column: u64,
}

impl TextPlace {
    /// Where a text begins.
    pub const START: TextPlace = TextPlace { line: 1, column: 1 };

    /// The place right behind a text that begins at this one.
    #[must_use]
    pub fn after(self, text: &str) -> TextPlace {
        let (lines, last) = match text.rsplit_once('\n') {
            Some((above, last)) => (above.matches('\n').count() + 1, last),
            None => (0, text),
        };
        let last = TextPlace {
            line: lines as u64 + 1,
            column: last.chars().count() as u64 + 1,
        };
        last.behind(self)
    }

    /// The place of a character of a text, counted from 1; the one behind the last is the end.
    /// `None` where the text has fewer.
    pub fn of_character(text: &str, character: usize) -> Option<TextPlace> {
        let before = character.checked_sub(1)?;
        let bytes: usize = text.chars().take(before).map(char::len_utf8).sum();
        let is_there = text[bytes..].chars().next().is_some() || text.chars().count() == before;
        is_there.then(|| TextPlace::START.after(&text[..bytes]))
    }

    /// Which character of the whole text stands here, counted from 1. `None` where the text has
    /// no such place.
    pub fn character_in(self, text: &str) -> Option<usize> {
        let above = usize::try_from(self.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(self.column).ok()?.checked_sub(1)?;
        let mut lines = text.split('\n');
        let mut before = 0;
        for _ in 0..above {
            before += lines.next()?.chars().count() + 1;
        }
        let in_line = lines.next()?.chars().count();
        (column <= in_line).then_some(before + column + 1)
    }

    /// The same place of a text in another one, in which that text begins at `start`.
    #[must_use]
    pub fn behind(self, start: TextPlace) -> TextPlace {
        match self.line {
            1 => TextPlace {
                line: start.line,
                column: start.column + self.column - 1,
            },
            line => TextPlace {
                line: start.line + line - 1,
                column: self.column,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TextPlace;

    /// Each place of a text is that of its character, and of the text that stands before it.
    #[test]
    fn places_are_counted_in_characters() {
        let text = "sélect\n\n'日本',\r\nx";
        let (mut line, mut column) = (1, 1);
        for (at, c) in text.chars().chain(['\n']).enumerate() {
            let place = TextPlace { line, column };
            assert_eq!(TextPlace::of_character(text, at + 1), Some(place));
            assert_eq!(place.character_in(text), Some(at + 1));
            let before: String = text.chars().take(at).collect();
            assert_eq!(TextPlace::START.after(&before), place);
            match c {
                '\n' => (line, column) = (line + 1, 1),
                _ => column += 1,
            }
        }
        let count = text.chars().count();
        for none in [0, count + 2] {
            assert_eq!(TextPlace::of_character(text, none), None);
        }
    }

    #[test]
    fn a_text_has_no_places_outside_of_it() {
        for (line, column) in [(0, 1), (1, 0), (1, 4), (3, 1), (u64::MAX, u64::MAX)] {
            assert_eq!(TextPlace { line, column }.character_in("ab\nc"), None);
        }
    }

    /// What stands in a part of a text stands at the same character of the whole.
    #[test]
    fn places_of_a_part_are_places_of_the_whole() {
        let (before, part) = ("ä;\n  ö; ", "SELECT\n 1");
        let whole = format!("{before}{part}");
        let start = TextPlace::START.after(before);
        for at in 1..=part.len() + 1 {
            let place = TextPlace::of_character(part, at).unwrap().behind(start);
            let character = before.chars().count() + at;
            assert_eq!(place.character_in(&whole), Some(character));
        }
    }
}
