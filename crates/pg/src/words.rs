//! The first words of a statement, as far as the protocol must know them.

/// What a statement is for the order of messages and for transactions that the protocol opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// BEGIN, START TRANSACTION.
    Begin,
    /// COMMIT, END, ROLLBACK, ABORT.
    End,
    /// SAVEPOINT, RELEASE, ROLLBACK TO.
    Savepoint,
    /// What can't stand in a transaction, and writes nothing by itself: SETTLE, BACKUP, PAUSE,
    /// RESUME.
    Alone,
    /// Settings.
    Setting,
    /// COPY.
    Copy,
    /// What only reads.
    Read,
    /// DECLARE, FETCH, MOVE, CLOSE: what is about cursors.
    Cursor,
    /// DEALLOCATE, LISTEN, UNLISTEN: what concerns the connection itself.
    Connection,
    /// DISCARD, which concerns the connection too, and can't stand in a transaction.
    Discard,
    /// Everything else.
    Other,
}

impl Kind {
    /// Whether a statement belongs to the transaction of those that were sent with it.
    pub(crate) fn joins(self) -> bool {
        matches!(
            self,
            Kind::Setting | Kind::Copy | Kind::Read | Kind::Cursor | Kind::Other
        )
    }

    /// Whether a statement ends the transaction of those that were sent before it.
    pub(crate) fn stands_alone(self) -> bool {
        matches!(self, Kind::Alone | Kind::Discard)
    }
}

/// What a statement is.
pub(crate) fn kind(sql: &str) -> Kind {
    let words = first(sql, 3);
    let mut words = words.iter().map(String::as_str);
    match words.next().unwrap_or_default() {
        "BEGIN" | "START" => Kind::Begin,
        "ROLLBACK" | "ABORT" if words.any(|word| word == "TO") => Kind::Savepoint,
        "COMMIT" | "END" | "ROLLBACK" | "ABORT" => Kind::End,
        "SAVEPOINT" | "RELEASE" => Kind::Savepoint,
        "SETTLE" | "BACKUP" | "PAUSE" | "RESUME" => Kind::Alone,
        "SET" | "RESET" => Kind::Setting,
        "COPY" => Kind::Copy,
        "WITH" if lazybase_query::with_writes(sql) => Kind::Other,
        "SELECT" | "WITH" | "VALUES" | "TABLE" | "SHOW" | "EXPLAIN" | "DESCRIBE" | "VERIFY"
        | "PREPARE" => Kind::Read,
        "DECLARE" | "FETCH" | "MOVE" | "CLOSE" => Kind::Cursor,
        "DEALLOCATE" | "LISTEN" | "UNLISTEN" => Kind::Connection,
        "DISCARD" => Kind::Discard,
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
        if rest.starts_with("/*") {
            rest = after_comment(rest);
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

/// What stands after the comment that a text begins with; comments nest.
fn after_comment(text: &str) -> &str {
    let (mut rest, mut depth) = (text, 0_usize);
    loop {
        let next = rest.find("/*").into_iter().chain(rest.find("*/")).min();
        let Some(at) = next else {
            return "";
        };
        depth = match rest[at..].starts_with("/*") {
            true => depth + 1,
            false => depth - 1,
        };
        rest = &rest[at + 2..];
        if depth == 0 {
            return rest;
        }
    }
}

#[cfg(test)]
mod tests;
