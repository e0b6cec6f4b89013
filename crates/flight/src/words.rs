//! The first word of a statement, as far as the protocol must know it.

/// Whether a statement changes the session alone: its settings, or where its transaction stands.
pub(crate) fn is_of_session(sql: &str) -> bool {
    let first = first(sql).to_ascii_uppercase();
    let words = [
        "SET",
        "RESET",
        "BEGIN",
        "START",
        "COMMIT",
        "END",
        "ROLLBACK",
        "ABORT",
        "SAVEPOINT",
        "RELEASE",
    ];
    words.contains(&first.as_str())
}

/// Whether a statement reads, and can be given up without a trace.
pub(crate) fn only_reads(sql: &str) -> bool {
    let first = first(sql).to_ascii_uppercase();
    let words = ["SELECT", "VALUES", "TABLE", "SHOW", "EXPLAIN", "DESCRIBE"];
    match first.as_str() {
        "WITH" => !lazybase_query::with_writes(sql),
        first => words.contains(&first),
    }
}

/// Whether a statement that gives rows may write those that it tells of, by RETURNING.
pub(crate) fn may_write(sql: &str) -> bool {
    match first(sql).to_ascii_uppercase().as_str() {
        "INSERT" | "UPDATE" | "DELETE" | "EXECUTE" => true,
        "WITH" => lazybase_query::with_writes(sql),
        _ => false,
    }
}

/// The first word, past blanks, comments and parentheses.
fn first(sql: &str) -> &str {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphabetic());
            return &rest[..end.unwrap_or(rest.len())];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_found_past_comments() {
        assert!(is_of_session(" -- so\n /* and */ set x = 1"));
        assert!(is_of_session("BEGIN"));
        assert!(!is_of_session("SETTLE"));
        assert!(!is_of_session("SELECT 'SET'"));
        assert!(only_reads("((select 1))"));
        assert!(!only_reads("/* select */ INSERT INTO t VALUES (1)"));
        assert!(!only_reads("/*"));
        assert!(only_reads("WITH a AS (SELECT 1) SELECT * FROM a"));
        assert!(!only_reads("with a as (select 1) delete from t"));
        assert!(may_write(
            "with a as (select 1) insert into t select * from a"
        ));
        assert!(may_write("-- so\nINSERT INTO t VALUES (1) RETURNING k"));
        assert!(may_write("update t SET a = 1 RETURNING a"));
        assert!(may_write("DELETE FROM t RETURNING *"));
        assert!(!may_write("SELECT 'INSERT'"));
    }
}
