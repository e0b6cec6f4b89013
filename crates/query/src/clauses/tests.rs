//! Tests of `clauses`.

use std::time::Duration;

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;
use lazybase_model::{DatabaseId, Horizon};

use super::*;

fn take(sql: &str) -> Result<(String, Clauses)> {
    let mut tokens: Vec<TokenWithSpan> = Tokenizer::new(&PostgreSqlDialect {}, sql)
        .tokenize_with_location()
        .unwrap()
        .into_iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .collect();
    let clauses = take_clauses(&mut tokens)?;
    let words: Vec<String> = tokens.iter().map(|token| token.token.to_string()).collect();
    Ok((words.join(" "), clauses))
}

fn check(sql: &str, rest: &str, expected: Clauses) {
    assert_eq!(take(sql).unwrap(), (rest.to_owned(), expected), "{sql}");
}

fn fresh(freshness: Freshness) -> Clauses {
    Clauses {
        freshness: Some(freshness),
        ..Clauses::default()
    }
}

#[test]
fn freshness_is_taken_in_each_of_its_spellings() {
    let half = Freshness::Within(Duration::from_millis(500));
    check(
        "SELECT * FROM t FRESHNESS 0",
        "SELECT * FROM t",
        fresh(Freshness::ZERO),
    );
    check("SELECT 1 freshness '500 ms'", "SELECT 1", fresh(half));
    check("SELECT 1 FRESHNESS 0.5", "SELECT 1", fresh(half));
    check("SELECT 1 FRESHNESS 5e-1", "SELECT 1", fresh(half));
    check("SELECT 1 FRESHNESS 5E-1", "SELECT 1", fresh(half));
    check(
        "SELECT 1 FRESHNESS BEST EFFORT",
        "SELECT 1",
        fresh(Freshness::BestEffort),
    );
    check(
        "SELECT 1 FRESHNESS 'best effort'",
        "SELECT 1",
        fresh(Freshness::BestEffort),
    );
    check(
        "EXPLAIN SELECT * FROM t WHERE a IN (1) FRESHNESS 0",
        "EXPLAIN SELECT * FROM t WHERE a IN ( 1 )",
        fresh(Freshness::ZERO),
    );
}

#[test]
fn clauses_stand_in_any_order() {
    let token = Acknowledged {
        database: DatabaseId {
            database: 1,
            history: 2,
        },
        horizon: Horizon::end_of(ScuNumber(3)),
    };
    let expected = Clauses {
        freshness: Some(Freshness::ZERO),
        after: Some(token),
        as_of: None,
        on_miss: Some(OnMiss::Wait(Duration::from_secs(2))),
    };
    let sql = format!("SELECT 1 ON MISS WAIT '2 s' AFTER '{token}' FRESHNESS 0");
    check(&sql, "SELECT 1", expected);
    let sql = format!("SELECT 1 FRESHNESS 0 AFTER '{token}' ON MISS WAIT 2");
    check(&sql, "SELECT 1", expected);
}

#[test]
fn limits_may_follow() {
    let expected = fresh(Freshness::ZERO);
    for limits in [
        "LIMIT 200",
        "LIMIT ALL OFFSET 5",
        "LIMIT $1 OFFSET $2 ROWS",
        "OFFSET 1 ROW FETCH NEXT ROW ONLY",
        "FETCH FIRST 10 ROWS ONLY",
    ] {
        let rest = format!("SELECT a FROM t {limits}");
        check(
            &format!("SELECT a FROM t FRESHNESS 0 {limits}"),
            &rest,
            expected,
        );
    }
    let both = Clauses {
        on_miss: Some(OnMiss::Stale),
        ..expected
    };
    check(
        "SELECT 1 FRESHNESS 0 LIMIT 1 ON MISS STALE OFFSET 2",
        "SELECT 1 LIMIT 1 OFFSET 2",
        both,
    );
    for sql in [
        "SELECT 1 FRESHNESS 0 LIMIT a",
        "SELECT 1 FRESHNESS 0 ORDER BY 1",
        "SELECT 1 FRESHNESS 0 FETCH FIRST 1 ROWS WITH TIES",
    ] {
        check(sql, sql, Clauses::default());
    }
}

