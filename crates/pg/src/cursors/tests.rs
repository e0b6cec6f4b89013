//! Tests of `cursors`.

use super::*;

fn declared(sql: &str) -> (String, bool, bool, String) {
    match read(sql) {
        Ok(CursorStatement::Declare {
            name,
            held,
            binary,
            query,
        }) => (name, held, binary, query),
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn declarations_are_read() {
    let query = "SELECT 1 FOR x";
    for (sql, name, held, binary) in [
        ("DECLARE c CURSOR FOR SELECT 1 FOR x", "c", false, false),
        (
            "declare C no scroll cursor without hold for SELECT 1 FOR x;",
            "c",
            false,
            false,
        ),
        (
            "DECLARE \"a \"\"B\" BINARY INSENSITIVE CURSOR WITH HOLD FOR SELECT 1 FOR x",
            "a \"B",
            true,
            true,
        ),
    ] {
        // It stands where it stands in the whole text.
        let before = " ".repeat(sql.find(query).unwrap());
        assert_eq!(
            declared(sql),
            (name.to_owned(), held, binary, before + query),
            "{sql}"
        );
    }
}

#[test]
fn ways_to_move_are_read() {
    for (sql, wanted) in [
        ("FETCH c", Some(1)),
        ("FETCH NEXT FROM c", Some(1)),
        ("fetch forward 100 from \"c\"", Some(100)),
        ("FETCH 7 IN c", Some(7)),
        ("FETCH ALL c;", None),
        ("MOVE FORWARD ALL IN c", None),
    ] {
        match read(sql) {
            Ok(CursorStatement::Fetch { name, count, sends }) => {
                assert_eq!((name.as_str(), count), ("c", wanted), "{sql}");
                assert_eq!(sends, !sql.starts_with("MOVE"));
            }
            other => panic!("{sql}: {other:?}"),
        }
    }
}

#[test]
fn what_goes_back_or_means_nothing_is_refused() {
    for (sql, state) in [
        ("DECLARE c SCROLL CURSOR FOR SELECT 1", "0A000"),
        (
            "DECLARE c INSENSITIVE SCROLL CURSOR WITH HOLD FOR SELECT 1",
            "0A000",
        ),
        ("FETCH PRIOR FROM c", "55000"),
        ("FETCH -1 FROM c", "55000"),
        ("FETCH FORWARD -1 FROM c", "55000"),
        ("FETCH 0 FROM c", "55000"),
        ("FETCH FORWARD 0 IN c", "55000"),
        ("FETCH BACKWARD ALL IN c", "55000"),
        ("FETCH FIRST FROM c", "55000"),
        ("FETCH LAST c", "55000"),
        ("FETCH RELATIVE -2 FROM c", "55000"),
        ("MOVE ABSOLUTE 3 IN c", "55000"),
        ("MOVE BACKWARD 2 IN c", "55000"),
        ("DECLARE c CURSOR FOR", "42601"),
        (
            "DECLARE c CURSOR FOR INSERT INTO t VALUES (1) RETURNING k",
            "42601",
        ),
        ("DECLARE c CURSOR FOR DELETE FROM t RETURNING k", "42601"),
        (
            "DECLARE c CURSOR FOR WITH q AS (SELECT 1) INSERT INTO t SELECT * FROM q",
            "42601",
        ),
        ("DECLARE c CURSOR FOR DELETE FROM t", "42601"),
        ("DECLARE c CURSOR FOR EXECUTE put(1)", "42601"),
        ("DECLARE c SOME CURSOR FOR SELECT 1", "42601"),
        ("FETCH 3 FROM", "42601"),
        ("CLOSE", "42601"),
        ("CLOSE a b", "42601"),
    ] {
        assert_eq!(read(sql).unwrap_err().sqlstate(), state, "{sql}");
    }
}
