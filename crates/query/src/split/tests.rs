//! Tests of `split`.

use super::*;

#[test]
fn semicolons_end_statements_only_outside_quotes_and_comments() {
    let script = "SELECT 1; -- no; comment\nSELECT ';', \"a;b\", 'it''s;' ;/* ; /* ; */ ; */\n\
                  SELECT $$;$$, $tag$ ; $$ ; $tag$; SELECT E'\\';';; ;";
    assert_eq!(
        split_statements(script).unwrap(),
        [
            "SELECT 1",
            "-- no; comment\nSELECT ';', \"a;b\", 'it''s;'",
            "/* ; /* ; */ ; */\nSELECT $$;$$, $tag$ ; $$ ; $tag$",
            "SELECT E'\\';'",
        ]
    );
}

#[test]
fn the_last_statement_needs_no_semicolon() {
    assert_eq!(split_statements("SELECT 1; SELECT 2").unwrap().len(), 2);
    assert!(split_statements("  -- nothing\n").unwrap().is_empty());
}

#[test]
fn what_is_never_closed_is_an_error_that_names_its_line() {
    for sql in ["SELECT\n'a", "SELECT \n\"a", "/* a", "SELECT \n$$a"] {
        let error = split_statements(sql).unwrap_err();
        assert_eq!(error.sqlstate(), "42601", "{sql}");
    }
    let error = split_statements("SELECT\n'a").unwrap_err();
    assert_eq!(error.detail(), Some("it begins at line 2"));
}

#[test]
fn statements_of_a_script_have_the_lines_of_their_texts_and_words() {
    let script = "SELECT 1; -- one\n\n/* two\n */ SELECT ';\n'; SELECT 3;\n-- four\nSELECT 4\n";
    let placed = |text: &str, text_line, line| Placed {
        text: text.to_owned(),
        text_line,
        line,
    };
    assert_eq!(
        split_script(script, 7).unwrap(),
        [
            placed("SELECT 1", 7, 7),
            placed("-- one\n\n/* two\n */ SELECT ';\n'", 7, 10),
            placed("SELECT 3", 11, 11),
            placed("-- four\nSELECT 4", 12, 13),
        ]
    );
    let error = split_script("SELECT 1;\n'a", 7).unwrap_err();
    assert_eq!(error.detail(), Some("it begins at line 8"));
}

#[test]
fn a_shell_runs_what_is_complete() {
    for sql in [
        "SELECT 1;",
        "SELECT ';';",
        "",
        " -- x",
        "SELECT 1; -- x",
        "SELECT $1;",
    ] {
        assert!(is_complete(sql), "{sql}");
    }
    for sql in [
        "SELECT 1",
        "SELECT ';",
        "SELECT 1; SELECT",
        "SELECT $$;",
        "/* ;",
    ] {
        assert!(!is_complete(sql), "{sql}");
    }
}

#[test]
fn what_stands_behind_with_reads_or_writes() {
    for (sql, writes) in [
        ("WITH a AS (SELECT 1) SELECT * FROM a", false),
        ("with a as (select 1) insert into t select * from a", true),
        (
            "WITH a AS (SELECT 1), b (x, y) AS (VALUES (1, 2)) UPDATE t SET k = 1",
            true,
        ),
        ("WITH RECURSIVE a AS (SELECT 1)DELETE FROM t", true),
        ("WITH a AS (SELECT 'insert' AS \"update\") TABLE a", false),
        ("WITH \"delete\" AS (SELECT 1) /* insert */ SELECT 1", false),
        (
            "WITH a AS (SELECT ') insert ') -- delete\n SELECT 1 FOR UPDATE",
            false,
        ),
        ("(WITH a AS (SELECT 1) SELECT * FROM a)", false),
        ("WITH a AS (SELECT 'never closed", false),
    ] {
        assert_eq!(with_writes(sql), writes, "{sql}");
    }
}
