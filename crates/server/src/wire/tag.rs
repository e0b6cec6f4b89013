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
        ["COMMIT" | "END" | "ROLLBACK" | "ABORT", rest @ ..] => {
            Some(matches!(rest, ["AND", "CHAIN"] | [_, "AND", "CHAIN"]))
        }
        _ => None,
    }
}

/// Whether a statement that is given up may be kept all the same: what it wrote may be on its way
/// to the log. Where a transaction is open, nothing is before its COMMIT.
pub(crate) fn may_be_kept(sql: &str, in_transaction: bool) -> bool {
    let words = words(sql);
    match words.first().map_or("", String::as_str) {
        "COMMIT" | "END" => true,
        "WITH" => !in_transaction && has_word_of_writes(sql),
        "SELECT" | "VALUES" | "TABLE" | "SHOW" | "EXPLAIN" | "DESCRIBE" | "VERIFY" | "SETTLE"
        | "BEGIN" | "START" | "ROLLBACK" | "ABORT" | "SAVEPOINT" | "RELEASE" | "SET" | "RESET" => {
            false
        }
        _ => !in_transaction,
    }
}

/// Whether some word says that rows are written, be it in a constant.
fn has_word_of_writes(sql: &str) -> bool {
    let mut words = sql.split(|c: char| !c.is_alphanumeric() && c != '_');
    let writes = ["INSERT", "UPDATE", "DELETE"];
    words.any(|word| writes.iter().any(|of| word.eq_ignore_ascii_case(of)))
}

/// The first four words in upper case, past comments.
fn words(sql: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = sql.trim_start();
    while words.len() < 4 {
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
    use super::{may_be_kept, of, opens_transaction};

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
        assert_eq!(opens_transaction("END AND NO CHAIN"), Some(false));
        assert_eq!(opens_transaction("COMMIT AND CHAIN"), Some(true));
        assert_eq!(opens_transaction("rollback work and chain"), Some(true));
        assert_eq!(opens_transaction("SELECT 1"), None);
    }

    #[test]
    fn what_writes_may_be_kept_once_it_is_given_up() {
        for sql in [
            "INSERT INTO t VALUES (1)",
            "-- x\nWITH x AS (SELECT 1) DELETE FROM t",
            "COPY t FROM 'x.csv'",
            "DROP TABLE t",
        ] {
            assert!(may_be_kept(sql, false), "{sql}");
            assert!(!may_be_kept(sql, true), "{sql}");
        }
        for in_transaction in [false, true] {
            assert!(may_be_kept("commit", in_transaction));
            assert!(!may_be_kept("(SELECT 1)", in_transaction));
            assert!(!may_be_kept("ROLLBACK", in_transaction));
            assert!(!may_be_kept(
                "WITH x AS (SELECT 1) SELECT * FROM x",
                in_transaction
            ));
        }
    }
}
