//! Points into a statement at what an error of it is about; no I/O.

use lazybase_model::{Error, TextPlace};
use lazybase_query::Placed;
use unicode_width::UnicodeWidthStr;

/// The characters of a line that are shown before and after the place.
const BEFORE: usize = 40;
const AFTER: usize = 30;

/// An error as people read it: its detail ends with the line that it is about, counted as the
/// statement's is, and a caret below the place. One without a place stays as it is.
pub(super) fn pointed(error: Error, statement: &Placed) -> Error {
    let Some(place) = error.place() else {
        return error;
    };
    let index = |counted: u64| usize::try_from(counted).map_or(0, |at| at.saturating_sub(1));
    let Some(text) = statement.text.lines().nth(index(place.line)) else {
        return error;
    };
    let (shown, caret) = excerpt(text, index(place.column));
    let TextPlace { line, column } = place.behind(statement.start());
    let place = format!("line {line}, column {column}\n  {shown}\n  {caret}");
    let detail = match error.detail() {
        Some(detail) => format!("{detail}; {place}"),
        None => place,
    };
    error.with_detail(detail)
}

/// The part of a line around a character, and the caret's line below it.
fn excerpt(line: &str, at: usize) -> (String, String) {
    let from = at.saturating_sub(BEFORE);
    let shown: String = line.chars().skip(from).take(BEFORE + AFTER).collect();
    // Tabs would be as wide here as the terminal likes.
    let shown = shown.replace('\t', " ");
    let before: String = shown.chars().take(at - from).collect();
    (shown, " ".repeat(before.width()) + "^")
}

#[cfg(test)]
mod tests {
    use lazybase_model::{Error, TextPlace};
    use lazybase_query::split_script;

    use super::pointed;

    /// The detail and the hint of an error at a place of the last statement of a script.
    fn told(error: Error, script: &str, line: u64, column: u64) -> (String, Option<String>) {
        let statement = split_script(script, 7).unwrap().pop().unwrap();
        let error = pointed(error.with_place(TextPlace { line, column }), &statement);
        let hint = error.hint().map(str::to_owned);
        (error.detail().unwrap_or_default().to_owned(), hint)
    }

    #[test]
    fn the_caret_stands_below_the_place() {
        let error = || Error::invalid("no").with_hint("h");
        let (detail, hint) = told(error(), "SELECT 1; SELECT 1\nFROM ;", 2, 5);
        assert_eq!(detail, "line 8, column 5\n  FROM\n      ^");
        assert_eq!(hint.as_deref(), Some("h"));
        let (detail, _) = told(error().with_detail("d"), "SELECT 1; SELECT x", 1, 8);
        assert_eq!(detail, "d; line 7, column 18\n  SELECT x\n         ^");
        let (detail, _) = told(error(), "SELECT \t'日本', x", 1, 15);
        let caret = " ".repeat(18) + "^";
        let wanted = format!("line 7, column 15\n  SELECT  '日本', x\n{caret}");
        assert_eq!(detail, wanted);
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let statement = format!("{}!{}", "a".repeat(500), "b".repeat(500));
        let (detail, _) = told(Error::invalid("no"), &statement, 1, 501);
        let lines: Vec<&str> = detail.lines().collect();
        assert!(lines.iter().all(|line| line.len() < 80), "{lines:?}");
        assert_eq!(lines[1].find('!'), lines[2].find('^'));
    }

    #[test]
    fn errors_without_a_place_stay() {
        let statement = split_script("SELECT", 1).unwrap().pop().unwrap();
        let error = pointed(Error::invalid("there is no table \"t\""), &statement);
        assert_eq!(
            (error.message(), error.detail()),
            ("there is no table \"t\"", None)
        );
    }
}
