//! What a statement did, in the words that a database in this process would use; no I/O.

/// `INSERT 0 2`, `CREATE TABLE`, `SETTLE`: the first words, and how many rows where rows count.
pub(super) fn of(sql: &str, rows: u64) -> String {
    let words = words(sql);
    let mut words = words.iter().map(String::as_str);
    let first = words.next().unwrap_or_default();
    let second = words.next().unwrap_or_default();
    match first {
        "INSERT" => format!("INSERT 0 {rows}"),
        "UPDATE" | "DELETE" | "MERGE" | "COPY" => format!("{first} {rows}"),
        "END" => "COMMIT".to_owned(),
        "ABORT" => "ROLLBACK".to_owned(),
        "START" => "BEGIN".to_owned(),
        "CREATE" if matches!(second, "MATERIALIZED" | "OR") => "CREATE VIEW".to_owned(),
        "CREATE" | "DROP" | "ALTER" | "TRUNCATE" | "COMMENT" | "PAUSE" | "RESUME" => {
            format!("{first} {second}")
        }
        _ => first.to_owned(),
    }
}

/// Whether a statement that was done opens a transaction, or ends one.
pub(super) fn opens_transaction(sql: &str) -> Option<bool> {
    let words = words(sql);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["BEGIN" | "START", ..] => Some(true),
        ["ROLLBACK", "TO", ..] => None,
        ["ROLLBACK", "WORK" | "TRANSACTION", "TO", ..] => None,
        ["COMMIT" | "END" | "ROLLBACK" | "ABORT", ..] => Some(false),
        _ => None,
    }
}

/// The first three words in upper case, past comments.
fn words(sql: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = sql.trim_start();
    while words.len() < 3 {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(' || c == ';');
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
            continue;
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        if word.is_empty() {
            break;
        }
        words.push(word.to_ascii_uppercase());
        rest = after;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{of, opens_transaction};

    #[test]
    fn tags_are_those_of_the_local_shell() {
        for (sql, tag) in [
            ("insert INTO t VALUES (1)", "INSERT 0 2"),
            ("-- x\nDELETE FROM t", "DELETE 2"),
            ("CREATE TABLE t (k INT)", "CREATE TABLE"),
            ("SETTLE TO SORTED", "SETTLE"),
            ("PAUSE STAGE MERGE", "PAUSE STAGE"),
            ("END", "COMMIT"),
        ] {
            assert_eq!(of(sql, 2), tag, "{sql}");
        }
    }

    #[test]
    fn transactions_are_followed() {
        assert_eq!(opens_transaction("begin read only"), Some(true));
        assert_eq!(opens_transaction("ROLLBACK TO a"), None);
        assert_eq!(opens_transaction("/* */ commit"), Some(false));
        assert_eq!(opens_transaction("SELECT 1"), None);
    }
}
