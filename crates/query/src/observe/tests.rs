//! Constants never show; kinds are told by the first words.

use super::{Kind, masked};

#[test]
fn constants_are_masked_wherever_they_stand() {
    for (sql, shown) in [
        (
            "SELECT  a, \"B\"\nFROM t WHERE k = 'secret' AND n >= 42.5e3 -- secret",
            "SELECT a, \"B\" FROM t WHERE k = ? AND n >= ?",
        ),
        (
            "INSERT INTO t VALUES (1, E'se\\'cret', X'00ff', $$secret$$, $tag$secret$tag$)",
            "INSERT INTO t VALUES (?, ?, ?, ?, ?)",
        ),
        (
            "CREATE USER u PASSWORD 'secret' /* secret */",
            "CREATE USER u PASSWORD ?",
        ),
        (
            "SELECT * FROM t WHERE k = $1 AND v->>'secret' @> N'secret'",
            "SELECT * FROM t WHERE k = $1 AND v->>? @> ?",
        ),
        ("SELECT 'secret", "(a text that can't be read)"),
    ] {
        let masked = masked(sql);
        assert_eq!(masked, shown);
        assert!(!masked.contains("secret"), "{masked}");
    }
    let long = format!("SELECT {}", "column, ".repeat(10_000));
    assert!(masked(&long).len() < 2_100);
}

#[test]
fn the_first_words_tell_the_kind() {
    for (sql, kind) in [
        ("-- x\n(SELECT 1)", Kind::Scan),
        ("/* x */ with a AS (SELECT 1) SELECT * FROM a", Kind::Scan),
        ("insert INTO t VALUES (1)", Kind::Write),
        ("COPY t FROM STDIN", Kind::Write),
        ("INGEST INTO t", Kind::Write),
        ("COPY t TO 'file'", Kind::Scan),
        ("CREATE TABLE t (k INT)", Kind::Definition),
        ("SET a = 1", Kind::Other),
        ("", Kind::Other),
    ] {
        assert_eq!(Kind::of(sql), kind, "{sql}");
    }
}
