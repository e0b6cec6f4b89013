//! Names of tables as people type them and as SQL takes them; no I/O.

/// A name as SQL folds it: in lower case unless it stands in double quotes.
pub(crate) fn folded(name: &str) -> String {
    let inner = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'));
    match inner {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

/// A name as SQL takes it, whatever letters it has.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::{folded, quoted};

    #[test]
    fn names_are_folded_and_quoted() {
        assert_eq!(folded("Flights"), "flights");
        assert_eq!(folded("\"Fl\"\"x\""), "Fl\"x");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
