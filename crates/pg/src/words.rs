//! The first words of a statement, as far as the protocol must know them.

/// What a statement is for the order of messages and for transactions that the protocol opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// BEGIN, START TRANSACTION.
    Begin,
    /// COMMIT, END, ROLLBACK, ABORT, savepoints.
    Transaction,
    /// What can't stand in a transaction: SETTLE, PAUSE, RESUME.
    Alone,
    /// Settings: no part of any transaction.
    Setting,
    /// COPY.
    Copy,
    /// What only reads.
    Read,
    /// DISCARD, DEALLOCATE, CLOSE, LISTEN, UNLISTEN: what concerns the connection itself.
    Connection,
    /// Everything else.
    Other,
}

/// What a statement is.
pub(crate) fn kind(sql: &str) -> Kind {
    let words = first(sql, 1);
    match words.first().map(String::as_str).unwrap_or_default() {
        "BEGIN" | "START" => Kind::Begin,
        "COMMIT" | "END" | "ROLLBACK" | "ABORT" | "SAVEPOINT" | "RELEASE" => Kind::Transaction,
        "SETTLE" | "PAUSE" | "RESUME" => Kind::Alone,
        "SET" | "RESET" => Kind::Setting,
        "COPY" => Kind::Copy,
        "SELECT" | "WITH" | "VALUES" | "TABLE" | "SHOW" | "EXPLAIN" | "DESCRIBE" => Kind::Read,
        "DISCARD" | "DEALLOCATE" | "CLOSE" | "LISTEN" | "UNLISTEN" => Kind::Connection,
        _ => Kind::Other,
    }
}

/// The first words of a statement in upper case, past blanks, comments and parentheses.
pub(crate) fn first(sql: &str, count: usize) -> Vec<String> {
    let mut rest = sql;
    let mut words = Vec::with_capacity(count);
    while words.len() < count {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
            continue;
        }
        let name = |c: char| c.is_alphanumeric() || c == '_';
        let end = match rest.strip_prefix('"') {
            Some(quoted) => quoted.find('"').map_or(rest.len(), |end| end + 2),
            None => rest.find(|c| !name(c)).unwrap_or(rest.len()),
        };
        let end = match (end, rest.chars().next()) {
            (0, Some(other)) => other.len_utf8(),
            (end, _) => end,
        };
        if end == 0 {
            break;
        }
        let word = &rest[..end];
        words.push(match word.strip_prefix('"') {
            Some(quoted) => quoted.trim_end_matches('"').to_owned(),
            None => word.to_uppercase(),
        });
        rest = &rest[end..];
    }
    words
}

#[cfg(test)]
mod tests;
