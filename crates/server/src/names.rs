//! Names of tables as people type them and as SQL takes them; no I/O.

/// The schemas of tables that can only be read.
const SYSTEM_SCHEMAS: [&str; 3] = ["lazybase", "pg_catalog", "information_schema"];

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

/// The schema and the name of a system table, if that is what is named.
pub(crate) fn system_table(name: &str) -> Option<(String, String)> {
    let (schema, table) = name.split_once('.')?;
    let schema = folded(schema);
    SYSTEM_SCHEMAS
        .contains(&schema.as_str())
        .then(|| (schema, folded(table)))
}

/// A table or a system table as SQL reads it.
pub(crate) fn readable(name: &str) -> String {
    match system_table(name) {
        Some((schema, table)) => format!("{}.{}", quoted(&schema), quoted(&table)),
        None => quoted(&table_name(name)),
    }
}

/// A name as SQL takes it, whatever letters it has.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::{folded, quoted, readable, table_name};

    #[test]
    fn names_are_folded_and_quoted() {
        assert_eq!(folded("Flights"), "flights");
        assert_eq!(folded("\"Fl\"\"x\""), "Fl\"x");
        assert_eq!(table_name("Public.\"G\""), "G");
        assert_eq!(table_name("\"public\".g"), "g");
        assert_eq!(table_name("\"a.b\""), "a.b");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(readable("LazyBase.Tables"), "\"lazybase\".\"tables\"");
        assert_eq!(readable("public.T"), "\"t\"");
        assert_eq!(readable("\"lazybase.tables\""), "\"lazybase.tables\"");
    }
}
