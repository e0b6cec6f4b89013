//! Tests of `text_places`.

use super::*;

/// The character of a statement at which an error of a name is located.
fn located(name: &str, sqlstate: &'static str, statement: &str) -> Option<usize> {
    let error = Error::invalid("no").with_name(name).with_sqlstate(sqlstate);
    let place = locate(error, statement, TextPlace::START).place()?;
    place.character_in(statement)
}

#[test]
fn a_name_is_found_where_it_stands_alone() {
    for (name, sqlstate, statement) in [
        (
            "nope",
            "42703",
            "INSERT INTO t (k, ^nope) VALUES (1, 'nope')",
        ),
        (
            "nope",
            "42703",
            "/* nope */ SELECT 'ä', -- nope\n ^t.NoPe FROM t",
        ),
        ("No", "42703", "UPDATE t SET ^\"No\" = 1"),
        ("nope", "42P01", "SELECT nope.a, nope.b FROM ^public.nope"),
        (
            "nope",
            "42883",
            "SELECT nope, $$nope($$, ^nope (1) FROM nope",
        ),
        ("nope.*", "42P01", "SELECT ^nope.* FROM nope AS n"),
        ("a", "42701", "INSERT INTO t (a, b, ^a) VALUES (1, 2, 3)"),
        ("nope", "42704", "SELECT 1::^nope"),
    ] {
        let character = statement.chars().position(|c| c == '^').unwrap() + 1;
        let statement = statement.replace('^', "");
        assert_eq!(
            located(name, sqlstate, &statement),
            Some(character),
            "{statement}"
        );
    }
}

#[test]
fn a_name_that_stands_twice_or_not_at_all_has_no_place() {
    for (name, sqlstate, statement) in [
        (
            "nope",
            "42703",
            "SELECT nope FROM (SELECT nope FROM t) AS s",
        ),
        ("nope", "42703", "SELECT \"NOPE\", 'nope', nope.a FROM t"),
        ("nope", "42883", "SELECT nope FROM t"),
        ("a", "42701", "INSERT INTO t (a, a, a) VALUES (1, 2, 3)"),
        ("nope", "42P01", "SELECT 'never closed"),
    ] {
        assert_eq!(located(name, sqlstate, statement), None, "{statement}");
    }
    let nameless = locate(Error::invalid("nope"), "nope", TextPlace::START);
    assert_eq!(nameless.place(), None);
}

#[test]
fn a_statement_is_a_part_of_a_text() {
    let start = TextPlace { line: 3, column: 5 };
    let error = || Error::not_found("no").with_sqlstate("42P01");
    let named = locate(error().with_name("t"), "TABLE t", start);
    assert_eq!(
        named.place(),
        Some(TextPlace {
            line: 3,
            column: 11
        })
    );
    let known = TextPlace { line: 2, column: 7 };
    let placed = locate(error().with_place(known), "TABLE\n     t", start);
    assert_eq!(placed.place(), Some(TextPlace { line: 4, column: 7 }));
}

#[test]
fn what_is_missing_is_missing_at_the_end() {
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, "SELECT 'ä\n' +").tokenize_with_location();
    let tokens = with_end(tokens.unwrap());
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    let error = parser.parse_statement().unwrap_err().to_string();
    assert!(
        error.contains("found: EOF at Line: 2, Column: 4"),
        "{error}"
    );
}

#[test]
fn templates_have_no_places() {
    let mut parser = of_template("SELECT 1 FROM t").unwrap();
    parser.next_token();
    let error = parser.expected::<()>("nothing", parser.peek_token());
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with("found: 1"), "{error}");
}