#[test]
fn clauses_of_the_one_subquery_hold_for_the_statement() {
    let expected = fresh(Freshness::ZERO);
    for (sql, rest) in [
        (
            "SELECT * FROM ( SELECT a FROM t FRESHNESS 0 ) x LIMIT 200",
            "SELECT * FROM ( SELECT a FROM t ) x LIMIT 200",
        ),
        (
            "SELECT a , b FROM ( SELECT a FROM t FRESHNESS 0 LIMIT 7 ) AS x ( a ) WHERE a > 1 \
             GROUP BY a , b FRESHNESS 0",
            "SELECT a , b FROM ( SELECT a FROM t LIMIT 7 ) AS x ( a ) WHERE a > 1 GROUP BY a , b",
        ),
        (
            "SELECT * FROM ( SELECT * FROM ( WITH w AS ( SELECT 1 ) SELECT * FROM w \
             FRESHNESS 0 ) y ) x",
            "SELECT * FROM ( SELECT * FROM ( WITH w AS ( SELECT 1 ) SELECT * FROM w ) y ) x",
        ),
        (
            "EXPLAIN SELECT a IS DISTINCT FROM ( b ) FROM ( SELECT 1 FRESHNESS 0 ) x",
            "EXPLAIN SELECT a IS DISTINCT FROM ( b ) FROM ( SELECT 1 ) x",
        ),
        (
            "COPY ( SELECT a FROM t , u FRESHNESS 0 ) TO STDOUT",
            "COPY ( SELECT a FROM t , u ) TO STDOUT",
        ),
    ] {
        check(sql, rest, expected);
    }
    // Beside others they would hold for these too.
    for sql in [
        "SELECT * FROM ( SELECT 1 FRESHNESS 0 ) x , t",
        "SELECT * FROM t , ( SELECT 1 FRESHNESS 0 ) x",
        "SELECT * FROM ( SELECT 1 FRESHNESS 0 ) x JOIN t ON true",
        "SELECT * FROM ( SELECT 1 FRESHNESS 0 ) x UNION SELECT 2",
        "SELECT * FROM t WHERE a IN ( SELECT 1 FRESHNESS 0 )",
        "SELECT * FROM ( SELECT 1 FRESHNESS 0 ) x WHERE a IN ( SELECT b FROM u )",
        "SELECT * FROM ( SELECT 1 FRESHNESS 0 ) x WHERE EXISTS ( TABLE u )",
        "SELECT ( SELECT b FROM u ) FROM ( SELECT 1 FRESHNESS 0 ) x",
        "WITH w AS ( SELECT b FROM u ) SELECT * FROM ( SELECT 1 FRESHNESS 0 ) x",
        "SELECT ( SELECT 1 FRESHNESS 0 )",
        "SELECT * FROM ( SELECT 1 FRESHNESS 0",
    ] {
        check(sql, sql, Clauses::default());
    }
    let error = take("SELECT * FROM ( SELECT 1 FRESHNESS 0 ) x FRESHNESS 5").unwrap_err();
    assert_eq!(error.sqlstate(), "42601");
    assert!(take("SELECT * FROM ( SELECT 1 FRESHNESS 0 ) x AS OF SCU 5").is_err());
}

#[test]
fn the_past_is_named_by_scu_or_moment() {
    let past = |point| Clauses {
        as_of: Some(point),
        ..Clauses::default()
    };
    let scu = PastPoint::Scu(ScuNumber(40));
    check("SELECT * FROM t AS OF SCU 40", "SELECT * FROM t", past(scu));
    let second = PastPoint::Micros(1_000_000);
    check(
        "SELECT * FROM t AS OF TIMESTAMP 1",
        "SELECT * FROM t",
        past(second),
    );
    let text = "SELECT * FROM t AS OF TIMESTAMP '1970-01-01T00:00:01Z'";
    check(text, "SELECT * FROM t", past(second));
    // What nanoseconds in 64 bits do not reach is a moment too.
    for (moment, days) in [("9999-12-31", 2_932_896), ("0001-01-01", -719_162)] {
        let micros = PastPoint::Micros(days * 86_400_000_000);
        let text = format!("SELECT * FROM t AS OF TIMESTAMP '{moment}'");
        check(&text, "SELECT * FROM t", past(micros));
    }
}

#[test]
fn names_like_clauses_work_elsewhere() {
    for sql in [
        "SELECT freshness FROM t",
        "SELECT freshness , after FROM t ORDER BY freshness",
        "SELECT * FROM freshness",
        "SELECT * FROM t WHERE freshness > 0",
        "SELECT * FROM t WHERE x = freshness",
        "SELECT * FROM ( SELECT 1 FRESHNESS ) AS x",
        "SELECT a AS freshness FROM t",
        "SELECT * FROM t \"freshness\"",
        "SELECT * FROM a JOIN b ON miss = 1",
    ] {
        check(sql, sql, Clauses::default());
    }
}

#[test]
fn duplicates_and_wrong_values_are_refused() {
    for sql in [
        "SELECT 1 FRESHNESS 0 FRESHNESS 1",
        "SELECT 1 FRESHNESS -1",
        "SELECT 1 FRESHNESS '-1'",
        "SELECT 1 FRESHNESS 1e400",
        "SELECT 1 FRESHNESS 'soon'",
        "SELECT 1 ON MISS DIG ON MISS ERROR",
        "SELECT 1 ON MISS WAIT 'long'",
        "SELECT 1 AS OF SCU 1 AS OF SCU 2",
        "SELECT 1 AS OF SCU 1.5",
        "SELECT 1 AS OF TIMESTAMP 'yesterday'",
        "SELECT 1 AS OF SCU 1 FRESHNESS 0",
        "SELECT 1 AFTER 'nonsense'",
    ] {
        assert!(take(sql).is_err(), "{sql}");
    }
}

/// Behind another clause ON MISS can mean nothing else, so that its word is told.
#[test]
fn a_word_that_on_miss_does_not_know_is_told() {
    for (sql, fact) in [
        (
            "SELECT 1 FRESHNESS 0 ON MISS PANIC",
            "unknown ON MISS choice \"PANIC\"",
        ),
        (
            "SELECT 1 FRESHNESS 0 ON MISS",
            "unknown ON MISS choice \"\"",
        ),
        (
            "SELECT 1 FRESHNESS 0 ON MISS WAIT",
            "ON MISS WAIT takes a duration",
        ),
    ] {
        let error = take(sql).unwrap_err();
        assert_eq!(
            (error.message(), error.sqlstate()),
            (fact, "42601"),
            "{sql}"
        );
    }
    let joined = "SELECT 1 FROM a JOIN b ON miss";
    check(joined, joined, Clauses::default());
}
