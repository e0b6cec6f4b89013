//! Tests of `error`.

use super::*;

fn missing(name: &str, valid: &[&str], sql: &str) -> Error {
    let error = DataFusionError::SchemaError(
        Box::new(SchemaError::FieldNotFound {
            field: Box::new(Column::new_unqualified(name)),
            valid_fields: valid
                .iter()
                .map(|name| Column::new_unqualified(*name))
                .collect(),
        }),
        Box::new(None),
    );
    from_datafusion(&error, sql)
}

#[test]
fn an_unknown_column_hints_at_the_nearest_name() {
    let error = missing(
        "carier",
        &["carrier", "flight"],
        "SELECT carier FROM flights",
    );
    assert_eq!(error.sqlstate(), "42703");
    assert_eq!(error.hint(), Some("perhaps \"carrier\" is meant"));
}

#[test]
fn an_unknown_column_in_double_quotes_hints_at_single_quotes() {
    let error = missing("UA", &["carrier"], "SELECT * FROM f WHERE carrier = \"UA\"");
    assert_eq!(
        error.hint(),
        Some("double quotes are for names; for a text write 'UA'")
    );
}

#[test]
fn our_own_error_comes_back_as_it_went_in() {
    let ours = Error::invalid("no").with_hint("yes").with_sqlstate("25006");
    let travelled = DataFusionError::Context("in".into(), Box::new(into_datafusion(ours)));
    let arrow = ArrowError::ExternalError(Box::new(travelled));
    let back = from_datafusion(&DataFusionError::ArrowError(Box::new(arrow), None), "");
    assert_eq!((back.message(), back.hint()), ("no", Some("yes")));
    assert_eq!(back.sqlstate(), "25006");
}

#[test]
fn temporary_files_past_their_limit_and_full_disks_are_told_apart() {
    let through_arrow = |error: std::io::Error| {
        let error = ArrowError::from(error);
        from_datafusion(&DataFusionError::ArrowError(Box::new(error), None), "")
    };
    let spilt = format!("{SPILT_TOO_MUCH} the allowable limit of 1.0 MB. Please try");
    let error = through_arrow(std::io::Error::other(spilt));
    assert_eq!(error.sqlstate(), "53400");
    assert!(error.hint().unwrap().contains("query_spill_bytes"));
    let full = std::io::Error::from(ErrorKind::StorageFull);
    assert_eq!(through_arrow(full).sqlstate(), "53100");
    let denied = std::io::Error::from(ErrorKind::PermissionDenied);
    assert_eq!(through_arrow(denied).sqlstate(), "58030");
}

/// Columns that do not fit are nothing that a user can mend; a pattern that is none is.
#[test]
fn columns_of_ours_that_do_not_fit_are_internal() {
    let error = ArrowError::InvalidArgumentError("number of columns".to_owned());
    assert_eq!(from_arrow(&error).sqlstate(), "XX000");
    assert_eq!(from_given(&error).sqlstate(), "22023");
    let error = ArrowError::ComputeError("no regular expression".to_owned());
    let error = DataFusionError::ArrowError(Box::new(error), None);
    assert_eq!(from_datafusion(&error, "").sqlstate(), "22023");
}

#[test]
fn a_misplaced_clause_says_where_it_stands() {
    let error = ParserError::ParserError("Expected: end of statement, found: 0".to_owned());
    let error = from_parser(&error, "SELECT * FROM t freshness 0 LIMIT 3");
    assert!(
        error
            .hint()
            .unwrap()
            .starts_with("FRESHNESS stands at the end")
    );
}

#[test]
fn near_names_are_few_letters_away() {
    assert_eq!(
        nearest("flghts", ["flights", "planes"].into_iter()),
        Some("flights")
    );
    assert_eq!(nearest("x", ["flights", "planes"].into_iter()), None);
}

#[test]
fn what_the_parser_missed_is_told_in_postgresqls_words() {
    let told = |said: &str| {
        let error = from_parser(&ParserError::ParserError(said.to_owned()), "SELECT");
        let place = error.place().map(|place| (place.line, place.column));
        let detail = error.detail().map(str::to_owned);
        (error.message().to_owned(), detail, place)
    };
    let expected = |wanted: &str| Some(format!("expected: {wanted}"));
    assert_eq!(
        told("Expected: an expression, found: FROM at Line: 2, Column: 8"),
        (
            "syntax error at or near \"FROM\"".to_owned(),
            expected("an expression"),
            Some((2, 8))
        )
    );
    assert_eq!(
        told("Expected: identifier, found: EOF at Line: 1, Column: 7"),
        (
            "syntax error at end of input".to_owned(),
            expected("identifier"),
            Some((1, 7))
        )
    );
    // What the text itself says is no place.
    assert_eq!(
        told("Expected: ), found: ' at Line: x, Column: 3'"),
        (
            "syntax error at or near \"' at Line: x, Column: 3'\"".to_owned(),
            expected(")"),
            None
        )
    );
    assert_eq!(
        told("Unterminated comment at Line: 3, Column: 1"),
        (
            "syntax error: Unterminated comment".to_owned(),
            None,
            Some((3, 1))
        )
    );
}

#[test]
fn a_qualifier_that_nothing_in_from_has_is_told() {
    let missing = |table: &str, sql: &str| {
        let error = DataFusionError::SchemaError(
            Box::new(SchemaError::FieldNotFound {
                field: Box::new(Column::new(Some(table), "a")),
                valid_fields: vec![Column::new(Some("t"), "b")],
            }),
            Box::new(None),
        );
        let error = from_datafusion(&error, sql);
        (error.sqlstate(), error.message().to_owned())
    };
    for (table, sql, sqlstate, said) in [
        ("x", "SELECT x.a FROM t", "42P01", "missing FROM-clause"),
        (
            "u",
            "SELECT u.a FROM t, u AS t2",
            "42P01",
            "invalid reference",
        ),
        ("t", "SELECT t.a FROM t", "42703", "there is no column"),
        (
            "u",
            "SELECT (SELECT u.a FROM t) FROM u",
            "42703",
            "there is no column",
        ),
        (
            "s",
            "UPDATE t SET b = s.a FROM (SELECT 1) AS s",
            "42703",
            "there is no column",
        ),
        ("x", "no statement", "42703", "there is no column"),
    ] {
        let (state, message) = missing(table, sql);
        assert_eq!(state, sqlstate, "{sql}");
        assert!(message.starts_with(said), "{sql}: {message}");
    }
}
