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

/// A table's name as SQL folds it; all tables are in the schema `public`, which may be named.
pub(crate) fn table_name(name: &str) -> String {
    match name.split_once('.') {
        Some((schema, table)) if folded(schema) == "public" => folded(table),
        _ => folded(name),
    }
}

/// A name as SQL takes it, whatever letters it has.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::{folded, quoted, table_name};

    #[test]
    fn names_are_folded_and_quoted() {
        assert_eq!(folded("Flights"), "flights");
        assert_eq!(folded("\"Fl\"\"x\""), "Fl\"x");
        assert_eq!(table_name("Public.\"G\""), "G");
        assert_eq!(table_name("\"public\".g"), "g");
        assert_eq!(table_name("\"a.b\""), "a.b");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
