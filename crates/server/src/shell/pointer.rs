//! Points into the statement where its syntax is wrong; no I/O.

use lazybase_model::Error;

/// The characters of a line that are shown before and after the place.
const BEFORE: usize = 40;
const AFTER: usize = 30;

/// A syntax error as people read it: what was expected, and the line with a caret below the place,
/// counted from `first`, on which the statement begins. Other errors stay as they are.
pub(super) fn pointed(error: Error, statement: &str, first: usize) -> Error {
    if !error.message().starts_with("syntax error") {
        return error;
    }
    let (message, place) = located(error.message());
    let mut pointed = Error::new(error.kind(), in_words(message)).with_sqlstate(error.sqlstate());
    if let Some(detail) = error.detail() {
        pointed = pointed.with_detail(detail);
    }
    if let Some((line, column)) = place
        && let Some(text) = statement.lines().nth(line.saturating_sub(1))
    {
        let (shown, caret) = excerpt(text, column);
        let line = first + line.saturating_sub(1);
        let place = format!("line {line}, column {column}\n  {shown}\n  {caret}");
        pointed = pointed.with_detail(match error.detail() {
            Some(detail) => format!("{detail}; {place}"),
            None => place,
        });
    }
    match error.hint() {
        Some(hint) => pointed.with_hint(hint),
        None => pointed,
    }
}

/// The parser's message without the place that it ends with: `... at Line: 1, Column: 8`.
fn located(message: &str) -> (&str, Option<(usize, usize)>) {
    let parts = message.rsplit_once(" at Line: ").and_then(|(told, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        let digits = column.find(|c: char| !c.is_ascii_digit());
        let column = &column[..digits.unwrap_or(column.len())];
        Some((told, Some((line.parse().ok()?, column.parse().ok()?))))
    });
    parts.unwrap_or((message, None))
}

/// The parser's message as a sentence.
fn in_words(message: &str) -> String {
    message
        .replace("Expected: ", "expected ")
        .replace(", found: EOF", ", found the end")
        .replace(", found: ", ", found ")
}

/// The part of a line around a column, and the caret's line below it.
fn excerpt(line: &str, column: usize) -> (String, String) {
    let at = column.saturating_sub(1);
    let from = at.saturating_sub(BEFORE);
    let shown: String = line.chars().skip(from).take(BEFORE + AFTER).collect();
    // Tabs would be as wide here as the terminal likes.
    (shown.replace('\t', " "), " ".repeat(at - from) + "^")
}

#[cfg(test)]
mod tests {
    use lazybase_model::Error;

    use super::pointed;

    #[test]
    fn the_caret_stands_below_the_place() {
        let error = "syntax error: Expected: an x, found: y at Line: 2, Column: 6";
        let error = pointed(Error::invalid(error).with_hint("h"), "SELECT 1\nFROM ;", 7);
        assert_eq!(error.message(), "syntax error: expected an x, found y");
        let detail = "line 8, column 6\n  FROM ;\n       ^";
        assert_eq!((error.detail(), error.hint()), (Some(detail), Some("h")));
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let statement = format!("{}!{}", "a".repeat(500), "b".repeat(500));
        let error = Error::invalid("syntax error: x at Line: 1, Column: 501");
        let error = pointed(error, &statement, 1);
        let lines: Vec<&str> = error.detail().unwrap().lines().collect();
        assert!(lines.iter().all(|line| line.len() < 80), "{lines:?}");
        assert_eq!(lines[1].find('!'), lines[2].find('^'));
    }

    #[test]
    fn other_errors_stay() {
        let error = pointed(Error::invalid("there is no table \"t\""), "SELECT", 1);
        assert_eq!(
            (error.message(), error.detail()),
            ("there is no table \"t\"", None)
        );
    }
}
