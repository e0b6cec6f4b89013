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
    let place = error.place().unwrap();
    assert_eq!((place.line, place.column), (2, 1));
}

#[test]
fn statements_of_a_script_have_the_lines_of_their_texts_and_words() {
    let script = "SELECT 1; -- one\n\n/* two\n */ SELECT ';\n'; SELECT 3;\n-- four\nSELECT 4\n";
    let placed = |text: &str, (text_line, text_column), line| Placed {
        text: text.to_owned(),
        text_line,
        text_column,
        line,
    };
    assert_eq!(
        split_script(script, 7).unwrap(),
        [
            placed("SELECT 1", (7, 1), 7),
            placed("-- one\n\n/* two\n */ SELECT ';\n'", (7, 11), 10),
            placed("SELECT 3", (11, 4), 11),
            placed("-- four\nSELECT 4", (12, 1), 13),
        ]
    );
    let error = split_script("SELECT 1;\n'a", 7).unwrap_err();
    assert_eq!(error.detail(), Some("it begins at line 8"));
}

/// Also where a comment in between holds the text of a statement.
#[test]
fn statements_begin_where_their_texts_stand() {
    let script = "SELECT 1;;  /* SELECT 'ä' */ ; SELECT 'ä'; -- ö\n  SELECT\n  'ä'";
    let placed = split_script(script, 1).unwrap();
    for statement in &placed {
        let before = statement.start().character_in(script).unwrap() - 1;
        let rest: String = script.chars().skip(before).collect();
        assert!(rest.starts_with(&statement.text), "{statement:?}");
    }
    let starts: Vec<u64> = placed.iter().map(|one| one.start().column).collect();
    assert_eq!(starts, [1, 32, 44]);
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
